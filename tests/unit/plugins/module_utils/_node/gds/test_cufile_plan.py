# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of settings, and the text after merging them."""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_plan import (
    Change,
    check_settings,
    create,
    merge,
    missing_paths,
    remove_settings,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError


def nested(key, value):
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def message(settings, **options):
    with pytest.raises(NodeError) as refused:
        check_settings(settings, **options)
    return str(refused.value)


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("logging.dir", ["/var/log"]),
        ("logging.level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "NOTICE"]),
        ("logging.max_file_size_mb", [-1, 1]),
        ("profile.cufile_stats", [0, 3]),
        ("execution.max_io_queue_depth", [1, 256]),
        ("execution.max_io_threads", [0, 32, 128]),
        ("execution.max_request_parallelism", [0, 8]),
        ("execution.min_io_threshold_size_kb", [4, 4294967295]),
        ("properties.allow_compat_mode", [True, False]),
        ("properties.max_direct_io_size_kb", [64, 128, 16384]),
        ("properties.max_device_cache_size_kb", [0, 4, 131072]),
        ("properties.per_buffer_cache_size_kb", [0, 64, 16384]),
        ("properties.max_device_pinned_mem_size_kb", [64, 33554432, 18014398509481980]),
        ("properties.posix_pool_slab_size_kb", [[4, 1024, 16384]]),
        ("properties.io_batchsize", [1, 256]),
        ("properties.max_batch_io_timeout_msecs", [1, 1000]),
        ("properties.io_priority", ["default", "low", "med", "high"]),
        ("properties.rdma_dev_addr_list", [[], ["10.0.1.0"]]),
        ("properties.rdma_access_mask", ["0x1f", "0XFFFFFFFF"]),
        ("properties.rdma_dynamic_routing_order", [["GPU_MEM", "P2P"], []]),
        ("fs.lustre.posix_gds_min_kb", [0, 1024]),
        ("fs.lustre.mount_table", [{}, {"/fsx": {"rdma_dev_addr_list": ["10.0.0.1"]}}, {"/fsx.1": {}}]),
        ("block.nvme.use_pci_p2pdma", [True]),
        ("denylist.mounts", [["/mnt"]]),
    ],
)
def test_accepted_settings_pass(key, good):
    for value in good:
        check_settings(nested(key, value))


@pytest.mark.parametrize(
    ("key", "bad", "words"),
    [
        ("logging.dir", ["log", 1, "/a\0"], "use an absolute path"),
        ("logging.level", ["LOUD", "info", 1], "use one of TRACE, DEBUG, INFO, WARN, ERROR, NOTICE"),
        ("execution.max_io_queue_depth", [0, 257, -1], "libcufile takes a number from 1 to 256"),
        ("execution.max_io_queue_depth", [True, 1.0, "128", None, [1]], "use an integer"),
        ("execution.max_io_threads", [129], "libcufile takes a number from 0 to 128"),
        ("properties.allow_compat_mode", [1, "true", None], "use true or false"),
        ("properties.max_direct_io_size_kb", [0, 65, 16448], "from 64 to 16384 that is a multiple of 64"),
        ("properties.max_device_cache_size_kb", [2, -4], "that is a multiple of 4"),
        ("properties.posix_pool_slab_size_kb", [[], 4, "4"], "use a list of integers"),
        ("properties.posix_pool_slab_size_kb", [[4, 6]], "that is a multiple of 4"),
        ("properties.posix_pool_slab_size_kb", [[1024, 4], [4, 4]], "use the sizes in ascending order"),
        ("properties.posix_pool_slab_count", [[0]], "from 1 to"),
        ("properties.rdma_peer_type", ["peer_mem"], "use one of nvidia_peermem, dmabuf"),
        ("properties.io_priority", ["urgent"], "use one of default, low, med, high"),
        ("properties.rdma_dev_addr_list", [["mlx5_0"], ["10.0.0.256"], ["fe80::1"]], "use IPv4 addresses"),
        ("properties.rdma_dev_addr_list", ["10.0.0.1", [1]], "use a list of strings"),
        ("properties.rdma_access_mask", ["1f", "0x", "0x1ffffffff", 31], 'such as "0x1f"'),
        (
            "properties.rdma_dynamic_routing_order",
            [["NVLINK"]],
            "libcufile knows GPU_MEM_NVLINKS, GPU_MEM",
        ),
        ("fs.lustre.posix_gds_min_kb", [1025], "from 0 to 1024"),
        ("fs.lustre.mount_table", [[], "x"], "use a dictionary of mount points"),
        ("fs.lustre.mount_table", [{"fsx": {}}], "its names are absolute mount points"),
        ("fs.lustre.mount_table", [{"/fsx": {"x": 1}}, {"/fsx": 1}], "has rdma_dev_addr_list and nothing else"),
        ("fs.lustre.mount_table", [{"/fsx": {"rdma_dev_addr_list": ["x"]}}], "use IPv4 addresses"),
        ("miscellaneous.rdma_token_reset_timeout_secs", [0, 86401], "from 1 to 86400"),
    ],
)
def test_settings_rejected_by_libcufile_are_rejected(key, bad, words):
    for value in bad:
        sentence = message(nested(key, value))
        assert sentence.startswith(f"{key}")
        assert words in sentence


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("properties.use_compat_mode", "it is called properties.allow_compat_mode there"),
        ("properties.allow_compat_mod", "do you mean properties.allow_compat_mode, or set allow_unknown"),
        ("use_poll_mode", "do you mean properties.use_poll_mode"),
        ("fs.nvme.use_pci_p2pdma", "do you mean properties.use_pci_p2pdma or fs."),
        ("qqqqqqqqqq.zzzzzzzzzz", "look it up in NVIDIA's configuration guide"),
    ],
)
def test_unknown_setting_is_rejected_with_suggestion(key, words):
    assert words in message(nested(key, 1))
    check_settings(nested(key, 1), allow_unknown=True)


