# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small wheels, locks and collections, in the place of those that a package index offers."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import build

RUNTIME = "requires_ansible: '>=2.16.0'\n"


def write(path: Path, text: str) -> Path:
    """A file with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def wheel(folder: Path, name: str, version: str = "1.0", tag: str = "py3-none-any", **more: str) -> Path:
    """A wheel with one package; ``more`` are files by path (``/`` as ``__``) or ``metadata`` lines."""
    path = folder / f"{name}-{version}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = more.pop("metadata", "License-Expression: MIT\n")
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}\nText.\n",
        f"{info}/RECORD": "whatever\n",
        f"{name}/__init__.py": f"VERSION = {version!r}\n",
        **{place.replace("__", "/"): text for place, text in more.items()},
    }
    with zipfile.ZipFile(path, "w") as target:
        for place, text in files.items():
            # With a date of its own: by its name alone it would have the clock's, and other bytes two seconds later.
            target.writestr(zipfile.ZipInfo(place), text)
    return path


def lock(path: Path, *wheels: Path) -> Path:
    """A lock of these wheels."""
    text = ""
    for entry in wheels:
        name, version = entry.name.split("-")[:2]
        digest = hashlib.sha256(entry.read_bytes()).hexdigest()
        text += f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{digest}\n"
    return write(path, text)


def collection(root: Path, name: str, runtime: str = RUNTIME, **plugins: str) -> Path:
    """A collection below ``root``; ``plugins`` are files by path below plugins (``/`` as ``__``, .py added)."""
    folder = root / "ansible_collections" / name.replace(".", "/")
    info = {"version": "3.2.1", "license": ["GPL-3.0-or-later"], "license_file": None}
    write(folder / "MANIFEST.json", json.dumps({"collection_info": info}))
    write(folder / "meta" / "runtime.yml", runtime)
    write(folder / "COPYING", "The licence.\n")
    write(folder / "docs" / "guide.md", "Not for a node.\n")
    for place, text in plugins.items():
        write(folder / "plugins" / f"{place.replace('__', '/')}.py", text)
    return folder


def checkout(root: Path) -> Path:
    """A collection mlcluster.aws of a few lines."""
    write(root / "galaxy.yml", "namespace: mlcluster\nname: aws\nversion: 1.2.3\n")
    write(root / "LICENSE", "GPL\n")
    write(root / "meta" / "runtime.yml", "requires_ansible: '>=2.17.0'\n")
    write(root / "plugins" / "modules" / "ours.py", "X = 1\n")
    write(root / "roles" / "one" / "tasks" / "main.yml", "- ansible.posix.mount:\n")
    write(root / "playbooks" / "configure_node.yml", "- hosts: localhost\n")
    write(root / "hooks" / "mlcluster_boot" / "main.py", "def main(argv):\n    print('ran', argv)\n    return 7\n")
    write(root / "hooks" / "bundle_entry.py", "print('entry')\n")
    write(root / "hooks" / "on_node_configured.sh", "#!/bin/bash\n")
    return root


def request(folder: Path, **more: object) -> build.Request:
    """All that a build needs, for Python 3.11, without a package index: its cache is filled."""
    wheels = [wheel(folder / "w", "ansible_core", "2.19.1"), wheel(folder / "w", "ansible_runner", "2.4.0")]
    requirements = folder / "requirements"
    locked = lock(requirements / "node.txt", *wheels)
    key = hashlib.sha256(locked.read_bytes()).hexdigest()[:16]
    for machine in ("x86_64", "aarch64"):
        kept = folder / "cache" / f"py3.11-{machine}-{key}"
        kept.mkdir(parents=True, exist_ok=True)
        for entry in wheels:
            (kept / entry.name).write_bytes(entry.read_bytes())
    collection(folder / "others", "ansible.posix", modules__mount="Y = 1\n")
    collection(folder / "others", "community.general")
    wanted = {
        "collection": checkout(folder / "checkout"),
        "requirements": requirements,
        "others": [folder / "others"],
        "others_lock": "bundle.txt",
        "artifacts": [],
        "cache": folder / "cache",
        "pip": ["false"],
        "commit": "c0ffee",
        "epoch": 1_700_000_000,
    }
    return build.Request(**{**wanted, **more})
