# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Python packages of a bundle: downloaded by pip as pinned by a lock, and unpacked so that nodes need no pip."""

from __future__ import annotations

import email.parser
import re
import subprocess
import tempfile
import typing as t
import zipfile
from pathlib import Path

from .archive import BundleError, Member, Members, Target, sha256

# Platforms of binary wheels. They need glibc 2.28; all supported nodes have 2.34 or newer (Amazon Linux 2023, RHEL 9).
MACHINES = ("x86_64", "aarch64")
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
PIP_SECONDS = 600
# The only form of marker allowed in a node's lock.
CONDITION = re.compile(r"python_full_version (?P<operator><|>=) '(?P<major>\d+)\.(?P<minor>\d+)'")
# Files that never configure a node: tests of collections, other programs of ansible-core, documentation of filters
# and tests, and files for Windows. Each file takes time at the first start of a node and at each later one.
EXCLUDED = re.compile(
    r"^ansible_test/|\.dist-info/(RECORD|INSTALLER)\Z|\.pyc\Z|^[^/]+\.data/(scripts|data|headers)/"
    r"|^ansible/(galaxy/|cli/(adhoc|config|console|doc|galaxy|inventory|pull|vault)\.py\Z"
    r"|plugins/(filter|test)/[^/]+\.yml\Z|.*\.(ps1|psm1|cs)\Z)"
)
WHEEL_NAME = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")


class Wheel(t.NamedTuple):
    """One package: ``files`` by path below the site directory."""

    name: str
    version: str
    license: str
    sha256: str
    files: Members


def lock_hashes(text: str) -> dict[str, set[str]]:
    """Return the checksums allowed by a lock, by normalized package name."""
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
    """Return the normalized name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def core_version(lock: Path, python: str) -> str:
    """Return the ansible-core version that a lock pins for a Python, such as 2.19.14. Raises BundleError if none."""
    found = re.search(r"^ansible-core==([0-9.]+)", read_lock(lock, python), re.MULTILINE)
    if not found:
        raise BundleError(f"{lock} does not pin ansible-core: regenerate it with make lock")
    return found.group(1)


def read_lock(lock: Path, python: str) -> str:
    """Return the part of a lock that applies to a Python such as 3.12, without markers. Raises BundleError.

    pip evaluates markers for its own Python, even if ``--python-version`` names another one.
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
                f"{lock} pins {package} with the marker {condition}, but a node's lock may only set limits on "
                "python_full_version: remove the package or pin it without a marker"
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
            f"the lock {lock} cannot be read ({exc.strerror}): build from a checkout of the repository, or use the "
            "directory with its requirements"
        ) from exc


