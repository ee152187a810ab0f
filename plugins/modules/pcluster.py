#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pcluster
short_description: Create, follow and delete a cluster of AWS ParallelCluster
version_added: 0.1.0
description:
  - Calls the program C(pcluster) of AWS ParallelCluster 3.16, one step at a time, and judges its answers.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Creates and deletes nothing, and reports whether it would; the dry run is made.
    support: full
options:
  name:
    description: Name of the cluster.
    type: str
    required: true
  region:
    description: The region.
    type: str
    required: true
  profile:
    description: Name of the profile in the AWS configuration files.
    type: str
  program:
    description: The program; a bare name is looked up on the path.
    type: str
    default: pcluster
  step:
    description:
      - V(describe) reads the present state.
      - V(try) makes a dry run, and fails with all findings against the creation.
      - V(create) starts the creation of a missing cluster, V(delete) the deletion of an existing one.
      - V(wait) returns as soon as there is new progress.
    type: str
    choices: [describe, try, create, wait, delete]
    default: describe
  config:
    description: The configuration, for V(try) and V(create).
    type: dict
  rollback:
    description: Whether a failed creation is rolled back; false keeps it for inspection.
    type: bool
    default: true
  last_progress:
    description: The last RV(progress). V(wait) returns early as soon as the present progress differs from it.
    type: str
    default: ""
  seconds:
    description: Seconds that V(wait) waits for new progress.
    type: int
    default: 60
  status_only:
    description: Whether V(wait) returns early only for a new status of the cluster, not for each new resource.
    type: bool
    default: false
  os:
    description: The operating system of the configuration, which decides the user of RV(login_commands).
    type: str
    default: ""
  key_path:
    description: The private key in RV(login_commands).
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Check whether the cluster can be created
  mlcluster.aws.pcluster:
    name: training
    region: ap-southeast-3
    program: .venv-pcluster/bin/pcluster
    step: try
    config: "{{ config }}"
"""

RETURN = r"""
cluster:
  description: Output of C(pcluster describe-cluster); none without a cluster of the name.
  returned: success
  type: dict
  sample: {"clusterName": "training", "clusterStatus": "CREATE_COMPLETE", "region": "ap-southeast-3"}
findings:
  description: Messages of the validators.
  returned: success
  type: list
  elements: str
  sample: ["WARNING: Detailed Monitoring is enabled (DetailedMonitoringValidator)"]
progress:
  description: The progress as one line.
  returned: success
  type: str
  sample: "training: CREATE_IN_PROGRESS, 12 min, 8 of 40 resources complete, last HeadNode"
finished:
  description: Whether nothing is in progress any more.
  returned: success
  type: bool
  sample: true
login_commands:
  description: Three commands to log in to the head node, once it exists.
  returned: success
  type: list
  elements: str
  sample: ["pcluster ssh --cluster-name training --region ap-southeast-3"]
"""

import json
import os
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import pcluster
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster.aws import AwsError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host


def written(config: dict[str, t.Any], folder: str) -> str:
    """Yield a private file with the configuration; JSON is YAML."""
    handle, path = tempfile.mkstemp(suffix=".yaml", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(config, stream)
    return path


def do_step(module: AnsibleModule, program: pcluster.Pcluster) -> dict[str, t.Any]:
    """Run one step and return its result."""
    params = module.params
    result: dict[str, t.Any] = {"changed": False, "findings": [], "progress": ""}
    step = params["step"]
    if step == "wait":
        cluster, result["progress"] = program.wait(params["last_progress"], params["seconds"], params["status_only"])
        return {**result, "cluster": cluster}
    cluster = program.describe()
    if step == "delete" and cluster is not None:
        result["changed"] = True
        if not module.check_mode and cluster["clusterStatus"] != "DELETE_IN_PROGRESS":
            program.delete()
    if step in ("try", "create") and cluster is None:
        path = written(params["config"], module.tmpdir)
        if step == "try":
            good, message, result["findings"] = program.dry_run(path)
            if not good:
                raise AwsError(f"the dry run reported: {'; '.join([message, *result['findings']])}")
        else:
            result["changed"] = True
            if not module.check_mode:
                program.create(path, params["rollback"])
    return {**result, "cluster": cluster}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "region": {"type": "str", "required": True},
            "profile": {"type": "str"},
            "program": {"type": "str", "default": "pcluster"},
            "step": {
                "type": "str",
                "choices": ["describe", "try", "create", "wait", "delete"],
                "default": "describe",
            },
            "config": {"type": "dict"},
            "rollback": {"type": "bool", "default": True},
            "last_progress": {"type": "str", "default": ""},
            "seconds": {"type": "int", "default": 60},
            "status_only": {"type": "bool", "default": False},
            "os": {"type": "str", "default": ""},
            "key_path": {"type": "str", "default": "", "no_log": False},
        },
        required_if=[("step", "try", ["config"]), ("step", "create", ["config"])],
        supports_check_mode=True,
    )
    params = module.params
    program = pcluster.Pcluster(Host(), params["program"], params["name"], params["region"], params["profile"])
    try:
        result = do_step(module, program)
    except AwsError as exc:
        module.fail_json(msg=str(exc))
    cluster = result["cluster"]
    running = cluster is not None and cluster["clusterStatus"] in pcluster.RUNNING
    commands = (
        pcluster.login_commands(cluster, params["os"], params["key_path"]) if cluster and "headNode" in cluster else []
    )
    module.exit_json(**result, finished=not running, login_commands=commands)


if __name__ == "__main__":
    main()
