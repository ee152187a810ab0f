# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports that verbs of the command print."""

from __future__ import annotations

import socket
import typing as t

from ..system.host import Host
from ..verdict.result import Report, Result


def report(host: Host, results: t.Sequence[Result], versions: t.Mapping[str, str]) -> Report:
    """The results as one mlcluster.report/1 of this host."""
    return Report(host=socket.gethostname(), time=host.now(), versions=dict(versions), results=tuple(results))
