#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_info
short_description: Show the resources and the state of a Slurm cluster
version_added: 0.1.0
description:
  - Looks once at the controller, the partitions, the nodes with their GPUs, the jobs on them, the accounting, and the
    launch methods of C(srun).
  - A controller that does not answer, and a machine without Slurm, are results, not failures.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._slurm
attributes:
  check_mode:
    description: Never changes anything.
    support: full
  diff_mode:
    description: Never changes anything.
    support: none
notes:
  - Needs Slurm's commands and no more permissions than any user of the cluster. If C(PrivateData) hides jobs from
    users, run it as root, or RV(jobs) has only those of the user.
seealso:
  - module: mlcluster.aws.slurm_job
"""

EXAMPLES = r"""
- name: Look at the cluster
  mlcluster.aws.slurm_info:
  register: slurm

- name: Restart slurmd if no job runs
  ansible.builtin.systemd_service:
    name: slurmd
    state: restarted
  when: slurm.healthy and slurm.jobs_by_node[ansible_facts['hostname']] | default([]) == []
"""

RETURN = r"""
version:
  description: Version of Slurm's commands, null if they do not report it.
  returned: always
  type: str
  sample: 25.11.4
prefix:
  description: The directory above C(bin) in use, null for the system path.
  returned: always
  type: str
  sample: /opt/slurm
controllers:
  description: The controllers, from C(scontrol ping).
  returned: always
  type: list
  elements: dict
  sample: [{"role": "primary", "host": "head", "up": true}]
installed:
  description: Whether the machine has Slurm's commands. If not, everything else is empty.
  returned: always
  type: bool
  sample: true
healthy:
  description: Whether a controller answers. If not, everything below is empty and proves nothing.
  returned: always
  type: bool
  sample: true
problems:
  description: One sentence for each part that could not be read.
  returned: always
  type: list
  elements: str
  sample: []
nodes:
  description:
    - Every node. C(state) is the base state, C(flags) its additions (C(DRAIN), C(NOT_RESPONDING), C(CLOUD)).
    - C(availability) is C(takes) if jobs start on the node, C(returns) if none starts now and Slurm changes that
      automatically, C(closed) if none starts until an administrator acts, and C(unknown) for an unknown word in the
      state. C(availability_reason) is the reason.
    - C(up) is whether slurmd runs on the node and is registered, C(drained) whether the node is drained, and
      C(slurmd_started) when slurmd was started.
    - C(next_state) is the state after a reboot that was requested, null without one.
    - C(boot_time) is when the node booted, null before it has reported it.
    - Memory is in MiB; C(reason), C(reason_by) and C(reason_at) are null without a reason.
  returned: always
  type: list
  elements: dict
  sample:
    - name: n1
      state: IDLE
      flags: [DRAIN]
      availability: closed
      availability_reason: drained
      reason: Xid 79
      gpus: 8
      gpus_allocated: 0
partitions:
  description: Every partition; null means no limit.
  returned: always
  type: list
  elements: dict
  sample: [{"name": "main", "state": "UP", "default": true, "node_count": 80, "max_nodes": null, "max_seconds": 3600}]
jobs:
  description: The jobs that have processes on nodes now.
  returned: always
  type: list
  elements: dict
  sample: [{"job_id": 7, "id": "7", "state": "RUNNING", "user": "ana", "partition": "main", "nodes": ["n1"]}]
jobs_by_node:
  description: Job ids by node; nodes without jobs are omitted.
  returned: always
  type: dict
  sample: {"n1": [7]}
mpi_types:
  description: Types that C(srun --mpi) lists. A listed type does not prove that its library can be loaded.
  returned: always
  type: list
  elements: str
  sample: [none, pmi2, pmix, pmix_v4]
container_options:
  description: Number of times that C(srun --help) offers C(--container-image). 0 without Pyxis, 1 with it, 2 if it is
    loaded twice.
  returned: always
  type: int
  sample: 1
accounting:
  description: Whether C(slurmdbd) keeps the accounts.
  returned: always
  type: bool
  sample: true
accounts:
  description: Names of the accounts, empty without accounting.
  returned: always
  type: list
  elements: str
  sample: [research, root]
associations:
  description: Which user may use which account.
  returned: always
  type: list
  elements: dict
  sample: [{"account": "research", "user": "ana", "partition": null, "qos": ["normal"]}]
qos:
  description: Names of the qualities of service, empty without accounting.
  returned: always
  type: list
  elements: str
  sample: [normal]
licenses:
  description: Number of each license of the cluster.
  returned: always
  type: dict
  sample: {"matlab": 2}
settings:
  description: The lines of C(scontrol show config); null for a value that is not set.
  returned: always
  type: dict
  sample: {"MinJobAge": "300 sec", "Prolog": null}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.look import survey
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError


def main() -> None:
    module = AnsibleModule(
        argument_spec={"prefix": {"type": "path"}, "conf": {"type": "path"}}, supports_check_mode=True
    )
    try:
        facts = survey(Slurm(Host(), module.params["prefix"], module.params["conf"]))
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **facts)


if __name__ == "__main__":
    main()
