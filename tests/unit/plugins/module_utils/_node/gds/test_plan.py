# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of the role nvidia_gds on a simulated GPU node, from its own look."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import decide, role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.config import parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.files import (
    EXAMPLE,
    MODPROBE,
    MODULES_LOAD,
    PATHS,
    REVIEW,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.plan import boot_needs, kernel_needs, make_plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Plan

from tests.unit.fakes.fake_gds_host import Asker, GdsHost, enable_p2pdma, load_nvidia_fs, node, outcome
from tests.unit.unknown_facts import acted_on

KERNEL = "6.8.0-1021-aws"
NEXT = "6.8.0-1022-aws"
CUDA = {"cuda_version": "13.0"}
REFUSED = outcome("refused", "register", err=5008, reason="cuFileHandleRegister gave 5008")
PLAIN = {"mode": "0644", "uid": 0, "gid": 0, "is_dir": False, "is_link": False}


def bare(manager: str = "apt-get", **more: t.Any) -> GdsHost:
    """Return a node with the driver and without GPUDirect Storage."""
    host = node(**more)
    del host.files["/usr/local/cuda/lib64/libcufile.so.0"]
    host.programs[manager] = f"/usr/bin/{manager}"
    return host


def kernels(host: GdsHost, **versions: str | None) -> GdsHost:
    """Give the node kernels with or without nvidia-fs: running and next are its versions."""
    host.programs["modinfo"] = "/sbin/modinfo"
    for release, version in ((KERNEL, versions.get("running")), (NEXT, versions.get("next"))):
        host.files[f"/lib/modules/{release}/modules.dep"] = ""
        if version:
            host.commands[f"modinfo -k {release} -F vermagic nvidia-fs"] = f"{release} SMP mod_unload\n"
            host.commands[f"modinfo -k {release} -F version nvidia-fs"] = f"{version}\n"
    return host


@pytest.fixture(autouse=True)
def no_libcufile(monkeypatch):
    asker = Asker(outcome(step="open"), strict=REFUSED, own=outcome(), with_p2pdma=REFUSED, no_p2pdma=REFUSED)
    monkeypatch.setattr(role, "survey", lambda *given: decide.survey(*given, asker=asker))


def facts_of(
    host: GdsHost,
    texts: t.Mapping[str, str] | None = None,
    states: t.Mapping[str, t.Any] | None = None,
    **options: t.Any,
) -> dict[str, t.Any]:
    """Return the look of the role on a node with these files of the role and these differences in their state."""
    facts = role.look(host, parse_config(options))
    for path, text in (texts or {}).items():
        facts["files"][path] = hashlib.sha256(text.encode()).hexdigest()
        facts["paths"][path] = {**PLAIN, **(states or {}).get(path, {})}
    return facts


def plan_of(host: GdsHost, texts: t.Any = None, states: t.Any = None, **options: t.Any) -> Plan:
    return make_plan(facts_of(host, texts, states, **options), parse_config(options))


def names(plan: Plan) -> list[str]:
    return [f"{entry.name}={entry.version}" if entry.version else entry.name for entry in plan.packages]


def texts(plan: Plan) -> dict[str, str]:
    return {entry.path: entry.text for entry in plan.files if entry.state == "present"}


def cufile(plan: Plan) -> dict[str, t.Any]:
    return next(dict(step.arguments) for step in plan.steps if step.name == "cufile")


@pytest.mark.parametrize(
    ("manager", "headers", "initramfs"),
    [
        ("apt-get", f"linux-headers-{KERNEL}", ["update-initramfs", "-u"]),
        ("dnf", f"kernel-devel-{KERNEL}", ["dracut", "--force"]),
    ],
)
def test_headers_and_initramfs_are_those_of_distribution(manager, headers, initramfs):
    plan = plan_of(bare(manager), mode="nvfs", cuda_version="13.4")
    assert names(plan) == [headers, "libcufile-13-4", "gds-tools-13-4", "nvidia-fs-dkms"]
    assert plan.differences() == ["packages", "module at boot", "cufile.json", "nvidia-fs"]
    bold = plan_of(bare(manager), mode="p2pdma", safe_mode=False, **CUDA)
    assert [step.arguments["argv"] for step in bold.steps if step.label == "initramfs"] == [initramfs]


