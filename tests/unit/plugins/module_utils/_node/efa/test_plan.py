# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of the role efa_nccl for each kind of node: refusals, the installer, packages, files, services."""

from __future__ import annotations

import copy
import hashlib
import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import files, plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Unit

from tests.unit.fakes import fake_training_host as scene
from tests.unit.fakes.fake_efa_role import AMAZON, DISTRIBUTIONS, IS_DEBIAN, NCCL, Node, bare, options
from tests.unit.unknown_facts import acted_on

every_distribution = pytest.mark.parametrize("system", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)


def step_of(node: Node, name: str) -> t.Mapping[str, t.Any]:
    """Return the arguments of the one step of that name."""
    (step,) = [entry for entry in node.plan().steps if entry.name == name]
    return step.arguments


def refusal(node: Node) -> str:
    found = node.plan()
    assert found.differences() == []
    return "; ".join(found.refusals)


# --- Which nodes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "version", "words"),
    [
        (("debian", "11", "Debian"), "1.51.0", "Debian 11 is too old for EFA installer 1.51.0: the last one for it"),
        (("debian", "13", "Debian"), "1.30.0", "EFA installer 1.30.0 is too old for Debian 13: the first one"),
        (("ubuntu", "20.04", "Ubuntu"), "1.43.0", "set efa_nccl_installer_version: 1.42.0 or use a newer image"),
        (("fedora", "43", "Fedora Linux"), "1.51.0", "Fedora Linux 43 is not one that the EFA installer supports"),
        (("amzn", "2", "Amazon Linux"), "1.49.0", "Amazon Linux 2 is not supported: its Python 3.7 is too old"),
    ],
)
def test_unsupported_distribution_is_refused(system, version, words):
    assert words in refusal(Node(bare(), system, installer_version=version))


def test_older_installer_takes_older_distribution():
    assert Node(bare(), ("debian", "11", "Debian"), installer_version="1.47.0").plan().refusals == ()


def test_unsupported_distribution_may_bring_its_own_software():
    assert Node(scene.good_node(), ("fedora", "43", "Fedora Linux"), installer_enabled=False).plan().refusals == ()


def test_fresh_node_lacks_everything():
    found = Node(bare(), check_signature=False).plan()
    assert found.differences() == [
        "limits",
        "unit limits",
        "kernel settings",
        "unattended upgrades",
        "needrestart",
        "nccl.conf",
        "profile",
        "modulefile",
        "install EFA",
    ]
    assert found.daemon_reload and found.refresh


@every_distribution
def test_node_as_wanted_lacks_nothing(system):
    node = Node(scene.good_node(), system, hold=system[0] in IS_DEBIAN).settle()
    assert (node.differences(), node.problems(), node.plan().notes) == ([], [], ())


def test_node_without_efa_is_left_unchanged():
    node = Node(scene.good_node(0, "t3.large"))
    found = node.plan()
    assert (found.concerned, found.differences(), node.problems()) == (False, [], [])
    assert "no EFA device, and none is expected on t3.large" in found.reason


def test_unknown_type_without_efa_is_left_unchanged():
    host = scene.good_node(0)
    del host.files["/sys/class/dmi/id/product_name"]
    node = Node(host)
    assert node.plan().reason == "no EFA device, and how many there should be is not known on this machine"
    assert node.problems() == []
    expects_none = Node(host, expected_devices=0)
    assert expects_none.plan().reason == "no EFA device, and none is expected on this machine"


@pytest.mark.parametrize(("kind", "unknown"), [("p99.48xlarge", True), ("trn9.48xlarge", True), ("m99.large", False)])
def test_unknown_accelerated_type_is_undeterminable(kind, unknown):
    node = Node(scene.good_node(0, kind))
    assert node.plan().concerned is False
    words = "???? efa.devices: no EFA device is here, and how many there should be is not known"
    assert [line.startswith(words) for line in node.problems()] == ([True] if unknown else [])
    assert Node(scene.good_node(0, kind), expected_devices=0).problems() == []


def test_image_gets_everything():
    host = bare("m5.large")
    host.files = {path: text for path, text in host.files.items() if not path.startswith("/sys")}
    found = Node(host, image_build=True).plan()
    assert "install EFA" in found.differences()
    assert [entry for entry in found.steps if entry.name == "command"] == []


