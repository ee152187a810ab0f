# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collections of a bundle: this one without its tests, and the parts of others that its roles use."""

from __future__ import annotations

import ast
import json
import re
import typing as t
from pathlib import Path

from .archive import BundleError, Member, Members, tree_sha256

OWN = "mlcluster.aws"
# Only what a node uses; the other dependencies in galaxy.yml are for the controller and the tests.
OTHERS = ("ansible.posix", "community.general")
OWN_PARTS = ("LICENSE", "README.md", "galaxy.yml", "MANIFEST.json", "artifacts.lock.yml", "meta/runtime.yml")
OWN_FOLDERS = ("plugins", "roles", "playbooks")
# For the controller alone: the role that creates clusters, with collections that a node does not have; the inventory;
# all playbooks but that of the hook.
CONTROLLER = re.compile(
    r"(roles/cluster|plugins/inventory|plugins/plugin_utils/_ec2)/"
    r"|playbooks/(?!configure_node\.yml\Z|tasks/node_role\.yml\Z)"
)
OTHER_PARTS = re.compile(r"(MANIFEST\.json|(COPYING|LICENSE)[^/]*|LICENSES/.*|meta/runtime\.yml)")
PLUGIN_IMPORT = re.compile(r"ansible_collections\.(?P<collection>\w+\.\w+)\.(?P<path>plugins\.[\w.]+)")


