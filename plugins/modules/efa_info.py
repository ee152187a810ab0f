#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: efa_info
short_description: Look at EFA, libfabric, NCCL's OFI plugin and the limits they need
version_added: 0.1.0
description:
  - One read-only look that returns all facts for the decisions of a role, with verdicts.
  - The plugin is opened in a child process with a time limit, and the loader's error is returned.
  - An interrupted installation is recognised by the installer's marker, which is written after its packages.
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
  expected_devices:
    description: Number of EFA devices that must exist, at most 1000. The default is the maximum of the instance type.
    type: int
  wait_seconds:
    description: Seconds to wait for EFA devices that appear late, at most 600.
    type: int
    default: 0
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
    description: Packages whose version to report in RV(packages). C(*) matches any text.
    type: list
    elements: str
    default: []
  units:
    description: Services whose limit of locked memory is reported.
    type: list
    elements: str
    default: [slurmd.service, containerd.service, docker.service]
  plugin_dirs:
    description: Directories in which to look for the plugin before the known ones.
    type: list
    elements: path
    default: []
  peers:
    description:
      - Names or addresses of other nodes that must answer this node.
      - EFA's security group allows all traffic to itself, so each must at least refuse a TCP connection.
    type: list
    elements: str
    default: []
  counters:
    description: Also return the hardware counters of each device, for a comparison before and after a transfer.
    type: bool
    default: false
  cuda_home:
    description: Directory of the CUDA toolkit whose version is compared.
    type: path
    default: /usr/local/cuda
  minima:
    description:
      - Minimum versions of C(driver), C(cuda), C(installer), C(libfabric), C(plugin) or C(nccl), in addition to those
        in documents.
    type: dict
    default: {}
notes:
  - Without root the limits of running services are unknown.
seealso:
  - module: mlcluster.aws.accelerator_info
"""

EXAMPLES = r"""
- name: Look at the node
  mlcluster.aws.efa_info:
  register: efa

- name: Wait up to a minute for late devices
  mlcluster.aws.efa_info:
    wait_seconds: 60
    files: [/etc/nccl.conf]
    packages: [libnccl2, "nvidia-driver-*"]
  register: efa

- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ efa.problems }}"
"""

RETURN = r"""
instance_type:
  description: EC2 instance type, null if it is unknown.
  returned: always
  type: str
  sample: p5.48xlarge
family:
  description: >-
    Hardware of the type. C(accelerators) is null or C(kind) (gpu or neuron), C(name), C(count), C(memory_mib);
    C(nvswitch) is true, false or null (unknown); C(source) is the source of these facts.
  returned: always
  type: dict
  sample: {"accelerators": {"kind": "gpu", "name": "H100", "count": 8, "memory_mib": 81920}, "nvswitch": true}
expected_devices:
  description: Expected number of EFA devices, null if it is unknown.
  returned: always
  type: int
  sample: 32
expected_source:
  description: Source of RV(expected_devices).
  returned: always
  type: str
  sample: EC2 DescribeInstanceTypes
waited_seconds:
  description: Seconds of waiting for devices.
  returned: always
  type: float
  sample: 0.0
devices:
  description: EFA devices that the kernel offers.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name below C(/sys/class/infiniband).
      type: str
      sample: rdmap16s27
    pci:
      description: PCI address.
      type: str
      sample: "0000:10:1b.0"
    device_id:
      description: PCI device id.
      type: str
      sample: "0xefa2"
    driver:
      description: Kernel driver.
      type: str
      sample: efa
    state:
      description: State of its port.
      type: str
      sample: "4: ACTIVE"
    p2p:
      description: The memory that the driver can reach directly, as it reports; null for drivers that do not report it.
      type: str
      sample: NVIDIA
    counters:
      description: Hardware counters by name, only with O(counters=true).
      type: dict
      sample: {"tx_bytes": 4096, "rdma_write_bytes": 0}
