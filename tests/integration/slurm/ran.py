# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job of the role slurm_jobs that ended, and programs for jobs to run."""

from __future__ import annotations

import json
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


def install(program: str, target: Path) -> None:
    """Make a stand-in executable as ``target``, with Debian's Python, which has the MPI bindings."""
    path = str(PROGRAMS / f"{program}.py")
    # Not by runpy: the programs read the name under which they were started.
    run = 'exec(compile(open(path).read(), path, "exec"), {"__name__": "__main__", "__file__": path})'
    target.write_text(f"#!/usr/bin/python3\npath = {path!r}\n{run}\n")
    target.chmod(0o755)


class Ran:
    """A job that ended: Slurm's record, its report by verdict id, and the content of its exit file."""

    def __init__(self, job, folder, name):
        self.job = job
        self.folder = folder / "results" / f"{name}-{job.number}"
        report = self.folder / "report.json"
        self.results = json.loads(report.read_text())["results"] if report.exists() else []
        self.status = {entry["id"]: entry["status"] for entry in self.results}
        self.exit_file = (folder / "results" / f"{name}-{job.number}.exit").read_text()

    def of(self, check):
        return [entry for entry in self.results if entry["id"] == check]
