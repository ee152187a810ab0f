#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cufile_config
short_description: Change settings in the cufile.json of GPUDirect Storage and nothing else
version_added: 0.1.0
description:
  - Sets or takes out single values of C(/etc/cufile.json), which is JSON with comments. Comments, order, white space
    and line endings stay; what was not asked for does not change by a byte.
  - On Ubuntu C(/etc/cufile.json) is a link that C(update-alternatives) keeps. The link is followed and never replaced.
  - libcufile refuses a file with a single wrong value as a whole, and with it every program that uses cuFile. So names,
    types and limits are checked before anything is written, all problems are reported at once, and the new file takes
    the place of the old in one step.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Says what would change and writes nothing.
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
      - V(present) makes sure of O(settings).
      - V(absent) takes O(keys) out, so that libcufile's own values hold again. Comments stay.
    type: str
    choices: [present, absent]
    default: present
  settings:
    description:
      - What the file has to say, in the nesting of the file. Lists are replaced as a whole.
      - O(state=present) needs it.
    type: dict
  keys:
    description:
      - Dotted names of what to take out, such as V(properties.use_pci_p2pdma) or V(denylist). Those that are not there
        are fine.
      - O(state=absent) needs it.
    type: list
    elements: str
  create:
    description: Whether to make a file of O(settings) alone where there is none.
    type: bool
    default: false
  backup:
    description:
      - Whether to keep the old file beside the new one, under its name with the time and C(.bak), with the owner and
        mode of the original. One copy for each change.
    type: bool
    default: true
  allow_unknown:
    description: Whether to write settings that the list of known ones lacks, for a newer libcufile or a vendor's build.
    type: bool
    default: false
  gds_version:
    description:
      - The version of libcufile on the node, such as V(1.15.1.6). Settings that it does not know are refused then,
        since it would ignore them.
      - Not set, every setting of the known versions passes.
    type: str
notes:
  - Programs read the file when they open cuFile, so a change reaches those that start after it.
  - Needs root where a change has to be written.
seealso:
  - module: mlcluster.aws.gds_info
"""

EXAMPLES = r"""
- name: Let cuFile fall back to POSIX where there is no direct path
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

- name: Back to libcufile's own log level
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
  description: What changed, or would; a value is null where the setting does not exist.
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
  description: All that the file says now, or would say, parsed.
  returned: success
  type: dict
  sample: {"properties": {"allow_compat_mode": true}}
backup_file:
  description: The copy of the old file, null where none was made.
  returned: success
  type: str
  sample: /usr/local/cuda-13.0/gds/cufile.json.20260131T120000Z.bak
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_apply import FileHost, Wish, change
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
        outcome = change(FileHost(), Wish(**given), module.check_mode)
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
