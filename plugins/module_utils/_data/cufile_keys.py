# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of libcufile in cufile.json, with the limits beyond which it rejects the whole file.

Sources of the figures:

names, since, until
    The string tables of libcufile 1.11.1, 1.14.1, 1.15.1, 1.16.1, 1.17.1, 1.18.1, 1.19.1 and 1.20.0 (packages
    nvidia-cufile-cu12 and nvidia-cufile). ``since`` is the first of them that has the name; names of 1.11 (CUDA
    12.6) have ``1.11``. ``until`` is the last that has it, None if 1.20 still does.
    tests/data_tables/check_cufile_keys.py compares them with the packages.
kind, low, high, multiple, of
    libcufile 1.15.1.6 itself, opened with one wrong value after the other: cuFileDriverOpen() returns -22
    and its log names the limit ("req: 65 min: 0 max: 32"), or the process is ended by an uncaught exception (whole
    numbers beyond 32 bits). It opens with the lowest, the highest and every choice of each setting.
    The limits of the size settings also come from cuFileGetParameterMinMaxValue() in 1.15, 1.16, 1.18, 1.19, 1.20.
    Names added after 1.15 have the limits of NVIDIA's gds-diag (MagnumIO).
    The choices of logging.level and io_priority and the levels of cufile_stats are those of the comments in NVIDIA's
    cufile.json; 1.15 silently ignores other strings.
default
    The comments of NVIDIA's cufile.json and what cuFileGetParameterSizeT() and gdscheck 1.15 show; None without a
    source. Newer builds differ in a few: max_direct_io_size_kb 1024 instead of 16384, max_io_threads 8
    instead of 4.

