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
  - Runs named checks side by side, each in a process with its own limit, and returns a verdict for each.
  - A check that hangs, also one that sleeps in the kernel and cannot be ended, costs its limit and is undeterminable.
  - Says what C(mlcluster health) says on the node, where Slurm's Prolog and HealthCheckProgram use it.
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
      - V(prolog) takes seconds and starts no program but the reader of the kernel log. It looks at the drain marker,
        the record and mounts of the local storage, the space of the jobs' directories, the number of accelerators and
        EFA devices, and Xids.
      - V(full) is everything that can be seen without disturbing a job, with the programs of NVIDIA, AWS and the rest.
      - V(container) compares the container that the module runs in with what its host wrote.
    type: str
    choices: [prolog, full, container]
    default: full
  seconds:
    description:
      - Limit for all checks together, at most 3600. The default is 4 for V(prolog), 180 for V(full), 120 for
        V(container).
    type: int
  instance_type:
    description: EC2 instance type. The default is what the firmware tables say.
    type: str
  expected_efa:
    description: >-
      How many EFA devices there must be, at most 1000, where O(expectations) says nothing of it. The default is what
      the instance type allows.
    type: int
  xid_since:
    description: Xids before this time do not count, as C(2026-01-31 12:00:00). The default is the last boot.
    type: str
  scratch:
    description: Directory of the jobs' directories. The default is C(jobs) on the local volume.
    type: path
  least_free_percent:
    description: How much of the space and the inodes below O(scratch) must be free.
    type: int
    default: 5
  mounts:
    description: Paths to ask GPUDirect Storage about, in the profile V(full). The default is the local volumes.
    type: list
    elements: path
    default: []
  host_facts:
    description: What C(mlcluster host-facts) wrote on the host of this container.
    type: path
    default: /var/lib/mlcluster/host_facts.json
  require:
    description:
      - What this container must have, C(cuda), C(nccl), C(plugin), C(libfabric), C(pytorch) or C(megatron), each with
        its least version or an empty text.
    type: dict
    default: {}
  expectations:
    description:
      - What this site expects of its nodes. Keys are C(versions), C(efa), C(gpus), C(disks), C(mounts), C(services),
        C(held), C(allowed_xids), C(mig), C(thresholds) and C(buckets), and C(types), a mapping of instance types (with
        C(*)) to the same keys, which outweigh those beside it. What is not said here is taken from the table of
        instance types. C(buckets), C(services) and C(versions) are looked at in the profile V(full) only.
      - An entry of C(buckets) is C(s3://BUCKET/PREFIX), or a mapping of C(url), C(rights) (of C(list), C(read) and
        C(write); the first two by default) and C(key), an object to read. To prove C(write) an object is written below
        the prefix and removed, except in check mode.
    type: dict
    default: {}
  kind:
    description: What this node is in the cluster. A V(compute) node has to be known to Slurm where there is one.
    type: str
    choices: [head, login, compute]
  image:
    description:
      - An image, a path or C(REGISTRY#NAME:TAG), in which the profile V(container) is gone through as well, started
        with C(srun --container-image) on this node. Where jobs hold the node nothing is proved and no job is disturbed.
      - Used in the profile V(full), and not in check mode.
    type: str
  image_user:
    description: Who starts that container.
    type: str
    default: root
  slurm_prefix:
    description: Directory above Slurm's bin. The default is C(/opt/slurm), or the system path.
    type: path
  slurm_conf:
    description: The slurm.conf to use. The default is Slurm's own way to find it.
    type: path
  gate:
    description: Whether V(closed) only what is proved to be well is RV(ready), or V(open) all that is not broken.
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
  - To see whether the local volume takes and gives bytes, a file without a name is written there, read back and gone.
seealso:
  - module: mlcluster.aws.accelerator_info
  - module: mlcluster.aws.efa_info
  - module: mlcluster.aws.gds_info
"""

EXAMPLES = r"""
- name: Look at everything that can be seen without disturbing a job
  mlcluster.aws.node_health_info:
    gate: closed
  register: health

- name: Refuse a node that is not proved to be well
  ansible.builtin.assert:
    that: health.ready
    fail_msg: "{{ health.blocking | join('; ') }}"

- name: Expect what this site has agreed on, and two places in S3
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

- name: The light check, as a Prolog does it
  mlcluster.aws.node_health_info:
    profile: prolog
    instance_type: p5.48xlarge
"""

RETURN = r"""
profile:
  description: The profile that was gone through.
  returned: always
  type: str
  sample: prolog
instance_type:
  description: The EC2 instance type, of O(instance_type) or of the firmware tables; null on other machines.
  returned: always
  type: str
  sample: p5.48xlarge
ready:
  description: Whether nothing keeps a job away, by O(gate) and O(least_severity).
  returned: always
  type: bool
  sample: true
blocking:
  description: Those of RV(lines) that keep a job away.
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
  description: The verdicts as a person reads them, a line each.
  returned: always
  type: list
  elements: str
  sample: ["PASS node.drain_marker: found no marker"]
problems:
  description: Those of RV(lines) that are neither a pass nor not applicable.
  returned: always
  type: list
  elements: str
  sample: []
versions:
  description: >-
    Component to version, of what is there: kernel, os, driver, gpu_firmware, cuda, efa_driver, efa_installer,
    nvidia_fs, lustre, and packages by their names. Empty in a profile other than V(full); without what was looked at
    with EFA or the GPUs where that look did not end in time.
  returned: always
  type: dict
  sample: {"kernel": "6.8.0-1030-aws", "driver": "580.95.05", "package libnccl2": "2.28.9-1+cuda13.0"}
seconds:
  description: How long all of it took.
  returned: always
  type: float
  sample: 4.2
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.container import FACTS_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.light import LEAST_FREE_PERCENT
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.profiles import (
    KINDS,
    LEAST_SEVERITY,
    PROFILES,
    Options,
    blocking,
    examine,
    option_errors,
    split,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.instance import instance_type
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import SEVERITIES


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "profile": {"type": "str", "choices": list(PROFILES), "default": "full"},
            "seconds": {"type": "int"},
            "instance_type": {"type": "str"},
            "expected_efa": {"type": "int"},
            "xid_since": {"type": "str"},
            "scratch": {"type": "path"},
            "least_free_percent": {"type": "int", "default": LEAST_FREE_PERCENT},
            "mounts": {"type": "list", "elements": "path", "default": []},
            "host_facts": {"type": "path", "default": FACTS_PATH},
            "require": {"type": "dict", "default": {}},
            "expectations": {"type": "dict", "default": {}},
            "kind": {"type": "str", "choices": list(KINDS)},
            "image": {"type": "str"},
            "image_user": {"type": "str", "default": "root"},
            "slurm_prefix": {"type": "path"},
            "slurm_conf": {"type": "path"},
            "gate": {"type": "str", "choices": ["open", "closed"], "default": "open"},
            "least_severity": {"type": "str", "choices": list(SEVERITIES[1:]), "default": LEAST_SEVERITY},
        },
        supports_check_mode=True,
    )
    given = module.params
    options = Options(
        instance_type=given["instance_type"],
        expected_efa=given["expected_efa"],
        xid_since=given["xid_since"],
        scratch=given["scratch"],
        least_free_percent=given["least_free_percent"],
        mounts=tuple(given["mounts"]),
        host_facts=given["host_facts"],
        require={name: str(version) if version else None for name, version in given["require"].items()},
        may_write=not module.check_mode,
        **{name: given[name] for name in ("expectations", "kind", "image", "image_user", "slurm_prefix", "slurm_conf")},
    )
    problems = option_errors(options, given["seconds"])
    if problems:
        module.fail_json(msg="; ".join(problems))
    host = Host()
    began = host.monotonic()
    results, versions = split(examine(host, given["profile"], options, given["seconds"]))
    keep_away = blocking(results, given["gate"] == "closed", given["least_severity"])
    module.exit_json(
        changed=False,
        profile=given["profile"],
        instance_type=given["instance_type"] or instance_type(host),
        ready=not keep_away,
        blocking=[result.line() for result in keep_away],
        results=[result.to_dict() for result in results],
        lines=[result.line() for result in results],
        problems=[result.line() for result in results if result.status not in ("pass", "not_applicable")],
        versions=versions,
        seconds=round(host.monotonic() - began, 3),
    )


if __name__ == "__main__":
    main()
