# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Content of the files that the role slurm_jobs writes: scripts of jobs, and scripts that Slurm runs around jobs.

Every external value is one quoted word. The scripts only start programs; all decisions are made in Python.
"""

from __future__ import annotations

import json
import re
import shlex
import typing as t

from ..imex.config import MODES as IMEX_MODES
from ..imex.config import RECORD
from ..system.plan import File
from .checks import OWN_CONF, Checks, SlurmState, own_conf_path

RUNTIME_NAME = "mlcluster.pyz"
EXECUTABLE = "0755"
# Lines by which the role recognizes its files.
JOB_MARK = "Written by the role slurm_jobs of mlcluster.aws;"
# In the directory of a tool, once it is built.
BUILT = ".mlcluster.json"
CHECK_MARK = "# Written by role slurm_jobs of mlcluster.aws;"
_CHECK_HEAD = f"{CHECK_MARK} what is changed here is overwritten."
_SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n\n"
_BARE = re.compile(r"[A-Za-z0-9_@%+=:./-]+")
_WATCH_LOCK = """if mkdir -p /run/mlcluster && (umask 077 && : >>/run/mlcluster/watch.lock); then
  exec 8</run/mlcluster/watch.lock
  flock --shared --timeout 6 8
fi
"""
_CHECK_LOCK = """\
# Slurm starts one at each interval, whether or not the last has ended: where that is slow they would pile up and make
# each other slower. A process that hangs in the kernel must not hold the lock, so only this shell has it. Only root
# may open it, or any user could hold it and keep every check away.
if mkdir -p /run/mlcluster && (umask 077 && : >>/run/mlcluster/health_check.lock); then
  exec 9</run/mlcluster/health_check.lock
  flock --nonblock 9
  [ $? -eq 1 ] && exit 0
fi

