# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of finding the latest complete checkpoint, and that pruning never removes it."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import pathlib

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import checkpoints
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from hypothesis import given
from hypothesis import strategies as st


def make(folder, step, complete=True, backed_up=False, name="step-{}"):
    path = folder / name.format(step)
    path.mkdir()
    (path / "weights").write_text("x")
    if complete:
        (path / "complete").touch()
    if backed_up:
        checkpoints.end_copy(str(path), "s3://b/x", checkpoints.content(str(path)))
    return str(path)


@pytest.fixture
def verb(tmp_path, capsys):
    def call(*words):
        code = cli.main(["checkpoints", str(tmp_path / "c"), *words], "0.1.0", str(tmp_path / "log"))
        return code, capsys.readouterr().out.splitlines()

    (tmp_path / "c").mkdir()
    return call


def test_newest_checkpoint_is_found_by_number_not_time(tmp_path, verb):
    folder = tmp_path / "c"
    new = make(folder, 1000, name="iter_{:07d}")
    old = make(folder, 999)
    make(folder, 2000, complete=False)
    os.utime(new, (1, 1))
    os.symlink(old, folder / "step-5000")
    (folder / "latest_checkpointed_iteration.txt").write_text("1000")
    assert verb("--latest") == (0, [new])
    assert verb("--not-backed-up") == (0, [new, old])


def rewrite(path):
    (path / "complete").unlink()
    (path / "complete").write_text("")


def rewrite_unseen(path):
    before = (path / "weights").stat()
    (path / "weights").write_text("y")
    os.utime(path / "weights", ns=(before.st_atime_ns, before.st_mtime_ns))


MARKS = {
    "of an earlier version": lambda path: (path / checkpoints.BACKED_UP).write_text(""),
    "damaged": lambda path: (path / checkpoints.BACKED_UP).write_text('{"verified": true, "mar'),
    "not verified": lambda path: (path / checkpoints.BACKED_UP).write_text(
        json.dumps({"target": "s3://b/x", "content": checkpoints.content(str(path)), "verified": False})
    ),
    "of a copy that was only begun": lambda path: checkpoints.begin_copy(str(path), "s3://b/x", None),
    "of no content": lambda path: checkpoints.end_copy(str(path), "s3://b/x", None),
    "of content that was written again since": rewrite,
    "of a file that was written again, of the same size and time": rewrite_unseen,
    "of fewer files": lambda path: (path / "more").touch(),
}


@pytest.mark.parametrize("what", MARKS)
def test_checkpoint_with_invalid_backup_mark_is_kept(tmp_path, verb, what):
    old = make(tmp_path / "c", 1, backed_up=True)
    new = make(tmp_path / "c", 2, backed_up=True)
    assert verb("--not-backed-up") == (0, [])
    MARKS[what](pathlib.Path(old))
    assert verb("--not-backed-up") == (0, [old])
    assert verb("--prune", "1", "--backed-up-only") == (0, [])
    assert pathlib.Path(new).exists() and pathlib.Path(old).exists()


def test_backup_mark_without_marker_is_incomplete(tmp_path, verb):
    half = pathlib.Path(make(tmp_path / "c", 1, complete=False))
    checkpoints.end_copy(str(half), "s3://b/x", None)
    assert verb() == (0, [f"{half}: incomplete"])


def test_begun_copy_does_not_have_mark_of_finished_copy(tmp_path):
    """Earlier versions treat any file .backed-up as a verified copy, and would remove the checkpoint."""
    made = pathlib.Path(make(tmp_path, 1, backed_up=True))
    checkpoints.begin_copy(str(made), "s3://b/y", None)
    assert [path.name for path in made.glob(".*")] == [".backup-begun"]
    checkpoints.end_copy(str(made), "s3://b/y", None)
    assert [path.name for path in made.glob(".*")] == [".backed-up"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, False),
        ({checkpoints.BACKED_UP: ""}, True),
        ({checkpoints.BACKED_UP: '{"target": "s3://b/x", "verified": false}'}, True),
        ({checkpoints.BEGUN: '{"target": "s3://b/x"}'}, True),
        ({checkpoints.BEGUN: '{"target": "s3://b/y"}'}, False),
        ({checkpoints.BEGUN: '{"target": "s3://b/x1"}'}, False),
        ({checkpoints.BEGUN: '{"target": 1}'}, False),
        ({checkpoints.BEGUN: json.dumps({"target": checkpoints.next_place("s3://b/x", "1f" * 32)})}, True),
        ({checkpoints.BEGUN: '{"target": "s3://b/y"}', checkpoints.BACKED_UP: '{"target": "s3://b/x"}'}, True),
    ],
)
def test_copy_at_target_is_found_by_either_mark(tmp_path, texts, expected):
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert checkpoints.has_copy_at(Host(), str(tmp_path), "s3://b/x") is expected


