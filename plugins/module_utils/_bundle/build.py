# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build one bundle from packages, collections, hooks and artifacts, reproducibly."""

from __future__ import annotations

import subprocess
import tempfile
import typing as t
import zipfile
from pathlib import Path

from . import compiled, content, manifest, wheels
from .archive import (
    LOCKS,
    SHA256,
    BundleError,
    Member,
    Members,
    Target,
    archive,
    file_name,
    sha256,
    sums,
    tree_sha256,
    write_file,
)

# The file of the collection that becomes bin/run-node.
ENTRY = "hooks/bundle_entry.py"
RUNNER = "hooks/mlcluster_boot/main.py"
# All targets get the same other collections: the versions for the oldest Python of their lock, which every
# ansible-core accepts.
OTHERS_PYTHON = "3.11"


class Artifact(t.NamedTuple):
    """A file that roles would download: its entry in the lookup ``artifact``, and its signature files."""

    file: Path
    entry: t.Mapping[str, t.Any]
    signature: t.Sequence[Path]


class Request(t.NamedTuple):
    """A bundle to build.

    ``collection`` is this collection's directory, ``requirements`` that of the locks, ``others`` the search path
    of other collections (empty: they come from the wheel that ``others_lock`` pins), ``epoch`` is the date of
    everything in seconds since 1970. ``compiled`` adds byte code, if this machine has a Python of the target's version.
    """

    collection: Path
    requirements: Path
    others: t.Sequence[Path]
    others_lock: str
    artifacts: t.Sequence[Artifact]
    cache: Path
    pip: t.Sequence[str]
    commit: str
    epoch: int
    compiled: bool = True


class Built(t.NamedTuple):
    """A bundle in memory, with its manifest and its bill of materials."""

    file: str
    data: bytes
    sha256: str
    unpacked: int
    manifest: dict[str, t.Any]
    sbom: bytes