def run_pip(pip: t.Sequence[str], lock: Path, dest: Path, options: t.Sequence[str]) -> None:
    """Download the packages pinned by ``lock`` into ``dest``. Raises BundleError with pip's last error line."""
    command = [*pip, "--disable-pip-version-check", "-q", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", *options, "--dest", str(dest), "-r", str(lock)]
    try:
        completed = subprocess.run(
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
            f"pip could not fetch {lock.name} ({exc}): use a Python with pip, and configure a package index"
        ) from exc
    if completed.returncode:
        output = (
            [line for line in completed.stderr.splitlines() if "ERROR" in line]
            or completed.stderr.splitlines()
            or ["no error output"]
        )
        raise BundleError(
            f"pip could not fetch {lock.name}: {output[-1].strip()}; configure a package index that has it"
        )


def cached(
    pip: t.Sequence[str], lock: Path, python: str, cache: Path, key: str, options: t.Sequence[str]
) -> list[Path]:
    """Return the wheels of ``lock`` for ``key``; downloaded once, as a cache directory is complete or absent."""
    text = read_lock(lock, python)
    folder = cache / f"{key}-{sha256(text.encode())[:16]}"
    if not folder.is_dir():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as staging:
                fetched = Path(staging) / "wheels"
                fetched.mkdir()
                part = Path(staging) / lock.name
                part.write_text(text, encoding="utf-8")
                run_pip(pip, part, fetched, options)
                if not folder.is_dir():
                    fetched.rename(folder)
        except OSError as exc:
            if not folder.is_dir():
                raise BundleError(
                    f"{cache} cannot store the packages ({exc.strerror}): choose another cache directory"
                ) from exc
    return sorted(folder.glob("*.whl"))


def fetch(pip: t.Sequence[str], lock: Path, cache: Path, target: Target) -> list[Path]:
    """Return the wheels for a target, for each architecture; wheels without binary code appear once."""
    abi = f"cp{target.python.replace('.', '')}"
    found: dict[str, Path] = {}
    for machine in MACHINES:
        options = [
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
            options += ["--platform", f"{platform}_{machine}"]
        for wheel in cached(pip, lock, target.python, cache, f"py{target.python}-{machine}", options):
            found.setdefault(wheel.name, wheel)
    return [found[name] for name in sorted(found)]


def license_of(metadata: str) -> str:
    """Return the licence from a package's METADATA, verbatim; ``unknown`` if it names none."""
    fields = email.parser.HeaderParser().parsestr(metadata)
    classifiers = [value for value in fields.get_all("Classifier", []) if value.startswith("License ::")]
    short = (fields.get("License") or "").strip()
    names = [fields.get("License-Expression"), short if "\n" not in short else ""]
    names += [value.rpartition("::")[2].strip() for value in classifiers]
    return next((str(word) for word in names if word and str(word).lower() != "unknown"), "unknown")


def _file_path(name: str) -> str:
    """Return the path of a wheel's member in the site directory; empty for a member to skip."""
    if name.endswith("/") or EXCLUDED.search(name):
        return ""
    moved = re.match(r"[^/]+\.data/(?:purelib|platlib)/(.+)", name)
    return moved.group(1) if moved else name


def read_wheel(path: Path) -> Wheel:
    """Read one wheel and its files. Raises BundleError for any other file."""
    parsed_name = WHEEL_NAME.fullmatch(path.name)
    try:
        data = path.read_bytes()
        with zipfile.ZipFile(path) as source:
            members = [(info, _file_path(info.filename)) for info in source.infolist()]
            files = {
                file_path: Member(source.read(info), bool(info.external_attr >> 16 & 0o100))
                for info, file_path in members
                if file_path
            }
    except (OSError, zipfile.BadZipFile) as exc:
        raise BundleError(f"{path} is not a wheel ({exc}): remove it and build again") from exc
    metadata = [member.data for file_path, member in files.items() if file_path.endswith(".dist-info/METADATA")]
    if not parsed_name or len(metadata) != 1:
        raise BundleError(f"{path} is not a wheel (its name or its METADATA is missing): remove it and build again")
    license_name = license_of(metadata[0].decode("utf-8", "replace"))
    return Wheel(normalized(parsed_name["name"]), parsed_name["version"], license_name, sha256(data), files)


def site(paths: t.Sequence[Path], lock: Path, python: str) -> tuple[Members, list[dict[str, str]]]:
    """Return (files of the site directory, components) of these wheels, each checked against the lock.

    A package's wheels for several architectures share their Python files. Binary files have a name per architecture;
    an architecture without them uses the Python code.
    """
    allowed = lock_hashes(read_lock(lock, python))
    files: Members = {}
    components = []
    seen: set[str] = set()
    for path in paths:
        wheel = read_wheel(path)
        if wheel.sha256 not in allowed.get(wheel.name, set()):
            raise BundleError(f"{path} does not match {lock.name}: remove it and build again")
        for file_path, member in wheel.files.items():
            if wheel.name not in seen or file_path.endswith(".so"):
                files[file_path] = member
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
        raise BundleError(f"{', '.join(missing)} of {lock.name} could not be downloaded: empty the cache, build again")
    return files, components
