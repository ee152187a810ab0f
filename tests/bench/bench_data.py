# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of preparing and loading text: our programs beside the plain method on the same text, in one run.

Figures are CPU seconds (user and system), since a busy machine hardly changes them: tokens per CPU second of the whole
program with one process, samples per CPU second of a rank that reads by itself after a first epoch. Tokens and samples
of both are compared before a figure counts. ``--scale`` prepares 10, 100 and 1,000 MB for time and peak memory;
``--workers`` shows how long a rank waits for its batches with 0 to 4 workers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-data" / "bin" / "python"
COST = Path(__file__).with_name("cost.py")
METHODS = Path(__file__).with_name("data_methods.py")
MEGABYTES = 50
SCALE = (10, 100, 1000)
BATCH = 32
# Of a rank whose steps take so many milliseconds, which is short for a model and so the harder case.
WORKERS, STEP_MS, STEPS = (0, 1, 2, 4), 10, 1000
MIN_RATIO = 5.0


def environment() -> dict[str, str]:
    """Return an environment in which the data programs and the tests' helpers can be imported; one thread each."""
    paths = (ROOT, ROOT / "roles" / "slurm_jobs" / "files")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}


def call(*arguments: object) -> dict[str, Any]:
    """Return the answer of data_methods. Raises AssertionError with its output if it fails."""
    result = subprocess.run(
        [PYTHON, METHODS, *map(str, arguments)], env=environment(), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout or "{}"))


def cost(folder: Path, *command: object) -> dict[str, float]:
    """CPU seconds and peak MiB of a program. Raises AssertionError with its output if it fails."""
    target = folder / "cost.json"
    words = [sys.executable, COST, target, PYTHON, *command]
    result = subprocess.run(
        [*map(str, words)],
        env={**environment(), "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return dict(json.loads(target.read_text(encoding="utf-8")))


def ours(folder: Path, processes: int = 1) -> dict[str, float]:
    """Return the cost of our preprocess on a prepared folder; the shards are in ``ours`` below it."""
    options = ("--length", 1 << 17, "--shard-tokens", 1 << 20, "--processes", processes)
    places = ("--input", folder / "raw", "--output", folder / "ours", "--tokenizer", folder / "tokenizer")
    return cost(folder, "-m", "mlcluster_data", "preprocess", *places, *options)


def row(method: str, amount: float, spent: Mapping[str, float]) -> dict[str, Any]:
    """Return a line of the table: how much a CPU second does."""
    return {"method": method, "rate": round(amount / spent["cpu_seconds"]), "peak_mib": round(spent.get("peak_mib", 0))}


def judged(case: str, unit: str, plain: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a case with its ratio."""
    ratio = round(own["rate"] / plain["rate"], 2)
    return {"case": case, "unit": unit, "rows": [own, plain], "ratio": ratio, "met": ratio >= MIN_RATIO}


def measure_both(folder: Path) -> list[dict[str, Any]]:
    """Measure both steps by both methods. Raises AssertionError if their tokens and samples differ."""
    (folder / "plain").mkdir()
    plain = cost(
        folder, METHODS, "encode", folder / "raw" / "text.txt", folder / "plain" / "0.tar", folder / "tokenizer"
    )
    own = ours(folder)
    about = json.loads((folder / "ours" / "manifest.json").read_text(encoding="utf-8"))
    seen = {kind: call("read", kind, folder / name, BATCH, 0) for kind, name in (("plain", "plain"), ("ours", "ours"))}
    tokens = about["tokens"] - about["documents"]
    assert seen["plain"]["samples"] == seen["ours"]["samples"] == about["samples"], "the methods read other samples"
    assert seen["ours"]["labels"] == about["tokens"], "labels of our loader are missing"
    assert seen["plain"]["labels"] == tokens, "the methods made other tokens"
    rates = {
        kind: {"method": kind, "rate": round(one["samples"] / one["cpu"]), "peak_mib": 0} for kind, one in seen.items()
    }
    return [
        judged("preprocess", "tokens", row("plain", tokens, plain), row("ours", tokens, own)),
        judged("load", "samples", rates["plain"], rates["ours"]),
    ]


def measure(megabytes: int = MEGABYTES, scale: Sequence[int] = (), workers: Sequence[int] = ()) -> dict[str, Any]:
    """Measure all cases. Raises AssertionError if the methods do not agree."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        call("prepare", folder, megabytes)
        cases = measure_both(folder)
        waits = [{"workers": one, **call("waits", folder / "ours", BATCH, one, STEP_MS, STEPS)} for one in workers]
    scaled = []
    for size in scale:
        with tempfile.TemporaryDirectory() as name:
            call("prepare", Path(name), size)
            spent = ours(Path(name), processes=2)
        scaled.append({"megabytes": size, **{key: round(value, 1) for key, value in spent.items()}})
        print(f"  {scaled[-1]}", file=sys.stderr, flush=True)
    return {"bench": "data", "megabytes": megabytes, "cases": cases, "waits": waits, "scale": scaled}


def table(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as lines of text."""
    lines = [
        f"text of {figures['megabytes']} MB, amounts per CPU second of one core",
        f"  {'case':<14}{'method':<10}{'per CPU s':>14}{'MiB':>7}{'ratio':>8}  wanted",
    ]
    for case in figures["cases"]:
        for number, one in enumerate(case["rows"]):
            ratio = f"{case['ratio']:>8.2f}  >= {MIN_RATIO:g}{'' if case['met'] else ' MISSED'}" if number else ""
            amount = f"{one['rate']:,} {case['unit']}"
            peak = one["peak_mib"] or ""
            lines.append(f"  {'' if number else case['case']:<14}{one['method']:<10}{amount:>14}{peak:>7}{ratio}")
    for one in figures["waits"]:
        after = f"{one['mean_ms']:.2f} ms for each after it, {one['p99_ms']:.2f} ms at the 99th percentile"
        lines.append(f"  {one['workers']} workers: {one['first_seconds']:.2f} s for the first batch, {after}")
    for one in figures["scale"]:
        lines.append(f"  {one['megabytes']:>5} MB: {one['cpu_seconds']:.1f} CPU s, {one['peak_mib']:.0f} MiB at most")
    return lines


def main(arguments: list[str]) -> int:
    """Measure and print; 1 when a ratio is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_data", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="size of the text that both methods take")
    parser.add_argument("--scale", action="store_true", help="10, 100 and 1,000 MB as well (minutes)")
    parser.add_argument("--workers", action="store_true", help="what a rank waits for, with 0 to 4 workers (a minute)")
    chosen = parser.parse_args(arguments)
    figures = measure(chosen.megabytes, SCALE if chosen.scale else (), WORKERS if chosen.workers else ())
    print("\n".join(table(figures)))
    return 0 if all(case["met"] for case in figures["cases"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
