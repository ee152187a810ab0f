# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Python environments and the Ansible collections that come from the ``ansible`` wheel. Complete ones are kept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .packages import SetupError

CHECKOUT = Path(__file__).resolve().parents[2]
REQUIREMENTS = CHECKOUT / "requirements"
# For Python 3.12, with PyTorch's CUDA build: what docs/data.md installs on nodes, and the image.
TRAINING_IMAGE = CHECKOUT / "roles" / "training_image" / "files" / "training-requirements.txt"
STAMP = ".complete"
# In an environment that could not be made: the key that it was to have.
MISSING = ".not-had"
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


def find_python(version: str) -> str | None:
    """Return an interpreter of this version that can make an environment, from the PATH or pyenv, or None.

    A found one need not run: version managers leave stand-ins for versions that are not chosen. The interpreter behind
    a stand-in or an environment is returned.
    """
    homes = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"), reverse=True)
    on_path = [Path(folder, f"python{version}") for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    for program in map(str, (*on_path, *homes)):
        code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2], sys._base_executable)"
        command = [program, "-c", code]
        if os.access(program, os.X_OK):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            found, _blank, executable = done.stdout.strip().partition(" ")
            if found == version:
                return executable
    return None


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock of this checkout: two set-ups at once would delete each other's half-made environment."""
    (CHECKOUT / ".build").mkdir(exist_ok=True)
    with open(CHECKOUT / ".build" / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def show(text: str) -> None:
    """Print a line of progress at once."""
    print(text, flush=True)


def lock_without(lock: Path, package: str) -> str:
    """Return a lock without the pins of one package."""
    kept, wanted = [], True
    for line in lock.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.startswith((" ", "#")):
            wanted = not line.startswith(f"{package}==")
        kept.append(line if wanted else "")
    return "".join(kept)


def environment_key(locks: Sequence[Path], where: Path, python: str) -> str:
    """Return a key of everything that an environment depends on: its locks, the interpreter, its own path."""
    facts = [*(lock.read_text(encoding="utf-8") for lock in locks), python, sys.version, sys.base_prefix, str(where)]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def is_complete(folder: Path, key: str) -> bool:
    """Return whether ``folder`` was finished with exactly this key."""
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == key


def _run(command: list[str], what: str) -> None:
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
        raise SetupError(f"{what} failed (the output of {Path(command[0]).name} is above): correct that and try again.")


def _pip(where: Path) -> list[str]:
    return [str(where / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-qq"]


def install(where: Path, lock: Path, partial: bool = False) -> None:
    """Install what ``lock`` pins; ``partial``: it leaves out some requirements of its packages."""
    options = ["--no-deps"] if partial else []
    _run([*_pip(where), "install", *options, "--require-hashes", "--requirement", str(lock)], f"Installing {lock.name}")


def install_beside(python: Path, lock: Path, target: Path) -> None:
    """Install what ``lock`` pins into the folder ``target``, for one program to have on its path."""
    options = ["--no-deps", "--require-hashes", "--requirement", str(lock), "--target", str(target)]
    _run([*_pip(python.parents[1]), "install", *options], f"Installing {lock.name}")


def _install_build(where: Path, build: Path, index: str) -> None:
    """Install the one package that ``build`` pins: from where pip looks by itself, else from ``index``."""
    command = [*_pip(where), "install", "--no-deps", "--require-hashes", "--requirement", str(build)]
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
        _run([*command, "--index-url", index], f"Installing {build.name}")


def ensure_environment(
    where: Path,
    lock: Path,
    build: Path | None = None,
    index: str = "",
    partial: bool = False,
    python: str = sys._base_executable,
) -> Path:
    """Return the Python of the venv ``where``, which is made from ``lock`` if it is stale or incomplete.

    ``build`` pins one more package, whose build only the package index ``index`` offers. ``partial`` is that of
    ``install``. ``python`` makes the environment.
    """
    key = environment_key([lock, *([build] if build else [])], where, python)
    if not is_complete(where, key):
        show(f"{where.name}: installing {lock.name}")
        shutil.rmtree(where, ignore_errors=True)
        _run([python, "-m", "venv", str(where)], f"Making the Python environment {where.name}")
        install(where, lock, partial)
        if build:
            _install_build(where, build, index)
        (where / STAMP).write_text(key, encoding="utf-8")
    return where / "bin" / "python"


def ensure_data(where: Path, retry: bool) -> None:
    """Make the environment of the data programs; if that is not possible, print why and continue.

    Only the sessions slurm and data need it, and they fail without it. With unchanged pins it is not tried again, which
    would take a minute of every ``make``, unless ``retry`` is true.
    """
    # The CPU build of torch that is pinned is one for Python 3.11.
    python = sys._base_executable if sys.version_info[:2] == (3, 11) else find_python("3.11")
    left_out = f"{where.name}: left out, so the sessions slurm and data cannot run:"
    if python is None:
        show(f"{left_out} there is no Python 3.11; install it and try again")
        return
    lock, build, mark = REQUIREMENTS / "data.txt", REQUIREMENTS / "torch-cpu.txt", where / MISSING
    key = environment_key([lock, build], where, python)
    if not retry and mark.is_file() and mark.read_text(encoding="utf-8") == key:
        show(f"{left_out} the pinned build of torch was missing before; make setup RETRY=1 tries again")
        return
    try:
        ensure_environment(where, lock, build=build, index=TORCH_INDEX, python=python)
    except SetupError as error:
        show(f"{left_out} {error}")
        where.mkdir(exist_ok=True)
        mark.write_text(key, encoding="utf-8")


def extract(wheel: Path, names: tuple[str, ...], root: Path) -> None:
    """Take the collections ``names`` out of ``wheel`` into ``root``; each is whole or absent there."""
    with zipfile.ZipFile(wheel) as archive:
        members = archive.namelist()
        for name in names:
            prefix = f"ansible_collections/{name.replace('.', '/')}/"
            wanted = [member for member in members if member.startswith(prefix)]
            if not wanted:
                raise SetupError(f"{wheel.name} holds no collection {name}: correct COLLECTIONS in environments.py.")
            target = root / prefix
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=root) as aside:
                archive.extractall(aside, wanted)
                shutil.rmtree(target, ignore_errors=True)
                os.replace(Path(aside) / prefix, target)


def ensure_collections(root: Path, lock: Path, python: Path) -> None:
    """Fill ``root``/ansible_collections from the wheel that ``lock`` pins, and show the checkout there as our own."""
    root.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256("\0".join([lock.read_text(encoding="utf-8"), *COLLECTIONS]).encode()).hexdigest()
    if not is_complete(root, key):
        show(f"collections: fetching the wheel of {lock.name}")
        (root / STAMP).unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as download:
            options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", download, "-r", str(lock)]
            _run([*_pip(python.parents[1]), "download", *options], "Fetching the collections")
            (wheel,) = Path(download).glob("ansible-*.whl")
            extract(wheel, COLLECTIONS, root)
        (root / STAMP).write_text(key, encoding="utf-8")
    ensure_link(root, CHECKOUT)


def ensure_link(root: Path, checkout: Path) -> None:
    """Show the checkout to Ansible as the collection mlcluster.aws."""
    link = root / "ansible_collections" / "mlcluster" / "aws"
    link.parent.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(checkout, link.parent)
    if not link.is_symlink() or os.readlink(link) != target:
        link.unlink(missing_ok=True)
        link.symlink_to(target)
