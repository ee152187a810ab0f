# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Atomic writes of files, and entries that are rejected in their place."""

from __future__ import annotations

import ast
import errno
import os
import stat
import subprocess
from pathlib import Path

import pytest
from mlcluster_data.files import durable
from mlcluster_data.files.durable import Directory

from tests.data.support.planted import PLANTED, SOMEBODY, plant

PROGRAMS = Path(durable.__file__).parents[1]
# Functions that make, replace or rename a file, or open one for writing.
WRITERS = {
    "os": {"open", "fdopen", "rename", "renames", "replace", "symlink", "mkfifo", "mknod", "truncate", "mkdir",
           "makedirs", "link", "chmod", "chown", "fchmod", "fchown"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "copymode", "chown"},
    "tempfile": {"mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile"},
    "torch": {"save"},
    "np": {"save", "savez", "savetxt", "memmap"},
    "io": {"open"},
}  # fmt: skip
METHODS = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "mkdir", "chmod", "tofile"}
READING = {"rb", "r", "rt", "r:"}
# Exceptions with their reasons.
ALLOWED = {
    ("checkpoints/directory.py", "os.rename"): "a torn checkpoint gets another name",
    ("files/journal.py", "os.fdopen"): "the descriptor is of durable",
    ("training/trainer.py", "torch.save"): "into memory",
}


def writes(source: str):
    """Yield the calls in a module that may make or replace a file, or open one for writing."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        owner, _dot, method = name.rpartition(".")
        if method in WRITERS.get(owner, ()) or (owner and method in METHODS):
            yield name
        elif method == "open" and owner not in ("Directory", "durable.Directory"):
            modes = [*node.args[(1 if owner in ("", "gzip", "tarfile") else 0) :][:1],
                     *(word.value for word in node.keywords if word.arg == "mode")]  # fmt: skip
            in_memory = any(word.arg == "fileobj" for word in node.keywords)
            known = [mode.value for mode in modes if isinstance(mode, ast.Constant)]
            if not in_memory and (len(known) != len(modes) or not set(known) <= READING):
                yield name


def test_only_durable_opens_files_for_writing():
    found = {}
    for path in sorted(PROGRAMS.rglob("*.py")):
        where = path.relative_to(PROGRAMS).as_posix()
        if where != "files/durable.py":
            found |= {(where, name): path for name in writes(path.read_text())}
    assert set(found) == set(ALLOWED)


@pytest.mark.parametrize("name", ["a", "a.tar", ".hidden", "a.0123456789abcdef.part"])
def test_unfinished_file_names_its_target(name):
    assert durable.unfinished(durable.aside_of(name)) == name
    assert durable.unfinished(name) is None
    assert durable.is_aside(durable.aside_of(name)) is True
    assert durable.is_aside(name) is durable.is_aside(f"{durable.aside_of(name)}x") is False


def test_unfinished_file_of_earlier_version_is_known():
    assert durable.unfinished(".a.0123456789abcdef.part") == "a"
    assert durable.is_aside(".a.0123456789abcdef.part") and durable.is_aside(".a-0123456789abcdef.part")
    for name in (".a.0123456789abcde.part", ".a.0123456789abcdefg.part", ".a.0123456789abcdef", "a.part"):
        assert durable.unfinished(name) is None and not durable.is_aside(name)


@pytest.mark.parametrize("size", [0, 3, durable.CHUNK, durable.CHUNK + 1])
def test_copy_has_the_sum_of_its_source(here, tmp_path, size):
    (tmp_path / "source").write_bytes(b"x" * size)
    with here.new("copy") as file:
        found = durable.copy(tmp_path / "source", file)
    assert found == here.digest("copy") == durable.digest(tmp_path / "source")
    assert found.size == size


def test_written_file_is_synced_before_its_name(here, synced):
    """A buffered rest would be on no disk after a power failure."""
    here.write("file", b"content")
    (unfinished, size), directory = synced
    assert (durable.unfinished(Path(unfinished).name), size) == ("file", 7)
    assert directory == (str(here.path), ["file"])


def test_file_that_may_be_lost_is_not_synced(here, synced):
    with here.making("file", sync=False) as file:
        file.write(b"content")
    assert synced == [] and here.read("file") == b"content"


def test_new_file_is_synced_unless_it_may_be_lost(here, synced):
    with here.new("file") as file:
        file.write(b"content")
    with here.new("may be lost", sync=False) as file:
        file.write(b"content")
    assert synced == [(f"{here.path}/file", 7)]


def test_each_new_directory_is_synced_where_it_is_named(here, synced):
    for _twice in range(2):
        here.below("a", "b", make=True).close()
        durable.make_directory(here.path / "c" / "d")
    assert synced == [
        (str(here.path), ["a"]), (f"{here.path}/a", ["b"]),
        (str(here.path), ["a", "c"]), (f"{here.path}/c", ["d"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    ["open('x', 'w')", "open('x', mode)", "open('x', mode='ab')", "Path('x').open('wb')", "p.write_text('')",
     "os.open('x', os.O_WRONLY)", "os.replace('a', 'b')", "tempfile.mkstemp()", "shutil.move('a', 'b')",
     "tarfile.open('x', 'w')", "gzip.open('x', 'wb')", "p.mkdir()", "np.save('x', y)"],
)  # fmt: skip
def test_rule_notices_write(line):
    assert list(writes(line))


@pytest.mark.parametrize("line", ["open('x')", "open('x', 'rb')", "gzip.open('x', 'rb')", "tarfile.open('x', 'r:')"])
def test_rule_lets_reading_pass(line):
    assert not list(writes(line))


@pytest.fixture
def victim(tmp_path):
    """Return a file outside of the directory, which the data programs must not change."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"precious")
    return outside / "file"