@pytest.mark.parametrize("required", [True, False])
def test_gpu_machine_without_driver_is_refused_where_required(required):
    host = scene.good_node()
    del host.files["/proc/driver/nvidia/version"]
    found = refusal(Node(host, required=True))
    assert found.startswith("this is a p5.48xlarge and no NVIDIA driver is loaded: use an image")
    assert Node(host, required=False).plan().refusals == ()
    pinned = Node(host, required=required, driver_packages=[{"name": "nvidia-open", "version": "580.173.02-1"}])
    assert pinned.differences()[0] == "packages"


# --- Refusals before anything is changed ------------------------------------------------------------------------------


def test_variable_that_does_harm_with_these_versions_is_refused():
    host = scene.good_node(0, "p4d.24xlarge")
    node = Node(host, environment={"NCCL_IFNAME": "eth0"}, expected_devices=4)
    assert refusal(node).startswith("efa_nccl_environment: NCCL_IFNAME must be NCCL_SOCKET_IFNAME: ")


@pytest.mark.parametrize("state", [None, 2])
def test_node_with_jobs_is_not_changed(state):
    node = Node(bare(), nccl_packages=[NCCL])
    facts = {**node.facts(), "job_steps": state}
    (found,) = plan.make_plan(facts, node.config).refusals
    assert found.startswith("packages, install EFA would change what running Slurm jobs use, ")
    assert found.endswith("set efa_nccl_safe_mode: false")
    careless = options(nccl_packages=[NCCL], safe_mode=False)
    assert plan.make_plan(facts, careless).refusals == ()


def test_files_are_written_under_jobs():
    node = Node(scene.good_node())
    found = plan.make_plan({**node.facts(), "job_steps": 2}, node.config)
    assert found.refusals == () and found.files


def test_download_without_checksum_is_refused():
    assert "EFA installer 9.9.9 was not downloaded, since no sha256 of it is known" in refusal(
        Node(bare(), installer_version="9.9.9")
    )
    known = Node(bare(), installer_version="9.9.9", installer_sha256="1" * 64)
    assert step_of(known, "installer")["sha256"] == "1" * 64
    assert "nccl-tests 0.0.1 were not downloaded, since no sha256" in refusal(
        Node(scene.good_node(), tests="build", tests_version="0.0.1")
    )


def test_nothing_is_done_without_list_of_packages():
    host = bare()
    host.commands["dpkg-query -W"] = scene.hanging("dpkg-query -W", 60)
    assert "queried dpkg-query or rpm for the packages of this node and got no answer" in refusal(Node(host))
    alone = Node(host, installer_enabled=False, hold=False)
    assert "packages" not in alone.differences() and alone.plan().refusals == ()


# --- The installer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "settings", "step"),
    [
        ("1.43.0", {}, "none"),
        ("1.44.0", {}, "upgrade"),
        ("1.44.0", {"existing": "keep"}, "keep older"),
        ("1.42.0", {}, "keep newer"),
        ("1.34.4", {}, "keep newer"),
        ("1.44.0", {"installer_enabled": False}, "none"),
    ],
)
def test_installed_version_decides(version, settings, step):
    node = Node(scene.good_node(), installer_version=version, installer_sha256="1" * 64, **settings)
    assert plan.installer_step(node.facts(), node.config) == step
    assert any("is kept" in note for note in node.plan().notes) is step.startswith("keep")
    assert any(entry.name == "installer" for entry in node.plan().steps) is (step == "upgrade")


def test_interrupted_installation_is_repaired():
    node = Node(scene.good_node(), installer_version="1.42.0")
    node.sums["/var/lib/mlcluster/efa_installer.json"] = "1" * 64
    assert "repair EFA" in node.differences()
    node.sums.clear()
    node.host.commands["dpkg-query -W"] = scene.dpkg([("efa-config", "1.18", "iF ")])
    assert "repair EFA" in node.differences()


def test_minimal_installation_is_completed():
    host = scene.good_node()
    del host.files["/opt/amazon/efa/bin/fi_info"]
    assert "repair EFA" in Node(host).differences()
    assert "repair EFA" not in Node(host, installer_variant="minimal").differences()


