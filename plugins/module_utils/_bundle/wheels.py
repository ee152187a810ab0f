# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Python packages of a bundle: fetched by pip as a lock pins them, and unpacked so that they need no pip."""

from __future__ import annotations

import email.parser
import re
import subprocess
import tempfile
import typing as t
import zipfile
from pathlib import Path

from .archive import BundleError, Member, Members, Target, sha256

# What the wheels of compiled packages are built for; each runs on glibc 2.28 and newer, and all supported nodes have
# 2.34 or newer (Amazon Linux 2023, RHEL 9).
MACHINES = ("x86_64", "aarch64")
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
PIP_SECONDS = 600
# The conditions that a lock of a node may set.
CONDITION = re.compile(r"python_full_version (?P<operator><|>=) '(?P<major>\d+)\.(?P<minor>\d+)'")
# ansible_test tests collections and never configures a node.
LEFT_OUT = re.compile(r"^ansible_test/|\.dist-info/(RECORD|INSTALLER)\Z|\.pyc\Z|^[^/]+\.data/(scripts|data|headers)/")
WHEEL_NAME = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")


class Wheel(t.NamedTuple):
    """One package: ``files`` by path below the site directory."""

    name: str
    version: str
    license: str
    sha256: str
    files: Members


def lock_hashes(text: str) -> dict[str, set[str]]:
    """The sums that a lock allows, by normalized package name."""
    found: dict[str, set[str]] = {}
    name = ""
    for line in text.splitlines():
        start = re.match(r"([A-Za-z0-9._-]+)==", line)
        if start:
            name = normalized(start.group(1))
        for value in re.findall(r"--hash=sha256:([0-9a-f]{64})", line):
            found.setdefault(name, set()).add(value)
    return found


