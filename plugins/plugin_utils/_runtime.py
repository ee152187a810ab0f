# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the node runtime ``mlcluster.pyz`` on the controller, reproducibly."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import time
import zipfile
import zlib
from pathlib import Path
from typing import Union

import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import replace_file

PACKAGES = ("_node", "_data")
SHEBANG = b"#!/usr/bin/python3\n"
KEEP_SECONDS = 7 * 24 * 3600

MAIN = Path(__file__).with_name("_runtime_main.py")

AnyPath = Union[str, Path]


class RuntimeBuildError(Exception):
    """The runtime could not be built; the message has the path, what was found and what to do."""


def collection_root() -> Path:
    """Return the directory that contains ``plugins/``: a checkout or an installed collection."""
    return Path(__file__).resolve().parents[2]


def collection_version(root: AnyPath) -> str:
    """Return the version in MANIFEST.json (installed) or galaxy.yml (checkout). Raises RuntimeBuildError."""
    manifest = Path(root) / "MANIFEST.json"
    galaxy = Path(root) / "galaxy.yml"
    try:
        if manifest.is_file():
            version = json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"]
        else:
            version = yaml.safe_load(galaxy.read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as exc:
        raise RuntimeBuildError(
            f"no version of the collection in {manifest} or {galaxy} ({exc}); install the collection again"
        ) from exc
    return str(version)


def _members(root: AnyPath, version: str) -> list[tuple[str, bytes]]:
    """Return pairs of archive name and bytes, sorted by name."""
    members = {
        "__main__.py": MAIN.read_bytes(),
        "mlcluster/__init__.py": f"__version__ = {version!r}\n".encode(),
    }
    for package in PACKAGES:
        folder = Path(root) / "plugins" / "module_utils" / package
        sources = sorted(folder.rglob("*.py"))
        if not sources:
            raise RuntimeBuildError(f"{folder} holds no Python files; install the collection again")
        for source in sources:
            members[f"mlcluster/{package}/{source.relative_to(folder).as_posix()}"] = source.read_bytes()
    return sorted(members.items())


def archive(root: AnyPath, version: str) -> bytes:
    """Return the bytes of the zipapp built from the collection at ``root``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as target:
        for name, data in _members(root, version):
            # Stored with fixed dates and owners: another zlib or clock must not change the checksum.
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            target.writestr(info, data)
    return SHEBANG + buffer.getvalue()


def run_sum(folder: AnyPath) -> str:
    """Return the sha256 of the runtime, built once in a run of Ansible; ``folder`` is that run's temporary directory.

    Raises RuntimeBuildError.
    """
    return _of_run(Path(folder), "sha256")


def run_archive(folder: AnyPath) -> str:
    """Return the runtime for an option of a module: compressed, in base64. See ``run_sum``."""
    return _of_run(Path(folder), "packed")


def _of_run(folder: Path, name: str) -> str:
    try:
        return (folder / f"mlcluster-runtime.{name}").read_text(encoding="ascii")
    except OSError:
        # Without the cache: a look at a node needs no place to keep a build, as in a container without a home.
        data = archive(collection_root(), collection_version(collection_root()))
    # Fewer bytes for each node than with less compression, at a cost of 0.04 s once.
    packed = base64.b64encode(zlib.compress(data))
    values = {"sha256": hashlib.sha256(data).hexdigest(), "packed": packed.decode("ascii")}
    with contextlib.suppress(OSError):
        for key, value in values.items():
            replace_file(folder / f"mlcluster-runtime.{key}", value.encode(), 0o600)
    return values[name]


def cache_directory() -> Path:
    """Return ``$XDG_CACHE_HOME/mlcluster/runtime``, by default below ``~/.cache``. Raises RuntimeBuildError."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # The XDG specification requires that a relative value is ignored.
        return Path(base if os.path.isabs(base) else Path.home() / ".cache") / "mlcluster" / "runtime"
    except RuntimeError as exc:
        raise RuntimeBuildError(
            "the node runtime cannot be kept, since this user has no home directory: set XDG_CACHE_HOME"
        ) from exc


def _prune(directory: Path, keep: Path) -> None:
    limit = time.time() - KEEP_SECONDS
    for entry in directory.glob("mlcluster-*.pyz"):
        try:
            if entry != keep and entry.stat().st_mtime < limit:
                entry.unlink()
        except FileNotFoundError:
            # Another run pruned it first.
            continue


def build(root: AnyPath | None = None, cache: AnyPath | None = None) -> dict[str, str]:
    """Build the runtime, or reuse the one built before from the same files.

    ``root`` is the collection, ``cache`` the directory of builds (created with mode 0700).
    Returns ``{"path", "sha256", "version"}``, all strings. Raises RuntimeBuildError.
    """
    root = Path(root) if root else collection_root()
    directory = Path(cache) if cache else cache_directory()
    version = collection_version(root)
    data = archive(root, version)
    digest = hashlib.sha256(data).hexdigest()
    path = directory / f"mlcluster-{version}-{digest[:16]}.pyz"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.is_file() and path.read_bytes() == data:
            os.utime(path)
        else:
            replace_file(path, data, 0o700)
        _prune(directory, path)
    except OSError as exc:
        raise RuntimeBuildError(
            f"the node runtime cannot be kept in {directory} ({exc.strerror}); make it writable or set XDG_CACHE_HOME"
        ) from exc
    return {"path": str(path), "sha256": digest, "version": version}