"""


def quote(value: object) -> str:
    """Return a value as one word of a shell. Raises ValueError for a list, a dictionary or None."""
    if isinstance(value, (t.Mapping, list, tuple, set)) or value is None:
        raise ValueError(f"only a string or a number can be one word of a shell, and this is {value!r}")
    text = str(value)
    if "\0" in text:
        raise ValueError("a string with a NUL in it cannot be a word of a shell")
    # Brackets, commas and tildes are special in arrays and assignments, so only plain characters stay unquoted.
    return text if _BARE.fullmatch(text) else "'" + text.replace("'", "'\"'\"'") + "'"


def job_files(jobs: t.Iterable[t.Mapping[str, t.Any]]) -> list[File]:
    """Return the two files of each job."""
    found = []
    for job in jobs:
        spec = job["spec"]
        found.append(File(f"{job['name']}.json", spec["path"], spec["text"]))
        found.append(File(f"{job['name']}.sbatch", job["path"], job_script(job), EXECUTABLE))
    return found


def job_script(job: t.Mapping[str, t.Any]) -> str:
    """Return the batch script of a job."""
    spec = job["spec"]
    command = f"{quote(job['python'])} {quote(job['dir'] + '/' + RUNTIME_NAME)}"
    by_hand = f"{job['path']} [more options of sbatch]" if job["array"] else f"sbatch [--nodes=N] {job['path']}"
    lines = [
        "#!/bin/bash",
        f"# {job['title']}",
        f"# {JOB_MARK} changes are lost. It runs {job['name']}.json (sha256 {spec['sha256']}).",
        f"# By hand: {by_hand}",
        f"# Its steps: {command} job --dry-run {spec['path']}",
        *(f"# Needs {what} {path}" for what, path in job["needs"]),
        *(
            f"#SBATCH --{line['name']}" + ("" if line["value"] is None else f"={line['value']}")
            for line in job["directives"]
        ),
        "",
        f"exec {command} job {spec['path']}" + (' "$@"' if job["array"] else ""),
    ]
    return "\n".join(lines) + "\n"


def mark(tool: str, place: str, mpi_home: str, cuda_home: str, version: str) -> File:
    """Return the file that records the build options of a tool; it is written last."""
    made = {"version": version, "mpi_home": mpi_home, "cuda_home": cuda_home}
    return File(tool, f"{place}/{BUILT}", json.dumps(made, indent=2, sort_keys=True) + "\n")


def check_files(checks: Checks) -> list[File]:
    """Return the four scripts for Slurm."""
    texts = {"prolog": _prolog, "epilog": _epilog, "task_prolog": _task_prolog, "health_check": _health_check}
    return [File(name, str(checks[name]), text(checks), EXECUTABLE) for name, text in texts.items()]


def slurm_file(checks: Checks, settings: t.Mapping[str, str | None], state: SlurmState) -> File:
    """Return the file that slurm.conf has to include."""
    lines = [_CHECK_HEAD, *(f"{name}={path}" for name, path in state.due.items())]
    if "HealthCheckProgram" in state.due:
        lines += [f"HealthCheckInterval={checks['interval']}", "HealthCheckNodeState=ANY,CYCLE"]
    return File(OWN_CONF, own_conf_path(settings), "\n".join(lines) + "\n")


def _words(words: t.Iterable[t.Any]) -> str:
    return " ".join(shlex.quote(str(word)) for word in words)


def _slurm(checks: Checks) -> list[str]:
    found = ["--slurm-prefix", checks["slurm_prefix"]] if checks["slurm_prefix"] else []
    return found + (["--slurm-conf", checks["slurm_conf"]] if checks["slurm_conf"] else [])


def _health(checks: Checks) -> str:
    place = ["--scratch", checks["scratch_base"]] if checks["scratch"] else []
    # If a job may start without its domain, a node without one must not keep jobs away.
    imex = [] if checks["imex"] == IMEX_MODES[0] else ["--imex", checks["imex"]]
    options = [*place, *_slurm(checks), *imex, *checks["health_options"]]
    command = [checks["command"], "health", "--profile", "prolog", *options]
    return _words(command)


def _scratch(checks: Checks) -> str:
    return _words([checks["command"], "scratch", "--base", checks["scratch_base"], *_slurm(checks)])


def _head(what: str) -> str:
    return f"#!/bin/sh\n{_CHECK_HEAD}\n{what}\n"


def _prolog(checks: Checks) -> str:
    text = _head(
        "# Slurm's Prolog, as root, before a job starts on this node: the light health check decides whether it may, "
        "then the job\n"
        "# gets its directory on the local volume. Exit 1 drains the node, and Slurm queues the job again.\n"
        "# Slurm sets no search path."
    )
    text += _SEARCH_PATH
    closed = checks["gate"] == "closed"
    # A process that hangs in the kernel must not hold the lock of the Prolog.
    unlocked = " 8<&-" if checks["labels"] else ""
    drain = " --drain" if checks["drain"] else ""
    if checks["labels"]:
        text += "# The timer of mlcluster watch holds this alone for at most five seconds; Prologs share it. "
        text += f"Only root may take it.\n{_WATCH_LOCK}"
    text += "# A verdict has output: an empty or damaged runtime, as after a crash, may end with 0 or 1 without any.\n"
    if closed:
        text += "# Closed: a check that is not proved good keeps the job away.\n"
        text += f"output=$({_health(checks)} --fail-closed{drain}{unlocked}) || exit 1\n"
        text += '[ -n "$output" ] || exit 1\n'
    else:
        text += "# Open: only what is proved to be broken keeps the job away, and a check that cannot run at all does "
        text += f"not.\noutput=$({_health(checks)} --fail-open{drain}{unlocked})\n"
        text += '[ $? -eq 1 ] && [ -n "$output" ] && exit 1\n'
    if checks["scratch"]:
        text += f"{_scratch(checks)} make >/dev/null{unlocked}{' || exit 1' if closed else ''}\n"
    if checks["labels"]:
        text += "# Metrics without the name of the job are no reason to keep it away.\n"
        text += f"{_words([checks['command']])} job-label add >/dev/null 8<&-\n"
    return f"{text}{_imex(checks, closed)}exit 0\n"


def _imex(checks: Checks, closed: bool) -> str:
    """Return the lines that start a job's NVLink domain, after releasing the lock, since this may take a minute."""
    if checks["imex"] == "none":
        return ""
    drain = ["--drain"] if checks["drain"] else []
    options = ["--mode", checks["imex"], *drain, *_slurm(checks), *checks["imex_options"]]
    command = _words([checks["command"], "imex", "up", *options])
    text = "# On an UltraServer the NVLink domain of the job comes up before the job starts; other nodes have none.\n"
    text += "exec 8<&-\n" if checks["labels"] else ""
    if checks["imex"] == "best_effort":
        return f"{text}{command} >/dev/null\n"
    if closed:
        return f"{text}{command} >/dev/null || exit 1\n"
    # Rejected options have no output either.
    return f'{text}output=$({command}) || {{ [ $? -ne 3 ] && [ -z "$output" ]; }} || exit 1\n'


