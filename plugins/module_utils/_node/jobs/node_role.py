# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role slurm_jobs on a compute node: the scripts that Slurm runs there, and packages that jobs need."""

from __future__ import annotations

import re
import typing as t

from ..system.host import Host
from ..system.packages import package_manager, package_versions
from ..system.plan import Package, Plan, file_due, refused
from ..verdict.result import Result
from . import checks as node_checks
from . import files
from .config import ChecksConfig, ToolsConfig
from .role import volume_path

CHECKS = "slurm_jobs_checks"
TOOLS = "slurm_jobs_tools"
# For one list of all packages.
_SECONDS = 180.0
_EPOCH = re.compile(r"\d+:")
_ARCHITECTURE = re.compile(r"\.(x86_64|aarch64|noarch)\Z")

Facts = t.Mapping[str, t.Any]


def seconds(config: ChecksConfig | ToolsConfig) -> float:
    """Return the time limit of a look, in seconds."""
    return _SECONDS


def verify(facts: Facts, config: ChecksConfig | ToolsConfig) -> list[Result]:
    """Return no verdicts: an empty plan is the wanted state."""
    return []


def look_checks(host: Host, config: ChecksConfig) -> dict[str, t.Any]:
    """Return the facts: checks (all their settings), and sums and states of the scripts."""
    checks = node_checks.wanted(config.checks, volume_path(host), config.slurm_prefix, config.slurm_conf, config.imex)
    paths = list(node_checks.paths(checks).values())
    return {
        "checks": checks,
        "files": {path: host.sha256(path) for path in paths},
        "paths": {path: host.stat(path) for path in paths},
    }


def plan_checks(facts: Facts, config: ChecksConfig) -> Plan:
    """Return the scripts that differ."""
    wanted = files.check_files(facts["checks"])
    due = [due for entry in wanted for due in file_due(entry, facts["files"][entry.path], facts["paths"][entry.path])]
    return Plan(domain=CHECKS, files=tuple(due))


def look_tools(host: Host, config: ToolsConfig) -> dict[str, t.Any]:
    """Return the facts: manager; programs (whether each package's program exists); versions of the packages."""
    names = [spec.partition("=")[0] for spec in config.node_packages]
    return {
        "manager": package_manager(host),
        "programs": {name: host.which(name) is not None for name in names},
        "versions": package_versions(host, names),
    }


def plan_tools(facts: Facts, config: ToolsConfig) -> Plan:
    """Return the plan for missing packages; programs from another source, such as an image, are kept."""
    due = [spec for spec in config.node_packages if _is_due(spec, facts)]
    if due and not facts["manager"]:
        return refused(TOOLS, [f"{', '.join(due)} cannot be installed: there is no apt and no dnf here"])
    return Plan(domain=TOOLS, refresh=bool(due), packages=tuple(map(Package.of, due)))


def _is_due(spec: str, facts: Facts) -> bool:
    name, _equals, wanted = spec.partition("=")
    found = facts["versions"][name]
    if not wanted:
        return found is None and not facts["programs"][name]
    if found is None:
        return True
    # rpm reports epoch and architecture separately, and accepts a version without its release.
    plain = _EPOCH.sub("", wanted, count=1)
    if facts["manager"] != "dnf":
        return bool(found != plain)
    plain = _ARCHITECTURE.sub("", plain)
    return not (found == plain or found.startswith(f"{plain}-"))
