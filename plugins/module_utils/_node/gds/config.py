# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the role nvidia_gds: defaults, limits and option errors."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..system.argument_types import given, spec_of
from ..system.host import NodeError
from .cufile_plan import check_settings
from .prerequisites import NVFS, P2PDMA

COMPAT = "compat"
DIRECT = (NVFS, P2PDMA)
PREFIX = "nvidia_gds_"


_CUDA = re.compile(r"[0-9]{2}\.[0-9]{1,2}")
_SPEC = re.compile(r"[a-z0-9][A-Za-z0-9+._-]*(=[A-Za-z0-9:.+~-]+)?")
_NAME = re.compile(r"[a-z0-9][A-Za-z0-9+._-]*")
_PATH = re.compile(r"/[^\x00-\x1f\x7f\ud800-\udfff]*")
_LIMITS = (("probe_timeout", 1, 600), ("bandwidth_mib", 1, 1048576), ("dkms_log_lines", 1, 500))


@dataclasses.dataclass(frozen=True)
class GdsConfig:
    """The options of the role nvidia_gds; probe_timeout in seconds."""

    mode: str = COMPAT
    required: bool = False
    mounts: tuple[str, ...] = ()
    probe: str = "active"
    probe_timeout: int = 30
    layout_advice: bool = True
    cuda_version: str = ""
    install_enabled: bool = True
    packages: tuple[str, ...] = ()
    headers_package: str = ""
    dkms_log_lines: int = 40
    library: str | None = None
    cufile_enabled: bool = True
    compat_allowed: bool = True
    cufile_settings: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    cufile_allow_unknown: bool = False
    safe_mode: bool = True
    reboot_allowed: bool = False
    bandwidth: bool = False
    bandwidth_mib: int = 1024
    example_enabled: bool = False
    image_build: bool = False
    example_text: str = ""

    @property
    def is_direct(self) -> bool:
        """Whether the mode is a path without the CPU."""
        return self.mode in DIRECT

    @property
    def required_modes(self) -> tuple[str, ...]:
        """The modes of which every mount must have one; empty if nothing is required, or for an image."""
        if not self.required or self.image_build:
            return ()
        return (self.mode,) if self.is_direct else (NVFS, P2PDMA, COMPAT)


# The role's options, and example_text, which the controller passes if example_enabled is true.
ARGUMENT_SPEC = spec_of(GdsConfig, mode={"choices": [COMPAT, NVFS, P2PDMA]}, probe={"choices": ["active", "passive"]})


def parse_config(raw: t.Mapping[str, t.Any]) -> GdsConfig:
    """Build a ``GdsConfig`` from options that have no ``problems``."""
    return GdsConfig(**given(raw, ARGUMENT_SPEC))


def problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    """Return the option errors, one sentence each; the values have the types of ``ARGUMENT_SPEC``."""
    config = parse_config(raw)
    found = []
    if config.mode == COMPAT and not config.compat_allowed:
        found.append("nvidia_gds_mode is compat and nvidia_gds_compat_allowed forbids it: change one of them")
    cuda = config.cuda_version
    if cuda and not _CUDA.fullmatch(cuda):
        found.append(f"nvidia_gds_cuda_version is {cuda!r}: use a release of CUDA in quotes, such as '13.0'")
    for spec in config.packages:
        if not _SPEC.fullmatch(spec):
            found.append(f"nvidia_gds_packages has {spec!r}: use names of packages, or name=version")
    for path in config.mounts:
        if not _PATH.fullmatch(path) or ".." in path.split("/"):
            found.append(f"nvidia_gds_mounts has {path!r}: use absolute paths without '..'")
    headers, library = config.headers_package, config.library
    if headers and not _NAME.fullmatch(headers):
        found.append(f"nvidia_gds_headers_package is {headers!r}: use the name of a package, or none")
    if library and not _PATH.fullmatch(library):
        found.append(f"nvidia_gds_library is {library!r}: use the full path of libcufile.so.0")
    for name, low, high in _LIMITS:
        if not low <= getattr(config, name) <= high:
            found.append(f"nvidia_gds_{name} is {getattr(config, name)}: use a number from {low} to {high}")
    try:
        check_settings(config.cufile_settings, config.cufile_allow_unknown)
    except NodeError as exc:
        found.append(f"nvidia_gds_cufile_settings: {exc}")
    return found
