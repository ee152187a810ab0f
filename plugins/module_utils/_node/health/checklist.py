# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checklists of a node: checks are data, and one pure function compares them with facts."""

from __future__ import annotations

import math
import typing as t

from ..._data import checklists, instance_types
from ..accelerator.cuda import CUDA_HOME, cuda_version
from ..efa import parse as efa_parse
from ..efa.look import MARKER_PATH
from ..efa.plugin import choose_plugin, find_plugins, nccl_version, try_load
from ..efa.tools import fi_info_program, libfabric_version
from ..system.host import Host, NodeError
from ..system.mounts import find_mount, read_mounts
from ..system.state import STATE_DIRECTORY
from ..system.versions import at_least, version_key
from ..verdict.result import SEVERITIES, Result, failed, passed, undeterminable

# Parameters of a check that a site may set; its fact and its comparison are fixed.
PARAMETERS = ("expected", "path", "severity", "skip", "tolerance_percent")


def choose(name: str, parameters: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the checks of a checklist with a site's parameters {id: {expected, ...}}, without skipped ones.

    Raises ``NodeError`` with one sentence that lists all unknown names.
    """
    checks = {check["id"]: check for check in checklists.CHECKLISTS[name]}
    unknown = sorted(f"check {key}" for key in parameters if key not in checks)
    for key, values in parameters.items():
        if not isinstance(values, dict):
            unknown.append(f"{key} without parameters")
            continue
        unknown += sorted(f"parameter {value} of {key}" for value in values if value not in PARAMETERS)
    if unknown:
        raise NodeError(
            f"the checklist {name} does not know {', '.join(unknown)}: "
            f"its checks are {', '.join(sorted(checks))}, their parameters {', '.join(PARAMETERS)}"
        )
    problems = [text for key, values in parameters.items() for text in _problems(checks[key], values)]
    if problems:
        raise NodeError("; ".join(problems))
    merged = [{"source": checklists.SOURCE, **check, **parameters.get(key, {})} for key, check in checks.items()]
    for check in merged:
        if check["kind"] == "size":
            check["fact"] = f"size.{check['path']}"
    return [check for check in merged if not check.get("skip")]


def of_machine(host: Host, name: str, instance_type: str | None) -> dict[str, dict[str, t.Any]]:
    """Return the parameters for ``choose`` that depend on the instance type and the local volume of a machine.

    An unknown type keeps the values of the reference architecture.
    """
    known = instance_types.lookup(instance_type)
    if name != "compute" or known is None:
        return {}
    accelerators, disks = known.get("accelerators") or {}, known.get("instance_store") or {}
    gpus = accelerators.get("count", 0) if accelerators.get("kind") == "gpu" else 0
    found: dict[str, dict[str, t.Any]] = {"checklist.gpus": {"expected": gpus}}
    if not gpus:
        found["checklist.driver"] = {"skip": True}
    if not instance_types.has_efa(known):
        found["checklist.efa"] = {"skip": True}
    found["checklist.scratch"] = (
        {"expected": disks["total_gb"] * 10**9, "path": _volume(host)} if disks.get("total_gb") else {"skip": True}
    )
    return found


def _volume(host: Host) -> str:
    """Return the path of this node's local volume; /scratch, as in the reference architecture, if it is not known."""
    record = host.read_json(f"{STATE_DIRECTORY}/local_storage.json")
    path = record.get("path") if isinstance(record, dict) else None
    return path if isinstance(path, str) and path.startswith("/") else "/scratch"


def _problems(check: t.Mapping[str, t.Any], values: t.Mapping[str, t.Any]) -> list[str]:
    """Return the errors in a site's values for one check, one sentence each."""
    wanted: dict[str, tuple[bool, str]] = {}
    for key, value in values.items():
        if key == "expected" and check["kind"] == "version_at_least":
            wanted[key] = (bool(version_key(value)), "a version in quotes, such as '1.50.0'")
        elif key == "expected":
            number = _is_number(value) and math.isfinite(value) and value >= 0
            wanted[key] = (number and check["kind"] != "present", "a number of 0 or more, and nothing for a program")
        elif key == "tolerance_percent":
            wanted[key] = (_is_number(value) and 0 <= value < 100, "a percentage from 0 to below 100")
        elif key == "severity":
            wanted[key] = (value in SEVERITIES[1:], f"one of {', '.join(SEVERITIES[1:])}")
        elif key == "path":
            wanted[key] = (isinstance(value, str) and value.startswith("/") and "\0" not in value, "an absolute path")
        elif key == "skip":
            wanted[key] = (isinstance(value, bool), "true or false")
    return [
        f"{key} of {check['id']} is {values[key]!r}: use {what}" for key, (fits, what) in wanted.items() if not fits
    ]


def verify(checks: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any]) -> list[Result]:
    """Return one verdict for each check. ``facts`` maps names to values; a missing name could not be determined.

    equal: the fact is the expected number. version_at_least: it is that version or newer. size: it is at least
    expected minus tolerance_percent. present: it exists (None: it does not, which is a failure).
    """
    return [_verify(check, facts) for check in checks]