@pytest.mark.parametrize("value", [None, {}, [], True, "x"])
@pytest.mark.parametrize("key", ["properties", "fs.lustre", "properties.gpu_bounce_buffer_slab_config"])
def test_section_is_never_replaced_by_value(key, value):
    assert message(nested(key, value), allow_unknown=True) == (
        f"{key} is {value!r}, and it is a section: set keys below it, or leave it out"
    )


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), [float("inf")], "\udcff", ["a", "\ud800"]])
def test_values_outside_json_are_rejected_before_reading(value):
    assert "JSON has no such number or text" in message({"x": {"y": value}}, allow_unknown=True)


@pytest.mark.parametrize("settings", ["a=b", [1], None, 3])
def test_settings_of_other_type_are_rejected(settings):
    assert message(settings).endswith("use a dictionary, in the nesting of cufile.json")


def test_name_of_other_type_is_judged_as_string():
    assert message({"properties": {1: 2}}).startswith("properties.1 is a setting that libcufile does not know")


@pytest.mark.parametrize(
    ("properties", "gone"),
    [
        ('"posix_pool_slab_size_kb": [4], "posix_pool_slab_count": [128]', "posix_pool_slab_count"),
        ('"max_direct_io_size_kb": 4096, "per_buffer_cache_size_kb": 2048', "max_direct_io_size_kb"),
    ],
)
def test_removing_one_of_dependent_pair_is_rejected(properties, gone):
    with pytest.raises(NodeError, match="libcufile refuses the whole file"):
        remove_settings(f'{{"properties": {{{properties}}}}}', [f"properties.{gone}"], "f")


def test_dots_in_name_are_rejected():
    assert "nest it as the file does" in message({"properties.allow_compat_mode": True}, allow_unknown=True)


def test_all_problems_are_reported_at_once():
    sentence = message(
        {"properties": {"io_batchsize": 0, "io_priority": "x", "allow_compat_mode": True}, "x": {"y": 1}}
    )
    assert [part.split(" is ")[0] for part in sentence.split("; ")] == [
        "properties.io_batchsize",
        "properties.io_priority",
        "x.y",
    ]


def test_known_setting_is_checked_with_allow_unknown():
    assert "use true or false" in message({"properties": {"allow_compat_mode": "yes"}}, allow_unknown=True)


