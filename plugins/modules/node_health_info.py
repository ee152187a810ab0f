#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_health_info
short_description: Judge the health of a node or container, within a time limit
version_added: 0.1.0
description:
  - Runs named checks in parallel, each in a process with its own time limit, and returns a verdict for each.
  - A check that hangs, also in the kernel where it cannot be killed, takes its time limit and is undeterminable.
  - Returns the same as C(mlcluster health) on the node, which Slurm's Prolog and HealthCheckProgram use.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Can run in check mode and give the same answer.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  profile:
    description:
      - V(prolog) takes seconds and starts no program except journalctl or dmesg, and on UltraServers those of IMEX. It
        checks the drain marker, the record and mounts of the local storage, the space of the jobs' directories, the
        number of accelerators and EFA devices, and Xids.
      - V(full) runs all checks that do not disturb a job, also with programs of NVIDIA, AWS and others.
      - V(container) compares the container of the module with the facts that its host wrote.
    type: str
    choices: [prolog, full, container]
    default: full
  seconds:
    description:
      - Time limit in seconds for all checks together, at most 3600. The default is 4 for V(prolog), 180 for V(full),
        120 for V(container).
    type: int
  instance_type:
    description: EC2 instance type. The default is read from the firmware tables.
    type: str
  expected_efa:
    description: >-
      Number of EFA devices that must exist, at most 1000, unless O(expectations) has it. The default is the maximum of
      the instance type.
    type: int
  xid_since:
    description: Xids before this time, such as C(2026-01-31 12:00:00), do not count. The default is the last boot.
    type: str
  scratch:
    description: Parent directory of the directories of jobs. The default is C(jobs) on the local volume.
    type: path
  least_free_percent:
    description: Percent of the space and the inodes below O(scratch) that must be free.
    type: int
    default: 5
  mounts:
    description: Paths to check for GPUDirect Storage, in the profile V(full). The default is the local volumes.
    type: list
    elements: path
    default: []
  host_facts:
    description: The output file of C(mlcluster host-facts) on the host of this container.
    type: path
    default: /var/lib/mlcluster/host_facts.json
  require:
    description:
      - Requirements of this container, C(cuda), C(nccl), C(plugin), C(libfabric), C(pytorch) or C(megatron), each with
        its minimum version or an empty string.
    type: dict
    default: {}
  expectations:
    description:
      - Expectations of this site for its nodes. Keys are C(versions), C(efa), C(gpus), C(disks), C(mounts),
        C(services), C(held), C(allowed_xids), C(mig), C(thresholds) and C(buckets), and C(types), a dictionary of
        instance types (with C(*)) to the same keys, which override those at the top level. Missing keys come from the
        table of instance types. C(buckets), C(services) and C(versions) are only checked in the profile V(full).
      - An entry of C(buckets) is C(s3://BUCKET/PREFIX), or a dictionary of C(url), C(rights) (of C(list), C(read) and
        C(write); the first two by default) and C(key), an object to read. To prove C(write) an object is written below
        the prefix and removed, except in check mode.
    type: dict
    default: {}
  kind:
    description: Type of this node in the cluster. If Slurm is installed, it must list a V(compute)
      node.
    type: str
    choices: [head, login, compute]
  image:
    description:
      - An image, a path or C(REGISTRY#NAME:TAG), in which the profile V(container) also runs, started with C(srun
        --container-image) on this node. If jobs hold the node, nothing is proved and no job is disturbed.
      - Used in the profile V(full), and not in check mode.
    type: str
  image_user:
    description: User who starts that container.
    type: str
    default: root
  slurm_prefix:
    description: Directory above Slurm's bin. The default is C(/opt/slurm), or the system path.
    type: path
  slurm_conf:
    description: The slurm.conf to use. By default Slurm finds it.
    type: path
  gate:
    description: V(closed) sets RV(ready) only for a node that is proved good, V(open) for every node that is not proved
      faulty.
    type: str
    choices: [open, closed]
    default: open
  least_severity:
    description: Failures below this severity do not count for RV(ready).
    type: str
    choices: [monitor, reset, reboot, isolate]
    default: reset
notes:
  - Xids and the counters of NVIDIA's DCGM, where its host engine or its exporter runs, are among the verdicts.
  - A nameless temporary file on the local volume is written, read back and removed, to test the volume.
seealso:
  - module: mlcluster.aws.accelerator_info
  - module: mlcluster.aws.efa_info
  - module: mlcluster.aws.gds_info
"""

EXAMPLES = r"""
- name: Run all checks that do not disturb a job
  mlcluster.aws.node_health_info:
    gate: closed
  register: health

- name: Fail for a node that is not proved good
  ansible.builtin.assert:
    that: health.ready
    fail_msg: "{{ health.blocking | join('; ') }}"

- name: Check the expectations of this site and two places in S3
  mlcluster.aws.node_health_info:
    expectations:
      versions:
        driver: ">=580.95"
        kernel: 6.8.0-*
      mounts: [/fsx]
      allowed_xids: [13, 31]
      buckets:
        - s3://corpus/tokens
        - url: s3://checkpoints/train
          rights: [list, read, write]
      types:
        p5.48xlarge: {gpus: 8, efa: 32, disks: 8}