def test_second_copy_is_not_listed_as_checkpoint(tmp_path, verb):
    """A directory whose name ends in a number is a checkpoint, so the name of a second copy ends otherwise."""
    again = checkpoints.next_place("step-1", "0" * 64)
    (tmp_path / "c" / again).mkdir(parents=True)
    (tmp_path / "c" / again / "complete").touch()
    assert again == "step-1.0000000000000000.again" and verb() == (0, [])


def test_begun_copy_continues_only_for_its_content(tmp_path):
    made = make(tmp_path, 1)
    now = checkpoints.content(made)
    assert not checkpoints.has_begun_copy(Host(), made, "s3://b/x", now)
    checkpoints.begin_copy(made, "s3://b/x", now)
    assert checkpoints.has_begun_copy(Host(), made, "s3://b/x", checkpoints.content(made))
    assert not checkpoints.has_begun_copy(Host(), made, "s3://b/y", now)
    rewrite_unseen(pathlib.Path(made))
    assert not checkpoints.has_begun_copy(Host(), made, "s3://b/x", checkpoints.content(made))
    checkpoints.begin_copy(made, "s3://b/x", None)
    assert not checkpoints.has_begun_copy(Host(), made, "s3://b/x", None)


def test_content_follows_target_of_a_link(tmp_path):
    made, shard = pathlib.Path(make(tmp_path, 1)), tmp_path / "shard"
    shard.write_text("x")
    (made / "link").symlink_to(shard)
    before = checkpoints.content(str(made))
    shard.write_text("xy")
    assert checkpoints.content(str(made)) != before


def test_content_follows_linked_directories_and_ends(tmp_path):
    made, shards = pathlib.Path(make(tmp_path, 1)), tmp_path / "shards"
    shards.mkdir()
    (shards / "one").write_text("x")
    (made / "shards").symlink_to(shards)
    (made / "loop").symlink_to(made)
    before = checkpoints.content(str(made))
    assert checkpoints.content(str(made)) == before
    (shards / "one").write_text("xy")
    assert checkpoints.content(str(made)) != before


def test_dangling_link_does_not_hide_checkpoints(tmp_path, verb):
    """The target of the link was in an older checkpoint, and was removed after the copy was made."""
    folder = tmp_path / "c"
    old = make(folder, 1)
    linked = pathlib.Path(make(folder, 2))
    (linked / "frozen").symlink_to(f"{old}/weights")
    checkpoints.end_copy(str(linked), "s3://b/x", checkpoints.content(str(linked)))
    new = make(folder, 3)
    pathlib.Path(old, "weights").unlink()
    assert verb("--latest") == (0, [new])
    assert verb("--not-backed-up") == (0, [new, str(linked), old])


def test_link_to_itself_does_not_hide_checkpoints(tmp_path, verb, capsys):
    """Unlike a file on an unreachable server, such a link never has content."""
    folder = tmp_path / "c"
    old, listed, marked = (make(folder, step) for step in (1, 2, 3))
    pathlib.Path(listed, "more").symlink_to("more")
    pathlib.Path(marked, "complete").unlink()
    pathlib.Path(marked, "complete").symlink_to("complete")
    checkpoints.end_copy(listed, "s3://b/x", "0" * 64)
    assert verb("--latest") == (0, [listed])
    assert verb("--not-backed-up") == (0, [listed, old])
    assert verb() == (0, [f"{marked}: incomplete", f"{listed}: complete", f"{old}: complete"])


