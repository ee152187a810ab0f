# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the output of nccl-tests and nccom-test: header, ranks, the table by its header line, closing lines.

The formats are those of NVIDIA/nccl-tests 2.0 to 2.19 (src/util.cu, src/common.cu) and of the NCCOM-TEST user guide.
"""

from __future__ import annotations

import dataclasses
import math
import re
import typing as t

from .log import NcclLog

MAX_ROWS = 100_000
MAX_RANKS = 100_000
MAX_RUNS = 500
MAX_ROW = 1000

_HEADER = re.compile(
    r"# nThread (\d+) nGpus (\d+) minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\) warmup iters: \d+ "
    r"iters: (\d+)(?: agg iters: \d+)? validation: (\d+)\b.*"
)
_STARTING = re.compile(r"# Collective test starting: (\w+?)(?:_perf)?\s*")
_CONCLUDED = re.compile(r"# Collective test concluded: \w+\s*")
_TESTS = re.compile(r"# nccl-tests version (\S+) .*")
_RANK = re.compile(
    r"#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+ on\s+(\S+) device\s+\d+ \[([0-9a-fA-Fx:]+)\](.*)"
)
_REDUCED = re.compile(r"# Reducing maxBytes to (\d+) due to memory limitation\s*")
_OUT_OF_BOUNDS = re.compile(r"# Out of bounds values\s+: (\d+) (OK|FAILED)\s*")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s+: (\S+)(?: +(OK|FAILED))?\s*")
_ROW_LIKE = re.compile(r"\s*\d+\s+\d+\s+[a-z]")
_CONTINUATION = re.compile(r"\s*[-+\d.eE:naNif/A]+(\s+[-+\d.eE:naNif/A]+)*\s*")
_TYPE = re.compile(r"[a-z][a-z0-9_]{1,20}")

_NCCOM_HEADER = re.compile(r"\s*size\(B\)\s+count\(elems\)\s+type\s+time.*\bbusbw\(GB/s\).*")
_NCCOM_AVERAGE = re.compile(r"Avg bus bandwidth:\s+([\d.]+)\s*GB/s\s*")

# A size is rounded by less than this for each rank.
ROUNDED_BYTES = 64

_COLUMNS = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong".split()

# Operations of nccl-tests; a collective without one prints none, or nothing.
REDUCTIONS = frozenset({"sum", "prod", "min", "max", "avg", "mulsum", "none", ""})
# Bytes of each of its types.
TYPE_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "int", "float"), 4),
    **dict.fromkeys(("int64", "uint64", "double"), 8),
}
# The same of nccom-test, by its user guide (--datatype).
NCCOM_BYTES = {
    **dict.fromkeys(("int8", "uint8"), 1),
    **dict.fromkeys(("fp16", "bf16", "int16", "uint16"), 2),
    **dict.fromkeys(("fp32", "int32", "uint32"), 4),
    **dict.fromkeys(("int64", "uint64"), 8),
}
_ROOT = re.compile(r"-1|\d{1,6}|")

NCCL_TESTS = "nccl-tests"
NCCOM_TEST = "nccom-test"


def sweep(smallest: int, largest: int, step: int, factor: bool) -> list[int]:
    """Return the sizes from smallest to largest, by a factor or a number of bytes; empty for impossible values."""
    if step < (2 if factor else 1) or (factor and smallest < 1):
        return []
    found: list[int] = []
    while smallest <= largest and len(found) <= MAX_ROWS:
        found.append(smallest)
        smallest = smallest * step if factor else smallest + step
    return found


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table: size in bytes, bandwidths in GB/s, ``wrong`` elements (None: not checked).

    ``kind`` is type, redop and root. ``count`` is the number of elements of each rank, None if the table lacks it.
    ``contradiction`` names numbers of the row that do not fit together.
    """

    size: int
    kind: tuple[str, str, str]
    busbw: float
    in_place_busbw: float | None
    wrong: float | None
    in_place_wrong: float | None
    count: int | None = None
    algbw: float | None = None
    in_place_algbw: float | None = None
    contradiction: str | None = None


