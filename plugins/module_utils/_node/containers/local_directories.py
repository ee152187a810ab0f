# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The directory for container images in use on a node, and its creation at every boot.

Unpacked images are tens of gigabytes, so they belong on local NVMe disks. These may be missing, late, or blank after a
stop and start: a link in /run leads to the directory that this boot found, and enroot.conf uses the link.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t

from ..storage.record import RECORD_PATH, read_document
from ..system.host import NodeError
from ..system.mounts import SHARED_FILESYSTEMS, find_mount, read_mounts
from .enroot_conf import LOCAL_LINK
from .host import EnrootHost

# Where ParallelCluster, the Deep Learning AMIs and older set-ups mount local disks.
KNOWN_MOUNTS = ("/opt/dlami/nvme", "/scratch", "/local_scratch")
_SUBDIRECTORY = "enroot_pyxis_local_subdirectory makes the directory"
# The directories that enroot.conf names below this one.
_USER_DIRECTORY = re.compile(r"user-[0-9]+")


@dataclasses.dataclass(frozen=True)
class LocalConfig:
    """Options: an empty local_dir searches for the volume, and an empty fallback allows no directory elsewhere.

    subdirectory is created below the volume.
    """

    local_dir: str = ""
    subdirectory: str = "containers"
    fallback: str = "/var/lib/mlcluster-containers"


@dataclasses.dataclass(frozen=True)
class Place:
    """The directory for images. kind: volume, given, known or fallback; warning: why it is only a fallback."""

    path: str
    kind: str
    fstype: str
    warning: str = ""


def config_problems(config: LocalConfig) -> list[str]:
    """Return one sentence for each option error; such options work on no node."""
    problems = []
    for name in ("local_dir", "fallback"):
        path = getattr(config, name)
        if path and (not path.startswith("/") or ".." in path.split("/") or posixpath.normpath(path) == "/"):
            problems.append(f"{name} is {path!r}: use an absolute path below / without '..'")
        if path and any(sign in path for sign in " \t\n$`'\"\\"):
            problems.append(f"{name} is {path!r}: spaces, quotes, '$' and backslashes would be evaluated by Enroot")
    word = config.subdirectory
    if not word or "/" in word or word.startswith(".") or not all(s.isalnum() or s in "._-" for s in word):
        problems.append(f"subdirectory is {word!r}: use one name of letters, digits, '.', '_' and '-'")
    return problems


def choose(host: EnrootHost, config: LocalConfig) -> Place:
    """Return the directory for images on this node now. Raises NodeError if none is suitable."""
    table = read_mounts(host)
    if config.local_dir:
        place = _place(table, posixpath.join(config.local_dir, config.subdirectory), "given")
        _refuse_shared(place, "enroot_pyxis_local_dir")
        _refuse_used(host, place.path, _SUBDIRECTORY)
        return place
    record = read_document(host, RECORD_PATH) or {}
    volume = record.get("path")
    own: list[str] = [volume, *(entry["path"] for entry in record.get("volumes") or [])] if volume else []
    candidates = [(path, "volume") for path in own] + [(path, "known") for path in KNOWN_MOUNTS]
    for path, kind in candidates:
        place = _place(table, posixpath.join(path, config.subdirectory), kind)
        if any(entry["target"] == path for entry in table) and place.fstype not in ("autofs", *SHARED_FILESYSTEMS):
            _refuse_used(host, place.path, _SUBDIRECTORY)
            return place
    why = f"the local volume {volume} is not mounted" if volume else "no local NVMe volume was found"
    if not config.fallback:
        raise NodeError(
            f"{why} and enroot_pyxis_fallback_dir is empty: run the role nvme_raid0 first, or allow a fallback"
        )
    place = _place(table, config.fallback, "fallback")
    _refuse_shared(place, "enroot_pyxis_fallback_dir")
    _refuse_used(host, place.path, "enroot_pyxis_fallback_dir is")
    warning = f"{why}, so images are unpacked on the {place.fstype} filesystem of {config.fallback}, slower and smaller"
    return dataclasses.replace(place, warning=warning)


def prepare(host: EnrootHost, config: LocalConfig) -> Place:
    """Create the directory, open to all users, and the link to it."""
    place = choose(host, config)
    parent = posixpath.dirname(place.path)
    try:
        host.make_mount_point(parent)
        host.make_directory(host.realpath(parent) + "/" + posixpath.basename(place.path), 0, 0, 0o1777)
        if host.link_target(LOCAL_LINK) != place.path:
            host.make_link(place.path, LOCAL_LINK)
    except OSError as exc:
        raise NodeError(f"could not make {place.path} for container images: {exc.strerror or exc}") from exc
    return place


def is_prepared(host: EnrootHost, place: Place) -> bool:
    """Return whether the directory and the link are as prepare creates them."""
    info = host.stat(place.path)
    right = info is not None and info["is_dir"] and info["mode"] == "1777" and info["uid"] == 0
    return right and host.link_target(LOCAL_LINK) == place.path


def _place(table: list[dict[str, t.Any]], path: str, kind: str) -> Place:
    entry = find_mount(path, table)
    return Place(path, kind, entry["fstype"] if entry else "unknown")


def _refuse_shared(place: Place, name: str) -> None:
    if place.fstype in SHARED_FILESYSTEMS:
        raise NodeError(
            f"{name} puts container images on {place.path}, which is {SHARED_FILESYSTEMS[place.fstype]}: Enroot cannot "
            "unpack there, and two nodes would create the same container in it; use a directory on a local disk"
        )


def _refuse_used(host: EnrootHost, path: str, option: str) -> None:
    """Raise NodeError for a directory that is in use for something else: all users could write to it.

    A directory of root is ours if it is open to all, empty, or has nothing but directories of Enroot's users.
    """
    info = host.stat(path)
    if not info or not info["is_dir"] or (info["mode"], info["uid"]) == ("1777", 0):
        return
    if info["uid"] != 0 or not all(_USER_DIRECTORY.fullmatch(name) for name in host.listdir(path)):
        raise NodeError(
            f"{option} {path}, which has owner {info['uid']}, mode {info['mode']} and perhaps "
            "files of others, and would be open to all users: use a directory for container images only"
        )