def test_installation_that_cannot_be_judged_is_left_unchanged():
    node = Node(scene.good_node())
    facts = node.facts()
    facts["installer"] = {"state": "undeterminable", "version": None, "reasons": ["?"], "differences": []}
    assert plan.installer_step(facts, node.config) == "none"


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        ({}, ["-y"]),
        ({"installer_version": "1.51.0"}, ["-y", "--check-signatures"]),
        ({"installer_version": "1.51.0", "check_signature": False}, ["-y"]),
        ({"installer_variant": "minimal"}, ["-y", "--minimal"]),
        ({"installer_variant": "userspace"}, ["-y", "--skip-kmod"]),
        ({"installer_variant": "container"}, ["-y", "--skip-kmod", "--skip-limit-conf", "--no-verify"]),
        ({"image_build": True}, ["-y", "--no-verify"]),
        ({"installer_arguments": ["--mpi=openmpi5"]}, ["-y", "--mpi=openmpi5"]),
    ],
)
def test_arguments_of_installer(settings, arguments):
    assert plan.installer_arguments(options(**settings)) == arguments


def test_installer_step_has_all_arguments():
    node = Node(bare(), installer_version="1.47.0")
    found = step_of(node, "installer")
    base = "https://efa-installer.amazonaws.com/aws-efa-installer"
    assert [(file["url"], file["file"], file["proved_by"]) for file in found["downloads"]] == [
        (f"{base}-1.47.0.tar.gz", "aws-efa-installer-1.47.0.tar.gz", "efa_step"),
        (f"{base}-1.47.0.tar.gz.sig", "aws-efa-installer-1.47.0.tar.gz.sig", "efa_step"),
        (f"{base}.key", "aws-efa-installer.key", "efa_step"),
    ]
    assert (found["work"], found["archive"], found["key"]) == (
        "/var/cache/mlcluster/efa",
        "/var/cache/mlcluster/efa/aws-efa-installer-1.47.0.tar.gz",
        "/var/cache/mlcluster/efa/aws-efa-installer.key",
    )
    assert (found["version"], found["step"], found["timeout"]) == ("1.47.0", "install", 1800)
    unsigned = step_of(Node(bare(), check_signature=False), "installer")
    assert len(unsigned["downloads"]) == 1 and unsigned["key"] == ""


def test_gnupg_is_added_where_signature_is_checked():
    assert [entry.name for entry in Node(bare()).plan().packages] == ["gnupg"]
    assert [entry.name for entry in Node(bare(), AMAZON).plan().packages] == ["gnupg2"]
    host = bare()
    host.commands["dpkg-query -W"] = "gnupg\t2.4\tii \n"
    found = Node(host).plan()
    assert (found.packages, found.hold) == ((), ())


def test_own_packages_are_unheld_for_upgrade():
    node = Node(scene.good_node(), installer_version="1.44.0", installer_sha256="1" * 64).settle()
    # Of installers that bring more than others: what is held as EFA's own is also let go.
    node.host.commands["dpkg-query -W"] += "efa-nv-peermem\t1.2.1\thi \nlinux-image-aws\t6.8\thi \n"
    unhold = step_of(node, "installer")["unhold"]
    assert unhold == ["efa", "efa-config", "efa-nv-peermem", "libfabric1-aws", "libnccl-ofi"]


# --- Packages ---------------------------------------------------------------------------------------------------------


def test_pinned_package_is_installed_and_unheld():
    wanted = {**NCCL, "version": "1:2.29.3-1+cuda13.0"}
    found = Node(scene.good_node(), nccl_packages=[wanted]).plan()
    assert [(entry.name, entry.version) for entry in found.packages] == [("libnccl2", "1:2.29.3-1+cuda13.0")]
    assert (found.unhold, found.refresh, found.differences()[0]) == (("libnccl2",), True, "packages")
    # dnf's lock is taken off for it.
    assert "libnccl2" in found.hold


def test_epoch_is_not_compared():
    pinned = [{"name": "libnccl2", "version": "1:2.28.9-1+cuda13.0"}]
    assert Node(scene.good_node(), nccl_packages=pinned).plan().packages == ()


