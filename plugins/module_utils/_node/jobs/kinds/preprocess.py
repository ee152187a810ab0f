# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: from text to shards of tokens, one task for each input."""

from __future__ import annotations

import os
import re
import typing as t

from ..kind import Kind, Values
from ..live import LiveWork, replace_process
from ..options import BUCKET, COUNT, COUNT_OR_NONE, WORDS, Option, Type, is_path, match
from ..step import container_options, srun, with_variables
from ..work import JobError, Work

_ARRAY_SIZE = re.compile(r"^MaxArraySize\s*=\s*([1-9][0-9]{0,6})$", re.MULTILINE)


def _tokenizer(value: t.Any) -> bool:
    return isinstance(value, str) and bool(value) and not value.startswith("-") and value.isprintable()


def programs(_values: Values, settings: Values, image: str) -> t.Sequence[str]:
    """Return the Python of the data programs; none in a container, whose image has it."""
    return [] if image else [settings["data_python"]]


def problems(_values: Values, job: Values) -> t.Iterator[str]:
    """Yield options that the script of an array determines itself."""
    if job.get("nodes", KIND.nodes) != 1:
        yield f"nodes is {job['nodes']} and a task has one node: leave it out, and set limit for how many run at once"
    options = job.get("options", {})
    for key in options if isinstance(options, t.Mapping) else ():
        if key in ("array", "cpus-per-task", "cpus_per_task"):
            yield f"options has {key}: set limit, tasks or cpus_per_task of the job instead"


def data_command(work: Work) -> tuple[str, ...]:
    """Return the beginning of each command of the data programs."""
    return (work.spec.tools["data_python"], "-m", "mlcluster_data")


def max_tasks(wanted: int, configuration: str) -> int:
    """Return the number of tasks of an array: as requested (0: one for each input), within Slurm's limit. Pure."""
    found = _ARRAY_SIZE.search(configuration)
    largest = int(found.group(1)) if found else 0
    return largest if largest and (wanted == 0 or wanted > largest) else wanted


def submit(work: Work, options: t.Sequence[str]) -> int:
    """Submit the script with a task for each current input, or for several inputs if there are too many.

    Returns an exit status only if it was not submitted.
    """
    values = work.spec.values
    maximum = max_tasks(values["tasks"], work.ask("scontrol", "show", "config"))
    count = (*data_command(work), "array", values["input"], "--limit", str(values["limit"]), "--tasks", str(maximum))
    if not isinstance(work, LiveWork):
        work.run(*count)
        return work.run("sbatch", "--array=RANGE", *options, work.spec.script)
    status, tasks = work.answer(*count)
    if status:
        return status
    return replace_process(("sbatch", f"--array={tasks.strip()}", *options, work.spec.script), work.variables)


def run(work: Work) -> int:
    """Run the data programs for the inputs of this task."""
    spec, values = work.spec, work.spec.values
    if spec.container:
        for path in (values["output"], values["spool"]):
            # A missing path cannot be mounted.
            if path.startswith("/") and not work.dry:
                _make(path)
    cpus = work.variables.get("SLURM_CPUS_PER_TASK") if isinstance(work, LiveWork) else None
    return work.run(
        *srun(ntasks=1, cpus_per_task=cpus or values["cpus_per_task"], mpi="none"),
        *(*container_options(spec.container), *with_variables({"PYTHONUNBUFFERED": "1"})),
        *(*spec.mlcluster, "job-exec", *(("--scratch", spec.scratch) if spec.scratch else ()), "--spool", "--"),
        *(*data_command(work), "preprocess", f"--input={values['input']}", f"--output={values['output']}"),
        *(f"--tokenizer={values['tokenizer']}", *((f"--spool={values['spool']}",) if values["spool"] else ())),
        *map(str, values["arguments"]),
    )


def _make(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as exc:
        raise JobError(
            f"{path} could not be made ({exc.strerror}): set output and spool to directories that you may write to"
        ) from None


KIND = Kind(
    "Turns text into shards of tokens, with a task for each input that continues after a restart",
    "see [Preprocessing](#preprocessing)",
    run=run,
    submit=submit,
    unjudged="its exit status and the manifest of the shards show whether it is done",
    nodes=1,
    tasks="one",
    minutes=240,
    container="may",
    requeue=True,
    array=True,
    writes="output",
    paths={"input": False, "output": True, "tokenizer": False, "spool": True},
    options={
        "input": Option(
            Type(is_path, "the absolute path of a folder with inputs, on the shared file system"), "", required=True
        ),
        "output": Option(
            Type(
                lambda value: is_path(value) or match(BUCKET)(value),
                "an absolute path on the shared file system, or s3://BUCKET/PREFIX",
            ),
            "",
            required=True,
        ),
        "tokenizer": Option(
            Type(_tokenizer, "the path of a tokenizer.json or its folder, or a hub id"), "", required=True
        ),
        "limit": Option(Type(COUNT.accepts, "how many tasks run at once, an integer from 1"), 16),
        "tasks": Option(Type(COUNT_OR_NONE.accepts, "an integer, 0 for a task for each input"), 0),
        "cpus_per_task": Option(COUNT, 8),
        "spool": Option(Type(is_path, "an absolute path on the local disks of the nodes"), ""),
        "arguments": Option(WORDS, []),
    },
    tools=("data_python",),
    example={"input": "/fsx/in", "output": "/fsx/out", "tokenizer": "/fsx/t"},
    programs=programs,
    problems=problems,
)