def test_fresh_node_in_mode_compat():
    plan = plan_of(bare(), **CUDA)
    assert plan.differences() == ["packages", "cufile.json"]
    assert (names(plan), plan.refresh) == (["libcufile-13-0", "gds-tools-13-0"], True)
    assert cufile(plan)["settings"] == {"properties": {"allow_compat_mode": True}}


def test_version_is_asked_for_as_it_was_given():
    host = bare()
    host.programs["dpkg-query"] = "/usr/bin/dpkg-query"
    host.commands["dpkg-query -W -f ${Package}\\t${Version}\\t${db:Status-Abbrev}\\n"] = "mine\t2:1.0-1\tii \n"
    assert names(plan_of(host, packages=["mine=2:1.0-2", "yours"])) == ["mine=2:1.0-2", "yours"]
    assert names(plan_of(host, packages=["mine=2:1.0-1"])) == []


def test_node_without_driver_is_skipped_unless_image():
    host = bare()
    del host.files["/proc/driver/nvidia/version"]
    plan = plan_of(host, mode="nvfs", **CUDA)
    assert (plan.concerned, plan.differences()) == (False, [])
    image = plan_of(host, mode="nvfs", image_build=True, **CUDA)
    assert image.differences() == ["packages", "module at boot", "cufile.json"]


def test_nothing_is_installed_when_that_is_switched_off():
    assert plan_of(bare(), install_enabled=False, **CUDA).differences() == ["cufile.json"]


def test_refused_driver_stops_everything():
    host = bare()
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Release Build\n"
    host.files["/proc/driver/nvidia/version"] = text
    plan = plan_of(host, mode="nvfs", **CUDA)
    assert plan.differences() == []
    assert "as /proc/driver/nvidia/version shows, and nvfs needs the open one" in plan.refusals[0]
    assert plan_of(host, **CUDA).differences() == ["packages", "cufile.json"]


def test_settings_of_mode_follow_release():
    wanted = {}
    for cuda in ("12.6", "13.0", "13.1"):
        for mode in ("nvfs", "p2pdma"):
            plan = plan_of(bare(), mode=mode, cuda_version=cuda)
            wanted[mode, cuda] = cufile(plan)["settings"] if plan.steps else plan.refusals
    assert wanted["nvfs", "12.6"] == {"properties": {"allow_compat_mode": True}}
    assert wanted["nvfs", "13.0"] == {"properties": {"allow_compat_mode": True, "use_pci_p2pdma": False}}
    assert wanted["p2pdma", "13.0"] == {"properties": {"allow_compat_mode": True, "use_pci_p2pdma": True}}
    assert wanted["p2pdma", "13.1"] == {
        "properties": {"allow_compat_mode": True, "use_pci_p2pdma": True},
        "block": {"nvme": {"use_pci_p2pdma": True}},
    }
    assert cufile(plan_of(bare(), **CUDA))["gds_version"] == "1.15"
    assert "CUDA 12.6 has no P2PDMA" in wanted["p2pdma", "12.6"][0]


def test_own_settings_win():
    own = {"properties": {"allow_compat_mode": False, "io_batchsize": 64}}
    host = bare()
    host.files["/etc/cufile.json"] = json.dumps({"properties": {**own["properties"], "use_poll_mode": True}, "fs": {}})
    assert "cufile.json" not in plan_of(host, cufile_settings=own, **CUDA).differences()
    assert "cufile.json" not in plan_of(bare(), cufile_enabled=False, **CUDA).differences()
    assert cufile(plan_of(bare(), cufile_settings=own, **CUDA))["settings"] == own


