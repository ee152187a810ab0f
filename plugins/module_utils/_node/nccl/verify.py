# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on a run of nccl-tests or nccom-test: correct, fabric, bandwidth, on UltraServers nvlink_domain. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._data import instance_types
from ..._data.thresholds import TOLERANCE_PERCENT, published
from ..accelerator.parse import is_model
from ..verdict import result
from ..verdict.evidence import Field, Subject, decide, exactly, is_number, within
from . import fabric as nccl_fabric
from . import nvlink_domain
from .baseline import Entry, figures
from .counters import Snapshot
from .parse import Output
from .table import NCCL_TESTS, NCCOM_TEST, Run

# Operations of nccom-test on the command line, with their names in nccl-tests.
_COLLECTIVES = {"allr": "all_reduce", "allg": "all_gather", "redsct": "reduce_scatter"}
_ONE_DIRECTION = frozenset({"alltoall", "alltoallv", "sendrecv"})


@dataclasses.dataclass(frozen=True)
class RequestedRun:
    """The requested run, and its known circumstances.

    ranks, nodes, instance_type and collective are the requested ones (None: unknown). rc is the exit status of the
    test. checked: nccom-test ran with --check. before and after: host to byte counters of its EFA devices. baseline:
    entries of a site's own figures. tolerance_percent: by how much a bandwidth may stay below the figure. domains: the
    number of UltraServers that the nodes belong to. sizes: the requested sizes in bytes (empty: unknown).
    """

    ranks: int | None = None
    nodes: int | None = None
    instance_type: str | None = None
    collective: str | None = None
    rc: int | None = None
    checked: bool = False
    before: t.Mapping[str, Snapshot] | None = None
    after: t.Mapping[str, Snapshot] | None = None
    baseline: t.Sequence[Entry] = ()
    tolerance_percent: float = TOLERANCE_PERCENT
    domains: int | None = None
    sizes: t.Sequence[int] = ()

    @property
    def operation(self) -> str | None:
        """Return the collective under its name in nccl-tests."""
        if self.collective is None:
            return None
        name = self.collective[:-5] if self.collective.endswith("_perf") else self.collective
        return _COLLECTIVES.get(name, name)


@dataclasses.dataclass(frozen=True)
class Judged:
    """The three verdicts, a fourth if NVLink connects hosts, and the judged run (None: not exactly one)."""

    results: tuple[result.Result, ...]
    run: Run | None
    facts: dict[str, t.Any]


def judge(output: Output, requested: RequestedRun, tool: str | None = None) -> Judged:
    """Return the verdicts on an output; if ``tool`` is None, nccl-tests and nccom-test are recognised by it."""
    runs = [run for run in output.runs if tool is None or run.tool == tool]
    kind = tool or (runs[0].tool if runs else NCCL_TESTS)
    prefix = "nccom" if kind == NCCOM_TEST else "nccl"
    run, problem = select(runs, requested)
    correct = _correct(prefix, runs, run, problem, output, requested)
    taken = nccl_fabric.participation_error(run, requested.ranks, requested.nodes) if run else None
    fabric = _fabric(prefix, runs, run, problem, taken, requested, output)
    bandwidth = _bandwidth(prefix, run, problem, taken, correct, requested)
    domain = None
    if run is not None and run.tool == NCCL_TESTS and not taken:
        domain = nvlink_domain.verdict(
            run, requested.ranks, requested.nodes, requested.instance_type, requested.domains
        )
    if domain is None:
        return Judged((correct, fabric, bandwidth), run, facts(run, output))
    whole = domain.status == result.PASS and isinstance(domain.found, dict) and len(domain.found["domains"]) == 1
    if whole and fabric.reason == "not_the_network":
        fabric = result.not_applicable(fabric.id, "one_domain", message="NVLink joins all hosts of the run")
    return Judged((correct, fabric, bandwidth, domain), run, facts(run, output))


def select(runs: t.Sequence[Run], requested: RequestedRun) -> tuple[Run | None, str | None]:
    """Return the requested run, or why there is none."""
    if not runs:
        return None, "there is no output of nccl-tests or nccom-test in it"
    wanted = [run for run in runs if run.program is None or requested.operation in (None, run.program)]
    if not wanted:
        found = ", ".join(sorted({str(run.program) for run in runs}))
        return None, f"{requested.operation} was requested, and the output has only {found}"
    if len(wanted) > 1:
        return None, f"there are {len(wanted)} outputs in it where one was expected"
    if wanted[0].tangled:
        return None, "the lines of several outputs are mixed"
    return wanted[0], None


