# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real host, on real files, processes and locks below a temporary directory."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import grp
import os
import pwd
import struct
import subprocess
import sys

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import host as host_module
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, Host, NodeError

HOST = Host()


def test_command_runs_without_shell_in_c_locale(monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    shown = HOST.run(["sh", "-c", 'echo "$LC_ALL $LANGUAGE $PATH $1"', "sh", "$(id); *"])
    assert shown.stdout == f"C C {host_module.SYSTEM_PATH} $(id); *\n"


def test_output_that_is_no_utf_8_is_kept_readable():
    assert HOST.run(["printf", r"a\377b"]).stdout == "a�b"


def test_standard_input_is_what_was_given_or_empty():
    assert HOST.run(["cat"], stdin="hello").stdout == "hello"
    assert HOST.run(["cat"]).stdout == ""


def test_error_of_failing_command_has_its_output():
    with pytest.raises(CommandError) as failed:
        HOST.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (failed.value.rc, failed.value.stdout, failed.value.stderr) == (3, "out\n", "err\n")
    assert str(failed.value) == "sh -c echo out; echo err >&2; exit 3: failed with status 3: err"
    assert HOST.run(["false"], check=False).rc == 1


def test_failure_without_standard_error_quotes_output():
    with pytest.raises(CommandError, match=r"failed with status 1: only out$"):
        HOST.run(["sh", "-c", "echo only out; exit 1"])


def test_missing_program_is_one_sentence():
    with pytest.raises(CommandError) as failed:
        HOST.run(["no-such-program-here", "--x"])
    assert str(failed.value) == "no-such-program-here --x: the program is not installed"
    assert failed.value.rc is None


def test_program_that_cannot_be_started(tmp_path):
    program = tmp_path / "program"
    program.write_text("no executable")
    with pytest.raises(CommandError, match="could not be started: Permission denied"):
        HOST.run([str(program)])


def test_which_looks_on_system_path_only(monkeypatch, tmp_path):
    program = tmp_path / "mytool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert HOST.which("mytool") is None
    assert HOST.which("sh") in ("/usr/bin/sh", "/bin/sh")


def test_reading_what_is_missing(tmp_path):
    assert HOST.read_text(str(tmp_path / "none")) is None
    assert HOST.read_text(str(tmp_path)) is None
    assert HOST.listdir(str(tmp_path / "none")) == []
    assert HOST.sha256(str(tmp_path / "none")) is None
    assert HOST.stat(str(tmp_path / "none")) is None
    assert HOST.filesystem_size(str(tmp_path / "none")) is None


@pytest.mark.parametrize(("text", "parsed"), [('{"a": 1}', {"a": 1}), ("", None), ("{", None), ("null", None)])
def test_reading_json(tmp_path, text, parsed):
    (tmp_path / "file").write_text(text)
    assert HOST.read_json(str(tmp_path / "file")) == parsed
    assert HOST.read_json(str(tmp_path / "none")) is None


def test_endless_files_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path)):
        assert (HOST.read_text(path), HOST.sha256(path)) == (None, None)


def test_file_is_read_up_to_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(host_module, "READ_LIMIT", 3)
    (tmp_path / "long").write_text("four")
    assert HOST.read_text(str(tmp_path / "long")) == "fou"


def test_small_plain_file_of_user_is_read(tmp_path):
    path, uid = tmp_path / "file", os.geteuid()
    assert Host().read_owned(str(path), uid, 10) is None
    path.write_text("0123456789")
    assert Host().read_owned(str(path), uid, 10) == "0123456789"
    assert Host().read_owned(str(path), uid, 9) is None
    assert Host().read_owned(str(path), uid + 1, 10) is None
    assert Host().read_owned(str(path), None, 10) is None
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    assert [Host().read_owned(str(tmp_path / name), uid, 10) for name in ("link", "pipe", ".")] == [None] * 3


def test_broken_bytes_are_replaced(tmp_path):
    (tmp_path / "file").write_bytes(b"a\xffb")
    assert HOST.read_text(str(tmp_path / "file")) == "a�b"


@pytest.mark.parametrize("number", [errno.EIO, errno.ELOOP, errno.EACCES, errno.ESTALE])
def test_path_that_an_error_hides_may_exist(monkeypatch, number):
    """Its absence would mean: not configured, no earlier record, nothing to keep."""

    def away(path, **_given):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "stat", away)
    assert HOST.exists("/fsx/file")