def test_modprobe_options_are_written_only_on_request():
    options = ['options nvidia NVreg_RegistryDwords="RMForceStaticBar1=1;RmForceDisableIomapWC=1;"']
    options.append("options nvme_core multipath=N")
    plan = plan_of(bare(), mode="p2pdma", **CUDA)
    assert list(texts(plan)) == [REVIEW]
    assert [line for line in texts(plan)[REVIEW].splitlines() if not line.startswith("#")] == options
    bold = plan_of(bare(), mode="p2pdma", safe_mode=False, **CUDA)
    assert list(texts(bold)) == [REVIEW, MODPROBE]
    assert [line for line in texts(bold)[MODPROBE].splitlines() if not line.startswith("#")] == options
    assert [step.label for step in bold.steps] == ["cufile.json", "initramfs"]
    allowed = plan_of(bare(), mode="p2pdma", safe_mode=False, reboot_allowed=True, **CUDA)
    assert [step.label for step in allowed.steps] == ["cufile.json", "initramfs", "reboot"]
    image = plan_of(bare(), mode="p2pdma", safe_mode=False, reboot_allowed=True, image_build=True, **CUDA)
    assert [step.label for step in image.steps] == ["cufile.json", "initramfs"]


def test_gpus_before_hopper_need_one_entry_more():
    host = bare()
    host.files["/proc/driver/nvidia/gpus/0000:00:06.0/information"] = "Model: \t\t NVIDIA A100-SXM4-40GB\n"
    review = texts(plan_of(host, mode="p2pdma", **CUDA))[REVIEW]
    assert 'NVreg_RegistryDwords="RMForceStaticBar1=1;RmForceDisableIomapWC=1;ForceP2P=0;"' in review


def test_arm_machine_needs_no_registry_entries():
    options = {"mode": "p2pdma", **CUDA}
    facts = facts_of(bare(machine="aarch64"), **options)
    assert "NVreg_RegistryDwords" not in texts(make_plan(facts, parse_config(options)))[REVIEW]
    assert boot_needs(facts, parse_config(options)) == ["multipath of nvme_core turned off"]


def test_reboot_is_needed_until_kernel_has_options():
    config = parse_config({"mode": "p2pdma", **CUDA})
    host = bare()
    needs = boot_needs(facts_of(host, mode="p2pdma", **CUDA), config)
    assert [need.split(" of ")[0] for need in needs] == ["RegistryDwords", "multipath"]
    enable_p2pdma(host)
    assert boot_needs(facts_of(host, mode="p2pdma", **CUDA), config) == []
    assert boot_needs(facts_of(bare(), mode="nvfs", **CUDA), parse_config({"mode": "nvfs", **CUDA})) == []


def test_iommu_is_kernel_parameter_for_review():
    host = bare()
    host.files["/sys/kernel/iommu_groups/0/type"] = ""
    options = {"mode": "nvfs", **CUDA}
    facts = facts_of(host, **options)
    assert kernel_needs(facts, parse_config(options)) == ["an IOMMU that is off"]
    written = texts(make_plan(facts, parse_config(options)))
    assert "intel_iommu=off or amd_iommu=off" in written[REVIEW]
    assert MODPROBE not in written
    assert kernel_needs(facts, parse_config(CUDA)) == []


def test_mode_change_removes_files_but_keeps_options():
    other = dict.fromkeys([MODULES_LOAD, MODPROBE, REVIEW, EXAMPLE], "something else")

    def gone(plan: Plan) -> list[str]:
        return [entry.path for entry in plan.files if entry.state == "absent"]

    assert gone(plan_of(bare(), other, mode="p2pdma", **CUDA)) == [MODULES_LOAD, EXAMPLE]
    assert gone(plan_of(bare(), other, **CUDA)) == [MODULES_LOAD, REVIEW, MODPROBE, EXAMPLE]


