#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gds_info
short_description: Report the active path of GPUDirect Storage on a mount
version_added: 0.1.0
description:
  - Returns C(nvfs), C(p2pdma), C(compat), C(none) or C(undeterminable) for each of O(mounts), with the missing
    prerequisites of the direct paths.
  - libcufile's table of capabilities describes the driver, not a mount, so V(passive) never returns C(nvfs) or
    C(p2pdma). V(active) registers a temporary file on the mount with compat mode forbidden, and moves 1 MiB from GPU
    memory into it and back.
  - libcufile runs in a separate process with a time limit; if it hangs or crashes, the result is C(undeterminable).
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Can run in check mode, with O(probe=passive) instead of O(probe=active), and changes nothing.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  mounts:
    description: Paths to check; each represents its mount.
    type: list
    elements: path
    default: []
  probe:
    description:
      - V(passive) reads the kernel and sysfs, and opens libcufile's driver.
      - V(active) also registers a temporary file on each mount. The file is removed, also if the probe is killed.
    type: str
    choices: [passive, active]
    default: passive
  required:
    description:
      - Accepted modes; if a mount has another active mode, RV(results) contains a failure.
      - If it is empty, the verdict only reports the mode that was found.
    type: list
    elements: str
    choices: [nvfs, p2pdma, compat]
    default: []
  library:
    description: Full path of libcufile.so.0. By default the library of the linker, or of the CUDA toolkit.
    type: path
  timeout:
    description: Seconds that each process that loads libcufile may take. One mount needs three at most.
    type: int
    default: 30
  bandwidth:
    description:
      - Also measure a read of each mount with gdsio, through the GPU's path and through the CPU's, in parallel.
      - Writes a file of O(bandwidth_mib) to the mount and removes it. Skipped in check mode.
    type: bool
    default: false
  bandwidth_mib:
    description: Size of the file that gdsio reads, in MiB.
    type: int
    default: 1024
  files:
    description: Files to report on in RV(files), so that a role can decide on installations without a second look.
    type: list
    elements: path
    default: []
  paths:
    description: Files or directories whose mode and owner to report in RV(paths).
    type: list
    elements: path
    default: []
  packages:
    description: Packages to report on in RV(packages).
    type: list
    elements: str
    default: []
notes:
  - Needs no root for O(probe=passive). O(probe=active) needs the right to write to the mount.
  - A probe opens a CUDA context for about a second, so it fails on a GPU in exclusive mode that is in use.
seealso:
  - module: mlcluster.aws.instance_store_info
"""

EXAMPLES = r"""
- name: Look at GPUDirect Storage on the local volume
  mlcluster.aws.gds_info:
    mounts: [/data]
  register: gds

- name: Prove the active path
  mlcluster.aws.gds_info:
    mounts: [/data, /fsx]
    probe: active
  register: gds

- name: Show the mode of each mount and its reason
  ansible.builtin.debug:
    msg: "{{ item.path }}: {{ item.mode }} ({{ item.reason }})"
  loop: "{{ gds.mounts }}"
  loop_control:
    label: "{{ item.path }}"

- name: Require a direct path
  mlcluster.aws.gds_info:
    mounts: [/data]
    probe: active
    required: [nvfs, p2pdma]
  register: gds
  failed_when: gds.problems | length > 0
