# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers of the output of Slurm's commands.

They read the one-line format of scontrol instead of JSON: scontrol 22.05 has no JSON, and that of sinfo and squeue has
its own schema versions (openapi/v0.0.38 there).
"""

from __future__ import annotations

import re
import typing as t

from ..system.host import NodeError
from . import states

_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w:/]*)=")
# Keys that scontrol prints behind the reason of a node (Slurm 25.05, src/api/node_info.c).
_AFTER_REASON = re.compile(r"\s(?:Comment|Extra|InstanceId|InstanceType|ReservationName)=")
# Author and time of the reason. Only a second line of the reason may follow, or an unknown key.
_STAMP = re.compile(r"(.*?)\s\[([^\s@\]]+)@([\dT:-]+)\](?:\s+(?![A-Z]\w*=)(\S.*)|\s.*|)", re.DOTALL)
_CUT_STATE = re.compile(r"\sState=\S*\Z")
_JOB_NAME = re.compile(r"\sJobName=(.*?)(?=\sUserId=)")
_JOB_START = re.compile(r"JobId=\d+\s")
# The script with its arguments, and since 24.05 the whole command line of sbatch. The user chooses both.
_JOB_COMMAND = re.compile(r"\s(?:Command|SubmitLine)=(?:.*(?=\sWorkDir=)|.*)", re.DOTALL)
# Appears once in Slurm's output of a job, after its name; the keys behind it precede any other free text.
_AFTER_NAME = re.compile(r"\sUserId=")
# Behind a number of GRES: sockets in Gres, indices in GresUsed (slurm.conf(5), Gres; scontrol --details show node).
_GRES_PLACE = re.compile(r"\([A-Z]+:[^()]*\)\Z")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_ABSENT = ("", "(null)", "N/A", "None", "Unknown", "NONE")
# slurm.conf's manual page, MaxArraySize: 1001 by default, at most this; the index of a task is below it.
ARRAY_MOST = 4_000_001
# Slurm's own limit of a list of hosts (src/common/hostlist.c, MAX_RANGE).
HOSTS_MOST = 64 * 1024
# A number of a name that Slurm counts in 64 bits.
HOSTS_DIGITS = 19


def fields(line: str) -> dict[str, str]:
    """Return the KEY=VALUE pairs of one line; a value may contain blanks, and the first of several equal keys counts.

    Free text (a reason, a name) may look like a key, and comes after the keys that it could imitate.
    """
    marks = list(_KEY.finditer(line))
    found: dict[str, str] = {}
    for mark, after in zip(marks, marks[1:] + [None]):
        found.setdefault(mark.group(1), line[mark.end() : after.start() if after else len(line)].strip())
    return found


def absent(text: t.Optional[str]) -> t.Optional[str]:
    """Return ``text``, or None for Slurm's notations of a missing value."""
    return None if text is None or text in _ABSENT else text


def number(text: t.Optional[str]) -> t.Optional[int]:
    """Return the leading digits as a number, None if there are none (UNLIMITED, N/A)."""
    found = re.match(r"\d+", text or "")
    return int(found.group()) if found else None


def duration(text: t.Optional[str]) -> t.Optional[int]:
    """Return the seconds of [DAYS-]HH:MM:SS, MM:SS, DAYS-HH or a number of minutes; None for UNLIMITED and for ""."""
    text = (text or "").strip()
    days, _dash, rest = text.partition("-") if "-" in text else ("0", "", text)
    parts = rest.split(":")
    if not days.isdecimal() or not all(part.isdecimal() for part in parts) or len(parts) > 3:
        return None
    values = [int(part) for part in parts]
    if "-" in text:
        # After days come hours; without days a single number is minutes and two are minutes and seconds.
        hours, minutes, seconds = (values + [0, 0])[:3]
    elif len(values) == 1:
        hours, minutes, seconds = 0, values[0], 0
    else:
        hours, minutes, seconds = ([0] + values)[-3:]
    return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds


def exit_status(text: t.Optional[str]) -> tuple[t.Optional[int], int]:
    """Return the exit code and the signal of "3:0" or "0:9"; no code for any other text."""
    found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text or "", re.ASCII)
    return (int(found.group(1)), int(found.group(2))) if found else (None, 0)


def gpus(gres: t.Optional[str]) -> tuple[int, t.Optional[str]]:
    """Return the number of GPUs in a GRES text such as ``gpu:h100:8(S:0-1),nvme:1``, and their type if there is one.

    An entry is NAME[:TYPE][:no_consume][:COUNT] (slurm.conf(5), Gres). GresUsed has ``(null)`` for no type.
    """
    total, kind = 0, None
    for entry in re.split(r",(?![^(]*\))", gres or ""):
        name, *parts = _GRES_PLACE.sub("", entry.strip()).split(":")
        parts = [part for part in parts if part != "no_consume"]
        counted = bool(parts) and re.fullmatch(r"[0-9]{1,18}", parts[-1])
        count = int(parts.pop()) if counted else 1
        if name == "gpu" and len(parts) <= 1:
            total += count
            kind = kind or (absent(parts[0]) if parts else None)
    return total, kind


