# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Container images as squashfs files, each named after the digest of its source.

A file is imported once even if many nodes request it, and appears complete or not at all. If a tag moves in the
registry, a new file is made beside the old one, which running jobs may still need.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t

from ..system.host import CommandError, NodeError
from ..system.shared_place import demand_answer
from ..system.versions import at_least, version_key
from . import squashfs as enroot_squashfs
from .host import EnrootHost

# Enroot accepts IMAGE:TAG@DIGEST and has the command digest since 4.0 (its git history).
OLDEST_BY_DIGEST = (4, 0, 0)

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_REFERENCE = re.compile(r"[A-Za-z0-9$@#/._:+-]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
# The name of a file has 255 bytes at most (NAME_MAX of Linux), and a digest and .sqsh come after it.
_BASE_MOST = 200
# The name of a file until it is complete.
_MADE = "image.sqsh"


@dataclasses.dataclass(frozen=True)
class ImageRequest:
    """A requested image. source is docker://, dockerd:// or the path of a .sqsh file; sizes in bytes.

    digest: "" or the "sha256:..." that the source must have. needed: the space for the file, 0 if unknown.
    min_free: the space that must stay free. keep: the number of older versions to keep, None for all. seconds: limit of
    an import.
    """

    source: str
    directory: str
    name: str = ""
    digest: str = ""
    needed: int = 0
    min_free: int = 0
    keep: t.Optional[int] = None
    seconds: int = 3600
    mode: int = 0o644

    @property
    def kind(self) -> str:
        """docker, dockerd or file."""
        return self.source.partition("://")[0] if "://" in self.source else "file"

    @property
    def base(self) -> str:
        """The prefix of the file names."""
        reference = self.source.rpartition("/")[2] if self.kind == "file" else self.source.partition("://")[2]
        plain = re.split(r"@sha256:", reference)[0]
        made = re.sub(r"[^A-Za-z0-9._-]+", "+", re.sub(r"\.sqsh\Z", "", plain))
        return self.name or made.lstrip("+._-").rstrip("+")


def problems(request: ImageRequest) -> list[str]:
    """Return one sentence for each option error."""
    found = []
    if request.kind not in ("docker", "dockerd", "file"):
        found.append(f"source is {request.source!r}: it must begin with docker://, dockerd:// or /")
    elif request.kind == "file" and not request.source.startswith("/"):
        found.append(f"source is {request.source!r}: use an absolute path, or a reference that begins with docker://")
    elif request.kind != "file" and not _REFERENCE.fullmatch(request.source.partition("://")[2]):
        found.append(f"source is {request.source!r}: a reference has letters, digits and / : . _ - + @ # only")
    if not request.directory.startswith("/") or ".." in request.directory.split("/"):
        found.append(f"directory is {request.directory!r}: use an absolute path without '..'")
    if request.name and not _NAME.fullmatch(request.name):
        found.append(f"name is {request.name!r}: use letters, digits, '.', '_', '+' and '-'")
    if not found and not 1 <= len(request.base) <= _BASE_MOST:
        found.append(f"source is {request.source!r}, which gives no usable file name: set name")
    if request.digest and not _DIGEST.fullmatch(request.digest):
        found.append(f"digest is {request.digest!r}: it is sha256: and 64 hexadecimal digits")
    if request.keep is not None and request.keep < 0:
        found.append(f"keep is {request.keep}: it is the number of older versions that stay")
    if request.seconds < 1:
        found.append(f"timeout is {request.seconds}: it is a number of seconds")
    return found


def resolve(host: EnrootHost, request: ImageRequest) -> str:
    """Return the digest, "sha256:...", of the source now. Raises NodeError if it is not the requested one."""
    named = re.search(r"@(sha256:[0-9a-f]{64})\Z", request.source)
    if request.kind == "file":
        found = host.sha256(request.source)
        if found is None:
            raise NodeError(f"looked for {request.source} and could not read it: use a .sqsh file on this node")
        digest = f"sha256:{found}"
    elif named:
        digest = named.group(1)
    elif request.kind == "docker" and request.digest:
        digest = request.digest
    elif request.kind == "docker":
        digest = _query_digest(host, ["enroot", "digest", request.source], "set digest, or install Enroot 4")
    else:
        image = request.source.partition("://")[2]
        argv = ["docker", "image", "inspect", "--format", "{{.Id}}", image]
        digest = _query_digest(host, argv, "build the image on this node first")
    if request.digest and digest != request.digest:
        raise NodeError(
            f"{request.source} has {digest} instead of {request.digest}, so nothing was imported: correct digest or "
            "source"
        )
    return digest


def file_name(request: ImageRequest, digest: str) -> str:
    """Return the file name of this version: the name and the first 16 digits of the digest."""
    return f"{request.base}-{digest.partition(':')[2][:16]}.sqsh"


def versions(host: EnrootHost, request: ImageRequest) -> list[str]:
    """Return the files of all versions of the image, by the time of their last link or import, newest first."""
    pattern = re.compile(re.escape(request.base) + r"-[0-9a-f]{16}\.sqsh")
    names = [name for name in host.listdir(request.directory) if pattern.fullmatch(name)]
    times = {name: host.size_and_time(posixpath.join(request.directory, name)) or (0, 0.0) for name in names}
    return sorted(names, key=lambda name: (times[name][1], name), reverse=True)


def ensure(host: EnrootHost, request: ImageRequest, dry: bool = False) -> dict[str, t.Any]:
    """Import the image if needed; return {"path", "link", "digest", "actions", "pruned"}.

    actions are import, link and prune.
    """
    for path in [request.directory] + ([request.source] if request.kind == "file" else []):
        demand_answer(host, path)
    if not host.is_dir(request.directory):
        raise NodeError(f"looked for the directory {request.directory} and did not find it: create it first")
    if host.is_open_to_all(request.directory):
        raise NodeError(
            f"any user may replace files in {request.directory}, also an image that jobs of root run: set its mode to "
            "0755, or to 1777 if users import there too"
        )
    digest = resolve(host, request)
    name = file_name(request, digest)
    answer: dict[str, t.Any] = {
        "path": posixpath.join(request.directory, name),
        "link": posixpath.join(request.directory, f"{request.base}.sqsh"),
        "digest": digest,
        "actions": _due(host, request, name),
        "pruned": _surplus(host, request, name),
    }
    if dry or not answer["actions"]:
        _demand_names(host, answer)
        return answer
    try:
        with host.locked(_lock_path(host, request), request.seconds):
            # Another node may have imported it while this one waited.
            answer["actions"], answer["pruned"] = _due(host, request, name), _surplus(host, request, name)
            _demand_names(host, answer)
            if "import" in answer["actions"]:
                _sweep(host, request)
                _import(host, request, digest, answer["path"])
            if "link" in answer["actions"]:
                # A version that is used again is the newest: jobs use it after the next change of the link.
                host.set_time_to_now(answer["path"])
                host.make_link(name, answer["link"])
            for old in answer["pruned"]:
                host.remove(posixpath.join(request.directory, old))
    except OSError as exc:
        raise NodeError(f"could not write in {request.directory}: {exc.strerror or exc}") from exc
    return answer


def forget(host: EnrootHost, request: ImageRequest, dry: bool = False) -> dict[str, t.Any]:
    """Remove every version of the image, its link, and leftovers of killed imports; return {"actions", "pruned"}."""
    demand_answer(host, request.directory)
    names = versions(host, request)
    link = posixpath.join(request.directory, f"{request.base}.sqsh")
    linked = host.link_target(link) is not None
    paths = ([link] if linked else []) + [posixpath.join(request.directory, name) for name in names]
    if not dry and (paths or _leftovers(host, request)):
        with host.locked(_lock_path(host, request), request.seconds):
            for path in paths:
                _remove(host, path)
            _sweep(host, request)
    return {"actions": (["link"] if linked else []) + (["prune"] if names else []), "pruned": names}


def _remove(host: EnrootHost, path: str) -> None:
    try:
        host.remove(path)
    except OSError as exc:
        raise NodeError(
            f"could not remove {path}: {exc.strerror or exc}; later files were not removed: fix that and run again"
        ) from exc


def _lock_path(host: EnrootHost, request: ImageRequest) -> str:
    """Return the path of the lock, beside the files: the nodes may share no other directory.

    Each user has a separate lock, because any user could hold a shared one for ever.
    """
    return posixpath.join(request.directory, f".{request.base}.{host.own_uid()}.lock")


def _leftovers(host: EnrootHost, request: ImageRequest) -> list[str]:
    """Return the directories in which imports write their file, see ``EnrootHost.private_directory``."""
    pattern = re.compile(re.escape(f".{request.base}.") + "[a-z0-9_]{8}")
    return [name for name in host.listdir(request.directory) if pattern.fullmatch(name)]


def _sweep(host: EnrootHost, request: ImageRequest) -> None:
    """Remove leftovers of killed imports, each as large as an image; the lock excludes running imports."""
    for name in _leftovers(host, request):
        host.remove_own_tree(posixpath.join(request.directory, name), _MADE)


def _demand_names(host: EnrootHost, answer: t.Mapping[str, t.Any]) -> None:
    """Raise ``NodeError`` if a name is that of a user's own file, or of another user, before gigabytes are fetched."""
    needed = [answer[key] for key, action in (("path", "import"), ("link", "link")) if action in answer["actions"]]
    if "link" in answer["actions"] and host.link_target(answer["link"]) is None and host.exists(answer["link"]):
        raise NodeError(
            f"{answer['link']} is a file instead of a link, so it was not made here, and a link to {answer['path']} "
            "would "
            "replace it: move it away, or set name"
        )
    taken = [path for path in needed if not host.may_replace(path)]
    if taken:
        raise NodeError(
            f"{taken[0]} belongs to another user, and only that user and root may replace it: choose another name or "
            "directory, or import the image as root"
        )


def _due(host: EnrootHost, request: ImageRequest, name: str) -> list[str]:
    path = posixpath.join(request.directory, name)
    due = ["import"] if _foreign(host, path) or _incomplete(host, path) else []
    link = posixpath.join(request.directory, f"{request.base}.sqsh")
    due += [] if host.link_target(link) == name and host.is_trusted(link) else ["link"]
    return due + (["prune"] if _surplus(host, request, name) else [])


def _foreign(host: EnrootHost, path: str) -> bool:
    """Return whether the file is of another user, whose content is not trusted: the directory may be open to all."""
    return host.link_target(path) is not None or (host.size_and_time(path) is not None and not host.is_trusted(path))


def _incomplete(host: EnrootHost, path: str) -> str | None:
    found = host.size_and_time(path)
    return enroot_squashfs.incomplete(lambda at, count: host.read_piece(path, at, count), found[0] if found else None)


def _surplus(host: EnrootHost, request: ImageRequest, name: str) -> list[str]:
    if request.keep is None:
        return []
    return [other for other in versions(host, request) if other != name][request.keep :]


def _import(host: EnrootHost, request: ImageRequest, digest: str, path: str) -> None:
    _demand_space(host, request)
    with host.private_directory(request.directory, f".{request.base}.") as folder:
        made = posixpath.join(folder, _MADE)
        if request.kind == "file":
            host.copy_file(request.source, made)
        else:
            host.run(["enroot", "import", "--output", made, _by_digest(host, request, digest)], timeout=request.seconds)
        problem = _incomplete(host, made)
        if problem:
            raise NodeError(
                f"the file from {request.source} is not a complete squashfs image ({problem}), so it was deleted: "
                "check the source"
            )
        if request.kind == "file" and f"sha256:{host.sha256(made)}" != digest:
            raise NodeError(f"{request.source} changed while it was copied, so the copy was deleted: run again")
        host.settle(made, request.mode)
        host.rename(made, path)


def _by_digest(host: EnrootHost, request: ImageRequest, digest: str) -> str:
    """Return the source with its digest, so that nothing else can be imported."""
    if request.kind == "dockerd":
        return f"dockerd://{digest}"
    version = re.search(r"\d+\.\d+\.\d+", host.run(["enroot", "version"], timeout=30).stdout)
    if version is None or not at_least(version_key(version.group(0)), OLDEST_BY_DIGEST):
        found = version.group(0) if version else "an Enroot that does not report its version"
        raise NodeError(
            f"importing {request.source} by its digest needs Enroot 4 and this node has {found}: install Enroot 4, or "
            "import it elsewhere and use the file"
        )
    return request.source if "@sha256:" in request.source else f"{request.source}@{digest}"


def _demand_space(host: EnrootHost, request: ImageRequest) -> None:
    needed = request.needed
    if not needed and request.kind == "file":
        needed = (host.size_and_time(request.source) or (0, 0.0))[0]
    elif not needed and request.kind == "dockerd":
        argv = ["docker", "image", "inspect", "--format", "{{.Size}}", request.source.partition("://")[2]]
        size = host.run(argv, timeout=60).stdout.strip()
        needed = int(size) if size.isdecimal() else 0
    free = host.free_bytes(request.directory)
    if free is not None and free < needed + request.min_free:
        raise NodeError(
            f"{request.directory} has {free >> 20} MiB free, the image needs {needed >> 20} MiB and "
            f"{request.min_free >> 20} MiB must stay free: free some space, or remove older versions with keep"
        )


def _query_digest(host: EnrootHost, argv: t.Sequence[str], hint: str) -> str:
    try:
        output = host.run(argv, timeout=300).stdout
    except CommandError as exc:
        raise NodeError(f"could not read the digest of the image ({exc}): {hint}") from exc
    found = _DIGEST.search(output) or re.search(r"\b([0-9a-f]{64})\b", output)
    if not found:
        raise NodeError(f"{' '.join(argv)} gave no digest: {hint}")
    return f"sha256:{found.group(1)}"
