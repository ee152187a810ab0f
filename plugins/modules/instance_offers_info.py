#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_offers_info
short_description: Read the instance types that a region offers
version_added: 0.1.0
description:
  - Reads from EC2 which instance types a region or a zone offers, and the data of O(types).
  - Changes nothing.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._cluster
attributes:
  check_mode:
    description: Reads only, in check mode too.
    support: full
options:
  types:
    description: The types whose data is returned.
    type: list
    elements: str
    required: true
  zone:
    description: An availability zone; empty queries the region.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Read the offers of Jakarta
  mlcluster.aws.instance_offers_info:
    region: ap-southeast-3
    types: [p5e.48xlarge, c7i.4xlarge]
  register: offers
"""

RETURN = r"""
offered:
  description: Names of all types that are offered there.
  returned: success
  type: list
  elements: str
  sample: [c7i.4xlarge, p5e.48xlarge]
types:
  description: Data of EC2 DescribeInstanceTypes for those of O(types) that are offered, by name.
  returned: success
  type: dict
  sample: {"c7i.4xlarge": {"InstanceType": "c7i.4xlarge"}}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import instance_offers as offers


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **aws.OPTIONS,
            "types": {"type": "list", "elements": "str", "required": True},
            "zone": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    try:
        ec2 = aws.client(module.params, "ec2")
        with aws.doing(f"asking what {module.params['zone'] or module.params['region']} offers"):
            found = offers.look(ec2, module.params["types"], module.params["zone"])
    except aws.AwsError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
