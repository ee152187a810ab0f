# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names with a line feed or bytes that are not UTF-8, and links that lead to themselves or nowhere, in every program.

No command ends with a traceback, and each error is one line.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import sys

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints import backup
from mlcluster_data.checkpoints.directory import INDEX, DirectoryStore, Manifest, verify
from mlcluster_data.errors import FAIL, PASS
from mlcluster_data.files.durable import FileSum

from tests.data.support.fake_s3 import _server, server
from tests.data.test_killed import no_job

__all__ = ["_server", "no_job", "server"]
TEXT = b'{"text": "hello"}\n'
NAMES = {"line feed": "od\nd", "not UTF-8": "caf\udce9"}
LINKS = {"loop": "loop", "dangling": "nowhere", "loop of folders": "."}
KINDS = [*NAMES, *LINKS]


def plant(folder, what, suffix=""):
    """Make an entry of this kind; return its path."""
    if what in NAMES:
        path = folder / f"{NAMES[what]}{suffix}"
        path.write_bytes(TEXT)
        return path
    path = folder / f"loop{suffix}"
    os.symlink(path.name if what == "loop" else LINKS[what], path)
    return path


@pytest.fixture
def run(monkeypatch):
    """Return ``run(*words)``: the exit status, and the lines on strict UTF-8 output."""

    def call(*words):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _stream in range(2)]
        # As Python sets it up.
        streams[1].reconfigure(errors="backslashreplace")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            patch.setattr(sys, "stdin", io.StringIO())
            status = command.main([str(word) for word in words])
        for stream in streams:
            stream.flush()
        errors = streams[1].buffer.getvalue().decode().splitlines()
        lines = [line for line in errors if line.startswith("ERROR: ")]
        assert not lines or status == FAIL, errors
        # Other lines after an error belong to its text.
        assert not lines or errors[-1] in lines, errors
        return status, lines

    return call


def save(folder, step):
    place = folder / f"step-{step:08d}"
    place.mkdir(parents=True)
    for name in ("data", INDEX):
        (place / name).write_bytes(b"x")
    files = dict.fromkeys(("data", INDEX), FileSum(1, hashlib.sha256(b"x").hexdigest()))
    (place / "complete").write_bytes(Manifest(step, 1, files, {}).text())
    return place


@pytest.mark.parametrize("what", KINDS)
def test_text_of_odd_names_is_read_or_named(run, tmp_path, what):
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.jsonl").write_bytes(TEXT)
    odd = plant(source, what, ".jsonl")
    good = what in NAMES
    status, lines = run("collect", source, "--output", tmp_path / "inputs", "--inputs", 2 if good else 1)
    assert status == (PASS if good else FAIL) and all("loop.jsonl: " in line for line in lines), lines
    assert run("array", source)[0] == (PASS if good else FAIL)
    assert run("preprocess", "--input", source, "--output", tmp_path / "out", "--tokenizer", tmp_path)[0] == FAIL
    assert run("validate", source)[0] == 2
    if what != "loop of folders":
        for words in (["collect", source / "a.jsonl", "--inputs", 1, "--output"], ["hold"], ["checkpoint", "list"],
                      ["validate"], ["array"], ["stage", source / "a.jsonl", "--to"]):  # fmt: skip
            assert run(*words, odd)[0] == FAIL, words


@pytest.mark.parametrize("what", KINDS)
def test_files_of_odd_names_are_staged_or_named(run, tmp_path, what):
    source, there = tmp_path / "source", tmp_path / "there"
    source.mkdir()
    odd = plant(source, what)
    status, lines = run("stage", source, "--to", there)
    if what in NAMES:
        assert status == PASS and (there / odd.name).read_bytes() == TEXT
        assert run("stage", source, "--to", there)[0] == PASS
    else:
        assert status == FAIL and f"{odd}: " in lines[0]
    if what != "loop of folders":
        assert run("stage", odd, "--to", tmp_path / "one")[0] == (PASS if what in NAMES else FAIL)


@pytest.mark.parametrize("what", KINDS)
def test_files_of_odd_names_are_backed_up_or_named(run, server, tmp_path, what):
    source = save(tmp_path / "source", 1).parent
    odd = plant(source, what)
    if what in LINKS:
        plant(source / "step-00000001", what)
    status, lines = run("backup", "push", source, server.prefix().url)
    # S3 has no name that is not UTF-8, and moto rejects one with a line feed.
    assert (status, len(lines)) == ((FAIL, 1) if what in NAMES else (PASS, 0)), lines
    assert run("backup", "restore", server.prefix().url, tmp_path / "back") == (PASS, [])
    assert run("checkpoint", "verify", tmp_path / "back") == (PASS, [])
    assert not os.path.lexists(tmp_path / "back" / odd.name)