@dataclasses.dataclass
class Run:
    """One run of a test: its announced options, its ranks and hosts, and its results.

    log: NCCL's lines during the run. header: threads, min, max, step, step_kind (factor or bytes), iters,
    validation. where: rank to host; hosts: all of them; gpus: host and PCI address of each. too_slow: the test itself
    compared its average with NCCL_TESTS_MIN_BW. tangled: lines of several runs are mixed, so that none can be
    assigned to this one. reduced_from: the largest size in bytes that the test was given, if its memory is too small
    for it (None: it measured that size); header has the size that it measured instead.
    """

    tool: str
    log: NcclLog
    program: str | None = None
    version: str | None = None
    header: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    where: dict[int, str] = dataclasses.field(default_factory=dict)
    hosts: set[str] = dataclasses.field(default_factory=set)
    gpus: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    groups: set[int] = dataclasses.field(default_factory=set)
    devices: set[str] = dataclasses.field(default_factory=set)
    columns: list[str] = dataclasses.field(default_factory=list)
    units: tuple[str, ...] = ()
    rows: list[Row] = dataclasses.field(default_factory=list)
    broken: int = 0
    out_of_bounds: int | None = None
    average: float | None = None
    too_slow: bool = False
    concluded: bool = False
    tangled: bool = False
    fragment: str = ""
    reduced_from: int | None = None

    @property
    def closed(self) -> bool:
        """Return whether the output has the closing lines of a finished test."""
        if self.tool == NCCOM_TEST:
            return self.average is not None
        started = self.program is not None
        # Without rows the test prints "-nan" for their average.
        averaged = self.average is not None or self.too_small
        return self.out_of_bounds is not None and averaged and (self.concluded or not started)

    def sizes(self) -> list[int]:
        """Return the sizes that the header announces; empty for none or impossibly many."""
        smallest, largest, step = (self.header.get(key, 0) for key in ("min", "max", "step"))
        return sweep(smallest, largest, step, self.header.get("step_kind") == "factor")

    def missing_sizes(self, wanted: t.Sequence[int], ranks: int) -> list[int]:
        """Return the wanted sizes that a complete table lacks; ``ranks`` is their number for nccom-test."""
        if self.tool == NCCL_TESTS:
            # Its rows are rounded, and ``completeness`` has compared them with the header.
            return sorted(set(wanted) - set(self.sizes()))
        # Its guide promises a line for every size, and not how it rounds. A quarter is less than the distance to the
        # next size; a small size may be rounded to a number of bytes for each rank.
        measured, missing = sorted(row.size for row in self.rows), sorted(wanted)
        for slack in (lambda size: size // 4, lambda size: max(size // 4, ROUNDED_BYTES * ranks)):
            left = []
            for size in missing:
                row = next((found for found in measured if abs(size - found) <= slack(size)), None)
                if row is None:
                    left.append(size)
                else:
                    measured.remove(row)
            missing = left
        return missing

    @property
    def too_small(self) -> bool:
        """Return whether the memory of the test holds less than its smallest size."""
        return self.reduced_from is not None and not self.rows and self.header["min"] > self.header["max"]

    def completeness(self) -> str | None:
        """Return why the table may be incomplete; None if every announced size is present."""
        if self.broken or self.fragment:
            return f"{self.broken + bool(self.fragment)} lines of the table are damaged"
        if self.too_small:
            return (
                f"nothing was measured: the smallest requested size is {self.header['min']} bytes, and the memory "
                f"holds at most {self.header['max']}"
            )
        if not self.rows:
            return "the table has no rows"
        if self.tool == NCCOM_TEST:
            return self._element_count_error() or self._unlike_average()
        sizes = self.sizes()
        if not sizes:
            return "the header does not announce the sizes of the test"
        groups: dict[tuple[str, str, str], list[int]] = {}
        for row in self.rows:
            groups.setdefault(row.kind, []).append(row.size)
        lengths = {len(rows) for rows in groups.values()}
        if len(lengths) != 1 or lengths.pop() % len(sizes):
            return f"the header announces {len(sizes)} sizes, and the table has {len(self.rows)} rows"
        # Sizes are rounded down to a multiple of the number of ranks.
        slack = ROUNDED_BYTES * max(len(self.where), 1)
        for rows in groups.values():
            for index, size in enumerate(rows):
                if not sizes[index % len(sizes)] - slack <= size <= sizes[index % len(sizes)]:
                    return f"a row has {size} bytes where the header announces {sizes[index % len(sizes)]}"
        return self._element_count_error() or self._unlike_average()

    def _element_count_error(self) -> str | None:
        """Return the error for a row whose number of elements does not fit its size; None if all fit."""
        for row in self.rows:
            width = (NCCOM_BYTES if self.tool == NCCOM_TEST else TYPE_BYTES).get(row.kind[0])
            if width is None:
                return f"how many bytes a {row.kind[0]} has is not known"
            # Some collectives count the elements of one rank, and the bytes of all.
            held = (row.count or 0) * width
            if self.tool == NCCOM_TEST and held and row.size % held == 0:
                # The output names no ranks.
                continue
            if row.size not in (held, held * max(len(self.where), 1)):
                return f"a row of {row.size} bytes has {row.count} elements of {row.kind[0]}"
        return None

    def _unlike_average(self) -> str | None:
        """Return the error for an average that does not fit the bandwidths of the table; None if it fits."""
        found = [bw for row in self.rows for bw in (row.busbw, row.in_place_busbw) if bw is not None]
        mean = sum(found) / len(found)
        # Several threads have separate bandwidths; the table has those of the first only.
        if self.average is None or self.header.get("threads", 1) != 1:
            return None
        # Rows have two digits after the point, or four to six in all.
        if abs(mean - self.average) <= 0.01 + 0.001 * mean:
            return None
        return f"the test printed an average of {self.average:g} GB/s, and that of the rows is {mean:.6g}"


class Tables:
    """Split an output into runs; ``feed`` gets every line that is not NCCL's own."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._first = NcclLog()
        self._strays = False

    @property
    def log(self) -> NcclLog:
        """Return the log for NCCL's lines: of the run that is being read; lines before the first run belong to it."""
        return self.runs[-1].log if self.runs else self._first

    @property
    def where(self) -> dict[int, str]:
        """Return rank to host of the run that is being read."""
        return self.runs[-1].where if self.runs else {}

    @property
    def hosts(self) -> set[str]:
        """Return the hosts of the run that is being read."""
        return self.runs[-1].hosts if self.runs else set()

    def feed(self, line: str) -> None:
        """Read one line, without its end."""
        if line.startswith("#"):
            self._comment(line)
        elif _NCCOM_HEADER.fullmatch(line):
            self._begin("columns", NCCOM_TEST).columns = line.split()
        elif self.runs and self.runs[-1].columns:
            self._body(self.runs[-1], line)
        elif _ROW_LIKE.match(line) and parse_row(_COLUMNS, line.split()):
            self._record_misplaced()

    def _record_misplaced(self) -> None:
        """Record a misplaced line: the others of its run are missing, or mixed with those of this run."""
        if self.runs:
            self.runs[-1].tangled = True
        else:
            self._strays = True

    def fragment(self, line: str) -> None:
        """Read the beginning of a line that another process wrote into."""
        if self.runs and self.runs[-1].columns and _ROW_LIKE.match(line):
            self._body(self.runs[-1], line)

    def _begin(self, part: str, tool: str) -> Run:
        run = self.runs[-1] if self.runs else None
        taken = run is not None and bool(getattr(run, part))
        if run is None or taken or run.closed or run.rows or run.tool != tool:
            fresh = Run(tool, NcclLog() if self.runs else self._first, tangled=self._strays and not self.runs)
            if run is not None and not run.closed and len(self.runs) < MAX_RUNS:
                run.tangled = fresh.tangled = True
            if len(self.runs) >= MAX_RUNS:
                self.runs[-1].tangled = True
                return self.runs[-1]
            self.runs.append(fresh)
        return self.runs[-1]

    def _comment(self, line: str) -> None:
        if found := _HEADER.fullmatch(line):
            names = ("threads", "gpus", "min", "max", "step", "step_kind", "iters", "validation")
            values = (text if text in ("factor", "bytes") else _integer(text) for text in found.groups())
            self._begin("header", NCCL_TESTS).header = dict(zip(names, values))
        elif found := _STARTING.fullmatch(line):
            self._begin("program", NCCL_TESTS).program = found.group(1)
        elif found := _TESTS.fullmatch(line):
            self._begin("version", NCCL_TESTS).version = found.group(1)
        elif self.runs:
            self._part(self.runs[-1], line)
        elif any(part.fullmatch(line) for part in (_RANK, _OUT_OF_BOUNDS, _AVERAGE, _CONCLUDED)):
            self._record_misplaced()

    def _part(self, run: Run, line: str) -> None:
        words = line[1:].split()
        if words[:3] == ["size", "count", "type"]:
            run.tangled = run.tangled or bool(run.columns)
            run.columns = words
        elif words[:1] == ["(B)"] and run.columns and not run.rows:
            run.tangled = run.tangled or bool(run.units)
            run.units = tuple(words)
        elif found := _RANK.fullmatch(line):
            self._rank(run, found)
        elif found := _REDUCED.fullmatch(line):
            largest = _integer(found.group(1))
            if "max" in run.header and run.header["max"] > largest:
                run.reduced_from = run.reduced_from or run.header["max"]
                run.header["max"] = largest
        elif found := _OUT_OF_BOUNDS.fullmatch(line):
            run.tangled = run.tangled or run.out_of_bounds is not None
            run.out_of_bounds = _integer(found.group(1)) + (found.group(2) == "FAILED")
        elif found := _AVERAGE.fullmatch(line):
            run.tangled = run.tangled or run.average is not None
            run.average = _number(found.group(1))
            run.too_slow = found.group(2) == "FAILED"
        elif _CONCLUDED.fullmatch(line):
            run.tangled = run.tangled or run.concluded
            run.concluded = True

    def _rank(self, run: Run, found: re.Match[str]) -> None:
        rank, group, host, bus, device = found.groups()
        number = _integer(rank)
        # Two ranks with the same number belong to two runs.
        run.tangled = run.tangled or number in run.where or len(run.where) >= MAX_RANKS
        if not run.tangled:
            run.where[number] = host.split(".", 1)[0]
            run.hosts.add(run.where[number])
            run.gpus.add((run.where[number], bus))
            run.groups.add(_integer(group or "0"))
            run.devices.add(device.strip()[:80])

    def _body(self, run: Run, line: str) -> None:
        if run.tool == NCCOM_TEST and (found := _NCCOM_AVERAGE.fullmatch(line)):
            run.tangled = run.tangled or run.average is not None
            run.average = _number(found.group(1))
            return
        if _ROW_LIKE.match(line):
            run.broken += bool(run.fragment)
            run.fragment = line
        elif run.fragment and _CONTINUATION.fullmatch(line):
            run.fragment += line
        else:
            return
        words = run.fragment.split()
        row = parse_row(run.columns, words) if run.tool == NCCL_TESTS else parse_nccom_row(run.columns, words)
        if row is not None and len(run.rows) < MAX_ROWS:
            # A row after the end belongs to another run.
            run.tangled = run.tangled or run.average is not None
            run.rows.append(row)
            run.fragment = ""
        elif len(words) > len(run.columns) + 1 or len(run.fragment) > MAX_ROW:
            run.broken += 1
            run.fragment = ""


def parse_row(columns: list[str], words: list[str]) -> Row | None:
    """Return a row of nccl-tests by the words of its header line; None if the words do not fit them."""
    names = list(columns)
    if names[-1:] == ["timestamp"]:
        names = names[:-1]
        words = words[:-2] if len(words) == len(names) + 2 else []
    if "redop" in names and len(words) == len(names) - 1:
        # Some versions print nothing for a collective without an operation.
        words = words[:3] + [""] + words[3:]
    times = [index for index, name in enumerate(names) if name in ("time", "cputime")]
    if len(words) != len(names) or len(times) != 2:
        return None
    fixed = dict(zip(names[: times[0]], words))
    size, count = _integer(fixed.get("size", "")), _integer(fixed.get("count", ""))
    if size < 0 or count < 0 or not _TYPE.fullmatch(fixed.get("type", "")):
        return None
    if not _ROOT.fullmatch(fixed.get("root", "-1")) or fixed.get("redop", "") not in REDUCTIONS:
        return None
    halves = [
        _placement_figures(names[times[0] : times[1]], words[times[0] : times[1]]),
        _placement_figures(names[times[1] :], words[times[1] :]),
    ]
    if None in halves:
        return None
    (busbw, wrong, algbw), (in_place_busbw, in_place_wrong, in_place_algbw) = t.cast(
        "list[tuple[float, float | None, float]]", halves
    )
    kind = (fixed["type"], fixed.get("redop", ""), fixed.get("root", ""))
    contradiction = _contradiction(size, names[times[0] : times[1]], words[times[0] : times[1]]) or _contradiction(
        size, names[times[1] :], words[times[1] :]
    )
    return Row(size, kind, busbw, in_place_busbw, wrong, in_place_wrong, count, algbw, in_place_algbw, contradiction)


def _contradiction(size: int, names: list[str], words: list[str]) -> str | None:
    """Return the error for an algorithm bandwidth that is not size by time, within rounding; None if it is."""
    if names[0] != "time":
        return None
    return _unlike_time(1e3, size, words[0], dict(zip(names, words))["algbw"])


def _unlike_time(unit: float, size: int, time_text: str, text: str) -> str | None:
    """Return the error for a bandwidth, in ``unit`` bytes per microsecond, that is not size by time; None if it is."""
    time, algbw = (t.cast("float", _number(word)) for word in (time_text, text))
    half = _half_digit(time_text)
    if time <= half:
        return f"{size} bytes took {time_text} us" if size else None
    slowest, fastest = size / (time + half) / unit, size / (time - half) / unit
    slack = _half_digit(text) + 0.0001 * fastest
    if slowest - slack <= algbw <= fastest + slack:
        return None
    return f"{size} bytes in {time_text} us are not {text} GB/s"


def _half_digit(text: str) -> float:
    """Return half of the last printed digit of a number."""
    digits = text.partition("e")[0].partition(".")[2]
    return 0.5 * 10 ** -len(digits)


def _placement_figures(names: list[str], words: list[str]) -> tuple[float, float | None, float] | None:
    """Return bus bandwidth, wrong values and algorithm bandwidth of one placement, or None."""
    values = dict(zip(names, words))
    busbw, algbw, time = (_number(text) for text in (values.get("busbw", ""), values.get("algbw", ""), words[0]))
    if busbw is None or algbw is None or time is None or min(busbw, algbw, time) < 0:
        return None
    text = values.get("#wrong", values.get("error", ""))
    if text == "N/A":
        return busbw, None, algbw
    wrong = math.nan if text in ("nan", "-nan", "inf", "-inf") else _number(text)
    if wrong is None:
        return None
    # Before 2.13 the column is the largest deviation, which the closing line judges.
    return busbw, 0.0 if "error" in values and not math.isnan(wrong) else wrong, algbw


def parse_nccom_row(columns: list[str], words: list[str]) -> Row | None:
    """Return a row of nccom-test by the words of its header line, or None."""
    values = dict(zip(columns, words))
    time = next((text for name, text in values.items() if name.startswith("time")), "")
    size, count = _integer(values.get("size(B)", "")), _integer(values.get("count(elems)", ""))
    figures = [_number(text) for text in (time, values.get("algbw(GB/s)", ""), values.get("busbw(GB/s)", ""))]
    if len(words) != len(columns) or min(size, count) < 0 or not _TYPE.fullmatch(values["type"]):
        return None
    if any(figure is None or figure < 0 for figure in figures):
        return None
    _microseconds, algbw, busbw = t.cast("list[float]", figures)
    # The tables in its user guide have GiB/s below the heading GB/s.
    units = [_unlike_time(unit, size, time, values["algbw(GB/s)"]) for unit in (1e3, (1 << 30) / 1e6)]
    contradiction = None if None in units else units[0]
    return Row(size, (values["type"], "", ""), busbw, None, None, None, count, algbw, None, contradiction)


def _integer(text: str) -> int:
    """Return a decimal number, or -1."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1


def _number(text: str) -> float | None:
    """Return a finite number as C prints it, or None."""
    if not re.fullmatch(r"-?\d{1,300}(\.\d*)?(e[-+]?\d{1,3})?", text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None