def test_directory_without_files_has_no_content(tmp_path):
    assert checkpoints.content(str(tmp_path)) is None
    with pytest.raises(FileNotFoundError):
        checkpoints.content(str(tmp_path / "missing"))


def test_empty_directory_has_no_latest_checkpoint(verb):
    assert verb("--latest") == (2, [])
    assert verb("--prune", "1") == (0, [])


def test_prune_removes_backed_up_old_checkpoints(tmp_path, verb):
    folder = tmp_path / "c"
    made = [make(folder, step, backed_up=step != 2) for step in (1, 2, 3, 4)]
    half = make(folder, 0, complete=False)
    assert verb("--prune", "2", "--backed-up-only") == (0, [made[0], half])
    assert sorted(path.name for path in folder.iterdir()) == ["step-2", "step-3", "step-4"]
    assert verb("--prune", "0") == (0, [made[2], made[1]])
    assert [path.name for path in folder.iterdir()] == ["step-4"]


def test_prune_keeps_newer_incomplete_checkpoint(tmp_path, verb):
    make(tmp_path / "c", 1)
    make(tmp_path / "c", 2, complete=False)
    assert verb("--prune", "1") == (0, [])


def refuse(*given, **_named):
    raise OSError(5, f"I/O error at {given}")


def test_prune_with_failed_removal_fails(tmp_path, verb, monkeypatch):
    make(tmp_path / "c", 1)
    make(tmp_path / "c", 2)
    monkeypatch.setattr(checkpoints, "remove", refuse)
    assert verb("--prune", "1") == (1, [])


ENTRIES = st.lists(
    st.builds(
        checkpoints.Checkpoint,
        path=st.uuids().map(str),
        step=st.integers(0, 9),
        complete=st.booleans(),
        backed_up=st.booleans(),
    ),
    max_size=8,
)


@given(ENTRIES, st.integers(-1, 4), st.booleans())
def test_newest_complete_checkpoint_is_never_removable(entries, keep, backed_up_only):
    found = sorted(entries, key=lambda entry: (-entry.step, entry.path))
    leaving = checkpoints.removable(found, keep, backed_up_only, lambda _entry: True)
    newest = checkpoints.latest(found)
    assert newest not in leaving
    if newest is None:
        assert leaving == []
    if backed_up_only:
        assert all(entry.backed_up for entry in leaving if entry.complete)
    assert sum(entry.complete for entry in found if entry not in leaving) >= min(
        max(keep, 1), sum(entry.complete for entry in found)
    )


def test_interrupted_removal_leaves_no_complete_checkpoint(tmp_path, monkeypatch):
    path = make(tmp_path, 1)
    monkeypatch.setattr(checkpoints.files, "remove_tree", refuse)
    (entry,) = checkpoints.find(Host(), str(tmp_path), "complete")
    with pytest.raises(OSError, match="I/O error"):
        checkpoints.remove(entry)
    assert not os.path.exists(path) and checkpoints.find(Host(), str(tmp_path), "complete") == []


@pytest.mark.parametrize("name", ["{}", "step-{}", "v2-{}", "2026-run.{}", "{:04d}"])
def test_step_is_number_at_end_of_name(tmp_path, verb, name):
    paths = {step: make(tmp_path / "c", step, name=name) for step in (95, 1000, 950)}
    newest = paths[1000]
    assert verb("--latest") == (0, [newest])
    verb("--prune", "1")
    assert os.listdir(tmp_path / "c") == [os.path.basename(newest)]


def test_prune_keeps_directories_with_other_names(tmp_path, verb):
    folder = tmp_path / "c"
    for step in (100, 200, 1000):
        make(folder, step)
    others = [
        make(folder, number, complete=False, name=name) for number, name in ((2, "eval_{}"), (1, "tensorboard-run{}"))
    ]
    gone = make(folder, 50, complete=False)
    assert verb("--prune", "3") == (0, [gone])
    assert all(os.path.isdir(path) for path in others)


def test_prune_counts_each_name_prefix_separately(tmp_path, verb):
    folder = tmp_path / "c"
    kept = [make(folder, 10, name="small-{}"), make(folder, 5000, name="large-{}")]
    gone = make(folder, 4000, name="large-{}")
    assert verb("--prune", "1") == (0, [gone])
    assert all(os.path.isdir(path) for path in kept)


