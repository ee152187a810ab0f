# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Container images as squashfs files, each named after the digest of what it was made of.

A file is made once however many nodes ask for it at once, it appears whole or not at all, and a name that has moved on
in the registry makes a new file beside the old one, which running jobs may still need.
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

# Enroot takes IMAGE:TAG@DIGEST and has the command digest since 4.0 (its git history).
OLDEST_BY_DIGEST = (4, 0, 0)

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_REFERENCE = re.compile(r"[A-Za-z0-9$@#/._:+-]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
# The name of a file has 255 bytes at most (NAME_MAX of Linux), and a digest and .sqsh come after it.
_BASE_MOST = 200


@dataclasses.dataclass(frozen=True)
class ImageWish:
    """An image that is wanted. source is docker://, dockerd:// or the path of a .sqsh file; sizes in bytes.

    digest is "" or "sha256:..." that the source has to have; needed how much space it takes, 0 when unknown; spare what
    has to stay free; keep how many older versions stay, None for all; seconds the limit of an import.
    """

    source: str
    directory: str
    name: str = ""
    digest: str = ""
    needed: int = 0
    spare: int = 0
    keep: t.Optional[int] = None
    seconds: int = 3600
    mode: int = 0o644

    @property
    def kind(self) -> str:
        """docker, dockerd or file."""
        return self.source.partition("://")[0] if "://" in self.source else "file"

    @property
    def base(self) -> str:
        """The name that the files begin with."""
        reference = self.source.rpartition("/")[2] if self.kind == "file" else self.source.partition("://")[2]
        plain = re.split(r"@sha256:", reference)[0]
        made = re.sub(r"[^A-Za-z0-9._-]+", "+", re.sub(r"\.sqsh\Z", "", plain))
        return self.name or made.lstrip("+._-").rstrip("+")


def problems(wish: ImageWish) -> list[str]:
    """Every reason, a sentence each, why the wish cannot be carried out anywhere."""
    found = []
    if wish.kind not in ("docker", "dockerd", "file"):
        found.append(f"source is {wish.source!r}: it begins with docker://, dockerd:// or /")
    elif wish.kind == "file" and not wish.source.startswith("/"):
        found.append(f"source is {wish.source!r}: give an absolute path, or a reference with docker:// before it")
    elif wish.kind != "file" and not _REFERENCE.fullmatch(wish.source.partition("://")[2]):
        found.append(f"source is {wish.source!r}: a reference has letters, digits and / : . _ - + @ # only")
    if not wish.directory.startswith("/") or ".." in wish.directory.split("/"):
        found.append(f"directory is {wish.directory!r}: give an absolute path without '..'")
    if wish.name and not _NAME.fullmatch(wish.name):
        found.append(f"name is {wish.name!r}: letters, digits, '.', '_', '+' and '-' make a name")
    if not found and not 1 <= len(wish.base) <= _BASE_MOST:
        found.append(f"source is {wish.source!r}, of which no name for files can be made: give one with name")
    if wish.digest and not _DIGEST.fullmatch(wish.digest):
        found.append(f"digest is {wish.digest!r}: it is sha256: and 64 hexadecimal digits")
    if wish.keep is not None and wish.keep < 0:
        found.append(f"keep is {wish.keep}: it is the number of older versions that stay")
    if wish.seconds < 1:
        found.append(f"timeout is {wish.seconds}: it is a number of seconds")
    return found


def resolve(host: EnrootHost, wish: ImageWish) -> str:
    """The digest, "sha256:...", of what the source is now. Raises NodeError when it is not the one that is wanted."""
    named = re.search(r"@(sha256:[0-9a-f]{64})\Z", wish.source)
    if wish.kind == "file":
        found = host.sha256(wish.source)
        if found is None:
            raise NodeError(f"looked for {wish.source} and could not read it: give a .sqsh file on this node")
        digest = f"sha256:{found}"
    elif named:
        digest = named.group(1)
    elif wish.kind == "docker" and wish.digest:
        digest = wish.digest
    elif wish.kind == "docker":
        digest = _asked(host, ["enroot", "digest", wish.source], "give its digest, or install Enroot 4")
    else:
        image = wish.source.partition("://")[2]
        argv = ["docker", "image", "inspect", "--format", "{{.Id}}", image]
        digest = _asked(host, argv, "build the image on this node first")
    if wish.digest and digest != wish.digest:
        raise NodeError(f"{wish.source} is {digest} and {wish.digest} was wanted: nothing was imported")
    return digest


def file_name(wish: ImageWish, digest: str) -> str:
    """The file of this version: the name and as much of the digest as makes it the only one."""
    return f"{wish.base}-{digest.partition(':')[2][:16]}.sqsh"


def versions(host: EnrootHost, wish: ImageWish) -> list[str]:
    """The files of all versions of the image, the newest first."""
    pattern = re.compile(re.escape(wish.base) + r"-[0-9a-f]{16}\.sqsh")
    names = [name for name in host.listdir(wish.directory) if pattern.fullmatch(name)]
    times = {name: host.size_and_time(posixpath.join(wish.directory, name)) or (0, 0.0) for name in names}
    return sorted(names, key=lambda name: (times[name][1], name), reverse=True)


def ensure(host: EnrootHost, wish: ImageWish, dry: bool = False) -> dict[str, t.Any]:
    """Have the image; {"path", "link", "digest", "actions", "pruned"}. actions are words: import, link, prune."""
    for path in [wish.directory] + ([wish.source] if wish.kind == "file" else []):
        demand_answer(host, path)
    if not host.is_dir(wish.directory):
        raise NodeError(f"looked for the directory {wish.directory} and did not find it: make it first")
    if host.is_open_to_all(wish.directory):
        raise NodeError(
            f"everybody may replace what is in {wish.directory}, also an image that jobs of root run: give it mode "
            "0755, or 1777 if users are to import there too"
        )
    digest = resolve(host, wish)
    name = file_name(wish, digest)
    answer: dict[str, t.Any] = {
        "path": posixpath.join(wish.directory, name),
        "link": posixpath.join(wish.directory, f"{wish.base}.sqsh"),
        "digest": digest,
        "actions": _due(host, wish, name),
        "pruned": _surplus(host, wish, name),
    }
    if dry or not answer["actions"]:
        return answer
    try:
        with host.locked(_lock_path(host, wish), wish.seconds):
            # Another node may have done it while this one waited.
            answer["actions"], answer["pruned"] = _due(host, wish, name), _surplus(host, wish, name)
            _demand_names(host, answer)
            if "import" in answer["actions"]:
                _sweep(host, wish)
                _import(host, wish, digest, answer["path"])
            if "link" in answer["actions"]:
                host.make_link(name, answer["link"])
            for old in answer["pruned"]:
                host.remove(posixpath.join(wish.directory, old))
    except OSError as exc:
        raise NodeError(f"could not write in {wish.directory}: {exc.strerror or exc}") from exc
    return answer


def forget(host: EnrootHost, wish: ImageWish, dry: bool = False) -> dict[str, t.Any]:
    """Remove every version of the image, its link, and what killed imports left; {"actions", "pruned"}."""
    demand_answer(host, wish.directory)
    names = versions(host, wish)
    link = posixpath.join(wish.directory, f"{wish.base}.sqsh")
    linked = host.link_target(link) is not None
    paths = ([link] if linked else []) + [posixpath.join(wish.directory, name) for name in names]
    if not dry and (paths or _leftovers(host, wish)):
        with host.locked(_lock_path(host, wish), wish.seconds):
            for path in paths:
                _remove(host, path)
            _sweep(host, wish)
    return {"actions": (["link"] if linked else []) + (["prune"] if names else []), "pruned": names}


def _remove(host: EnrootHost, path: str) -> None:
    try:
        host.remove(path)
    except OSError as exc:
        raise NodeError(
            f"could not remove {path}: {exc.strerror or exc}; what comes after it was left as it is, so mend that "
            "and run again"
        ) from exc


def _lock_path(host: EnrootHost, wish: ImageWish) -> str:
    """Beside the files: the directory is all that the nodes which may ask for the same image have in common.

    One for each user, for nobody trusts or may open what another puts there, who could hold it for ever.
    """
    return posixpath.join(wish.directory, f".{wish.base}.{host.own_uid()}.lock")


def _leftovers(host: EnrootHost, wish: ImageWish) -> list[str]:
    """Names of what imports make their file in, see ``EnrootHost.private_directory``."""
    pattern = re.compile(re.escape(f".{wish.base}.") + "[a-z0-9_]{8}")
    return [name for name in host.listdir(wish.directory) if pattern.fullmatch(name)]


def _sweep(host: EnrootHost, wish: ImageWish) -> None:
    """Remove what imports that were killed left, of the size of an image each; under the lock nobody is at it."""
    for name in _leftovers(host, wish):
        host.remove_own_tree(posixpath.join(wish.directory, name))


def _demand_names(host: EnrootHost, answer: t.Mapping[str, t.Any]) -> None:
    """Raise ``NodeError`` where a name is another user's, before gigabytes are fetched for it."""
    needed = [answer[key] for key, action in (("path", "import"), ("link", "link")) if action in answer["actions"]]
    taken = [path for path in needed if not host.may_replace(path)]
    if taken:
        raise NodeError(
            f"{taken[0]} is of another user, and only that user and root may replace it: give another name or "
            "directory, or let root import the image"
        )


def _due(host: EnrootHost, wish: ImageWish, name: str) -> list[str]:
    path = posixpath.join(wish.directory, name)
    due = ["import"] if _foreign(host, path) or _incomplete(host, path) else []
    link = posixpath.join(wish.directory, f"{wish.base}.sqsh")
    due += [] if host.link_target(link) == name and host.is_trusted(link) else ["link"]
    return due + (["prune"] if _surplus(host, wish, name) else [])


def _foreign(host: EnrootHost, path: str) -> bool:
    """Whether somebody else has put what is there, which may hold anything: the directory may be open to all."""
    return host.link_target(path) is not None or (host.size_and_time(path) is not None and not host.is_trusted(path))


def _incomplete(host: EnrootHost, path: str) -> str | None:
    found = host.size_and_time(path)
    return enroot_squashfs.incomplete(lambda at, count: host.read_piece(path, at, count), found[0] if found else None)


def _surplus(host: EnrootHost, wish: ImageWish, name: str) -> list[str]:
    if wish.keep is None:
        return []
    return [other for other in versions(host, wish) if other != name][wish.keep :]


def _import(host: EnrootHost, wish: ImageWish, digest: str, path: str) -> None:
    _demand_space(host, wish)
    with host.private_directory(wish.directory, f".{wish.base}.") as folder:
        made = posixpath.join(folder, "image.sqsh")
        if wish.kind == "file":
            host.copy_file(wish.source, made)
        else:
            host.run(["enroot", "import", "--output", made, _by_digest(host, wish, digest)], timeout=wish.seconds)
        problem = _incomplete(host, made)
        if problem:
            raise NodeError(
                f"what {wish.source} gave is not a whole squashfs image ({problem}), so it was deleted: look at the "
                "source"
            )
        if wish.kind == "file" and f"sha256:{host.sha256(made)}" != digest:
            raise NodeError(f"{wish.source} changed while it was copied, so the copy was thrown away: run again")
        host.settle(made, wish.mode)
        host.rename(made, path)


def _by_digest(host: EnrootHost, wish: ImageWish, digest: str) -> str:
    """The source so that nothing else can be imported than what the digest names."""
    if wish.kind == "dockerd":
        return f"dockerd://{digest}"
    said = re.search(r"\d+\.\d+\.\d+", host.run(["enroot", "version"], timeout=30).stdout)
    if said is None or not at_least(version_key(said.group(0)), OLDEST_BY_DIGEST):
        found = said.group(0) if said else "one that does not say its version"
        raise NodeError(
            f"importing {wish.source} by its digest needs Enroot 4 and this node has {found}: install Enroot 4, or "
            "import it elsewhere and give the file"
        )
    return wish.source if "@sha256:" in wish.source else f"{wish.source}@{digest}"


def _demand_space(host: EnrootHost, wish: ImageWish) -> None:
    needed = wish.needed
    if not needed and wish.kind == "file":
        needed = (host.size_and_time(wish.source) or (0, 0.0))[0]
    elif not needed and wish.kind == "dockerd":
        argv = ["docker", "image", "inspect", "--format", "{{.Size}}", wish.source.partition("://")[2]]
        said = host.run(argv, timeout=60).stdout.strip()
        needed = int(said) if said.isdecimal() else 0
    free = host.free_bytes(wish.directory)
    if free is not None and free < needed + wish.spare:
        raise NodeError(
            f"{wish.directory} has {free >> 20} MiB free, the image needs {needed >> 20} MiB and "
            f"{wish.spare >> 20} MiB have to stay free: make room, or let older versions go with keep"
        )


def _asked(host: EnrootHost, argv: t.Sequence[str], hint: str) -> str:
    try:
        said = host.run(argv, timeout=300).stdout
    except CommandError as exc:
        raise NodeError(f"could not learn the digest of the image ({exc}): {hint}") from exc
    found = _DIGEST.search(said) or re.search(r"\b([0-9a-f]{64})\b", said)
    if not found:
        raise NodeError(f"{' '.join(argv)} gave no digest: {hint}")
    return f"sha256:{found.group(1)}"