def _epilog(checks: Checks) -> str:
    text = _head(
        "# Slurm's Epilog, as root, after a job has ended on this node in whatever way: its directory goes. A failure "
        "would drain\n"
        "# the node, and what could not be removed is removed by the health check.\n"
        "# Slurm sets no search path."
    )
    text += _SEARCH_PATH
    if checks["labels"]:
        text += "# While a run of mlcluster watch writes the job into the metrics, its label cannot go.\n"
        text += f"{_WATCH_LOCK}{_words([checks['command']])} job-label remove >/dev/null 8<&-\nexec 8<&-\n"
    if checks["imex"] != "none":
        # Other nodes, and jobs without a domain, have no record, so no program has to start.
        command = _words([checks["command"], "imex", "down", *_slurm(checks)])
        text += f"[ ! -e {RECORD} ] || {command} >/dev/null\n"
    if checks["scratch"]:
        text += f"{_scratch(checks)} remove --seconds {checks['epilog_seconds']} >/dev/null\n"
    return f"{text}exit 0\n"


MISSING_DIRECTORY = (
    "mlcluster: node ${SLURMD_NODENAME:-} has no directory for job $SLURM_JOB_ID in $base, so TMPDIR is not on its "
    "local disks; /var/log/mlcluster/scratch.log there has the reason"
)


def _task_prolog(checks: Checks) -> str:
    text = _head(
        '# Slurm\'s TaskProlog, as the user, before each task: what it prints as "export NAME=VALUE" the task gets.'
    )
    text += "\n"
    if checks["scratch"]:
        text += f"base={_words([checks['scratch_base']])}\n"
        text += "own=$base/job-$SLURM_JOB_ID/tmp\n"
        text += 'if [ -d "$own" ] && [ -O "$own" ]; then\n'
        text += '    echo "export TMPDIR=$own"\n    echo "export MLCLUSTER_SCRATCH=$own"\n'
        # Slurm writes this to the output of the task.
        text += 'elif [ -d "${base%/*}" ] && [ "${SLURM_LOCALID:-0}" = 0 ]; then\n'
        text += f'    echo "print {MISSING_DIRECTORY}"\nfi\n'
    return f"{text}exit 0\n"


def _health_check(checks: Checks) -> str:
    text = _head(
        "# Slurm's HealthCheckProgram, as root, every HealthCheckInterval and before slurmd takes its first job: the "
        "light health\n"
        "# check drains the node for what is broken, and what jobs left behind is swept away. Slurm ends it after 60 "
        "seconds."
    )
    text += f"{_SEARCH_PATH}{_CHECK_LOCK}{_health(checks)} --fail-{checks['gate']}"
    text += " --drain" if checks["drain"] else ""
    text += f"{' --undrain' if checks['undrain'] else ''} >/dev/null 9<&-\n"
    if checks["scratch"]:
        text += f"{_scratch(checks)} sweep --seconds 20 --keep-hours {checks['keep_hours']} \\\n"
        text += f"    --least-free {checks['least_free_percent']}"
        if checks["quota_gib"]:
            text += f" --quota-gib {checks['quota_gib']} --over-quota {checks['over_quota']}"
        text += " >/dev/null 9<&-\n"
    return f"{text}exit 0\n"