def test_prune_finishes_interrupted_removal(tmp_path, verb):
    folder = tmp_path / "c"
    make(folder, 100)
    left = folder / f"{checkpoints.REMOVING}step-50"
    (left / "deep").mkdir(parents=True)
    by_trainer = folder / f"{checkpoints.REMOVING}step-00000060-0123abcd"
    by_trainer.mkdir()
    assert verb("--prune", "1") == (0, [])
    assert not left.exists() and not by_trainer.exists()


@pytest.mark.parametrize("name", ["notes", "notes2024", "eval-50", "step-50-copy", ".step-50", "step-50-0123ABCD"])
def test_prune_keeps_foreign_entry_with_removal_prefix(tmp_path, verb, name):
    folder = tmp_path / "c"
    make(folder, 100)
    (folder / f"{checkpoints.REMOVING}{name}" / "deep").mkdir(parents=True)
    assert verb("--prune", "1") == (0, [])
    assert (folder / f"{checkpoints.REMOVING}{name}" / "deep").is_dir()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_prune_keeps_link_or_file_with_removal_prefix(tmp_path, verb, kind):
    folder, left = tmp_path / "c", tmp_path / "c" / f"{checkpoints.REMOVING}step-50"
    make(folder, 100)
    (tmp_path / "kept").mkdir()
    if kind == "link":
        left.symlink_to(tmp_path / "kept")
    else:
        left.write_text("notes")
    assert verb("--prune", "1") == (0, [])
    assert left.exists() and (tmp_path / "kept").is_dir()


def test_removal_syncs_rename_before_it_deletes_files(tmp_path, verb, monkeypatch):
    folder = tmp_path / "c"
    for step in (1, 2):
        make(folder, step)
    order = []
    for module, call in ((checkpoints.os, "rename"), (checkpoints.os, "fsync"), (checkpoints.files, "remove_tree")):
        real = getattr(module, call)
        monkeypatch.setattr(
            module, call, lambda *args, n=call, r=real, **more: order.append((n, args[-1])) or r(*args, **more)
        )
    assert verb("--prune", "1")[0] == 0
    (_fsync, handle), leaving = order[1], f"{checkpoints.REMOVING}step-1"
    assert order == [("rename", leaving), ("fsync", handle), ("remove_tree", leaving)]


def test_remove_keeps_directory_replaced_since_look(tmp_path, verb):
    """The parent directory is a link, which was changed to the checkpoints of another user."""
    for folder in ("mine", "theirs"):
        (tmp_path / folder).mkdir()
        for step in (1, 2):
            make(tmp_path / folder, step)
    (tmp_path / "link").symlink_to("mine")
    old = checkpoints.find(Host(), str(tmp_path / "link"), "complete")[-1]
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("theirs")
    with pytest.raises(OSError, match="it is another directory than at the look"):
        checkpoints.remove(old)
    assert sorted(os.listdir(tmp_path / "theirs")) == ["step-1", "step-2"]
    assert not checkpoints.remove(dataclasses.replace(old, path=str(tmp_path / "mine" / "step-9")))


