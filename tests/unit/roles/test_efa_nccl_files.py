# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role efa_nccl writes, installs, holds, restarts and removes."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import typing as t

import pytest

from tests.rig import templating
from tests.unit.fakes import fake_training_host as scene
from tests.unit.roles.efa_nccl_role import AMAZON, NCCL, UBUNTU, Role, bare, load, look_with, settled


@pytest.fixture
def role(monkeypatch, capsys):
    """role(facts, setting=value) is the role on a node of that distribution."""

    def made(facts: tuple[str, str, str, str] = UBUNTU, **settings: t.Any) -> Role:
        new = Role(facts, **settings)
        new.run_module = look_with(monkeypatch, capsys)
        return new

    return made


def test_the_plugin_is_put_onto_the_linkers_path_as_long_as_it_needs_it(role):
    path = "/etc/ld.so.conf.d/mlcluster-efa-nccl.conf"
    new, host = role(), scene.good_node()
    sums = settled(new, host)
    assert path not in sums
    host.commands["ldconfig -p"] = scene.ldconfig("/lib/x86_64-linux-gnu/libnccl.so.2")
    new.look(host, sums)
    assert new.drift == ["linker path"]
    assert new.texts()[path].splitlines()[-1] == "/opt/amazon/ofi-nccl/lib"
    sums.update(new.sums())
    host.commands["ldconfig -p"] = scene.good_node().commands["ldconfig -p"]
    new.look(host, sums)
    assert new.drift == []
    new.look(host, {**sums, path: "1" * 64})
    assert new.variables["__efa_nccl_file_drift"] == [{"name": "linker path", "path": path, "state": "absent"}]


@pytest.mark.parametrize("state", [{"mode": "0666"}, {"uid": 1000}, {"is_link": True}])
def test_a_file_of_another_mode_or_owner_is_put_right_and_nothing_is_told_of_it(state, role):
    path = "/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf"
    new, host = role(), scene.good_node()
    sums = settled(new, host)
    new.look(host, sums, {path: state, "/etc/sysctl.d/95-mlcluster-efa.conf": state})
    assert new.drift == ["unit limits (mode or owner)", "kernel settings (mode or owner)"]
    told = [task for task in load("tasks/configure.yml") if "unit limits" in str(task["when"])]
    assert [bool(new.render(templating.trusted("{{ " + task["when"] + " }}"))) for task in told] == [False]
    assert [entry["mode"] for entry in new.variables["__efa_nccl_file_drift"]] == ["0644", "0644"]


def test_nccl_is_told_the_plugins_name_where_only_that_is_there(role):
    new = role()
    new.look(scene.good_node())
    assert new.texts()["/etc/nccl.conf"].splitlines()[1:] == [
        "NCCL_SOCKET_IFNAME=^docker,lo,veth",
        "NCCL_NET_PLUGIN=ofi",
    ]


def test_own_variables_are_in_every_file(role):
    new = role(environment={"NCCL_DEBUG": "WARN"})
    new.look(scene.good_node())
    assert "NCCL_DEBUG=WARN" in new.texts()["/etc/nccl.conf"]
    assert "setenv NCCL_DEBUG {WARN}" in new.texts()["/usr/share/modules/modulefiles/mlcluster-nccl"]


def test_variables_that_do_harm_are_refused_before_a_node_is_asked(role):
    (problem,) = role(environment={"NCCL_IFNAME": "eth0"}).value("setting_problems")
    assert problem.startswith("efa_nccl_environment has NCCL_IFNAME, which must be NCCL_SOCKET_IFNAME: ")
    assert problem.endswith(")")


def test_no_variable_of_nccl_for_neuron(role):
    new = role(neuron_packages=[{"name": "aws-neuronx-tools", "version": "2.1"}], nccl_packages=[NCCL])
    host = bare("trn1.32xlarge")
    new.look(host)
    assert new.value("kind") == "neuron"
    assert [package["name"] for package in new.value("missing_packages")] == ["aws-neuronx-tools"]
    assert "/etc/nccl.conf" not in new.texts()
    assert not [text for text in new.texts().values() if "NCCL_" in text]


def test_a_gpu_machine_without_a_driver_is_refused(role):
    host = scene.good_node()
    del host.files["/proc/driver/nvidia/version"]
    new = role()
    new.look(host)
    assert new.value("driver_missing")
    task = load("tasks/look.yml")[2]["ansible.builtin.assert"]
    assert new.render(task["fail_msg"]).startswith(
        "node1 is a p5.48xlarge and no NVIDIA driver is loaded: use an image"
    )
    pinned = role(driver_packages=[{"name": "nvidia-open", "version": "580.173.02-1"}])
    pinned.look(host)
    assert not pinned.value("driver_missing")
    assert pinned.drift[0] == "packages"