@pytest.fixture
def here(tmp_path):
    (tmp_path / "here").mkdir()
    with Directory.open(tmp_path / "here") as opened:
        yield opened


@pytest.mark.parametrize("what", PLANTED)
def test_file_replaces_entry_without_following_links(here, victim, what):
    plant(here.path / "file", what, victim)
    if what == "directory":
        with pytest.raises(IsADirectoryError):
            here.write("file", b"ours")
    else:
        here.write("file", b"ours")
        assert here.is_plain("file") and here.read("file") == b"ours"
        assert (here.path / "file").stat().st_uid == os.geteuid()
    assert victim.read_bytes() == b"precious" and not (victim.parent / "absent").exists()
    assert [path.name for path in here.path.iterdir()] == ["file"]


@pytest.mark.parametrize("what", PLANTED)
def test_new_file_does_not_replace_entry(here, victim, what):
    plant(here.path / "file", what, victim)
    before = (here.path / "file").lstat().st_ino
    with pytest.raises(FileExistsError), here.new("file") as file:
        file.write(b"ours")
    assert (here.path / "file").lstat().st_ino == before and victim.read_bytes() == b"precious"


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("method", ["lock_file", "appending", "reading"])
def test_planted_entry_is_not_opened(here, victim, what, method):
    plant(here.path / "file", what, victim)
    before = victim.stat()
    if (what, method) == ("other owner", "reading"):
        assert here.read("file") == b"theirs"
        return
    with pytest.raises(OSError, match=f"{here.path}/file") as caught:
        getattr(here, method)("file")
    wanted = {"link": "is a symbolic link", "dangling link": "is a symbolic link", "other owner": "belongs to another"}
    assert wanted.get(what, "") in durable.reason(caught.value)
    assert victim.read_bytes() == b"precious" and victim.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_directory_owner_and_root_may_own_lock(here):
    os.chown(here.path, SOMEBODY, SOMEBODY)
    plant(here.path / "file", "other owner", here.path)
    os.close(here.lock_file("file"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_file_and_directory_of_root_are_used_by_users(here, monkeypatch):
    here.write("file", b"root's")
    (here.path / "own").mkdir()
    os.chown(here.path / "own", SOMEBODY, SOMEBODY)
    monkeypatch.setattr(durable.os, "geteuid", lambda: SOMEBODY)
    durable.own_directory(here.path / "own")
    os.chown(here.path, SOMEBODY + 1, SOMEBODY + 1)
    os.close(here.lock_file("file"))
    with pytest.raises(OSError, match="belongs to another user"):
        durable.own_directory(here.path / "own")


def test_log_of_several_openings_is_continued(here):
    for text in (b"one ", b"two ", b"three"):
        descriptor = here.appending("log")
        os.write(descriptor, text)
        os.close(descriptor)
    assert here.read("log") == b"one two three"


def test_file_with_hard_link_is_not_appended_to(here, victim):
    os.link(victim, here.path / "log")
    with pytest.raises(OSError, match="has a second name"):
        here.appending("log")


def test_lock_and_log_are_made_and_found_again(here):
    for method in ("lock_file", "appending"):
        for _time in range(2):
            descriptor = getattr(here, method)(method)
            assert stat.S_ISREG(os.fstat(descriptor).st_mode)
            os.close(descriptor)
    descriptor = here.appending("appending")
    os.write(descriptor, b"b")
    os.close(descriptor)
    assert here.read("appending") == b"b"


def test_missing_directory_is_made_only_on_request(here):
    with pytest.raises(FileNotFoundError, match=f"{here.path}/sub"):
        here.below("sub")
    assert os.listdir(here.path) == []
    with here.below("sub", "deep", make=True) as made:
        assert made.path == here.path / "sub" / "deep"
        made.write("file", b"ours")
    assert (here.path / "sub" / "deep" / "file").read_bytes() == b"ours"


def test_only_plain_file_is_plain(here, victim):
    here.write("file", b"")
    (here.path / "link").symlink_to(victim)
    (here.path / "directory").mkdir()
    names = ("file", "link", "directory", "absent")
    assert [here.is_plain(name) for name in names] == [True, False, False, False]


def test_nothing_stays_open(here, victim):
    """A process may open 1024 files, and a data set has more folders than that."""
    (here.path / "link").symlink_to(victim)
    os.mkfifo(here.path / "pipe")
    os.link(victim, here.path / "second name")
    before = set(os.listdir("/proc/self/fd"))
    with here.below("a", "b", make=True), here.private(".x-"):
        pass
    here.write("file", b"x")
    here.digest("file")
    durable.make_directory(here.path / "c" / "d")
    durable.remove_tree(here.path / "c")
    for method in ("lock_file", "appending", "reading"):
        for name in ("link", "pipe", "a"):
            with pytest.raises(OSError, match=name):
                getattr(here, method)(name)
    with pytest.raises(OSError, match="second name"):
        here.appending("second name")
    if not os.geteuid():
        plant(here.path / "theirs", "other owner", victim)
        for method in ("lock_file", "appending"):
            with pytest.raises(OSError, match="belongs to another"):
                getattr(here, method)("theirs")
    assert set(os.listdir("/proc/self/fd")) <= before


def test_link_is_rejected_as_subdirectory(here, victim):
    (here.path / "sub").symlink_to(victim.parent)
    for make in (False, True):
        with pytest.raises(OSError, match=f"{here.path}/sub") as caught:
            here.below("sub", make=make)
        assert caught.value.errno == errno.ELOOP
        with pytest.raises(OSError, match=f"{here.path}/sub"):
            here.below("sub", "deep", make=make)
    assert list(victim.parent.iterdir()) == [victim]


def test_file_is_written_to_opened_directory(here, victim):
    """Another directory is in its place after it was opened."""
    moved = here.path.with_name("moved")
    here.path.rename(moved)
    here.path.symlink_to(victim.parent)
    here.write("file", b"ours")
    assert (moved / "file").read_bytes() == b"ours" and victim.read_bytes() == b"precious"


def test_failed_write_keeps_old_file(here, monkeypatch):
    here.write("file", b"before")

    def full(*names, **handles):
        raise OSError(errno.ENOSPC, "No space left")

    for name in ("replace", "fchmod", "fsync"):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            patch.setattr(durable.os, name, full)
            here.write("file", b"after")
        assert os.listdir(here.path) == ["file"] and here.read("file") == b"before"
    with pytest.raises(ValueError, match="of the writer"), here.making("file") as file:
        file.write(b"half")
        raise ValueError("of the writer")
    assert os.listdir(here.path) == ["file"] and here.read("file") == b"before"


def test_partial_file_is_private_and_has_random_name(here):
    names = set()
    for _time in range(3):
        with here.making("file") as file:
            (name,) = set(os.listdir(here.path)) - {"file"}
            names.add(name)
            assert (here.path / name).stat().st_mode & 0o777 == 0o600
            file.write(b"x")
    assert len(names) == 3 and all(name.startswith(".file.") and name.endswith(".part") for name in names)


@pytest.mark.parametrize("name", ["n" * 255, "\u00e9" * 127, "x"])
def test_temporary_names_fit_length_limit(here, name):
    here.write(name, b"x")
    assert os.listdir(here.path) == [name]
    assert len(os.fsencode(durable.aside_of(name))) == min(len(os.fsencode(name)) + 23, 255)


def test_mode_is_requested_one_without_umask(here, monkeypatch):
    before = os.umask(0o027)
    try:
        here.write("plain", b"")
        with here.making("given", 0o4604):
            pass
        os.umask(0)
        here.write("open", b"")
        with monkeypatch.context() as patch:
            patch.setattr(durable, "open", lambda *_given, **_named: os.stat("/absent"), raising=False)
            here.write("unknown", b"")
        for method in ("lock_file", "appending"):
            os.close(getattr(here, method)(method))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in here.path.iterdir()}
    assert modes == {
        "plain": 0o640, "given": 0o604, "open": 0o644, "unknown": 0o644, "lock_file": 0o644, "appending": 0o644,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [("../x", "leads out"), ("a/../b", "leads out"), ("/etc/x", "leads out"), ("", "empty part"), ("a//b", "empty"),
     ("a/", "empty"), ("./a", "empty"), ("a/./b", "empty"), ("n" * 256, "256 bytes"), ("a/" + "\u00e9" * 128, "256"),
     ("a\0b", "null byte")],
)  # fmt: skip
def test_invalid_file_names_are_rejected(name, message):
    with pytest.raises(ValueError, match=message):
        durable.parts_of(name)


def test_valid_file_names_are_accepted():
    assert durable.parts_of("a/..b/ c") == ("a", "..b", " c") and durable.parts_of("n" * 255) == ("n" * 255,)


def test_private_directory_is_accepted(tmp_path):
    durable.own_directory(tmp_path / "a" / "own")
    assert (tmp_path / "a" / "own").stat().st_mode & 0o777 == 0o700
    durable.own_directory(tmp_path / "a" / "own")
    (tmp_path / "a" / "own").chmod(0o755)
    durable.own_directory(tmp_path / "a" / "own")


@pytest.mark.parametrize(
    ("what", "message"),
    [("link", "is a symbolic link"), ("open", "is not for this user alone"), ("theirs", "is not for this user alone"),
     ("above", "belongs to another user"), ("file", "Not a directory")],
)  # fmt: skip
def test_directory_of_others_is_rejected(tmp_path, victim, what, message):
    if os.geteuid() and what in ("theirs", "above"):
        pytest.skip("only root gives files away")
    place = tmp_path / "a" / "own"
    place.parent.mkdir()
    if what == "link":
        place.symlink_to(victim.parent)
    elif what == "file":
        place.write_bytes(b"")
    else:
        place.mkdir()
    if what == "open":
        place.chmod(0o777)
    elif what in ("theirs", "above"):
        os.chown(place if what == "theirs" else place.parent, SOMEBODY, SOMEBODY)
    with pytest.raises(OSError, match=message):
        durable.own_directory(place)


def test_directories_are_made_once(tmp_path):
    durable.make_directory(tmp_path / "a" / "b" / "c")
    durable.make_directory(tmp_path / "a" / "b" / "c")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dangling").symlink_to(tmp_path / "absent")
    for path, kind in (("file", FileExistsError), ("file/x", NotADirectoryError), ("dangling", FileExistsError),
                       ("dangling/x", FileExistsError)):  # fmt: skip
        with pytest.raises(kind):
            durable.make_directory(tmp_path / path)
    with pytest.raises(FileNotFoundError):
        durable.make_directory(Path("/proc/none"))


def test_private_directories_have_random_names(here):
    with here.private(".x-") as first, here.private(".x-") as second:
        assert first.path != second.path and first.path.name.startswith(".x-")
        assert first.path.stat().st_mode & 0o777 == 0o700


def test_tree_is_removed_without_following_links(tmp_path, victim):
    (tmp_path / "tree" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "file").write_bytes(b"ours")
    (tmp_path / "tree" / "link").symlink_to(victim.parent)
    os.mkfifo(tmp_path / "tree" / "pipe")
    durable.remove_tree(tmp_path / "tree")
    durable.remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists() and victim.read_bytes() == b"precious"


@pytest.mark.parametrize("mounted", ["tree", "tree/deep"])
def test_removed_tree_keeps_what_is_mounted_in_it(tmp_path, victim, mounted):
    """A bind mount of the same file system, which has the device number of its place."""
    (tmp_path / mounted).mkdir(parents=True)
    subprocess.run(["mount", "--bind", victim.parent, tmp_path / mounted], check=True)
    try:
        with pytest.raises(OSError, match="busy"):
            durable.remove_tree(tmp_path / "tree")
        durable.discard_tree(tmp_path / "tree")
        assert victim.read_bytes() == b"precious"
    finally:
        subprocess.run(["umount", tmp_path / mounted], check=True)
    durable.discard_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists() and victim.read_bytes() == b"precious"


@pytest.mark.parametrize("what", [what for what in PLANTED if what != "directory"])
def test_removal_of_entry_that_is_not_directory_fails(tmp_path, victim, what):
    plant(tmp_path / "tree", what, victim)
    with pytest.raises(OSError, match="tree"):
        durable.remove_tree(tmp_path / "tree")
    assert os.path.lexists(tmp_path / "tree") and victim.read_bytes() == b"precious"


def test_too_deep_tree_is_error(tmp_path, monkeypatch):
    monkeypatch.setattr(durable.Directory.remove_tree, "__defaults__", (3,))
    (tmp_path / "1" / "2" / "3" / "4").mkdir(parents=True)
    with pytest.raises(OSError, match="too many directories in each other"):
        durable.remove_tree(tmp_path / "1")
    durable.remove_tree(tmp_path / "1" / "2")


def test_files_below_folder_are_complete(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two").write_text("x")
    (tmp_path / "a").write_text("x")
    (tmp_path / "c").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    assert [str(path.relative_to(tmp_path)) for path in durable.files_below(tmp_path)] == ["a", "b/two", "c"]


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("a", errno.ELOOP, True),
        ("b", errno.ELOOP, True),
        ("self", errno.ELOOP, True),
        ("self", errno.EIO, False),
        # As of an automounter whose server does not answer.
        ("file", errno.ELOOP, False),
        ("link", errno.ELOOP, False),
        ("none", errno.ELOOP, False),
        # The parent of a folder that is a link is elsewhere.
        ("up", errno.ELOOP, False),
        ("on", errno.ELOOP, False),
        ("none", errno.ENOENT, True),
        ("none", errno.ENOTDIR, True),
        ("none", errno.EIO, False),
        ("none", errno.EACCES, False),
    ],
)
def test_path_is_missing_only_where_that_is_proved(tmp_path, name, number, expected):
    (tmp_path / "file").write_bytes(b"")
    links = {"a": "b", "b": tmp_path / "a", "self": "self", "link": "file", "up": "../up", "on": "on/x"}
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    assert durable.is_missing(OSError(number, os.strerror(number)), tmp_path / name) is expected


