# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which packages of GPUDirect Storage a node lacks, from the facts of a look. Pure."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence

from ..._data.accelerator_versions import DRIVERS
from ..system.versions import version_key
from .package_table import EVERYTHING, LIBRARY, MODULE, P2PDMA_SINCE, RELEASES, RUNTIME, SEPARATE_SINCE, TOOLS

NVFS = "nvfs"
P2PDMA = "p2pdma"
DIRECT = (NVFS, P2PDMA)
_TARGET = re.compile(r"/usr/local/cuda-([0-9]+\.[0-9]+)/")


def named(pattern: str, cuda: str) -> str:
    """Return the package of one CUDA release: ("libcufile-{cuda}", "13.0") gives "libcufile-13-0"."""
    return pattern.format(cuda=cuda.replace(".", "-"))


def asked_names(extra: Sequence[str] = ()) -> list[str]:
    """Return the names of all packages that a look must query for ``packages``; extra may be name=version."""
    patterns = (LIBRARY, TOOLS, EVERYTHING, RUNTIME)
    known = [named(pattern, cuda) for cuda in RELEASES for pattern in patterns]
    return [*known, MODULE, *(spec.partition("=")[0] for spec in extra)]


def cuda_release(look: Mapping[str, t.Any], wanted: str = "") -> tuple[str, str]:
    """Return (newest CUDA release on the node, its evidence); both empty if unknown."""
    if wanted:
        return wanted, "nvidia_gds_cuda_version"
    for pattern in (LIBRARY, RUNTIME):
        found = [cuda for cuda in RELEASES if look["packages"].get(named(pattern, cuda))]
        if found:
            newest = max(found, key=version_key)
            return newest, f"package {named(pattern, newest)}"
    target = _TARGET.match(look["cufile_json"]["target"] or "")
    if target and look["cufile_json"]["exists"]:
        return target.group(1), look["cufile_json"]["target"]
    return "", ""


def _satisfied(look: Mapping[str, t.Any]) -> dict[str, bool]:
    """Return whether the node has library, tools and module, from any source."""
    tools, modules = look["tools"], look["kernel_modules"]
    return {
        "library": bool(look["library"]["path"]),
        "tools": bool(tools.get("gdscheck.py") or tools.get("gdscheck")),
        "module": bool(look["nvidia_fs"]["loaded"] or modules["installed"].get(modules["running"])),
    }


def _wanted(cuda: str, mode: str) -> dict[str, list[str]]:
    """Return packages by the part they contain, in installation order."""
    if mode != NVFS:
        return {"library": [named(LIBRARY, cuda)], "tools": [named(TOOLS, cuda)]}
    separate = version_key(cuda) >= SEPARATE_SINCE
    # Up to CUDA 13.3 the package of everything contains the module.
    return {
        "library": [named(LIBRARY, cuda)],
        "tools": [named(TOOLS, cuda)],
        "module": [MODULE] if separate else [named(EVERYTHING, cuda)],
    }


def packages(look: Mapping[str, t.Any], mode: str, cuda: str = "", own: Sequence[str] = ()) -> dict[str, t.Any]:
    """Return the packages to install: {cuda, evidence, gds, names, missing, problems}.

    look has the facts of ``look.look``. own replaces the packages of the table. names are the required
    packages, missing those that the node lacks, problems the reasons against a direct path (a sentence each). Software
    that was installed without a package is adopted.
    """
    release, evidence = cuda_release(look, cuda)
    answer: dict[str, t.Any] = {"cuda": release, "evidence": evidence, "gds": RELEASES.get(release, "")}
    has = _satisfied(look)
    problems = _driver_problems(look, mode, release)
    if own:
        names = list(own)
        missing = [spec for spec in names if not _is_installed(spec, look["packages"])]
    else:
        # A release that is not in the table yet has names of the same form.
        groups = _wanted(release, mode) if release else {}
        names = [name for group in groups.values() for name in group]
        missing = [
            name for part, group in groups.items() if not has[part] for name in group if not look["packages"].get(name)
        ]
        lacking = [part for part in ("library", *(["module"] if mode == NVFS else [])) if not has[part]]
        if not release and lacking:
            problems.append(
                "the CUDA release of the node is unknown, so the packages of GPUDirect Storage cannot be named: set "
                "nvidia_gds_cuda_version, such as 13.0, or nvidia_gds_packages"
            )
    return {**answer, "names": names, "missing": missing, "problems": problems}


def _is_installed(spec: str, installed: Mapping[str, str | None]) -> bool:
    name, pinned, version = spec.partition("=")
    # The facts have no epoch.
    return installed.get(name) == re.sub(r"^[0-9]+:", "", version) if pinned else bool(installed.get(name))


def _driver_problems(look: Mapping[str, t.Any], mode: str, cuda: str) -> list[str]:
    driver, problems = look["driver"], []
    if mode in DIRECT and driver["open_module"] is False:
        problems.append(
            f"the NVIDIA driver {driver['version'] or ''} is the proprietary kernel module, as {driver['evidence']} "
            f"shows, and {mode} needs the open one: install nvidia-open of the same branch, or use mode compat"
        )
    if not cuda:
        return problems
    oldest = DRIVERS.get(version_key(cuda)[0])
    if oldest and version_key(driver["version"])[:1] and version_key(driver["version"])[0] < oldest:
        problems.append(
            f"the NVIDIA driver {driver['version']} is too old for CUDA {cuda}, which needs {oldest} or newer: install "
            "a newer driver, or set nvidia_gds_cuda_version to a release that it supports"
        )
    if mode == P2PDMA and version_key(cuda) < P2PDMA_SINCE:
        since = ".".join(map(str, P2PDMA_SINCE))
        problems.append(f"CUDA {cuda} has no P2PDMA, which needs {since} or newer: use another nvidia_gds_mode")
    return problems