def facts(run: Run | None, output: Output) -> dict[str, t.Any]:
    """Return the facts of a run for users and reports; empty lists and nulls if unknown."""
    log = run.log if run else output.log
    between = log.between(run.where) if run else {}
    channels = sum(host.efa for host in between.values())
    direct = sum(host.gpudirect for host in between.values())
    return {
        "tool": run.tool if run else None,
        "collective": run.program if run else None,
        "test_version": run.version if run else None,
        "nccl_version": log.version,
        "plugin_version": log.plugin,
        "ranks": len(run.where) if run else 0,
        "hosts": sorted(run.hosts) if run else [],
        "devices": sorted(run.devices) if run else [],
        "providers": sorted({name for names in log.providers.values() for name in names}),
        "networks": sorted({name for names in log.networks.values() for name in names}),
        "gpudirect_rdma": None if not channels else "all" if direct >= channels else "some" if direct else "none",
        "intra_node": dict(sorted(log.intra.items())),
        "nvls_channels": log.nvls,
        "average_busbw": run.average if run else None,
        "rows": [{"size": row.size, "busbw": row.busbw, "in_place_busbw": row.in_place_busbw} for row in run.rows]
        if run
        else [],
        "warnings": list(log.warnings),
        "failures": list(log.failures),
        "notes": list(log.notes),
    }


def _failures(runs: t.Sequence[Run], output: Output, run: Run | None) -> list[str]:
    logs = [run.log] if run else [one.log for one in runs] or [output.log]
    return [text for log in logs for text in log.failures]


def _correct(
    prefix: str, runs: t.Sequence[Run], run: Run | None, problem: str | None, output: Output, requested: RequestedRun
) -> result.Result:
    check = f"{prefix}.correct"
    wrong = max((_wrong_values(one) for one in ([run] if run else runs)), default=0)
    failures = _failures(runs, output, run)
    if wrong:
        return result.failed(
            check,
            "the test found wrong values in the results",
            "isolate",
            expected=0,
            found=wrong,
            unit="wrong values",
            hint="Run it on each node alone to find the one that computes wrong, and take it out",
        )
    if failures:
        return result.failed(check, f"the test failed: {failures[0]}", reason="test_failed")
    if requested.rc:
        notes = (run.log if run else output.log).notes
        detail = f": {notes[0]}" if notes else ""
        return result.failed(
            check, f"the test ended with status {requested.rc}{detail}", expected=0, found=requested.rc
        )
    if run is None:
        return result.undeterminable(check, "no_single_run", message=problem, hint="Keep one output in a file")
    if not run.closed:
        return result.failed(
            check,
            f"the output ends before the test does: {len(run.rows)} rows, and no closing lines",
            reason="truncated",
            hint="Run it again and keep the whole output; raise the time limit if it was cut there",
        )
    return _whole(check, run, requested)


def _wrong_values(run: Run) -> int:
    rows = sum(1 for row in run.rows for wrong in (row.wrong, row.in_place_wrong) if wrong is not None and wrong != 0)
    return max(rows, run.out_of_bounds or 0)


