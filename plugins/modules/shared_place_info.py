#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: shared_place_info
short_description: Tell whether files of a path are seen by other nodes, or land on the root disk
version_added: 0.1.0
description:
  - Below a file system that nobody has mounted, directories are made on the root disk without a word. This says so.
  - What counts as shared is a network file system, and what this machine exports by NFS.
  - A path that is not there yet is judged by the nearest directory above it. An automount is touched.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Reads only, in check mode too.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  paths:
    description: Absolute paths.
    type: list
    elements: str
    required: true
  timeout:
    description: Seconds after which a path that gives no answer counts as silent.
    type: int
    default: 30
seealso:
  - module: mlcluster.aws.lustre_info
"""

EXAMPLES = r"""
- name: See where the jobs' directory would be
  mlcluster.aws.shared_place_info:
    paths: [/fsx/mlcluster/jobs]
  register: place

- name: Refuse the root disk
  ansible.builtin.assert:
    that: place.problems == []
    fail_msg: "{{ place.problems | join('; ') }}"
"""

RETURN = r"""
places:
  description: >-
    For each path C(path), C(mount), C(source), C(fstype), C(state) (shared, local, root, silent) and C(why).
  returned: success
  type: list
  elements: dict
  sample: [{"path": "/fsx/jobs", "mount": "/", "source": "/dev/root", "fstype": "ext4", "state": "root", "why": ""}]
problems:
  description: A sentence for each path that is on the root disk, or gives no answer.
  returned: success
  type: list
  elements: str
  sample: []
shared:
  description: Mount points of network file systems, and what this machine exports.
  returned: success
  type: list
  elements: str
  sample: [/fsx1, /fsx2, /home]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import shared_place
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "str", "required": True},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    strange = [path for path in module.params["paths"] if not path.startswith("/")]
    if strange:
        module.fail_json(msg=f"paths has {', '.join(map(repr, strange))}: give absolute paths")
    host = Host()
    places = [shared_place.look(host, path, module.params["timeout"]) for path in module.params["paths"]]
    elsewhere = shared_place.shared_mounts(host)
    module.exit_json(
        changed=False,
        places=places,
        problems=[told for told in (shared_place.problem(seen, elsewhere) for seen in places) if told],
        shared=elsewhere,
    )


if __name__ == "__main__":
    main()
