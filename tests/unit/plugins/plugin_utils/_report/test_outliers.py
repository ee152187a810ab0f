# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document as _report_model
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import outliers as _report_outliers

from tests.unit.fakes import fake_cluster as scene


def odd(*nodes):
    document = _report_model.build(nodes, scene.TIME)
    return [(one["node"], one["what"]) for one in document["outliers"]]


def with_values(*values, check="clock.offset_ms"):
    return [scene.node(f"n{at}", scene.verdict(check, found=value)) for at, value in enumerate(values)]


def test_odd_one_out_is_named_with_what_others_have():
    nodes = [*(scene.node(f"n{at}") for at in range(5)), scene.node("odd", versions={"driver": "570.1"})]
    (one,) = _report_model.build(nodes, scene.TIME)["outliers"]
    assert one["message"] == "odd: version driver is 570.1; 5 of 6 have 580.95.05"
    assert (one["found"], one["expected"], one["agree"], one["of"]) == ("570.1", "580.95.05", 5, 6)


def test_few_neighbours_make_no_majority():
    assert odd(*with_values("a", "a", "b")) == []
    assert odd(*with_values("a", "a", "a", "b")) == [("n3", "clock.offset_ms")]


def test_value_without_majority_is_ignored():
    assert odd(*with_values("sn1", "sn2", "sn3", "sn4", "sn5")) == []
    assert odd(*with_values("a", "a", "a", "b", "b", "b")) == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([480.1, 479.2, 481.0, 480.4, 478.9, 310.0], ["n5"]),
        ([480.1, 479.2, 481.0, 480.4, 478.9, 470.0], []),  # far in deviations, and only 2 percent away
        ([100.0, 160.0, 70.0, 130.0, 90.0, 200.0], []),  # wide, but so are they all
        ([100.0, 100.0, 100.0, 100.0, 100.0, 99.9], []),  # all others agree, on what was measured
        ([100.0, 100.0, 100.0, 100.0, 100.0, 40.0], ["n5"]),
        ([8, 8, 8, 8, 8, 7], ["n5"]),  # counts, of which one is missing
        ([32, 32, 32, 32, 32, 31], ["n5"]),
        ([480.1, 479.2, 481.0, 480.4, float("1e9"), 310.0], ["n4", "n5"]),
    ],
)
def test_numbers_are_judged_by_their_distance_from_median(values, named):
    assert [name for name, _what in odd(*with_values(*values))] == named


def test_nodes_of_another_type_or_kind_are_no_neighbours():
    others = [
        scene.node(f"t{at}", scene.verdict("gpu.count", found=16), instance_type="trn1.32xlarge") for at in (1, 2)
    ]
    head = scene.node("head", scene.verdict("gpu.count", found=0), kind="head", versions={"slurm": "24.05"})
    assert odd(*(scene.node(f"n{at}") for at in range(6)), *others, head) == []


def test_type_from_node_groups_nodes_without_inventory_type():
    def known(name, kind, count):
        health = {"results": [scene.verdict("gpu.count", found=count)], "instance_type": kind}
        return scene.node(name, instance_type=None, health=health)

    large = [known(f"l{at}", "p5.48xlarge", 8) for at in range(6)]
    small = [known(f"s{at}", "p5.4xlarge", 1) for at in range(4)]
    assert odd(*large, *small) == []
    assert odd(*large, *small, known("s4", "p5.4xlarge", 0)) == [("s4", "gpu.count")]


def test_slow_run_of_job_is_named():
    pairs = [scene.bandwidth(1 + at / 100, f"n{at}+n{at + 10}") for at in range(5)]
    document = _report_model.build(
        [scene.node("n1")], scene.TIME, validation=scene.validation(*pairs, scene.bandwidth(0.6, "n5+n15"))
    )
    (one,) = document["outliers"]
    assert (one["node"], one["what"], one["of"]) == ("n5+n15", "nccl_all all_reduce_perf, GB/s", 6)
    assert one["message"].startswith("n5+n15: nccl_all all_reduce_perf, GB/s is 287.72; the median of 6 is ")
    # A run on all nodes, or one without the same size, is not compared with them.
    short = {**scene.bandwidth(0.1, "n7+n8"), "found": {"1024": 0.5}}
    others = [scene.bandwidth(0.1), short, scene.bandwidth(0.6, "n5")]
    alike = scene.validation(*pairs, *others)
    assert _report_model.build([scene.node("n1")], scene.TIME, validation=alike)["outliers"] == []


def test_several_verdicts_under_one_name_are_compared_together():
    same = [scene.verdict("gpu.memory", found=141), scene.verdict("gpu.memory", found=141)]
    less = [scene.verdict("gpu.memory", found=141), scene.verdict("gpu.memory", found=80)]
    assert odd(*(scene.node(f"n{at}", *same) for at in range(4)), scene.node("less", *less)) == [("less", "gpu.memory")]


def test_each_device_is_compared_with_its_like():
    def disks(first, second):
        return [
            scene.verdict("io.read", found=value, scope={"node": None, "instance_id": None, "device": device})
            for device, value in (("/dev/md0", first), ("/dev/md1", second))
        ]

    nodes = [scene.node(f"n{at}", *disks("fast", "slow")) for at in range(4)]
    assert odd(*nodes, scene.node("swapped", *disks("slow", "fast"))) == [
        ("swapped", "io.read (/dev/md0)"),
        ("swapped", "io.read (/dev/md1)"),
    ]


def test_undeterminable_value_is_not_compared():
    unsure = scene.verdict("gpu.count", "undeterminable", reason="timeout")
    assert odd(*(scene.node(f"n{at}") for at in range(5)), scene.node("unsure", unsure)) == []


def test_node_that_differs_most_comes_first():
    nodes = [scene.node(f"n{at}", versions={"a": "1", "b": "1"}) for at in range(6)]
    nodes += [scene.node("one", versions={"a": "2", "b": "1"}), scene.node("two", versions={"a": "2", "b": "2"})]
    assert odd(*nodes) == [("two", "version a"), ("two", "version b"), ("one", "version a")]


def test_long_value_is_cut_in_sentence_only():
    nodes = [*with_values(*["x"] * 5), scene.node("odd", scene.verdict("clock.offset_ms", found="y" * 5000))]
    (one,) = _report_outliers.find(_report_model.build(nodes, scene.TIME)["nodes"])
    assert len(one["message"]) < 300 and len(one["found"]) == 5000


def in_ultraserver(name, block, cluster):
    fabric = scene.verdict("gpu.fabric", found={"cluster_uuid": cluster, "clique": "1"})
    return {**scene.node(name, fabric, instance_type="p6e-gb200.36xlarge"), "place": ["nn-1", block]}


def test_other_nvlink_cluster_is_odd_within_ultraserver_only():
    first = [in_ultraserver(f"a{at}", "cb-a", "uuid-a") for at in range(6)]
    second = [in_ultraserver(f"b{at}", "cb-b", "uuid-b") for at in range(4)]
    assert odd(*first, *second) == []
    assert odd(*first, *second, in_ultraserver("odd", "cb-b", "uuid-a")) == [("odd", "gpu.fabric")]