def read_tree(root: Path, base: Path) -> Members:
    """Return every file below ``root`` by its path below ``base``; no caches, no hidden files. Raises BundleError."""
    found: Members = {}
    paths = sorted(root.rglob("*")) if root.is_dir() else [root]
    for path in paths:
        place = path.relative_to(base)
        if path.suffix == ".pyc" or any(part == "__pycache__" or part.startswith(".") for part in place.parts):
            continue
        if path.is_symlink():
            raise BundleError(f"{path} is a symbolic link, which a bundle does not keep: put a file in its place")
        if path.is_file():
            found[place.as_posix()] = Member(path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


def own_version(root: Path) -> str:
    """Return this collection's version from MANIFEST.json (installed) or galaxy.yml (checkout). Raises BundleError."""
    try:
        if (root / "MANIFEST.json").is_file():
            return str(json.loads((root / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]["version"])
        text = (root / "galaxy.yml").read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError) as exc:
        raise BundleError(f"{root} is not a collection ({exc}): use the directory that holds galaxy.yml") from exc
    found = re.search(r"^version: *([0-9]+\.[0-9]+\.[0-9]+)$", text, re.MULTILINE)
    if not found:
        raise BundleError(f"{root / 'galaxy.yml'} has no version: add one, such as 1.0.0")
    return found.group(1)


def own_files(root: Path) -> Members:
    """Return the files of this collection that a node needs."""
    files: Members = {}
    for name in OWN_PARTS:
        if (root / name).is_file():
            files.update(read_tree(root / name, root))
    for name in OWN_FOLDERS:
        files.update(read_tree(root / name, root))
    return {place: member for place, member in files.items() if not CONTROLLER.match(place)}


def find(name: str, paths: t.Sequence[Path]) -> Path:
    """Return the directory of a collection below one of ``paths``. Raises BundleError."""
    for path in paths:
        root = path / "ansible_collections" / name.replace(".", "/")
        if (root / "MANIFEST.json").is_file():
            return root
    raise BundleError(
        f"the collection {name} is not in {', '.join(map(str, paths)) or 'any directory'}: install it with "
        "ansible-galaxy, or use the directory that contains it"
    )


class Needs:
    """The needed files of other collections, including those that they import."""

    def __init__(self, roots: t.Mapping[str, Path]) -> None:
        self.roots = roots
        self.found: dict[str, set[str]] = {name: set() for name in roots}

    def add_text(self, text: str, where: str) -> None:
        """Add every plugin that a task or template names in full. Raises BundleError for one that is not there."""
        for collection, root in self.roots.items():
            for name in sorted(set(re.findall(rf"(?<![\w.]){re.escape(collection)}\.([a-z]\w*)", text))):
                files = [*root.glob(f"plugins/*/{name}.py"), *root.glob(f"plugins/*/{name}.y*ml")]
                if not files:
                    raise BundleError(
                        f"{where} uses {collection}.{name}, which is missing from {root}: use another version of it"
                    )
                for path in files:
                    self._add(collection, path)

    def _add(self, collection: str, path: Path) -> None:
        root = self.roots[collection]
        place = path.relative_to(root).as_posix()
        if place in self.found[collection]:
            return
        self.found[collection].add(place)
        for folder in list(path.relative_to(root).parents)[:-1]:
            if (root / folder / "__init__.py").is_file():
                self.found[collection].add((folder / "__init__.py").as_posix())
        text = path.read_text(encoding="utf-8")
        for name in set(re.findall(rf"(?<![\w.]){re.escape(collection)}\.([a-z]\w*)", text)):
            # A documentation fragment carries options that a plugin reads when it runs.
            fragment = root / "plugins" / "doc_fragments" / f"{name}.py"
            if fragment.is_file():
                self._add(collection, fragment)
        if path.suffix == ".py":
            for dotted in _imports(text, collection, place):
                self._add_import(dotted, place)

    def _add_import(self, dotted: str, where: str) -> None:
        named = PLUGIN_IMPORT.fullmatch(dotted)
        if not named:
            return
        if named["collection"] not in self.roots:
            raise BundleError(
                f"{where} imports {dotted} of a collection that no bundle has: take another version of it"
            )
        root = self.roots[named["collection"]]
        base = root / named["path"].replace(".", "/")
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                self._add(named["collection"], path)


def _imports(text: str, collection: str, place: str) -> t.Iterator[str]:
    """Dotted names that a plugin may mean, in full: modules, and names in them that may be modules."""
    package = ["ansible_collections", *collection.split("."), *place.split("/")[:-1]]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def other_files(own: Members, roots: t.Mapping[str, Path]) -> dict[str, Members]:
    """Return the files of other collections that roles and playbooks need, with licences and metadata."""
    needs = Needs(roots)
    for place, member in own.items():
        if place.endswith((".yml", ".j2")) and place.startswith(("roles/", "playbooks/")):
            needs.add_text(member.data.decode("utf-8", "replace"), place)
    result = {}
    for name, root in roots.items():
        places = set(needs.found[name])
        if places:
            parts = [path for path in root.rglob("*") if path.is_file()]
            places |= {
                path.relative_to(root).as_posix()
                for path in parts
                if OTHER_PARTS.fullmatch(path.relative_to(root).as_posix())
            }
        result[name] = {place: Member((root / place).read_bytes()) for place in sorted(places)}
    return result


def check_core(name: str, root: Path, core: str) -> None:
    """Reject a collection that requires a newer ansible-core than ``core``. Raises BundleError."""
    path = root / "meta" / "runtime.yml"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.search(r"^requires_ansible: *['\"]?>= *([0-9]+)\.([0-9]+)", text, re.MULTILINE)
    if found and tuple(map(int, found.groups())) > tuple(int(part) for part in core.split(".")[:2]):
        raise BundleError(
            f"{name} in {root} needs ansible-core {'.'.join(found.groups())} and this bundle has {core}: use a "
            "directory with an older version of it"
        )


def component(name: str, root: Path, files: Members) -> dict[str, str]:
    """Return a collection's manifest entry; its sha256 covers only the files that are in the bundle."""
    info = json.loads((root / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]
    return {
        "name": name,
        "version": str(info["version"]),
        "sha256": tree_sha256(files),
        "license": " AND ".join(info.get("license") or []) or f"see {info.get('license_file') or 'its files'}",
        "kind": "collection",
    }
