# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Python environments and the Ansible collections that come from the `ansible` bundle wheel."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from .packages import SetupError

STAMP = ".complete"
# PyTorch's own index of builds without CUDA.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
COLLECTIONS = (
    "amazon.aws",
    "ansible.posix",
    "community.general",
    "community.library_inventory_filtering_v1",
    "containers.podman",
)


def require_python(version: tuple[int, int]) -> None:
    """Raise SetupError for a Python that the locks do not serve."""
    if version < (3, 11):
        raise SetupError(
            f"Python 3.11 or newer is needed and this is {version[0]}.{version[1]}:"
            " call make PYTHON=/path/to/python3.11"
        )


def find_python(name: str) -> str | None:
    """The first interpreter of that name on the path that can make an environment; None where there is none.

    One that is found need not run: version managers leave stand-ins for versions that are not chosen.
    """
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = os.path.join(folder, name)
        if os.access(program, os.X_OK):
            command = [program, "-c", "import ensurepip, venv"]
            if subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0:
                return program
    return None


def environment_key(locks: Sequence[Path], where: Path, python: str) -> str:
    """Everything that makes an environment stale: its locks, the interpreter, its own place."""
    facts = [*(lock.read_text(encoding="utf-8") for lock in locks), python, sys.version, sys.base_prefix, str(where)]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def is_complete(folder: Path, key: str) -> bool:
    """Whether ``folder`` was finished with exactly this key."""
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == key


def _run(command: list[str], what: str) -> None:
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
        raise SetupError(f"{what} failed (the words of {Path(command[0]).name} are above): mend that and try again.")


def pip_of(where: Path) -> list[str]:
    """The command that installs into the venv ``where``."""
    return [str(where / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-qq"]


def install(where: Path, lock: Path, partial: bool = False) -> None:
    """Install what ``lock`` pins; ``partial``: it leaves out some of what its packages say that they need."""
    options = ["--no-deps"] if partial else []
    _run(
        [*pip_of(where), "install", *options, "--require-hashes", "--requirement", str(lock)], f"Installing {lock.name}"
    )


def install_beside(python: Path, lock: Path, target: Path) -> None:
    """Install what ``lock`` pins into the folder ``target``, for one program to have on its path."""
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-qq"]
    options = ["--no-deps", "--require-hashes", "--requirement", str(lock), "--target", str(target)]
    _run([*pip, "install", *options], f"Installing {lock.name}")


def _install_build(pip: list[str], build: Path, index: str) -> None:
    """Install the one package that ``build`` pins: from where pip looks by itself, else from ``index``."""
    command = [*pip, "install", "--no-deps", "--require-hashes", "--requirement", str(build)]
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
        _run([*command, "--index-url", index], f"Installing {build.name}")


def ensure_environment(
    where: Path,
    lock: Path,
    say,
    build: Path | None = None,
    index: str = "",
    partial: bool = False,
    python: str = sys.executable,
) -> None:
    """Make the venv ``where`` from ``lock``, anew when it is stale or was left half made.

    ``build`` pins one more package, whose build is offered by the package index ``index`` only. ``partial``
    is that of ``install``. ``python`` makes the environment.
    """
    key = environment_key([lock, *([build] if build else [])], where, python)
    if is_complete(where, key):
        say(f"{where.name}: up to date")
        return
    say(f"{where.name}: installing {lock.name}")
    shutil.rmtree(where, ignore_errors=True)
    _run([python, "-m", "venv", str(where)], f"Making the Python environment {where.name}")
    install(where, lock, partial)
    if build:
        _install_build(pip_of(where), build, index)
    (where / STAMP).write_text(key, encoding="utf-8")


def extract(wheel: Path, names: tuple[str, ...], root: Path) -> list[str]:
    """Take the collections ``names`` out of ``wheel`` into ``root``; returns ``name version`` texts.

    Each is unpacked aside and then renamed, so that a collection is whole or absent.
    """
    done = []
    with zipfile.ZipFile(wheel) as archive:
        members = archive.namelist()
        for name in names:
            prefix = f"ansible_collections/{name.replace('.', '/')}/"
            wanted = [member for member in members if member.startswith(prefix)]
            if not wanted:
                raise SetupError(
                    f"{wheel.name} holds no collection {name}: correct the list in tests/build/environments.py."
                )
            target = root / prefix
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=root) as aside:
                archive.extractall(aside, wanted)
                shutil.rmtree(target, ignore_errors=True)
                os.replace(Path(aside) / prefix, target)
            manifest = json.loads((target / "MANIFEST.json").read_text(encoding="utf-8"))
            done.append(f"{name} {manifest['collection_info']['version']}")
    return done


def ensure_collections(root: Path, lock: Path, python: Path, say) -> None:
    """Fill ``root``/ansible_collections from the bundle wheel that ``lock`` pins by checksum."""
    key = hashlib.sha256("\0".join([lock.read_text(encoding="utf-8"), *COLLECTIONS]).encode()).hexdigest()
    if is_complete(root, key):
        say("collections: up to date")
        return
    say(f"collections: fetching the bundle of {lock.name}")
    (root / STAMP).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as download:
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-qq", "download"]
        _run(
            [*pip, "--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", download, "-r", str(lock)],
            "Fetching the collections",
        )
        (wheel,) = Path(download).glob("*.whl")
        for line in extract(wheel, COLLECTIONS, root):
            say(f"collections: {line}")
    (root / STAMP).write_text(key, encoding="utf-8")


def ensure_link(root: Path, checkout: Path) -> None:
    """Show the checkout to Ansible as the collection mlcluster.aws."""
    link = root / "ansible_collections" / "mlcluster" / "aws"
    link.parent.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(checkout, link.parent)
    if not link.is_symlink() or os.readlink(link) != target:
        link.unlink(missing_ok=True)
        link.symlink_to(target)