def test_file_mode_is_fixed_without_initramfs_or_reboot():
    options = {"mode": "p2pdma", "safe_mode": False, "reboot_allowed": True, **CUDA}
    written = texts(plan_of(bare(), **options))
    assert plan_of(bare(), written, **options).files == ()
    plan = plan_of(bare(), written, {MODPROBE: {"mode": "0666"}, REVIEW: {"uid": 1000}}, **options)
    assert [entry.name for entry in plan.files] == [
        "boot settings for review (mode or owner)",
        "modprobe options (mode or owner)",
    ]
    assert {step.label for step in plan.steps} <= {"cufile.json"}


@pytest.mark.parametrize(("headers", "wanted"), [("", f"linux-headers-{KERNEL}"), ("linux-headers-aws",) * 2])
def test_headers_come_only_where_module_is_to_be_built(headers, wanted):
    assert names(plan_of(bare(), mode="nvfs", headers_package=headers, **CUDA))[0] == wanted
    assert names(plan_of(bare(), mode="nvfs", headers_package="none", **CUDA))[0] == "libcufile-13-0"
    built = kernels(bare(), running="2.27.3", next="2.27.3")
    assert wanted not in names(plan_of(built, mode="nvfs", headers_package=headers, **CUDA))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda host: host.files.update({"/etc/cufile.json": "{"}), "/etc/cufile.json cannot be read as JSON"),
        (lambda host: host.programs.clear(), "neither apt nor dnf is on this node"),
        (lambda host: host.files.pop("/proc/sys/kernel/osrelease"), "release of the running kernel cannot be read"),
    ],
)
def test_unreadable_facts_are_refused(change, words):
    host = bare()
    change(host)
    plan = plan_of(host, mode="nvfs", **CUDA)
    assert plan.differences() == []
    assert any(words in refusal for refusal in plan.refusals)


EVERY = [
    {"mode": mode, "safe_mode": safe, "example_enabled": example, "example_text": "print()\n", **CUDA}
    for mode in ("compat", "nvfs", "p2pdma")
    for safe in (True, False)
    for example in (True, False)
]


def after_actions(options, left):
    """Return the facts of a node on which the actions of its plan were carried out."""
    plan = plan_of(kernels(bare()), left, **options)
    after = kernels(bare(), running="2.27.3", next="2.27.3")
    texts_after = {path: text for path, text in left.items() if path not in [entry.path for entry in plan.files]}
    texts_after.update(texts(plan))
    installed = {entry.name for entry in plan.packages}
    for step in plan.steps:
        if step.name == "cufile":
            after.files["/etc/cufile.json"] = json.dumps(step.arguments["settings"])
        if step.label == "nvidia-fs":
            load_nvidia_fs(after)
    facts = facts_of(after, texts_after, **options)
    facts["packages"].update(dict.fromkeys(installed, "1"))
    return facts


@pytest.mark.parametrize("options", EVERY)
@pytest.mark.parametrize("left", [{}, dict.fromkeys(PATHS, "left by another mode")])
def test_facts_after_its_actions_give_empty_plan(options, left):
    """Apply the plan to its own facts."""
    done = make_plan(after_actions(options, left), parse_config(options))
    assert (done.differences(), done.refusals) == ([], ())


# Facts for which nothing is an answer: no such setting, package, file or package manager. A module is loaded or not.
BELOW = {("cufile_json", "settings"), ("files",), ("paths",), ("packages",)}
EXEMPT = {("manager",), ("nvidia_fs", "loaded")}


@pytest.mark.parametrize("options", EVERY)
def test_unknown_facts_are_no_reason_to_act(options):
    assert acted_on(make_plan, after_actions(options, {}), parse_config(options), BELOW, EXEMPT, 40) == []


def test_files_name_their_role():
    written = texts(plan_of(bare(), mode="p2pdma", safe_mode=False, **CUDA))
    assert all(re.match(r"# Written by mlcluster.aws \(role nvidia_gds\)", text) for text in written.values())
