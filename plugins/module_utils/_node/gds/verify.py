# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdicts on GPUDirect Storage, from what ``gds.survey`` found. Pure."""

from __future__ import annotations

import typing as t

from ..verdict import result
from .decide import COMPAT, DIRECT, NONE, NVFS, P2PDMA, UNDETERMINABLE, hints, layout_advice, no_library, p2pdma_wanted

SOURCE = "NVIDIA GPUDirect Storage Installation and Troubleshooting Guide"


def verify(facts: dict[str, t.Any], required: t.Sequence[str] = ()) -> list[result.Result]:
    """gds.driver, gds.library, gds.module, and per mount gds.mode, gds.prerequisites and gds.layout.

    required are the modes of which one must be active on every mount; without any the verdict is what was found.
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
            return result.failed("gds.driver", reason, "reset", hint="install the driver, then look at nvidia-smi")
        return result.not_applicable("gds.driver", reason)
    if driver["open_module"] is None:
        reason = "/proc/driver/nvidia/version does not name the kernel module as open or proprietary"
        return result.undeterminable("gds.driver", reason, source=driver["evidence"])
    found = f"{driver['version']} ({'open' if driver['open_module'] else 'proprietary'} kernel module)"
    if driver["open_module"]:
        return result.passed("gds.driver", found, source=driver["evidence"])
    wanted = "the open kernel module"
    hint = "install the open kernel modules of the driver (nvidia-open); GDS works with no others since 1.7.2"
    if not set(required) & set(DIRECT):
        return result.not_applicable("gds.driver", f"found {found}; a direct path needs {wanted}", hint=hint)
    return result.failed(
        "gds.driver", "GDS needs the open kernel module", expected=wanted, found=found, hint=hint, source=SOURCE
    )


def _library(facts: dict[str, t.Any]) -> result.Result:
    library, probe = facts["library"], facts["driver_probe"]
    if not library["path"]:
        return result.not_applicable("gds.library", no_library(facts), hint="install nvidia-gds")
    found = f"libcufile {library['version'] or 'of unknown version'} ({library['path']})"
    if probe is None and not facts["driver"]["loaded"]:
        return _told("gds.library", f"{found} was not opened: the NVIDIA driver is not loaded", found, result.Scope())
    if probe is None:
        reason = f"{facts['cufile_json']['path']} cannot be read as JSON with comments, so {found} was not opened"
        return result.undeterminable(
            "gds.library", reason, found=found, hint="correct it, or restore the package's file"
        )
    if probe["state"] == "ok":
        return result.passed("gds.library", found, seconds=probe["seconds"])
    fields = {"found": found, "seconds": probe["seconds"]}
    if probe["state"] == "refused":
        hint = "see the log of libcufile, or run gdscheck -p"
        return result.failed("gds.library", probe["reason"], "monitor", hint=hint, **fields)
    return result.undeterminable("gds.library", probe["reason"], **fields)


def _module(facts: dict[str, t.Any], required: t.Sequence[str]) -> result.Result:
    nvfs = facts["nvidia_fs"]
    if nvfs["loaded"]:
        registered = ", ".join(sorted(nvfs["registered"])) or "no storage driver"
        return result.passed("gds.module", f"nvidia-fs {nvfs['version'] or ''} with {registered}".replace("  ", " "))
    reason = "nvidia-fs is not loaded"
    if list(required) == [NVFS]:
        return result.failed("gds.module", reason, "monitor", hint="modprobe nvidia-fs, and see dkms status")
    return result.not_applicable("gds.module", f"{reason}; only the path nvfs needs it")


def _mode(facts: dict[str, t.Any], mount: dict[str, t.Any], required: t.Sequence[str]) -> result.Result:
    mode, reason = mount["mode"], mount["reason"]
    fields: dict[str, t.Any] = {"scope": result.Scope(device=mount["path"])}
    if required:
        fields["expected"] = list(required) if len(required) > 1 else required[0]
    if mount["probe"]:
        fields["seconds"] = round(sum(outcome["seconds"] for outcome in mount["probe"].values()), 3)
    if mode == UNDETERMINABLE:
        return result.undeterminable("gds.mode", reason, **fields)
    if any(outcome["state"] == "corrupt" for outcome in mount["probe"].values()):
        return result.failed("gds.mode", reason, "isolate", found=mode, **fields)
    if required:
        if mode in required:
            return result.passed("gds.mode", mode, message=f"{mode}: {reason}", **fields)
        hint = "; ".join(hints(mount, [path for path in required if path in DIRECT])) or None
        return result.failed("gds.mode", f"{mode}: {reason}", "monitor", found=mode, hint=hint, **fields)
    if mode in DIRECT or mode == COMPAT:
        return result.passed("gds.mode", mode, message=f"{mode}: {reason}", **fields)
    if facts["library"]["path"] and facts["driver"]["loaded"]:
        return result.failed("gds.mode", f"{NONE}: {reason}", "monitor", found=NONE, **fields)
    return result.not_applicable("gds.mode", reason, message=f"{NONE}: {reason}", found=NONE, **fields)


def _prerequisites(mount: dict[str, t.Any], required: t.Sequence[str]) -> result.Result:
    lacking = {path: mount["missing"][path] for path in DIRECT}
    scope = result.Scope(device=mount["path"])
    ready = [path for path in DIRECT if not lacking[path]]
    text = "; ".join(f"{path}: {', '.join(lacking[path]) or 'nothing'}" for path in DIRECT)
    wanted = [path for path in DIRECT if path in required]
    if mount["mode"] in DIRECT:
        return result.passed("gds.prerequisites", lacking, message=f"{mount['mode']} has all it needs", scope=scope)
    if not ready or (wanted and not set(wanted) & set(ready)):
        if wanted:
            return result.failed(
                "gds.prerequisites",
                f"missing for {text}",
                found=lacking,
                hint="; ".join(hints(mount, wanted)),
                source=SOURCE,
                scope=scope,
            )
        return _told("gds.prerequisites", f"missing for {text}", lacking, scope)
    reason = f"nothing is seen to be missing for {' or '.join(ready)}, and that proves nothing"
    return result.undeterminable("gds.prerequisites", reason, found=lacking, scope=scope)


def _layout(mount: dict[str, t.Any], text: str, required: t.Sequence[str]) -> result.Result:
    scope = result.Scope(device=mount["path"])
    if mount["mode"] not in DIRECT and P2PDMA in required and NVFS not in required and mount["layout"] != "disk":
        return result.failed("gds.layout", text, found=mount["layout"], expected="disk", source=SOURCE, scope=scope)
    return _told("gds.layout", text, mount["layout"], scope)


def _told(check: str, text: str, found: object, scope: result.Scope) -> result.Result:
    """What nobody asked for and is worth knowing."""
    return result.not_applicable(check, text, message=text, found=found, scope=scope)


def problems(results: list[result.Result]) -> list[str]:
    """The lines of what is neither a pass nor not applicable."""
    return [entry.line() for entry in results if entry.status not in (result.PASS, result.NOT_APPLICABLE)]