pci_devices:
  description: PCI addresses of EFA functions, also of those without a driver.
  returned: always
  type: list
  elements: str
  sample: ["0000:10:1b.0"]
uverbs:
  description: Device nodes below C(/dev/infiniband).
  returned: always
  type: list
  elements: str
  sample: [uverbs0]
modules:
  description: >-
    The kernel modules efa, nvidia, neuron and gdrdrv, each with C(available) for the running kernel (null if modinfo is
    missing), C(version), C(file), C(loaded) and C(loaded_version).
  returned: always
  type: dict
  sample: {"efa": {"available": true, "version": "2.17.2g", "loaded": true, "loaded_version": "2.17.2g"}}
libfabric:
  description: >-
    C(program) is the path of fi_info, C(version) that of libfabric, C(domains) the devices with a reliable endpoint of
    the provider efa, C(fabrics) the fabrics listed, C(problem) why fi_info did not answer.
  returned: always
  type: dict
  sample: {"program": "/opt/amazon/efa/bin/fi_info", "version": "2.1.0amzn4", "domains": ["rdmap16s27"]}
installer:
  description: >-
    State of an installation by the EFA installer. C(state) is absent, complete, interrupted or undeterminable;
    C(version) is from its marker; C(reasons) are the reasons why it is not complete; C(differences) are packages of its
    list that have another version now, with C(name), C(version) and C(installed).
  returned: always
  type: dict
  sample: {"state": "complete", "version": "1.43.0", "reasons": [], "differences": []}
plugins:
  description: Every OFI plugin found, the newest directory first.
  returned: always
  type: list
  elements: dict
  sample: []
plugin:
  description: The entry of RV(plugins) to use, the first that loads; null if there is none.
  returned: always
  type: dict
  contains:
    place:
      description: Its directory.
      type: str
      sample: /opt/amazon/ofi-nccl/lib
    net:
      description: The network plugin.
      type: str
      sample: /opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so
    tuner:
      description: The tuner plugin of the same directory, or null.
      type: str
      sample: /opt/amazon/ofi-nccl/lib/libnccl-tuner-ofi.so
    names:
      description: Its file names. With C(libnccl-net.so) NCCL finds it without a setting.
      type: list
      elements: str
      sample: [libnccl-net-ofi.so]
    version:
      description: Version in its text, or null.
      type: str
      sample: 1.16.1
    loads:
      description: Whether it could be opened; null if that was not possible to test.
      type: bool
      sample: true
    error:
      description: The loader's error.
      type: str
      sample: "libfabric.so.1: cannot open shared object file: No such file or directory"
    interfaces:
      description: The NCCL network interfaces that it offers.
      type: list
      elements: str
      sample: [ncclNetPlugin_v9, ncclNetPlugin_v10]
    tuner_loads:
      description: Whether the tuner could be opened, null if there is none.
      type: bool
      sample: true
    tuner_error:
      description: The loader's error for the tuner.
      type: str
      sample: null
    on_linker_path:
      description: Whether the dynamic linker finds it by its name, so that no library path has to be set.
      type: bool
      sample: true
nccl_net:
  description: >-
    Network plugin that NCCL opens. C(value) and C(source) of NCCL_NET_PLUGIN, the C(names) that NCCL tries, the C(path)
    of the first that the dynamic linker knows (null without one), and C(plugin), the C(net) of the OFI plugin in
    RV(plugins) that this is (null if it is another library).
  returned: always
  type: dict
  sample: {"value": "ofi", "source": "/etc/nccl.conf", "names": ["ofi", "libnccl-net-ofi.so"],
           "path": "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so",
           "plugin": "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"}
efa_blocked_by:
  description: >-
    The first variable that prevents NCCL from using EFA, NCCL_NET or FI_PROVIDER, with its C(name), C(value), C(source)
    and the C(good) values. Null if there is none.
  returned: always
  type: dict
  sample: null