def _reason(line: str) -> tuple[t.Optional[str], t.Optional[str], t.Optional[str]]:
    """Return the reason of a node, its author and its time."""
    after = line.partition(" Reason=")[2]
    text = _AFTER_REASON.split(after)[0].strip()
    stamped = _STAMP.fullmatch(text)
    if not stamped:
        return absent(text), None, None
    reason, by, at, more = stamped.groups()
    return absent(" ".join([reason.strip(), *([more.strip()] if more else [])])), by, at


def nodes(text: str) -> list[dict[str, t.Any]]:
    """Parse the nodes in the output of ``scontrol --details --oneliner show node``."""
    found = []
    for line in text.splitlines(keepends=True):
        values = fields(line)
        if "NodeName" not in values:
            continue
        # Flags may be missing in a state at which the text breaks off: IDLE of IDLE+DRAIN.
        state, flags = states.split("" if _CUT_STATE.search(line) else values.get("State", ""))
        next_state = absent(values.get("NextState"))
        expected, why = states.availability(state, flags, next_state)
        reason, reason_by, reason_at = _reason(line)
        total, kind = gpus(values.get("Gres"))
        found.append(
            {
                "name": values["NodeName"],
                "state": state,
                "flags": flags,
                "next_state": next_state,
                "availability": expected,
                "availability_reason": why,
                "up": states.is_up(state, flags),
                "drained": states.is_drained(state, flags),
                "slurmd_started": absent(values.get("SlurmdStartTime")),
                "reason": reason,
                "reason_by": reason_by,
                "reason_at": reason_at,
                "boot_time": absent(values.get("BootTime")),
                "cpus": number(values.get("CPUTot")) or 0,
                "cpus_allocated": number(values.get("CPUAlloc")) or 0,
                "memory_mib": number(values.get("RealMemory")) or 0,
                "memory_allocated_mib": number(values.get("AllocMem")) or 0,
                "gpus": total,
                "gpu_type": kind,
                "gpus_allocated": gpus(values.get("GresUsed"))[0],
                "gres": absent(values.get("Gres")),
                "features": [word for word in (absent(values.get("AvailableFeatures")) or "").split(",") if word],
                "partitions": [word for word in (absent(values.get("Partitions")) or "").split(",") if word],
                "address": absent(values.get("NodeAddr")),
                "hostname": absent(values.get("NodeHostName")),
                "version": absent(values.get("Version")),
            }
        )
    return found


def partitions(text: str) -> list[dict[str, t.Any]]:
    """Parse the partitions in the output of ``scontrol --oneliner show partition``; None means without limit."""
    found = []
    for line in text.splitlines():
        values = fields(line)
        if "PartitionName" not in values:
            continue
        accounts = values.get("AllowAccounts", "ALL")
        found.append(
            {
                "name": values["PartitionName"],
                "state": values.get("State", "UNKNOWN"),
                "default": values.get("Default") == "YES",
                "nodes": absent(values.get("Nodes")),
                "node_count": number(values.get("TotalNodes")) or 0,
                "max_nodes": number(values.get("MaxNodes")),
                "max_seconds": duration(values.get("MaxTime")),
                "default_seconds": duration(values.get("DefaultTime")),
                "accounts": None if accounts == "ALL" else accounts.split(","),
                "exclusive": values.get("OverSubscribe") == "EXCLUSIVE",
            }
        )
    return found


def controllers(text: str) -> list[dict[str, t.Any]]:
    """Parse the controllers in the output of ``scontrol ping``."""
    found = re.findall(r"Slurmctld\((\w+)\) at (\S+) is (\w+)", text)
    return [{"role": role, "host": host, "up": state == "UP"} for role, host, state in found]


def licenses(text: str) -> dict[str, int]:
    """Return the number of each license, from ``scontrol --oneliner show licenses``."""
    found = [fields(line) for line in text.splitlines()]
    return {one["LicenseName"]: number(one.get("Total")) or 0 for one in found if "LicenseName" in one}


def mpi_types(text: str) -> list[str]:
    """Return the names for srun --mpi, from the output of ``srun --mpi=list`` (22.05 writes some of it to stderr)."""
    names = []
    for line in text.splitlines():
        word = line.strip()
        if word.startswith("specific pmix plugin versions available:"):
            names += [name.strip() for name in word.partition(":")[2].split(",")]
        elif re.fullmatch(r"[a-z]\w*", word):
            names.append(word)
    return sorted(set(names))


