# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import accelerator_versions as table
from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.versions import (
    minima_problems,
    rules_for,
    violation,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.versions import version_key

from tests.unit.fakes.fake_training_host import PLUGIN, TrainingHost, firmware, good_node, ldconfig
from tests.unit.plugins.module_utils._node.efa.test_look import judge


def node(
    instance_type="p5.48xlarge", driver="580.159.04", cuda=None, plugin="1.16.1", libfabric="2.1.0amzn4", nccl=22809
):
    """Return a good node with these versions; None is a missing component, an empty string an unreadable version."""
    host = good_node(instance_type=instance_type)
    version = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build  (x@y)\n"
    host.files["/proc/driver/nvidia/version"] = version
    if cuda is not None:
        host.files["/usr/local/cuda/version.json"] = json.dumps({"cuda": {"version": cuda}} if cuda else {})
    host.files[PLUGIN] = f"\x7fELF\0Initializing aws-ofi-nccl {plugin}\0"
    host.commands["/opt/amazon/efa/bin/fi_info --version"] = f"fi_info: {libfabric}\nlibfabric: {libfabric}\n"
    host.loads["libnccl.so.2"] = {"loads": True, "nccl": nccl}
    return host


def versions(host, **options):
    found = judge(host, **options)
    return {name: found[f"versions.{name}"] for name in table.COMPONENTS}


def installer(host, version):
    marker = host.files["/opt/amazon/efa_installed_packages"]
    host.files["/opt/amazon/efa_installed_packages"] = marker.replace("1.43.0", version)
    return host


def test_every_rule_can_be_read_and_has_source():
    for rule in table.RULES:
        assert rule["component"] in table.COMPONENTS
        assert rule["why"] and table.SOURCES[rule["source"]]
        limits = [rule[key] for key in ("least", "last") if key in rule]
        assert limits and all(version_key(limit) for limit in limits)
        assert set(rule.get("since", {})) <= set(table.COMPONENTS)
        assert {"types", "gpus", "since"} & set(rule), rule


def test_every_gpu_of_instance_types_has_its_cuda_and_driver():
    for name in instance_types.names():
        chips = instance_types.lookup(name)["accelerators"]
        if chips and chips["kind"] == "gpu":
            for component in ("cuda", "driver"):
                hint = f"add {chips['name']} of {name} to _CHIPS in _data/accelerator_versions.py"
                assert rules_for(component, {}, name, chips["name"]), hint


@pytest.mark.parametrize(
    ("host", "component", "words"),
    [
        (
            node(driver="515.43.04"),
            "driver",
            "515.43.04 is older than 520.61.05, the oldest that will do: it came with",
        ),
        (
            node(driver="550.54.15", cuda="13.0.2"),
            "driver",
            "550.54.15 is older than 580, the oldest that will do: CUDA",
        ),
        (node(cuda="11.8.0"), "cuda", "11.8.0 is older than 12.0, the oldest that will do: P5 needs it (aws/aws-ofi"),
        (node(nccl=21803), "nccl", "NCCL 2.18.3 is older than 2.18.5, the oldest that will do: older ones have faults"),
        (node(plugin="1.7.2"), "plugin", "1.7.2 is older than 1.7.3, the oldest that will do: older ones have faults"),
        (installer(node(), "1.26.1"), "installer", "1.26.1 is older than 1.29.0, the oldest that will do: with older"),
        (node(plugin="1.21.1", libfabric="1.19.0amzn4.0"), "libfabric", "1.19.0amzn4.0 is older than 1.22.0"),
        (node("p6-b200.48xlarge", driver="560.35.05"), "driver", "560.35.05 is older than 570.26"),
        (node("p6-b300.48xlarge", cuda="12.8.1"), "cuda", "12.8.1 is older than 12.9"),
        (node("p3dn.24xlarge", driver="595.112.07"), "driver", "595.112.07 is newer than 580, the last that will do"),
        (node("p3dn.24xlarge", cuda="13.0.2"), "cuda", "13.0.2 is newer than 12, the last that will do"),
    ],
)
def test_version_outside_of_matrix_is_failure_with_its_source(host, component, words):
    result = versions(host)[component]
    assert (result.status, words in result.message) == ("fail", True), result.message
    assert re.search(r"\(.+\)$", result.message)
    assert result.source and result.expected


def test_last_version_takes_its_later_releases():
    found = versions(node("p3dn.24xlarge", driver="580.159.04", cuda="12.9.1"))
    assert (found["driver"].status, found["driver"].expected) == ("pass", "525 or newer, up to 580")
    assert found["cuda"].status == "pass"


def test_strictest_limit_is_expected():
    found = versions(node(cuda="13.0.2"))
    assert {result.status for result in found.values()} == {"pass"}
    assert (found["driver"].expected, found["driver"].found) == ("580 or newer", "580.159.04")
    assert found["cuda"].expected == "12.0 or newer"
    assert found["driver"].source == f"{table.SOURCES['shipped']}; {table.SOURCES['major']}"


def test_undocumented_version_is_no_pass():
    result = versions(node("p5en.48xlarge"))["plugin"]
    assert (result.status, result.found) == ("undeterminable", "1.16.1")
    assert "no known document gives the version that p5en.48xlarge needs" in result.reason
    assert "--minimum" in result.hint


def test_own_minimum_decides():
    wanted = {"plugin": "1.16", "driver": "590"}
    found = versions(node("p5en.48xlarge"), minima=wanted)
    assert (found["plugin"].status, found["plugin"].expected) == ("pass", "1.16 or newer")
    assert (found["driver"].status, found["driver"].expected) == ("fail", "590 or newer")
    assert found["driver"].message.endswith("you want it (a minimum of your own)")


@pytest.mark.parametrize(("component", "host"), [("cuda", node(cuda="")), ("plugin", node(plugin="git-0123456"))])
def test_unreadable_version_is_no_pass(component, host):
    assert versions(host, minima={component: "1.0"})[component].status == "undeterminable"


@pytest.mark.parametrize(
    ("cuda", "driver", "status"),
    [
        ("", "550.54.15", "undeterminable"),
        # Good for any CUDA, too old for each, and without CUDA.
        ("", "580.159.04", "pass"),
        ("", "515.43.04", "fail"),
        (None, "550.54.15", "pass"),
        ("12.4.0", "550.54.15", "pass"),
    ],
)
def test_unreadable_cuda_may_need_newer_driver(cuda, driver, status):
    result = versions(node(cuda=cuda, driver=driver))["driver"]
    assert result.status == status
    words = "the version of the CUDA toolkit is not known, and with a newer one"
    assert (words in (result.reason or "")) is (status == "undeterminable")


def test_missing_component_is_not_judged():
    host = node()
    host.commands["ldconfig -p"] = ldconfig("/lib/libc.so.6")
    found = versions(host)
    assert (found["nccl"].status, found["cuda"].status) == ("not_applicable", "not_applicable")
    assert found["cuda"].reason == "the CUDA toolkit is not on this machine"


def test_gpu_machine_without_driver_fails_with_hint():
    host = good_node()
    del host.files["/proc/driver/nvidia/version"]
    result = versions(host)["driver"]
    assert (result.status, result.severity, result.message) == ("fail", "isolate", "no NVIDIA driver is loaded")
    host.commands["modinfo nvidia"] = "version: 580.159.04\n"
    assert (versions(host)["driver"].severity, "reboot the node" in versions(host)["driver"].hint) == ("reboot", True)
    # A machine that becomes an image has neither.
    assert versions(host, expected_devices=0)["driver"].status == "fail"
    image = TrainingHost()
    firmware(image, "p5.48xlarge")
    assert versions(image, expected_devices=0)["driver"].status == "not_applicable"


def test_machine_without_efa_or_accelerators_is_not_judged():
    found = versions(good_node(0, "m5.8xlarge"), expected_devices=0)
    assert {result.status for result in found.values()} == {"not_applicable"}


def test_trainium_is_judged_by_its_components():
    host = good_node(8, "trn1.32xlarge")
    del host.files["/proc/driver/nvidia/version"]
    found = versions(host)
    assert (found["driver"].status, found["plugin"].status) == ("not_applicable", "pass")


@pytest.mark.parametrize(
    ("minima", "words"),
    [
        ({"cudnn": "9"}, "minima has 'cudnn': use some of driver"),
        ({"driver": 580.95}, "the minimum of driver is 580.95"),
    ],
)
def test_invalid_minima_are_reported(minima, words):
    assert words in minima_problems(minima)[0]


def test_version_of_revision_is_not_compared():
    rule = {"component": "plugin", "least": "1.7.3", "last": "1.9", "why": "x", "source": "preset"}
    assert violation(rule, "git-0123456") is None
    assert "is older than 1.7.3" in violation(rule, "1.7.2")
