#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_report
short_description: One page that says which nodes of a cluster are good, and what to do about the others
version_added: 0.1.0
description:
  - Puts the verdicts on all nodes together, compares the nodes with each other and with the last report, and writes a
    page that needs no network, and on request other formats.
  - Runs on the controller, whatever host the task is for; run it once.
  - A node that did not answer, or whose verdicts cannot be read, stands in the report as not proved.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Judges and compares, and writes nothing.
    support: full
  diff_mode:
    description: Has no difference to show; what changed since the last report is RV(changes).
    support: none
options:
  nodes:
    description:
      - An entry for each node. C(name) and C(health) are required, the latter being what
        M(mlcluster.aws.node_health_info) returned, or failed with.
      - C(kind) is C(head), C(login), C(compute) or C(node); nodes of the same kind and C(instance_type) are compared.
      - C(queue) and C(place), a list of network nodes or zones beginning with the widest, say where the map shows it;
        C(instance_id) is shown. C(slurm_name) is the name that Slurm has for the node, where that is another one.
    type: list
    elements: dict
    required: true
  directory:
    description: Where the files are written on the controller, replaced one by one, readable by their owner only.
    type: path
    required: true
  cluster:
    description: What the cluster is called.
    type: str
    default: ""
  formats:
    description:
      - V(html) is C(report.html), V(markdown) C(report.md), V(json) C(report.json) in the schema
        C(mlcluster.cluster/1), which is also what the next report is compared with.
      - V(junit) is C(junit.xml); V(prometheus) C(mlcluster.prom) for node_exporter's textfile collector; V(diag)
        C(diag.json) with the fields of AWS pcluster-diag; V(nhc) lines for C(nhc.conf).
    type: list
    elements: str
    choices: [html, markdown, json, junit, prometheus, diag, nhc]
    default: [html, markdown, json]
  validation:
    description: What the playbook C(mlcluster.aws.run_validation) kept, a file on the controller.
    type: path
  validation_content:
    description:
      - The same as M(ansible.builtin.slurp) gives it. What cannot be read is left out of the report, with a warning.
      - Mutually exclusive with O(validation).
    type: str
  validation_source:
    description: Where that was found, for the page.
    type: str
    default: ""
  validation_days:
    description:
      - For how many days a validation proves something. An older one, one that is not dated, and one of another cluster
        than O(cluster) or of other nodes is shown, and what passed in it is not proved.
    type: float
    default: 7.0
  timings:
    description: The C(status.json) of a configuration run, a file on the controller.
    type: path
  time:
    description: The time of the report, as C(2026-01-31T12:00:00Z). The default is now.
    type: str
notes:
  - A report is not a change to a cluster, so it never says that it changed something.
seealso:
  - module: mlcluster.aws.node_health_info
"""

EXAMPLES = r"""
- name: Look at every node
  mlcluster.aws.node_health_info:
  register: health
  ignore_unreachable: true
  ignore_errors: true

- name: Put it on one page
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
  description: How many nodes have which status.
  returned: always
  type: dict
  sample: {"fail": 1, "undeterminable": 0, "pass": 79, "not_applicable": 0}
lines:
  description: A sentence on all nodes, then a line for each problem and each node that is unlike its neighbours.
  returned: always
  type: list
  elements: str
  sample: ["1 broken, 79 good of 80 nodes", "✕ gpu.count: a GPU fell off the bus [p5-dy-4]"]
problems:
  description: >-
    What failed or could not be proved, the same sentence of several checks or nodes once, the gravest first, each with
    C(ids), the first of them as C(id), C(status), C(severity), C(text), C(hint), C(nodes) and C(job).
  returned: always
  type: list
  elements: dict
  sample: [{"id": "gpu.count", "ids": ["gpu.count"], "status": "fail", "severity": "isolate", "nodes": ["p5-dy-4"]}]
outliers:
  description: >-
    What a node has otherwise than its neighbours, each with C(node), C(what), C(kind), C(found), C(expected),
    C(agree), C(of) and C(message).
  returned: always
  type: list
  elements: dict
  sample: [{"node": "p5-dy-8", "what": "version driver", "found": "570.1", "expected": "580.95.05"}]
changes:
  description: >-
    What is otherwise than in the last report, with C(since), C(joined), C(left), C(verdicts) and C(versions).
  returned: when there was one
  type: dict
  sample: {"since": "2026-01-30T12:00:00Z", "joined": [], "left": ["p5-dy-9"], "verdicts": [], "versions": []}
files:
  description: Format to path of what was written, or would be.
  returned: always
  type: dict
  sample: {"html": "report/report.html"}
"""
