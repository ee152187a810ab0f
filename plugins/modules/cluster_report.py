#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_report
short_description: Write one page on the good and the faulty nodes of a cluster
version_added: 0.1.0
description:
  - Combines the verdicts of all nodes, compares the nodes with each other and with the last report, and writes a page
    that needs no network, and other formats on request.
  - Runs on the controller, for any host of the task; run it once.
  - A node that did not answer, or whose verdicts cannot be read, is in the report as not proved.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Judges and compares the nodes, and writes nothing.
    support: full
  diff_mode:
    description: Has no difference to show; RV(changes) has the changes since the last report.
    support: none
options:
  nodes:
    description:
      - An entry for each node. C(name) and C(health) are required, the latter being the result or the failure of
        M(mlcluster.aws.node_health_info).
      - C(kind) is C(head), C(login), C(compute) or C(node); nodes of the same kind and C(instance_type) are compared.
      - C(queue) and C(place), a list of network nodes or zones beginning with the widest, are its position on the map;
        C(instance_id) is shown. C(slurm_name) is the name of the node in Slurm, if it is another one.
    type: list
    elements: dict
    required: true
  directory:
    description: Directory of the files on the controller; each is replaced atomically and readable only by its owner.
    type: path
    required: true
  cluster:
    description: Name of the cluster.
    type: str
    default: ""
  formats:
    description:
      - V(html) is C(report.html), V(markdown) C(report.md), V(json) C(report.json) in the schema
        C(mlcluster.cluster/1), with which the next report is compared.
      - V(junit) is C(junit.xml); V(prometheus) C(mlcluster.prom) for node_exporter's textfile collector; V(diag)
        C(diag.json) with the fields of AWS pcluster-diag; V(nhc) lines for C(nhc.conf).
    type: list
    elements: str
    choices: [html, markdown, json, junit, prometheus, diag, nhc]
    default: [html, markdown, json]
  validation:
    description: Result file of the playbook C(mlcluster.aws.run_validation) on the controller.
    type: path
  validation_content:
    description:
      - Content of such a file, as returned by M(ansible.builtin.slurp). Unreadable content is omitted from the report,
        with a warning.
      - Mutually exclusive with O(validation).
    type: str
  validation_source:
    description: Origin of that content, for the page.
    type: str
    default: ""
  validation_days:
    description:
      - Days for which a validation is proof. An older or undated one, and one of another cluster than O(cluster) or of
        other nodes, is shown, but its passes are not proof.
    type: float
    default: 7.0
  timings:
    description: The C(status.json) of a configuration run, a file on the controller.
    type: path
  time:
    description: The time of the report, as C(2026-01-31T12:00:00Z). The default is now.
    type: str
notes:
  - A report does not change a cluster, so the task never reports a change.
seealso:
  - module: mlcluster.aws.node_health_info
"""

EXAMPLES = r"""
- name: Look at every node
  mlcluster.aws.node_health_info:
  register: health
  ignore_unreachable: true
  ignore_errors: true

- name: Write the report
  mlcluster.aws.cluster_report:
    cluster: train
    directory: report
    nodes: >-
      [{% for host in ansible_play_hosts_all %}{{ {'name': host, 'health': hostvars[host].health} }},{% endfor %}]
  run_once: true
"""

RETURN = r"""
status:
  description: The worst of all verdicts, V(pass), V(fail), V(undeterminable) or V(not_applicable).
  returned: always
  type: str
  sample: fail
exit_code:
  description: The same as 0 (pass or not applicable), 1 (fail) or 2 (undeterminable).
  returned: always
  type: int
  sample: 1
counts:
  description: Number of nodes with each status.
  returned: always
  type: dict
  sample: {"fail": 1, "undeterminable": 0, "pass": 79, "not_applicable": 0}
lines:
  description: A sentence on all nodes, then a line for each problem and each node that differs from its neighbours.
  returned: always
  type: list
  elements: str
  sample: ["1 broken, 79 good of 80 nodes", "✕ gpu.count: a GPU fell off the bus [p5-dy-4]"]
problems:
  description: >-
    Failed and undeterminable checks, the most severe first. Checks and nodes with the same C(text) share an entry, with
    C(ids) and C(nodes). It also has C(id) (the first of the ids), C(status), C(severity), C(hint) and C(job).
  returned: always
  type: list
  elements: dict
  sample: [{"id": "gpu.count", "ids": ["gpu.count"], "status": "fail", "severity": "isolate", "nodes": ["p5-dy-4"]}]
outliers:
  description: >-
    Differences of a node from its neighbours, each with C(node), C(what), C(kind), C(found), C(expected), C(agree),
    C(of) and C(message).
  returned: always
  type: list
  elements: dict
  sample: [{"node": "p5-dy-8", "what": "version driver", "found": "570.1", "expected": "580.95.05"}]
changes:
  description: >-
    Differences from the last report, with C(since), C(joined), C(left), C(verdicts) and C(versions).
  returned: when there was one
  type: dict
  sample: {"since": "2026-01-30T12:00:00Z", "joined": [], "left": ["p5-dy-9"], "verdicts": [], "versions": []}
files:
  description: Format to path of the files that were written, or would be.
  returned: always
  type: dict
  sample: {"html": "report/report.html"}
"""
