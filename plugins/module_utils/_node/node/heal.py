# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carry out the decisions of ``healing``: on the head node for the cluster, and on each node its own part.

The head node drains no further nodes: it acts on drains of the health check. Reboots are without ASAP, since Slurm ends
the drain of an ASAP reboot by itself, and a node would return without proof (tried with Slurm 22.05).
"""

from __future__ import annotations

import dataclasses
import json
import time
import typing as t

from ..health import profiles
from ..slurm import drain, parse
from ..slurm.client import Slurm
from ..system.ask import ask
from ..system.host import Host, NodeError
from ..system.state import STATE_DIRECTORY
from ..verdict.formats import Sample, family
from ..verdict.result import NOT_APPLICABLE, PASS, Result
from . import healing
from .healing import Decision, Event, Policy

JOURNAL = f"{STATE_DIRECTORY}/heal.jsonl"
LOCK = "/run/mlcluster/heal.lock"
FILE = "mlcluster_heal.prom"
LOCK_SECONDS = 5
SLURM_SECONDS = 20
RESET_SECONDS = 120
# Number of lines that are kept: months of a healthy cluster.
MAX_LINES = 2000
REBOOTING = frozenset({"REBOOT_REQUESTED", "REBOOT", "REBOOT_ISSUED"})
METRICS: dict[str, tuple[str, str]] = {
    "mlcluster_heal_nodes": ("gauge", "Nodes by what is done about them: drained, healing, isolated."),
    "mlcluster_heal_limit": ("gauge", "How many nodes are healed at once."),
    "mlcluster_heal_events": ("gauge", "Lines of the journal by what was done."),
}


def read_journal(host: Host, path: str = JOURNAL) -> list[Event]:
    """Return the events, the oldest first. Raises ``NodeError`` for an unreadable journal."""
    text = host.read_text(path)
    if text is None:
        if host.exists(path):
            raise NodeError(f"could not read the journal {path}: run as root; without it nothing is done")
        return []
    return parse_journal(text)


def parse_journal(text: str) -> list[Event]:
    """Return the events in the text of a journal; invalid lines are skipped."""
    events = []
    for line in text.splitlines():
        try:
            data = json.loads(line)
            events.append(Event(float(data["at"]), data["node"], data["action"], tuple(data["ids"]), data["text"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            # One damaged line must not cause endless healing of a node: the other lines still count.
            continue
    return events


def write_journal(host: Host, events: t.Sequence[Event], path: str = JOURNAL) -> None:
    """Replace the journal. Raises ``NodeError``."""
    lines = [json.dumps(dataclasses.asdict(event), sort_keys=True) + "\n" for event in events[-MAX_LINES:]]
    try:
        host.write_text(path, "".join(lines), 0o644)
    except OSError as exc:
        raise NodeError(f"could not write the journal {path} ({exc.strerror or exc}): look with 'df'") from exc


def shown(event: Event) -> str:
    """Return one line of the journal for users."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event.at))
    return f"{at} {event.node}: {event.action} ({', '.join(event.ids)}): {event.text}"


def heal_cluster(
    host: Host, slurm: Slurm, policy: Policy, now: float, journal: str = JOURNAL, directory: str | None = None,
    dry_run: bool = False, lock: str = LOCK,
) -> list[str]:  # fmt: skip
    """Decide and act for the whole cluster; returns a line for each decision. Raises ``NodeError``.

    Each action is in the journal before it starts: without a writable journal there are no actions.
    """
    with host.locked(lock, LOCK_SECONDS):
        nodes = parse.nodes(slurm.ask("scontrol", "--oneliner", "show", "node", timeout=SLURM_SECONDS))
        settings = parse.settings(slurm.ask("scontrol", "show", "config", timeout=SLURM_SECONDS))
        history = read_journal(host, journal)
        decisions = healing.decide(policy, nodes, history, now, supported_actions(settings))
        lines = [f"{one.node}: {one.action} ({', '.join(one.ids)}): {one.text}" for one in decisions]
        if dry_run:
            return lines
        for decision in decisions:
            if decision.action == healing.WAIT:
                continue
            history.append(Event(now, decision.node, decision.action, decision.ids, decision.text))
            write_journal(host, history, journal)
            try:
                carry_out(slurm, decision)
            except NodeError as exc:
                history.append(Event(now, decision.node, "failed", decision.ids, str(exc)))
                write_journal(host, history, journal)
                lines.append(f"{decision.node}: {decision.action} failed: {exc}")
        if directory:
            _write_metrics(host, f"{directory}/{FILE}", metrics(policy, nodes, history))
    return lines


def supported_actions(settings: t.Mapping[str, str | None]) -> set[str]:
    """Return the actions that Slurm can carry out as it is set up; a reset is the node's own."""
    found = {healing.RESET}
    if settings.get("RebootProgram"):
        found.add(healing.REBOOT)
    if settings.get("SuspendProgram"):
        found.add(healing.REPLACE)
    return found


def carry_out(slurm: Slurm, decision: Decision) -> None:
    """Carry out one decision. Raises ``NodeError``. Decisions for the journal only do nothing here."""
    name, reason = decision.node, decision.reason
    if decision.action in (healing.RESET, healing.ISOLATED):
        drain.update(slurm, name, SLURM_SECONDS, "State=DRAIN", f"Reason={reason}")
    elif decision.action == healing.REBOOT:
        slurm.ask("scontrol", "reboot", f"reason={reason}", name, timeout=SLURM_SECONDS)
    elif decision.action == healing.REPLACE:
        drain.update(slurm, name, SLURM_SECONDS, "State=POWER_DOWN_ASAP", f"Reason={reason}")