def test_pinned_packages_are_asked_for_as_the_package_manager_wants_it(role):
    for facts, spec in ((UBUNTU, "libnccl2=2.29.3-1+cuda13.0"), (AMAZON, "libnccl2-2.29.3-1+cuda13.0")):
        new = role(facts, nccl_packages=[{**NCCL, "version": "2.29.3-1+cuda13.0"}])
        new.look(scene.good_node())
        assert new.value("repository_specs") == [spec]
        assert "packages" in new.drift


def test_what_is_pinned_and_there_is_no_difference(role):
    new = role(nccl_packages=[NCCL])
    new.look(scene.good_node())
    assert "packages" not in new.drift


def test_what_training_stands_on_is_held(role):
    new, host = role(), scene.good_node()
    host.commands["dpkg-query -W"] += "linux-image-6.8.0-1021-aws\t6.8.0-1021.23\tii \n"
    new.look(host)
    assert new.value("unheld") == ["efa", "efa-config", "libfabric1-aws", "libnccl-ofi", "linux-image-6.8.0-1021-aws"]
    free = role(hold=False)
    free.look(host)
    assert "held packages" not in free.drift
    assert "/etc/apt/apt.conf.d/52mlcluster-held" not in free.texts()


def test_the_installers_packages_are_let_go_for_an_upgrade(role):
    new, host = role(installer_version="1.44.0"), scene.good_node()
    settled(new, host)
    # Of installers that bring more than others: what is held as EFA's own is also let go.
    host.commands["dpkg-query -W"] += "efa-nv-peermem\t1.2.1\thi \nlinux-image-aws\t6.8\thi \n"
    new.look(host)
    assert new.value("held_own") == ["efa", "efa-config", "efa-nv-peermem", "libfabric1-aws", "libnccl-ofi"]


def test_a_lock_of_dnf_is_let_go_for_another_pinned_version(role):
    new, host = role(AMAZON, nccl_packages=[{"name": "libnccl", "version": "2.29.3-1"}]), scene.good_node()
    new.look(host)
    new.variables["__efa_nccl_look"]["held_packages"] = ["kernel", "libnccl"]
    assert new.value("locked_missing") == ["libnccl"]


def test_a_package_file_is_named_after_its_package(role):
    url = "https://example.com/download?file=a/b"
    new = role(AMAZON, nccl_packages=[{"name": "libnccl", "version": "2", "url": url, "sha256": "1" * 64}])
    new.look(scene.good_node())
    (task,) = [task for task in load("tasks/packages.yml") if task["name"].endswith("Add package files (dnf)")]
    assert new.render(task["ansible.builtin.dnf"]["name"]) == ["/var/cache/mlcluster/efa/libnccl.rpm"]


def test_unattended_upgrades_get_regular_expressions(role):
    new = role(nccl_packages=[NCCL], hold_packages=["linux-image-*"])
    new.look(scene.good_node())
    text = new.texts()["/etc/apt/apt.conf.d/52mlcluster-held"]
    patterns = re.findall(r'^    "(.*)";$', text, re.MULTILINE)
    assert [
        name for name in ("linux-image-6.8", "libnccl2", "efa") if not any(re.search(p, name) for p in patterns)
    ] == []
    assert [
        name for name in ("my-linux-image-6", "libnccl2-dev", "efax") if any(re.search(p, name) for p in patterns)
    ] == []


