# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of an unpacked bundle on a node, against a squashfs image of the same files, and what a zip could hold.

CPU seconds of all processes of a step, the median of several rounds in one run. Steps marked "boot" come at each start
of the hook, the others once. Loading is ``bin/run-node --version``, which loads Ansible whole. A zip can hold only what
does not look for files beside itself: this measures the packages without Ansible, and shows that Ansible refuses.
The image needs root and mksquashfs (package squashfs-tools), and is left out otherwise.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.bench.bench_boot_hook import ROOT, call, cpu, make_bundle

ROUNDS = 5
HOOK = ROOT / "hooks/on_node_configured.sh"
# Imports of a node beside Ansible that can come from a zip.
IMPORT = "import sys; sys.path.insert(0, sys.argv[1])\nimport jinja2, packaging.version, pexpect, daemon, lockfile"
IMPORT_ANSIBLE = "import sys; sys.path.insert(0, sys.argv[1])\nimport ansible.cli.playbook"


def python() -> str:
    """Return the Python that runs this, outside of its virtual environment."""
    return str(getattr(sys, "_base_executable", sys.executable))


def by_hook(words: str, *arguments: str) -> None:
    """Run functions of the hook."""
    call("bash", "-c", f'. "$0"; export LC_ALL=C; {words}', str(HOOK), *arguments)


def load(tree: Path) -> None:
    """Load the runner and Ansible from a tree."""
    call(python(), "-I", "-B", str(tree / "mlcluster-bundle/bin/run-node"), "--version")


def spent(step: Callable[[], object]) -> float:
    """CPU seconds of the processes that a step starts."""
    row: dict[str, Any] = {}
    with cpu(row):
        step()
    return float(row["cpu"])


def tar_round(folder: Path, bundle: Path) -> dict[str, float]:
    """Unpack, record, prove, load and remove, as the hook does."""
    tree = folder / "tree"
    tree.mkdir()
    record = 'record_tree "$1" >"$1/record"'
    prove = '[ -z "$(changed_since "$1")" ]'
    return {
        "tar: unpack": spent(lambda: call("tar", "-xzf", str(bundle), "-C", str(tree))),
        "tar: record": spent(lambda: by_hook(record, str(tree))),
        "tar: prove (boot)": spent(lambda: by_hook(prove, str(tree))),
        "tar: load (boot)": spent(lambda: load(tree)),
        "tar: remove": spent(lambda: call("rm", "-rf", str(tree))),
    }


def squashfs_round(folder: Path, image: Path) -> dict[str, float]:
    """Prove the image, mount it, load from it, unmount it. The page cache of a first boot is empty."""
    place = folder / "mounted"
    place.mkdir(exist_ok=True)
    mounts = {"squashfs: prove (boot)": spent(lambda: call("sha256sum", str(image)))}
    mounts["squashfs: mount (boot)"] = spent(
        lambda: call("mount", "-o", "loop,ro", "-t", "squashfs", str(image), str(place))
    )
    try:
        mounts["squashfs: load (boot)"] = spent(lambda: load(place))
    finally:
        mounts["squashfs: unmount"] = spent(lambda: call("umount", str(place)))
    return mounts


def zip_round(tree: Path, archive: Path) -> dict[str, float]:
    """Load what a zip can hold from it, and from files."""
    return {
        "files: load without Ansible": spent(lambda: call(python(), "-I", "-B", "-c", IMPORT, str(tree))),
        "zip: load without Ansible": spent(lambda: call(python(), "-I", "-B", "-c", IMPORT, str(archive))),
    }


def make_zip(site: Path, target: Path) -> None:
    """A zip of packages with what is compiled of them."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for path in sorted(site.rglob("*")):
            if path.is_file():
                made.write(path, path.relative_to(site))


def refusal(archive: Path) -> str:
    """Return the error of Ansible when it is imported from a zip; empty if it is imported."""
    done = call(python(), "-I", "-B", "-c", IMPORT_ANSIBLE, str(archive), check=False)
    return (done.stderr.strip().splitlines() or [""])[-1] if done.returncode else ""


def measure() -> dict[str, Any]:
    """Measure all ways in turn, ROUNDS times. Raises RigError."""
    images = os.getuid() == 0 and shutil.which("mksquashfs") is not None
    folder = Path(tempfile.mkdtemp(prefix="mlcluster-bench-"))
    try:
        bundle, image, archive = folder / "bundle.tar.gz", folder / "bundle.sqsh", folder / "site.zip"
        make_bundle(bundle)
        whole = folder / "whole"
        whole.mkdir()
        call("tar", "-xzf", str(bundle), "-C", str(whole))
        if images:
            call("mksquashfs", str(whole), str(image), "-quiet", "-no-progress", "-comp", "zstd")
        site = whole / "mlcluster-bundle/site"
        make_zip(site, archive)
        rounds = []
        for _round in range(ROUNDS):
            mounted = squashfs_round(folder, image) if images else {}
            rounds.append({**tar_round(folder, bundle), **mounted, **zip_round(site, archive)})
        sizes = {"tar.gz": bundle.stat().st_size, "squashfs": image.stat().st_size if images else 0}
        refused = refusal(archive)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    steps = {name: statistics.median(row[name] for row in rounds) for name in rounds[0]}
    return {"bench": "unpacking", "steps": steps, "bytes": sizes, "zip_refusal": refused}


def table(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as lines of text."""
    lines = ["bundle on a node, CPU seconds"]
    lines += [f"  {name:<30}{seconds:>7.3f}" for name, seconds in figures["steps"].items()]
    for way in ("tar", "squashfs"):
        mine = {name: value for name, value in figures["steps"].items() if name.startswith(f"{way}:")}
        boot = sum(value for name, value in mine.items() if name.endswith("(boot)"))
        if not mine:
            continue
        lines.append(f"  {way}: first start {sum(mine.values()):.2f}, each later start {boot:.2f}")
    return [*lines, f"  Ansible from a zip: {figures['zip_refusal'] or 'is imported'}"]
