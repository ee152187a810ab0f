# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role efa_nccl, their defaults and limits."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t

from ..accelerator.cuda import CUDA_HOME
from ..accelerator.versions import minima_problems
from ..system.argument_types import given, spec_of
from ..system.host import NodeError
from . import environment as nccl_env
from .look import DEFAULT_UNITS, LONGEST_WAIT, MAX_DEVICES

PACKAGE_LISTS = (
    "driver_packages",
    "fabric_manager_packages",
    "nccl_packages",
    "gdrcopy_packages",
    "nvshmem_packages",
    "neuron_packages",
)


_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA256_WANTED = "use 64 hexadecimal digits in lower case"
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
# The installer's getopt(1) accepts combined short options and abbreviated long options: neither may hide --uninstall.
_OPTION = re.compile(r"-[a-tv-z]|--(?!u[a-z]*(?:=|\Z))[a-z][a-z0-9-]*(?:=[a-z0-9.,_-]+)?")
_MAKE_ARGUMENT = re.compile(r"(?!(?:MPI|MPI_HOME|CUDA_HOME|SHELL|MAKEFLAGS)=)[A-Z][A-Z0-9_]*=[^\n]*")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")
_PACKAGE_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~^_-]*")
_PACKAGE_URL = re.compile(r"https?://[^\s/@]+/\S+")
_HELD = re.compile(r"[A-Za-z0-9*][A-Za-z0-9+._*-]*")
_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._-]*(?<!@)\.service")
_DAEMON = re.compile(r"[A-Za-z0-9@._-]+")
_LIMITS = (("wait_seconds", 0, LONGEST_WAIT), ("expected_devices", 0, MAX_DEVICES), ("huge_pages", 0, 1 << 24))


@dataclasses.dataclass(frozen=True)
class EfaConfig:
    """The options of the role efa_nccl; times in seconds. Options without a default are None where they are not set.

    The lists of packages have mappings with name and version and, for a file, url and sha256.
    """

    installer_enabled: bool = True
    installer_version: str = "1.51.0"
    installer_sha256: str = ""
    installer_source: str = "upstream"
    mirror: str = ""
    installer_file: str = ""
    installer_variant: str = "full"
    installer_arguments: tuple[str, ...] = ()
    installer_timeout: int = 1800
    existing: str = "upgrade"
    check_signature: bool = True
    fingerprint: str = "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC"
    signing_key: str = ""
    safe_mode: bool = True
    required: bool = True
    reboot_allowed: bool = False
    image_build: bool = False
    accelerator: str = "auto"
    instance_type: str | None = None
    expected_devices: int | None = None
    wait_seconds: int = 30
    peers: tuple[str, ...] = ()
    minima: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    driver_packages: tuple[t.Mapping[str, t.Any], ...] = ()
    fabric_manager_packages: tuple[t.Mapping[str, t.Any], ...] = ()
    nccl_packages: tuple[t.Mapping[str, t.Any], ...] = ()
    gdrcopy_packages: tuple[t.Mapping[str, t.Any], ...] = ()
    nvshmem_packages: tuple[t.Mapping[str, t.Any], ...] = ()
    neuron_packages: tuple[t.Mapping[str, t.Any], ...] = ()
    tests: str = "none"
    tests_dir: str = "/opt/nccl-tests"
    tests_version: str = "2.19.6"
    tests_sha256: str = ""
    cuda_home: str = CUDA_HOME
    mpi_home: str = "/opt/amazon/openmpi"
    tests_arguments: tuple[str, ...] = ()
    hold: bool = True
    hold_packages: tuple[str, ...] = ()
    needrestart_keep: tuple[str, ...] = (
        "slurmd",
        "slurmctld",
        "munge",
        "containerd",
        "docker",
        "nvidia-fabricmanager",
        "nvidia-persistenced",
    )
    limits_enabled: bool = True
    limit_units: tuple[str, ...] = DEFAULT_UNITS
    restart_units: bool = False
    ptrace_scope: int = 0
    huge_pages: int | None = None
    environment_enabled: bool = True
    environment: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    modulefile_dir: str = ""
    artifact: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    tests_artifact: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    builds_tests: bool = True

    @property
    def packages(self) -> tuple[t.Mapping[str, t.Any], ...]:
        """Return all pinned packages, in the order of their options."""
        gpu = (*self.driver_packages, *self.fabric_manager_packages, *self.nccl_packages)
        return (*gpu, *self.gdrcopy_packages, *self.nvshmem_packages, *self.neuron_packages)

    @property
    def sha256(self) -> str:
        """Return the sha256 of the installer; empty if it is unknown."""
        return self.installer_sha256 or self.artifact.get("sha256", "")

    @property
    def sha256_source(self) -> str:
        """Return where that checksum was read, or the variable that sets it."""
        return "efa_nccl_installer_sha256" if self.installer_sha256 else self.artifact.get("sha256_source", "")

    @property
    def archive(self) -> str:
        """Return the file name of the installer."""
        return f"aws-efa-installer-{self.installer_version}.tar.gz"

    @property
    def sources(self) -> dict[str, str]:
        """Return the sources of archive, signature and key: addresses, or paths on the controller."""
        base = self.mirror.rstrip("/")
        archive, signature = f"{base}/{self.archive}", f"{base}/{self.archive}.sig"
        key = f"{base}/aws-efa-installer.key"
        if self.installer_source == "upstream":
            archive, signature, key = (self.artifact.get(name, "") for name in ("url", "signature_url", "key_url"))
        elif self.installer_source == "local":
            archive, signature = self.installer_file, f"{self.installer_file}.sig"
            key = posixpath.join(posixpath.dirname(self.installer_file), "aws-efa-installer.key")
        return {"archive": archive, "signature": signature, "key": self.signing_key or key}

    @property
    def tests_checksum(self) -> str:
        """Return the sha256 of the sources of nccl-tests; empty if it is unknown."""
        return self.tests_sha256 or self.tests_artifact.get("sha256", "")

    @property
    def tests_url(self) -> str:
        """Return the address of the sources of nccl-tests: an http mirror has them under their own name."""
        url = self.tests_artifact.get("url", "")
        if self.installer_source == "mirror" and re.match(r"https?://", self.mirror):
            return f"{self.mirror.rstrip('/')}/{posixpath.basename(url)}"
        return url