def test_names_links_and_sums(tmp_path):
    (tmp_path / "b").write_text("x")
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "c").symlink_to(tmp_path / "gone")
    assert HOST.listdir(str(tmp_path)) == ["a", "b", "c"]
    assert HOST.realpath(str(tmp_path / "a")) == str(tmp_path / "b")
    assert (HOST.exists(str(tmp_path / "a")), HOST.exists(str(tmp_path / "c"))) == (True, False)
    assert not HOST.exists(str(tmp_path / "b" / "in a file")) and not HOST.exists("a\0b")
    assert HOST.sha256(str(tmp_path / "a")) == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


def test_stat_is_of_link_itself(tmp_path):
    (tmp_path / "directory").mkdir(mode=0o700)
    (tmp_path / "directory").chmod(0o1777)
    (tmp_path / "link").symlink_to("directory")
    seen = HOST.stat(str(tmp_path / "directory"))
    assert seen == {"mode": "1777", "uid": os.getuid(), "gid": os.getgid(), "is_dir": True, "is_link": False}
    link = HOST.stat(str(tmp_path / "link"))
    assert (link["is_dir"], link["is_link"]) == (False, True)


def test_size_of_filesystem(tmp_path):
    info = os.statvfs(tmp_path)
    assert HOST.filesystem_size(str(tmp_path)) == info.f_frsize * info.f_blocks


def test_file_or_nothing_in_place_of_device_proves_nothing(tmp_path):
    (tmp_path / "nvme1n1").write_text("")
    assert HOST.claimed(str(tmp_path / "nvme1n1"), "0:0") is None
    assert HOST.claimed(str(tmp_path / "none"), "259:1") is None
    assert HOST.claimed("/dev/null", "1:3") is None


class OpenedDevice:
    """os.open and os.fstat of a block device 259:1; error: the error of open."""

    def __init__(self, monkeypatch, error=0):
        self.error, self.closed = error, []
        monkeypatch.setattr(host_module.os, "open", self.open)
        monkeypatch.setattr(host_module.os, "close", self.closed.append)
        monkeypatch.setattr(host_module.os, "fstat", lambda handle: self)
        self.st_mode, self.st_rdev = 0o060660, os.makedev(259, 1)

    def open(self, path, flags):
        assert flags & os.O_EXCL and not flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        return 77


@pytest.mark.parametrize(
    ("error", "number", "expected"),
    [
        (0, "259:1", False),
        (0, "259:2", None),
        (0, "", None),
        (errno.EBUSY, "259:1", True),
        (errno.ENXIO, "259:1", None),
    ],
)
def test_result_of_exclusive_open(monkeypatch, error, number, expected):
    device = OpenedDevice(monkeypatch, error)
    claimed = HOST.claimed("/dev/nvme1n1", number)
    closed = list(device.closed)
    monkeypatch.undo()
    assert claimed is expected
    assert closed == ([] if error else [77])


