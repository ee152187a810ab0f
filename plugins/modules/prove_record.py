#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: prove_record
short_description: Create the record of a proof on AWS
version_added: 0.1.0
description:
  - Writes a file with the region, the name and a random id of the run, before M(mlcluster.aws.prove_launch) creates
    anything. The file is durable when the module returns.
  - An existing file is never replaced; the module fails then.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Writes no file.
    support: full
options:
  path:
    description: The file to write, in an existing directory.
    type: path
    required: true
  region:
    description: The region of the run.
    type: str
    required: true
  run:
    description: The name of the run.
    type: str
    required: true
notes:
  - Runs where the playbook runs, which is the controller.
"""

EXAMPLES = r"""
- name: Create the record
  mlcluster.aws.prove_record:
    path: mlcluster-report/prove/prove-1/launched.json
    region: us-east-1
    run: prove-1
"""

RETURN = r"""
record:
  description: The content of the file.
  returned: success, except in check mode
  type: dict
  sample: {"region": "us-east-1", "run": "prove-1", "id": "0123456789abcdef0123456789abcdef"}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import proof


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "region": {"type": "str", "required": True},
            "run": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True)
    try:
        record = proof.create(module.params["path"], module.params["region"], module.params["run"])
    except proof.ProofError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(
            msg=f"nothing was launched: the record {module.params['path']} cannot be written: {exc}; set "
            "prove_on_aws_folder to a directory of yours"
        )
    module.exit_json(changed=True, record=record)


if __name__ == "__main__":
    main()
