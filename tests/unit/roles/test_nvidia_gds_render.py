# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role nvidia_gds decides and writes on each distribution, rendered by Ansible's own templating.

The look comes from the module itself on a made-up GPU node, so that role and module cannot drift apart.
"""

from __future__ import annotations

import functools
import hashlib
import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import decide as gds
from ansible_collections.mlcluster.aws.plugins.modules import gds_info

from tests.unit.fakes.fake_gds_host import Asker, GdsHost, enable_p2pdma, load_nvidia_fs, node, outcome, raid0
from tests.unit.roles.distributions import every_distribution
from tests.unit.roles.nvidia_gds_role import KERNEL, Role, load

NEXT = "6.8.0-1022-aws"
MODULES_LOAD = "/etc/modules-load.d/mlcluster-nvidia-fs.conf"
MODPROBE = "/etc/modprobe.d/mlcluster-nvidia-gds.conf"
REVIEW = "/etc/mlcluster/nvidia-gds-boot.conf"
EXAMPLE = "/usr/local/share/mlcluster/torch_gds_example.py"

TAKEN = outcome()
REFUSED = outcome("refused", "register", err=5008, reason="cuFileHandleRegister gave 5008")


@pytest.fixture
def role(monkeypatch, capsys):
    """role(facts, settings...) gives a Role whose look is that of gds_info on the host given to it."""
    asker = Asker(outcome(step="open"), strict=REFUSED, own=TAKEN, with_p2pdma=REFUSED, no_p2pdma=REFUSED)

    def run(host: GdsHost, options: dict[str, t.Any]) -> dict[str, t.Any]:
        monkeypatch.setattr(gds_info, "Host", lambda: host)
        monkeypatch.setattr(gds_info, "survey", lambda *given: gds.survey(*given, asker=asker))
        with patch_module_args(options), pytest.raises(SystemExit):
            gds_info.main()
        result = json.loads(capsys.readouterr().out)
        assert "msg" not in result
        return result

    return functools.partial(Role, run)


def bare(**more: t.Any) -> GdsHost:
    """A node with the driver and without anything of GPUDirect Storage."""
    host = node(**more)
    del host.files["/usr/local/cuda/lib64/libcufile.so.0"]
    return host


def kernels(host: GdsHost, **versions: str | None) -> GdsHost:
    """Let the node have kernels, with or without nvidia-fs: running and next give its version."""
    host.programs["modinfo"] = "/sbin/modinfo"
    for release, version in ((KERNEL, versions.get("running")), (NEXT, versions.get("next"))):
        host.files[f"/lib/modules/{release}/modules.dep"] = ""
        if version:
            host.commands[f"modinfo -k {release} -F vermagic nvidia-fs"] = f"{release} SMP mod_unload\n"
            host.commands[f"modinfo -k {release} -F version nvidia-fs"] = f"{version}\n"
    return host


@every_distribution
def test_supported_distributions(role, facts):
    one = role(facts)
    asserted = [task["ansible.builtin.assert"]["that"] for task in load("tasks/validate.yml")[1:]]
    assert [one.holds(condition) for condition in asserted] == [True, True, True]


def test_amazon_linux_2_is_refused_by_its_vars_file(role):
    one = role(("Amazon", "2", "RedHat", "yum"))
    task = load("tasks/validate.yml")[1]["ansible.builtin.assert"]
    assert not one.holds(task["that"])
    assert one.render(task["fail_msg"]).startswith("Amazon Linux 2 is not supported: its Python 3.7 is too old")


@every_distribution
def test_packages_come_from_the_package_manager_of_the_distribution(role, facts):
    one = role(facts, mode="nvfs", cuda_version="13.4")
    one.look(bare())
    headers = f"linux-headers-{KERNEL}" if facts[3] == "apt" else f"kernel-devel-{KERNEL}"
    missing = [headers, "libcufile-13-4", "gds-tools-13-4", "nvidia-fs-dkms"]
    assert one.value("missing_packages") == missing
    assert one.drift == ["packages", "cufile.json", "module at boot", "nvidia-fs"]
    assert one.due("tasks/install.yml") == [f"Install | Add the missing packages ({facts[3]})"]
    assert one.value("initramfs") == (["update-initramfs", "-u"] if facts[3] == "apt" else ["dracut", "--force"])


def test_a_version_is_given_to_each_package_manager_in_its_own_way():
    apt, dnf = load("tasks/install.yml")[0]["block"]
    assert "replace" not in apt["ansible.builtin.apt"]["name"]
    assert "map('replace', '=', '-')" in dnf["ansible.builtin.dnf"]["name"]
    assert apt["ansible.builtin.apt"]["install_recommends"] is False


def test_a_fresh_node_in_mode_compat(role):
    one = role(cuda_version="13.0")
    one.look(bare())
    assert one.drift == ["packages", "cufile.json"]
    assert one.value("missing_packages") == ["libcufile-13-0", "gds-tools-13-0"]
    assert one.value("cufile_wanted") == {"properties": {"allow_compat_mode": True}}


@pytest.mark.parametrize("switch", [True, "true"])
def test_a_node_without_a_driver_is_left_alone_unless_it_becomes_an_image(role, switch):
    host = bare()
    del host.files["/proc/driver/nvidia/version"]
    one = role(cuda_version="13.0", mode="nvfs")
    one.look(host)
    assert (one.drift, one.value("wanted")) == ([], False)
    image = role(cuda_version="13.0", mode="nvfs", image_build=switch)
    image.look(host)
    assert image.drift == ["packages", "cufile.json", "module at boot"]
    assert image.value("module_problems") == []


def test_nothing_is_installed_when_that_is_switched_off_and_it_is_said(role):
    one = role(cuda_version="13.0", install_enabled="false")
    one.look(bare())
    assert one.drift == ["cufile.json"]
    assert "packages are missing and nvidia_gds_install_enabled is false: libcufile-13-0, gds-tools-13-0" in one.value(
        "found"
    )


def test_a_refused_driver_stops_everything(role):
    host = bare()
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Release Build\n"
    host.files["/proc/driver/nvidia/version"] = text
    one = role(mode="nvfs", cuda_version="13.0")
    one.look(host)
    assert one.drift == []
    assert "as /proc/driver/nvidia/version says, and nvfs needs the open one" in one.value("plan")["problems"][0]
    compat = role(cuda_version="13.0")
    compat.look(host)
    assert compat.drift == ["packages", "cufile.json"]


@pytest.mark.parametrize("mode", ["compat", "nvfs", "p2pdma"])
def test_a_node_that_is_as_wanted_lacks_nothing(role, mode):
    host = kernels(node(), running="2.27.3", next="2.27.3")
    load_nvidia_fs(host)
    host.files["/usr/local/cuda/gds/tools/gdscheck"] = ""
    one = role(mode=mode, cuda_version="13.0", example_enabled=True)
    one.look(host)
    sums = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in one.texts().items()}
    host.files["/etc/cufile.json"] = json.dumps(one.value("cufile_wanted"))
    one.look(host, sums)
    assert one.drift == []


def test_settings_of_the_mode_follow_the_release(role):
    wanted = {}
    for cuda in ("12.6", "13.0", "13.1"):
        for mode in ("nvfs", "p2pdma"):
            one = role(mode=mode, cuda_version=cuda)
            one.look(bare())
            wanted[mode, cuda] = one.value("cufile_wanted")
    assert wanted["nvfs", "12.6"] == {"properties": {"allow_compat_mode": True}}
    assert wanted["nvfs", "13.0"] == {"properties": {"allow_compat_mode": True, "use_pci_p2pdma": False}}
    assert wanted["p2pdma", "13.0"] == {"properties": {"allow_compat_mode": True, "use_pci_p2pdma": True}}
    assert wanted["p2pdma", "13.1"] == {
        "properties": {"allow_compat_mode": True, "use_pci_p2pdma": True},
        "block": {"nvme": {"use_pci_p2pdma": True}},
    }


def test_settings_of_ones_own_win(role):
    own = {"properties": {"allow_compat_mode": False, "io_batchsize": 64}}
    one = role(cuda_version="13.0", cufile_settings=own)
    host = node()
    host.files["/etc/cufile.json"] = json.dumps({"properties": {**own["properties"], "use_poll_mode": True}, "fs": {}})
    one.look(host)
    assert one.value("cufile_wanted") == own
    assert not one.value("cufile_differs")
    off = role(cuda_version="13.0", cufile_enabled=False)
    off.look(node())
    assert not off.value("cufile_differs")


def test_the_modprobe_options_are_for_review_and_in_place_only_on_request(role):
    one = role(mode="p2pdma", cuda_version="13.0")
    one.look(bare())
    assert list(one.texts()) == [REVIEW]
    options = ['options nvidia NVreg_RegistryDwords="RMForceStaticBar1=1;RmForceDisableIomapWC=1;"']
    options.append("options nvme_core multipath=N")
    assert [line for line in one.texts()[REVIEW].splitlines() if not line.startswith("#")] == options
    bold = role(mode="p2pdma", cuda_version="13.0", safe_mode="false")
    bold.look(bare())
    assert list(bold.texts()) == [REVIEW, MODPROBE]
    assert [line for line in bold.texts()[MODPROBE].splitlines() if not line.startswith("#")] == options
    assert "Configure | Boot again with the new options" not in bold.due("tasks/configure.yml")
    allowed = role(mode="p2pdma", cuda_version="13.0", safe_mode=False, reboot_allowed=True)
    allowed.look(bare())
    assert "Configure | Boot again with the new options" in allowed.due("tasks/configure.yml")
    image = role(mode="p2pdma", cuda_version="13.0", safe_mode=False, reboot_allowed=True, image_build=True)
    image.look(bare())
    assert "Configure | Boot again with the new options" not in image.due("tasks/configure.yml")


def test_gpus_before_hopper_need_one_entry_more(role):
    host = bare()
    host.files["/proc/driver/nvidia/gpus/0000:00:06.0/information"] = "Model: \t\t NVIDIA A100-SXM4-40GB\n"
    one = role(mode="p2pdma", cuda_version="13.0")
    one.look(host)
    assert 'NVreg_RegistryDwords="RMForceStaticBar1=1;RmForceDisableIomapWC=1;ForceP2P=0;"' in one.texts()[REVIEW]


def test_an_arm_machine_needs_no_registry_entries(role):
    one = role(mode="p2pdma", cuda_version="13.0")
    one.look(bare(machine="aarch64"))
    assert "NVreg_RegistryDwords" not in one.texts()[REVIEW]
    assert one.value("boot_needs") == ["multipath of nvme_core turned off"]


def test_a_reboot_is_needed_until_the_kernel_has_the_options(role):
    one = role(mode="p2pdma", cuda_version="13.0")
    host = bare()
    one.look(host)
    assert [need.split(" of ")[0] for need in one.value("reboot_for")] == ["RegistryDwords", "multipath"]
    enable_p2pdma(host)
    one.look(host)
    assert one.value("reboot_for") == []
    other = role(mode="nvfs", cuda_version="13.0")
    other.look(bare())
    assert other.value("reboot_for") == []


def test_an_iommu_is_a_kernel_parameter_for_review(role):
    host = bare()
    host.files["/sys/kernel/iommu_groups/0/type"] = ""
    one = role(mode="nvfs", cuda_version="13.0")
    one.look(host)
    assert one.value("reboot_for") == ["an IOMMU that is off"]
    assert "intel_iommu=off or amd_iommu=off" in one.texts()[REVIEW]
    assert MODPROBE not in one.texts()
    compat = role(cuda_version="13.0")
    compat.look(host)
    assert compat.value("reboot_for") == []


def test_what_another_mode_wrote_goes_and_options_that_are_in_place_stay(role):
    host = node()
    sums = dict.fromkeys([MODULES_LOAD, MODPROBE, REVIEW, EXAMPLE], "0" * 64)
    one = role(mode="p2pdma", cuda_version="13.0")
    one.look(host, sums)
    gone = [entry["path"] for entry in one.variables["__nvidia_gds_file_drift"] if entry.get("state") == "absent"]
    assert gone == [MODULES_LOAD, EXAMPLE]
    compat = role(cuda_version="13.0")
    compat.look(host, sums)
    gone = [entry["path"] for entry in compat.variables["__nvidia_gds_file_drift"]]
    assert gone == [MODULES_LOAD, REVIEW, MODPROBE, EXAMPLE]


def test_the_module_is_looked_for_in_the_running_and_the_next_kernel(role):
    one = role(mode="nvfs", cuda_version="13.0")
    one.look(kernels(node()))
    assert one.value("module_problems") == [
        f"nvidia-fs is not there for the running kernel {KERNEL}",
        f"nvidia-fs is not there for kernel {NEXT}, which the next boot takes",
    ]
    one.look(kernels(node(), running="2.27.3"))
    assert one.value("module_problems") == [f"nvidia-fs is not there for kernel {NEXT}, which the next boot takes"]
    one.look(kernels(node(), running="2.27.3", next="2.27.3"))
    assert one.value("module_problems") == []
    compat = role(cuda_version="13.0")
    compat.look(kernels(node()))
    assert compat.value("module_problems") == []
    host = kernels(node())
    del host.files[f"/lib/modules/{NEXT}/modules.dep"]
    image = role(mode="nvfs", cuda_version="13.0", image_build=True)
    image.look(host)
    assert image.value("module_problems") == [f"nvidia-fs is not there for kernel {KERNEL}, which the next boot takes"]


def test_headers_come_only_where_a_module_is_to_be_built(role):
    for mode, settings, wanted in (
        ("compat", {}, ""),
        ("nvfs", {}, f"linux-headers-{KERNEL}"),
        ("nvfs", {"headers_package": "linux-headers-aws"}, "linux-headers-aws"),
        ("nvfs", {"headers_package": "none"}, ""),
    ):
        assert role(mode=mode, **settings).value("headers_wanted") == wanted
    one = role(mode="nvfs", cuda_version="13.0")
    one.look(kernels(node(), running="2.27.3", next="2.27.3"))
    assert one.value("missing_headers") == []


def test_mounts_come_from_the_other_roles_unless_they_are_given(role):
    assert role().value("looked_mounts") == []
    one = role()
    one.variables["mlcluster_local_storage"] = {"state": "intact", "path": "/data", "volumes": [{"path": "/data"}]}
    one.variables["mlcluster_fsx_lustre"] = {"mounts": [{"path": "/fsx", "efa": True}, {"path": "/data", "efa": True}]}
    assert one.value("looked_mounts") == ["/data", "/fsx"]
    one.variables["mlcluster_local_storage"] = {"state": "none", "path": None, "owner": "none"}
    assert one.value("looked_mounts") == ["/fsx", "/data"]
    one.variables["nvidia_gds_mounts"] = ["/scratch"]
    assert one.value("looked_mounts") == ["/scratch"]


def test_fsx_for_lustre_has_to_go_over_efa(role):
    one = role(mode="nvfs")
    mounts = [{"path": "/a", "efa": True}, {"path": "/b", "efa": False}, {"path": "/c"}]
    one.variables["mlcluster_fsx_lustre"] = {"mounts": mounts}
    problems = one.value("fsx_problems")
    assert [problem.split(" ")[0] for problem in problems] == ["/c", "/b"]
    assert "does not say whether it goes over EFA" in problems[0]
    assert "PERSISTENT_2" in problems[1]
    one.variables["nvidia_gds_mode"] = "compat"
    assert one.value("fsx_problems") == []


@pytest.mark.parametrize(
    ("settings", "modes"),
    [
        ({}, []),
        ({"required": "false", "mode": "nvfs"}, []),
        ({"required": True}, ["nvfs", "p2pdma", "compat"]),
        ({"required": True, "mode": "p2pdma"}, ["p2pdma"]),
        ({"required": True, "mode": "p2pdma", "image_build": True}, []),
    ],
)
def test_what_is_required_is_the_mode(role, settings, modes):
    assert role(**settings).options()["required"] == modes


def test_a_mode_that_is_required_and_not_active_is_a_problem(role):
    host = node()
    raid0(host)
    one = role(mode="p2pdma", cuda_version="13.0", required=True, mounts=["/raid"])
    one.look(host)
    words = " ".join(one.value("found"))
    assert "FAIL gds.mode (/raid)" in words
    assert "P2PDMA" in words
    assert one.variables["__nvidia_gds_look"]["advice"][0].startswith("/raid is md raid0")


def test_a_build_log_is_in_the_refusal(role):
    one = role(mode="nvfs", cuda_version="13.0")
    one.look(kernels(bare()))
    files = [{"path": "/var/lib/dkms/nvidia-fs/1/make.log", "mtime": 1.0}, {"path": "/new/make.log", "mtime": 2.0}]
    one.variables.update(__nvidia_gds_logs={"files": files}, __nvidia_gds_log={"stdout": "error: no member"})
    words = load("tasks/dkms.yml")[2]["ansible.builtin.set_fact"]["__nvidia_gds_dkms_words"]
    one.variables["__nvidia_gds_dkms_words"] = one.render(words)
    assert one.variables["__nvidia_gds_dkms_words"] == (
        "DKMS could not build nvidia-fs; the last lines of /new/make.log are:\nerror: no member"
    )
    message = one.render(load("tasks/install.yml")[0]["rescue"][-1]["ansible.builtin.fail"]["msg"])
    assert message.startswith(f"node1: could not install linux-headers-{KERNEL}, libcufile-13-0")
    assert message.endswith("error: no member")


def test_a_file_of_another_mode_is_put_right_without_an_initramfs_or_a_reboot(role):
    one = role(mode="p2pdma", cuda_version="13.0", safe_mode=False, reboot_allowed=True)
    one.look(node())
    texts = one.texts()
    sums = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in texts.items()}
    one.look(node(), sums)
    assert "modprobe options" not in one.drift
    one.look(node(), sums, {MODPROBE: {"mode": "0666"}, REVIEW: {"uid": 1000}})
    assert [name for name in one.drift if "(mode" in name] == [
        "boot settings for review (mode or owner)",
        "modprobe options (mode or owner)",
    ]
    assert [name for name in one.due("tasks/configure.yml") if "initramfs" in name or "Boot again" in name] == []


def test_every_option_of_the_look_is_a_variable(role):
    options = role(library="/opt/libcufile.so.0").options()
    assert set(options) == {"mounts", "probe", "required", "library", "timeout", "files", "paths", "packages"}
    assert options["files"] == [MODULES_LOAD, MODPROBE, REVIEW, EXAMPLE]
    assert "library" not in role().options()


def test_other_roles_are_told_the_modes_and_what_was_measured(role):
    one = role(mode="p2pdma", cuda_version="13.0", mounts=["/data"])
    one.look(node())
    one.variables["__nvidia_gds_measured"] = {"lines": ["PASS gds.driver: x", "PASS gds.bandwidth (/data): 3.1 GiB/s"]}
    set_facts = [task.get("ansible.builtin.set_fact", {}) for task in load("tasks/verify.yml")]
    fact = next(facts["mlcluster_gds"] for facts in set_facts if "mlcluster_gds" in facts)
    told = one.render(fact)
    assert told["mounts"] == {"/data": "compat"}
    assert len(told["reboot_needed"]) == 2
    assert told["bandwidth"] == ["PASS gds.bandwidth (/data): 3.1 GiB/s"]
    del one.variables["__nvidia_gds_measured"]
    assert one.render(fact)["bandwidth"] == []
