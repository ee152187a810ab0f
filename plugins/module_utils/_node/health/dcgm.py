# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NVIDIA's DCGM counts on each GPU, where its host engine or its exporter runs; it is never started for this.

Sources: field numbers and names of DCGM's header dcgm_fields.h (two also by their newer names); the table of
``dcgmi dmon`` and the text of dcgm-exporter as NVIDIA's documentation shows them.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._data import xid_catalog
from ..system.ask import ask
from ..system.host import Host
from ..verdict.result import PASS, SEVERITIES, Result, Scope, failed, not_applicable, passed, undeterminable

SOURCE = "DCGM"
SECONDS = 20
# Default port of dcgm-exporter.
EXPORTER_PORT = 9400
ENGINE = "nv-hostengine"
# DCGM's words for "no value": DCGM_INT64_BLANK and those above it, and its 32-bit twins.
_BLANK = 0x7FFFFFF0
_ROW = re.compile(r"GPU\s+(\d+)\s+(.*)")
_SAMPLE = re.compile(r"(DCGM_FI_\w+)\{([^{}]*)\}\s+(\S+)")


@dataclasses.dataclass(frozen=True)
class Field:
    """number and names are DCGM's; the verdict on it is dcgm.NAME, its figures are in unit."""

    name: str
    number: int
    names: tuple[str, ...]
    unit: str