def settings(text: str) -> dict[str, t.Optional[str]]:
    """Parse the output of ``scontrol show config``; None for a setting without a value.

    Newer releases number repeated settings (Prolog[0], Prolog[1]); their values are joined by commas.
    """
    found: dict[str, t.Optional[str]] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        match = re.fullmatch(r"(\w+)(\[\d+\])?", key.strip())
        if not separator or not match:
            continue
        name, setting = match.group(1), absent(value.strip())
        if match.group(2) and found.get(name) and setting:
            found[name] = f"{found[name]},{setting}"
        else:
            found.setdefault(name, setting)
    return found


def version(text: str) -> t.Optional[str]:
    """Return the version in a text such as "slurm-wlm 22.05.8"."""
    found = _VERSION.search(text)
    return found.group() if found else None


def job(line: str) -> t.Optional[dict[str, t.Any]]:
    """Parse one job of ``scontrol --oneliner show job``; None for another line."""
    name = _JOB_NAME.search(line)
    values = fields(line[: name.start()] + line[name.end() :] if name else line)
    if "JobId" not in values or "JobState" not in values:
        return None
    code, signal = exit_status(values.get("ExitCode"))
    return {
        "job_id": number(values["JobId"]),
        "array_job_id": number(values.get("ArrayJobId")),
        "array_task_id": absent(values.get("ArrayTaskId")),
        "het_job_id": number(values.get("HetJobId")),
        "name": name.group(1) if name else None,
        "state": values["JobState"],
        "reason": absent(values.get("Reason")),
        "exit_code": code,
        "signal": signal,
        "partition": absent(values.get("Partition")),
        "nodes": absent(values.get("NodeList")),
        "elapsed_seconds": duration(values.get("RunTime")),
        "restarts": number(values.get("Restarts")) or 0,
        "stdout": absent(values.get("StdOut")),
        "stderr": absent(values.get("StdErr")),
    }


def jobs(text: str, of: int | None = None) -> list[dict[str, t.Any]]:
    """Parse the jobs in the output of ``scontrol --oneliner show job``; of: the requested number, others are skipped.

    A name or a comment may contain any text, also line ends, and scontrol prints it unescaped. Raises NodeError if that
    text could be mistaken for Slurm's own keys.
    """
    records: list[str] = []
    for line in text.splitlines():
        if _JOB_START.match(line) or not records:
            records.append(line)
        else:
            records[-1] += f" {line}"
    records = [_without_command(record) for record in records if _JOB_START.match(record)]
    numbers = [fields(record)["JobId"] for record in records]
    if len(set(numbers)) < len(numbers) or any(len(_AFTER_NAME.findall(record)) != 1 for record in records):
        raise NodeError(
            f"queried job {of or numbers[0]} and its name or comment has text such as UserId=, which cannot be "
            "distinguished from Slurm's own output: give the job a plain name and comment"
        )
    return [found for found in map(job, records) if found and of in (None, *_numbers_of(found))]


def _without_command(record: str) -> str:
    """Return the record of a job without its command lines, which may contain any text, also Slurm's own keys."""
    name = _JOB_NAME.search(record)
    head = record[: name.end()] if name else ""
    return head + _JOB_COMMAND.sub("", record.removeprefix(head), count=1)


