# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build and print the reports of the command's verbs."""

from __future__ import annotations

import socket
import sys
import typing as t

from ..system.host import Host
from ..verdict.result import Report, Result, dumps, exit_code


def report(host: Host, results: t.Sequence[Result], versions: t.Mapping[str, str]) -> Report:
    """Return the results as one mlcluster.report/1 of this host."""
    return Report(host=socket.gethostname(), time=host.now(), versions=dict(versions), results=tuple(results))


def print_report(
    host: Host,
    results: t.Sequence[Result],
    versions: t.Mapping[str, str],
    as_json: bool,
    notes: t.Sequence[str] = (),
) -> int:
    """Print the results as JSON, or as lines with notes below them; return the exit code of the results."""
    judged = report(host, results, versions)
    sys.stdout.write((dumps(judged) if as_json else "\n".join([*judged.lines(), *notes])) + "\n")
    return exit_code(results)
