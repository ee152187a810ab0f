# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role efa_nccl decides and writes on each distribution, rendered by Ansible's own templating.

The look comes from the module itself on a made-up training node, so that role and module cannot drift apart.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.mlcluster.aws.plugins.modules import efa_info

from tests.unit.plugins.module_utils._node import training_host as scene
from tests.unit.plugins.module_utils._node.training_host import TrainingHost

ROLE = Path(__file__).parents[3] / "roles" / "efa_nccl"
# What setup says of these: distribution, major version, family, package manager.
DISTRIBUTIONS = {
    "debian-12": ("Debian", "12", "Debian", "apt"),
    "debian-13": ("Debian", "13", "Debian", "apt"),
    "ubuntu-22.04": ("Ubuntu", "22", "Debian", "apt"),
    "ubuntu-24.04": ("Ubuntu", "24", "Debian", "apt"),
    "amazon-2023": ("Amazon", "2023", "RedHat", "dnf"),
    "rhel-9": ("RedHat", "9", "RedHat", "dnf"),
    "rocky-9": ("Rocky", "9", "RedHat", "dnf"),
}
every_distribution = pytest.mark.parametrize("facts", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
UBUNTU, AMAZON = DISTRIBUTIONS["ubuntu-24.04"], DISTRIBUTIONS["amazon-2023"]
NCCL = {"name": "libnccl2", "version": "2.28.9-1+cuda13.0"}


@functools.cache
def load(path: str) -> t.Any:
    """A file of the role, its expressions marked as templates as Ansible does for playbook content."""
    return DataLoader().load_from_file(str(ROLE / path), trusted_as_template=True)


class Role:
    """The role's variables on one node: defaults, vars files, facts, settings, and the look."""

    def __init__(self, facts: tuple[str, str, str, str] = UBUNTU, **settings: t.Any) -> None:
        distribution, major, family, manager = facts
        named = {"distribution": distribution, "distribution_major_version": major, "os_family": family}
        self.variables: dict[str, t.Any] = {
            **load("defaults/main.yml"),
            **load("vars/main.yml"),
            "role_path": str(ROLE),
            "inventory_hostname": "node1",
            "ansible_facts": {**named, "pkg_mgr": manager, "python": {"version": {"major": 3, "minor": 9}}},
            "efa_nccl_installer_version": "1.43.0",
        }
        for name in (family, distribution, f"{distribution}_{major}"):
            if (ROLE / "vars" / f"{name}.yml").is_file():
                self.variables.update(load(f"vars/{name}.yml"))
        self.variables.update({f"efa_nccl_{name}": value for name, value in settings.items()})
        self.run_module: t.Any = None

    def render(self, expression: t.Any) -> t.Any:
        return Templar(loader=DataLoader(), variables=self.variables).template(expression)

    def value(self, name: str) -> t.Any:
        return self.render(self.variables[f"__efa_nccl_{name}"])

    def look(self, host: TrainingHost, sums: dict[str, str] | None = None) -> dict[str, t.Any]:
        """Run the module as tasks/look.yml does; sums are the checksums of the files that the node has."""
        self.variables["omit"] = "left out"
        given = self.render(load("tasks/look.yml")[0]["mlcluster.aws.efa_info"])
        options = {key: value for key, value in given.items() if value != "left out"}
        host.sha256 = lambda path: (sums or {}).get(path)  # type: ignore[method-assign]
        self.variables["__efa_nccl_look"] = self.run_module(host, options)
        self.variables["__efa_nccl_file_drift"] = self.render(
            load("tasks/look.yml")[3]["ansible.builtin.set_fact"]["__efa_nccl_file_drift"]
        )
        self.variables["__efa_nccl_drift"] = self.value("differences") if self.value("wanted") else []
        return self.variables["__efa_nccl_look"]

    @property
    def drift(self) -> list[str]:
        return self.variables["__efa_nccl_drift"]

    def texts(self) -> dict[str, str]:
        """The files that would be written."""
        return {entry["path"]: entry["text"] for entry in self.variables["__efa_nccl_file_drift"] if "text" in entry}

    def sums(self) -> dict[str, str]:
        """The checksums of these files once they are written."""
        return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in self.texts().items()}


