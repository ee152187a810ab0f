#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Check the prerequisites of a run before it starts
version_added: 0.1.0
description:
  - Judges the controller (ansible-core, collections, libraries), the inventory (hosts, instance types, groups with
    similar names), variables (names that no role reads, options of roles), checksums of downloads of nodes, credentials
    and permissions in AWS, and the access to each node.
  - Does not query nodes. The tasks of C(playbooks/preflight.yml) do, and register C(preflight_ssh), C(preflight_sudo)
    and C(preflight_python), which this module reads; a node without them counts as not queried.
  - The required permissions are those of the policies in C(docs/iam). They are checked with
    iam:SimulatePrincipalPolicy; no action is tried.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Changes only O(report), which is not written in check mode.
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
    description: Names or patterns of the site's own variables that begin like a role's.
    type: list
    elements: str
    default: []
  playbooks:
    description: Playbooks whose permissions in AWS are checked, by the names of the policies in C(docs/iam).
    type: list
    elements: str
    default: []
  region:
    description: Region of the STS that identifies the caller; the default is that of the AWS configuration.
    type: str
  report:
    description: File to write the verdicts to, as C(mlcluster.report/1) with mode 0600.
    type: path
seealso:
  - module: mlcluster.aws.run_names
  - module: mlcluster.aws.node_health_info
"""

EXAMPLES = r"""
- name: Run the preflight checks
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
  description: The verdicts as text, one line each.
  returned: success
  type: list
  elements: str
  sample: ["PASS preflight.ssh: 8 nodes: a shell answered"]
problems:
  description: Lines of failed and undeterminable checks.
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
