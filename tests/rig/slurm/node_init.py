# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The init process of a node: it sets the host name, mounts the node's directories, runs slurmd and reaps processes.

It is process 1 of the node's namespaces (``unshare --pid --mount --uts --fork``), so that its end kills all processes
of the node at once, like a power failure. SIGUSR2 kills slurmd only; SIGUSR1 starts it again. If slurmd fails, for
example because its port is in use, the node ends with it, so that a wait for the node fails.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys


def main(arguments: list[str]) -> int:
    """Run the node of ``HOSTNAME [SOURCE:TARGET ...] -- SLURMD ...``; return slurmd's status if it fails."""
    split = arguments.index("--")
    hostname, *binds = arguments[:split]
    daemon = arguments[split + 1 :]
    socket.sethostname(hostname)
    for bind in binds:
        source, target = bind.split(":")
        subprocess.run(["mount", "--bind", source, target], check=True)
    wanted = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    slurmd: int | None = start(daemon)
    while True:
        got = signal.sigwait(wanted)
        if got == signal.SIGUSR2 and slurmd is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(slurmd, signal.SIGKILL)
        elif got == signal.SIGUSR1 and slurmd is None:
            slurmd = start(daemon)
        elif got == signal.SIGCHLD and slurmd in (dead := reap_ended()):
            if os.WIFEXITED(dead[slurmd]) and os.WEXITSTATUS(dead[slurmd]):
                return os.WEXITSTATUS(dead[slurmd])
            slurmd = None


def start(daemon: list[str]) -> int:
    """Start slurmd with a clean signal mask and return its pid."""
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.setsid()
        os.execvp(daemon[0], daemon)
    return pid


def reap_ended() -> dict[int, int]:
    """Reap ended processes, including orphans of jobs; return {pid: status}."""
    dead = {}
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] > 0:
            dead[ended[0]] = ended[1]
    return dead


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