def a_disk(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(b"x" * 8)
    return str(path)


def test_log_page_is_asked_for_as_nvme_wants_it(monkeypatch, tmp_path):
    asked = []

    def ioctl(handle, number, request):
        fields = struct.unpack("=BBHIIIQQIIIIIIIIII", request)
        asked.append((number, len(request), fields[0], fields[3], fields[9], fields[10]))
        ctypes.memmove(fields[7], b"page", 4)
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    with Host().opened_device(a_disk(tmp_path)) as reader:
        assert reader.nvme_log(0xD0, 512) == b"page" + bytes(508)
    # Opcode, namespace, bytes, and the page with the number of dwords less one above it.
    assert asked == [(0xC0484E41, 72, 2, 0xFFFFFFFF, 512, 127 << 16 | 0xD0)]


@pytest.mark.parametrize("answer", [0x4109, OSError(errno.ENOTTY, "no ioctl")])
def test_disk_without_page_gives_none(monkeypatch, tmp_path, answer):
    def ioctl(*_args):
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    with Host().opened_device(a_disk(tmp_path)) as reader:
        assert reader.nvme_log(0xD0, 512) is None


@pytest.mark.parametrize(("around", "number", "expected"), [(5, os.makedev(259, 300), "259:300"), (66, 66, None)])
def test_backing_device_of_loop_device(monkeypatch, around, number, expected):
    def ioctl(_handle, request, status):
        assert (request, len(status)) == (0x4C05, 232)
        struct.pack_into("=QQQ", status, 0, around, 12, number)
        return 0

    real = os.open
    monkeypatch.setattr(os, "open", lambda path, flags: real("/dev/null" if path == "/dev/loop7" else path, flags))
    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    assert Host().loop_backing("loop7") == expected


@pytest.mark.parametrize("name", ["no-such-loop", "null"])
def test_loop_device_that_does_not_answer_shows_nothing(name):
    assert Host().loop_backing(name) is None


def test_accounts_by_name_and_number():
    root = pwd.getpwnam("root")
    assert (HOST.uid("root"), HOST.gid("root"), HOST.primary_gid("root")) == (
        0,
        grp.getgrnam("root").gr_gid,
        root.pw_gid,
    )
    assert (HOST.uid("4711"), HOST.gid("4712"), HOST.primary_gid("0")) == (4711, 4712, root.pw_gid)


@pytest.mark.parametrize("name", ["no-such-account", "", "²", "a\x00b", "-1", "4294967295", "9" * 20])
def test_accounts_that_are_missing(name):
    assert (HOST.uid(name), HOST.gid(name), HOST.primary_gid(name)) == (None, None, None)


def test_file_is_written_with_its_mode_and_its_directory(tmp_path):
    path = tmp_path / "a" / "b" / "record.json"
    old = os.umask(0o077)
    try:
        HOST.write_text(str(path), "text\n", 0o644)
    finally:
        os.umask(old)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("text\n", 0o644)
    HOST.write_text(str(path), "other\n", 0o600)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("other\n", 0o600)
    assert os.listdir(path.parent) == ["record.json"]


@pytest.mark.parametrize("step", ["replace", "fsync", "fchmod"])
def test_write_that_fails_leaves_old_file_and_nothing_else(monkeypatch, tmp_path, step):
    path = tmp_path / "record.json"
    path.write_text("old")

    def fail(*_args, **_more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(host_module.os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        HOST.write_text(str(path), "new")
    monkeypatch.undo()
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["record.json"])


def test_write_is_on_disk_before_name_and_name_before_return(monkeypatch, tmp_path):
    order = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            host_module.os, name, lambda *args, n=name, r=real, **more: order.append(n) or r(*args, **more)
        )
    HOST.write_text(str(tmp_path / "file"), "text")
    assert order == ["fsync", "replace", "fsync"]


def test_write_replaces_link_and_not_its_target(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "record").symlink_to("victim")
    HOST.write_text(str(tmp_path / "record"), "new")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "record").is_symlink()


def test_removing_twice_is_fine(tmp_path):
    (tmp_path / "intent").write_text("")
    HOST.remove(str(tmp_path / "intent"))
    HOST.remove(str(tmp_path / "intent"))
    assert os.listdir(tmp_path) == []


def test_renaming(tmp_path):
    (tmp_path / "a").write_text("a")
    HOST.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert os.listdir(tmp_path) == ["b"]


def test_mount_point_comes_with_its_parents(tmp_path):
    for _twice in range(2):
        HOST.make_mount_point(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_directory_gets_owner_and_mode_with_any_umask(tmp_path):
    path = tmp_path / "scratch"
    old = os.umask(0o077)
    try:
        for mode in (0o1777, 0o2775, 0o700):
            HOST.make_directory(str(path), os.getuid(), os.getgid(), mode)
            assert path.stat().st_mode & 0o7777 == mode
    finally:
        os.umask(old)


def test_directory_is_never_made_through_link(tmp_path):
    (tmp_path / "etc").mkdir(mode=0o700)
    (tmp_path / "scratch").symlink_to("etc")
    with pytest.raises(OSError) as refused:
        HOST.make_directory(str(tmp_path / "scratch"), os.getuid(), os.getgid(), 0o1777)
    assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)
    assert (tmp_path / "etc").stat().st_mode & 0o7777 == 0o700


def test_link_among_parents_is_refused(tmp_path):
    (tmp_path / "etc").mkdir(mode=0o700)
    (tmp_path / "alice").symlink_to("etc")
    with pytest.raises(OSError) as refused:
        HOST.make_directory(str(tmp_path / "alice" / "cache"), os.getuid(), os.getgid(), 0o755)
    assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)
    assert os.listdir(tmp_path / "etc") == []