# The role's options, and what the controller adds to them: artifact and tests_artifact are rows of its table of
# downloads, builds_tests is whether efa_nccl_tests_builder is this node.
ARGUMENT_SPEC = spec_of(
    EfaConfig,
    installer_source={"choices": ["upstream", "mirror", "local"]},
    installer_variant={"choices": ["full", "minimal", "userspace", "container"]},
    existing={"choices": ["upgrade", "keep"]},
    accelerator={"choices": ["auto", "gpu", "neuron", "none"]},
    tests={"choices": ["none", "build", "prebuilt"]},
    ptrace_scope={"least": -1},
)


def parse_config(raw: t.Mapping[str, t.Any]) -> EfaConfig:
    """Build an ``EfaConfig`` from options that have no ``problems``."""
    return EfaConfig(**given(raw, ARGUMENT_SPEC))


def problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    """Return the errors in options, a sentence each; their types are those of ``ARGUMENT_SPEC``."""
    config = parse_config(raw)
    return [
        *_installer(config),
        *_mirror(config),
        *_packages(config),
        *_paths(config),
        *_node(config),
        *_names_and_values(config),
        *_variable_problems(config),
    ]


def known_type(instance_type: str | None) -> str | None:
    """Return the instance type if the table of NCCL's environment has it, else None."""
    try:
        nccl_env.traits(instance_type)
    except NodeError:
        return None
    return instance_type


def _mismatches(words: t.Iterable[t.Any], pattern: re.Pattern[str]) -> str:
    """Return the entries that do not match the pattern, in one line."""
    return ", ".join(repr(word) for word in words if not pattern.fullmatch(str(word)))


def _installer(config: EfaConfig) -> t.Iterator[str]:
    for name, example in (("installer_version", "1.51.0"), ("tests_version", "2.19.6")):
        value = getattr(config, name)
        if not _VERSION.fullmatch(str(value)):
            yield f"efa_nccl_{name} is {value!r}: use a version such as {example}"
    for name in ("installer_sha256", "tests_sha256"):
        value = getattr(config, name)
        if value and not _SHA256.fullmatch(str(value)):
            yield f"efa_nccl_{name} is {value!r}: {_SHA256_WANTED}"
    if not re.fullmatch(r"[0-9A-F]{40}", str(config.fingerprint)):
        yield f"efa_nccl_fingerprint is {config.fingerprint!r}: use 40 hexadecimal digits in capitals, no spaces"
    invalid = _mismatches(config.installer_arguments, _OPTION)
    if invalid:
        yield (
            f"efa_nccl_installer_arguments has {invalid}: use options of efa_installer.sh, one an entry, without "
            "--uninstall"
        )
    invalid = _mismatches(config.tests_arguments, _MAKE_ARGUMENT)
    if invalid:
        yield (
            f"efa_nccl_tests_arguments has {invalid}: use variables for make, such as NVCC_GENCODE=...; MPI is always "
            "on, and its and CUDA's places are efa_nccl_mpi_home and efa_nccl_cuda_home"
        )
    if config.installer_timeout < 60:
        yield f"efa_nccl_installer_timeout is {config.installer_timeout}: use 60 seconds or more"