_COMPLETE = Field(
    "incomplete",
    exactly(""),
    reason="incomplete",
    unknown="{}",
    hint="Run it again with NCCL_DEBUG_FILE=/path/%h.%p, so that NCCL's lines do not tear the table apart",
)
_TOO_SMALL = Field(
    "too_small",
    exactly(""),
    reason="incomplete",
    unknown="{}",
    hint="Set smallest to at most the size that the memory holds",
)
_COLLECTIVE = Field(
    "other",
    exactly(""),
    reason="other_collective",
    unknown="{}",
    hint="Set the collective that was run, or run the requested one",
)
_SIZES = Field(
    "unmeasured",
    exactly(""),
    reason="fewer_sizes",
    unknown="{}",
    hint="Set largest to the largest size that was measured, or run the test with these sizes",
)
_NOTES = Field(
    "notes",
    exactly(""),
    reason="unclear_lines",
    unknown="without the exit status it is not known whether the test recovered from this: {}",
    hint="Set the exit status of the test",
    when=lambda facts: facts["rc"] is None,
)
_NCCL_EVIDENCE = (
    _TOO_SMALL,
    _COMPLETE,
    _COLLECTIVE,
    _SIZES,
    Field(
        "unchecked",
        exactly(0),
        reason="not_checked",
        unknown="{} rows were not checked",
        hint="Run the test with -c 1",
    ),
    Field("out_of_bounds", exactly(0)),
    _NOTES,
)
_NCCOM_EVIDENCE = (
    _COMPLETE,
    _SIZES,
    Field("contradiction", exactly(""), reason="contradictory", unknown="{}"),
    Field(
        "compared",
        exactly(True),
        reason="not_checked",
        unknown="the output does not show whether the results were compared",
        hint="Run nccom-test with --check, and pass its exit status",
    ),
    _NOTES,
)


def _whole(check: str, run: Run, requested: RequestedRun) -> result.Result:
    """Return the verdict on a run that ended without errors: whether it is complete, and its results were compared."""
    neuron = run.tool == NCCOM_TEST
    evidence = {
        "incomplete": "" if run.too_small else run.completeness() or "",
        "too_small": (run.completeness() or "") if run.too_small else "",
        "other": "" if neuron else _other_collective(run, requested) or "",
        "unmeasured": "" if run.too_small else _unmeasured(run, requested) or "",
        "unchecked": sum(1 for row in run.rows if not _checked(run, row, requested)),
        "out_of_bounds": run.out_of_bounds,
        "contradiction": next((row.contradiction for row in run.rows if row.contradiction), ""),
        "compared": requested.checked and requested.rc is not None,
        "notes": "; ".join(run.log.notes),
        "rc": requested.rc,
    }
    reduced = _reduced(run)
    noted = (f"; {reduced}" if reduced else "") + (f", in spite of: {run.log.notes[0]}" if run.log.notes else "")
    if neuron:
        found: dict[str, t.Any] = {"rows": len(run.rows), "rc": requested.rc}
        more: dict[str, t.Any] = {"message": f"{len(run.rows)} rows, and nothing wrong{noted}"} if noted else {}
    else:
        found = {"collective": run.program, "ranks": len(run.where), "rows": len(run.rows), "wrong": 0}
        what = f"{len(run.rows)} rows of {run.program or 'a collective'} on {len(run.where)} ranks"
        more = {"expected": {"wrong": 0}, "message": f"{what}, and nothing wrong{noted}"}
    verdict = decide(check, _NCCOM_EVIDENCE if neuron else _NCCL_EVIDENCE, [Subject(evidence)], found)
    return result.passed(check, found, **more) if verdict.status == result.PASS else verdict


# Collectives that reduce, those from or to one rank, and the factor from algorithm to bus bandwidth of each
# (NVIDIA/nccl-tests, doc/PERFORMANCE.md); n ranks.
_REDUCING = frozenset({"all_reduce", "reduce_scatter", "reduce"})
_ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
_BUS_FACTORS: dict[str, t.Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    **dict.fromkeys(("reduce_scatter", "all_gather", "alltoall", "gather", "scatter"), lambda n: (n - 1) / n),
    **dict.fromkeys(("broadcast", "reduce", "sendrecv"), lambda _n: 1.0),
}


def _other_collective(run: Run, requested: RequestedRun) -> str | None:
    """Return the error for a table of another collective than the header or the caller names; None if it fits."""
    name = run.program or requested.operation or ""
    # The figures of a collective depend on the number of ranks.
    ranks = 0 if nccl_fabric.damaged(run, requested.ranks) else len(run.where)
    for row in run.rows:
        _type, operation, root = row.kind
        if name in _BUS_FACTORS and (name in _REDUCING) != (operation not in ("none", "")):
            return f"a row of {name} has the operation {operation or 'none'}: it is of another collective"
        if root and name in _BUS_FACTORS and (name in _ROOTED) != (root != "-1"):
            return f"a row of {name} has the root {root}: it is of another collective"
        factor = _BUS_FACTORS[name](ranks) if name in _BUS_FACTORS and ranks else None
        for algbw, busbw in ((row.algbw, row.busbw), (row.in_place_algbw, row.in_place_busbw)):
            if factor is None or algbw is None or busbw is None:
                continue
            if abs(busbw - factor * algbw) > 0.011 + 0.006 * factor + 0.002 * busbw:
                return (
                    f"a row has {algbw:g} GB/s and a bus bandwidth of {busbw:g} GB/s: {name} on {ranks} ranks "
                    "has other figures"
                )
    return None