@pytest.fixture
def run_module(monkeypatch, capsys):
    """run_module(host, options) gives what efa_info printed."""

    def run(host: TrainingHost, options: dict[str, t.Any]) -> dict[str, t.Any]:
        monkeypatch.setattr(efa_info, "Host", lambda: host)
        with patch_module_args(options), pytest.raises(SystemExit):
            efa_info.main()
        result = json.loads(capsys.readouterr().out)
        assert "msg" not in result
        return result

    return run


@pytest.fixture
def role(run_module):
    """role(facts, setting=value) is the role on a node of that distribution."""

    def made(facts: tuple[str, str, str, str] = UBUNTU, **settings: t.Any) -> Role:
        new = Role(facts, **settings)
        new.run_module = run_module
        return new

    return made


def bare(instance_type: str = "p5.48xlarge") -> TrainingHost:
    """A node as an image without any EFA software boots it."""
    host = scene.good_node(instance_type=instance_type)
    host.files = {path: text for path, text in host.files.items() if not path.startswith(("/opt/amazon", "/etc/sec"))}
    host.commands["dpkg-query -W"] = "bash\t5.2\tii \n"
    host.commands["ldconfig -p"] = scene.ldconfig()
    host.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n"
    return host


def settled(role: Role, host: TrainingHost) -> dict[str, str]:
    """Give the node what the role would hold; returns the checksums of what it would write."""
    role.look(host)
    held = [(name, version, "hi ") for name, version, _status in scene.DPKG]
    host.commands["dpkg-query -W"] = scene.dpkg(held)
    return role.sums()


@every_distribution
def test_supported_distributions(facts, role):
    new = role(facts)
    assert (new.value("refusal"), new.value("setting_problems")) == ("", [])


@pytest.mark.parametrize(
    ("facts", "version", "words"),
    [
        (
            ("Debian", "11", "Debian", "apt"),
            "1.51.0",
            "Debian 11 is too old for EFA installer 1.51.0: the last one for it",
        ),
        (("Ubuntu", "20", "Debian", "apt"), "1.43.0", "set efa_nccl_installer_version: 1.42.0 or use a newer image"),
        (("Fedora", "43", "RedHat", "dnf"), "1.51.0", "Fedora 43 is not one that the EFA installer supports"),
        (("Amazon", "2", "RedHat", "yum"), "1.49.0", "Amazon Linux 2 is not supported: its Python 3.7 is too old"),
    ],
)
def test_a_distribution_that_is_too_old_is_told_in_one_sentence(facts, version, words, role):
    assert words in role(facts, installer_version=version).value("refusal")


def test_an_older_installer_still_takes_an_older_distribution(role):
    assert role(("Debian", "11", "Debian", "apt"), installer_version="1.50.0").value("refusal") == ""


def test_a_distribution_that_nobody_supports_may_bring_its_own_software(role):
    assert role(("Fedora", "43", "RedHat", "dnf"), installer_enabled=False).value("refusal") == ""


def test_the_filter_sees_every_setting_it_judges(role):
    bad = role(installer_version="latest", tests_dir="x", limit_units=["slurmd"], environment={"NCCL_IFNAME": "eth0"})
    assert [problem.split()[0] for problem in bad.value("setting_problems")] == [
        "efa_nccl_installer_version",
        "efa_nccl_tests_dir",
        "efa_nccl_limit_units",
        "efa_nccl_environment",
    ]


def test_a_fresh_node_lacks_everything(role):
    new = role()
    new.look(bare())
    assert new.drift == [
        "install EFA",
        "limits",
        "unit limits",
        "kernel settings",
        "unattended upgrades",
        "needrestart",
        "nccl.conf",
        "profile",
        "modulefile",
    ]


@every_distribution
def test_a_node_that_is_as_wanted_lacks_nothing(facts, role):
    new, host = role(facts, hold=facts[2] == "Debian"), scene.good_node()
    sums = settled(new, host)
    new.look(host, sums)
    assert (new.drift, new.value("problems")) == ([], [])


@pytest.mark.parametrize("path", ["/etc/nccl.conf", "/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf"])
def test_each_missing_file_is_one_difference(path, role):
    new, host = role(), scene.good_node()
    sums = settled(new, host)
    del sums[path]
    new.look(host, sums)
    assert new.texts().keys() == {path}


def test_a_node_without_efa_is_left_alone(role):
    new = role()
    new.look(scene.good_node(0, "t3.large"))
    assert (new.drift, new.value("problems")) == ([], [])
    assert "no EFA device, and none is expected on t3.large" in new.value("said")[0]


