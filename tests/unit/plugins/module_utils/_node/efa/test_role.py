# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look of the role efa_nccl, and which verdicts count for a node and a kind of run."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.config import EfaConfig

from tests.unit.fakes import fake_training_host as scene
from tests.unit.fakes.fake_efa_role import AMAZON, NCCL, UBUNTU, Node, bare, options


def test_look_has_system_and_jobs():
    node = Node(scene.good_node(), AMAZON)
    facts = node.facts()
    assert (facts["distribution"]["family"], facts["job_steps"]) == ("RedHat", 0)
    node.host.files["/proc/99/comm"] = "slurmstepd\n"
    assert node.facts()["job_steps"] == 1


def test_image_waits_for_no_device():
    plain, image = (role.look_options(EfaConfig(image_build=is_image), "Debian") for is_image in (False, True))
    assert (plain.wait_seconds, plain.expected_devices) == (30, None)
    assert (image.wait_seconds, image.expected_devices) == (0, 0)
    assert role.look_options(EfaConfig(image_build=True, expected_devices=4), "Debian").expected_devices == 4


def test_look_has_time_to_wait_and_to_ask_peers():
    few, more = (role.seconds(EfaConfig(wait_seconds=wait, peers=peers)) for wait, peers in ((0, ()), (60, ("a", "b"))))
    assert more >= few + 60
    assert options(**role.READ_ONLY).wait_seconds == 0


@pytest.mark.parametrize(("system", "name"), [(UBUNTU, "linux-image-*"), (AMAZON, "kernel")])
def test_kernel_and_driver_are_held_by_default(system, name):
    family = Node(scene.good_node(), system).facts()["distribution"]["family"]
    assert name in role.hold_patterns(options(), family)
    own = role.hold_patterns(options(hold_packages=["x"], nccl_packages=[NCCL]), family)
    assert own == ["x", "libnccl2"]


def test_image_is_judged_by_its_software_alone():
    host = bare("m5.large")
    host.files = {path: text for path, text in host.files.items() if not path.startswith("/sys")}
    node = Node(host, image_build=True)
    judged = {entry.id for entry in role.verify(node.facts(), node.config)}
    shown = {line.split()[1].rstrip(":") for line in role.report(node.facts(), node.config).info}
    assert judged | shown == {
        "efa.installer",
        "efa.plugin",
        "efa.nccl",
        "efa.nvshmem",
        *(f"versions.{name}" for name in ("cuda", "installer", "libfabric", "plugin", "nccl")),
    }


def test_node_without_efa_has_no_verdicts():
    node = Node(scene.good_node(0, "t3.large"))
    assert (role.verify(node.facts(), node.config), role.report(node.facts(), node.config).info) == ([], ())


def test_bad_version_fails_node():
    node = Node(scene.good_node())
    node.host.loads["libnccl.so.2"] = {"loads": True, "nccl": 21803}
    (problem,) = node.settle().problems()
    assert problem.startswith("FAIL versions.nccl: NCCL 2.18.3 is older than 2.18.5, the oldest that will do: ")
    assert "(aws/aws-ofi-nccl doc/efa-env-var.md, sample presets" in problem


def test_version_without_documented_limit_is_shown():
    node = Node(scene.good_node(16, "p5en.48xlarge")).settle()
    assert node.problems() == []
    (line,) = role.report(node.facts(), node.config).info
    assert line.startswith("???? versions.plugin: the OFI plugin of NCCL: no known document gives the version")
    wanted = Node(scene.good_node(16, "p5en.48xlarge"), minima={"plugin": "1.20"}).settle()
    (problem,) = wanted.problems()
    assert problem.startswith("FAIL versions.plugin: the OFI plugin of NCCL 1.16.1 is older than 1.20")


def test_setting_that_is_left_unchanged_is_not_judged():
    host = scene.good_node()
    host.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n"
    assert [line.split()[1].rstrip(":") for line in Node(host).problems()] == ["efa.ptrace"]
    assert Node(host, ptrace_scope=-1).problems() == Node(host, ptrace_scope=1).problems() == []


def test_prebuilt_nccl_tests_have_to_be_there():
    node = Node(scene.good_node(), tests="prebuilt").settle()
    (problem,) = node.problems()
    assert problem.startswith(
        "FAIL efa.tests: nccl-tests are to be prebuilt, and neither /opt/nccl-tests/build/all_reduce_perf nor "
        "/opt/nccl-tests/all_reduce_perf is there"
    )
    node.host.files["/opt/nccl-tests/build/all_reduce_perf"] = ""
    assert node.problems() == []


def test_unknown_limit_of_service_is_not_excused():
    node = Node(scene.good_node())
    facts = node.facts()
    facts["units"]["slurmd.service"]["running_memlock"] = {"soft": None, "hard": None}
    assert role.stale_units(facts, node.config) == []
    judged = {entry.scope.device: entry.status for entry in role.verify(facts, node.config)}
    assert judged["slurmd.service"] == "fail"