def test_package_file_keeps_its_address_and_checksum():
    url = "https://example.com/download?file=a/b"
    pinned = [{"name": "libnccl", "version": "2", "url": url, "sha256": "1" * 64}]
    (found,) = Node(scene.good_node(), AMAZON, nccl_packages=pinned).plan().packages
    assert (found.url, found.sha256) == (url, "1" * 64)


def test_pinned_package_that_is_there_is_no_difference():
    assert "packages" not in Node(scene.good_node(), nccl_packages=[NCCL]).differences()


def test_neuron_machine_gets_packages_and_no_nccl_variable():
    node = Node(
        bare("trn1.32xlarge"),
        neuron_packages=[{"name": "aws-neuronx-tools", "version": "2.1"}],
        nccl_packages=[NCCL],
        check_signature=False,
    )
    assert plan.kind(node.facts(), node.config) == "neuron"
    assert [entry.name for entry in node.plan().packages] == ["aws-neuronx-tools"]
    assert "/etc/nccl.conf" not in node.texts()
    assert not [text for text in node.texts().values() if "NCCL_" in text]


def test_packages_that_training_needs_are_held():
    host = scene.good_node()
    host.commands["dpkg-query -W"] += "linux-image-6.8.0-1021-aws\t6.8.0-1021.23\tii \n"
    found = Node(host).plan()
    assert found.hold == ("efa", "efa-config", "libfabric1-aws", "libnccl-ofi", "linux-image-6.8.0-1021-aws")
    free = Node(host, hold=False)
    assert "held packages" not in free.differences()
    assert "/etc/apt/apt.conf.d/52mlcluster-held" not in free.texts()


def test_removed_hold_is_difference():
    node = Node(scene.good_node()).settle()
    node.host.commands["dpkg-query -W"] = node.host.commands["dpkg-query -W"].replace(
        "efa\t2.17.2-1.amzn1\thi", "efa\t2.17.2-1.amzn1\tii"
    )
    assert (node.differences(), node.plan().hold) == (["held packages"], ("efa",))


def test_dnf_gets_versionlock():
    node = Node(scene.good_node(), AMAZON, installer_enabled=False)
    node.host.programs = {"rpm", "modinfo", "nvidia-smi"}
    node.host.commands["rpm -qa"] = "kernel\t6.1-1\n"
    found = node.plan()
    assert (found.hold, [entry.name for entry in found.packages]) == (("kernel",), ["python3-dnf-plugin-versionlock"])
    node.host.commands["rpm -qa"] += "python3-dnf-plugin-versionlock\t4-1\n"
    assert (node.plan().hold, node.plan().packages) == (("kernel",), ())


# --- Files and settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/etc/nccl.conf", "/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf"])
def test_each_missing_file_is_one_difference(path):
    node = Node(scene.good_node()).settle()
    del node.sums[path]
    assert node.texts().keys() == {path}
    assert node.plan().daemon_reload is path.startswith("/etc/systemd")


def test_linker_file_stays_while_plugin_needs_it():
    path = "/etc/ld.so.conf.d/mlcluster-efa-nccl.conf"
    node = Node(scene.good_node()).settle()
    assert path not in node.sums
    good = node.host.commands["ldconfig -p"]
    node.host.commands["ldconfig -p"] = scene.ldconfig("/lib/x86_64-linux-gnu/libnccl.so.2")
    assert node.differences() == ["linker path"]
    assert [entry.arguments["argv"] for entry in node.plan().steps] == [["ldconfig"]]
    assert node.texts()[path].splitlines()[-1] == "/opt/amazon/ofi-nccl/lib"
    node.settle()
    node.host.commands["ldconfig -p"] = good
    assert node.differences() == []
    node.sums[path] = "1" * 64
    (entry,) = node.plan().files
    assert (entry.path, entry.state) == (path, "absent")


@pytest.mark.parametrize("state", [{"mode": "0666"}, {"uid": 1000}, {"is_link": True}])
def test_wrong_mode_or_owner_is_fixed_without_notice(state):
    node = Node(scene.good_node()).settle()
    node.states = {
        "/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf": state,
        "/etc/sysctl.d/95-mlcluster-efa.conf": state,
    }
    found = node.plan()
    assert found.differences() == ["unit limits (mode or owner)", "kernel settings (mode or owner)"]
    assert (found.daemon_reload, found.steps) == (False, ())
    assert {entry.mode for entry in found.files} == {"0644"}


