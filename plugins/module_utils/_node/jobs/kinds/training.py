# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: a training that saves when it is signalled and resumes when it is requeued."""

from __future__ import annotations

import datetime
import typing as t

from ..kind import Kind, Values
from ..options import (
    BUCKET,
    COUNT,
    COUNT_OR_NONE,
    END_TIME,
    NAME,
    PATH,
    SECONDS,
    Option,
    Type,
    choice,
    is_path,
    is_word,
    list_of,
    match,
    whole,
)
from ..training import run

CAPACITY_BLOCK = "capacity-block"
# EC2 begins to end the instances of a block this long before the block ends (Amazon EC2 User Guide, "Monitor Capacity
# Blocks using EventBridge": a warning 40 minutes before the end, 10 minutes before the instances go).
BLOCK_TAKEN_BACK = datetime.timedelta(minutes=30)


def nodes_end_at(settings: Values) -> str:
    """Return when the nodes end, in UTC: as set, or by their first capacity block; empty when it is unknown."""
    if settings["ends_at"]:
        return str(settings["ends_at"])
    ends = [
        reservation["end"]
        for reservation in settings["capacity"]
        if reservation.get("type") == CAPACITY_BLOCK and reservation.get("end")
    ]
    if not ends:
        return ""
    first_end = min(datetime.datetime.fromisoformat(str(end).replace("Z", "+00:00")) for end in ends)
    return (first_end - BLOCK_TAKEN_BACK).astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def fill(values: Values, settings: Values) -> Values:
    """Return the end of the nodes: that of the cluster by default, none for ``never``."""
    return {"ends_at": {"": nodes_end_at(settings), "never": ""}.get(values["ends_at"], values["ends_at"])}


def programs(values: Values, settings: Values, _image: str) -> t.Sequence[str]:
    """Return the AWS CLI if checkpoints are backed up."""
    return [settings["aws"]] if values["backup"] else []


def problems(values: Values, job: Values) -> t.Iterator[str]:
    """Yield settings that leave a training too little time to save."""
    signal, grace, minutes = values["signal_seconds"], values["grace_seconds"], job.get("minutes", KIND.minutes)
    if not all(whole(value) for value in (signal, grace, minutes)):
        return
    if grace >= signal:
        yield (
            f"grace_seconds is {grace} and signal_seconds {signal}: reduce grace_seconds, or Slurm ends the job before "
            "it saves"
        )
    if signal >= minutes * 60:
        yield f"signal_seconds is {signal} and the job has {minutes * 60}: reduce it, or it is signalled at its start"


KIND = Kind(
    "A training that stops before its time ends, is requeued, and resumes",
    "see [Training](#training)",
    run=run,
    unjudged="its exit status shows whether it ended, and its checkpoints how far it came",
    minutes=1440,
    use="host",
    debug="WARN",
    container="may",
    requeue=True,
    signal=True,
    writes="checkpoints",
    paths={"directory": False, "checkpoints": True},
    options={
        "command": Option(Type(list_of(is_word, 1), "the program and its arguments as a list"), [], required=True),
        "launcher": Option(Type(choice("torchrun", "srun").accepts, "torchrun or srun"), "torchrun"),
        "directory": Option(PATH, ""),
        "checkpoints": Option(Type(is_path, "an absolute path on the shared file system"), "", required=True),
        "marker": Option(Type(match(NAME), "the name of a file"), "complete"),
        "signal_seconds": Option(
            Type(lambda value: whole(value, 0) and value <= 65535, "seconds up to 65535, 0 for no signal"), 600
        ),
        "grace_seconds": Option(SECONDS, 480),
        "requeues": Option(COUNT_OR_NONE, 20),
        "keep": Option(COUNT, 3),
        "backup": Option(Type(match(BUCKET), "s3://BUCKET/PREFIX without a slash at its end"), ""),
        "monitor_seconds": Option(Type(COUNT_OR_NONE.accepts, "an integer (seconds), 0 for no monitor"), 30),
        "notice_seconds": Option(Type(COUNT_OR_NONE.accepts, "an integer (seconds), 0 for no look"), 5),
        "ends_at": Option(END_TIME, ""),
    },
    tools=("aws",),
    example={"command": ["train"], "checkpoints": "/fsx/c"},
    fill=fill,
    programs=programs,
    problems=problems,
)
