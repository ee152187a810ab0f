#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_verdict
short_description: End a run with a table of what was proved of each node
version_added: 0.1.0
description:
  - Prints which role of this collection was proved on which node, changed something, does not apply, was not proved or
    failed, and why. Nodes of which the same is true share a line.
  - Fails with one sentence where a required role was not proved on a node or failed, where a node has less hardware
    than the inventory says, or where the run ended on a node before. Check mode proves nothing, and fails for nothing.
  - Takes what the roles have found in this run, and asks no node.
  - With O(role) it only keeps what a role has found that does not do so itself.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Writes no file and fails for nothing.
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
    description: A role whose findings are given here, to be kept until the end.
    type: str
  results:
    description: Its verdicts in the schema C(mlcluster.result/1).
    type: list
    elements: dict
    default: []
  problems:
    description: What is not as wanted, a sentence each.
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
- name: Show what was proved
  mlcluster.aws.run_verdict:
    report: mlcluster-report/verdict.jsonl
  run_once: true
"""

RETURN = r"""
lines:
  description: What was printed.
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
  sample: "1 of 81 nodes did not get what was asked for: p5-1 (efa_nccl failed); the table above has the reasons"
"""
