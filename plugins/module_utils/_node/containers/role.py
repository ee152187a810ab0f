# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role enroot_pyxis on a node: its look, with a container if that must be proved, and its verdicts."""

from __future__ import annotations

import typing as t

from ..system.host import Host
from ..system.packages import installed_packages
from ..system.release import system_facts
from ..verdict.result import Result
from . import look as enroot
from .config import RoleConfig
from .host import EnrootHost
from .plan import chosen_plugin, docker_packages, make_plan, refusals, toolkit_packages
from .verify import verify as verify_containers

# Options of a look that only reads.
READ_ONLY: dict[str, t.Any] = {"probe": "never"}
TRANSIENT = frozenset({"probe"})
_OTHER_SECONDS = 600
# Commands of one trial, each with a time limit: without and with the container. Each user is one trial, PMIx another.
_TRIALS = 2
_TRIAL = ("pyxis.container", "pyxis.pmix", "pyxis.devices")

Facts = t.Mapping[str, t.Any]


def seconds(config: RoleConfig) -> float:
    """Return the time limit of the look in seconds."""
    wanted = config.enroot
    tried = (len(wanted.smoke_users) + 1) * _TRIALS * wanted.smoke_seconds if wanted.smoke_image else 0
    return float(_OTHER_SECONDS + tried)


def look(host: Host, config: RoleConfig) -> dict[str, t.Any]:
    """Return the facts of ``look.survey``, and system, architecture, package_manager, held (by name), results, trial.

    results are the verdicts; trial are the verdicts on containers that this look started.
    """
    node = host if isinstance(host, EnrootHost) else EnrootHost()
    facts = enroot.survey(node, config.enroot)
    facts["system"] = system_facts(node)
    facts["architecture"] = node.machine()
    facts["trial"] = []
    if facts["slurm"] is None:
        facts["results"] = verify_containers(node, facts, [], config.enroot)
        return facts
    packages, facts["package_manager"] = installed_packages(node)
    own_packages = [entry.name for entry in [*docker_packages(facts, config), *toolkit_packages(config)]]
    installed = {name: entry for name, entry in (packages or {}).items() if entry["installed"]}
    facts["held"] = {name: installed[name]["held"] for name in own_packages if name in installed}
    found = refusals(facts, config.enroot, config.build_version)
    facts["results"] = verify_containers(node, facts, found, config.enroot, _probes(facts, config))
    facts["trial"] = [entry for entry in facts["results"] if entry.id in _TRIAL]
    return facts


def _probes(facts: Facts, config: RoleConfig) -> bool:
    """Return whether the look starts a container: on request, or if nothing is left to do and no proof exists."""
    if config.probe != "unproved":
        return config.probe == "always"
    plugin = chosen_plugin(facts, config.enroot, "")
    if not config.enroot.smoke_image or plugin is None or enroot.proved(facts, plugin["path"]):
        return False
    plan = make_plan(facts, config)
    return not plan.refusals and not plan.differences()


def verify(facts: Facts, config: RoleConfig) -> list[Result]:
    """Return the verdicts of the look; none if the plan refuses the node."""
    if facts["slurm"] is not None and refusals(facts, config.enroot, config.build_version):
        return []
    return list(facts["results"])