def test_looks_at_path_follow_links_as_their_names_state(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "directory").mkdir()
    for link, target in {"link": "file", "dangling": "none", "loop": "loop"}.items():
        (tmp_path / link).symlink_to(target)
    names = ("file", "directory", "link", "dangling", "loop", "none")
    paths = [tmp_path / name for name in names]
    assert [durable.exists(path) for path in paths] == [True, True, True, False, False, False]
    assert [durable.is_plain(path) for path in paths] == [True, False, True, False, False, False]
    states = [durable.state(path) for path in paths]
    assert [state and stat.S_IFMT(state.st_mode) for state in states] == [
        stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFLNK, stat.S_IFLNK, None,
    ]  # fmt: skip


@pytest.mark.parametrize("look", [durable.exists, durable.is_plain, durable.state])
def test_path_that_cannot_be_looked_up_is_error(tmp_path, monkeypatch, look):
    def away(path, **_named):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(durable.os, "stat", away)
    with pytest.raises(OSError, match="Input/output error"):
        look(tmp_path / "file")


HIDES = {
    "link to a folder": (lambda place: place.symlink_to(place.parent), "is a link to a folder, which is not followed"),
    "link to nowhere": (lambda place: place.symlink_to("absent"), "is a link that leads nowhere"),
}


@pytest.mark.parametrize("what", HIDES)
def test_link_behind_which_files_would_be_missed_is_rejected(tmp_path, what):
    make, words = HIDES[what]
    (tmp_path / "folder").mkdir()
    make(tmp_path / "folder" / "link")
    with pytest.raises(OSError, match=words) as caught:
        durable.files_below(tmp_path)
    assert caught.value.filename == str(tmp_path / "folder" / "link")