def _verify(check: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> Result:
    wanted, name, what = check.get("expected"), check["fact"], check["what"]
    fields = {key: check[key] for key in ("unit", "source", "hint") if key in check}
    if name not in facts:
        return undeterminable(check["id"], f"{what} could not be determined", expected=wanted, **fields)
    found = facts[name]
    fail = {"severity": check.get("severity", "monitor"), **fields}
    if found is None:
        return failed(check["id"], f"{what} is missing", expected=wanted, **fail)
    if check["kind"] == "present":
        if isinstance(found, str) and not found.strip():
            return undeterminable(check["id"], f"{what} is empty", **fields)
        return passed(check["id"], found, **fields)
    good: bool | None
    if check["kind"] == "version_at_least":
        have, want = version_key(found), version_key(wanted)
        good = at_least(have, want) if have and want else None
    elif check["kind"] == "size":
        wanted = int(wanted * (100 - check.get("tolerance_percent", 0)) // 100) if _is_number(wanted) else None
        good = found >= wanted if _is_number(found) and wanted is not None else None
    else:
        good = found == wanted if _is_number(found) and _is_number(wanted) else None
    if good is None:
        why = f"{what}: {found!r} cannot be compared with {check.get('expected')!r}"
        return undeterminable(check["id"], why, expected=wanted, **fields)
    if not good:
        return failed(check["id"], f"{what} is not as the checklist expects", expected=wanted, found=found, **fail)
    return passed(check["id"], found, expected=wanted, **fields)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def look(host: Host, checks: t.Sequence[t.Mapping[str, t.Any]], seen: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the facts that these checks need; seen: the result of ``accelerator.look``. Writes nothing."""
    facts: dict[str, t.Any] = {}
    for check in checks:
        name = check["fact"]
        kind, _dot, rest = name.partition(".")
        if kind == "program":
            facts[name] = host.which(rest)
        elif kind == "daemon":
            facts[name] = _daemon(host, rest)
        else:
            value = _size(host, rest) if kind == "size" else _SOURCES[name](host, seen)
            if value is not UNKNOWN:
                facts[name] = value
    return facts


def _size(host: Host, path: str) -> object:
    """Return the bytes of the file system at a path; None without one of its own.

    A mount point without its file system is a directory of the root disk, which may be large enough.
    """
    if not host.exists(path):
        return None
    try:
        mount = find_mount(host.realpath(path), read_mounts(host))
    except NodeError:
        return UNKNOWN
    if mount is None or mount["target"] == "/":
        return None
    size = host.filesystem_size(path)
    return UNKNOWN if size is None else size


def _daemon(host: Host, name: str) -> str | None:
    """Return the running process with this name as ``pid N``, None if there is none."""
    pids = [pid for pid in host.listdir("/proc") if pid.isdecimal()]
    named = (pid for pid in pids if (host.read_text(f"/proc/{pid}/comm") or "").strip() == name)
    return next((f"pid {pid}" for pid in named if not _has_ended(host.read_text(f"/proc/{pid}/stat") or "")), None)


def _has_ended(stat: str) -> bool:
    """Return whether /proc/PID/stat has the state of an ended process, behind the name in parentheses."""
    return stat.rpartition(")")[2].split()[:1] in (["Z"], ["X"])


# A value that could not be determined, unlike None for a missing component.
UNKNOWN = object()


def _gpu_count(host: Host, seen: t.Mapping[str, t.Any]) -> object:
    smi = seen["smi"]
    if smi is None:
        return 0 if seen["pci_gpus"] == [] or (seen["type_known"] and not seen["expected"]) else UNKNOWN
    return UNKNOWN if smi["problem"] else len(smi["gpus"])


def _gpu_driver(host: Host, seen: t.Mapping[str, t.Any]) -> object:
    smi = seen["smi"]
    version = smi["driver"] if smi and not smi["problem"] else seen["kernel_module"]["version"]
    return version or UNKNOWN


def _efa_installer(host: Host, seen: t.Mapping[str, t.Any]) -> object:
    text = host.read_text(MARKER_PATH)
    return None if text is None else efa_parse.parse_marker(text)["version"] or UNKNOWN


def _cuda_toolkit(host: Host, seen: t.Mapping[str, t.Any]) -> object:
    return cuda_version(host, CUDA_HOME)


def _nccl(host: Host, seen: t.Mapping[str, t.Any]) -> object:
    tried = try_load(host, "libnccl.so.2")
    if tried["loads"] is None:
        return UNKNOWN
    return nccl_version(tried["nccl"])


def _plugin(host: Host, seen: t.Mapping[str, t.Any]) -> object:
    chosen = choose_plugin(find_plugins(host, (), {}))
    if chosen is None:
        return None
    return chosen["version"] or UNKNOWN


def _libfabric(host: Host, seen: t.Mapping[str, t.Any]) -> object:
    program = fi_info_program(host)
    return (libfabric_version(host, program) or UNKNOWN) if program else None


_SOURCES: dict[str, t.Callable[[Host, t.Mapping[str, t.Any]], object]] = {
    "gpu.count": _gpu_count,
    "gpu.driver": _gpu_driver,
    "efa.installer": _efa_installer,
    "cuda.toolkit": _cuda_toolkit,
    "nccl.version": _nccl,
    "plugin.version": _plugin,
    "libfabric.version": _libfabric,
}
