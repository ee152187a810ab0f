# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The installer and the build of nccl-tests, on real archives, real keys and stand-ins for the programs they run."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import tarfile
import typing as t
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import apply, files
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import (
    CommandError,
    CommandResult,
    Host,
    NodeError,
)

from tests.rig.mirror.signing import Key
from tests.unit.fakes.fake_training_host import TrainingHost

INSTALLER = '#!/bin/sh\necho "$PWD $DEBIAN_FRONTEND $NEEDRESTART_SUSPEND $* ${EFA_INSTALLER_KEY##*/}" > %s/ran\n%s\n'


class RootHost(Host):
    """The real host in a directory of the test, where no owner changes; of package managers it notes what is asked."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.asked: list[str] = []
        self.intents: list[str] = []

    def make_directory(self, path: str, uid: int, gid: int, mode: int) -> None:
        Path(path).mkdir(mode=mode, exist_ok=True)

    def run(
        self, argv: t.Sequence[str], timeout: float = 120, check: bool = True, stdin: str | None = None
    ) -> CommandResult:
        words = [word for word in argv if "=" not in word and word != "env"]
        if words[0] in ("apt-get", "apt-mark", "dpkg", "dnf"):
            self.asked.append(" ".join(words[:3]))
            return CommandResult(0, "", "")
        return super().run(argv, timeout, check, stdin)

    def write_text(self, path: str, text: str, mode: int = 0o644) -> None:
        if path == files.INTENT:
            self.intents.append(text)
            return
        super().write_text(path, text, mode)

    def remove(self, path: str) -> None:
        if path == files.INTENT:
            self.intents.append("removed")
            return
        super().remove(path)


def packed(archive: Path, contents: dict[str, str]) -> str:
    """Make an archive; returns its sha256."""
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in contents.items():
            path = archive.parent / "content"
            path.write_text(text)
            path.chmod(0o755)
            tar.add(path, arcname=name)
    return hashlib.sha256(archive.read_bytes()).hexdigest()


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def arguments(work: Path, script: str = "exit 0", **more: t.Any) -> dict[str, t.Any]:
    archive = work / "aws-efa-installer-1.51.0.tar.gz"
    name = more.pop("member", "aws-efa-installer/efa_installer.sh")
    sha256 = packed(archive, {name: INSTALLER % (work.parent, script)})
    return {
        "work": str(work),
        "archive": str(archive),
        "origin": "https://mirror/aws-efa-installer-1.51.0.tar.gz",
        "sha256": sha256,
        "sha256_source": "AWS's list",
        "signature_origin": "https://mirror/x.sig",
        "key": "",
        "key_origin": "https://mirror/x.key",
        "fingerprint": "A" * 40,
        "version": "1.51.0",
        "step": "install",
        "arguments": ["-y", "--minimal"],
        "timeout": 60,
        "is_dpkg": True,
        "unhold": [],
        **more,
    }


def refused(host: RootHost, given: dict[str, t.Any]) -> str:
    with pytest.raises(NodeError) as caught:
        apply.install(host, given)
    return str(caught.value)


def test_installer_runs_quietly_where_it_was_unpacked(tmp_path, work):
    host = RootHost(tmp_path)
    (work / "fresh").mkdir()
    (work / "fresh" / "left").write_text("of an earlier run")
    apply.install(host, arguments(work))
    where, *words = (tmp_path / "ran").read_text().split()
    assert where == f"{work}/fresh/aws-efa-installer"
    assert words == ["noninteractive", "1", "-y", "--minimal"]
    assert host.intents == [files.intent_text("1.51.0", "install"), "removed"]
    assert host.asked == ["apt-get update -o"]
    assert not work.exists()


def test_repair_finishes_dpkg_first_and_removes_holds(tmp_path, work):
    host = RootHost(tmp_path)
    apply.install(host, arguments(work, step="repair", unhold=["efa", "libnccl-ofi"]))
    assert host.asked == [
        "dpkg --configure --pending",
        "apt-get update -o",
        "apt-mark unhold efa",
        "apt-mark unhold libnccl-ofi",
    ]


def test_dnf_locks_are_removed(tmp_path, work):
    host = RootHost(tmp_path)
    apply.install(host, arguments(work, step="repair", is_dpkg=False, unhold=["efa"]))
    assert host.asked == ["dnf -q versionlock"]


@pytest.mark.parametrize("expected", ["1" * 64, ""])
def test_wrong_checksum_is_not_unpacked(expected, tmp_path, work):
    host, given = RootHost(tmp_path), arguments(work)
    real, given["sha256"] = given["sha256"], expected
    assert refused(host, given) == (
        "https://mirror/aws-efa-installer-1.51.0.tar.gz was not taken and nothing was installed: its sha256 is "
        f"{real}, expected was {expected or 'none'} (from AWS's list): compare it with AWS's list and fetch the file "
        "again"
    )
    assert not (work / "fresh").exists() and host.intents == []


def test_missing_download_has_no_checksum(tmp_path, work):
    given = arguments(work, archive=str(work / "absent"))
    assert "its sha256 is not readable" in refused(RootHost(tmp_path), given)


def test_archive_without_installer_is_rejected(tmp_path, work):
    host = RootHost(tmp_path)
    assert "has no aws-efa-installer/efa_installer.sh in it, and nothing was installed" in refused(
        host, arguments(work, member="another/efa_installer.sh")
    )
    assert (host.intents, host.asked) == ([], [])


def test_failed_installer_leaves_its_intent(tmp_path, work):
    host = RootHost(tmp_path)
    message = refused(host, arguments(work, "echo 'Error: no headers' >&2; exit 3"))
    assert message == (
        "EFA installer 1.51.0 ended with status 3: Error: no headers; correct that and run the role again, which "
        "repairs the installation"
    )
    assert host.intents == [files.intent_text("1.51.0", "install")]


def test_killed_installer_differs_from_hanging_one(tmp_path, work):
    killed = refused(RootHost(tmp_path), arguments(work, "kill -9 $$"))
    assert killed.startswith("EFA installer 1.51.0 ended with status -9: no error output; correct that")
    late = refused(RootHost(tmp_path), arguments(work, "echo begun; exec sleep 60", timeout=1))
    assert late.startswith(
        "EFA installer 1.51.0 ended with status 124 after 1 seconds, which efa_nccl_installer_timeout allows: begun"
    )


def test_last_lines_are_cut_and_come_from_both_streams():
    ended = CommandResult(1, f"{'x' * 10_000}\nError: no\n", "warning\n" * 100)
    words = apply.last_lines(ended)
    assert words.startswith("warning / warning") and words.endswith("... / Error: no")
    assert len(words) < 600
    assert apply.last_lines(CommandError(["make"], None, "", "", "missing")) == "no error output"


# --- Signatures -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Signed:
    """A file, and where its signature and the key lie; the fingerprint is that which the role wants."""

    folder: Path
    fingerprint: str

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    def problem(self) -> str:
        host = RootHost(self.folder)
        home = str(self.folder / "gnupg")
        return apply.signature_problem(host, home, str(self.archive), str(self.folder / "key"), self.fingerprint)


@pytest.fixture
def key(tmp_path_factory):
    """key(owner, expired) makes a key pair; the path of its home has to be short."""
    made: list[Key] = []

    def make(owner: str = "publisher", expired: bool = False) -> Key:
        made.append(Key(tmp_path_factory.mktemp("k") / "h", f"{owner} <{owner}@example.com>", expired))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def signed(tmp_path):
    """signed(key) is an archive that this key has signed."""

    def make(own: Key) -> Signed:
        new = Signed(tmp_path, own.fingerprint)
        new.archive.write_bytes(b"installer")
        (tmp_path / "archive.sig").write_bytes(own.sign(new.archive))
        (tmp_path / "key").write_bytes(own.public())
        return new

    return make


def test_signature_of_publisher_is_accepted(key, signed):
    assert signed(key()).problem() == ""


def test_second_key_in_file_changes_nothing(key, signed):
    publisher, stranger = key(), key("stranger")
    both = signed(publisher)
    (both.folder / "key").write_bytes(stranger.public() + publisher.public())
    assert both.problem() == ""


def test_second_key_in_file_proves_nothing(key, signed):
    publisher, stranger = key(), key("stranger")
    forged = signed(stranger)
    forged.fingerprint = publisher.fingerprint
    (forged.folder / "key").write_bytes(stranger.public() + publisher.public())
    assert forged.problem()


def test_signature_of_another_file_is_rejected(key, signed):
    other = signed(key())
    other.archive.write_bytes(b"another")
    assert other.problem().startswith("gpg reported Signature made ")


@pytest.mark.parametrize("content", [b"", b"\0" * 1000, b"<html>"])
def test_invalid_signature_is_rejected(content, key, signed):
    bad = signed(key())
    (bad.folder / "archive.sig").write_bytes(content)
    assert bad.problem()


def test_revoked_key_is_rejected_although_gpg_ends_with_0(key, signed):
    publisher = key()
    bad = signed(publisher)
    publisher.revoke()
    (bad.folder / "key").write_bytes(publisher.public())
    assert bad.problem()


def test_expired_key_is_rejected_although_gpg_ends_with_0(key, signed):
    publisher = key(expired=True)
    bad = signed(publisher)
    assert publisher.validity() == "e"
    assert bad.problem()


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
def test_only_signature_by_published_key_is_valid(status, valid):
    published = "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC"
    message = "[GNUPG:] NEWSIG\n" + status.format(published, "A" * 40) + "\n"
    assert apply.is_signed_by(message, published) is valid


def test_installer_with_foreign_signature_is_not_unpacked(tmp_path, work, key):
    publisher, stranger = key(), key("stranger")
    given = arguments(work, key=str(work / "key"), fingerprint=publisher.fingerprint)
    Path(f"{given['archive']}.sig").write_bytes(stranger.sign(Path(given["archive"])))
    (work / "key").write_bytes(publisher.public())
    host = RootHost(tmp_path)
    message = refused(host, given)
    assert message.startswith(
        "EFA installer 1.51.0 was not installed, since https://mirror/x.sig is not a valid signature by the key "
        f"{publisher.fingerprint} of https://mirror/x.key; gpg reported "
    )
    assert message.endswith("do not use the file, and compare the fingerprint with the EC2 User Guide")
    assert host.intents == [] and not (work / "fresh" / "aws-efa-installer").exists()


def test_installer_signed_by_publisher_gets_key(tmp_path, work, key):
    publisher = key()
    given = arguments(work, key=str(work / "key"), fingerprint=publisher.fingerprint)
    Path(f"{given['archive']}.sig").write_bytes(publisher.sign(Path(given["archive"])))
    (work / "key").write_bytes(publisher.public())
    apply.install(RootHost(tmp_path), given)
    assert (tmp_path / "ran").read_text().split()[-1] == "key"


# --- nccl-tests -------------------------------------------------------------------------------------------------------

MAKEFILE = "all:\n\t%s\n\tmkdir build && echo '#!/bin/sh' > build/all_reduce_perf && chmod 755 build/all_reduce_perf\n"


def building(work: Path, line: str = "@true", **more: t.Any) -> dict[str, t.Any]:
    archive = work / "nccl-tests.tar.gz"
    sha256 = packed(archive, {"nccl-tests-2.19.6/Makefile": MAKEFILE % line})
    return {
        "work": str(work),
        "archive": str(archive),
        "origin": "https://mirror/v2.19.6.tar.gz",
        "sha256": sha256,
        "version": "2.19.6",
        "make": ["MPI=1", "MPI_HOME=/opt/mpi"],
        "tests_dir": str(work.parent / "tests"),
        "marker": str(work.parent / "tests" / ".mlcluster.json"),
        "marker_text": "{}\n",
        **more,
    }


def test_nccl_tests_are_built_and_noted(tmp_path, work):
    old = tmp_path / "tests" / "build" / "all_reduce_perf"
    old.parent.mkdir(parents=True)
    old.write_text("older")
    running = old.open()
    apply.build_tests(RootHost(tmp_path), building(work, "@test $(MPI) = 1"))
    # A job that has the older program open keeps it.
    assert (old.read_text(), running.read()) == ("#!/bin/sh\n", "older")
    running.close()
    assert subprocess.run([str(old)], check=False).returncode == 0
    assert (tmp_path / "tests" / ".mlcluster.json").read_text() == "{}\n"
    assert not work.exists()


def test_sources_with_another_checksum_are_not_built(tmp_path, work):
    with pytest.raises(NodeError, match=r"v2\.19\.6\.tar\.gz was not taken and nothing was installed: its sha256 is "):
        apply.build_tests(RootHost(tmp_path), building(work, sha256="1" * 64))
    assert not (tmp_path / "tests").exists()


def test_failed_build_names_needs_and_writes_no_marker(tmp_path, work):
    with pytest.raises(NodeError) as caught:
        apply.build_tests(RootHost(tmp_path), building(work, "@echo nvcc: not found >&2; false"))
    message = str(caught.value)
    assert message.startswith("nccl-tests 2.19.6 were not built, make ended with status 2: nvcc: not found / make: ")
    assert message.endswith(
        "it needs make, a compiler, CUDA in efa_nccl_cuda_home, Open MPI in efa_nccl_mpi_home and the headers of NCCL"
    )
    assert not (tmp_path / "tests").exists()


def test_missing_make_is_reported(tmp_path, work, monkeypatch):
    host = RootHost(tmp_path)
    real = host.run

    def run(argv: t.Sequence[str], **more: t.Any) -> CommandResult:
        if argv[0] == "make":
            raise CommandError(argv, None, "", "", "the program is not installed")
        return real(argv, **more)

    monkeypatch.setattr(host, "run", run)
    with pytest.raises(NodeError, match="not built, make: the program is not installed"):
        apply.build_tests(host, building(work))


def test_check_mode_neither_installs_nor_builds(tmp_path, work):
    for step, given in (("installer", arguments(work, sha256="1")), ("tests", building(work, sha256="1"))):
        assert apply.STEPS[step](RootHost(tmp_path), given, True) == {"changed": True}


# --- Jobs, services, removal ------------------------------------------------------------------------------------------


def test_step_is_refused_when_job_started_since_look():
    host, given = TrainingHost(), {"change": "install EFA", "option": "efa_nccl_safe_mode"}
    with pytest.raises(NodeError, match="it is not known whether Slurm jobs run"):
        apply.require_idle(host, given)
    host.files["/proc/1/comm"] = "systemd\n"
    assert apply.require_idle(host, given) == {"changed": False}
    host.files["/proc/9/comm"] = "slurmstepd\n"
    with pytest.raises(NodeError, match=r"install EFA would change what running Slurm jobs use, .*1 steps"):
        apply.require_idle(host, given)


def test_services_are_restarted_until_job_starts():
    host = TrainingHost()
    host.files["/proc/1/comm"] = "systemd\n"
    host.commands["systemctl restart"] = ""
    given = {"units": ["a.service", "b.service"]}
    assert apply.restart(host, given, check=True) == {"changed": True, "restarted": given["units"]}
    assert host.calls == []
    assert apply.restart(host, given)["restarted"] == given["units"]
    assert host.calls == ["systemctl restart a.service", "systemctl restart b.service"]
    host.files["/proc/9/comm"] = "slurmstepd\n"
    assert apply.restart(host, given) == {"changed": False, "restarted": []}


class RemovableHost(TrainingHost):
    """Files that can be removed."""

    def remove(self, path: str) -> None:
        del self.files[path]


@pytest.fixture
def configured():
    """A node with files and holds of the role, and one foreign file and hold."""
    host = RemovableHost()
    host.programs = {"dpkg-query"}
    host.files = {
        "/etc/os-release": "ID=debian\nVERSION_ID=13\n",
        files.LIMITS: files.LIMITS_TEXT,
        files.NCCL_CONF: "# Written by mlcluster.aws; changes are lost.\n",
        files.LINKER: "",
        "/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf": "",
        "/etc/mlcluster/roles/efa_nccl.json": "{}",
        "/etc/security/limits.d/others.conf": "",
    }
    held = (("efa", "hi "), ("libnccl2", "hi "), ("linux-image-6.8", "hi "), ("vim", "hi "), ("gdrcopy", "ii "))
    host.commands = {
        "dpkg-query -W": "".join(f"{name}\t1\t{status}\n" for name, status in held),
        "ldconfig": "",
        "systemctl daemon-reload": "",
        "apt-mark unhold": "",
    }
    return host


def test_removal_removes_files_and_holds_of_role(configured):
    wrote = [files.LINKER, files.LIMITS, files.NCCL_CONF]
    wrote += ["/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf", "/etc/mlcluster/roles/efa_nccl.json"]
    expected = {"changed": True, "removed": wrote, "unheld": ["efa", "libnccl2", "linux-image-6.8"]}
    assert apply.remove(configured, {}, check=True) == expected
    assert len(configured.files) == 7
    assert apply.remove(configured, {}) == expected
    assert configured.files.keys() == {"/etc/os-release", "/etc/security/limits.d/others.conf"}
    assert configured.calls[2:] == [
        "ldconfig",
        "systemctl daemon-reload",
        *(f"apt-mark unhold {name}" for name in expected["unheld"]),
    ]
    configured.commands["dpkg-query -W"] = "vim\t1\thi \n"
    assert apply.remove(configured, {}) == {"changed": False, "removed": [], "unheld": []}


def test_removal_keeps_foreign_nccl_conf(configured):
    configured.files[files.NCCL_CONF] = "NCCL_DEBUG=WARN\n"
    assert files.NCCL_CONF not in apply.remove(configured, {})["removed"]
    assert files.NCCL_CONF in configured.files