@pytest.mark.parametrize(
    ("key", "value", "version", "words"),
    [
        (
            "block.nvme.use_pci_p2pdma",
            True,
            "1.15.1.6",
            "is known from GDS 1.16 on and this node has 1.15",
        ),
        ("properties.use_pci_p2pdma", True, "1.11", "is known from GDS 1.13 on"),
        ("profile.nvtx", False, "1.16.0.49", "is known up to GDS 1.15 and this node has 1.16: leave it out"),
        ("properties.posix_io_mode", True, "1.19", "use properties.vanilla_posix_io_mode"),
        ("execution.max_io_threads", 64, "1.15.1.6", "libcufile takes a number from 0 to 32"),
        ("properties.io_batchsize", 1, "new", "gds_version is 'new': use the version of libcufile, such as 1.15.1.6"),
    ],
)
def test_setting_is_checked_against_version_on_node(key, value, version, words):
    assert words in message(nested(key, value), gds_version=version)


@pytest.mark.parametrize("version", ["1.9", "1.16.1.26", "1.20.0.107", "2.0"])
def test_other_versions_pass(version):
    check_settings({"properties": {"io_batchsize": 64}, "execution": {"max_io_threads": 32}}, gds_version=version)


def test_too_many_settings_are_rejected():
    assert "settings has 201 values" in message({"x": {str(number): 1 for number in range(201)}}, allow_unknown=True)


def test_merge_returns_changes():
    text = '{"properties": {"allow_compat_mode": false, "io_batchsize": 64}}'
    settings = {"properties": {"allow_compat_mode": True, "io_batchsize": 64, "use_poll_mode": False}, "fs": {}}
    merged, changes = merge(text, settings, "f")
    assert changes == [
        Change("properties.allow_compat_mode", False, True),
        Change("properties.use_poll_mode", None, False),
        Change("fs", None, {}),
    ]
    assert merge(merged, settings, "f") == (merged, [])


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("{}", {"posix_pool_slab_count": [64]}, "would have 3 entries in properties.posix_pool_slab_size_kb and 1 in"),
        ('{"properties": {"posix_pool_slab_count": [1, 2]}}', {"posix_pool_slab_size_kb": [4]}, "have 1 entries"),
        (
            '{"properties": {"max_direct_io_size_kb": 1024}}',
            {"per_buffer_cache_size_kb": 2048},
            "per_buffer_cache_size_kb 2048 above properties.max_direct_io_size_kb 1024",
        ),
        (
            "{}",
            {"max_direct_io_size_kb": 64},
            "per_buffer_cache_size_kb 1024 above properties.max_direct_io_size_kb 64",
        ),
        ("{}", {"per_buffer_cache_size_kb": 2048}, "2048 above properties.max_direct_io_size_kb 1024"),
    ],
)
def test_contradicting_settings_are_rejected(text, settings, words):
    with pytest.raises(NodeError, match=re.escape(words)):
        merge(text, {"properties": settings}, "f")
    with pytest.raises(NodeError, match="would have"):
        create({"properties": {"posix_pool_slab_size_kb": [4], "posix_pool_slab_count": [1, 2]}})


def test_existing_contradiction_without_change_is_accepted():
    text = '{"properties": {"posix_pool_slab_count": [1, 2], "io_batchsize": 1}}'
    assert merge(text, {"properties": {"io_batchsize": 1}}, "f") == (text, [])


def test_removal_returns_old_values():
    text = '{"properties": {"use_poll_mode": true}, "denylist": {"mounts": []}}'
    shorter, changes = remove_settings(text, ["properties.use_poll_mode", "denylist", "fs.lustre"], "f")
    assert changes == [Change("properties.use_poll_mode", True, None), Change("denylist", {"mounts": []}, None)]
    assert shorter == '{"properties": {}}'


def test_missing_directories_of_settings_are_reported(tmp_path):
    (tmp_path / "mount").mkdir()
    settings = {
        "logging": {"dir": str(tmp_path / "log")},
        "denylist": {"mounts": [str(tmp_path / "mount"), "/no/such"], "filesystems": ["nfs"]},
    }
    problems = missing_paths(Host(), settings)
    assert [problem.split(", which")[0] for problem in problems] == [
        f"logging.dir names {tmp_path}/log",
        "denylist.mounts names /no/such",
    ]
