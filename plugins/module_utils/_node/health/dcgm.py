# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counters of NVIDIA's DCGM for each GPU, if its host engine or its exporter is running; it is never started for this.

Sources: field numbers and names of DCGM's header dcgm_fields.h (two also by their newer names); the table of
``dcgmi dmon`` and the output of dcgm-exporter as shown in NVIDIA's documentation.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from ..._data import xid_catalog
from ..system.ask import ask
from ..system.host import Host
from ..verdict.evidence import Field as Evidence
from ..verdict.evidence import Subject, above, decide, exactly, is_number, within
from ..verdict.result import SEVERITIES, Result, Scope, failed, first_of, moment, not_applicable, passed, undeterminable

SOURCE = "DCGM"
SECONDS = 20
# Default port of dcgm-exporter.
EXPORTER_PORT = 9400
ENGINE = "nv-hostengine"
# DCGM's notations of "no value": N/A, DCGM_INT32_BLANK and the three above it, and their 64-bit twins (dcgm_structs.h).
_NO_VALUE = ("N/A", *(str(blank + more) for blank in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0) for more in range(4)))
# Fields that a GPU model may not support, such as row remapping; then no GPU of the node has a value.
_MAY_LACK = ("remap_failure", "remap_pending", "temperature")
_ROW = re.compile(r"GPU\s+(\d+)\s+(.*)")
# Name, labels, figure and perhaps a time in milliseconds (Prometheus, text-based format).
_SAMPLE = re.compile(r"(DCGM_FI_\w+)\{(.*)\}\s+(\S+)(?:\s+(\S.*))?")
# Seconds for which a sample with a time is evidence: our own choice, ten times the exporter's interval.
FRESH_SECONDS = 300
STALE = "a figure of another time"
CUT = "a figure that breaks off"
_FIGURE = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?")
# Beginnings of dcgmi's headings that name a field in every release (dcgm_fields.cpp, short names).
_HEADINGS = {"TMPTR": "temperature", "POWER": "power", "PCIRP": "pcie_replays", "XIDER": "xid"}
_UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LABEL = re.compile(rf'[{{,]\s*uuid="({_UUID})"', re.IGNORECASE)
# Question marks instead of digits stand for a GPU that is not initialised yet.
_DRIVER_UUID = re.compile(rf"^GPU UUID:\s*({_UUID})\s*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Field:
    """A field with its number and names in DCGM; its verdict is dcgm.NAME, its figures are in ``unit``."""

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
# Any figure but 0 is a failure: severity, meaning, remedy (NVIDIA GPU Memory Error Management).
_ZERO = {
    "ecc_uncorrected": ("reset", "memory errors that could not be corrected", "reset the GPU once no job runs"),
    "remap_failure": ("isolate", "a memory row could not be replaced", "replace the instance"),
    "remap_pending": ("reset", "a memory row is replaced at the next reset", "reset the GPU once no job runs"),
}
# The printed value of each GPU, by field.
Words = dict[str, dict[str, str]]
GPUS = "/proc/driver/nvidia/gpus"
# Number of missing values that a message names.
SHOWN = 4


@dataclasses.dataclass(frozen=True)
class Reported:
    """Output of DCGM: the words of each field, the GPUs and their UUIDs (empty if it has none), and why it is empty."""

    words: Words
    gpus: t.Collection[str]
    uuids: t.Collection[str] = ()
    problem: str = ""


def check_dcgm(host: Host, allowed_xids: t.Collection[int] = (), most_celsius: float | None = None) -> list[Result]:
    """Return dcgm.fields, and dcgm.NAME for each of ``FIELDS`` with a value, {gpuN: figure} in ``found``.

    dcgm.fields passes if DCGM reports exactly the GPUs of the driver, and no value of them is missing.

    most_celsius: the highest temperature of a GPU. Without it temperatures are reported without a judgement, as are all
    figures for which no limit is published.
    """
    reported = _look(host)
    if isinstance(reported, str):
        return [not_applicable("dcgm.fields", reported, source=SOURCE)]
    words = reported.words
    if not any(is_number(figure(word)) for given in words.values() for word in given.values()):
        why = reported.problem or "DCGM reported no figure for any GPU"
        return [undeterminable("dcgm.fields", why, source=SOURCE)]
    gpus = sorted(reported.gpus, key=lambda gpu: (len(gpu), gpu))
    verdicts = [_fields(host, reported, gpus)]
    for field in FIELDS:
        if words[field.name]:
            verdicts.append(_judge(field, words[field.name], gpus, allowed_xids, most_celsius))
    return verdicts


def _fields(host: Host, reported: Reported, gpus: t.Sequence[str]) -> Result:
    """Return whether DCGM reports the GPUs of the driver, each with the values that others have."""
    check, names = "dcgm.fields", host.listdir(GPUS)
    driver_count = len(names)
    known = {
        uuid for name in names for uuid in _DRIVER_UUID.findall(host.read_text(f"{GPUS}/{name}/information") or "")
    }
    text = None
    if driver_count != len(gpus):
        text = f"DCGM reports {len(gpus)} GPUs, and the driver has {driver_count}"
    elif list(gpus) != [f"gpu{number}" for number in range(driver_count)]:
        # DCGM numbers the GPUs that it finds from 0.
        text = f"DCGM reports {', '.join(gpus)}, and the driver has {driver_count} GPUs"
    elif reported.uuids and len(known) == driver_count and set(reported.uuids) != known:
        text = f"DCGM reports GPUs with other UUIDs than the driver: {', '.join(sorted(set(reported.uuids) - known))}"
    if text:
        return undeterminable(check, text, expected=driver_count, found=len(gpus), source=SOURCE)
    missing = [f"{field.names[0]} of {gpu}" for field in FIELDS for gpu in _without(field, reported.words, gpus)]
    if missing:
        return undeterminable(check, f"DCGM reports no value of {first_of(missing, SHOWN)}", source=SOURCE)
    lacking = [field.name for field in FIELDS if not _figures(reported.words[field.name])]
    rest = f", without {', '.join(lacking)}" if lacking else ""
    return passed(
        check, f"{len(FIELDS) - len(lacking)} of {len(FIELDS)} fields of {driver_count} GPUs{rest}", source=SOURCE
    )


def _without(field: Field, words: Words, gpus: t.Sequence[str]) -> list[str]:
    """Return the GPUs without a figure of a field that another GPU has; a GPU that never had an Xid may have none."""
    given = words[field.name]
    figures = _figures(given)
    may_lack = _NO_VALUE if field.name == "xid" else ()
    return [gpu for gpu in gpus if gpu not in figures and given.get(gpu) not in may_lack] if figures else []


def _figures(words: t.Mapping[str, str]) -> dict[str, float]:
    return {gpu: value for gpu, value in ((gpu, figure(word)) for gpu, word in words.items()) if value is not None}


def _look(host: Host) -> Reported | str:
    """Return what DCGM reports; without DCGM the reason."""
    program = host.which("dcgmi")
    if program and _runs(host, ENGINE):
        numbers = ",".join(str(field.number) for field in FIELDS)
        output, problem = ask(host, [program, "dmon", "-e", numbers, "-c", "1"], SECONDS)
        return Reported(*parse_dmon("" if problem else output), problem=problem or "")
    if _listens(host, EXPORTER_PORT):
        # The page is local, so no proxy is used.
        argv = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", "5"]
        output, problem = ask(host, [*argv, f"http://127.0.0.1:{EXPORTER_PORT}/metrics"], SECONDS)
        output = "" if problem else output
        return Reported(
            *parse_exporter(output, moment(host.now())), uuids=set(_LABEL.findall(output)), problem=problem or ""
        )
    what = f"dcgmi is installed and {ENGINE} is not running" if program else "DCGM is not installed"
    return f"{what}, and nothing listens on port {EXPORTER_PORT}"


def _runs(host: Host, name: str) -> bool:
    return any(
        (host.read_text(f"/proc/{pid}/comm") or "").strip() == name for pid in host.listdir("/proc") if pid.isdecimal()
    )


def _listens(host: Host, port: int) -> bool:
    """Return whether a process listens on a TCP port: state 0A in the kernel's tables."""
    tables = [host.read_text(f"/proc/net/{name}") or "" for name in ("tcp", "tcp6")]
    return any(re.search(rf"^\s*\d+: [0-9A-F]+:{port:04X} \S+ 0A ", table, re.MULTILINE) for table in tables)


def parse_dmon(text: str) -> tuple[Words, set[str]]:
    """Parse the table of dcgmi dmon: lines "GPU 0" with one word for each of ``FIELDS``; return the words and the GPUs.

    Columns are identified by position, as their headings differ between releases. Of a line with another number of
    words, an unfinished line, and behind headings in another order, only the GPU is used: its words cannot be assigned
    to fields.
    """
    found: Words = {field.name: {} for field in FIELDS}
    gpus, in_order = set(), True
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            in_order = in_order and _is_in_order(line.lstrip("#").split()[1:])
        row = _ROW.match(line.strip())
        if not row:
            continue
        gpus.add(f"gpu{row.group(1)}")
        words = row.group(2).split()
        if len(words) == len(FIELDS) and in_order and line.endswith("\n"):
            for field, word in zip(FIELDS, words):
                _keep(found[field.name], row.group(1), word)
    return found, gpus


def _is_in_order(headings: t.Sequence[str]) -> bool:
    """Return whether no heading that names a field stands above another one."""
    return not any(word in _HEADINGS and field.name != _HEADINGS[word] for field, word in zip(FIELDS, headings))


def parse_exporter(text: str, now: datetime.datetime | None = None) -> tuple[Words, set[str]]:
    """Parse the samples of dcgm-exporter, NAME{gpu="0",...} word; for the parts of a GPU (MIG) the worst counts.

    A sample with a time counts only within ``FRESH_SECONDS`` of ``now``, and none of a line that breaks off.
    """
    names = {name: field.name for field in FIELDS for name in field.names}
    found: Words = {field.name: {} for field in FIELDS}
    gpus = set()
    for line in text.splitlines(keepends=True):
        sample = _SAMPLE.fullmatch(line.strip())
        gpu = re.search(r'(?:^|,)\s*gpu="(\d+)"', sample.group(2)) if sample else None
        if sample and gpu:
            gpus.add(f"gpu{gpu.group(1)}")
            if sample.group(1) in names:
                word = sample.group(3) if _is_fresh(sample.group(4), now) else STALE
                word = word if line.endswith("\n") else CUT
                _keep(found[names[sample.group(1)]], gpu.group(1), word)
    return found, gpus


def _is_fresh(milliseconds: str | None, now: datetime.datetime | None) -> bool:
    if milliseconds is None:
        return True
    if now is None or not re.fullmatch(r"\d{1,15}", milliseconds):
        return False
    return abs(int(milliseconds) / 1000 - now.timestamp()) <= FRESH_SECONDS


def figure(word: str | None) -> float | None:
    """Return a word as a figure; None if it is not a number, or not one that DCGM can have measured."""
    if word is None or word in _NO_VALUE or not _FIGURE.fullmatch(word):
        return None
    value = float(word)
    return value if is_number(value) else None


def _keep(words: dict[str, str], gpu: str, word: str) -> None:
    """Store a word; of several for one GPU, the one without a figure, else the largest."""
    before = words.get(f"gpu{gpu}")
    known, new = figure(before), figure(word)
    if before is None or (known is not None and (new is None or new > known)):
        words[f"gpu{gpu}"] = word


def _judge(
    field: Field,
    words: t.Mapping[str, str],
    gpus: t.Sequence[str],
    allowed_xids: t.Collection[int],
    most_celsius: float | None,
) -> Result:
    check = f"dcgm.{field.name}"
    figures = _figures(words)
    fields: dict[str, t.Any] = {"unit": field.unit, "source": SOURCE}
    if field.name == "xid":
        return _xid(check, words, gpus, figures, allowed_xids, fields)
    evidence = None
    if field.name in _ZERO:
        severity, meaning, fields["hint"] = _ZERO[field.name]
        evidence = Evidence("figure", exactly(0.0), above(0), meaning, severity, label=field.names[0])
        fields["expected"] = 0
    elif most_celsius is not None and field.name == "temperature":
        text = f"is hotter than {most_celsius:g} C"
        evidence = Evidence("figure", within(0, most_celsius), above(most_celsius), text, label=field.names[0])
        fields["expected"] = most_celsius
    if evidence is None or (field.name in _MAY_LACK and all(word in _NO_VALUE for word in words.values())):
        span = (
            " to ".join(dict.fromkeys(f"{value:g}" for value in (min(figures.values()), max(figures.values()))))
            if (figures)
            else ""
        )
        values = f"{span} {field.unit} on {len(figures)} GPUs; no limit is known"
        fields.pop("hint", None)
        return not_applicable(check, values if figures else "DCGM has no value of it", found=figures, **fields)
    raw = {gpu: {"figure": words[gpu]} for gpu in gpus if gpu in words}
    subjects = [Subject({"figure": figures.get(gpu)}, gpu, raw.get(gpu, {})) for gpu in gpus]
    verdict = decide(check, [evidence], subjects, figures, **fields)
    return verdict if verdict.status == "pass" else dataclasses.replace(verdict, found=figures)


def _scope(gpus: t.Sequence[str]) -> Scope:
    return Scope(device=gpus[0]) if len(gpus) == 1 else Scope()


def _xid(
    check: str,
    words: t.Mapping[str, str],
    gpus: t.Sequence[str],
    figures: t.Mapping[str, float],
    allowed: t.Collection[int],
    fields: dict[str, t.Any],
) -> Result:
    """Return the verdict on the last Xid of each GPU since DCGM started, by NVIDIA's catalog, without allowed Xids.

    A GPU that never had an Xid may have no value.
    """
    whole = {gpu: int(value) for gpu, value in figures.items() if value.is_integer()}
    known = {gpu: xid_catalog.classify(value) for gpu, value in whole.items() if value}
    bad = [gpu for gpu, xid in known.items() if xid["severity"] != "none" and xid["code"] not in allowed]
    if bad:
        worst = known[max(bad, key=lambda gpu: SEVERITIES.index(known[gpu]["severity"]))]
        message = "; ".join(f"{gpu} last reported Xid {known[gpu]['code']}" for gpu in bad)
        more = {**fields, "found": dict(figures), "hint": worst["action"], "scope": _scope(bad)}
        return failed(check, message, severity=worst["severity"], **more)
    unreadable = [
        f"{gpu} reads '{words[gpu]}'" if gpu in words else f"no value of {gpu}"
        for gpu in gpus
        if gpu not in whole and words.get(gpu) not in _NO_VALUE
    ]
    if unreadable or not figures:
        return undeterminable(check, "; ".join(unreadable) or "no GPU has a value of it", found=dict(figures), **fields)
    return passed(check, dict(figures), **fields)
