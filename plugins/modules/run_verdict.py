#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_verdict
short_description: End a run with a table of the verdicts on each node
version_added: 0.1.0
description:
  - Prints which role of this collection was proved on which node, changed something, does not apply, was not proved or
    failed, and why. Nodes with the same results share a line.
  - Fails with one sentence if a required role was not proved on a node or failed, if a node has less hardware than the
    inventory states, or if the run ended early on a node. Check mode proves nothing and never fails.
  - Uses the findings of the roles in this run, without a query to a node.
  - With O(role) it only records the findings of a role that does not record them itself.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Writes no file and never fails.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  report:
    description:
      - A file on the controller to write. Each node has a line in it, a JSON document in the schema
        C(mlcluster.report/1), with every verdict of its roles, and one with the id C(run.ROLE) for each role.
    type: path
  role:
    description: A role whose findings are passed here and recorded until the end.
    type: str
  results:
    description: Its verdicts in the schema C(mlcluster.result/1).
    type: list
    elements: dict
    default: []
  problems:
    description: Problems, one sentence each.
    type: list
    elements: str
    default: []
  reason:
    description: Why the role does not apply to the node.
    type: str
  required:
    description: Whether problems of this role fail the run.
    type: bool
    default: true
seealso:
  - module: mlcluster.aws.node_plan
"""

EXAMPLES = r"""
- name: Show the verdicts
  mlcluster.aws.run_verdict:
    report: mlcluster-report/verdict.jsonl
  run_once: true
"""

RETURN = r"""
lines:
  description: The printed lines.
  returned: without O(role)
  type: list
  elements: str
  sample: ["verdict: 76 nodes: all proved (nvme_raid0, efa_nccl)"]
nodes:
  description: The state of each role on each node.
  returned: without O(role)
  type: dict
  sample: {"p5-1": {"nvme_raid0": "proved", "nvidia_gds": "not applicable"}}
msg:
  description: Why the run fails.
  returned: failure
  type: str
  sample: "1 of 81 nodes failed or not proved: p5-1 (efa_nccl failed); the table above has the reasons"
"""
