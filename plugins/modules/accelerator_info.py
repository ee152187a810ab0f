#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: accelerator_info
short_description: Look at GPUs or Neuron devices and judge them
version_added: 0.1.0
description:
  - One read-only look at the NVIDIA GPUs (by the XML of nvidia-smi, the kernel log and the PCI bus) or at the Neuron
    devices (by neuron-ls), with verdicts against the devices of the instance type.
  - A tool that is missing, hangs, fails or prints an incomplete document makes a verdict undeterminable, with the
    reason, and never a pass.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Can run in check mode and give the same answer, since it changes nothing.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  instance_type:
    description: EC2 instance type. The default is read from the firmware tables.
    type: str
  timeout:
    description: Seconds that each command may take, 1 to 600.
    type: int
    default: 60
  xid_since:
    description:
      - Look only at Xids after this time, such as that of the last reset, C(YYYY-MM-DD HH:MM:SS) in the node's time.
      - The default is all since the last boot.
    type: str
  mig:
    description: Whether the GPUs are expected to be split by MIG.
    type: bool
    default: false
  checklist:
    description: Also check this list of requirements of a node.
    type: str
    choices: [head, compute, container]
  checklist_parameters:
    description:
      - Parameters of single checks of O(checklist), by the id of the check.
      - The parameters are C(expected), C(tolerance_percent) and C(path) (of a size), C(severity), and C(skip).
    type: dict
    default: {}
notes:
  - Needs root to read the kernel log on most distributions; without it C(gpu.xid) is undeterminable.
seealso:
  - module: mlcluster.aws.efa_info
"""

EXAMPLES = r"""
- name: Look at the node
  mlcluster.aws.accelerator_info:
  register: accelerators

- name: Run the checklist of a compute node with four GPUs
  mlcluster.aws.accelerator_info:
    checklist: compute
    checklist_parameters:
      checklist.gpus: {expected: 4}
      checklist.scratch: {path: /local, expected: 3800000000000}
      checklist.docker: {skip: true}
  register: accelerators

- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ accelerators.problems }}"
"""

RETURN = r"""
instance_type:
  description: EC2 instance type, null if it is unknown.
  returned: always
  type: str
  sample: p5.48xlarge
type_known:
  description: Whether the table has this instance type.
  returned: always
  type: bool
  sample: true
expected:
  description: >-
    The accelerators of the type, with C(kind) (gpu or neuron), C(name), C(count), C(memory_mib) of each; null if it has
    none or is unknown.
  returned: always
  type: dict
  sample: {"kind": "gpu", "name": "H100", "count": 8, "memory_mib": 81920}
expected_source:
  description: Source of RV(expected).
  returned: always
  type: str
  sample: EC2 DescribeInstanceTypes
pci_gpus:
  description: PCI addresses of NVIDIA GPUs, null if the bus cannot be read.
  returned: always
  type: list
  elements: str
  sample: ["0000:53:00.0"]
lost_gpus:
  description: Entries of RV(pci_gpus) that answer every read of their configuration with ones, as after Xid 79.
  returned: always
  type: list
  elements: str
  sample: []
ultraserver:
  description:
    - Whether the instance type is part of an UltraServer, whose NVLink spans several instances. Null for an unknown
      type with a similar name.
  returned: always
  type: bool
  sample: false
