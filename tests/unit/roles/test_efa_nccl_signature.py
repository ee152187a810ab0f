# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which signatures the role efa_nccl takes: its own gpg command on real keys, and its own judgement."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from tests.rig import templating
from tests.rig.mirror.signing import Key
from tests.unit.roles.efa_nccl_role import Role, load


@dataclasses.dataclass
class Signed:
    """A file, and where its signature and the key lie; the fingerprint is that which the role wants."""

    folder: Path
    fingerprint: str

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    def accepted(self) -> bool:
        """Whether the role would take the archive."""
        role = Role(fingerprint=self.fingerprint)
        role.variables["__efa_nccl_fresh_dir"] = str(self.folder)
        role.variables["__efa_nccl_archive_file"] = str(self.archive)
        role.variables["__efa_nccl_key_file"] = str(self.folder / "key")
        (self.folder / "gnupg").mkdir(mode=0o700)
        subprocess.run(role.value("gpg_import"), capture_output=True, check=False)
        done = subprocess.run(role.value("gpg_verify"), capture_output=True, text=True, check=False)
        role.variables["__efa_nccl_verified"] = {"rc": done.returncode, "stdout": done.stdout}
        (task,) = [task for task in load("tasks/signature.yml") if task["name"].startswith("Signature | Refuse")]
        return all(
            role.render(templating.trusted("{{ " + words + " }}")) for words in task["ansible.builtin.assert"]["that"]
        )


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


def test_the_publishers_signature_is_taken(key, signed):
    assert signed(key()).accepted()


def test_a_second_key_in_the_file_changes_nothing(key, signed):
    publisher, stranger = key(), key("stranger")
    both = signed(publisher)
    (both.folder / "key").write_bytes(stranger.public() + publisher.public())
    assert both.accepted()


def test_a_second_key_in_the_file_vouches_for_nothing(key, signed):
    publisher, stranger = key(), key("stranger")
    forged = signed(stranger)
    forged.fingerprint = publisher.fingerprint
    (forged.folder / "key").write_bytes(stranger.public() + publisher.public())
    assert not forged.accepted()


def test_a_signature_of_another_file_is_refused(key, signed):
    other = signed(key())
    other.archive.write_bytes(b"another")
    assert not other.accepted()


@pytest.mark.parametrize("content", [b"", b"\0" * 1000, b"<html>"])
def test_a_signature_that_is_none_is_refused(content, key, signed):
    bad = signed(key())
    (bad.folder / "archive.sig").write_bytes(content)
    assert not bad.accepted()


def test_a_revoked_key_is_refused_although_gpg_ends_with_0(key, signed):
    publisher = key()
    bad = signed(publisher)
    publisher.revoke()
    (bad.folder / "key").write_bytes(publisher.public())
    assert not bad.accepted()


def test_a_key_that_has_run_out_is_refused_although_gpg_ends_with_0(key, signed):
    publisher = key(expired=True)
    bad = signed(publisher)
    assert publisher.validity() == "e"
    assert not bad.accepted()