FIELDS = (
    Field("temperature", 150, ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"), "C"),
    Field("memory_temperature", 140, ("DCGM_FI_DEV_MEMORY_TEMP",), "C"),
    Field("power", 155, ("DCGM_FI_DEV_POWER_USAGE",), "W"),
    Field("pcie_replays", 202, ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER",), "retries"),
    Field("xid", 230, ("DCGM_FI_DEV_XID_ERRORS",), "last Xid"),
    Field("ecc_corrected", 310, ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",), "errors"),
    Field("ecc_uncorrected", 311, ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",), "errors"),
    Field("remapped_corrected", 394, ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",), "rows"),
    Field(
        "remapped_uncorrected",
        393,
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
        "rows",
    ),
    Field("remap_failure", 395, ("DCGM_FI_DEV_ROW_REMAP_FAILURE",), "GPUs"),
    Field("remap_pending", 396, ("DCGM_FI_DEV_ROW_REMAP_PENDING",), "GPUs"),
)
# Any figure but 0 is a failure: severity, what it means, what to do (NVIDIA GPU Memory Error Management).
_ZERO = {
    "ecc_uncorrected": ("reset", "memory errors that could not be corrected", "reset the GPU once no job runs"),
    "remap_failure": ("isolate", "a memory row could not be replaced", "replace the instance"),
    "remap_pending": ("reset", "a memory row is replaced at the next reset", "reset the GPU once no job runs"),
}
Figures = dict[str, dict[str, float]]


def check_dcgm(host: Host, allowed_xids: t.Collection[int] = (), most_celsius: float | None = None) -> list[Result]:
    """A verdict dcgm.NAME for each of ``FIELDS`` that is told, found being {gpuN: figure}; else dcgm.fields, why not.

    most_celsius: what a GPU may have; without it temperatures are told and not judged, as are all other figures for
    which nobody publishes a bound.
    """
    figures, problem = _look(host)
    if figures is None:
        return [not_applicable("dcgm.fields", problem, source=SOURCE)]
    if not any(figures.values()):
        return [undeterminable("dcgm.fields", problem or "DCGM told no figure of any GPU", source=SOURCE)]
    gpus = sorted({gpu for told in figures.values() for gpu in told}, key=lambda gpu: (len(gpu), gpu))
    verdicts = []
    for field in FIELDS:
        told = figures[field.name]
        if told:
            verdict = _judge(field, told, allowed_xids, most_celsius)
            silent = [gpu for gpu in gpus if gpu not in told]
            verdicts.append(_unproved(verdict, silent) if verdict.status == PASS and silent else verdict)
    return verdicts


def _unproved(verdict: Result, silent: t.Sequence[str]) -> Result:
    """A GPU that DCGM knows and of which it does not tell this is no pass; but no Xid at all is told by no figure."""
    if verdict.id == "dcgm.xid":
        return verdict
    return undeterminable(
        verdict.id, f"not told of {', '.join(silent)}", expected=verdict.expected, unit=verdict.unit, source=SOURCE
    )


def _look(host: Host) -> tuple[Figures | None, str]:
    """{field: {gpuN: figure}}, and why there is none; None where no DCGM runs here."""
    program = host.which("dcgmi")
    if program and _runs(host, ENGINE):
        numbers = ",".join(str(field.number) for field in FIELDS)
        told, problem = ask(host, [program, "dmon", "-e", numbers, "-c", "1"], SECONDS)
        return parse_dmon("" if problem else told), problem or ""
    if _listens(host, EXPORTER_PORT):
        # The page is of this machine: no proxy is asked for it.
        argv = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", "5"]
        told, problem = ask(host, [*argv, f"http://127.0.0.1:{EXPORTER_PORT}/metrics"], SECONDS)
        return parse_exporter("" if problem else told), problem or ""
    what = f"dcgmi is installed and {ENGINE} does not run" if program else "DCGM is not installed"
    return None, f"{what}, and nothing listens on port {EXPORTER_PORT}"


def _runs(host: Host, name: str) -> bool:
    return any(
        (host.read_text(f"/proc/{pid}/comm") or "").strip() == name for pid in host.listdir("/proc") if pid.isdecimal()
    )


def _listens(host: Host, port: int) -> bool:
    """Whether a process listens on a TCP port: state 0A in the tables of the kernel."""
    tables = [host.read_text(f"/proc/net/{name}") or "" for name in ("tcp", "tcp6")]
    return any(re.search(rf"^\s*\d+: [0-9A-F]+:{port:04X} \S+ 0A ", table, re.MULTILINE) for table in tables)


def parse_dmon(text: str) -> Figures:
    """The table of dcgmi dmon for ``FIELDS`` in their order: a line "GPU 0" with a figure for each.

    Columns go by their place, for their headings differ between releases; a line with other than one word for each
    field is left out, since no figure of it can be told from another.
    """
    found: Figures = {field.name: {} for field in FIELDS}
    for line in text.splitlines():
        row = _ROW.match(line.strip())
        words = row.group(2).split() if row else []
        if row and len(words) == len(FIELDS):
            for field, word in zip(FIELDS, words):
                _keep(found[field.name], row.group(1), word)
    return found


def parse_exporter(text: str) -> Figures:
    """What dcgm-exporter serves: NAME{gpu="0",...} figure. Of the parts of a GPU (MIG) the largest counts."""
    names = {name: field.name for field in FIELDS for name in field.names}
    found: Figures = {field.name: {} for field in FIELDS}
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        gpu = re.search(r'(?:^|,)\s*gpu="(\d+)"', sample.group(2)) if sample else None
        if sample and gpu and sample.group(1) in names:
            _keep(found[names[sample.group(1)]], gpu.group(1), sample.group(3))
    return found


def _keep(figures: dict[str, float], gpu: str, word: str) -> None:
    """Remember a figure; of several for one GPU the largest."""
    try:
        value = float(word)
    except ValueError:
        return
    if 0 <= value < _BLANK:
        figures[f"gpu{gpu}"] = max(value, figures.get(f"gpu{gpu}", value))


def _judge(
    field: Field, figures: t.Mapping[str, float], allowed_xids: t.Collection[int], most_celsius: float | None
) -> Result:
    check = f"dcgm.{field.name}"
    fields: dict[str, t.Any] = {"found": dict(figures), "unit": field.unit, "source": SOURCE}
    if field.name == "xid":
        return _xid(check, figures, allowed_xids, fields)
    if field.name in _ZERO:
        severity, meaning, hint = _ZERO[field.name]
        bad = [gpu for gpu, value in figures.items() if value]
        if not bad:
            return passed(check, expected=0, **fields)
        told = f"{', '.join(bad)}: {meaning}"
        return failed(check, told, severity=severity, expected=0, hint=hint, scope=_scope(bad), **fields)
    if most_celsius is not None and field.name == "temperature":
        hot = [gpu for gpu, value in figures.items() if value > most_celsius]
        if not hot:
            return passed(check, expected=most_celsius, **fields)
        told = f"{', '.join(hot)} is hotter than {most_celsius:g} C"
        return failed(check, told, severity="monitor", expected=most_celsius, scope=_scope(hot), **fields)
    span = " to ".join(dict.fromkeys(f"{value:g}" for value in (min(figures.values()), max(figures.values()))))
    return not_applicable(
        check, f"{span} {field.unit} on {len(figures)} GPUs; nothing says what it should be", **fields
    )


def _scope(gpus: t.Sequence[str]) -> Scope:
    return Scope(device=gpus[0]) if len(gpus) == 1 else Scope()


def _xid(check: str, figures: t.Mapping[str, float], allowed: t.Collection[int], fields: dict[str, t.Any]) -> Result:
    """The last Xid of each GPU since DCGM runs, by NVIDIA's catalog; one that a site allows does not count."""
    known = {gpu: xid_catalog.classify(int(value)) for gpu, value in figures.items() if value}
    bad = [gpu for gpu, xid in known.items() if xid["severity"] != "none" and xid["code"] not in allowed]
    if not bad:
        return passed(check, **fields)
    worst = known[max(bad, key=lambda gpu: SEVERITIES.index(known[gpu]["severity"]))]
    told = "; ".join(f"{gpu} last reported Xid {known[gpu]['code']}" for gpu in bad)
    return failed(check, told, severity=worst["severity"], hint=worst["action"], scope=_scope(bad), **fields)