@pytest.mark.parametrize("number", [errno.EIO, errno.ELOOP, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("what", ["stat", "listdir", "lstat", "open"])
def test_io_error_on_marker_is_undeterminable(tmp_path, verb, monkeypatch, capsys, what, number):
    """A marker that cannot be read is not a missing marker, so nothing is removed. Automounters return ELOOP."""
    made = [make(tmp_path / "c", step) for step in (1, 2)]
    before = getattr(os, what)

    def away(path, *rest, **given):
        hidden = made[0] if what == "lstat" else f"{made[0]}/complete"
        if str(path) == hidden or (what == "listdir" and str(path) == str(tmp_path / "c")):
            raise OSError(number, os.strerror(number), str(path))
        return before(path, *rest, **given)

    monkeypatch.setattr(checkpoints.os, what, away)
    for words in (["--prune", "1"], ["--latest"], ["--not-backed-up"], []):
        assert verb(*words) == (2, [])
    monkeypatch.undo()
    assert all(os.path.isdir(path) for path in made)


def test_names_that_cannot_be_printed_are_ignored(tmp_path, verb):
    folder = tmp_path / "c"
    made = make(folder, 1)
    others = [make(folder, 9, name="a\n{}"), make(folder, 9, name="b\udce9-{}")]
    assert verb("--not-backed-up") == (0, [made])
    assert verb("--prune", "1") == (0, []) and all(os.path.isdir(path) for path in others)


@pytest.mark.parametrize("when", ["rename", "unlink", "rmdir"])
def test_concurrent_prunes_both_succeed(tmp_path, verb, monkeypatch, when):
    """The second prune runs during the first: before its first rename, or while it deletes files."""
    folder = tmp_path / "c"
    made = [make(folder, step) for step in (1, 2, 3)]
    os.mkdir(f"{made[0]}/deep")
    before, second = getattr(os, when), []

    def meanwhile(path, *given, **named):
        if not second:
            second.append(None)
            second[0] = verb("--prune", "1")
        return before(path, *given, **named)

    monkeypatch.setattr(os, when, meanwhile)
    first = verb("--prune", "1")
    monkeypatch.undo()
    assert (first[0], second[0][0]) == (0, 0)
    assert os.listdir(folder) == ["step-3"]
    # Each prune reports only checkpoints that it removed.
    assert set(first[1]) | set(second[0][1]) <= set(made[:2])


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: os.truncate(path / "weights", 0),
        lambda path: (path / "weights").unlink(),
        lambda path: (path / "complete").write_text('{"schema": "mlcluster.checkpoint/1", "files": null}'),
    ],
)
def test_checkpoint_with_missing_file_is_not_latest(tmp_path, verb, damage):
    made = [make(tmp_path / "c", step) for step in (1, 2)]
    marker = {"schema": checkpoints.MANIFEST, "files": {"weights": {"size": 1, "sha256": "…"}}}
    for path in made:
        pathlib.Path(path, "complete").write_text(json.dumps(marker))
    assert verb("--latest") == (0, [made[1]])
    damage(pathlib.Path(made[1]))
    assert verb("--latest") == verb("--not-backed-up") == (0, [made[0]])
    assert verb("--prune", "1") == (0, []) and os.path.isdir(made[0])


@given(ENTRIES, st.integers(-1, 4), st.booleans(), st.sets(st.integers(0, 9)))
def test_undamaged_checkpoints_stay_beside_damaged_ones(entries, keep, backed_up_only, damaged):
    found = sorted(entries, key=lambda entry: (-entry.step, entry.path))
    good = [entry for entry in found if entry.complete and entry.step not in damaged]
    leaving = checkpoints.removable(found, keep, backed_up_only, lambda entry: entry in good)
    assert [entry for entry in good if entry not in leaving][: max(keep, 1)] == good[: max(keep, 1)]
    if len(good) < max(keep, 1):
        assert not any(entry.complete for entry in leaving)


def manifest(step, files, **other):
    """Return a manifest as the trainer writes it."""
    content = {
        "schema": checkpoints.MANIFEST,
        "step": step,
        "world_size": 1,
        "files": files,
        "notes": {},
        "created": "",
    }
    content.update(other)
    seal = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps({**content, "sha256": seal}, indent=1) + "\n"


def sealed(folder, step, content=b"x"):
    path = pathlib.Path(make(folder, step))
    files = {"weights": {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}}
    (path / "complete").write_text(manifest(step, files))
    (path / "weights").write_bytes(content)
    return str(path)


def test_prune_does_not_count_damaged_newest_checkpoint(tmp_path, verb, capsys):
    folder = tmp_path / "c"
    made = [sealed(folder, step, b"y" if step == 4 else b"x") for step in (1, 2, 3, 4)]
    half = make(folder, 0, complete=False)
    assert verb("--prune", "1") == (0, [made[1], made[0]])
    # step-0 stays: the trainer uses this name only for complete checkpoints, so this directory is not its own.
    assert sorted(os.listdir(folder)) == [os.path.basename(half), "step-3", "step-4"]
    pathlib.Path(made[2], "weights").write_bytes(b"z")
    make(folder, 1, complete=False)
    assert verb("--prune", "1") == (0, [])
    log = "".join(path.read_text() for path in (tmp_path / "log").iterdir())
    assert f"{made[3]}/weights has other content than was written" in log


