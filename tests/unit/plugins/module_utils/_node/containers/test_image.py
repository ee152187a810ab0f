# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images named by digest: imported once, complete or not at all."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import tempfile
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.host import EnrootHost
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.image import (
    ImageRequest,
    ensure,
    file_name,
    forget,
    problems,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import (
    CommandError,
    CommandResult,
    NodeError,
)
from ansible_collections.mlcluster.aws.tests.unit.fakes.fake_squashfs import image

IMAGE = image(b"rest")
ONE, TWO = (f"sha256:{sign * 64}" for sign in "ab")


class ImageHost(EnrootHost):
    """This machine with simulated commands of Enroot and Docker."""

    def __init__(self, digest=ONE, version="4.1.2", content=IMAGE):
        self.digest, self.version, self.content, self.free = digest, version, content, 100 << 30
        self.ran = []
        self.silent = False

    def run(self, argv, timeout=120, check=True, stdin=None):
        self.ran.append(list(argv))
        if argv[:2] == ["enroot", "import"]:
            if self.content is None:
                raise CommandError(argv, 1, "", "[ERROR] no space left", "failed with status 1")
            Path(argv[3]).write_bytes(self.content)
            # One name in the log is one import.
            with open(Path(argv[3]).parent.parent / "log", "a", encoding="utf-8") as log:
                log.write("import\n")
            return CommandResult(0, "", "")
        if argv[0] == "stat":
            if self.silent:
                raise CommandError(argv, None, "", "", f"no answer within {timeout:g} seconds")
            return CommandResult(0, "directory\n", "")
        answers = {"version": self.version, "digest": self.digest, "{{.Id}}": self.digest, "{{.Size}}": "4096"}
        return CommandResult(0, next(text for word, text in answers.items() if word in argv) + "\n", "")

    def free_bytes(self, path):
        return self.free


def image_request(folder, source="docker://nvcr.io#nvidia/pytorch:25.10-py3", **options):
    return ImageRequest(source, str(folder), **options)


def test_second_import_has_nothing_to_do(tmp_path):
    host = ImageHost()
    done = ensure(host, image_request(tmp_path))
    assert done["actions"] == ["import", "link"]
    assert done["path"] == f"{tmp_path}/nvcr.io+nvidia+pytorch+25.10-py3-{'a' * 16}.sqsh"
    assert os.readlink(done["link"]) == os.path.basename(done["path"])
    assert Path(done["path"]).stat().st_mode & 0o777 == 0o644
    assert host.ran[-1][-1] == f"docker://nvcr.io#nvidia/pytorch:25.10-py3@{ONE}"
    assert ensure(host, image_request(tmp_path))["actions"] == []


def test_foreign_image_is_imported_again(tmp_path):
    tmp_path.chmod(0o1777)
    host = ImageHost()
    path, link = (Path(ensure(host, image_request(tmp_path, name="torch"))[key]) for key in ("path", "link"))
    evil = tmp_path / "evil"
    evil.write_bytes(IMAGE + b"evil")

    def of_another_user():
        path.write_bytes(evil.read_bytes())
        os.chown(path, 1001, 1001)

    def a_link():
        path.unlink()
        path.symlink_to(evil)

    def open_to_all():
        path.chmod(0o666)

    for harm in (of_another_user, a_link, open_to_all):
        harm()
        assert ensure(host, image_request(tmp_path, name="torch"))["actions"] == ["import"]
        assert path.read_bytes() == IMAGE and not path.is_symlink() and path.stat().st_uid == os.geteuid()
        assert evil.read_bytes() == IMAGE + b"evil"
    os.lchown(link, 1001, 1001)
    assert ensure(host, image_request(tmp_path, name="torch"))["actions"] == ["link"]
    assert link.lstat().st_uid == os.geteuid()


def test_directory_open_to_all_is_rejected(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(NodeError, match=r"any user may replace files in .*: set its mode to 0755, or to 1777"):
        ensure(ImageHost(), image_request(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_moved_tag_makes_new_file_and_keep_prunes_old(tmp_path):
    host = ImageHost()
    first = ensure(host, image_request(tmp_path, name="torch"))["path"]
    host.digest = TWO
    second = ensure(host, image_request(tmp_path, name="torch"))
    assert Path(first).exists()
    assert os.readlink(second["link"]) == os.path.basename(second["path"])
    assert ensure(host, image_request(tmp_path, name="torch", keep=1))["actions"] == []
    assert ensure(host, image_request(tmp_path, name="torch", keep=0))["pruned"] == [os.path.basename(first)]
    assert not Path(first).exists()
    assert Path(second["path"]).exists()


def test_version_that_was_used_last_stays(tmp_path):
    """Jobs still use it: a rollback makes an old file the current one."""
    host, made = ImageHost(), {}
    for sign in "abac":
        host.digest = f"sha256:{sign * 64}"
        answer = ensure(host, image_request(tmp_path, name="torch", keep=1))
        made[sign] = Path(answer["path"])
        # Each change comes a day after the one before it.
        for path in filter(Path.exists, made.values()):
            state = path.stat()
            os.utime(path, (state.st_atime - 86400, state.st_mtime - 86400))
    assert answer["pruned"] == [made["b"].name]
    assert [sign for sign, path in made.items() if path.exists()] == ["a", "c"]


def test_file_of_another_user_can_be_linked_without_its_time(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(os, "utime", refuse)
    assert ensure(ImageHost(), image_request(tmp_path))["actions"] == ["import", "link"]


def test_dry_run_writes_nothing(tmp_path):
    assert ensure(ImageHost(), image_request(tmp_path), dry=True)["actions"] == ["import", "link"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no space left"),
        (b"<html>", r"is not a complete squashfs image \(it has no squashfs header\)"),
        (b"", "is not a complete squashfs image"),
        (image(bytes(9000))[:5000], r"is not a complete squashfs image \(it has 5000 of 9110 bytes\)"),
    ],
)
def test_failed_import_leaves_nothing(tmp_path, content, words):
    with pytest.raises(NodeError, match=words):
        ensure(ImageHost(content=content), image_request(tmp_path, name="x"))
    assert {path.name for path in tmp_path.iterdir()} <= {f".x.{os.geteuid()}.lock", "log"}


@pytest.mark.parametrize("left", [b"\0\0", b"hsqs", image(bytes(9000))[:8192], b""])
def test_incomplete_image_is_imported_again(tmp_path, left):
    half = tmp_path / file_name(image_request(tmp_path, name="x"), ONE)
    half.write_bytes(left)
    assert "import" in ensure(ImageHost(), image_request(tmp_path, name="x"))["actions"]
    assert half.read_bytes() == image(b"rest")


def test_file_is_copied_and_its_digest_checked(tmp_path):
    source = tmp_path / "my image.sqsh"
    source.write_bytes(image(b"content"))
    target = tmp_path / "images"
    target.mkdir()
    done = ensure(ImageHost(), image_request(target, str(source)))
    assert Path(done["path"]).read_bytes() == source.read_bytes()
    assert os.path.basename(done["link"]) == "my+image.sqsh"
    with pytest.raises(NodeError, match="so nothing was imported: correct digest"):
        ensure(ImageHost(), image_request(target, str(source), digest=ONE))
    with pytest.raises(NodeError, match="could not read it"):
        ensure(ImageHost(), image_request(target, "/nowhere.sqsh"))


def test_docker_image_is_named_by_its_id(tmp_path):
    host = ImageHost()
    ensure(host, image_request(tmp_path, "dockerd://training:latest"))
    assert host.ran[-1][-1] == f"dockerd://{ONE}"


def test_digest_in_reference_is_not_queried(tmp_path):
    host = ImageHost(digest=TWO)
    assert ensure(host, image_request(tmp_path, f"docker://alpine@{ONE}"))["digest"] == ONE
    assert host.ran[-1][-1] == f"docker://alpine@{ONE}"
    with pytest.raises(NodeError, match=f"has {ONE} instead of {TWO}"):
        ensure(host, image_request(tmp_path, f"docker://alpine@{ONE}", digest=TWO))


def test_old_enroot_is_rejected_for_import_by_digest(tmp_path):
    with pytest.raises(NodeError, match=r"needs Enroot 4 and this node has 3\.4\.1"):
        ensure(ImageHost(version="3.4.1"), image_request(tmp_path, digest=ONE))


def test_missing_space_is_reported_before_import(tmp_path):
    host = ImageHost()
    host.free = 1 << 20
    with pytest.raises(NodeError, match="has 1 MiB free, the image needs 2 MiB"):
        ensure(host, image_request(tmp_path, needed=2 << 20))
    with pytest.raises(NodeError, match="needs 0 MiB and 1024 MiB must stay free"):
        ensure(host, image_request(tmp_path, "dockerd://x", min_free=1 << 30))
    assert not any("import" in argv for argv in host.ran)


def test_missing_directory_is_rejected(tmp_path):
    with pytest.raises(NodeError, match="create it first"):
        ensure(ImageHost(), image_request(tmp_path / "none"))


def test_unreachable_directory_is_reported_without_waiting(tmp_path, monkeypatch):
    host = ImageHost()
    host.silent = True
    monkeypatch.setattr(ImageHost, "is_dir", lambda self, path: pytest.fail("it would wait for ever"))
    monkeypatch.setattr(ImageHost, "listdir", lambda self, path: pytest.fail("it would wait for ever"))
    for work in (ensure, forget):
        with pytest.raises(NodeError, match=r"no answer within 20 seconds: look with 'dmesg' whether its servers answ"):
            work(host, image_request(tmp_path))


def test_removal_deletes_versions_and_link(tmp_path):
    host = ImageHost()
    ensure(host, image_request(tmp_path, name="x"))
    (tmp_path / "x-y.sqsh").write_bytes(image())
    assert forget(host, image_request(tmp_path, name="x"), dry=True)["actions"] == ["link", "prune"]
    forget(host, image_request(tmp_path, name="x"))
    assert (tmp_path / "x-y.sqsh").exists()
    assert not list(tmp_path.glob("x-a*"))
    assert forget(host, image_request(tmp_path, name="x"))["actions"] == []


def test_failed_removal_names_the_file(tmp_path):
    (tmp_path / file_name(image_request(tmp_path, name="x"), ONE)).mkdir()
    with pytest.raises(NodeError, match=r"could not remove .*/x-a{16}\.sqsh: Is a directory; .* run again"):
        forget(ImageHost(), image_request(tmp_path, name="x"))


@pytest.mark.parametrize(
    ("source", "base"),
    [
        ("docker://alpine", "alpine"),
        ("/images/.torch.sqsh", "torch"),
        ("/images/_x-.sqsh", "x-"),
        ("dockerd://a/b:1@sha256:" + "0" * 64, "a+b+1"),
    ],
)
def test_name_is_derived_from_source(source, base):
    assert ImageRequest(source, "/images").base == base
    assert problems(ImageRequest(source, "/images")) == []


def ask(folder):
    ensure(ImageHost(), image_request(folder, name="x", seconds=3600))


def test_many_nodes_import_once(tmp_path):
    context = multiprocessing.get_context("fork")
    nodes = [context.Process(target=ask, args=(tmp_path,)) for _number in range(12)]
    for node in nodes:
        node.start()
    for node in nodes:
        node.join()
    assert [node.exitcode for node in nodes] == [0] * 12
    assert (tmp_path / "log").read_text(encoding="utf-8") == "import\n"


class HangingHost(ImageHost):
    """An import that hangs after half an image."""

    def run(self, argv, timeout=120, check=True, stdin=None):
        if argv[:2] == ["enroot", "import"]:
            Path(argv[3]).write_bytes(b"half")
            os.write(1, b"begun")
            signal.pause()
        return super().run(argv, timeout, check, stdin)


def killed_import(folder, digest=ONE):
    """Kill an import in the middle, as a node failure does, and return what it leaves."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        ensure(HangingHost(digest), image_request(folder, name="x"))
    os.close(writing)
    assert os.read(reading, 5) == b"begun"
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (left,) = folder.glob(".x.*/image.sqsh")
    return left.parent


def test_leftovers_of_killed_import_are_removed(tmp_path):
    left = killed_import(tmp_path)
    others = [tmp_path / name for name in (".x.y.abcdefgh", ".xy.abcdefgh", ".x.abc", "x.abcdefgh")]
    for other in others:
        other.mkdir()
    (tmp_path / ".x.abcdefgh").symlink_to(tmp_path)
    ensure(ImageHost(), image_request(tmp_path, name="x"))
    assert not left.exists()
    left = killed_import(tmp_path, TWO)
    forget(ImageHost(), image_request(tmp_path, name="x"))
    assert not left.exists()
    assert all(other.is_dir() for other in others)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("image.sqsh", 0o755), ("weights.pt", 0o700), ("image.sqsh/weights.pt", 0o700)],
    ids=["open to others", "other file", "other folder"],
)
def test_directory_named_like_a_leftover_is_kept(tmp_path, name, mode):
    own = tmp_path / ".x.projects" / name
    own.parent.mkdir(parents=True)
    (tmp_path / ".x.projects").chmod(mode)
    own.write_bytes(b"of a user")
    ensure(ImageHost(), image_request(tmp_path, name="x"))
    forget(ImageHost(), image_request(tmp_path, name="x"))
    assert own.read_bytes() == b"of a user"


def test_leftover_with_a_link_keeps_its_target(tmp_path):
    left = tmp_path / ".x.abcdefgh"
    left.mkdir(0o700)
    (left / "image.sqsh").symlink_to(tmp_path)
    ensure(ImageHost(), image_request(tmp_path, name="x"))
    assert left.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_users_do_not_block_or_replace_each_other():
    """A directory of its own, since other users cannot enter pytest's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)

        def as_user(uid):
            child = os.fork()
            if child == 0:
                error = ""
                try:
                    os.setuid(uid)
                    ensure(ImageHost(), image_request(folder, name="x"))
                except NodeError as exc:
                    error = str(exc)
                finally:
                    (folder / f"error-{uid}").write_text(error)
                    os._exit(0)
            os.waitpid(child, 0)
            return (folder / f"error-{uid}").read_text()

        assert as_user(1001) == ""
        assert as_user(1002) == (
            f"{folder}/x-{'a' * 16}.sqsh belongs to another user, and only that user and root may replace it: choose "
            "another name or directory, or import the image as root"
        )
        assert sorted(path.name for path in folder.glob(".x*")) == [".x.1001.lock", ".x.1002.lock"]
        held = os.open(folder / ".x.1001.lock", os.O_RDWR)
        fcntl.flock(held, fcntl.LOCK_EX)
        assert ensure(ImageHost(), image_request(folder, name="x", seconds=1))["actions"] == ["import", "link"]
        os.close(held)


@pytest.mark.parametrize("dry", [False, True])
def test_image_of_a_user_under_the_name_of_the_link_stays(tmp_path, dry):
    own = tmp_path / "torch.sqsh"
    own.write_bytes(b"made by hand")
    with pytest.raises(NodeError, match=r"torch\.sqsh is a file instead of a link, so it was not made here"):
        ensure(ImageHost(), image_request(tmp_path, name="torch"), dry)
    assert own.read_bytes() == b"made by hand" and not own.is_symlink()
    assert not list(tmp_path.glob("torch-*"))


def test_failed_link_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="File name too long"):
        ImageHost().make_link("target", str(tmp_path / ("x" * 256)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"source": "oci://x"}, "must begin with docker://, dockerd:// or /"),
        ({"source": "image.sqsh"}, "use an absolute path"),
        ({"source": "docker://x; rm -rf /"}, "a reference has letters"),
        ({"directory": "images"}, "directory is 'images'"),
        ({"directory": "/a/../b"}, "without '..'"),
        ({"name": "../x"}, "name is '../x'"),
        ({"digest": "abc"}, "digest is 'abc'"),
        ({"source": "docker://+"}, "which gives no usable file name"),
        ({"source": "/images/"}, "which gives no usable file name"),
        ({"source": "/.sqsh"}, "which gives no usable file name"),
        ({"source": "/images/.."}, "which gives no usable file name"),
        ({"source": f"docker://{'x' * 201}"}, "which gives no usable file name"),
        ({"keep": -1}, "keep is -1"),
        ({"seconds": 0}, "timeout is 0"),
    ],
)
def test_bad_options_are_rejected(options, words):
    assert words in "; ".join(problems(ImageRequest(**{"source": "docker://x", "directory": "/images", **options})))


@pytest.mark.parametrize(
    "options", [{"keep": 0}, {"seconds": 1}, {"source": f"docker://{'x' * 200}"}, {"name": "x" * 100}, {"digest": ONE}]
)
def test_options_at_their_limits_are_accepted(options):
    assert problems(ImageRequest(**{"source": "docker://x", "directory": "/images", **options})) == []


def test_defaults_of_request():
    made = ImageRequest("docker://x", "/images")
    assert (made.needed, made.min_free, made.keep, made.seconds, made.mode) == (0, 0, None, 3600, 0o644)


@pytest.mark.parametrize(("missing", "fits"), [(0, True), (1, False)])
@pytest.mark.parametrize("source", ["docker://x", "dockerd://x", "/file"])
def test_image_needs_its_size_and_free_space(tmp_path, source, missing, fits):
    (tmp_path / "images").mkdir()
    (tmp_path / "file").write_bytes(IMAGE)
    source = source.replace("/file", f"{tmp_path}/file")
    size = {"docker": 7, "dockerd": 4096}.get(source.partition("://")[0], len(IMAGE))
    host = ImageHost()
    host.free = size + 5 - missing
    given = image_request(tmp_path / "images", source, needed=7 if source == "docker://x" else 0, min_free=5)
    if fits:
        assert ensure(host, given)["actions"] == ["import", "link"]
    else:
        with pytest.raises(NodeError, match="MiB must stay free"):
            ensure(host, given)


def test_unknown_size_takes_no_space(tmp_path, monkeypatch):
    host = ImageHost()
    host.free = 5
    run = host.run
    answer = CommandResult(0, "no number\n", "")
    monkeypatch.setattr(host, "run", lambda argv, **more: answer if "{{.Size}}" in argv else run(argv, **more))
    assert ensure(host, image_request(tmp_path, "dockerd://x", min_free=5))["actions"] == ["import", "link"]


def test_image_has_requested_mode(tmp_path):
    done = ensure(ImageHost(), image_request(tmp_path, mode=0o640))
    assert Path(done["path"]).stat().st_mode & 0o777 == 0o640


def test_file_that_changes_while_it_is_copied_is_rejected(tmp_path, monkeypatch):
    source, target = tmp_path / "a.sqsh", tmp_path / "images"
    source.write_bytes(IMAGE)
    target.mkdir()
    host = ImageHost()

    def copy_another(_source, made):
        Path(made).write_bytes(image(b"another"))

    monkeypatch.setattr(host, "copy_file", copy_another)
    with pytest.raises(NodeError, match=r"a\.sqsh changed while it was copied, so the copy was deleted: run again"):
        ensure(host, image_request(target, str(source)))
    assert not list(target.glob("*.sqsh"))


def test_only_a_file_is_asked_for_an_answer(tmp_path):
    source, target = tmp_path / "a.sqsh", tmp_path / "images"
    source.write_bytes(IMAGE)
    target.mkdir()
    for given, asked in ((str(source), [str(target), str(source)]), ("docker://x", [str(target)])):
        host = ImageHost()
        ensure(host, image_request(target, given))
        assert [argv[-1] for argv in host.ran if argv[0] == "stat"] == asked


def test_name_of_another_user_is_not_replaced(tmp_path, monkeypatch):
    host = ImageHost()
    monkeypatch.setattr(host, "may_replace", lambda path: path.endswith("/x.sqsh"))
    with pytest.raises(NodeError, match=f"x-{'a' * 16}.sqsh belongs to another user, and only that user and root"):
        ensure(host, image_request(tmp_path, name="x"))


def test_error_of_writing_is_that_of_the_system(tmp_path, monkeypatch):
    host = ImageHost()
    for error, words in (
        (OSError(28, "No space left on device", "/x"), "No space left on device"),
        (OSError("odd"), "odd"),
    ):

        def refuse(path, error=error):
            raise error

        monkeypatch.setattr(host, "set_time_to_now", refuse)
        with pytest.raises(NodeError, match=f"^could not write in {tmp_path}: {words}$"):
            ensure(host, image_request(tmp_path))


def test_known_size_is_not_queried(tmp_path):
    host = ImageHost()
    ensure(host, image_request(tmp_path, "dockerd://x", needed=1))
    assert not any("{{.Size}}" in argv for argv in host.ran)


def test_given_digest_is_not_queried(tmp_path):
    host = ImageHost(digest=TWO)
    assert ensure(host, image_request(tmp_path, digest=ONE))["digest"] == ONE
    assert not any("digest" in argv for argv in host.ran)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("4.0.0", None),
        ("5.1.0", None),
        ("3.9.9", "has 3.9.9"),
        ("new", "has an Enroot that does not report its version"),
    ],
)
def test_version_of_enroot_for_digests(tmp_path, version, words):
    if words is None:
        assert ensure(ImageHost(version=version), image_request(tmp_path))["actions"] == ["import", "link"]
        return
    with pytest.raises(NodeError, match=words):
        ensure(ImageHost(version=version), image_request(tmp_path))


@pytest.mark.parametrize("answer", ["a" * 64, f"Digest: {ONE}"])
def test_digest_is_found_in_answer(tmp_path, answer):
    assert ensure(ImageHost(digest=answer), image_request(tmp_path))["digest"] == ONE


def test_answer_without_digest_is_reported(tmp_path):
    with pytest.raises(NodeError, match=r"enroot digest docker://.* gave no digest: set digest, or install Enroot 4"):
        ensure(ImageHost(digest="none"), image_request(tmp_path))
    host = ImageHost()
    run = host.run

    def silent(argv, timeout=120, check=True, stdin=None):
        if "digest" in argv:
            raise CommandError(argv, 1, "", "no route", "failed with status 1")
        return run(argv, timeout, check, stdin)

    host.run = silent
    with pytest.raises(NodeError, match=r"could not read the digest of the image .*: set digest, or install Enroot 4"):
        ensure(host, image_request(tmp_path))


def test_empty_directory_has_nothing_to_remove(tmp_path):
    assert forget(ImageHost(), image_request(tmp_path)) == {"actions": [], "pruned": []}
    assert list(tmp_path.iterdir()) == []
