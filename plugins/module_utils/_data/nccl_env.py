# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of NCCL, the OFI plugin and libfabric: variables to set and to avoid, with sources.

``FAMILIES`` (instance type families and the variables that the plugin sets by itself), ``RENDER`` (variables to set)
and ``RULES`` (verdicts on variables of a user) are read by ``_node/efa/environment.py``. The first matching entry is
used. Compatible versions are in ``accelerator_versions.py``.

A ``when`` holds conditions that all have to be met: ``kind`` (nvidia, neuron), ``efa``, ``rdma``, ``nvlink``
(True or False; a type with an unknown value meets neither), ``plugin``, ``nccl``, ``libfabric`` (such as
``<1.7``; a missing version counts as a current one), ``use`` (host, mpi, container), ``value`` (a
regular expression for the whole value, in either case).
"""

from __future__ import annotations

from typing import Any

# Read in August to November 2026, at these commits.
SOURCES = {
    "ofi": "aws/aws-ofi-nccl doc/efa-env-var.md (2daf7d3)",
    "platform": "aws/aws-ofi-nccl src/platform-aws.cpp (2daf7d3)",
    "ofi-name": "aws/aws-ofi-nccl src/nccl_ofi_interface_nvidia.cpp (2daf7d3)",
    "ofi-param": "aws/aws-ofi-nccl include/nccl_ofi_param.h (2daf7d3)",
    "ofi-build": "aws/aws-ofi-nccl src/Makefile.am (2daf7d3)",
    "ofi-982": "aws/aws-ofi-nccl issue 982 and src/tuner/nccl_ofi_tuner.cpp (2daf7d3)",
    "nccl": "NVIDIA/nccl docs/userguide/source/env.rst (5067397, 2.30)",
    "nccl-src": "NVIDIA/nccl src (5067397, 2.30)",
    "libfabric": "ofiwg/libfabric man/fi_efa.7.md (af8ddbe)",
    "aws-tests": "awslabs/awsome-distributed-ai micro-benchmarks/nccl-tests (95b939c)",
    "neuron": "aws-neuron-sdk frameworks/torch/torch-neuronx/setup-trn1-multi-node-execution.rst",
    "neuron-kernel": "aws-neuron-sdk neuron-runtime/nrt-troubleshoot.rst",
    "slurm": "Slurm: SLURM_PROCID and SLURM_LOCALID are 0 in the batch step",
    "glibc": "ld.so(8)",
    "table": "this table, which knows NCCL up to 2.30 and the OFI plugin up to 1.21",
}

_CHUNKS = {"NCCL_BUFFSIZE": "8388608", "NCCL_P2P_NET_CHUNKSIZE": "524288"}
_HOPPER = {
    **_CHUNKS,
    "NCCL_NVLSTREE_MAX_CHUNKSIZE": "524288",
    "NCCL_NVLS_CHUNKSIZE": "524288",
    "NCCL_NET_FORCE_FLUSH": "0",
}

# ``plugin_sets``: variables that the OFI plugin sets by itself (a user's value takes precedence).
# ``rdma``: whether EFA offers RDMA to libfabric on these types. The plugin's document names p4 and p5, and the plugin
# requires RDMA on all later p types; types for which it has settings "without RDMA" are older.
# ``nvlink``: whether GPUs are joined by NVLink.
FAMILIES: tuple[dict[str, Any], ...] = (
    {"types": r"p3dn\.24xlarge", "rdma": False, "nvlink": True, "plugin_sets": {}},
    {"types": r"p4de?\.24xlarge", "rdma": True, "nvlink": True, "plugin_sets": _CHUNKS},
    {"types": r"p5\.4xlarge", "rdma": None, "nvlink": False, "plugin_sets": {}},
    {"types": r"p5e?\..*", "rdma": True, "nvlink": True, "plugin_sets": _HOPPER},
    {
        "types": r"(p5en|p6-b200)\..*",
        "rdma": True,
        "nvlink": True,
        "plugin_sets": {**_HOPPER, "NCCL_NETDEVS_POLICY": "max:1"},
    },
    {"types": r"p([5-9]|[1-9][0-9]+).*", "rdma": True, "nvlink": True, "plugin_sets": _HOPPER},
    {"types": r"p3\..*", "rdma": False, "nvlink": True, "plugin_sets": {}},
    {"types": r"g7e\..*", "rdma": None, "nvlink": False, "plugin_sets": _CHUNKS},
    {"types": r"g(4dn|5)\..*", "rdma": False, "nvlink": False, "plugin_sets": {}},
    {"types": r"gr?[0-9].*", "rdma": None, "nvlink": False, "plugin_sets": {}},
    {"types": r"(trn|inf)[0-9].*", "rdma": None, "nvlink": False, "plugin_sets": {}},
)

# The name of the plugin for NCCL_NET, by version.
NETWORK_NAME = "Libfabric"
NETWORK_NAME_OLD = "AWS Libfabric"
NETWORK_NAME_SINCE = "1.12"

SOCKET_IFNAME = "^docker,lo,veth"

# ``file``: nccl (read by NCCL from /etc/nccl.conf as well), environment (only from the environment).
RENDER: tuple[dict[str, Any], ...] = (
    {
        "name": "NCCL_SOCKET_IFNAME",
        "value": SOCKET_IFNAME,
        "file": "nccl",
        "when": {"kind": "nvidia"},
        "why": "NCCL finds its peers over an interface that all nodes reach, whatever the interfaces are called",
        "source": "aws-tests",
    },
    {
        "name": "FI_PROVIDER",
        "value": "efa",
        "file": "environment",
        "when": {"kind": "nvidia", "efa": True, "plugin": "<1.6"},
        "why": "a plugin up to 1.5 does not choose EFA by itself",
        "source": "ofi",
    },
    {
        "name": "NCCL_PROTO",
        "value": "simple",
        "file": "nccl",
        "when": {"kind": "nvidia", "efa": True, "plugin": "<1.6"},
        "why": "a plugin up to 1.5 does not keep NCCL from protocols that EFA cannot carry",
        "source": "ofi",
    },
    {
        "name": "FI_EFA_USE_DEVICE_RDMA",
        "value": "1",
        "file": "environment",
        "when": {"kind": "nvidia", "efa": True, "rdma": True, "plugin": "<1.7"},
        "why": "a plugin before 1.7 does not turn RDMA on by itself",
        "source": "ofi",
    },
    {
        "name": "FI_EFA_USE_DEVICE_RDMA",
        "value": "1",
        "file": "environment",
        "when": {"kind": "nvidia", "efa": True, "rdma": True, "libfabric": "<1.18"},
        "why": "libfabric before 1.18 does not turn RDMA on by itself",
        "source": "ofi",
    },
    {
        "name": "FI_PROVIDER",
        "value": "efa",
        "file": "environment",
        "when": {"kind": "neuron", "efa": True},
        "why": "Neuron's collectives between instances run over EFA",
        "source": "neuron",
    },
    {
        "name": "FI_EFA_USE_DEVICE_RDMA",
        "value": "1",
        "file": "environment",
        "when": {"kind": "neuron", "efa": True},
        "why": "Neuron's collectives between instances need RDMA",
        "source": "neuron",
    },
)

# Open MPI: its messages avoid UCX and interfaces that other nodes cannot reach. Containers have their own settings.
RENDER_MPI = {
    "OMPI_MCA_pml": "^ucx",
    "OMPI_MCA_btl": "tcp,self",
    "OMPI_MCA_btl_tcp_if_exclude": "lo,docker0,veth_def_agent",
    "PMIX_MCA_gds": "hash",
}

_OFF = r"0|n|no|f|false|off"
_ON = r"1|y|yes|t|true|on"
_LOOPBACK = r"=?(lo|docker|veth)[^,]*(,=?(lo|docker|veth)[^,]*)*"

RULES: tuple[dict[str, Any], ...] = (
    # Loaders, ranks, devices: not variables of NCCL, but common errors of job scripts.
    {
        "names": r"LD_(LIBRARY_PATH|PRELOAD|AUDIT)",
        "verdict": "harmful",
        "why": "it changes every program that is started, breaks containers that inherit it, and is not needed: the "
        "EFA installer's libraries are found through /etc/ld.so.conf.d",
        "source": "glibc",
    },
    {
        "names": r"RANK|LOCAL_RANK",
        "verdict": "harmful",
        "why": "set outside the task, all tasks inherit the same number; set it inside srun's task, or let torchrun "
        "do it",
        "source": "slurm",
    },
    {
        "names": r"WORLD_SIZE|MASTER_ADDR|MASTER_PORT",
        "verdict": "keep",
        "why": "the same for all tasks of a job, and PyTorch's env:// rendezvous needs it",
        "source": "slurm",
    },
    {
        "names": r"CUDA_VISIBLE_DEVICES",
        "verdict": "drop",
        "why": "Slurm sets it from --gres; a fixed list names GPUs that the job may not have",
        "source": "slurm",
    },
    {
        "names": r"CUDA_DEVICE_ORDER",
        "verdict": "keep",
        "why": "with PCI_BUS_ID the order of the devices is that of nvidia-smi",
        "source": "table",
    },
    # Open MPI.
    {
        "names": r"OMPI_MCA_(pml|btl|btl_tcp_if_exclude)|PMIX_MCA_gds",
        "when": {"use": "mpi"},
        "verdict": "keep",
        "why": "keeps Open MPI's own messages on TCP; NCCL's traffic is not concerned",
        "source": "aws-tests",
    },
    {
        "names": r"(OMPI|PMIX)_MCA_.*",
        "when": {"use": "container"},
        "verdict": "drop",
        "why": "it belongs to the Open MPI in the image, which sets it",
        "source": "aws-tests",
    },
    {
        "names": r"OMPI_MCA_.*|PMIX_MCA_gds",
        "when": {"use": "host"},
        "verdict": "drop",
        "why": "nothing but Open MPI reads it, and a job started by torchrun or plain srun does not use Open MPI",
        "source": "aws-tests",
    },
    # libfabric.
    {
        "names": r"FI_PROVIDER",
        "when": {"efa": False},
        "verdict": "drop",
        "why": "this instance type has no EFA",
        "source": "platform",
    },
    {
        "names": r"FI_PROVIDER",
        "when": {"value": "efa", "plugin": "<1.6", "kind": "nvidia"},
        "verdict": "keep",
        "why": "needed: a plugin up to 1.5 does not choose EFA by itself",
        "source": "ofi",
    },
    {
        "names": r"FI_PROVIDER",
        "when": {"value": "efa"},
        "verdict": "keep",
        "why": "right, and optional with NCCL: the plugin chooses EFA by itself; MPI and Neuron read it",
        "since": "aws-ofi-nccl 1.6",
        "source": "ofi",
    },
    {
        "names": r"FI_PROVIDER",
        "verdict": "harmful",
        "why": "any value but efa takes libfabric off EFA",
        "source": "platform",
    },
    {
        "names": r"FI_EFA_USE_DEVICE_RDMA",
        "when": {"value": _OFF, "rdma": True},
        "verdict": "harmful",
        "why": "libfabric then emulates RDMA in software, although the device has it",
        "source": "libfabric",
    },
    {
        "names": r"FI_EFA_USE_DEVICE_RDMA",
        "when": {"kind": "neuron"},
        "verdict": "keep",
        "why": "Neuron's collectives between instances need RDMA",
        "source": "neuron",
    },
    {
        "names": r"FI_EFA_USE_DEVICE_RDMA",
        "when": {"value": _ON, "rdma": False},
        "verdict": "harmful",
        "why": "libfabric aborts the application where the EFA device has no RDMA, as on this instance type",
        "source": "libfabric",
    },
    {
        "names": r"FI_EFA_USE_DEVICE_RDMA",
        "when": {"rdma": True, "plugin": "<1.7"},
        "verdict": "keep",
        "why": "needed: a plugin before 1.7 does not turn RDMA on by itself",
        "source": "ofi",
    },
    {
        "names": r"FI_EFA_USE_DEVICE_RDMA",
        "when": {"rdma": True, "libfabric": "<1.18"},
        "verdict": "keep",
        "why": "needed: libfabric before 1.18 does not turn RDMA on by itself",
        "source": "ofi",
    },
    {
        "names": r"FI_EFA_USE_DEVICE_RDMA",
        "verdict": "drop",
        "why": "RDMA is used where the device has it; setting it aborts the application where the device does not",
        "since": "libfabric 1.18 and aws-ofi-nccl 1.7",
        "source": "ofi",
    },
    {
        "names": r"FI_EFA_FORK_SAFE",
        "when": {"kind": "neuron"},
        "verdict": "drop",
        "why": "needed only on kernels before 5.15, that is on Amazon Linux 2",
        "since": "Linux 5.15",
        "source": "neuron-kernel",
    },
    {
        "names": r"FI_EFA_FORK_SAFE",
        "verdict": "drop",
        "why": "the plugin always sets it, and kernels since 5.15 do not need it",
        "since": "aws-ofi-nccl 1.2",
        "source": "ofi",
    },
    {
        "names": r"RDMAV_.*",
        "verdict": "harmful",
        "why": "a variable of rdma-core that breaks fork() on newer kernels; the plugin's documentation forbids it",
        "source": "ofi",
    },
    {
        "names": r"FI_EFA_ENABLE_SHM_TRANSFER",
        "when": {"kind": "nvidia"},
        "verdict": "drop",
        "why": "without effect: the plugin makes libfabric turn shared-memory transfer off",
        "since": "aws-ofi-nccl 1.7",
        "source": "ofi",
    },
    {
        "names": r"FI_EFA_USE_HUGE_PAGE",
        "when": {"value": _OFF},
        "verdict": "keep",
        "why": "the remedy for 'Cannot allocate memory' when data loaders fork; costs a little speed",
        "source": "ofi",
    },
    {
        "names": r"FI_EFA_USE_HUGE_PAGE",
        "verdict": "drop",
        "why": "huge pages are used by default",
        "source": "libfabric",
    },
    # NCCL's variables on Neuron, which has no NCCL.
    {
        "names": r"NCCL_.*",
        "when": {"kind": "neuron"},
        "verdict": "drop",
        "why": "Trainium and Inferentia have no NCCL: nothing reads it",
        "source": "neuron",
    },
    # NCCL: interfaces.
    {
        "names": r"NCCL_IFNAME",
        "verdict": "rename",
        "to": "NCCL_SOCKET_IFNAME",
        "to_value": SOCKET_IFNAME,
        "why": "there is no variable of that name; the one there is chooses the interfaces NCCL finds its peers over, "
        "and EC2 interfaces are rarely called eth0 to eth3",
        "source": "nccl",
    },
    {
        "names": r"NCCL_SOCKET_IFNAME",
        "when": {"value": _LOOPBACK},
        "verdict": "harmful",
        "why": "other nodes cannot be reached over that interface",
        "to_value": SOCKET_IFNAME,
        "source": "nccl",
    },
    {
        "names": r"NCCL_SOCKET_IFNAME",
        "verdict": "keep",
        "why": "the interfaces NCCL finds its peers over; excluding (^docker,lo,veth) fits every image, names must "
        "exist on every node",
        "source": "nccl",
    },
    {
        "names": r"NCCL_SOCKET_NTHREADS|NCCL_NSOCKS_PERTHREAD",
        "when": {"efa": False},
        "verdict": "keep",
        "why": "this instance type has no EFA, so NCCL's sockets carry the data",
        "source": "nccl",
    },
    {
        "names": r"NCCL_SOCKET_NTHREADS|NCCL_NSOCKS_PERTHREAD",
        "verdict": "drop",
        "why": "of NCCL's sockets, which do not carry data over EFA",
        "source": "ofi",
    },
    # NCCL: values that the plugin, the topology or NCCL itself chooses better.
    {
        "names": r"NCCL_(MIN|MAX)_(NCHANNELS|NRINGS)",
        "verdict": "drop",
        "why": "replaced by NCCL_MIN_CTAS and NCCL_MAX_CTAS, limited to 64 channels; more of them starve EFA of data, "
        "and AWS advises to leave it out",
        "since": "NCCL 2.17",
        "source": "nccl",
    },
    {
        "names": r"NCCL_CROSS_NIC",
        "verdict": "drop",
        "why": "the default (2) chooses by topology; AWS sets it nowhere",
        "source": "nccl",
    },
    {
        "names": r"NCCL_P2P_LEVEL",
        "when": {"value": "NVL", "nvlink": False},
        "verdict": "harmful",
        "why": "this instance type has no NVLink, so GPUs would no longer talk to each other directly",
        "source": "nccl",
    },
    {
        "names": r"NCCL_(P2P|NET_GDR)_LEVEL",
        "when": {"value": "LOC|0"},
        "verdict": "harmful",
        "why": "turns the direct path off altogether",
        "source": "nccl",
    },
    {
        "names": r"NCCL_P2P_LEVEL",
        "verdict": "drop",
        "why": "NCCL chooses by topology; AWS uses it only to test NVLink alone",
        "source": "nccl",
    },
    {
        "names": r"NCCL_NET_GDR_LEVEL",
        "verdict": "drop",
        "why": "NCCL chooses by the topology, which the plugin supplies",
        "source": "nccl",
    },
    {
        "names": r"NCCL_IB_GDR_LEVEL",
        "verdict": "rename",
        "to": "NCCL_NET_GDR_LEVEL",
        "why": "its name since NCCL 2.4; leave that one out as well, NCCL chooses by topology",
        "since": "NCCL 2.4",
        "source": "nccl",
    },
    {
        "names": r"NCCL_(P2P|SHM)_DISABLE",
        "when": {"value": _ON},
        "verdict": "harmful",
        "why": "for looking for faults only: turns a path between the GPUs of a node off",
        "source": "nccl",
    },
    {
        "names": r"NCCL_(BUFFSIZE|P2P_NET_CHUNKSIZE|NVLS(TREE_MAX)?_CHUNKSIZE|NET_FORCE_FLUSH|NETDEVS_POLICY)",
        "verdict": "drop",
        "why": "the plugin sets what was measured to be best for the instance type; a value of one's own replaces it",
        "source": "platform",
    },
    {
        "names": r"NCCL_TOPO_FILE",
        "verdict": "drop",
        "why": "the plugin sets it for the instance types that need it",
        "source": "platform",
    },
    {
        "names": r"NCCL_PROTO",
        "when": {"value": "simple", "plugin": "<1.6"},
        "verdict": "keep",
        "why": "needed: a plugin up to 1.5 does not keep NCCL from protocols that EFA cannot carry",
        "source": "ofi",
    },
    {
        "names": r"NCCL_PROTO",
        "when": {"value": r"[^^]*LL128.*"},
        "verdict": "harmful",
        "why": "LL128 forced where it is not supported corrupts data",
        "source": "nccl",
    },
    {
        "names": r"NCCL_(ALGO|PROTO)",
        "when": {"plugin": "==1.16.2"},
        "verdict": "harmful",
        "why": "with this plugin NCCL's initialisation fails when it is set",
        "since": "aws-ofi-nccl 1.16.2",
        "source": "ofi-982",
    },
    {
        "names": r"NCCL_(ALGO|PROTO)",
        "verdict": "drop",
        "why": "the plugin's tuner steps back when it is set, and what is left out (NVLS, NVLSTree, PAT) is lost",
        "source": "ofi-982",
    },
    {
        "names": r"NCCL_NVLS_ENABLE",
        "when": {"value": "0", "nccl": "<2.18.5"},
        "verdict": "keep",
        "why": "NVLS has a fault with EFA before NCCL 2.18.5; the plugin turns it off as well",
        "source": "platform",
    },
    {
        "names": r"NCCL_NVLS_ENABLE",
        "when": {"value": "0"},
        "verdict": "drop",
        "why": "turns NVLink SHARP off, which NCCL uses where there is NVSwitch",
        "since": "NCCL 2.18.5",
        "source": "nccl",
    },
    {
        "names": r"NCCL_TUNER_PLUGIN",
        "when": {"nccl": "<2.21", "value": r"(?!.*/opt/aws-ofi-nccl/).*\.so"},
        "verdict": "keep",
        "why": "NCCL 2.19 and 2.20 load the tuner only from the file named here",
        "source": "ofi-build",
    },
    {
        "names": r"NCCL_TUNER_PLUGIN",
        "when": {"nccl": "<2.21"},
        "verdict": "harmful",
        "to_value": "libnccl-tuner-ofi.so",
        "why": "NCCL 2.19 and 2.20 want a file that is there; the installer's is no longer below /opt/aws-ofi-nccl",
        "source": "ofi-build",
    },
    {
        "names": r"NCCL_TUNER_PLUGIN",
        "verdict": "drop",
        "why": "NCCL finds the tuner in the plugin, which sets this by itself; a path of another installer version "
        "leaves NCCL without it",
        "since": "NCCL 2.21",
        "source": "platform",
    },
    {
        "names": r"NCCL_NET",
        "when": {"efa": False, "value": "Socket"},
        "verdict": "keep",
        "why": "this instance type has no EFA",
        "source": "nccl",
    },
    {
        "names": r"NCCL_NET",
        "when": {"plugin": f"<{NETWORK_NAME_SINCE}", "value": "Libfabric|OFI"},
        "verdict": "harmful",
        "to_value": NETWORK_NAME_OLD,
        "why": "a plugin before 1.12 answers only to 'AWS Libfabric', so that NCCL fails to start",
        "source": "ofi-name",
    },
    {
        "names": r"NCCL_NET",
        "when": {"value": "Libfabric|OFI|AWS Libfabric"},
        "verdict": "keep",
        "why": "pins the plugin: without it NCCL stops instead of falling back to sockets",
        "source": "ofi-name",
    },
    {
        "names": r"NCCL_NET",
        "verdict": "harmful",
        "to_value": NETWORK_NAME,
        "why": "takes NCCL off the OFI plugin, and so off EFA",
        "source": "nccl",
    },
    {
        "names": r"NCCL_NET_PLUGIN",
        "when": {"value": "none"},
        "verdict": "harmful",
        "why": "keeps NCCL from loading the OFI plugin, and so off EFA",
        "source": "nccl",
    },
    {
        "names": r"NCCL_NET_PLUGIN",
        "verdict": "keep",
        "why": "needed where the plugin is installed as libnccl-net-ofi.so only (value: ofi)",
        "source": "nccl",
    },
    {
        "names": r"NCCL_IB_CUDA_SUPPORT",
        "verdict": "drop",
        "why": "removed from NCCL",
        "since": "NCCL 2.4",
        "source": "nccl",
    },
    {
        "names": r"NCCL_IB_.*",
        "when": {"efa": True},
        "verdict": "drop",
        "why": "of NCCL's own InfiniBand transport, which EFA does not use",
        "source": "nccl",
    },
    # NCCL: removed or nonexistent.
    {
        "names": r"NCCL_(TREE|LL)_THRESHOLD",
        "verdict": "drop",
        "why": "removed from NCCL",
        "since": "NCCL 2.5",
        "source": "nccl",
    },
    {
        "names": r"NCCL_SINGLE_RING_THRESHOLD",
        "verdict": "drop",
        "why": "removed from NCCL",
        "since": "NCCL 2.3",
        "source": "nccl",
    },
    {
        "names": r"NCCL_(COMM_)?TIMEOUT(_SECONDS)?",
        "verdict": "drop",
        "why": "there is no variable of that name; PyTorch takes init_process_group(timeout=...)",
        "source": "nccl-src",
    },
    # NCCL: logs.
    {
        "names": r"NCCL_DEBUG",
        "when": {"value": "VERSION|WARN|INFO"},
        "verdict": "keep",
        "why": "WARN for training; INFO for tests, whose verdict on the fabric needs it",
        "source": "nccl",
    },
    {
        "names": r"NCCL_DEBUG",
        "verdict": "drop",
        "why": "prints every call; for looking for faults only",
        "source": "nccl",
    },
    {
        "names": r"NCCL_DEBUG_FILE",
        "when": {"value": r"/dev/std(out|err)|(?=.*%h)(?=.*%p)(?!.*%[^hp]).*"},
        "verdict": "keep",
        "why": "%h and %p give each process of each host its own file",
        "source": "nccl",
    },
    {
        "names": r"NCCL_DEBUG_FILE",
        "verdict": "harmful",
        "to_value": "%h.%p",
        "why": "only %h (host) and %p (process) are replaced and both are needed; otherwise processes write over each "
        "other's file",
        "source": "nccl",
    },
    # The plugin.
    {
        "names": r"OFI_NCCL_(ENDPOINT_PER_COMM|RDMA_M(IN|AX)_POSTED_BOUNCE_BUFFERS)",
        "verdict": "drop",
        "why": "removed from the plugin",
        "source": "ofi-param",
    },
)

# Existing names, to find variables that nothing reads: documented, or read in the source.
KNOWN_NCCL = frozenset(
    f"NCCL_{name}"
    for name in """