def test_an_image_gets_everything_and_only_its_software_is_judged(role):
    new, host = role(image_build=True), bare("m5.large")
    for path in [path for path in host.files if path.startswith("/sys")]:
        del host.files[path]
    new.look(host)
    assert new.drift[0] == "install EFA"
    assert {entry[0]["id"] for entry in new.value("judged")} == {
        "efa.installer",
        "efa.plugin",
        "efa.nccl",
        "efa.nvshmem",
    }


@pytest.mark.parametrize(
    ("version", "settings", "step"),
    [
        ("1.43.0", {}, "none"),
        ("1.44.0", {}, "upgrade"),
        ("1.44.0", {"existing": "keep"}, "keep older"),
        ("1.42.0", {}, "keep newer"),
        ("1.9.4", {}, "keep newer"),
        ("1.44.0", {"installer_enabled": False}, "none"),
    ],
)
def test_the_installed_version_decides(version, settings, step, role):
    new = role(installer_version=version, **settings)
    new.look(scene.good_node())
    assert new.value("step") == step
    assert any("is kept" in said for said in new.value("said")) is step.startswith("keep")


def test_an_interrupted_installation_is_repaired_whatever_its_version(role):
    new, host = role(installer_version="1.42.0"), scene.good_node()
    new.look(host, {"/var/lib/mlcluster/efa_installer.json": "1" * 64})
    assert (new.value("step"), new.drift[0]) == ("repair", "repair EFA")
    host.commands["dpkg-query -W"] = scene.dpkg([("efa-config", "1.18", "iF ")])
    new.look(host)
    assert new.value("step") == "repair"


def test_a_minimal_installation_is_completed(role):
    host = scene.good_node()
    del host.files["/opt/amazon/efa/bin/fi_info"]
    new = role()
    new.look(host)
    assert new.value("step") == "repair"
    minimal = role(installer_variant="minimal")
    minimal.look(host)
    assert minimal.value("step") == "none"


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
def test_the_installer_gets_the_arguments_of_its_variant(settings, arguments, role):
    assert role(**settings).value("command") == ["timeout", "--kill-after=30", "1800", "./efa_installer.sh", *arguments]


def test_where_the_installer_comes_from(role):
    upstream = role(installer_version="1.47.0").value("source")
    assert upstream["archive"] == "https://efa-installer.amazonaws.com/aws-efa-installer-1.47.0.tar.gz"
    assert upstream["signature"] == upstream["archive"] + ".sig"
    mirror = role(installer_source="mirror", mirror="s3://bucket/efa/").value("source")
    assert mirror["archive"] == "s3://bucket/efa/aws-efa-installer-1.43.0.tar.gz"
    assert mirror["key"] == "s3://bucket/efa/aws-efa-installer.key"
    local = role(installer_source="local", installer_file="/srv/efa.tar.gz").value("source")
    assert (local["signature"], local["key"]) == ("/srv/efa.tar.gz.sig", "/srv/aws-efa-installer.key")


def test_a_checksum_is_published_given_or_missing(role):
    assert role(installer_version="1.47.0").value("sha256").startswith("2df4201e")
    assert role(installer_version="9.9.9").value("sha256") == ""
    assert role(installer_version="9.9.9", installer_sha256="1" * 64).value("sha256") == "1" * 64


@pytest.mark.parametrize(
    ("status", "valid"),
    [
        ("[GNUPG:] VALIDSIG {0} 2026-01-01 1 0 4 0 22 10 00 {0}", True),
        ("[GNUPG:] VALIDSIG {1} 2026-01-01 1 0 4 0 22 10 00 {0}", True),
        ("[GNUPG:] VALIDSIG {1} 2026-01-01 1 0 4 0 22 10 00 {1}", False),
        ("[GNUPG:] BADSIG 0123456789ABCDEF {0}", False),
        ("gpg: [GNUPG:] VALIDSIG {0} x", False),
    ],
)
def test_only_a_signature_by_the_published_key_is_valid(status, valid, role):
    pattern = role().value("valid_signature")
    said = "[GNUPG:] NEWSIG\n" + status.format("4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC", "A" * 40) + "\n"
    assert bool(re.search(pattern, said)) is valid


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
    new.look(host)
    assert new.value("held_own") == ["efa", "efa-config", "libfabric1-aws", "libnccl-ofi"]


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
