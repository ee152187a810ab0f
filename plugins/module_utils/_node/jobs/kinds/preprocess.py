# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kind of job: text into shards of tokens, one task an input."""

from __future__ import annotations

import typing as t

from ..kind import Kind, Values
from ..options import BUCKET, COUNT, COUNT_OR_NONE, WORDS, Option, Type, is_path, match


def _tokenizer(value: t.Any) -> bool:
    return isinstance(value, str) and bool(value) and not value.startswith("-") and value.isprintable()


def programs(_values: Values, settings: Values, image: str) -> t.Sequence[str]:
    """Return the Python of the data programs; in a container it is that of the image."""
    return [] if image else [settings["data_python"]]


def problems(_values: Values, job: Values) -> t.Iterator[str]:
    """Yield options that the script of an array works out by itself."""
    if job.get("nodes", KIND.nodes) != 1:
        yield f"nodes is {job['nodes']} and a task has one node: leave it out, and set limit for how many run at once"
    options = job.get("options", {})
    for key in options if isinstance(options, t.Mapping) else ():
        if key in ("array", "cpus-per-task", "cpus_per_task"):
            yield f"options has {key}: set limit, tasks or cpus_per_task of the job instead"


KIND = Kind(
    "Text into shards of tokens, a task for each input, which goes on where it was when it is started again",
    "see [Preprocessing](#preprocessing)",
    unjudged="its exit status and the manifest of the shards say whether it is done",
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
        "limit": Option(Type(COUNT.accepts, "how many tasks run at once, a whole number from 1"), 16),
        "tasks": Option(Type(COUNT_OR_NONE.accepts, "a whole number, 0 for a task for each input"), 0),
        "cpus_per_task": Option(COUNT, 8),
        "spool": Option(Type(is_path, "an absolute path on the local disks of the nodes"), ""),
        "arguments": Option(WORDS, []),
    },
    tools=("data_python",),
    example={"input": "/fsx/in", "output": "/fsx/out", "tokenizer": "/fsx/t"},
    programs=programs,
    problems=problems,
)