"""

RETURN = r"""
mounts:
  description: A result for each of O(mounts), in their order.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The requested path.
      type: str
      sample: /data
    mode:
      description: One of nvfs, p2pdma, compat, none, undeterminable.
      type: str
      sample: compat
    reason:
      description: Why, as part of a sentence.
      type: str
      sample: "nvfs lacks nvidia_fs_module, nvme_driver; p2pdma lacks registry_dwords"
    proof:
      description: V(active) if the result comes from a file on the mount, V(passive) otherwise.
      type: str
      sample: active
    missing:
      description: For C(nvfs) and C(p2pdma) the ids of the prerequisites that are missing.
      type: dict
      sample: {"nvfs": ["nvidia_fs_module"], "p2pdma": ["raid_p2pdma", "cufile_p2pdma"]}
    doubtful:
      description: Ids of prerequisites that NVIDIA advises against without excluding them. They do not affect the mode.
      type: dict
      sample: {"nvfs": ["iommu"], "p2pdma": ["iommu"]}
    prerequisites:
      description:
        - Every prerequisite with C(id), C(paths) (nvfs, p2pdma or both), C(state) (met, missing, doubtful, unknown),
          C(found) and C(hint) (empty if it is met).
      type: list
      elements: dict
      sample: [{"id": "nvidia_fs_module", "paths": ["nvfs"], "state": "missing", "found": "nvidia-fs is not loaded",
        "hint": "modprobe nvidia-fs"}]
    mount_point:
      description: Mount point of the filesystem, null if the path is on no mount.
      type: str
      sample: /data
    source:
      description: Source of the mount.
      type: str
      sample: /dev/md127
    fstype:
      description: Type of the filesystem.
      type: str
      sample: ext4
    options:
      description: Mount options.
      type: list
      elements: str
      sample: ["rw", "noatime", "data=ordered"]
    bind:
      description: Whether the mount shows a directory below the top of its filesystem.
      type: bool
      sample: false
    answers:
      description: Whether the path could be looked up in time.
      type: bool
      sample: true
    exists:
      description: Whether the path exists, null if it did not answer.
      type: bool
      sample: true
    layout:
      description: One of disk, md, lvm, dm, network, memory, stacked, other, unknown.
      type: str
      sample: md
    md_level:
      description: RAID level, null without md.
      type: str
      sample: raid0
    kname:
      description: Kernel name of the block device, null without one.
      type: str
      sample: md127
    disks:
      description: The disks at the bottom, with C(kname), C(model), C(transport), C(integrity).
      type: list
      elements: dict
      sample: [{"kname": "nvme1n1", "model": "Amazon EC2 NVMe Instance Storage", "transport": "pcie",
        "integrity": false}]
    probe:
      description:
        - The outcomes of the active probe by name (strict, no_p2pdma, own, with_p2pdma), each with C(state) (ok,
          refused, hang, crash, corrupt, unusable), C(step), C(err), C(cu_err), C(reason), C(version), C(io),
          C(seconds), C(table).
      type: dict
      sample: {"strict": {"state": "refused", "step": "open", "err": 5001, "reason": "cuFileDriverOpen gave 5001"}}
results:
  description:
    - Verdicts in the shape C(mlcluster.result/1) with the ids C(gds.driver), C(gds.library), C(gds.module), and per
      mount C(gds.mode), C(gds.prerequisites), C(gds.layout), C(gds.bandwidth).
  returned: always
  type: list
  elements: dict
  sample: [{"id": "gds.mode", "status": "pass", "found": "compat"}]
lines:
  description: The verdicts as text, one line each.
  returned: always
  type: list
  elements: str
  sample: ["PASS gds.mode (/data): compat: nvfs lacks nvidia_fs_module"]
problems:
  description: Entries of RV(lines) that are neither a pass nor not applicable.
  returned: always
  type: list
  elements: str
  sample: []
advice:
  description: Effects of another layout, filesystem or setting, one sentence each.
  returned: always
  type: list
  elements: str
  sample: ["/data is md raid0: P2PDMA does not work over md on x86"]
driver:
  description:
    - The NVIDIA driver, with C(loaded), C(version), C(open_module) (null without a driver) and C(evidence), the source
      of that.
  returned: always
  type: dict
  sample: {"loaded": true, "version": "580.159.04", "open_module": true, "evidence": "/proc/driver/nvidia/version"}
gpus:
  description: Models of the GPUs, by their names in the driver.
  returned: always
  type: list
  elements: str
  sample: ["NVIDIA H100 80GB HBM3"]
nvidia_fs:
  description: The module nvidia-fs, with C(loaded), C(version) and C(registered) (storage drivers by name).
  returned: always
  type: dict
  sample: {"loaded": true, "version": "2.27", "registered": {"nvme": "1.0"}}
kernel:
  description:
    - The running kernel, with C(release), C(machine), C(p2pdma) (whether it has p2pdma_pgmap_ops, null if it is
      unreadable), C(config) (whether CONFIG_PCI_P2PDMA is set, null without the file) and C(nvme_hooks) (whether the
      NVMe driver has the hooks of nvidia-fs).
  returned: always
  type: dict
  sample: {"release": "6.8.0-1021-aws", "machine": "x86_64", "p2pdma": true, "config": true, "nvme_hooks": false}
kernel_modules:
  description:
    - Whether nvidia-fs exists for the running kernel and for the newest one, with C(running), C(next) (kernel releases)
      and C(installed) (version of the module for each installed kernel, null without it).
  returned: always
  type: dict
  sample: {"running": "6.8.0-1021-aws", "next": "6.8.0-1022-aws", "installed": {"6.8.0-1021-aws": "2.27.3",
    "6.8.0-1022-aws": null}}
registry_dwords:
  description: The RegistryDwords of the loaded NVIDIA driver, null if it is not loaded.
  returned: always
  type: dict
  sample: {"RMForceStaticBar1": "1", "RmForceDisableIomapWC": "1"}
registry_dwords_wanted:
  description: The RegistryDwords that P2PDMA needs with these GPUs on x86.
  returned: always
  type: dict
  sample: {"RMForceStaticBar1": "1", "RmForceDisableIomapWC": "1"}