def test_missing_marker_does_not_prove_content(tmp_path, monkeypatch):
    made = sealed(tmp_path, 1)
    (entry,) = checkpoints.find(Host(), str(tmp_path), "complete")
    assert checkpoints.has_its_content(Host(), entry, "complete")
    pathlib.Path(made, "complete").unlink()
    assert not checkpoints.has_its_content(Host(), entry, "complete")


def test_prune_reads_no_files_if_none_is_removable(tmp_path, verb, monkeypatch):
    for step in (1, 2):
        sealed(tmp_path / "c", step)
    monkeypatch.setattr(Host, "sha256", refuse)
    assert verb("--prune", "2") == (0, [])


def test_manifest_without_checksums_is_incomplete(tmp_path, verb):
    made = [sealed(tmp_path / "c", step) for step in (1, 2)]
    files = {"weights": {"size": 1}}
    pathlib.Path(made[1], "complete").write_text(json.dumps({"schema": checkpoints.MANIFEST, "files": files}))
    assert verb("--latest") == (0, [made[0]])


@pytest.mark.parametrize("marker", ["", "{", "[]", '{"schema": "x", "files": {"gone": {"size": 1}}}'])
def test_marker_of_other_format_counts_as_complete(tmp_path, verb, marker):
    made = make(tmp_path / "c", 1)
    pathlib.Path(made, "complete").write_text(marker)
    assert verb("--latest") == (0, [made])


def flipped(text, at):
    return text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]


WRONG = {
    "a bit of its begin": lambda text: flipped(text, 0),
    "a bit of its schema": lambda text: flipped(text, text.index("checkpoint/1")),
    "a bit of its step": lambda text: flipped(text, text.index('"step": 3') + 8),
    "a bit of its seal": lambda text: flipped(text, text.rindex('"sha256": "') + 12),
    "a bit of the name of its seal": lambda text: flipped(text, text.rindex('"sha256"') + 1),
    "nothing left": lambda text: "",
    "zeros": lambda text: "\0" * len(text),
    "another step": lambda text: manifest(2, json.loads(text)["files"]),
    "another version": lambda text: manifest(3, json.loads(text)["files"], schema="mlcluster.checkpoint/2"),
}


@pytest.mark.parametrize("what", WRONG)
def test_prune_does_not_count_damaged_newest_manifest(tmp_path, verb, what):
    """The trainer rejects a checkpoint with a damaged manifest, and needs an older one to resume from."""
    made = [sealed(tmp_path / "c", step) for step in (1, 2, 3)]
    marker = pathlib.Path(made[2], "complete")
    marker.write_text(WRONG[what](marker.read_text()))
    assert verb("--prune", "1") == (0, [made[0]])
    assert sorted(os.listdir(tmp_path / "c")) == ["step-2", "step-3"]


def test_every_flipped_bit_of_manifest_is_detected(tmp_path):
    path = pathlib.Path(sealed(tmp_path, 12), "complete")
    (entry,) = checkpoints.find(Host(), str(tmp_path), "complete")
    good = path.read_bytes()
    assert checkpoints.has_its_content(Host(), entry, "complete")
    for place in range(len(good) - 1):
        bad = bytearray(good)
        bad[place] ^= 1
        path.write_bytes(bytes(bad))
        assert not checkpoints.has_its_content(Host(), entry, "complete"), bad


def test_manifest_without_own_checksum_is_accepted(tmp_path):
    path = pathlib.Path(sealed(tmp_path, 1), "complete")
    before = json.loads(path.read_text())
    del before["sha256"]
    path.write_text(json.dumps(before))
    (entry,) = checkpoints.find(Host(), str(tmp_path), "complete")
    assert checkpoints.has_its_content(Host(), entry, "complete", lists_files=True)


def test_json_marker_of_other_training_counts_as_complete(tmp_path, verb):
    made = [make(tmp_path / "c", step) for step in (1, 2)]
    for path in made:
        pathlib.Path(path, "complete").write_text('{"step": 1, "world_size": 8, "schema": "x"}')
    assert verb("--prune", "1") == (0, [made[0]])