def _reduced(run: Run) -> str:
    """Return that the test measured less than it was given; empty if it did not."""
    if run.reduced_from is None:
        return ""
    return f"the test lacked memory and reduced its largest size from {run.reduced_from} to {run.header['max']} bytes"


def _unmeasured(run: Run, requested: RequestedRun) -> str | None:
    """Return the error for requested sizes that were not measured; None if all were, or they are unknown."""
    missing = run.missing_sizes(requested.sizes, requested.ranks or 1)
    if not missing:
        return None
    which = f"{missing[0]} bytes" if len(missing) == 1 else f"{missing[0]} to {missing[-1]} bytes"
    text = f"{len(missing)} of {len(requested.sizes)} requested sizes were not measured: {which}"
    return f"{text}; {_reduced(run)}" if run.reduced_from is not None else text


def _checked(run: Run, row: t.Any, requested: RequestedRun) -> bool:
    # With -c 0 nothing is compared, even if the column has values.
    if not is_number(run.header.get("validation")) or run.header["validation"] < 1:
        return False
    # nccl-tests never checks these in place.
    return row.wrong is not None and (
        row.in_place_wrong is not None or (run.program or requested.operation) in _ONE_DIRECTION
    )


def _fabric(
    prefix: str,
    runs: t.Sequence[Run],
    run: Run | None,
    problem: str | None,
    taken: str | None,
    requested: RequestedRun,
    output: Output,
) -> result.Result:
    check = f"{prefix}.fabric"
    if run is None:
        # An output of nccom-test names no ranks, so two outputs do not prove that each has fewer ranks.
        tests = [one for one in runs if one.tool == NCCL_TESTS]
        separate_runs_error = nccl_fabric.separate_runs_error(tests, requested.ranks, requested.nodes)
        if separate_runs_error:
            return result.failed(
                check,
                separate_runs_error,
                reason="separate_runs",
                expected=f"one run on {requested.nodes} nodes",
                found=f"{len(runs)} runs",
                hint="Start the test through MPI (srun --mpi=pmix or mpirun), and build nccl-tests with MPI=1",
            )
        return result.undeterminable(check, "no_single_run", message=problem, hint="Keep one output in a file")
    if run.tool == NCCOM_TEST:
        return nccl_fabric.neuron(check, run, requested.nodes, requested.before, requested.after)
    if taken:
        return result.failed(
            check,
            taken,
            reason="not_all_took_part",
            expected={"ranks": requested.ranks, "nodes": requested.nodes},
            found={"ranks": len(run.where), "nodes": len(run.hosts)},
            hint="Start the test through MPI on all the nodes, a rank for each GPU",
        )
    return nccl_fabric.verdict(check, run, requested.ranks, requested.nodes, requested.before, requested.after)