@pytest.mark.parametrize("what", KINDS)
def test_checkpoints_beside_odd_names_are_kept(run, tmp_path, what):
    folder = tmp_path / "kept"
    places = [save(folder, step) for step in (1, 2, 3)]
    plant(folder, what)
    plant(places[2], what)
    for words in (["list"], ["verify", "--all"], ["prune", "--keep", "2"]):
        assert run("checkpoint", words[0], folder, *words[1:]) == (PASS, [])
    assert sorted(path.name for path in folder.glob("step-*")) == ["step-00000002", "step-00000003"]


@pytest.mark.parametrize("target", ["complete", "nowhere"])
@pytest.mark.parametrize("name", ["complete", "data", INDEX, "latest"])
def test_link_in_place_of_a_file_makes_no_checkpoint_good(run, tmp_path, name, target):
    """It never has a file, unlike one on a server that is away: the older checkpoints are used and stay."""
    folder = tmp_path / "kept"
    places = [save(folder, step) for step in (1, 2)]
    link = folder / name if name == "latest" else places[1] / name
    link.unlink(missing_ok=True)
    link.symlink_to(link.name if target == "complete" else target)
    assert run("checkpoint", "list", folder) == (PASS, [])
    assert run("checkpoint", "prune", folder, "--keep", "1") == (PASS, [])
    assert places[0].exists() is (name != "latest")
    torn = name in ("data", INDEX)
    assert run("checkpoint", "verify", folder) == (FAIL if torn else PASS, [])


AWAY = [errno.ELOOP, errno.EIO, errno.EACCES, errno.ESTALE, errno.ETIMEDOUT]


@pytest.fixture
def away(monkeypatch):
    """Return ``away(path, number)``: no call of os can look at this path, as when its server does not answer."""

    def hide(path, number):
        for name in ("lstat", "stat", "open", "scandir"):
            monkeypatch.setattr(os, name, refusing(getattr(os, name), path, number))

    return hide


def refusing(function, path, number):
    def called(asked, *rest, **named):
        handle = named.get("dir_fd")
        above = os.readlink(f"/proc/self/fd/{handle}") if handle is not None else ""
        if not isinstance(asked, int) and os.path.join(above, os.fspath(asked)) == str(path):
            raise OSError(number, os.strerror(number), str(path))
        return function(asked, *rest, **named)

    return called


@pytest.mark.parametrize("number", AWAY)
@pytest.mark.parametrize("name", ["data", "complete", ""])
def test_unreadable_checkpoint_is_not_missing(run, tmp_path, away, number, name):
    """As an automounter that answers with ELOOP: no checkpoint counts as bad, and none is removed or set aside."""
    folder = tmp_path / "kept"
    places = [save(folder, step) for step in (1, 2, 3)]
    if name:
        away(places[2] / name, number)
    else:
        away(places[2] / "complete", number)
        away(places[2], number)
    assert run("checkpoint", "prune", folder, "--keep", "1")[0] == FAIL
    assert [place.exists() for place in places[:2]] == [True, True]
    with pytest.raises(OSError, match=os.strerror(number)):
        DirectoryStore(folder).prepare() if name != "data" else verify(DirectoryStore(folder), 3)


@pytest.mark.parametrize("number", AWAY)
@pytest.mark.parametrize("name", ["notes", "step-00000002/complete"])
def test_unreadable_file_is_not_gone_for_the_backup(run, server, tmp_path, monkeypatch, away, number, name):
    """Only a file that is missing may be lost, and only an incomplete checkpoint may be skipped."""
    source = save(tmp_path / "source", 1).parent
    save(source, 2)
    (source / "notes").write_bytes(b"text")
    assert run("backup", "push", source, server.prefix().url) == (PASS, [])
    before = server.prefix().get(backup.MANIFEST)
    away(source / name, number)
    status, lines = run("backup", "push", source, server.prefix().url)
    assert status == FAIL and f"{source / name} cannot be read ({os.strerror(number)})" in lines[0], lines
    assert server.prefix().get(backup.MANIFEST) == before


@pytest.mark.parametrize("number", AWAY)
def test_unreadable_manifest_is_not_missing_for_collect(run, tmp_path, away, number):
    source = tmp_path / "text.jsonl"
    source.write_bytes(TEXT)
    words = ("collect", source, "--inputs", 1, "--output", tmp_path / "inputs")
    assert run(*words)[0] == PASS
    before = (tmp_path / "inputs" / "input-00000.jsonl").read_bytes()
    away(tmp_path / "inputs" / "inputs.json", number)
    for unread in (words, ("validate", tmp_path / "inputs"), ("array", tmp_path / "inputs")):
        status, lines = run(*unread)
        assert status == FAIL and os.strerror(number) in lines[0], lines
    assert (tmp_path / "inputs" / "input-00000.jsonl").read_bytes() == before