def test_file_is_no_directory(tmp_path):
    (tmp_path / "scratch").write_text("")
    with pytest.raises(NotADirectoryError):
        HOST.make_directory(str(tmp_path / "scratch"), os.getuid(), os.getgid(), 0o755)


def test_parents_of_directory_are_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        HOST.make_directory(str(tmp_path / "a" / "b"), os.getuid(), os.getgid(), 0o755)


def test_probe_writes_reads_and_leaves_nothing(tmp_path):
    HOST.write_probe(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_probe_works_where_there_are_no_nameless_files(monkeypatch, tmp_path):
    real = os.open

    def refuse(path, flags, *args, **more):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *args, **more)

    monkeypatch.setattr(host_module.os, "open", refuse)
    HOST.write_probe(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_probe_fails_where_nothing_can_be_written(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        HOST.write_probe(str(tmp_path / "none"))


def test_probe_compares_what_it_reads(monkeypatch, tmp_path):
    monkeypatch.setattr(host_module.os, "fsync", lambda handle: os.ftruncate(handle, 4096))
    with pytest.raises(OSError, match="the data read back differ from the data written"):
        HOST.write_probe(str(tmp_path))


HOLDER = """
import fcntl, os, sys
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_lock_of_another_process_times_out_with_message(tmp_path):
    path = str(tmp_path / "run" / "storage.lock")
    os.makedirs(os.path.dirname(path))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        late = pytest.raises(NodeError, match=r"waited 0.3 seconds for .*storage.lock: another mlcluster run holds it")
        with late, HOST.locked(path, 0.3):
            raise AssertionError("the lock was given twice")
        holder.stdin.close()
        with HOST.locked(path, 30):
            assert not could_lock(path)
    finally:
        holder.kill()
        holder.wait()
    assert could_lock(path)


def could_lock(path):
    with open(path) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_lock_makes_its_directory_is_private_and_goes_with_error(tmp_path):
    path = tmp_path / "run" / "storage.lock"
    with pytest.raises(ZeroDivisionError), HOST.locked(str(path), 1):
        assert path.stat().st_mode & 0o777 == 0o600
        raise ZeroDivisionError
    assert could_lock(path)


def test_lock_file_is_never_link(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "storage.lock").symlink_to("victim")
    lock = HOST.locked(str(tmp_path / "storage.lock"), 1)
    with pytest.raises(NodeError, match="let nothing but a plain file have that name"), lock:
        raise AssertionError("the lock followed a link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives links away")
@pytest.mark.parametrize("use", ["locked", "write_text", "remove", "make_mount_point"])
def test_nothing_is_done_behind_directory_link_of_another(tmp_path, use):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("precious")
    (tmp_path / "run").symlink_to("theirs")
    os.chown(tmp_path / "run", 4242, 4242, follow_symlinks=False)
    path = str(tmp_path / "run" / "file")
    given = {"locked": (path, 1), "write_text": (path, "new"), "make_mount_point": (f"{path}.d",)}.get(use, (path,))
    with pytest.raises((OSError, NodeError), match="link of another user"), getattr(HOST, use)(*given):
        pass
    assert [(entry.name, entry.read_text()) for entry in (tmp_path / "theirs").iterdir()] == [("file", "precious")]


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_lock_is_plain_file(tmp_path, kind):
    path = tmp_path / "storage.lock"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(NodeError, match="let nothing but a plain file have that name"), HOST.locked(str(path), 1):
        raise AssertionError("the lock was held")


def test_lock_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "run").write_text("")
    lock = HOST.locked(str(tmp_path / "run" / "storage.lock"), 1)
    with pytest.raises(NodeError, match="run as a user who may write there"), lock:
        raise AssertionError("the lock was held")


def test_clocks():
    assert HOST.monotonic() <= HOST.monotonic()
    assert HOST.now()[10] == "T" and HOST.now().endswith("Z")


def test_opened_device_reads_where_it_is_asked(tmp_path):
    (tmp_path / "disk").write_bytes(b"a" * 4096 + b"b" * 4096)
    with HOST.opened_device(str(tmp_path / "disk")) as reader:
        assert (reader.size, reader.number) == (8192, "")
        assert reader.read(4095, 2) == b"ab"
        with pytest.raises(OSError, match="ends before its size"):
            reader.read(8000, 200)


def test_opened_device_reports_open_and_read_errors(tmp_path):
    with pytest.raises(FileNotFoundError), HOST.opened_device(str(tmp_path / "none")):
        pass
    # The start of a process's memory is never mapped: reading it is an I/O error.
    with pytest.raises(OSError), HOST.opened_device("/proc/self/mem") as reader:
        reader.read(0, 1)


@pytest.mark.parametrize(("exclusive", "flag"), [(True, os.O_EXCL), (False, 0)])
def test_opened_device_holds_it_alone_when_asked(monkeypatch, exclusive, flag):
    flags = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, given: flags.append(given) or real(path, given & ~os.O_EXCL))
    with HOST.opened_device("/dev/null", exclusive) as reader:
        assert reader.number == ""
    assert flags[0] & os.O_EXCL == flag
    assert not flags[0] & (os.O_RDWR | os.O_WRONLY)


def test_setting_of_kernel_can_be_read():
    """A read of 4 MiB at once is refused there with ENOMEM."""
    assert Host().read_text("/proc/sys/kernel/ostype") == "Linux\n"


def test_json_that_is_nested_too_deep_is_none(tmp_path):
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 200000)
    assert Host().read_json(str(deep)) is None


def test_started_program_has_these_variables_and_streams_alone(tmp_path):
    with open(tmp_path / "out", "wb") as out:
        process = Host().start(
            ["sh", "-c", 'cat; echo "$A"; env >&2; exit 3'], {"A": "b", "PATH": "/bin"}, -3, out, out
        )
        assert process.wait() == 3
    assert (tmp_path / "out").read_text().splitlines()[0] == "b"
    assert not {"HOME", "LC_ALL"} & {line.partition("=")[0] for line in (tmp_path / "out").read_text().splitlines()}


def test_program_that_cannot_be_started_is_named(tmp_path):
    with pytest.raises(CommandError, match="no-such: the program is not installed"):
        Host().start(["no-such"], {"PATH": "/bin"})
    (tmp_path / "plain").write_text("")
    with pytest.raises(CommandError, match="plain: could not be started: Permission denied"):
        Host().start([str(tmp_path / "plain")], {})


def test_program_is_looked_for_on_another_path(tmp_path):
    (tmp_path / "own").write_text("")
    (tmp_path / "own").chmod(0o755)
    assert Host().which("own") is None
    assert Host().which("own", str(tmp_path)) == str(tmp_path / "own")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_character_device_has_numbers_and_mode_with_any_umask(tmp_path):
    path = str(tmp_path / "channels" / "channel0")
    before = os.umask(0o077)
    try:
        HOST.make_character_device(path, 234, 0, 0o666)
    finally:
        os.umask(before)
    assert HOST.character_device(path) == (234, 0, 0o666)
    # Another one replaces it, and a plain file is not one.
    HOST.make_character_device(path, 235, 1, 0o600)
    assert HOST.character_device(path) == (235, 1, 0o600)
    assert os.listdir(tmp_path / "channels") == ["channel0"]
    (tmp_path / "plain").touch()
    assert HOST.character_device(str(tmp_path / "plain")) is HOST.character_device(str(tmp_path / "none")) is None


def test_addresses_of_name():
    assert HOST.addresses_of("127.0.0.3") == ["127.0.0.3"]
    assert HOST.addresses_of("no.such.name.invalid") == []


def test_removal_survives_power_failure(tmp_path, synced):
    (tmp_path / "file").write_text("x")
    HOST.remove(str(tmp_path / "file"))
    assert synced == [str(tmp_path)] and not (tmp_path / "file").exists()
    HOST.remove(str(tmp_path / "file"))
    HOST.remove(str(tmp_path / "absent" / "file"))


def test_identity_of_file_and_of_its_successor(tmp_path):
    path = tmp_path / "status"
    assert Host().identity(str(path)) is None
    path.write_text("0")
    before = Host().identity(str(path))
    assert before == Host().identity(str(path))
    (tmp_path / "new").write_text("0")
    (tmp_path / "new").rename(path)
    assert Host().identity(str(path)) != before
