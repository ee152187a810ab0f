#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fsx_lustre
short_description: Find or create a file system of FSx for Lustre
version_added: 0.1.0
description:
  - Creates a persistent file system with LZ4 that outlives every cluster, or finds the existing one.
  - Associates its directories with prefixes in S3.
  - Never deletes anything, and only adds missing associations to an existing file system.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._cluster
attributes:
  check_mode:
    description: Creates nothing, and reports what it would create.
    support: full
options:
  name:
    description: Name of the file system, kept in the tags C(Name) and C(mlcluster:filesystem).
    type: str
    required: true
  file_system_id:
    description: Identifier of an existing file system, of any cluster. Empty searches by O(name) and O(cluster).
    type: str
    default: ""
  cluster:
    description:
      - The cluster of the file system, recorded in the tag C(mlcluster:cluster). Empty accepts any file system with the
        name.
      - A file system of this name for another cluster is rejected.
    type: str
    default: ""
  gib:
    description: Capacity in GiB, 1200 or a multiple of 2400; not needed with O(file_system_id).
    type: int
  throughput:
    description: MB/s for each TiB; 50, 100 and 200 are those of V(PERSISTENT_1), the others of V(PERSISTENT_2).
    type: int
    choices: [50, 100, 125, 200, 250, 500, 1000]
  deployment:
    description: Deployment type. V(PERSISTENT_1) is for regions without V(PERSISTENT_2), and has no EFA.
    type: str
    choices: [PERSISTENT_2, PERSISTENT_1]
    default: PERSISTENT_2
  efa:
    description: Whether clients reach it over EFA, and GPUDirect Storage works; cannot be changed later.
    type: bool
    default: false
  subnet:
    description: The subnet, in the zone of the compute nodes; required for creation.
    type: str
  groups:
    description: >-
      Security groups that admit the nodes on ports 988 and 1018-1023, and with EFA all traffic from themselves.
    type: list
    elements: str
    default: []
  kms_key:
    description: ARN of a key; empty uses the key of FSx.
    type: str
    default: ""
  associations:
    description: Associations with S3.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path in the file system, as /datasets.
        type: str
        required: true
      s3:
        description: The bucket and prefix, as s3://bucket/datasets.
        type: str
        required: true
      export:
        description: Whether written files are exported to S3.
        type: bool
        default: false
  tags:
    description: Additional tags.
    type: dict
    default: {}
  wait:
    description: Whether to wait until it can be mounted.
    type: bool
    default: true
  wait_timeout:
    description: Seconds to wait.
    type: int
    default: 1800
"""

EXAMPLES = r"""
- name: A file system for checkpoints, with EFA
  mlcluster.aws.fsx_lustre:
    region: ap-southeast-3
    name: fsx-checkpoints
    gib: 9600
    throughput: 1000
    efa: true
    subnet: subnet-0123456789abcdef1
    groups: [sg-0aaaaaaaaaaaaaaa1]
"""

RETURN = r"""
file_system:
  description: Description by FSx; none in check mode if it does not exist.
  returned: success
  type: dict
  sample: {"FileSystemId": "fs-0123456789abcdef2", "Lifecycle": "AVAILABLE"}
id:
  description: Its identifier, empty in check mode if it does not exist.
  returned: success
  type: str
  sample: fs-0123456789abcdef2
actions:
  description: Actions that were taken, or would be.
  returned: success
  type: list
  elements: str
  sample: [make fsx-checkpoints with 7200 GiB]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, fsx


def ensure(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the file system and the actions that were taken."""
    params, client = module.params, aws.client(module.params, "fsx")
    found, actions = fsx.find(client, params["name"], params["file_system_id"], params["cluster"]), []
    if found:
        fsx.refuse_broken([found], found["FileSystemId"])
        wrong = fsx.differences(found, params)
        if wrong:
            raise aws.AwsError("; ".join(wrong))
        existing = fsx.associations(client, found["FileSystemId"]) if params["associations"] else []
        links = fsx.missing_associations(existing, params)
        # A failed association imports no file, and a second one on its path is not possible.
        wanted = [link["path"] for link in params["associations"]]
        fsx.refuse_broken(
            [entry for entry in existing if entry["FileSystemPath"] in wanted],
            f"an association of {found['FileSystemId']}",
        )
    else:
        lacking = [key for key in ("gib", "throughput", "subnet", "groups") if not params[key]]
        # In check mode the network may not exist yet, and with it the subnet.
        if lacking and not (module.check_mode and not {"gib", "throughput"} & set(lacking)):
            raise aws.AwsError(
                f"there is no file system {params['name']}, and to make one {', '.join(lacking)} are needed"
            )
        actions.append(f"make {params['name']} with {params['gib']} GiB and {params['throughput']} MB/s for each TiB")
        links = [dict(link) for link in params["associations"]]
    actions += [f"associate {link['path']} with {link['s3']}" for link in links]
    if module.check_mode:
        return {
            "changed": bool(actions),
            "file_system": found,
            "actions": actions,
            "id": (found or {}).get("FileSystemId", ""),
        }
    if not found:
        with aws.doing(f"making the file system {params['name']}"):
            found = t.cast("dict[str, t.Any]", client.create_file_system(**fsx.request(params))["FileSystem"])
    identifier = found["FileSystemId"]
    if params["wait"] or links:
        fsx.wait(
            lambda: [t.cast("dict[str, t.Any]", fsx.find(client, "", identifier))], identifier, params["wait_timeout"]
        )
    for link in links:
        fsx.associate(client, identifier, link)
    if links and params["wait"]:
        fsx.wait(
            lambda: fsx.associations(client, identifier), f"an association of {identifier}", params["wait_timeout"]
        )
    return {
        "changed": bool(actions),
        "file_system": fsx.find(client, "", identifier),
        "actions": actions,
        "id": identifier,
    }


def main() -> None:
    links = {
        "path": {"type": "str", "required": True},
        "s3": {"type": "str", "required": True},
        "export": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={
            **aws.OPTIONS,
            "name": {"type": "str", "required": True},
            "file_system_id": {"type": "str", "default": ""},
            "cluster": {"type": "str", "default": ""},
            "gib": {"type": "int"},
            "throughput": {"type": "int", "choices": [50, 100, 125, 200, 250, 500, 1000]},
            "deployment": {"type": "str", "choices": ["PERSISTENT_2", "PERSISTENT_1"], "default": "PERSISTENT_2"},
            "efa": {"type": "bool", "default": False},
            "subnet": {"type": "str"},
            "groups": {"type": "list", "elements": "str", "default": []},
            "kms_key": {"type": "str", "default": "", "no_log": False},
            "associations": {"type": "list", "elements": "dict", "default": [], "options": links},
            "tags": {"type": "dict", "default": {}},
            "wait": {"type": "bool", "default": True},
            "wait_timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**ensure(module))
    except aws.AwsError as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
