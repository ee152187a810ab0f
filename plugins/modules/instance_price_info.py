#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_price_info
short_description: Read the hourly price of an instance type
version_added: 0.1.0
description:
  - Reads the on-demand price of an instance type with plain Linux from AWS's price list.
  - An unknown price is not a failure, since the permissions for the list are often missing; RV(reason) has the reason.
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
  type:
    description: The instance type.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Read the price of a node
  mlcluster.aws.instance_price_info:
    region: us-east-1
    type: c5d.large
  register: price
"""

RETURN = r"""
dollars:
  description: Dollars per hour; null if it is unknown.
  returned: success
  type: float
  sample: 0.096
reason:
  description: Why it is unknown, else empty.
  returned: success
  type: str
  sample: ""
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, price


def main() -> None:
    module = AnsibleModule(
        argument_spec={**aws.OPTIONS, "type": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    kind, region = module.params["type"], module.params["region"]
    try:
        pricing = aws.client({**module.params, "region": price.REGION}, "pricing")
        with aws.doing("asking the price list"):
            found = price.look(pricing, kind, region)
    except aws.AwsError as exc:
        found = {"dollars": None, "reason": str(exc)}
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