def test_nccl_gets_plugin_name_if_only_that_exists():
    assert Node(scene.good_node()).texts()["/etc/nccl.conf"].splitlines()[1:] == [
        "NCCL_SOCKET_IFNAME=^docker,lo,veth",
        "NCCL_NET_PLUGIN=ofi",
    ]


def test_own_variables_are_in_every_file():
    written = Node(scene.good_node(), environment={"NCCL_DEBUG": "WARN"}).texts()
    assert "NCCL_DEBUG=WARN" in written["/etc/nccl.conf"]
    assert "setenv NCCL_DEBUG {WARN}" in written["/usr/share/modules/modulefiles/mlcluster-nccl"]


def test_foreign_nccl_conf_is_kept_beside_ours_and_never_removed():
    node = Node(scene.good_node())
    node.sums["/etc/nccl.conf"] = "1" * 64
    (entry,) = [entry for entry in node.plan().files if entry.path == "/etc/nccl.conf"]
    assert entry.backup
    without = Node(scene.good_node(), environment_enabled=False)
    without.sums = {"/etc/nccl.conf": "1" * 64, "/etc/profile.d/mlcluster-nccl.sh": "1" * 64}
    gone = [entry.path for entry in without.plan().files if entry.state == "absent"]
    assert gone == ["/etc/profile.d/mlcluster-nccl.sh"]


def test_files_of_debian_are_not_written_elsewhere():
    written = Node(scene.good_node(), AMAZON).texts()
    assert not [path for path in written if "/apt/" in path or "/needrestart/" in path]
    assert "/usr/share/Modules/modulefiles/mlcluster-nccl" in written


def test_unit_that_is_named_twice_is_written_once():
    paths = [entry.path for entry in Node(bare(), limit_units=["slurmd.service", "slurmd.service"]).plan().files]
    assert len(paths) == len(set(paths))


def test_kernel_settings():
    path = "/etc/sysctl.d/95-mlcluster-efa.conf"
    written = Node(scene.good_node(), huge_pages=5128).texts()[path]
    assert written.splitlines()[1:] == ["kernel.yama.ptrace_scope = 0", "vm.nr_hugepages = 5128"]
    assert path not in Node(bare(), ptrace_scope=-1).texts()


def test_kernel_without_yama_gets_no_setting_of_it():
    host = scene.good_node()
    del host.files["/proc/sys/kernel/yama/ptrace_scope"]
    assert "/etc/sysctl.d/95-mlcluster-efa.conf" not in Node(host).texts()
    image = Node(host, image_build=True)
    assert "/etc/sysctl.d/95-mlcluster-efa.conf" in image.texts()
    assert not [entry for entry in image.plan().steps if entry.label == "kernel settings"]


def test_changed_setting_is_applied_again():
    node = Node(scene.good_node()).settle()
    node.host.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n"
    (step,) = node.plan().steps
    assert (step.label, step.arguments["argv"]) == (
        "kernel settings",
        ["sysctl", "--load", "/etc/sysctl.d/95-mlcluster-efa.conf"],
    )


def test_unreadable_setting_is_no_reason_to_act():
    node = Node(scene.good_node()).settle()
    node.host.files["/proc/sys/kernel/yama/ptrace_scope"] = "?\n"
    assert node.differences() == []
    assert [line.split()[1].rstrip(":") for line in node.problems()] == ["efa.ptrace"]


def test_unreported_huge_pages_are_refused_if_wanted():
    host = scene.good_node()
    host.files["/proc/meminfo"] = "MemTotal: 1 kB\n"
    assert "/proc/meminfo does not report how many" in refusal(Node(host, huge_pages=8))
    assert Node(host).plan().refusals == ()


