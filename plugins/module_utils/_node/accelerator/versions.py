# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions of a node's stack against the matrix in ``_data.accelerator_versions``. Pure: versions in, verdicts out."""

from __future__ import annotations

import re
import typing as t

from ..._data import accelerator_versions as table
from ..system.versions import at_least, version_key
from ..verdict.result import Result, failed, not_applicable, passed, undeterminable

Versions = t.Mapping[str, t.Optional[str]]
Rule = t.Mapping[str, t.Any]
# Above every version of a component.
_NEWEST = "9999"


def rules_for(component: str, versions: Versions, instance_type: str | None, gpu: str | None) -> list[Rule]:
    """Return the rules of the matrix for a component with these versions, instance type and GPU."""
    return [
        rule
        for rule in table.RULES
        if rule["component"] == component
        and ("types" not in rule or (instance_type and re.fullmatch(rule["types"], instance_type)))
        and ("gpus" not in rule or gpu in rule["gpus"])
        and all(_is_at_least(versions.get(name), since) for name, since in rule.get("since", {}).items())
    ]


def _is_at_least(found: str | None, since: str) -> bool:
    want = version_key(since)
    return bool(want) and at_least(version_key(found), want)


def violation(rule: Rule, version: str) -> str | None:
    """Return the violation of one rule by a version, with reason and source; None if it fits or cannot be compared.

    A limit ``last`` includes the later releases of that version: 580 includes 580.159.04.
    """
    have, name = version_key(version), table.NAMES[rule["component"]]
    if not have:
        return None
    reason = f"{rule['why']} ({table.SOURCES[rule['source']]})"
    if "least" in rule and not at_least(have, version_key(rule["least"])):
        return f"{name} {version} is older than {rule['least']}, the oldest that will do: {reason}"
    if "last" in rule:
        last = version_key(rule["last"])
        if have[: len(last)] > last:
            return f"{name} {version} is newer than {rule['last']}, the last that will do: {reason}"
    return None


def minima_problems(minima: t.Mapping[str, t.Any]) -> list[str]:
    """Return the errors in a caller's own minima, a sentence each."""
    known = ", ".join(table.COMPONENTS)
    return [f"minima has {name!r}: use some of {known}" for name in minima if name not in table.COMPONENTS] + [
        f"the minimum of {name} is {value!r}: use a version in quotes, such as '580.95.05'"
        for name, value in minima.items()
        if name in table.COMPONENTS and not version_key(value)
    ]


def verify_versions(facts: t.Mapping[str, t.Any], used: bool) -> list[Result]:
    """Return versions.driver, .cuda, .installer, .libfabric, .plugin and .nccl from the facts of ``efa.look``.

    used: whether the machine has EFA or accelerators. facts["minima"] are the caller's own, {component: version}.
    """
    versions = found_versions(facts)
    return [_verify(component, facts, versions, used) for component in table.COMPONENTS]


def found_versions(facts: t.Mapping[str, t.Any]) -> dict[str, str | None]:
    """Return {component: version}; empty for an unreadable version, None for a missing component."""
    installer, plugin = facts["installer"], facts["plugin"]
    components = {
        "driver": (facts["nvidia_driver"], facts["nvidia_driver"]),
        "cuda": (facts["cuda"]["path"], facts["cuda"]["version"]),
        "installer": (installer["state"] != "absent", installer["version"]),
        "libfabric": (facts["libfabric"]["program"], facts["libfabric"]["version"]),
        "plugin": (plugin, (plugin or {}).get("version")),
        # If the linker did not answer, NCCL may exist with an unknown version.
        "nccl": (facts["nccl"]["path"] or facts["linker_problem"], facts["nccl"]["version"]),
    }
    return {name: (version or "") if present else None for name, (present, version) in components.items()}


def _verify(component: str, facts: t.Mapping[str, t.Any], versions: Versions, used: bool) -> Result:
    check, name, found = f"versions.{component}", table.NAMES[component], versions[component]
    if not used:
        return not_applicable(check, "this machine has neither EFA nor accelerators")
    chips = facts["family"]["accelerators"] or {}
    if found is None:
        # Without EFA, or on a machine that becomes an image, the driver is not judged here.
        if component == "driver" and chips.get("kind") == "gpu" and (facts["expected_devices"] or facts["devices"]):
            return _without_driver(facts)
        return not_applicable(check, f"{name} is not on this machine")
    gpu = chips.get("name")
    rules = rules_for(component, versions, facts["instance_type"], gpu) + _own(component, facts["minima"])
    if not rules:
        where = facts["instance_type"] or "a machine of unknown type"
        return undeterminable(
            check,
            f"{name}: no known document gives the version that {where} needs",
            found=found or None,
            hint="name the oldest that you want (efa_nccl_minima, or mlcluster efa --minimum)",
        )
    fields: dict[str, t.Any] = {"expected": _expected(rules), "found": found or None, "source": _sources(rules)}
    if not version_key(found):
        return undeterminable(check, f"{name}: its version {repr(found) if found else ''} cannot be compared", **fields)
    wrong = [text for text in (violation(rule, found) for rule in rules) if text]
    if wrong:
        return failed(check, "; ".join(wrong), hint="use an image with another, or pin the one you want", **fields)
    unread = {name: _NEWEST for name, version in versions.items() if version is not None and not version_key(version)}
    for rule in rules_for(component, {**versions, **unread}, facts["instance_type"], gpu):
        doubt = None if rule in rules else violation(rule, found)
        if doubt:
            others = " and ".join(table.NAMES[name] for name in rule["since"] if name in unread)
            reason = f"the version of {others} is not known, and with a newer one {doubt}"
            return undeterminable(check, reason, **fields)
    return passed(check, **fields)


def _without_driver(facts: t.Mapping[str, t.Any]) -> Result:
    installed = facts["modules"]["nvidia"]["available"]
    return failed(
        "versions.driver",
        "no NVIDIA driver is loaded",
        severity="reboot" if installed else "isolate",
        hint="reboot the node: the driver is installed" if installed else "use an image that has one, or pin one",
    )


def _own(component: str, minima: t.Mapping[str, str]) -> list[Rule]:
    if component not in minima:
        return []
    return [{"component": component, "least": minima[component], "why": "you want it", "source": "own"}]


def _expected(rules: t.Sequence[Rule]) -> str:
    """Return the strictest limits in words."""
    leasts = [rule["least"] for rule in rules if "least" in rule]
    lasts = [rule["last"] for rule in rules if "last" in rule]
    parts = [f"{max(leasts, key=version_key)} or newer"] if leasts else []
    return ", ".join(parts + ([f"up to {min(lasts, key=version_key)}"] if lasts else []))


def _sources(rules: t.Sequence[Rule]) -> str:
    return "; ".join(dict.fromkeys(table.SOURCES[rule["source"]] for rule in rules))
