# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role efa_nccl on a node: its facts, its verdicts, and its messages to users."""

from __future__ import annotations

import typing as t

from ..accelerator.parse import ACCELERATED
from ..system.distribution import DEBIAN, read_distribution
from ..system.host import Host
from ..system.job_steps import running_steps
from ..system.plan import Report
from ..verdict.result import UNDETERMINABLE, Result, failed, passed
from . import files
from .config import EfaConfig
from .look import Options
from .look import look as look_at_efa
from .parse import UNLIMITED
from .verify import verify as verify_efa

# The look runs about ten programs and loads libraries, each with a separate time limit.
_LOOK_SECONDS = 300.0
_PEER_SECONDS = 10.0
# Options of a look that ends within a second: it waits for no device and asks no peer.
READ_ONLY: dict[str, t.Any] = {"wait_seconds": 0, "peers": []}

# Kernel and driver packages that must not change under a running node, as globs.
HELD_DEBIAN = ("linux-image-*", "linux-headers-*", "linux-modules-*", "linux-aws", "nvidia-*", "libnvidia-*")
HELD_REDHAT = ("kernel", "kernel-devel", "kernel-headers", "kernel-modules", "kmod-nvidia*", "nvidia-*")
Facts = t.Mapping[str, t.Any]

# The package that dnf needs to hold packages.
VERSIONLOCK = "python3-dnf-plugin-versionlock"
# Verdicts that count on a machine that only builds an image: its devices, modules, limits and driver prove nothing.
IMAGE_IDS = frozenset(
    {
        "efa.installer",
        "efa.plugin",
        "efa.nccl",
        "efa.nvshmem",
        "efa.tests",
        "versions.cuda",
        "versions.installer",
        "versions.libfabric",
        "versions.plugin",
        "versions.nccl",
    }
)


def gnupg_package(family: str) -> str:
    """Return the package that has gpg."""
    return "gnupg" if family == DEBIAN else "gnupg2"


def hold_patterns(config: EfaConfig, family: str) -> list[str]:
    """Return names and globs of the packages to hold, besides EFA's own, which are found on the node."""
    default = HELD_DEBIAN if family == DEBIAN else HELD_REDHAT
    return [*(config.hold_packages or default), *(str(package["name"]) for package in config.packages)]


def tests_programs(config: EfaConfig) -> tuple[str, str]:
    """Return the possible paths of a program of nccl-tests."""
    return f"{config.tests_dir}/build/all_reduce_perf", f"{config.tests_dir}/all_reduce_perf"


def look_options(config: EfaConfig, family: str) -> Options:
    """Return the options of ``look.look`` for this role."""
    own = files.own_paths(config, family)
    expected = config.expected_devices
    return Options(
        instance_type=config.instance_type,
        expected_devices=0 if expected is None and config.image_build else expected,
        wait_seconds=0 if config.image_build else config.wait_seconds,
        files=(files.INTENT, files.tests_marker(config), *own),
        paths=(*own, *tests_programs(config)),
        packages=(*hold_patterns(config, family), gnupg_package(family), VERSIONLOCK),
        units=config.limit_units,
        peers=config.peers,
        cuda_home=config.cuda_home,
        minima=config.minima,
    )


def seconds(config: EfaConfig) -> float:
    """Return the time limit of the look."""
    return _LOOK_SECONDS + config.wait_seconds + _PEER_SECONDS * len(config.peers)


def look(host: Host, config: EfaConfig) -> dict[str, t.Any]:
    """Return the facts of ``look.look``, distribution, and job_steps (running steps of Slurm jobs, None: unknown)."""
    distribution = read_distribution(host)
    facts = look_at_efa(host, look_options(config, distribution["family"]))
    return {**facts, "distribution": distribution, "job_steps": running_steps(host)}


def is_concerned(facts: Facts, config: EfaConfig) -> bool:
    """Return whether the role applies: the node has EFA, should have it, or becomes an image for nodes with EFA."""
    return bool(config.image_build or facts["devices"] or facts["pci_devices"] or facts["expected_devices"])


def may_have_efa(facts: Facts) -> bool:
    """Return whether the type is missing in the table and has the name of an accelerated type, which may have EFA."""
    return facts["expected_devices"] is None and bool(ACCELERATED.match(facts["instance_type"] or ""))


def stale_units(facts: Facts, config: EfaConfig) -> list[str]:
    """Return the services that still run with a lower limit than their drop-in sets."""
    if not config.limits_enabled:
        return []
    return [
        name
        for name, unit in facts["units"].items()
        if unit["pid"] and unit["running_memlock"] and unit["running_memlock"]["soft"] not in (None, UNLIMITED)
    ]


def verify(facts: Facts, config: EfaConfig) -> list[Result]:
    """Return the verdicts for this node and this kind of run; efa.tests if nccl-tests are required."""
    return [result for result in _verdicts(facts, config) if not _is_unlimited(result)]


def report(facts: Facts, config: EfaConfig) -> Report:
    """Return the versions without a documented limit, which are shown and do not fail the run."""
    return Report(info=tuple(result.line() for result in _verdicts(facts, config) if _is_unlimited(result)))


def _verdicts(facts: Facts, config: EfaConfig) -> list[Result]:
    if not is_concerned(facts, config):
        return [one for one in verify_efa(facts) if one.id == "efa.devices"] if may_have_efa(facts) else []
    results = verify_efa(facts)
    if config.tests == "prebuilt":
        results.append(_tests(facts, config))
    if config.image_build:
        return [result for result in results if result.id in IMAGE_IDS]
    # The plan has a note on each service that needs a restart, so there is no verdict on it.
    stale = stale_units(facts, config)
    return [
        result
        for result in results
        if (result.id != "efa.ptrace" or config.ptrace_scope == 0) and result.scope.device not in stale
    ]


def _is_unlimited(result: Result) -> bool:
    return result.id.startswith("versions.") and result.status == UNDETERMINABLE


def _tests(facts: Facts, config: EfaConfig) -> Result:
    programs = tests_programs(config)
    existing = [path for path in programs if facts["paths"][path]]
    if existing:
        return passed("efa.tests", existing[0])
    return failed(
        "efa.tests",
        f"nccl-tests are to be prebuilt, and neither {' nor '.join(programs)} is there",
        hint="put them there, set efa_nccl_tests_dir to where they are, or efa_nccl_tests: build",
    )
