#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_test_result
short_description: Judge a run of nccl-tests or nccom-test
version_added: 0.1.0
description:
  - Reads the output of a test with NCCL's log in it, and returns three independent verdicts. Whether the results are
    correct and complete, whether the data was sent over EFA, and whether it was fast enough.
  - The plugin's choice of the provider C(efa) proves nothing, since a run on one node reports it too. Proof are
    channels to other nodes in the log of every node, and, if available, the byte counters of the EFA devices.
  - A property that cannot be proved is C(undeterminable), never C(pass).
  - The module does not fail for a bad verdict. Check RV(problems).
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Can run in check mode; the verdicts are the same, and no baseline is written.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  path:
    description:
      - File with the output of the test on the managed node. It is read line by line and may be large.
      - Run the test with C(NCCL_DEBUG=INFO) and keep the output of all ranks.
    type: path
    required: true
  ranks:
    description: Expected number of ranks. Without it, the fabric is undeterminable.
    type: int
  nodes:
    description: Expected number of nodes. Without it, the fabric is undeterminable.
    type: int
  instance_type:
    description: EC2 instance type of the nodes. Without it, no published bandwidth applies.
    type: str
  collective:
    description:
      - The collective to judge if the file has the output of several, such as V(all_reduce).
      - For nccom-test, whose output does not contain it, the operation of the test.
    type: str
  tool:
    description: The test that wrote the output. By default, it is detected from the output.
    type: str
    choices: [nccl-tests, nccom-test]
  rc:
    description: Exit status of the test. Any other value than 0 is a failure.
    type: int
  checked:
    description: Whether nccom-test ran with C(--check). Its output does not report that.
    type: bool
    default: false
  counters_before:
    description:
      - File with the output of C(mlcluster efa-counters) on each node immediately before the test, one line each.
    type: path
  counters_after:
    description: The same, immediately after the test.
    type: path
  baseline:
    description: File with bandwidths recorded at this site. They override the published ones.
    type: path
  record_baseline:
    description:
      - File in which the bandwidths of this run are recorded. Only a run that is correct, used EFA, and is not slower
        than the known bandwidth, is recorded.
    type: path
  tolerance_percent:
    description: Percent by which a bandwidth may be below the known one.
    type: float
    default: 10
notes:
  - Bandwidths are compared for exactly the same instance type, number of nodes and of ranks, collective and size.
    Values are not interpolated; without a figure the bandwidth is undeterminable.
seealso:
  - plugin: mlcluster.aws.nccl_env
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Judge a run on four nodes
  mlcluster.aws.nccl_test_result:
    path: /fsx/logs/all_reduce-1234.out
    ranks: 32
    nodes: 4
    instance_type: p5.48xlarge
  register: test

- name: Stop unless correctness and fabric are proved
  ansible.builtin.assert:
    that: test.verdicts.correct == 'pass' and test.verdicts.fabric == 'pass'
    fail_msg: "{{ test.problems | join('; ') }}"

- name: Record the figures of a good run
  mlcluster.aws.nccl_test_result:
    path: /fsx/logs/all_reduce-1234.out
    ranks: 32
    nodes: 4
    instance_type: p5.48xlarge
    record_baseline: /fsx/baseline/nccl.json
"""

RETURN = r"""
results:
  description: The three verdicts in the shape C(mlcluster.result/1), with ids nccl.correct, nccl.fabric, nccl.bandwidth
    (nccom.correct and so on for nccom-test).
  returned: always
  type: list
  elements: dict
  sample: [{"id": "nccl.correct", "status": "pass", "found": {"ranks": 32, "rows": 12, "wrong": 0}}]
verdicts:
  description: The status of each, under C(correct), C(fabric) and C(bandwidth).
  returned: always
  type: dict
  sample: {"correct": "pass", "fabric": "pass", "bandwidth": "undeterminable"}
lines:
  description: The verdicts as text, one line each.
  returned: always
  type: list
  elements: str
  sample: ["FAIL nccl.fabric: 16 ranks were requested, and 8 took part"]
problems:
  description: Entries of RV(lines) that are neither a pass nor not applicable.
  returned: always
  type: list
  elements: str
  sample: []
facts:
  description:
    - Facts of the run. C(collective), C(ranks), C(hosts), C(devices), C(rows) with size and bandwidths in GB/s,
      C(gpudirect_rdma) (all, some, none, or null), C(intra_node) (channels by path, P2P or SHM), C(nvls_channels) (of
      NVLink SHARP), C(networks), C(providers), versions, C(warnings), C(failures) and C(notes) (errors of a launcher
      that may be harmless).
  returned: always
  type: dict
  sample: {"collective": "all_reduce", "ranks": 32, "gpudirect_rdma": "all", "intra_node": {"P2P": 448}}
recorded:
  description: Number of bandwidths of this run in the baseline; null without O(record_baseline).
  returned: always
  type: int
  sample: 12
record_problem:
  description: Why nothing was recorded; null if something was recorded, or nothing was requested.
  returned: always
  type: str
  sample: null
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli.nccl import read_snapshots
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.baseline import load, record
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, entries, judge
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import answer

ARGUMENT_SPEC = {
    "path": {"type": "path", "required": True},
    "ranks": {"type": "int"},
    "nodes": {"type": "int"},
    "instance_type": {"type": "str"},
    "collective": {"type": "str"},
    "tool": {"type": "str", "choices": ["nccl-tests", "nccom-test"]},
    "rc": {"type": "int"},
    "checked": {"type": "bool", "default": False},
    "counters_before": {"type": "path"},
    "counters_after": {"type": "path"},
    "baseline": {"type": "path"},
    "record_baseline": {"type": "path"},
    "tolerance_percent": {"type": "float", "default": 10},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    host, wanted = Host(), module.params
    problems = [
        f"{name} is {wanted[name]}: use at least 1"
        for name in ("ranks", "nodes")
        if wanted[name] is not None and wanted[name] < 1
    ]
    problems += [
        f"{name} has {wanted[name]!r}: a path has no NUL in it"
        for name in ("path", "counters_before", "counters_after", "baseline", "record_baseline")
        if "\0" in (wanted[name] or "")
    ]
    if not 0 <= wanted["tolerance_percent"] < 100:
        problems.append(f"tolerance_percent is {wanted['tolerance_percent']:g}: use 0 to below 100")
    if problems:
        module.fail_json(msg="; ".join(problems))
    changed, recorded, record_problem = False, None, None
    try:
        before, after = read_snapshots(host, wanted["counters_before"], wanted["counters_after"])
        requested = RequestedRun(
            **{key: wanted[key] for key in ("ranks", "nodes", "instance_type", "collective", "rc", "checked")},
            before=before,
            after=after,
            baseline=load(host, wanted["baseline"]) if wanted["baseline"] else (),
            tolerance_percent=wanted["tolerance_percent"],
        )
        judged = judge(parse_file(wanted["path"]), requested, wanted["tool"])
        if wanted["record_baseline"]:
            fresh, record_problem = entries(judged, requested, host.now())
            changed = bool(fresh) and record(host, wanted["record_baseline"], fresh, write=not module.check_mode)
            recorded = len(fresh)
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=changed,
        **answer(judged.results),
        verdicts={result.id.rpartition(".")[2]: result.status for result in judged.results},
        facts=judged.facts,
        recorded=recorded,
        record_problem=record_problem,
    )


if __name__ == "__main__":
    main()