smi:
  description: Output of nvidia-smi, null if nothing indicates a GPU.
  returned: always
  type: dict
  contains:
    problem:
      description: Why it could not be used, null if its complete document was read.
      type: str
      sample: "nvidia-smi -q -x: no answer within 60 seconds"
    seconds:
      description: Seconds that it took.
      type: float
      sample: 1.2
    driver:
      description: Version of the driver.
      type: str
      sample: 580.159.04
    cuda:
      description: Newest CUDA that the driver supports.
      type: str
      sample: "13.0"
    attached:
      description: Number of GPUs that it reports.
      type: int
      sample: 8
    gpus:
      description: >-
        The GPUs, with C(index), C(bus_id), C(name), C(architecture), C(uuid), C(vbios), C(serial), C(minor),
        C(memory_mib), C(memory_used_mib), C(persistence), C(compute_mode), C(mig), C(ecc), C(retired_pages),
        C(remapped_rows), C(clock_reasons), C(throttle_reasons) (those that are active), C(clocks_mhz), C(power_watts),
        C(temperature_c), C(pcie), C(fabric), C(recovery_action), C(reset_status), C(inforom). A field that a GPU does
        not report is null; C(unreadable) has the original text, and C(errors) the fields of the document that report an
        error.
      type: list
      elements: dict
      sample: [{"index": 0, "name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "persistence": true}]
    warnings:
      description: Lines that nvidia-smi printed outside of its document.
      type: list
      elements: str
      sample: []
nvlinks:
  description: >-
    For each GPU by its UUID the numbers of C(active) and C(inactive) NVLinks, and the speed of each in C(gb_per_s),
    null if it is unreadable; in C(gpus); C(problem) as above.
  returned: always
  type: dict
  sample:
    problem: null
    gpus: {"GPU-00000000-1111-2222-3333-444444444444": {"active": 2, "inactive": 0, "gb_per_s": {"0": 26.5, "1": 26.5}}}
topology:
  description: Connections between GPUs and network devices, in C(matrix); C(problem) as above.
  returned: always
  type: dict
  sample: {"problem": null, "matrix": {"GPU0": {"GPU1": "NV18"}, "GPU1": {"GPU0": "NV18"}}}
kernel_module:
  description: C(version) of the loaded NVIDIA kernel module and whether it is the C(open) one, null without a module.
  returned: always
  type: dict
  sample: {"version": "580.159.04", "open": true}
kernel_log:
  description: >-
    Xids since the last boot or O(xid_since). C(source) is journal or dmesg, C(problem) why neither could be read,
    C(partial) whether its beginning was not read or is gone; C(xids) are with C(time), C(bus), C(code), C(text);
    C(sxids) those of NVSwitches, also with C(switch) and C(fatal); C(counts) has the number of each Xid, and C(unread)
    the number of lines of Xids in an unknown format. Null if nothing indicates a GPU.
  returned: always
  type: dict
  sample: {"source": "journal", "problem": null, "partial": false, "xids": [], "sxids": [], "counts": {}, "unread": 0}
neuron:
  description: >-
    The Neuron devices, null if nothing indicates one. C(loaded) and C(driver) describe the kernel module,
    C(device_nodes) counts those below C(/dev), C(devices) are with C(index), C(bdf), C(cores), C(memory_mib),
    C(connected_to), C(numa_node), C(processes); C(problem) as above.
  returned: always
  type: dict
  sample: {"loaded": true, "driver": "2.24.7.0", "device_nodes": 16, "devices": [], "problem": null}
results:
  description: >-
    Verdicts in the shape C(mlcluster.result/1), with the ids gpu.count, gpu.answers, gpu.inforom, gpu.model,
    gpu.memory, gpu.driver, gpu.ecc, gpu.recovery, gpu.xid, gpu.clocks, gpu.pcie, gpu.persistence, gpu.compute_mode,
    gpu.mig, gpu.nvlink, gpu.fabric, gpu.topology, or neuron.driver, neuron.count, neuron.memory, and those
    of O(checklist).
  returned: always
  type: list
  elements: dict
  sample: [{"id": "gpu.count", "status": "pass", "expected": 8, "found": 8, "unit": "GPUs"}]
lines:
  description: The verdicts as text, one line each.
  returned: always
  type: list
  elements: str
  sample: ["PASS gpu.count: expected 8 GPUs, found 8 GPUs"]
problems:
  description: Entries of RV(lines) that are neither a pass nor not applicable.
  returned: always
  type: list
  elements: str
  sample: []
"""

import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.look import LONGEST_TIMEOUT, Options, look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import checklist as accelerator_checklist
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import answer


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instance_type": {"type": "str"},
            "timeout": {"type": "int", "default": 60},
            "xid_since": {"type": "str"},
            "mig": {"type": "bool", "default": False},
            "checklist": {"type": "str", "choices": ["head", "compute", "container"]},
            "checklist_parameters": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    timeout, since, name = (module.params[key] for key in ("timeout", "xid_since", "checklist"))
    if not 1 <= timeout <= LONGEST_TIMEOUT:
        module.fail_json(msg=f"timeout is {timeout}: use 1 to {LONGEST_TIMEOUT} seconds")
    if since and not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", since):
        module.fail_json(msg=f"xid_since is {since!r}: use a time like 2026-01-31 12:00:00")
    if module.params["checklist_parameters"] and not name:
        module.fail_json(msg="checklist_parameters are given without a checklist: name one")
    host = Host()
    try:
        checks = accelerator_checklist.choose(name, module.params["checklist_parameters"]) if name else []
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    facts = look(host, Options(instance_type=module.params["instance_type"], timeout=timeout, xid_since=since))
    results = verify(facts, module.params["mig"])
    results += accelerator_checklist.verify(checks, accelerator_checklist.look(host, checks, facts))
    module.exit_json(
        changed=False,
        **facts,
        **answer(results),
    )


if __name__ == "__main__":
    main()