Kinds: bool, int, text, path (absolute), numbers (list of whole numbers), texts (list of texts), addresses (list of IPv4
addresses), hex32 ("0x" and at most eight digits), table (mount point to {"rdma_dev_addr_list": addresses}).
"""

from __future__ import annotations

from typing import Any

# The first release whose string table was read.
OLDEST = "1.11"
# JsonCpp, which libcufile uses, throws beyond it.
MAX_UINT32 = 4294967295
MAX_INT32 = 2147483647
# The largest value in KiB by libcufile: 2**54 - 4.
MAX_KIB = 18014398509481980

_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "NOTICE")
_POLICIES = ("FirstFit", "MaxMinFit", "RoundRobin", "RoundRobinMaxMin", "Randomized")
_ROUTING = ("GPU_MEM_NVLINKS", "GPU_MEM", "SYS_MEM", "P2P")


def _key(name: str, kind: str, default: object = None, since: str = OLDEST, **limits: Any) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "default": default,
        "since": since,
        "until": limits.get("until"),
        "low": limits.get("low"),
        "high": limits.get("high"),
        "multiple": limits.get("multiple"),
        "of": limits.get("of"),
    }


def _filesystem(name: str, since: str = OLDEST) -> tuple[dict[str, Any], ...]:
    return (
        _key(f"fs.{name}.rdma_dev_addr_list", "addresses", since=since),
        _key(f"fs.{name}.mount_table", "table", since=since),
    )


def _threshold(name: str, since: str = OLDEST) -> dict[str, Any]:
    return _key(f"fs.{name}.posix_gds_min_kb", "int", 0, since, low=0, high=1024)


KEYS: tuple[dict[str, Any], ...] = (
    _key("logging.dir", "path"),
    _key("logging.level", "text", "ERROR", of=_LEVELS),
    # libcufile 1.18 and later: "must be -1 for no limit, or >= 1".
    _key("logging.max_file_size_mb", "int", since="1.18", low=-1, high=MAX_UINT32),
    _key("profile.nvtx", "bool", False, until="1.15"),
    _key("profile.cufile_stats", "int", 0, low=0, high=3),
    _key("execution.max_io_queue_depth", "int", 128, low=1, high=256),
    # 32 up to GDS 1.15, 128 from 1.16 on.
    _key("execution.max_io_threads", "int", 4, low=0, high=128),
    _key("execution.parallel_io", "bool", True),
    _key("execution.min_io_threshold_size_kb", "int", 8192, low=4, high=MAX_UINT32),
    _key("execution.max_request_parallelism", "int", 4, low=0, high=8),
    _key("properties.allow_compat_mode", "bool", True),
    _key("properties.force_compat_mode", "bool", False),
    _key("properties.use_pci_p2pdma", "bool", False, "1.13"),
    _key("properties.gds_rdma_write_support", "bool", True),
    _key("properties.allow_system_memory", "bool"),
    _key("properties.force_odirect_mode", "bool", False),
    _key("properties.prefer_iouring", "bool", False),
    _key("properties.gds_fallback_io", "bool", False, "1.17"),
    _key("properties.posix_io_mode", "bool", False, "1.17", until="1.18"),
    _key("properties.vanilla_posix_io_mode", "bool", False, "1.19"),
    _key("properties.allow_rdma_token_reset", "bool", False, "1.19"),
    _key("properties.compat_odirect_unaligned_read_split", "bool", False, "1.19"),
    _key("properties.compat_odirect_unaligned_read_split_min_size_kb", "int", 128, "1.19", low=0, high=MAX_UINT32),
    _key("properties.max_direct_io_size_kb", "int", 16384, low=64, high=16384, multiple=64),
    _key("properties.max_device_cache_size_kb", "int", 131072, low=0, high=MAX_KIB, multiple=4),
    # 0 lets libcufile choose.
    _key("properties.per_buffer_cache_size_kb", "int", 1024, low=0, high=16384, multiple=64),
    _key("properties.max_device_pinned_mem_size_kb", "int", 33554432, low=64, high=MAX_KIB, multiple=4),
    _key("properties.posix_pool_slab_size_kb", "numbers", [4, 1024, 16384], low=4, high=MAX_UINT32, multiple=4),
    _key("properties.posix_pool_slab_count", "numbers", [128, 64, 64], low=1, high=MAX_UINT32),
    _key("properties.gpu_bounce_buffer_slab_config.slab_size_kb", "numbers", None, "1.17", low=4, high=MAX_UINT32),
    _key("properties.gpu_bounce_buffer_slab_config.slab_count", "numbers", None, "1.17", low=1, high=MAX_UINT32),
    _key("properties.use_poll_mode", "bool", False),
    _key("properties.poll_mode_max_size_kb", "int", 4, low=4, high=MAX_KIB, multiple=4),
    _key("properties.io_batchsize", "int", 128, low=1, high=256),
    _key("properties.max_batch_io_timeout_msecs", "int", 5, low=1, high=1000),
    _key("properties.io_priority", "text", "default", of=("default", "low", "med", "high")),
    _key("properties.rdma_dev_addr_list", "addresses", []),
    _key("properties.rdma_load_balancing_policy", "text", "RoundRobin", of=_POLICIES),
    # The name of the first in gds-diag, peer_mem, makes 1.15 reject the file.
    _key("properties.rdma_peer_type", "text", of=("nvidia_peermem", "dmabuf")),
    _key("properties.rdma_transport_type", "text", "DC_V1", "1.19", of=("DC_V1", "EXT_RC_V1")),
    _key("properties.rdma_topN_ranks", "int", 1, low=0, high=MAX_INT32),
    # A service level of InfiniBand has four bits.
    _key("properties.rdma_service_level", "int", low=0, high=15),
    _key("properties.rdma_dc_key", "hex32"),
    _key("properties.rdma_access_mask", "hex32"),
    _key("properties.rdma_dynamic_routing", "bool", False),
    _key("properties.rdma_dynamic_routing_order", "texts", list(_ROUTING), of=_ROUTING),
    _key("properties.rdma_multipath_enabled", "bool", None, "1.18"),
    _key("properties.rdma_max_backup_devices", "int", None, "1.18", low=0, high=MAX_UINT32),
    _key("properties.rdma_io_retry_count", "int", None, "1.18", low=0, high=MAX_UINT32),
    _key("properties.rdma_io_retry_delay_ms", "int", None, "1.18", low=0, high=MAX_UINT32),
    _key("properties.rdma_failback_enabled", "bool", None, "1.18"),
    _key("properties.rdma_failback_delay_ms", "int", None, "1.18", low=0, high=MAX_UINT32),
    _key("properties.rdma_health_check_interval_ms", "int", None, "1.18", low=0, high=MAX_UINT32),
    _key("properties.rdma_async_event_monitoring", "bool", None, "1.18"),
    _key("properties.rdma_unhealthy_threshold", "int", None, "1.18", low=0, high=MAX_UINT32),
    _key("fs.generic.posix_unaligned_writes", "bool", False),
    *_filesystem("lustre"),
    _threshold("lustre"),
    *_filesystem("beegfs"),
    _threshold("beegfs"),
    *_filesystem("nfs"),
    *_filesystem("gpfs"),
    _key("fs.gpfs.gds_write_support", "bool", False),
    _key("fs.gpfs.gds_async_support", "bool", True, "1.13"),
    *_filesystem("weka"),
    _key("fs.weka.rdma_write_support", "bool", False),
    *_filesystem("scatefs", "1.14"),
    _threshold("scatefs", "1.14"),
    *_filesystem("panfs", "1.19"),
    _key("fs.lustre.use_pci_p2pdma", "bool", False, "1.16"),
    _key("fs.beegfs.use_pci_p2pdma", "bool", False, "1.16"),
    _key("fs.nfs.use_pci_p2pdma", "bool", False, "1.16"),
    _key("fs.gpfs.use_pci_p2pdma", "bool", False, "1.16"),
    _key("fs.scatefs.use_pci_p2pdma", "bool", False, "1.16"),
    _key("fs.virtiofs.use_pci_p2pdma", "bool", False, "1.16"),
    _key("fs.panfs.use_pci_p2pdma", "bool", False, "1.19"),
    _key("block.nvme.use_pci_p2pdma", "bool", False, "1.16"),
    _key("block.nvmeof.use_pci_p2pdma", "bool", False, "1.16"),
    _key("block.raid.use_pci_p2pdma", "bool", False, "1.16"),
    _key("block.raid1.use_pci_p2pdma", "bool", False, "1.19"),
    _key("block.raid10.use_pci_p2pdma", "bool", False, "1.19"),
    _key("sparse.min_p2pdma_threshold_kb", "int", 8, "1.19", low=0, high=MAX_UINT32),
    _key("sparse.p2p_compat_enable", "bool", True, "1.19"),
    _key("denylist.drivers", "texts", []),
    _key("denylist.devices", "texts", []),
    _key("denylist.mounts", "texts", []),
    _key("denylist.filesystems", "texts", []),
    _key("denylist.fsids", "texts", []),
    _key("miscellaneous.api_check_aggressive", "bool", False),
    _key("miscellaneous.skip_topology_detection", "bool", False),
    _key("miscellaneous.stream_memops_bypass", "bool", False),
    _key("miscellaneous.rcu_library_used", "text"),
    _key("miscellaneous.enable_static_routing", "bool", False, "1.17"),
    _key("miscellaneous.static_routing_filepath", "path", "/etc/topology.json", "1.17"),
    # libcufile 1.19 and later: "expected integer in range [1, 86400]".
    _key("miscellaneous.rdma_token_reset_timeout_secs", "int", 30, "1.19", low=1, high=86400),
    _key("miscellaneous.enable_static_config", "bool", None, "1.20"),
    _key("miscellaneous.static_config_filepath", "path", None, "1.20"),
)

# Wrong names from the output of gdscheck, old releases or other sources, and their replacements.
INSTEAD: dict[str, str] = {
    "properties.use_compat_mode": "properties.allow_compat_mode",
    "properties.max_batch_io_size": "properties.io_batchsize",
    "properties.rdma_peer_affinity_policy": "properties.rdma_load_balancing_policy",
    "properties.max_device_pinned_mem_kb": "properties.max_device_pinned_mem_size_kb",
    "properties.poll_mode_threshold_size_kb": "properties.poll_mode_max_size_kb",
    "profile.io_batchsize": "properties.io_batchsize",
    "properties.posix_io_mode": "properties.vanilla_posix_io_mode",
}