def test_files_of_interrupted_run_are_applied():
    node = Node(scene.good_node(), huge_pages=8)
    node.host.commands["ldconfig -p"] = scene.ldconfig("/lib/x86_64-linux-gnu/libnccl.so.2")
    facts = node.settle().facts()
    for unit in facts["units"].values():
        unit["configured_memlock"] = 65536
    facts["huge_pages"]["total"] = 0
    found = plan.make_plan(facts, node.config)
    assert (found.files, found.daemon_reload) == ((), True)
    assert found.differences() == ["linker path", "kernel settings"]
    for unit in facts["units"].values():
        unit["configured_memlock"] = "unlimited"
    facts["huge_pages"]["total"] = 8
    facts["plugin"]["on_linker_path"] = True
    assert plan.make_plan(facts, node.config).differences() == []


# --- Services, nccl-tests, reboot -------------------------------------------------------------------------------------


def test_service_with_older_limit_restarts_only_when_asked():
    host = scene.good_node()
    host.files["/proc/4711/limits"] = scene.limits("65536")
    node = Node(host)
    assert "service restarts" not in node.differences()
    assert "services run with an older limit until they are restarted: slurmd.service" in node.plan().notes
    assert not any("slurmd.service" in line for line in node.problems())
    assert step_of(Node(host, restart_units=True), "restart") == {"units": ["slurmd.service"]}


@pytest.mark.parametrize("state", [None, 1])
def test_service_is_not_restarted_under_jobs(state):
    host = scene.good_node()
    host.files["/proc/4711/limits"] = scene.limits("65536")
    node = Node(host, restart_units=True).settle()
    found = plan.make_plan({**node.facts(), "job_steps": state}, node.config)
    assert (found.differences(), len(found.notes)) == ([], 1)


def test_daemon_without_its_unit_is_not_restarted():
    host = scene.good_node()
    host.files["/proc/4711/limits"] = scene.limits("65536")
    node = Node(host, restart_units=True)
    facts = node.facts()
    facts["units"]["slurmd.service"]["exists"] = False
    found = plan.make_plan(facts, node.config)
    assert not [entry for entry in found.steps if entry.name == "restart"]
    assert any("slurmd.service" in note for note in found.notes)


def test_stopped_fabric_manager_is_started():
    node = Node(scene.good_node()).settle()
    node.host.commands["systemctl show"] = scene.unit("nvidia-fabricmanager.service", ActiveState="inactive")
    found = node.plan()
    assert found.differences() == ["unit nvidia-fabricmanager.service"]
    assert found.units == (Unit("nvidia-fabricmanager.service", enabled=True, state="started"),)
    assert plan.make_plan(node.facts(), options(image_build=True)).units == ()


def test_nccl_tests_are_built_once_and_by_builder():
    node = Node(scene.good_node(), tests="build", tests_sha256="1" * 64)
    assert "nccl-tests" in node.differences()
    assert "MPI=1" in step_of(node, "tests")["make"]
    marker = "/opt/nccl-tests/.mlcluster.json"
    node.sums[marker] = hashlib.sha256(files.tests_text(node.config).encode()).hexdigest()
    assert "nccl-tests" not in node.differences()
    other = Node(scene.good_node(), tests="build", tests_sha256="1" * 64, builds_tests=False)
    assert "nccl-tests" not in other.differences()
    neuron = Node(scene.good_node(), tests="build", tests_sha256="1" * 64, accelerator="neuron")
    assert "nccl-tests" not in neuron.differences()


def test_reboot_is_needed_for_newer_installed_module():
    host = scene.good_node()
    assert plan.reboot_reasons(Node(host).facts(), options()) == []
    host.files["/sys/module/efa/version"] = "2.10.0g\n"
    node = Node(host)
    assert plan.reboot_reasons(node.facts(), node.config) == ["efa.driver"]
    assert "a reboot is needed, and efa_nccl_reboot_allowed does not allow it" in node.plan().notes
    allowed = Node(host, reboot_allowed=True).plan()
    assert allowed.steps[-1].name == "reboot" and not any("reboot" in note for note in allowed.notes)
    assert Node(host, reboot_allowed=True, image_build=True).plan().steps == ()


# --- Properties -------------------------------------------------------------------------------------------------------


