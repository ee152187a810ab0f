#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: prove_launch
short_description: Launch the instance of a proof on AWS
version_added: 0.1.0
description:
  - Creates the key pair, the security group and the instance of a run, and waits until the instance runs. Its volumes
    end with it.
  - Every resource has the random id of O(record) as a tag. It is the client token of the launch, too, so that a sweep
    finds the instance if the controller dies before it has the id of the instance.
  - Adds the ids of the instance and of its volumes to O(record). A record that has launched an instance is rejected.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._cluster
attributes:
  check_mode:
    description: Launches nothing.
    support: full
options:
  record:
    description: The file that M(mlcluster.aws.prove_record) has written.
    type: path
    required: true
  tags:
    description: Tags of every resource.
    type: dict
    required: true
  vpc:
    description: The VPC of the subnet.
    type: str
    required: true
  subnet:
    description: The subnet of the instance.
    type: str
    required: true
  ssh_cidr:
    description: The IPv4 network that may reach port 22.
    type: str
    required: true
  type:
    description: The instance type.
    type: str
    required: true
  image:
    description: The id of the image.
    type: str
    required: true
  public_key:
    description: The public key for ssh.
    type: str
    required: true
  user_data:
    description: The user data of the instance.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Launch the instance
  mlcluster.aws.prove_launch:
    region: us-east-1
    record: mlcluster-report/prove/prove-1/launched.json
    tags: "{{ plan.tags }}"
    vpc: "{{ plan.vpc }}"
    subnet: "{{ plan.subnet }}"
    ssh_cidr: 203.0.113.7/32
    type: c5d.large
    image: ami-0123456789abcdef0
    public_key: "{{ lookup('ansible.builtin.file', 'key.pub') }}"
    user_data: "{{ user_data }}"
"""

RETURN = r"""
record:
  description: The content of the record.
  returned: success, except in check mode
  type: dict
  sample: {"region": "us-east-1", "run": "prove-1", "id": "0123456789abcdef0123456789abcdef", "requested": 1767225600,
    "instances": ["i-0123456789abcdef0"], "volumes": ["vol-0123456789abcdef0"]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, proof


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **aws.OPTIONS,
            "record": {"type": "path", "required": True},
            "tags": {"type": "dict", "required": True},
            "vpc": {"type": "str", "required": True},
            "subnet": {"type": "str", "required": True},
            "ssh_cidr": {"type": "str", "required": True},
            "type": {"type": "str", "required": True},
            "image": {"type": "str", "required": True},
            "public_key": {"type": "str", "required": True, "no_log": False},
            # It has the private host key.
            "user_data": {"type": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True)
    try:
        record = proof.launch(aws.client(module.params, "ec2"), module.params["record"], module.params)
    except (proof.ProofError, aws.AwsError) as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"the record {module.params['record']} of the run failed: {exc}")
    module.exit_json(changed=True, record=record)


if __name__ == "__main__":
    main()