def _bandwidth(
    prefix: str,
    run: Run | None,
    problem: str | None,
    taken: str | None,
    correct: result.Result,
    requested: RequestedRun,
) -> result.Result:
    check = f"{prefix}.bandwidth"
    if run is None:
        return result.undeterminable(check, "no_single_run", message=problem)
    if correct.status == result.FAIL or correct.reason in (_COMPLETE.reason, _COLLECTIVE.reason):
        return result.undeterminable(check, "not_correct", message="an incomplete or incorrect run has no bandwidth")
    if taken:
        return result.undeterminable(check, "not_all_took_part", message=taken)
    if run.too_slow:
        return result.failed(
            check,
            "the average bus bandwidth is below NCCL_TESTS_MIN_BW, which the test was given",
            found=run.average,
            unit="GB/s",
            source="NCCL_TESTS_MIN_BW",
        )
    if requested.nodes is None or (run.tool == NCCL_TESTS and requested.ranks is None):
        return result.undeterminable(check, "not_asked", message="the requested number of ranks and nodes is unknown")
    unlisted = nccl_fabric.damaged(run, requested.ranks) if run.tool == NCCL_TESTS else None
    if unlisted:
        return result.undeterminable(check, "no_ranks", message=unlisted)
    if run.tool == NCCL_TESTS and len(run.where) == 1:
        return result.not_applicable(check, "one_rank", message="one rank moves nothing: its bus bandwidth is 0")
    other_gpus = _other_gpus_error(run, requested.instance_type)
    if other_gpus:
        return result.undeterminable(
            check, "other_type", message=other_gpus, hint="Set the instance type on which the test ran"
        )
    measured = decide(check, _MEASURED, [Subject(_measured(run, requested))], lowest(run))
    if measured.status != result.PASS:
        return measured
    collective = run.program or requested.operation
    limits = thresholds(run.tool, collective, requested)
    busbw = lowest(run)
    common = sorted(set(limits) & set(busbw))
    if not common:
        return result.undeterminable(
            check,
            "no_threshold",
            message=f"no figure to compare with is known for {requested.instance_type or 'the instance type'}, "
            f"{requested.nodes} nodes, {requested.ranks} ranks, {collective or 'the collective'} "
            "and the sizes measured",
            found={"largest_size": max(busbw), "busbw": busbw[max(busbw)]},
            unit="GB/s",
            hint="Record a good run with --record-baseline, and compare with it",
        )
    return _compared(check, limits, busbw, common)


# GB/s. No link of a GPU or network card comes near it: NVLink 5 has 900 in each direction.
MAX_BUSBW = 2000
# NCCL's trees on few nodes measure more than the network carries: 487 of 400 GB/s on two p5 (thresholds.py).
_NETWORK_EXCESS = 2
_UNITS = {"(us)": 2, "(GB/s)": 4}
_MEASURED = (
    Field(
        "units",
        exactly(""),
        reason="unit",
        unknown="the table's bandwidths are not in GB/s: its line of units reads {}",
        hint="Keep the whole output, with the lines above the table",
    ),
    Field("iters", within(1), reason="not_measured", unknown="the header shows that nothing was measured: iters {}"),
    Field("contradiction", exactly(""), reason="contradictory", unknown="{}", hint="Keep the output as it was printed"),
    Field(
        "implausible",
        exactly(""),
        reason="implausible",
        unknown="{}",
        hint="Set the instance type on which the test ran, and use the output as it was printed",
    ),
)


def _measured(run: Run, requested: RequestedRun) -> dict[str, t.Any]:
    """Return the evidence that a run measured bandwidths: unit, iterations, and the limit of any hardware."""
    units = " ".join(run.units) or "nothing"
    counted = {unit: run.units.count(unit) for unit in set(run.units) - {"(B)", "(elements)"}}
    maximum = _max_busbw(run, requested)
    beyond = [bw for row in run.rows for bw in (row.busbw, row.in_place_busbw) if bw is not None and bw > maximum]
    neuron = run.tool == NCCOM_TEST
    return {
        "units": "" if neuron or counted == _UNITS else units,
        "iters": 1 if neuron else run.header.get("iters"),
        "contradiction": next((row.contradiction for row in run.rows if row.contradiction), ""),
        "implausible": f"a bus bandwidth of {max(beyond):g} GB/s is more than {maximum:g}, which no hardware reaches"
        if beyond
        else "",
    }


def _max_busbw(run: Run, requested: RequestedRun) -> float:
    """Return the limit of any run on these nodes, in GB/s."""
    table = instance_types.lookup(requested.instance_type)
    gbit = table["network_gbps"] if table else None
    if requested.nodes is None or requested.nodes == 1 or run.log.mnnvl or not gbit:
        return MAX_BUSBW
    return min(MAX_BUSBW, _NETWORK_EXCESS * gbit / 8)


def _other_gpus_error(run: Run, instance_type: str | None) -> str | None:
    """Return the error for a run on other GPUs than those of this type; None if the ranks have the right ones."""
    table = instance_types.lookup(instance_type)
    chips = table["accelerators"] if table else None
    if not chips or chips["kind"] != "gpu":
        return None
    if "" in run.devices and run.tool == NCCL_TESTS:
        return "the list of ranks does not name the GPU of every rank"
    others = sorted(name for name in run.devices if not is_model(chips["name"], name))
    return f"the ranks were on {', '.join(others)}, and {instance_type} has {chips['name']}" if others else None