def metrics(policy: Policy, nodes: t.Sequence[healing.Node], history: t.Sequence[Event]) -> str:
    """Return the metrics of the head node."""
    states = dict.fromkeys(("drained", "healing", "isolated"), 0)
    for node in nodes:
        current = healing.healed_by(healing.reason_of(node))
        if current and current[0] == healing.ISOLATED:
            states["isolated"] += 1
        elif healing.is_under_way(node):
            states["healing"] += 1
        elif drain.drained_for(node["reason"]) and "DRAIN" in node["flags"]:
            states["drained"] += 1
    counts: dict[str, int] = {}
    for event in history:
        counts[event.action] = counts.get(event.action, 0) + 1
    samples: dict[str, list[Sample]] = {
        "mlcluster_heal_nodes": [({"state": state}, count) for state, count in states.items()],
        "mlcluster_heal_limit": [({}, policy.limit(len(nodes)))],
        "mlcluster_heal_events": [({"action": action}, count) for action, count in sorted(counts.items())],
    }
    return "".join(family(name, METRICS[name][1], found, METRICS[name][0]) for name, found in samples.items())


def _write_metrics(host: Host, path: str, text: str) -> None:
    try:
        host.write_text(path, text, 0o644)
    except OSError as exc:
        raise NodeError(f"could not write {path} ({exc.strerror or exc}): look with 'df' and 'mount'") from exc


def heal_node(host: Host, slurm: Slurm, name: str, options: profiles.Options) -> str | None:
    """Do this node's part: reset its GPUs if that was decided, and resume it if the full check passes.

    Returns what was done, None without an action. Raises ``NodeError``.
    """
    with host.locked(LOCK, LOCK_SECONDS):
        state = drain.state_of(slurm, name, SLURM_SECONDS)
        current = healing.healed_by(state["reason"])
        if current is None or current[0] == healing.ISOLATED or "DRAIN" not in state["flags"]:
            return None
        action, ids = current
        if state["state"] in healing.BUSY or healing.BUSY & set(state["flags"]):
            return f"{name} waits for its jobs before its {action}"
        if action == healing.REBOOT and not rebooted(state):
            return f"{name} waits for its reboot"
        if action == healing.REPLACE:
            return f"{name} waits for Slurm to power it down"
        if action == healing.RESET:
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            problem = reset_gpus(host)
            if problem:
                reason = drain.shortened(f"{drain.PREFIX}{','.join(ids)} (reboot): ", f"the reset failed: {problem}")
                drain.update(slurm, name, SLURM_SECONDS, "State=DRAIN", f"Reason={reason}")
                return f"{name} could not reset its GPUs: {problem}"
            # Earlier entries in the kernel's log belong to the fault.
            options = dataclasses.replace(options, xid_since=since)
        results, _versions = profiles.split(profiles.run_profile(host, "full", options))
        return resume(slurm, name, ids, results)


def rebooted(state: healing.Node) -> bool:
    """Return whether the node has booted since its drain got its reason, by Slurm's times."""
    if REBOOTING & set(state["flags"]) or state["availability"] == "unknown":
        return False
    return bool(state["boot_time"] and state["reason_at"] and state["boot_time"] >= state["reason_at"])


def resume(slurm: Slurm, name: str, ids: t.Sequence[str], results: t.Sequence[Result]) -> str:
    """Resume the node if nothing blocks jobs and every reason of its drain is proved solved; else drain it again.

    Raises ``NodeError``.
    """
    blocking = profiles.blocking(results, fail_closed=False)
    unproved = [one for one in results if one.id in ids and one.status not in (PASS, NOT_APPLICABLE)]
    unproved = [one for one in unproved if one not in blocking]
    missing = sorted(set(ids) - {one.id for one in results})
    vanished = drain.vanished(ids, results)
    if not blocking and not unproved and not missing and not vanished:
        drain.update(slurm, name, SLURM_SECONDS, "State=RESUME")
        passed = {one.id for one in results if one.status == PASS}
        proved = ", ".join(one for one in ids if one in passed)
        done = [f"the full check proved {proved}"] if proved else []
        gone = ", ".join(one for one in ids if one not in passed)
        done += [f"{gone} no longer applies"] if gone else []
        return f"{name} takes jobs again: {'; '.join(done)}"
    if blocking or unproved:
        # A check that failed and is not proved stays in the reason, without the mark of one that never failed.
        unsolved = {one.id for one in unproved} | {*missing, *vanished}
        reason = drain.reason_for([*blocking, *unproved], [one for one in ids if one in unsolved])
    elif missing:
        reason = f"{drain.PREFIX}{','.join([*missing, *vanished])} (none): the full check has no verdict on it"
    else:
        reason = f"{drain.PREFIX}{','.join(vanished)} (none): it failed, and now it does not apply"
    drain.update(slurm, name, SLURM_SECONDS, "State=DRAIN", f"Reason={reason}")
    return f"{name} stays drained: {reason}"


def reset_gpus(host: Host) -> str | None:
    """Reset all GPUs; return the reason if that was not done. Refuses while a process uses a GPU."""
    text, problem = ask(host, ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], RESET_SECONDS)
    if problem:
        return problem
    if text.strip():
        return f"processes have GPUs: {', '.join(text.split()[:8])}"
    # GPUs joined by NVSwitches must be reset together; all others are too.
    return ask(host, ["nvidia-smi", "--gpu-reset"], RESET_SECONDS)[1]