nvme_multipath:
  description: Whether multipath of nvme_core is enabled, null if it is not loaded.
  returned: always
  type: bool
  sample: false
iommu:
  description: Whether the kernel uses an IOMMU, null if that is unreadable.
  returned: always
  type: bool
  sample: false
library:
  description: libcufile, with C(path) and C(version), null if it is missing or unknown, and C(asked), the value of
    O(library).
  returned: always
  type: dict
  sample: {"path": "/usr/local/cuda/lib64/libcufile.so.0", "version": "1.15.1.6", "asked": null}
cufile_json:
  description:
    - The configuration of libcufile, with C(path), C(target) (behind every link), C(exists), C(valid) (null if it does
      not exist) and C(settings).
  returned: always
  type: dict
  sample: {"path": "/etc/cufile.json", "target": "/usr/local/cuda-13.0/gds/cufile.json", "exists": true, "valid": true,
    "settings": {"properties": {"allow_compat_mode": true}}}
capability:
  description:
    - The driver-wide table, with C(source) (libcufile, gdscheck, or null without a table), C(versions), C(drivers)
      (modes of each storage driver), C(rdma), C(settings), C(gpus), C(platform), C(p2pdma), C(signs), C(errors).
  returned: always
  type: dict
  sample: {"source": "libcufile", "drivers": {"NVMe": ["nvfs"], "NFS": []}}
driver_probe:
  description: The outcome of opening libcufile's driver with the node's settings, null if it was not opened.
  returned: always
  type: dict
  sample: {"state": "ok", "step": "open", "err": 0}
tools:
  description: Full path of each program, null if it is missing.
  returned: always
  type: dict
  sample: {"gdscheck": "/usr/local/cuda/gds/tools/gdscheck", "gdsio": null, "dkms": "/usr/sbin/dkms"}
files:
  description: For each of O(files) its sha256, null if it does not exist.
  returned: always
  type: dict
  sample: {"/etc/modprobe.d/mlcluster-gds.conf": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
paths:
  description: For each of O(paths) C(mode), C(uid), C(gid), C(is_dir), C(is_link), null if it does not exist.
  returned: always
  type: dict
  sample: {"/etc/cufile.json": {"mode": "0777", "uid": 0, "gid": 0, "is_dir": false, "is_link": true}}
packages:
  description: For each of O(packages) its installed version, null if it is not installed.
  returned: always
  type: dict
  sample: {"nvidia-gds-13-0": "13.0.2-1", "nvidia-fs-dkms": null}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.decide import advice, survey
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.gdsio import bandwidth
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.prerequisites import registry_wanted
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.kernel import kernel_modules
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.packages import package_versions
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import answer

FACTS = (
    "mounts",
    "driver",
    "gpus",
    "nvidia_fs",
    "kernel",
    "registry_dwords",
    "nvme_multipath",
    "iommu",
    "library",
    "cufile_json",
    "capability",
    "driver_probe",
    "tools",
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "mounts": {"type": "list", "elements": "path", "default": []},
            "probe": {"type": "str", "choices": ["passive", "active"], "default": "passive"},
            "required": {"type": "list", "elements": "str", "choices": ["nvfs", "p2pdma", "compat"], "default": []},
            "library": {"type": "path"},
            "timeout": {"type": "int", "default": 30},
            "bandwidth": {"type": "bool", "default": False},
            "bandwidth_mib": {"type": "int", "default": 1024},
            "files": {"type": "list", "elements": "path", "default": []},
            "paths": {"type": "list", "elements": "path", "default": []},
            "packages": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    host = Host()
    wanted = module.params
    if wanted["timeout"] < 1 or wanted["bandwidth_mib"] < 1:
        module.fail_json(msg="timeout and bandwidth_mib must be 1 or more: use seconds and MiB as integers")
    active = wanted["probe"] == "active" and not module.check_mode
    try:
        facts = survey(host, wanted["mounts"], active, wanted["library"], wanted["timeout"])
        results = verify(facts, wanted["required"])
        if wanted["bandwidth"] and not module.check_mode:
            results += [bandwidth(facts, mount, wanted["bandwidth_mib"]) for mount in facts["mounts"]]
        known = {name: facts[name] for name in FACTS}
        known["kernel_modules"] = kernel_modules(host)
        known["packages"] = package_versions(host, wanted["packages"])
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=False,
        **answer(results),
        advice=advice(facts),
        registry_dwords_wanted=registry_wanted(facts["gpus"]),
        files={path: host.sha256(path) for path in wanted["files"]},
        paths={path: host.stat(path) for path in wanted["paths"]},
        **known,
    )


if __name__ == "__main__":
    main()