def lowest(run: Run) -> dict[int, float]:
    """Return {size: bus bandwidth in GB/s}: the lowest of both placements, and of all rows of a size."""
    found: dict[int, float] = {}
    for row in run.rows:
        both = [busbw for busbw in (row.busbw, row.in_place_busbw) if busbw is not None]
        found[row.size] = min([*both, found.get(row.size, row.busbw)])
    return found


def thresholds(tool: str, collective: str | None, requested: RequestedRun) -> dict[int, dict[str, t.Any]]:
    """Return {size: ``busbw`` (minimum to pass, GB/s) and ``source``}: the site's own take precedence."""
    if not within(0, 100)(requested.tolerance_percent) or requested.tolerance_percent == 100:
        # No value is less than NaN or a missing one.
        return {}
    share = 1 - requested.tolerance_percent / 100
    where = (requested.instance_type, requested.nodes, requested.ranks, collective)
    found = dict(published(*where)) if tool == NCCL_TESTS else {}
    for size, busbw in figures(requested.baseline, tool, *where).items():
        found[size] = {"busbw": busbw, "source": "the site's baseline"}
    return {
        size: {
            "busbw": round(figure["busbw"] * share, 2),
            "source": f"{figure['source']}: {figure['busbw']:g} GB/s, less {requested.tolerance_percent:g} percent",
        }
        for size, figure in found.items()
    }


def _compared(
    check: str, limits: t.Mapping[int, t.Mapping[str, t.Any]], busbw: t.Mapping[int, float], common: t.Sequence[int]
) -> result.Result:
    low = [size for size in common if busbw[size] < limits[size]["busbw"]]
    compared = low or common
    fields: dict[str, t.Any] = {
        "expected": {str(size): limits[size]["busbw"] for size in compared},
        "found": {str(size): busbw[size] for size in compared},
        "unit": "GB/s by size",
        "source": "; ".join(sorted({limits[size]["source"] for size in compared})),
    }
    if not low:
        largest = compared[-1]
        comparison = f"at least {limits[largest]['busbw']:g} wanted, the figures known reached at {len(compared)} sizes"
        return result.passed(check, message=f"{busbw[largest]:g} GB/s at {largest} bytes: {comparison}", **fields)
    return result.failed(
        check,
        f"the bus bandwidth is too low at {len(low)} of {len(common)} sizes",
        hint="Run it on pairs of nodes to find the slow one: the slowest node sets the rate of all",
        **fields,
    )


def entries(judged: Judged, requested: RequestedRun, now: str) -> tuple[list[Entry], str | None]:
    """Return the baseline entries of a run, or none and the reason why it must not become a baseline."""
    run, (correct, fabric, bandwidth, *domain) = judged.run, judged.results
    missing = [name for name in ("instance_type", "nodes", "ranks") if getattr(requested, name) is None]
    collective = (run.program if run else None) or requested.operation
    if collective is None:
        missing.append("collective")
    if missing:
        return [], f"a baseline needs to know {', '.join(missing)}: set these options"
    # A run that fell back to the network would let later ones with the same fault pass.
    proofs = (correct, fabric, *domain)
    doubts = [one.line() for one in result.unproved(proofs)]
    if run is None or correct.status != result.PASS or doubts:
        return [], f"this run is not a baseline: {'; '.join(doubts)}"
    if bandwidth.status == result.UNDETERMINABLE and bandwidth.reason != "no_threshold":
        return [], f"this run is not a baseline, for its bandwidth is not known: {bandwidth.line()}"
    if bandwidth.status == result.FAIL:
        return [], f"this run is not a baseline, for it is slower than what is known: {bandwidth.line()}"
    where = {
        "tool": run.tool,
        "instance_type": requested.instance_type,
        "nodes": requested.nodes,
        "collective": collective,
    }
    return [
        {**where, "size": size, "busbw": busbw, "ranks": requested.ranks, "recorded": now}
        for size, busbw in lowest(run).items()
        if busbw > 0
    ], None