linker_problem:
  description: Why C(ldconfig -p) gave no answer, so that a library that was not found may exist; null if it did.
  returned: always
  type: str
  sample: null
nccl_tuner:
  description: >-
    C(value) and C(source) of NCCL_TUNER_PLUGIN, whether it C(loads) (null if it is not set), and the C(error).
  returned: always
  type: dict
  sample: {"value": null, "source": null, "loads": null, "error": null}
nccl:
  description: NCCL as the dynamic linker finds it, with C(path), C(loads), C(error), C(version).
  returned: always
  type: dict
  sample: {"path": "/lib/x86_64-linux-gnu/libnccl.so.2", "loads": true, "error": null, "version": "2.28.9"}
gdrcopy:
  description: The same of GDRCopy's library, and whether it has its C(device_node); its module is in RV(modules).
  returned: always
  type: dict
  sample: {"path": null, "loads": null, "error": null, "version": null, "device_node": false}
nvshmem:
  description: The same of NVSHMEM's host library, also in the directories of NVIDIA's packages.
  returned: always
  type: dict
  sample: {"path": null, "loads": null, "error": null, "version": null}
mpi:
  description: Open MPI of the EFA installer, with C(program) and C(version).
  returned: always
  type: list
  elements: dict
  sample: [{"program": "/opt/amazon/openmpi/bin/mpirun", "version": "4.1.7"}]
neuron:
  description: >-
    The Neuron devices, null if nothing indicates one. C(loaded) and C(driver) describe the kernel module,
    C(device_nodes) counts those below C(/dev), C(devices) are those of neuron-ls, C(problem) is the reason if there are
    none.
  returned: always
  type: dict
  sample: {"loaded": true, "driver": "2.24.7.0", "device_nodes": 16, "devices": [], "problem": null}
cuda:
  description: The CUDA toolkit in O(cuda_home), with its C(path), null if it is missing, and C(version).
  returned: always
  type: dict
  sample: {"path": "/usr/local/cuda", "version": "13.0.2"}
minima:
  description: O(minima) as passed.
  returned: always
  type: dict
  sample: {}
nvidia_driver:
  description: Version of the loaded NVIDIA driver, or null.
  returned: always
  type: str
  sample: 580.159.04
fabric_manager:
  description: The fabric manager, with C(unit), C(exists), C(active), C(enabled), C(version), C(problem).
  returned: always
  type: dict
  sample: {"unit": "nvidia-fabricmanager.service", "exists": true, "active": true, "version": "580.159.04"}
limits:
  description: >-
    Locked memory of a C(login) of any user and of C(root) by limits.conf and limits.d. C(soft) and C(hard) are KiB,
    unlimited or null (not set); C(soft_file) and C(hard_file) are the files of the effective lines. C(others) has the
    users and groups with lower limits, C(unread) the files that could not be read.
  returned: always
  type: dict
  sample: {"login": {"soft": "unlimited", "hard": "unlimited"}, "root": {"soft": null, "hard": null}, "others": {}}
units:
  description: >-
    For each of O(units) C(exists), C(active), C(enabled), C(pid), C(configured_memlock) in bytes or unlimited, and
    C(running_memlock) with C(soft) and C(hard) of the running process, null if it does not run.
  returned: always
  type: dict
  sample: {"slurmd.service": {"exists": true, "running_memlock": {"soft": "unlimited", "hard": "unlimited"}}}
huge_pages:
  description: C(total) and C(free) huge pages, and their C(size_kib).
  returned: always
  type: dict
  sample: {"total": 5128, "free": 5128, "size_kib": 2048}
yama:
  description: Whether the kernel has Yama, of which C(kernel.yama.ptrace_scope) is a setting.
  returned: always
  type: bool
  sample: true
ptrace_scope:
  description: C(kernel.yama.ptrace_scope), null on a kernel without Yama, or if it cannot be read.
  returned: always
  type: int
  sample: 0
package_manager:
  description: The queried database, dpkg or rpm, null if neither answered.
  returned: always
  type: str
  sample: dpkg