def test_needrestart_reads_what_is_written(role, tmp_path):
    new = role(needrestart_keep=["slurmd", "getty@tty1"])
    new.look(scene.good_node())
    path = tmp_path / "mlcluster.conf"
    path.write_text(new.texts()["/etc/needrestart/conf.d/mlcluster.conf"])
    program = (
        "our %nrconf; eval do { local(@ARGV, $/) = $ARGV[0]; <> }; die $@ if $@;"
        "for my $unit (qw(slurmd.service getty@tty1.service sshd.service myslurmd.service)) {"
        "print grep({ $unit =~ /$_/ } keys %{$nrconf{override_rc}}) ? 0 : 1 }"
    )
    done = subprocess.run(["perl", "-e", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "0011"


def test_files_of_debian_are_not_written_elsewhere(role):
    new = role(AMAZON)
    new.look(scene.good_node())
    written = new.texts()
    assert not [path for path in written if "/apt/" in path or "/needrestart/" in path]
    assert "/usr/share/Modules/modulefiles/mlcluster-nccl" in written


def test_limits_reach_logins_and_services(role):
    new = role(limit_units=["slurmd.service"])
    new.look(bare())
    written = new.texts()
    assert "* hard memlock unlimited" in written["/etc/security/limits.d/95-mlcluster.conf"]
    unit = written["/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf"]
    assert unit.endswith("[Service]\nLimitMEMLOCK=infinity\n")


def test_a_service_with_an_older_limit_is_said_and_only_restarted_when_asked(role):
    host = scene.good_node()
    host.files["/proc/4711/limits"] = scene.limits("65536")
    new = role()
    new.look(host)
    assert "service restarts" not in new.drift
    assert "services run with an older limit until they are restarted: slurmd.service" in new.value("said")
    assert not any("slurmd.service" in line for line in new.value("problems"))
    asked = role(restart_units=True)
    asked.look(host)
    assert asked.value("restarts") == ["slurmd.service"]


def test_a_daemon_without_its_unit_is_not_restarted(role):
    host = scene.good_node()
    host.files["/proc/4711/limits"] = scene.limits("65536")
    asked = role(restart_units=True)
    asked.look(host)
    asked.variables["__efa_nccl_look"]["units"]["slurmd.service"]["exists"] = False
    assert (asked.value("stale_units"), asked.value("restarts")) == (["slurmd.service"], [])


def test_a_unit_is_named_twice_and_written_once(role):
    new = role(limit_units=["slurmd.service", "slurmd.service"])
    new.look(bare())
    paths = [entry["path"] for entry in new.variables["__efa_nccl_file_drift"]]
    assert len(paths) == len(set(paths))


def test_files_that_a_run_that_died_wrote_are_still_made_known(role):
    new, host = role(huge_pages=8), scene.good_node()
    host.commands["ldconfig -p"] = scene.ldconfig("/lib/x86_64-linux-gnu/libnccl.so.2")
    sums = settled(new, host)
    new.look(host, sums)
    for unit in new.variables["__efa_nccl_look"]["units"].values():
        unit["configured_memlock"] = 65536
    new.variables["__efa_nccl_look"]["huge_pages"]["total"] = 0
    assert new.value("file_names") == []
    assert new.value("differences") == ["linker path", "unit limits", "kernel settings"]
    for unit in new.variables["__efa_nccl_look"]["units"].values():
        unit["configured_memlock"] = "unlimited"
    new.variables["__efa_nccl_look"]["huge_pages"]["total"] = 8
    new.variables["__efa_nccl_look"]["plugin"]["on_linker_path"] = True
    assert new.value("differences") == []


def test_kernel_settings(role):
    path = "/etc/sysctl.d/95-mlcluster-efa.conf"
    new = role(huge_pages=5128)
    new.look(scene.good_node())
    assert new.texts()[path].splitlines()[1:] == ["kernel.yama.ptrace_scope = 0", "vm.nr_hugepages = 5128"]
    left = role(ptrace_scope=-1)
    left.look(bare())
    assert path not in left.texts()
    assert "efa.ptrace" not in left.value("ids")


def test_a_setting_that_was_changed_since_is_applied_again(role):
    new, host = role(), scene.good_node()
    sums = settled(new, host)
    host.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n"
    new.look(host, sums)
    assert new.drift == ["kernel settings"]


def test_a_fabric_manager_that_does_not_run_is_started(role):
    new, host = role(), scene.good_node()
    sums = settled(new, host)
    host.commands["systemctl show"] = scene.unit("nvidia-fabricmanager.service", ActiveState="inactive")
    new.look(host, sums)
    assert new.drift == ["fabric manager"]


def test_nccl_tests_are_built_once_and_by_the_builder(role):
    marker = "/opt/nccl-tests/.mlcluster.json"
    new, host = role(tests="build"), scene.good_node()
    new.look(host)
    assert "nccl-tests" in new.drift
    built = hashlib.sha256(new.value("tests_text").encode()).hexdigest()
    new.look(host, {marker: built})
    assert "nccl-tests" not in new.drift
    other = role(tests="build", tests_builder="head")
    other.look(host)
    assert "nccl-tests" not in other.drift
    assert "MPI=1" in new.value("make")


def test_prebuilt_nccl_tests_have_to_be_there(role):
    new, host = role(tests="prebuilt"), scene.good_node()
    new.look(host, settled(new, host))
    (problem,) = new.value("problems")
    assert problem.startswith("nccl-tests are to be prebuilt, and neither /opt/nccl-tests/build/all_reduce_perf nor")
    host.files["/opt/nccl-tests/build/all_reduce_perf"] = ""
    new.look(host, settled(new, host))
    assert new.value("problems") == []


def test_a_reboot_is_needed_when_another_module_is_loaded_than_installed(role):
    new, host = role(), scene.good_node()
    new.look(host)
    assert not new.value("reboot_needed")
    host.files["/sys/module/efa/version"] = "2.10.0g\n"
    new.look(host)
    assert new.value("reboot_needed")


def test_removal_keeps_an_nccl_conf_of_somebody_else(role):
    new, host = role(), scene.good_node()
    new.look(host, {"/etc/nccl.conf": "1" * 64, "/etc/security/limits.d/95-mlcluster.conf": "1" * 64})
    new.variables["__efa_nccl_slurped"] = {"content": base64.b64encode(b"NCCL_DEBUG=WARN\n").decode()}
    assert new.value("removable") == ["/etc/security/limits.d/95-mlcluster.conf"]
    new.variables["__efa_nccl_slurped"] = {
        "content": "IyBXcml0dGVuIGJ5IG1sY2x1c3Rlci5hd3M7IGNoYW5nZXMgYXJlIGxvc3QuCg=="
    }
    assert "/etc/nccl.conf" in new.value("removable")
