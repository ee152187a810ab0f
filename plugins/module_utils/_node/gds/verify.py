# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on GPUDirect Storage, from the facts of ``decide.survey``. Pure."""

from __future__ import annotations

import typing as t

from ..system.versions import is_version
from ..verdict import result
from ..verdict.evidence import Field, Subject, decide, exactly, find_problems, is_text
from .decide import (
    COMPAT,
    DIRECT,
    MODES,
    NONE,
    NVFS,
    P2PDMA,
    UNDETERMINABLE,
    hints,
    layout_advice,
    no_library,
    p2pdma_wanted,
)

SOURCE = "NVIDIA GPUDirect Storage Installation and Troubleshooting Guide"


def verify(facts: dict[str, t.Any], required: t.Sequence[str] = ()) -> list[result.Result]:
    """Return gds.driver, gds.library, gds.module, and per mount gds.mode, gds.prerequisites and gds.layout.

    Every mount must have one of the modes in required. If required is empty, the verdicts only report the state.
    """
    results = [_driver(facts, required), _library(facts), _module(facts, required)]
    for mount in facts["mounts"]:
        results.append(_mode(facts, mount, required))
        results.append(_prerequisites(mount, required))
        layout = layout_advice(mount, facts["kernel"]["machine"], p2pdma_wanted(facts))
        if layout:
            results.append(_layout(mount, layout, required))
    return results


def _driver(facts: dict[str, t.Any], required: t.Sequence[str]) -> result.Result:
    driver = facts["driver"]
    if not driver["loaded"]:
        reason = "the NVIDIA driver is not loaded"
        if required:
            return result.failed(
                "gds.driver", reason, severity="reset", hint="install the driver, then look at nvidia-smi"
            )
        return result.not_applicable("gds.driver", reason)
    found = f"{driver['version']} ({'open' if driver['open_module'] else 'proprietary'} kernel module)"
    expected = "the open kernel module"
    hint = "install the open kernel modules of the driver (nvidia-open); GDS works with no others since 1.7.2"
    if driver["open_module"] is False:
        if not set(required) & set(DIRECT):
            return result.not_applicable("gds.driver", f"found {found}; a direct path needs {expected}", hint=hint)
        message = "GDS needs the open kernel module"
        return result.failed("gds.driver", message, expected=expected, found=found, hint=hint, source=SOURCE)
    unknown = "/proc/driver/nvidia/version does not name the kernel module as open or proprietary"
    fields = (
        Field("open_module", exactly(True), unknown=unknown),
        Field("loaded", exactly(True), label="whether the driver is loaded"),
        Field("version", is_version, label="the driver's version"),
    )
    return decide("gds.driver", fields, [Subject(driver)], found, source=driver["evidence"])


_LIBRARY = (
    Field("state", exactly("ok"), label="the answer to cuFileDriverOpen"),
    Field("err", exactly(0), label="the status of cuFileDriverOpen"),
    Field("cu_err", exactly(0), label="CUDA's status of cuFileDriverOpen"),
    Field("version", is_version, label="the version of libcufile"),
)


def _library(facts: dict[str, t.Any]) -> result.Result:
    library, probe = facts["library"], facts["driver_probe"]
    if not library["path"]:
        return result.not_applicable("gds.library", no_library(facts), hint="install nvidia-gds")
    found = f"libcufile {library['version'] or 'of unknown version'} ({library['path']})"
    if probe is None and not facts["driver"]["loaded"]:
        return _informational(
            "gds.library", f"{found} was not opened: the NVIDIA driver is not loaded", found, result.Scope()
        )
    if probe is None:
        reason = f"{facts['cufile_json']['path']} cannot be read as JSON with comments, so {found} was not opened"
        return result.undeterminable(
            "gds.library", reason, found=found, hint="correct it, or restore the package's file"
        )
    fields = {"found": found, "seconds": probe["seconds"]}
    if probe["state"] == "refused":
        hint = "see the log of libcufile, or run gdscheck -p"
        return result.failed("gds.library", probe["reason"], severity="monitor", hint=hint, **fields)
    if probe["state"] != "ok" and probe["reason"]:
        return result.undeterminable("gds.library", probe["reason"], **fields)
    evidence = Subject({**probe, "version": library["version"]})
    return decide("gds.library", _LIBRARY, [evidence], found, seconds=probe["seconds"])


def _module(facts: dict[str, t.Any], required: t.Sequence[str]) -> result.Result:
    nvfs = facts["nvidia_fs"]
    if not nvfs["loaded"]:
        reason = "nvidia-fs is not loaded"
        if list(required) == [NVFS]:
            return result.failed(
                "gds.module", reason, severity="monitor", hint="modprobe nvidia-fs, and see dkms status"
            )
        return result.not_applicable("gds.module", f"{reason}; only the path nvfs needs it")
    if nvfs["registered"] == {} and list(required) != [NVFS]:
        reason = "nvidia-fs is loaded and no storage driver is registered with it; only the path nvfs needs one"
        return result.not_applicable("gds.module", reason, found=nvfs["version"])
    fields = (
        Field("loaded", exactly(True), label="whether nvidia-fs is loaded"),
        Field("version", is_version, label="/proc/driver/nvidia-fs/version"),
        Field(
            "registered",
            _are_names,
            bad=_is_empty,
            text="no storage driver is registered with nvidia-fs: install the drivers that nvidia-gds patches",
            label="/proc/driver/nvidia-fs/modules",
        ),
    )
    names = ", ".join(sorted(nvfs["registered"] or ()))
    return decide("gds.module", fields, [Subject(nvfs)], f"nvidia-fs {nvfs['version']} with {names}")


