# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of Slurm from a node: whether the controller answers, and the state that it reports for this node."""

from __future__ import annotations

import typing as t

from ..slurm import parse as slurm_parse
from ..slurm import states
from ..slurm.client import PCS_SCHEDULERS, WITHOUT_SLURM, Slurm, node_name
from ..system.host import CommandError, NodeError
from ..verdict.result import Result, Scope, failed, not_applicable, passed, undeterminable

SECONDS = 20


def check_slurm(slurm: Slurm, kind: str | None = None) -> list[Result]:
    """Return slurm.controller, and slurm.node if this node runs jobs.

    kind: head, login or compute. Only a compute node fails if the controller does not know it.
    """
    try:
        ping = slurm.run("scontrol", "ping", timeout=SECONDS)
    except CommandError as exc:
        return [undeterminable("slurm.controller", str(exc))]
    except NodeError as exc:
        if slurm.prefix not in (None, WITHOUT_SLURM) or slurm.host.listdir(PCS_SCHEDULERS):
            # It was named, such as on a file system that is not mounted now, or there are several.
            return [undeterminable("slurm.controller", str(exc))]
        return [not_applicable("slurm.controller", "Slurm is not installed here")]
    controllers = slurm_parse.controllers(ping.stdout)
    if not controllers:
        return [_no_controller(" ".join((ping.stderr or ping.stdout).split()), kind)]
    up = [entry["host"] for entry in controllers if entry["up"]]
    if not up:
        hint = "start slurmctld on the head node, and look at its log"
        return [failed("slurm.controller", "no controller answers", severity="reset", expected="up", hint=hint)]
    if ping.rc != 0 and len(up) == len(controllers):
        why = f"scontrol ping lists only controllers that are up, and ended with status {ping.rc}"
        return [undeterminable("slurm.controller", why), _node(slurm, kind)]
    return [passed("slurm.controller", f"{', '.join(up)} up"), _node(slurm, kind)]


def _no_controller(output: str, kind: str | None) -> Result:
    """Return the verdict for output of scontrol that lists no controller."""
    if "configuration source" in output and kind is None:
        return not_applicable("slurm.controller", "Slurm is installed and belongs to no cluster here")
    hint = "check that this node has its slurm.conf: scontrol ping"
    return undeterminable("slurm.controller", f"no controller is known: {output or 'no output'}", hint=hint)


def _node(slurm: Slurm, kind: str | None) -> Result:
    check, name = "slurm.node", node_name()
    try:
        completed = slurm.run("scontrol", "--details", "--oneliner", "show", "node", name, timeout=SECONDS)
    except NodeError as exc:
        return undeterminable(check, str(exc))
    known = slurm_parse.nodes(completed.stdout)
    if not known:
        output = " ".join(f"{completed.stdout} {completed.stderr}".split())
        if "not found" not in output:
            # The controller failed after its ping, or this user may not query it.
            return undeterminable(check, f"scontrol shows no node: {output[:300] or 'no output'}")
        if kind == "compute":
            hint = "start slurmd, and compare the host name with NodeName in slurm.conf"
            return failed(check, f"Slurm does not know {name}", severity="reset", hint=hint)
        return not_applicable(check, "Slurm runs no jobs here")
    if completed.rc != 0:
        why = " ".join(completed.stderr.split())[:300] or "no message"
        return undeterminable(check, f"scontrol shows the node and ended with status {completed.rc}: {why}")
    own = [node for node in known if name in (node["name"], node["hostname"])]
    if len(own) != 1:
        listed = ", ".join(node["name"] for node in known)[:300]
        return undeterminable(check, f"scontrol was asked for {name or 'a node without a name'} and shows {listed}")
    return _judge(check, own[0])


def _judge(check: str, node: t.Mapping[str, t.Any]) -> Result:
    state = "+".join([node["state"], *node["flags"]])
    scope = Scope(node=node["name"])
    expected, why = node["availability"], node["availability_reason"]
    if expected == states.TAKES:
        # A report compares ``found`` between nodes, and their states change from minute to minute.
        return passed(check, "takes jobs", message=f"it takes jobs: {state}", scope=scope)
    if expected == states.UNKNOWN:
        return undeterminable(check, f"Slurm has the node {why}: see scontrol show node {node['name']}", scope=scope)
    # Severity monitor: a drain has its own reason, and this check must not prolong it.
    message = f"it takes no new jobs: it is {why}, and its reason is {node['reason'] or 'not set'}"
    hint = f"once it is healthy: scontrol update NodeName={node['name']} State=RESUME"
    if expected == states.RETURNS:
        hint = "nothing to do: Slurm ends this by itself"
    return failed(check, message, severity="monitor", found=state, hint=hint, scope=scope)