def _numbers_of(found: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    return found["job_id"], found["array_job_id"], found["het_job_id"]


def sharing(text: str, job_id: int) -> tuple[t.Optional[str], t.Optional[str]]:
    """Return Exclusive= (Slurm 26.05) and OverSubscribe= of a job of ``scontrol --oneliner show job``.

    For a heterogeneous job and for an array that command also prints the other jobs.
    """
    for line in text.splitlines():
        values = fields(_JOB_NAME.sub(" ", _without_command(line)))
        if number(values.get("JobId")) == job_id and "OverSubscribe" in values:
            return absent(values.get("Exclusive")), absent(values["OverSubscribe"])
    return None, None


def requeues(text: str) -> bool:
    """Return whether Slurm may requeue a job of ``scontrol --oneliner show job``."""
    return any(fields(_JOB_NAME.sub(" ", line)).get("Requeue") == "1" for line in text.splitlines())


SACCT_FORMAT = "JobIDRaw,JobID,State,ExitCode,Reason,Partition,NodeList,ElapsedRaw,JobName"


def parse_sacct(text: str) -> list[dict[str, t.Any]]:
    """Parse ``sacct --allocations --noheader --parsable2 --format=SACCT_FORMAT`` into the format of ``job``."""
    found = []
    for line in text.splitlines():
        row = line.split("|", 8)
        if len(row) < 9:
            continue
        array, _underscore, task = row[1].partition("_")
        code, signal = exit_status(row[3])
        found.append(
            {
                "job_id": number(row[0]),
                "array_job_id": number(array) if task else None,
                "array_task_id": task or None,
                # "7+1" is the second component of the heterogeneous job 7.
                "het_job_id": number(row[1]) if re.fullmatch(r"\d+\+\d+", row[1]) else None,
                "name": row[8],
                # "CANCELLED by 1000"
                "state": row[2].split(" ")[0],
                "reason": absent(row[4]),
                "exit_code": code,
                "signal": signal,
                "partition": absent(row[5]),
                "nodes": absent(row[6]) if row[6] != "None assigned" else None,
                "elapsed_seconds": number(row[7]),
                "restarts": 0,
                "stdout": None,
                "stderr": None,
            }
        )
    return found


QUEUE_FORMAT = "%A|%i|%T|%u|%P|%N|%j"


def queue(text: str) -> list[dict[str, t.Any]]:
    """Parse the jobs in ``squeue --noheader --format=QUEUE_FORMAT``; the name is last, as it may contain any text."""
    found = []
    for line in text.splitlines():
        row = line.split("|", 6)
        if len(row) == 7:
            found.append(
                {
                    "job_id": number(row[0]),
                    "id": row[1],
                    "state": row[2],
                    "user": row[3],
                    "partition": row[4],
                    "nodes": expand(row[5]),
                    "name": row[6],
                }
            )
    return found


def _spans(ranges: str, whole: str) -> list[tuple[str, t.Optional[range]]]:
    """Parse the text between brackets: for each part its first number as written, and its numbers.

    A part that is not a range has None instead of numbers.
    """
    found: list[tuple[str, t.Optional[range]]] = []
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        if not dash:
            found.append((part, None))
        elif all(text.isdecimal() and len(text) <= HOSTS_DIGITS for text in (first, last)):
            found.append((first, range(int(first), int(last) + 1)))
        else:
            raise NodeError(
                f"read {whole[:60]!r} as a list of nodes and {part[:60]!r} in it is not a range of numbers: write it "
                "as node-[1-4,7]"
            )
    return found


def expand(expression: t.Optional[str]) -> list[str]:
    """Expand a Slurm node expression: "q-[1-2,05],n" gives q-1, q-2, q-05, n; several brackets multiply.

    Raises NodeError, before any name is created, for more names than Slurm accepts, and for an invalid range.
    """
    text = absent(expression) or ""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        pieces = re.split(r"\[([^\]]*)\]", part)
        brackets = [_spans(ranges, text) for ranges in pieces[1::2]]
        count = 1
        for spans in brackets:
            count *= sum(1 if numbers is None else len(numbers) for _first, numbers in spans)
        if len(names) + count > HOSTS_MOST:
            raise NodeError(
                f"read {text[:60]!r} as a list of nodes and it has {len(names) + count} names or more, of which Slurm "
                f"accepts {HOSTS_MOST} at most: check where it comes from"
            )
        grown = [pieces[0]]
        for spans, literal in zip(brackets, pieces[2::2]):
            values = [value for first, numbers in spans for value in _written(first, numbers)]
            grown = [f"{start}{value}{literal}" for start in grown for value in values]
        names += grown
    return names


def _written(first: str, numbers: t.Optional[range]) -> t.Iterable[str]:
    return [first] if numbers is None else (f"{value:0{len(first)}d}" for value in numbers)


def task_ids(text: str) -> list[str]:
    """Expand ArrayTaskId: "0-6:3,9%2" gives 0, 3, 6, 9.

    Raises NodeError, before the list is created, for an index or a number of tasks that no Slurm array can have.
    """
    found: list[range] = []
    for numbers in re.findall(r"(\d+)(?:-(\d+)(?::(\d+))?)?", text.partition("%")[0]):
        if max(map(len, numbers)) > len(str(ARRAY_MOST)):
            raise _no_array(text)
        first, last, step = int(numbers[0]), int(numbers[1] or numbers[0]), int(numbers[2] or 1)
        if max(first, last) >= ARRAY_MOST or step == 0:
            raise _no_array(text)
        found.append(range(first, last + 1, step))
    if sum(map(len, found)) > ARRAY_MOST:
        raise _no_array(text)
    return [str(value) for values in found for value in values]


def _no_array(text: str) -> NodeError:
    return NodeError(
        f"read {text[:60]!r} as the tasks of an array and Slurm has no such array, whose indices end at "
        f"{ARRAY_MOST - 1} (MaxArraySize): look at the job with scontrol show job"
    )


def associations(text: str) -> list[dict[str, t.Any]]:
    """Parse ``sacctmgr --noheader --parsable2 show association format=Account,User,Partition,QOS``."""
    found = []
    for line in text.splitlines():
        row = line.split("|")
        if len(row) == 4:
            found.append(
                {
                    "account": row[0],
                    "user": row[1] or None,
                    "partition": row[2] or None,
                    "qos": [name for name in row[3].split(",") if name],
                }
            )
    return found