def normalized(name: str) -> str:
    """A package's name as the index knows it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def core_version(lock: Path, python: str) -> str:
    """The ansible-core that a lock pins for a Python, such as 2.19.14. Raises BundleError where it pins none."""
    found = re.search(r"^ansible-core==([0-9.]+)", read_lock(lock, python), re.MULTILINE)
    if not found:
        raise BundleError(f"{lock} pins no ansible-core: write it again with make lock")
    return found.group(1)


def read_lock(lock: Path, python: str) -> str:
    """The part of a lock that applies to a Python such as 3.12, without conditions. Raises BundleError.

    pip evaluates conditions with its own Python, also where ``--python-version`` asks for another one.
    """
    version = tuple(map(int, python.split(".")))
    kept, applies = [], True
    for line in _lock_text(lock).splitlines(keepends=True):
        if line.startswith((" ", "#")):
            kept.append(line if applies else "")
            continue
        package, _semicolon, condition = line.rstrip("\\ \n").partition(" ; ")
        limit = CONDITION.fullmatch(condition)
        if condition and not limit:
            raise BundleError(
                f"{lock} pins {package} on the condition {condition}, and a lock of a node may only set limits on "
                "python_full_version: leave the package out or pin it without a condition"
            )
        later = limit and version >= (int(limit["major"]), int(limit["minor"]))
        applies = not limit or later is (limit["operator"] == ">=")
        if applies:
            kept.append(line.replace(f" ; {condition}", "") if condition else line)
    return "".join(kept)


def _lock_text(lock: Path) -> str:
    try:
        return lock.read_text(encoding="utf-8")
    except OSError as exc:
        raise BundleError(
            f"the lock {lock} cannot be read ({exc.strerror}): build from a checkout of the repository, or give the "
            "directory with its requirements"
        ) from exc


def run_pip(pip: t.Sequence[str], lock: Path, dest: Path, words: t.Sequence[str]) -> None:
    """Let pip fetch into ``dest`` what ``lock`` pins. Raises BundleError with pip's own last words."""
    command = [*pip, "--disable-pip-version-check", "-q", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", *words, "--dest", str(dest), "-r", str(lock)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=PIP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise BundleError(
            f"pip could not fetch {lock.name} ({exc}): give a Python that has pip, and a package index"
        ) from exc
    if done.returncode:
        said = (
            [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines() or ["no words"]
        )
        raise BundleError(f"pip could not fetch {lock.name}: {said[-1].strip()}; give it a package index that has it")


def cached(pip: t.Sequence[str], lock: Path, python: str, cache: Path, key: str, words: t.Sequence[str]) -> list[Path]:
    """The wheels of ``lock`` for ``key``, fetched once: a directory of the cache is whole or absent."""
    text = read_lock(lock, python)
    folder = cache / f"{key}-{sha256(text.encode())[:16]}"
    if not folder.is_dir():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as aside:
                fetched = Path(aside) / "wheels"
                fetched.mkdir()
                part = Path(aside) / lock.name
                part.write_text(text, encoding="utf-8")
                run_pip(pip, part, fetched, words)
                if not folder.is_dir():
                    fetched.rename(folder)
        except OSError as exc:
            if not folder.is_dir():
                raise BundleError(f"{cache} cannot keep the packages ({exc.strerror}): name another cache") from exc
    return sorted(folder.glob("*.whl"))


def fetch(pip: t.Sequence[str], lock: Path, cache: Path, target: Target) -> list[Path]:
    """The wheels for a target, for each machine type; those without compiled code are there once."""
    abi = f"cp{target.python.replace('.', '')}"
    found: dict[str, Path] = {}
    for machine in MACHINES:
        words = [
            "--python-version",
            target.python,
            "--implementation",
            "cp",
            "--abi",
            abi,
            "--abi",
            "abi3",
            "--abi",
            "none",
        ]
        for platform in PLATFORMS:
            words += ["--platform", f"{platform}_{machine}"]
        for wheel in cached(pip, lock, target.python, cache, f"py{target.python}-{machine}", words):
            found.setdefault(wheel.name, wheel)
    return [found[name] for name in sorted(found)]


def license_of(metadata: str) -> str:
    """The licence that a package's METADATA gives, in its own words; ``unknown`` where it gives none."""
    fields = email.parser.HeaderParser().parsestr(metadata)
    classifiers = [value for value in fields.get_all("Classifier", []) if value.startswith("License ::")]
    short = (fields.get("License") or "").strip()
    words = [fields.get("License-Expression"), short if "\n" not in short else ""]
    words += [value.rpartition("::")[2].strip() for value in classifiers]
    return next((str(word) for word in words if word and str(word).lower() != "unknown"), "unknown")


def _file_path(name: str) -> str:
    """Where a member of a wheel lies in the site directory; empty for what is left out."""
    if name.endswith("/") or LEFT_OUT.search(name):
        return ""
    moved = re.match(r"[^/]+\.data/(?:purelib|platlib)/(.+)", name)
    return moved.group(1) if moved else name


def read_wheel(path: Path) -> Wheel:
    """One wheel with its files. Raises BundleError for what is none."""
    named = WHEEL_NAME.fullmatch(path.name)
    try:
        data = path.read_bytes()
        with zipfile.ZipFile(path) as source:
            members = [(info, _file_path(info.filename)) for info in source.infolist()]
            files = {
                place: Member(source.read(info), bool(info.external_attr >> 16 & 0o100))
                for info, place in members
                if place
            }
    except (OSError, zipfile.BadZipFile) as exc:
        raise BundleError(f"{path} is no wheel ({exc}): remove it and build again") from exc
    metadata = [member.data for place, member in files.items() if place.endswith(".dist-info/METADATA")]
    if not named or len(metadata) != 1:
        raise BundleError(f"{path} is no wheel (its name or its METADATA is missing): remove it and build again")
    words = license_of(metadata[0].decode("utf-8", "replace"))
    return Wheel(normalized(named["name"]), named["version"], words, sha256(data), files)


def site(paths: t.Sequence[Path], lock: Path, python: str) -> tuple[Members, list[dict[str, str]]]:
    """(files of the site directory, components) of these wheels, each checked against the lock.

    Of a package's builds for several machines the Python files are the same; each machine's compiled files have
    names of their own, and a machine without any falls back on the Python ones.
    """
    allowed = lock_hashes(read_lock(lock, python))
    files: Members = {}
    components = []
    seen: set[str] = set()
    for path in paths:
        wheel = read_wheel(path)
        if wheel.sha256 not in allowed.get(wheel.name, set()):
            raise BundleError(f"{path} is not what {lock.name} pins: remove it and build again")
        for place, member in wheel.files.items():
            if wheel.name not in seen or place.endswith(".so"):
                files[place] = member
        seen.add(wheel.name)
        components.append(
            {
                "name": wheel.name,
                "version": wheel.version,
                "sha256": wheel.sha256,
                "license": wheel.license,
                "kind": "python",
                "file": path.name,
            }
        )
    missing = sorted(set(allowed) - seen)
    if missing:
        raise BundleError(f"{', '.join(missing)} of {lock.name} could not be had: empty the cache and build again")
    return files, components
