#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cufile_config
short_description: Change single settings in the cufile.json of GPUDirect Storage
version_added: 0.1.0
description:
  - Sets or removes single values of C(/etc/cufile.json), which is JSON with comments. Comments, order, white space and
    line endings are kept; everything else stays byte for byte the same.
  - On Ubuntu C(/etc/cufile.json) is a link that C(update-alternatives) keeps. The link is followed and never replaced.
  - libcufile rejects a whole file for a single wrong value, so that every program with cuFile fails. Therefore names,
    types and limits are checked before anything is written, all problems are reported at once, and the file is replaced
    atomically.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Reports what would change and writes nothing.
    support: full
  diff_mode:
    description: Shows the file before and after.
    support: full
options:
  path:
    description: The file, or a link to it.
    type: path
    default: /etc/cufile.json
  state:
    description:
      - V(present) ensures O(settings).
      - V(absent) removes O(keys), so that libcufile's own values apply again. Comments are kept.
    type: str
    choices: [present, absent]
    default: present
  settings:
    description:
      - Settings of the file, in its nesting. Lists are replaced completely.
      - Required with O(state=present).
    type: dict
  keys:
    description:
      - Dotted names of the settings to remove, such as V(properties.use_pci_p2pdma) or V(denylist). Missing ones are
        ignored.
      - Required with O(state=absent).
    type: list
    elements: str
  create:
    description: Whether to create a file with only O(settings) if it is missing.
    type: bool
    default: false
  backup:
    description:
      - Whether to keep a copy of the old file in the same directory, under its name with the time and C(.bak), with the
        owner and mode of the original. One copy for each change.
    type: bool
    default: true
  allow_unknown:
    description: Whether to write settings that the list of known ones lacks, for a newer libcufile or a vendor's build.
    type: bool
    default: false
  gds_version:
    description:
      - The version of libcufile on the node, such as V(1.15.1.6). Settings that this version does not know are then
        rejected, since it would ignore them.
      - Without it, the settings of every known version are accepted.
    type: str
notes:
  - Programs read the file when they open cuFile, so a change applies to programs that start after it.
  - Needs root to write a change.
seealso:
  - module: mlcluster.aws.gds_info
"""

EXAMPLES = r"""
- name: Let cuFile fall back to POSIX without a direct path
  mlcluster.aws.cufile_config:
    settings:
      properties:
        allow_compat_mode: true

- name: Use PCI peer-to-peer for local NVMe (GDS 1.16 or newer)
  mlcluster.aws.cufile_config:
    gds_version: 1.16.1.26
    settings:
      properties:
        use_pci_p2pdma: true
      block:
        nvme:
          use_pci_p2pdma: true

- name: Restore libcufile's own log level
  mlcluster.aws.cufile_config:
    state: absent
    keys: [logging.level]
"""

RETURN = r"""
target:
  description: The file behind the link.
  returned: success
  type: str
  sample: /usr/local/cuda-13.0/gds/cufile.json
changes:
  description: Changes that were made, or would be; a value is null if the setting does not exist.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: Dotted name.
      type: str
      sample: properties.allow_compat_mode
    before:
      description: The value before.
      type: raw
      sample: false
    after:
      description: The value after.
      type: raw
      sample: true
config:
  description: Content of the file now, or after the change in check mode, parsed.
  returned: success
  type: dict
  sample: {"properties": {"allow_compat_mode": true}}
backup_file:
  description: The copy of the old file, null if none was made.
  returned: success
  type: str
  sample: /usr/local/cuda-13.0/gds/cufile.json.20260131T120000Z.bak
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_apply import FileHost, Request, change
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_plan import DEFAULT_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": DEFAULT_PATH},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "settings": {"type": "dict"},
            "keys": {"type": "list", "elements": "str", "no_log": False},
            "create": {"type": "bool", "default": False},
            "backup": {"type": "bool", "default": True},
            "allow_unknown": {"type": "bool", "default": False},
            "gds_version": {"type": "str"},
        },
        required_if=[("state", "present", ("settings",)), ("state", "absent", ("keys",))],
        mutually_exclusive=[("settings", "keys")],
        supports_check_mode=True,
    )
    given = {name: value for name, value in module.params.items() if name != "state" and value is not None}
    try:
        outcome = change(FileHost(), Request(**given), module.check_mode)
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=bool(outcome.changes),
        target=outcome.target,
        changes=[{"key": item.key, "before": item.before, "after": item.after} for item in outcome.changes],
        config=outcome.config,
        backup_file=outcome.backup_file,
        diff={
            "before": outcome.before,
            "after": outcome.after,
            "before_header": outcome.target,
            "after_header": outcome.target,
        },
    )


if __name__ == "__main__":
    main()