def test_file_that_goes_meanwhile_is_not_called_link(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "walk", lambda *_given, **_named: [(str(tmp_path), [], ["gone"])])
    with pytest.raises(FileNotFoundError, match="No such file") as caught:
        durable.files_below(tmp_path)
    assert caught.value.filename == str(tmp_path / "gone")


def test_folder_that_cannot_be_read_is_rejected(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    real = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        durable.files_below(tmp_path)


def test_moved_file_replaces_none(tmp_path):
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    (tmp_path / "from" / "file").write_text("new")
    with Directory.open(tmp_path / "from") as source, Directory.open(tmp_path / "to") as target:
        source.move("file", "file", target)
        assert (tmp_path / "to" / "file").read_text() == "new" and not (tmp_path / "from" / "file").exists()
        source.write("file", b"newer")
        with pytest.raises(FileExistsError):
            source.move("file", "file", target)
    assert (tmp_path / "to" / "file").read_text() == "new" and (tmp_path / "from" / "file").exists()


def test_renamed_file_replaces_that_of_its_new_name(here):
    with here.below("other", make=True) as other:
        for content in (b"first", b"second"):
            here.write("from", content)
            here.rename("from", "to")
            assert here.read("to") == content
            here.rename("to", "to", other)
            assert other.read("to") == content
    assert os.listdir(here.path) == ["other"]


def test_link_is_moved_and_named_itself(here, victim):
    (here.path / "link").symlink_to(victim)
    here.link("link", "second")
    with here.below("other", make=True) as other:
        here.move("link", "link", other)
    assert (here.path / "second").is_symlink() and (here.path / "other" / "link").is_symlink()
    assert victim.stat().st_nlink == 1


def test_second_name_replaces_no_file(here):
    here.write("file", b"ours")
    here.link("file", "name")
    assert here.read("name") == b"ours" and here.state("file").st_nlink == 2
    here.write("taken", b"theirs")
    with pytest.raises(FileExistsError):
        here.link("file", "taken")
    assert here.read("taken") == b"theirs"


def test_signature_differs_for_files_of_one_size_and_time(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"before")
    state = file.stat()
    assert durable.Signature.of(file.stat()) == durable.Signature.of(state)
    durable.write(file, b"after!")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert durable.Signature.of(file.stat()) != durable.Signature.of(state)


def test_file_is_read_in_pieces_of_one_size(tmp_path):
    for content, pieces in ((b"abcdefgh", [b"abc", b"def", b"gh"]), (b"abc", [b"abc"]), (b"", [])):
        (tmp_path / "file").write_bytes(content)
        assert list(durable.pieces(tmp_path / "file", 3)) == pieces
        assert durable.read(tmp_path / "file") == content


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/kept/a"), "/kept/a: No space left on device"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError("in a few words"), "in a few words"),
        (ValueError("bad value"), "bad value"),
        (ValueError(), "ValueError"),
    ],
)
def test_reason_names_path_and_error_without_number(error, words):
    assert durable.reason(error) == words


def test_earlier_file_gets_next_free_name(tmp_path):
    for number in (1, 2):
        (tmp_path / "file").write_text(str(number))
        assert durable.keep_earlier(tmp_path / "file") == f"file.earlier-{number}"
        durable.write(tmp_path / "file", b"new")
    names = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert names == {"file": "new", "file.earlier-1": "1", "file.earlier-2": "2"}