def _are_names(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(is_text, value))


def _is_empty(value: object) -> bool:
    return value == {}


def _is_direct(mount: t.Mapping[str, t.Any]) -> bool:
    return mount.get("mode") in DIRECT


def _was_probed(mount: t.Mapping[str, t.Any]) -> bool:
    return mount.get("mode") == COMPAT and mount.get("proof") != "passive"


# Only a file that libcufile accepted while compat mode was forbidden proves a direct path.
_PROOF = (
    Field("proof", exactly("active"), label="the proof of the path", when=_is_direct),
    Field("probe.strict.state", exactly("ok"), label="the answer with compat mode forbidden", when=_is_direct),
    Field("probe.strict.err", exactly(0), label="the status with compat mode forbidden", when=_is_direct),
    Field("probe.strict.cu_err", exactly(0), label="CUDA's status with compat mode forbidden", when=_is_direct),
    Field("probe.strict.table.compatible", exactly(False), label="compat mode by libcufile's log", when=_is_direct),
    Field("proof", exactly("active"), label="the proof of the path", when=_was_probed),
    Field("probe.own.state", exactly("ok"), label="the answer with the node's settings", when=_was_probed),
    Field("probe.own.err", exactly(0), label="the status with the node's settings", when=_was_probed),
    Field("probe.own.cu_err", exactly(0), label="CUDA's status with the node's settings", when=_was_probed),
)


def _mode(facts: dict[str, t.Any], mount: dict[str, t.Any], required: t.Sequence[str]) -> result.Result:
    mode, reason = mount["mode"], mount["reason"]
    fields: dict[str, t.Any] = {"scope": result.Scope(device=mount["path"])}
    if required:
        fields["expected"] = list(required) if len(required) > 1 else required[0]
    if mount["probe"]:
        fields["seconds"] = round(sum(outcome["seconds"] for outcome in mount["probe"].values()), 3)
    if mode not in MODES or mode == UNDETERMINABLE:
        return result.undeterminable("gds.mode", reason or f"the mode '{mode}' is unknown", **fields)
    if any(outcome["state"] == "corrupt" for outcome in mount["probe"].values()):
        return result.failed("gds.mode", reason, severity="isolate", found=mode, **fields)
    if required and mode not in required:
        hint = "; ".join(hints(mount, [path for path in required if path in DIRECT])) or None
        return result.failed("gds.mode", f"{mode}: {reason}", severity="monitor", found=mode, hint=hint, **fields)
    if mode == NONE:
        if facts["library"]["path"] and facts["driver"]["loaded"]:
            return result.failed("gds.mode", f"{NONE}: {reason}", severity="monitor", found=NONE, **fields)
        return result.not_applicable("gds.mode", reason, message=f"{NONE}: {reason}", found=NONE, **fields)
    findings = find_problems(_PROOF, [Subject(mount)])
    if findings.unknown:
        reasons = "; ".join(finding.sentence() for finding in findings.unknown)
        return result.undeterminable("gds.mode", f"{mode}: {reasons}", found=mode, **fields)
    return result.passed("gds.mode", mode, message=f"{mode}: {reason}", **fields)


def _prerequisites(mount: dict[str, t.Any], required: t.Sequence[str]) -> result.Result:
    missing = {path: mount["missing"][path] for path in DIRECT}
    scope = result.Scope(device=mount["path"])
    ready = [path for path in DIRECT if not missing[path]]
    text = "; ".join(f"{path}: {', '.join(missing[path]) or 'nothing'}" for path in DIRECT)
    required_paths = [path for path in DIRECT if path in required]
    if mount["mode"] in DIRECT and not find_problems(_PROOF, [Subject(mount)]).unknown:
        return result.passed("gds.prerequisites", missing, message=f"{mount['mode']} has all it needs", scope=scope)
    if not ready or (required_paths and not set(required_paths) & set(ready)):
        if required_paths:
            return result.failed(
                "gds.prerequisites",
                f"missing for {text}",
                found=missing,
                hint="; ".join(hints(mount, required_paths)),
                source=SOURCE,
                scope=scope,
            )
        return _informational("gds.prerequisites", f"missing for {text}", missing, scope)
    reason = (
        f"nothing that {' or '.join(ready)} needs is known to be missing, but this does not prove that the path works"
    )
    return result.undeterminable("gds.prerequisites", reason, found=missing, scope=scope)


def _layout(mount: dict[str, t.Any], text: str, required: t.Sequence[str]) -> result.Result:
    scope = result.Scope(device=mount["path"])
    if mount["mode"] not in DIRECT and P2PDMA in required and NVFS not in required and mount["layout"] != "disk":
        return result.failed("gds.layout", text, found=mount["layout"], expected="disk", source=SOURCE, scope=scope)
    return _informational("gds.layout", text, mount["layout"], scope)


def _informational(check: str, message: str, found: object, scope: result.Scope) -> result.Result:
    """Return a verdict for a fact that no option requires."""
    return result.not_applicable(check, message, message=message, found=found, scope=scope)