def _mirror(config: EfaConfig) -> t.Iterator[str]:
    mirror = str(config.mirror)
    if config.installer_source == "mirror" and not re.fullmatch(r"(?:https?|s3)://[^\s/@?#]+(?:/[^\s?#]*)?", mirror):
        # The value is left out where it may hold a password.
        description = "has a name or password in it" if "@" in mirror else f"is {mirror!r}"
        yield (
            f"efa_nccl_mirror {description}: use the base of the mirror and nothing else, such as "
            "https://mirror.example.com/efa or s3://bucket/efa"
        )


def _package(package: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    missing = [key for key in ("name", "version") if key not in package]
    if missing:
        yield f"an entry without {' and '.join(missing)}: set name and version of each package"
        return
    name, version, url = str(package["name"]), str(package["version"]), package.get("url")
    if not _PACKAGE.fullmatch(name):
        yield f"{name!r}: that is not a name of a package"
    if not _PACKAGE_VERSION.fullmatch(version):
        yield f"{name} {version!r}: use one whole version"
    if "url" in package and not _PACKAGE_URL.fullmatch(str(url)):
        yield f"{name} with a url that is not valid: use http:// or https://, a host and a path, without a password"
    if "url" in package and not _SHA256.fullmatch(str(package.get("sha256"))):
        yield f"{name} with a url and no sha256: {_SHA256_WANTED}"


def _packages(config: EfaConfig) -> t.Iterator[str]:
    seen: dict[str, t.Mapping[str, t.Any]] = {}
    for option in PACKAGE_LISTS:
        for package in getattr(config, option):
            for problem in _package(package):
                yield f"efa_nccl_{option} has {problem}"
            before = seen.setdefault(str(package.get("name")), package)
            if before != package:
                yield (
                    f"efa_nccl_{option} has {package.get('name')}, which is pinned elsewhere in another way: pin it "
                    "once"
                )


def _paths(config: EfaConfig) -> t.Iterator[str]:
    for name in ("tests_dir", "cuda_home", "mpi_home", "modulefile_dir"):
        path = str(getattr(config, name))
        if name == "modulefile_dir" and not path:
            continue
        if not re.fullmatch(r"(?:/[A-Za-z0-9._+@-]+)+", path) or posixpath.normpath(path) != path:
            yield (
                f"efa_nccl_{name} is {path!r}: use an absolute path of a directory of its own, without '..', of "
                "letters, digits and . _ + @ -"
            )


def _node(config: EfaConfig) -> t.Iterator[str]:
    for name, pattern, wanted in (
        ("limit_units", _UNIT, "names of services, such as slurmd.service"),
        ("needrestart_keep", _DAEMON, "names of services, such as slurmd"),
        ("hold_packages", _HELD, "names of packages, * for anything"),
    ):
        invalid = _mismatches(getattr(config, name), pattern)
        if invalid:
            yield f"efa_nccl_{name} has {invalid}: use {wanted}"
    if config.ptrace_scope not in (-1, 0, 1, 2, 3):
        yield f"efa_nccl_ptrace_scope is {config.ptrace_scope}: use 0 to 3, or -1 to leave it alone"
    for name, minimum, maximum in _LIMITS:
        value = getattr(config, name)
        if value is not None and not minimum <= value <= maximum:
            yield f"efa_nccl_{name} is {value}: use {minimum} to {maximum}"
    for problem in minima_problems(config.minima):
        yield f"efa_nccl_minima: {problem}"


def _names_and_values(config: EfaConfig) -> t.Iterator[str]:
    try:
        nccl_env.refuse_bad({str(name): str(value) for name, value in config.environment.items()})
    except NodeError as exc:
        yield f"efa_nccl_environment: {exc}"


def _variable_problems(config: EfaConfig) -> t.Iterator[str]:
    """Yield one sentence for each variable that is harmful or misnamed with any version."""
    for entry in nccl_env.lint(config.environment, nccl_env.Setting(known_type(config.instance_type))):
        if entry["verdict"] == "rename":
            yield f"efa_nccl_environment has {entry['name']}, which must be {entry['to']}: {_reason(entry)}"
        elif entry["verdict"] == "harmful":
            instead = f"; use {entry['to_value']}" if entry["to_value"] else ""
            assignment = f"{entry['name']}={entry['value']}"
            yield f"efa_nccl_environment has {assignment}, which does harm: {_reason(entry)}{instead}"


def _reason(entry: t.Mapping[str, t.Any]) -> str:
    since = f", since {entry['since']}" if entry["since"] else ""
    return f"{entry['why']} ({entry['source']}{since})"