def applied(facts: dict[str, t.Any], node: Node) -> dict[str, t.Any]:
    """Return the facts of a node on which the plan was carried out: what each action is there for has come true."""
    found, after = plan.make_plan(facts, node.config), copy.deepcopy(facts)
    for entry in found.files:
        there = entry.state == "present"
        after["files"][entry.path] = hashlib.sha256(entry.text.encode()).hexdigest() if there else None
        after["paths"][entry.path] = {"mode": entry.mode, "uid": 0, "is_link": False} if there else None
    for package in found.packages:
        after["packages"][package.name] = package.version.rpartition(":")[2] or "1"
    after["held_packages"] = sorted({*after["held_packages"], *found.hold})
    for unit in found.units:
        after["fabric_manager"].update(active=True, enabled=True)
        assert unit.name == after["fabric_manager"]["unit"]
    if found.daemon_reload:
        for unit in after["units"].values():
            unit["configured_memlock"] = "unlimited"
    for step in found.steps:
        if step.name == "installer":
            after["installer"] = {"state": "complete", "version": step.arguments["version"], "differences": []}
            after["files"][files.INTENT] = None
            after["libfabric"]["program"] = "/opt/amazon/efa/bin/fi_info"
        elif step.name == "tests":
            text = step.arguments["marker_text"]
            after["files"][step.arguments["marker"]] = hashlib.sha256(text.encode()).hexdigest()
        elif step.name == "restart":
            for name in step.arguments["units"]:
                after["units"][name]["running_memlock"]["soft"] = "unlimited"
        elif step.name == "reboot":
            after["reboot_required"] = False
        elif step.arguments["argv"] == ["ldconfig"]:
            after["plugin"]["on_linker_path"] = True
        else:
            after["ptrace_scope"] = node.config.ptrace_scope
            after["huge_pages"]["total"] = node.config.huge_pages
    return after


def broken() -> scene.TrainingHost:
    """Return a node on which everything else than the software is wrong."""
    host = scene.good_node()
    host.commands["ldconfig -p"] = scene.ldconfig("/lib/x86_64-linux-gnu/libnccl.so.2")
    host.files["/proc/4711/limits"] = scene.limits("65536")
    host.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n"
    host.files["/run/reboot-required"] = ""
    host.commands["systemctl show"] = "\n".join(
        [
            scene.unit("slurmd.service", MainPID="4711", LimitMEMLOCK="65536"),
            scene.unit("nvidia-fabricmanager.service", ActiveState="inactive", UnitFileState="disabled"),
        ]
    )
    return host


@pytest.mark.parametrize("system", [DISTRIBUTIONS["debian-13"], AMAZON], ids=["debian", "amazon"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reboot_allowed": True, "restart_units": True, "huge_pages": 6000, "tests": "build", "tests_sha256": "1" * 64},
        {"nccl_packages": [{**NCCL, "version": "1:2.29.3-1"}], "environment": {"NCCL_DEBUG": "WARN"}},
        {"image_build": True},
        {"environment_enabled": False, "limits_enabled": False, "hold": False, "needrestart_keep": []},
    ],
    ids=["defaults", "everything", "packages", "image", "little"],
)
@pytest.mark.parametrize("host", [scene.good_node, bare, broken])
def test_applied_plan_leaves_empty_plan(host, settings, system):
    common = {"installer_version": "1.51.0", "installer_sha256": "1" * 64, "safe_mode": False}
    node = Node(host(), system, **{**common, **settings})
    node.sums["/etc/profile.d/mlcluster-nccl.sh"] = "1" * 64
    facts = node.facts()
    first = plan.make_plan(facts, node.config)
    assert first.refusals == () and first.differences()
    assert plan.make_plan(applied(facts, node), node.config).differences() == []


# Facts of which nothing is an answer: nothing of that name is there.
ABSENT = {("libfabric", "program"), ("devices",), ("plugin", "names"), ("held_packages",)}
# Facts that always have a value: the family of an unknown distribution is an empty text, a complete installation has a
# version.
KNOWN = {("installer", "version"), ("distribution", "family")}


def test_unknown_facts_are_never_reason_to_act():
    node = Node(scene.good_node(), reboot_allowed=True, restart_units=True, huge_pages=5128).settle()
    paths = {("files",), ("paths",), ("packages",)}
    assert acted_on(plan.make_plan, node.facts(), node.config, paths, ABSENT | KNOWN, 100) == []