ALGO ALLGATHERV_ENABLE ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CGA_CLUSTER_SIZE CHECKS_DISABLE CHECK_MODE
CHECK_POINTERS CHUNK_SIZE COLLNET_ENABLE COLLNET_NODE_THRESHOLD COMM_BLOCKING COMM_ID
COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES CONF_FILE CONNECT_ROUND_MAX_PEERS CROSS_NIC CTA_POLICY
CUMEM_ENABLE CUMEM_HOST_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS
DEV_API_JIT DISABLE_MEM_MANAGER DMABUF_ENABLE ELASTIC_BUFFER_REGISTER ENABLE_VERSION_CHECK ENV_PLUGIN
GDAKI_USE_RELIABLE_DB GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE GDRCOPY_SYNC_ENABLE
GDR_FLUSH_DISABLE GIN_ENABLE GIN_ERROR_QUERY_SEC GIN_GDAKI_MAX_DEST_RD_ATOMIC GIN_GDAKI_MAX_QP_RD_ATOMIC
GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_IB_TC GIN_NCONNECTIONS GIN_PLUGIN GIN_PLUGIN_REF_COUNT
GIN_PROXY_QUEUE_SIZE GIN_TYPE GRAPH_DUMP_FILE GRAPH_DUMP_FILE_RANK GRAPH_FILE GRAPH_HELPER_DISABLE
GRAPH_MIXING_SUPPORT GRAPH_REGISTER GRAPH_STREAM_ORDERING GROUP_CUDA_STREAM HOSTID IBVERBS_LIB
IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD IB_DATA_DIRECT IB_DEVICE_PCI_ORDER IB_DISABLE
IB_ECE_ENABLE IB_FIFO_TC IB_GID_INDEX IB_HCA IB_MERGE_NICS IB_MERGE_VFS IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT
IB_MQP_RETRY_SLEEP_MSEC IB_OOO_RQ IB_PCI_RELAXED_ORDERING IB_PKEY IB_PREPOST_RECEIVE_WORK_REQUESTS
IB_QPS_PER_CONNECTION IB_QUERY_PORT_SPEED IB_RECEIVER_SIDE_MATCHING_SCHEME IB_RESILIENCY_PORT_FAILOVER
IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY IB_RESILIENCY_PORT_RECOVERY
IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX
IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM
IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS IB_SUBNET_AWARE_ROUTING IB_SUBNET_PREFIX_LEN IB_TC
IB_TIMEOUT IB_USE_INLINE IB_WARN_RAIL_LOCAL IGNORE_COLLNET_MISMATCH IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P
IGNORE_NET_MISMATCH IPC_USE_ABSTRACT_SOCKET L1_SHARED_MEMORY_CARVEOUT LAUNCH_MODE LAUNCH_ORDER_IMPLICIT
LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL128_BUFFSIZE LL128_C2C LL128_NTHREADS LL_BUFFSIZE LOCAL_REGISTER
LSA_TEAM_SIZE MAX_CTAS MAX_NCHANNELS MAX_NRINGS MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS
MIN_NRINGS MIN_P2P_NCHANNELS MLOPART_RDMA_ENABLE MNNVL_CLIQUE_ID MNNVL_CROSS_CLIQUE MNNVL_ENABLE
MNNVL_RAIL_PER_HOST MNNVL_SCATTER_NETS_ENABLE MNNVL_UUID MULTI_RANK_GPU_ENABLE MULTI_SEGMENT_REGISTER
NCHANNELS_PER_NET_PEER NET NETDEVS_POLICY NET_DISABLE_INTRA NET_FORCE_FLUSH NET_FORCE_MERGE NET_GDR_C2C
NET_GDR_LEVEL NET_GDR_MLOPART NET_GDR_READ NET_MERGE_LEVEL NET_MERGE_POLICY NET_OPTIONAL_RECV_COMPLETION
NET_OVERHEAD NET_PLUGIN NET_PLUGIN_REF_COUNT NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS
NUM_RMA_CTX NVB_DISABLE NVB_PRECONNECT NVLINK_UTIL_CENTRIC_SCHED_ENABLE NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE
NVLS_ENABLE NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE
P2P_EPOCH_ENABLE P2P_LEVEL P2P_LL_THRESHOLD P2P_MAX_PEERS P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE
P2P_PER_CHANNEL_NET_BW P2P_PXN_LEVEL P2P_READ_ENABLE P2P_SCHEDULE_GROUP_SIZE P2P_USE_CUDA_MEMCPY PAT_ENABLE
PROFILER_PLUGIN PROGRESS_APPENDOP_FREQ PROTO PROXY_APPEND_BATCH_SIZE PROXY_CPUSET PROXY_DUMP_SIGNAL PXN_C2C
PXN_DISABLE RAS_ADDR RAS_ENABLE RAS_TIMEOUT_FACTOR REPORT_CONNECT_PROGRESS RMA_DISABLE RMA_PLUGIN
RMA_PLUGIN_REF_COUNT RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE RUNTIME_CONNECT SET_CPU_STACK_SIZE
SET_STACK_SIZE SET_THREAD_NAME SHADOW_MEMPOOL_MAX_SIZE SHM_DISABLE SHM_LOCALITY SINGLE_PROC_MEM_REG_ENABLE
SOCKET_FAMILY SOCKET_IFNAME SOCKET_INLINE SOCKET_MAGIC SOCKET_MIN_TASKSIZE SOCKET_NTHREADS
SOCKET_POLL_TIMEOUT_MSEC SOCKET_RCVBUF SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF SYM_CE_THRESHOLD
SYM_CTAS SYM_GIN_KERNELS_ENABLE SYM_KERNEL SYM_NOWIN_ENABLE SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE
SYM_TMA_ENABLE THREAD_THRESHOLDS TOPO_DUMP_FILE TOPO_DUMP_FILE_RANK TOPO_FILE TOPO_SPLIT_MLOPART TUNER_PLUGIN
UID_STAGGER_RATE UID_STAGGER_THRESHOLD UNPACK_DOUBLE_NCHANNELS WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES
WORK_FIFO_BYTES
""".split()
)
KNOWN_NCCL_UP_TO = "2.30"
KNOWN_OFI = frozenset(
    f"OFI_NCCL_{name}"
    for name in """
