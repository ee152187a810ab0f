#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: role_remains_info
short_description: List what the removal of a role has kept on a node
version_added: 0.1.0
description:
  - Returns the items of which at least one path exists, so that a removal reports only what was there.
  - Changes nothing.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Reads only, in check mode too.
    support: full
options:
  items:
    description: The items that the removal keeps.
    type: list
    elements: dict
    required: true
    suboptions:
      what:
        description: Description of the item.
        type: str
        required: true
      paths:
        description:
          - Its paths; one that exists suffices. They may have wildcards as in a shell, and a link need not lead on.
        type: list
        elements: str
        default: []
      found:
        description: Whether it exists, for an item that no path shows.
        type: bool
        default: false
"""

EXAMPLES = r"""
- name: List what was kept
  mlcluster.aws.role_remains_info:
    items:
      - what: the results
        paths: [/fsx/mlcluster/jobs/results]
  register: remains
"""

RETURN = r"""
kept:
  description: Descriptions of the items that exist.
  returned: success
  type: list
  elements: str
  sample: ["the results"]
text:
  description: The same as one string; V(nothing) without any.
  returned: success
  type: str
  sample: the results
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import remains


def main() -> None:
    spec = {
        "what": {"type": "str", "required": True},
        "paths": {"type": "list", "elements": "str", "default": []},
        "found": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={"items": {"type": "list", "elements": "dict", "required": True, "options": spec}},
        supports_check_mode=True,
    )
    kept = remains.present(module.params["items"])
    module.exit_json(changed=False, kept=kept, text="; ".join(kept) or "nothing")


if __name__ == "__main__":
    main()