packages:
  description: >-
    Version of each of O(packages), of the EFA installer's packages and of those that training depends on; null if it is
    not installed.
  returned: always
  type: dict
  sample: {"libnccl2": "2.28.9-1+cuda13.0", "efa": "2.17.2-1.amzn1"}
held_packages:
  description: Packages that are on hold, or locked by dnf's versionlock.
  returned: always
  type: list
  elements: str
  sample: [linux-image-aws]
peers:
  description: For each of O(peers) C(answered), or C(silent), C(name) or C(unknown) with the reason.
  returned: always
  type: dict
  sample: {"10.0.0.12": "answered", "10.0.0.13": "silent: timed out"}
reboot_required:
  description: Whether the system reports that it needs a reboot.
  returned: always
  type: bool
  sample: false
files:
  description: For each of O(files) its sha256, null if it does not exist.
  returned: always
  type: dict
  sample: {"/etc/nccl.conf": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
paths:
  description: For each of O(paths) C(mode), C(uid), C(gid), C(is_dir), C(is_link), null if it does not exist.
  returned: always
  type: dict
  sample: {"/opt/nccl-tests": {"mode": "0755", "uid": 0, "gid": 0, "is_dir": true, "is_link": false}}
results:
  description: >-
    Verdicts in the shape C(mlcluster.result/1), with the ids efa.installer, efa.devices, efa.driver, efa.provider,
    efa.plugin, efa.limits, efa.ptrace, efa.fabric_manager, efa.nccl, efa.gdrcopy, efa.nvshmem, efa.peers,
    versions.driver, versions.cuda, versions.installer, versions.libfabric, versions.plugin, versions.nccl, and on
    Neuron machines neuron.driver, neuron.count and neuron.memory.
  returned: always
  type: list
  elements: dict
  sample: [{"id": "efa.devices", "status": "pass", "expected": 32, "found": 32, "unit": "devices"}]
lines:
  description: The verdicts as text, one line each.
  returned: always
  type: list
  elements: str
  sample: ["PASS efa.devices: expected 32 devices, found 32 devices"]
problems:
  description: Entries of RV(lines) that are neither a pass nor not applicable.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.cuda import CUDA_HOME
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.versions import minima_problems
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.look import (
    DEFAULT_UNITS,
    LONGEST_WAIT,
    MAX_DEVICES,
    Options,
    look,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import answer


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instance_type": {"type": "str"},
            "expected_devices": {"type": "int"},
            "wait_seconds": {"type": "int", "default": 0},
            "files": {"type": "list", "elements": "path", "default": []},
            "paths": {"type": "list", "elements": "path", "default": []},
            "packages": {"type": "list", "elements": "str", "default": []},
            "units": {"type": "list", "elements": "str", "default": list(DEFAULT_UNITS)},
            "plugin_dirs": {"type": "list", "elements": "path", "default": []},
            "peers": {"type": "list", "elements": "str", "default": []},
            "counters": {"type": "bool", "default": False},
            "cuda_home": {"type": "path", "default": CUDA_HOME},
            "minima": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    problems = [
        f"{name} is {module.params[name]}: use 0 to {maximum}"
        for name, maximum in (("wait_seconds", LONGEST_WAIT), ("expected_devices", MAX_DEVICES))
        if module.params[name] is not None and not 0 <= module.params[name] <= maximum
    ] + [
        f"{name} has {word!r}: a name has no NUL in it"
        for name in ("files", "paths", "packages", "units", "plugin_dirs", "peers")
        for word in module.params[name]
        if "\0" in word
    ]
    problems += minima_problems(module.params["minima"])
    if problems:
        module.fail_json(msg="; ".join(problems))
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in module.params.items()}
    facts = look(Host(), Options(**options))
    results = verify(facts)
    module.exit_json(
        changed=False,
        **facts,
        **answer(results),
    )


if __name__ == "__main__":
    main()
