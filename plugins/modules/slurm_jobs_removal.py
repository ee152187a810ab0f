#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_jobs_removal
short_description: Remove the files of the role slurm_jobs, and keep the results
version_added: 0.1.0
description:
  - Removes the scripts that Slurm runs before and after jobs from its configuration, and deletes them, the scripts of
    jobs, the tools that were built, the data programs and the runtime.
  - Other files are kept, also copies of scripts, and data programs that were changed.
  - If it is unknown which scripts Slurm runs, or it still runs one of these, nothing is deleted, since a missing script
    would drain every node.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._slurm
attributes:
  check_mode:
    description: Reports what would be removed.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  dir:
    description: The directory of the scripts, as in C(slurm_jobs_dir).
    type: path
    required: true
  checks:
    description: Location of the scripts for Slurm, as in C(slurm_jobs_checks).
    type: dict
    default: {}
seealso:
  - module: mlcluster.aws.slurm_info
"""

EXAMPLES = r"""
- name: Remove the scripts of jobs
  mlcluster.aws.slurm_jobs_removal:
    dir: /fsx/mlcluster/jobs
"""

RETURN = r"""
removed:
  description: Files and directories that were deleted.
  returned: success
  type: list
  elements: str
  sample: [/fsx/mlcluster/jobs/smoke.sbatch, /fsx/mlcluster/jobs/mlcluster.pyz]
configured:
  description: Files of Slurm's configuration that were changed or deleted.
  returned: success
  type: list
  elements: str
  sample: [/etc/slurm/slurm.conf, /etc/slurm/mlcluster_checks.conf]
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import checks as node_checks
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import remove
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import write_new
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "dir": {"type": "path", "required": True},
            "checks": {"type": "dict", "default": {}},
            "prefix": {"type": "path"},
            "conf": {"type": "path"},
        },
        supports_check_mode=True,
    )
    host = Host()
    given = module.params
    problems = node_checks.problems(given["checks"])
    if problems:
        module.fail_json(msg="; ".join(problems))
    checks = node_checks.wanted(given["checks"])

    def rewrite(path: str, text: str) -> None:
        module.backup_local(path)
        fresh = os.path.join(module.tmpdir, "configuration")
        write_new(fresh, text.encode())
        # Keeps owner and mode of the existing file.
        module.atomic_move(fresh, path)

    configured: list[str] = []
    found = remove.find(host, given["dir"], checks)
    try:
        if found["scripts"]:
            slurm = Slurm(host, given["prefix"], given["conf"])
            configured = remove.deregister_checks(host, slurm, checks, None if module.check_mode else rewrite)
        if not module.check_mode:
            remove.remove(host, found)
    except (NodeError, OSError) as exc:
        module.fail_json(msg=str(exc), changed=bool(configured), configured=configured)
    removed = [path for paths in found.values() for path in paths]
    module.exit_json(changed=bool(removed or configured), removed=removed, configured=configured)


if __name__ == "__main__":
    main()
