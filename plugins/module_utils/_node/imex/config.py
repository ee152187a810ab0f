# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the IMEX domain of a job, their limits, and the ports of its daemons."""

from __future__ import annotations

import dataclasses
import re

# required: a job without its domain does not start. best_effort: it starts, and the failure is reported. none: no
# domains.
MODES = ("required", "best_effort", "none")
SERVICE = "nvidia-imex"
PROGRAM = "nvidia-imex-ctl"
# Paths of the package's files (NVIDIA IMEX guide, configuration options).
CONFIG = "/etc/nvidia-imex/config.cfg"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
LOG = "/var/log/nvidia-imex.log"
COMMAND_PORT = "50005"
CHANNELS = "/dev/nvidia-caps-imex-channels"
CHANNEL = f"{CHANNELS}/channel0"
CHANNEL_MODE = 0o666
# The record that Prolog wrote last; a reboot removes it, like the channel.
RECORD = "/run/mlcluster/imex.json"
SCHEMA = "mlcluster.imex/1"
STATES = ("starting", "ready", "ending", "failed")
# The node that caused a failure: this one, or another.
BLAMED = ("own", "peer")
# Ports of the daemons, one for each job: below 32768, where Linux begins to assign ports (ip_local_port_range).
FIRST_PORT = 21000
PORTS = 8192
# A restarted job keeps its number; its daemons must not connect to those of an earlier start.
RESTART_STRIDE = 1009
SECONDS = 60
LONGEST = 600


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the caller. ``seconds`` bounds the wait for the domain; ``instance_type``: None asks the firmware."""

    mode: str = "required"
    seconds: float = SECONDS
    service: str = SERVICE
    instance_type: str | None = None


def option_errors(options: Options) -> list[str]:
    """Return the errors in options, a sentence each."""
    found = []
    if options.mode not in MODES:
        found.append(f"mode is {options.mode!r}: use one of {', '.join(MODES)}")
    if not 1 <= options.seconds <= LONGEST:
        found.append(f"seconds is {options.seconds:g}: use 1 to {LONGEST}")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9@_.-]*", options.service):
        found.append(f"service is {options.service!r}: use the name of a unit of systemd")
    return found


def port_of(job_id: int, restarts: int) -> int:
    """Return the port of the daemons of one start of a job, the same on each of its nodes."""
    return FIRST_PORT + (job_id + restarts * RESTART_STRIDE) % PORTS