- name: Run the light checks of a Prolog
  mlcluster.aws.node_health_info:
    profile: prolog
    instance_type: p5.48xlarge
"""

RETURN = r"""
profile:
  description: The profile that was run.
  returned: always
  type: str
  sample: prolog
instance_type:
  description: The EC2 instance type, of O(instance_type) or of the firmware tables; null on other machines.
  returned: always
  type: str
  sample: p5.48xlarge
instance_id:
  description: The id of the EC2 instance that answered, from the firmware tables; null on other machines.
  returned: always
  type: str
  sample: i-0123456789abcdef0
ready:
  description: Whether the node may run jobs, by O(gate) and O(least_severity).
  returned: always
  type: bool
  sample: true
blocking:
  description: Entries of RV(lines) that keep jobs away.
  returned: always
  type: list
  elements: str
  sample: ["FAIL storage.mounted (/local): the local volume is not mounted"]
results:
  description: >-
    Verdicts in the shape C(mlcluster.result/1), each with C(seconds). Their ids are node.drain_marker, storage.record,
    storage.mounted, scratch.space, scratch.write, gpu.count, gpu.xid, gpu.xid_count, efa.devices, node.clock,
    node.service, node.kernel, node.root_space, mounts.answer, slurm.controller, slurm.node, those beginning with dcgm,
    expect, s3 and pcluster, and those of the other modules; in a container they begin with container and checklist.
  returned: always
  type: list
  elements: dict
  sample: [{"id": "node.drain_marker", "status": "pass", "found": "no marker", "seconds": 0.004}]
lines:
  description: The verdicts as text, one line each.
  returned: always
  type: list
  elements: str
  sample: ["PASS node.drain_marker: found no marker"]
problems:
  description: Entries of RV(lines) that are neither a pass nor not applicable.
  returned: always
  type: list
  elements: str
  sample: []
versions:
  description: >-
    Component to version, for installed components: kernel, os, driver, gpu_firmware, cuda, efa_driver, efa_installer,
    nvidia_fs, lustre, and packages by their names. Empty in a profile other than V(full); without the versions of EFA
    or GPUs if their look did not end in time.
  returned: always
  type: dict
  sample: {"kernel": "6.8.0-1030-aws", "driver": "580.95.05", "package libnccl2": "2.28.9-1+cuda13.0"}
seconds:
  description: Seconds that all checks took.
  returned: always
  type: float
  sample: 4.2
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.container import FACTS_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.light import MIN_FREE_PERCENT
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.profiles import (
    MIN_SEVERITY,
    NODE_KINDS,
    PROFILES,
    Options,
    blocking,
    option_errors,
    run_profile,
    split,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.instance import instance_id, instance_type
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import SEVERITIES, answer


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "profile": {"type": "str", "choices": list(PROFILES), "default": "full"},
            "seconds": {"type": "int"},
            "instance_type": {"type": "str"},
            "expected_efa": {"type": "int"},
            "xid_since": {"type": "str"},
            "scratch": {"type": "path"},
            "least_free_percent": {"type": "int", "default": MIN_FREE_PERCENT},
            "mounts": {"type": "list", "elements": "path", "default": []},
            "host_facts": {"type": "path", "default": FACTS_PATH},
            "require": {"type": "dict", "default": {}},
            "expectations": {"type": "dict", "default": {}},
            "kind": {"type": "str", "choices": list(NODE_KINDS)},
            "image": {"type": "str"},
            "image_user": {"type": "str", "default": "root"},
            "slurm_prefix": {"type": "path"},
            "slurm_conf": {"type": "path"},
            "gate": {"type": "str", "choices": ["open", "closed"], "default": "open"},
            "least_severity": {"type": "str", "choices": list(SEVERITIES[1:]), "default": MIN_SEVERITY},
        },
        supports_check_mode=True,
    )
    params = module.params
    options = Options(
        instance_type=params["instance_type"],
        expected_efa=params["expected_efa"],
        xid_since=params["xid_since"],
        scratch=params["scratch"],
        least_free_percent=params["least_free_percent"],
        mounts=tuple(params["mounts"]),
        host_facts=params["host_facts"],
        require={name: str(version) if version else None for name, version in params["require"].items()},
        may_write=not module.check_mode,
        **{
            name: params[name] for name in ("expectations", "kind", "image", "image_user", "slurm_prefix", "slurm_conf")
        },
    )
    problems = option_errors(options, params["seconds"])
    if problems:
        module.fail_json(msg="; ".join(problems))
    host = Host()
    began = host.monotonic()
    results, versions = split(run_profile(host, params["profile"], options, params["seconds"]))
    blocking_results = blocking(results, params["gate"] == "closed", params["least_severity"])
    module.exit_json(
        changed=False,
        profile=params["profile"],
        instance_type=params["instance_type"] or instance_type(host),
        instance_id=instance_id(host),
        ready=not blocking_results,
        blocking=[result.line() for result in blocking_results],
        **answer(results),
        versions=versions,
        seconds=round(host.monotonic() - began, 3),
    )


if __name__ == "__main__":
    main()
