# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role efa_nccl decides on each distribution: refusals, the installer, what is wanted and what is not."""

from __future__ import annotations

import re
import typing as t

import pytest

from tests.rig import templating
from tests.unit.fakes import fake_training_host as scene
from tests.unit.roles.distributions import every_distribution
from tests.unit.roles.efa_nccl_role import UBUNTU, Role, bare, load, look_with, settled


@pytest.fixture
def role(monkeypatch, capsys):
    """role(facts, setting=value) is the role on a node of that distribution."""

    def made(facts: tuple[str, str, str, str] = UBUNTU, **settings: t.Any) -> Role:
        new = Role(facts, **settings)
        new.run_module = look_with(monkeypatch, capsys)
        return new

    return made


@every_distribution
def test_supported_distributions(facts, role):
    new = role(facts, installer_version="1.51.0")
    assert (new.value("refusal"), new.value("setting_problems")) == ("", [])


@pytest.mark.parametrize(
    ("facts", "version", "words"),
    [
        (
            ("Debian", "11", "Debian", "apt"),
            "1.51.0",
            "Debian 11 is too old for EFA installer 1.51.0: the last one for it",
        ),
        (("Debian", "13", "Debian", "apt"), "1.30.0", "EFA installer 1.30.0 is too old for Debian 13: the first one"),
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
        *(f"versions.{name}" for name in ("cuda", "installer", "libfabric", "plugin", "nccl")),
    }


def test_versions_are_compared_with_the_matrix_and_a_bad_one_refuses_the_node(role):
    new, host = role(), scene.good_node()
    host.loads["libnccl.so.2"] = {"loads": True, "nccl": 21803}
    new.look(host, settled(new, host))
    (problem,) = new.value("problems")
    assert problem.startswith("FAIL versions.nccl: NCCL 2.18.3 is older than 2.18.5, the oldest that will do: ")
    assert "(aws/aws-ofi-nccl doc/efa-env-var.md, sample presets" in problem


def test_what_no_document_limits_is_said_and_refuses_nothing(role):
    new, host = role(), scene.good_node(16, "p5en.48xlarge")
    new.look(host, settled(new, host))
    assert new.value("problems") == []
    (line,) = [line for result, line in new.value("judged") if result["status"] == "undeterminable"]
    assert line.startswith("???? versions.plugin: the OFI plugin of NCCL: no document known here says which version")
    wanted = role(minima={"plugin": "1.20"})
    wanted.look(host, settled(wanted, host))
    (problem,) = wanted.value("problems")
    assert problem.startswith("FAIL versions.plugin: the OFI plugin of NCCL 1.16.1 is older than 1.20")


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


@pytest.mark.parametrize(("rc", "end", "gave_up"), [(124, 30, True), (-9, 30, True), (-9, 5, False), (1, 31, False)])
def test_an_installer_that_hangs_is_told_from_one_that_is_killed(rc, end, gave_up, role):
    new = role()
    new.variables["__efa_nccl_run"] = {
        "rc": rc,
        "start": "2026-11-28 01:00:00.000001",
        "end": f"2026-11-28 01:{end:02}:00.000002",
    }
    assert new.value("gave_up") is gave_up


def test_a_reason_has_a_bound_and_comes_from_both_streams(role):
    new = role()
    new.variables["__efa_nccl_run"] = {"stderr_lines": ["warning"] * 100, "stdout_lines": ["x" * 10_000, "Error: no"]}
    words = new.value("run_words")
    assert words.startswith("warning / warning")
    assert words.endswith("... / Error: no")
    assert len(words) < 600
    new.variables["__efa_nccl_run"] = {"stderr_lines": [], "stdout_lines": []}
    assert new.value("run_words") == "it said nothing"


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ({"msg": "Request failed", "failed": True}, "Request failed: see that the file is there"),
        (
            {"msg": "non-zero return code", "stderr": "fatal error: Unable to locate credentials\n", "failed": True},
            "fatal error: Unable to locate credentials: ",
        ),
        (
            {"msg": "One or more items failed", "results": [{"failed": False}, {"failed": True, "msg": "404"}]},
            "404: see that the file is there",
        ),
    ],
)
def test_why_something_could_not_be_had(failed, words, role):
    new = role(installer_source="mirror", mirror="https://mirror.example.com/efa")
    new.variables["ansible_failed_result"] = failed
    assert new.value("fetch_failure").startswith(words)


def test_of_s3_the_means_to_read_it_are_named(role):
    new = role(installer_source="mirror", mirror="s3://bucket/efa")
    new.variables["ansible_failed_result"] = {"msg": "No such file or directory: b'aws'", "failed": True}
    assert "the node needs the AWS CLI to read s3://" in new.value("fetch_failure")


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


@pytest.mark.parametrize(("major", "minor", "fits"), [(3, 8, False), (3, 9, True), (4, 0, True)])
def test_a_python_that_is_too_old_is_refused_in_one_sentence(major, minor, fits, role):
    new = role()
    new.variables["ansible_facts"]["python"]["version"] = {"major": major, "minor": minor}
    (task,) = [task for task in load("tasks/validate.yml") if task["name"].endswith("a Python that is too old")]
    assert bool(new.render(templating.trusted("{{ " + task["ansible.builtin.assert"]["that"] + " }}"))) is fits
    assert new.render(task["ansible.builtin.assert"]["fail_msg"]).startswith(
        f"node1 has Python {major}.{minor} and this role needs 3.9 or newer: install it"
    )