ABORT_ON_ERROR CM_NUM_RX_BUFFERS CQ_READ_COUNT CQ_SIZE CUDA_FLUSH_ENABLE DISABLE_CLOSE_MESSAGE DISABLE_DMABUF
DISABLE_GDR_REQUIRED_CHECK DISABLE_NATIVE_RDMA_CHECK EAGER_MAX_SIZE EARLY_COMPLETION ERRORCHECK_MUTEX
EXCLUDE_TCP_IF FORCE_NUM_RAILS GDAKI_EFA_HW_COUNTER GDR_FLUSH_DISABLE GIN_CQ_PROCESS_MAX_ITER MIN_STRIPE_SIZE
MR_CACHE_DISABLE MR_KEY_SIZE NET_LATENCY NIC_DUP_CONNS NVTX_TRACE_DIMENSION PLATFORM PROGRESS_MODEL PROTOCOL
RDMA_MAX_POSTED_CONTROL_BUFFERS RDMA_MAX_POSTED_EAGER_BUFFERS RDMA_MIN_POSTED_CONTROL_BUFFERS
RDMA_MIN_POSTED_EAGER_BUFFERS RR_CTRL_MSG SCHED_MAX_SMALL_RR_SIZE SKIP_NICS_WITHOUT_ACCEL_AT_SAME_PCI_LEVEL
TUNER_NET_COMP_OVERHEAD TUNER_NET_LATENCY TUNER_NUM_CHANNELS TUNER_TYPE USE_IPV6_TCP USE_LOW_LATENCY_TC
""".split()
)
KNOWN_OFI_UP_TO = "1.21"
