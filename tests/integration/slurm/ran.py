# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job of the role slurm_jobs that ended, for tests."""

from __future__ import annotations

import json


class Ran:
    """A job that ended: Slurm's own view, its report by id, and what its exit file says."""

    def __init__(self, job, folder, name):
        self.job = job
        self.folder = folder / "results" / f"{name}-{job.number}"
        report = self.folder / "report.json"
        self.results = json.loads(report.read_text())["results"] if report.exists() else []
        self.status = {entry["id"]: entry["status"] for entry in self.results}
        self.exit_file = (folder / "results" / f"{name}-{job.number}.exit").read_text()

    def of(self, check):
        return [entry for entry in self.results if entry["id"] == check]
