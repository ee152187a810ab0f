#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Judge before a run what can be known before it
version_added: 0.1.0
description:
  - Judges the controller (ansible-core, collections, libraries), the inventory (hosts, instance types, groups of nearly
    the right name), variables (names that nothing reads, options of roles), checksums of what nodes would download,
    credentials and rights in AWS, and how each node is reached.
  - Asks no node itself. The tasks of C(playbooks/preflight.yml) do, and register C(preflight_ssh), C(preflight_sudo)
    and C(preflight_python), which this reads; a node without them counts as one that was not asked.
  - Rights are those of the policies in C(docs/iam). IAM is asked with iam:SimulatePrincipalPolicy what the caller may
    do; nothing is tried.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Changes nothing but O(report), which check mode leaves alone.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  hosts:
    description: The hosts that will be configured.
    type: list
    elements: str
    required: true
  groups:
    description: The groups that the playbooks work on.
    type: list
    elements: str
    required: true
  own_variables:
    description: Names or patterns of variables that begin like a role's and that the site uses itself.
    type: list
    elements: str
    default: []
  playbooks:
    description: Playbooks whose rights in AWS are judged, by the names of the policies in C(docs/iam).
    type: list
    elements: str
    default: []
  region:
    description: Region whose STS is asked who the caller is; not set, that of the AWS configuration.
    type: str
  report:
    description: File to write the verdicts to, as C(mlcluster.report/1) with mode 0600.
    type: path
seealso:
  - module: mlcluster.aws.run_names
  - module: mlcluster.aws.node_health_info
"""

EXAMPLES = r"""
- name: Judge what was found
  mlcluster.aws.preflight:
    hosts: "{{ groups['compute'] }}"
    groups: [head, compute]
    playbooks: [create_network, create_cluster]
"""

RETURN = r"""
results:
  description: The verdicts, each of C(mlcluster.result/1).
  returned: success
  type: list
  elements: dict
  sample: [{"id": "preflight.ssh", "status": "pass", "found": 8, "message": "8 nodes: a shell answered"}]
lines:
  description: The same as lines for people.
  returned: success
  type: list
  elements: str
  sample: ["PASS preflight.ssh: 8 nodes: a shell answered"]
problems:
  description: Lines of what failed or could not be judged.
  returned: success
  type: list
  elements: str
  sample: []
status:
  description: The worst status, V(pass), V(fail), V(undeterminable) or V(not_applicable).
  returned: success
  type: str
  sample: pass
exit_code:
  description: 0 all pass or not applicable, 1 any failed, 2 otherwise undeterminable.
  returned: success
  type: int
  sample: 0
"""