def git(collection: Path, *words: str) -> str:
    """Return git's output for the checkout ``collection``; empty if it is not a checkout or git is missing."""
    try:
        completed = subprocess.run(
            ["git", "-C", str(collection), *words], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout.strip() if completed.returncode == 0 else ""


def checkout(collection: Path) -> tuple[str, int]:
    """Return (commit, its time in seconds since 1970); the commit of a modified checkout ends in ``-changed``."""
    top = git(collection, "rev-parse", "--show-toplevel")
    # A collection installed inside another repository must not report that repository's commit.
    if not top or Path(top) != collection.resolve():
        return "", 0
    commit, date = git(collection, "rev-parse", "HEAD"), git(collection, "log", "-1", "--format=%ct")
    changed = git(collection, "status", "--porcelain", "--", *content.OWN_FOLDERS, "hooks", "meta", "galaxy.yml")
    return commit + ("-changed" if changed else ""), int(date or 0)


def other_roots(request: Request, core: str) -> dict[str, Path]:
    """Return the directory of each other collection; fetches them if necessary. Raises BundleError."""
    places = list(request.others)
    if not places:
        lock = request.requirements / request.others_lock
        folder = request.cache / f"collections-{sha256(wheels.read_lock(lock, OTHERS_PYTHON).encode())[:16]}"
        if not folder.is_dir():
            _unpack_collections(request, lock, folder)
        places = [folder]
    roots = {name: content.find(name, places) for name in content.OTHERS}
    for name, root in roots.items():
        content.check_core(name, root, core)
    return roots


def _unpack_collections(request: Request, lock: Path, folder: Path) -> None:
    # Any supported Python will do: the wheel contains no Python code; its version limits concern controllers.
    words = ["--python-version", "3.12"]
    (wheel,) = wheels.cached(request.pip, lock, OTHERS_PYTHON, request.cache, "collections-wheel", words)
    prefixes = tuple(f"ansible_collections/{name.replace('.', '/')}/" for name in content.OTHERS)
    with zipfile.ZipFile(wheel) as source, tempfile.TemporaryDirectory(dir=request.cache, prefix=".unpack-") as aside:
        # Complete or absent: a killed run must not leave a partial directory.
        whole = Path(aside) / "whole"
        source.extractall(whole, [name for name in source.namelist() if name.startswith(prefixes)])
        whole.rename(folder)


def hook_files(collection: Path) -> Members:
    """Return the runner, the modules it imports, and the hook. Raises BundleError if the runner is missing."""
    files = {
        place: member
        for place, member in content.read_tree(collection / "hooks", collection).items()
        if place != ENTRY and place.endswith((".py", ".sh"))
    }
    if RUNNER not in files:
        raise BundleError(f"{collection} has no {RUNNER}, which runs the roles on a node: use a complete checkout")
    return files


def artifact_files(artifacts: t.Sequence[Artifact]) -> tuple[Members, list[dict[str, str]]]:
    """Return (files below artifacts/, components). Raises BundleError for a file whose checksum is wrong."""
    files: Members = {}
    components = []
    for path, entry, signature in artifacts:
        wanted = str(entry.get("sha256", ""))
        if not SHA256.fullmatch(wanted):
            raise BundleError(
                f"the checksum of {entry.get('name')} {entry.get('version')} is unknown, so it is not bundled: run "
                "make lock-artifacts on a connected machine"
            )
        try:
            data = path.read_bytes()
            files.update({proof.name: Member(proof.read_bytes()) for proof in signature})
        except OSError as exc:
            raise BundleError(f"{exc.filename} cannot be read ({exc.strerror}): fetch it first") from exc
        if sha256(data) != wanted:
            raise BundleError(
                f"{path} has sha256 {sha256(data)} and {wanted} was expected: it was changed or damaged, fetch it again"
            )
        files[path.name] = Member(data)
        components.append(
            {
                "name": str(entry["name"]),
                "version": str(entry["version"]),
                "sha256": wanted,
                "license": "see its publisher",
                "kind": "artifact",
                "file": path.name,
            }
        )
    if files:
        files["vars.json"] = Member(manifest.to_json(artifact_variables(artifacts)))
    return files, components


def artifact_variables(artifacts: t.Sequence[Artifact]) -> dict[str, str]:
    """Return the role variables that point at the bundle's artifacts; bin/run-node sets MLCLUSTER_BUNDLE."""
    place = "{{ lookup('ansible.builtin.env', 'MLCLUSTER_BUNDLE') }}/artifacts"
    names = {str(artifact.entry["name"]): artifact.file.name for artifact in artifacts}
    variables = {}
    if "aws-efa-installer" in names:
        variables["efa_nccl_installer_source"] = "local"
        variables["efa_nccl_installer_file"] = f"{place}/{names['aws-efa-installer']}"
    if names.keys() & {"enroot", "enroot-caps", "pyxis"}:
        variables["enroot_pyxis_source"] = "local"
        variables["enroot_pyxis_local_files"] = place
    return variables


def collect_files(request: Request, target: Target) -> tuple[Members, list[dict[str, str]]]:
    """Return (all files except the manifest, components). Raises BundleError."""
    lock = request.requirements / LOCKS[target.python]
    core = wheels.core_version(lock, target.python)
    roots = other_roots(request, core)
    own = content.own_files(request.collection)
    files = hook_files(request.collection)
    entry = content.read_tree(request.collection / ENTRY, request.collection)
    files["bin/run-node"] = Member(entry[ENTRY].data, executable=True)
    site, components = wheels.site(wheels.fetch(request.pip, lock, request.cache, target), lock, target.python)
    files.update({f"site/{place}": member for place, member in site.items()})
    trees = {content.OWN: own, **content.other_files(own, roots)}
    for name, tree in trees.items():
        folder = f"collections/ansible_collections/{name.replace('.', '/')}"
        files.update({f"{folder}/{place}": member for place, member in tree.items()})
        if name != content.OWN and tree:
            components.append(content.component(name, roots[name], tree))
    artifacts, more = artifact_files(request.artifacts)
    files.update({f"artifacts/{place}": member for place, member in artifacts.items()})
    own_component = {
        "name": content.OWN,
        "version": content.own_version(request.collection),
        "sha256": tree_sha256(own),
        "license": "GPL-3.0-or-later",
        "kind": "collection",
    }
    return files, [*components, *more, own_component]


def add_compiled(request: Request, target: Target, files: Members) -> str:
    """Add byte code of the modules loaded first. Returns the compiling Python's release; empty if there is none."""
    program = compiled.interpreter(target.python) if request.compiled else ""
    if not program:
        return ""
    made, release = compiled.compile_files(files, program)
    files.update(made)
    return release


def build(request: Request, target: Target) -> Built:
    """Return one bundle, in memory. Raises BundleError."""
    files, components = collect_files(request, target)
    release = add_compiled(request, target, files)
    version = content.own_version(request.collection)
    contents = manifest.manifest(version, request.commit, target, request.epoch, components, release)
    files["MANIFEST.json"] = Member(manifest.to_json(contents))
    files["SUMS"] = Member(sums(files))
    data = archive(files, request.epoch)
    name = file_name(version, target)
    total = sum(len(member.data) for member in files.values())
    sbom = manifest.to_json(manifest.cyclonedx(contents, name, sha256(data)))
    return Built(name, data, sha256(data), total, contents, sbom)


def sbom_name(file: str) -> str:
    """Return the file name of an archive's bill of materials."""
    return file.replace(".tar.gz", ".cdx.json")


def write(built: Built, folder: Path, check: bool) -> bool:
    """Write the archive, its bill of materials and its checksum into ``folder``. Returns whether anything changed."""
    wanted = {
        built.file: built.data,
        sbom_name(built.file): built.sbom,
        f"{built.file}.sha256": f"{built.sha256}  {built.file}\n".encode(),
    }
    due = [name for name, data in wanted.items() if not _is(folder / name, data)]
    if not check:
        for name in due:
            write_file(folder / name, wanted[name])
    return bool(due)


def _is(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data
