# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first process of a node: names it, gives it directories of its own, keeps slurmd, buries the dead.

Runs as process 1 of the node's namespaces (`unshare --pid --mount --uts --fork`), so that ending it ends everything on
the node at once, as a power failure would. SIGUSR2 kills slurmd alone; SIGUSR1 starts it again. A slurmd that fails by
itself, as one whose port is taken, takes the node with it: who waits for the node sees that it is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys


def main(arguments: list[str]) -> int:
    """`HOSTNAME [SOURCE:TARGET ...] -- SLURMD ...`: returns only where slurmd fails, with its status."""
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
        elif got == signal.SIGCHLD and slurmd in (dead := buried()):
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


def buried() -> dict[int, int]:
    """Reap every process that has ended, and give how each did; those of jobs whose parents are gone come here too."""
    dead = {}
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] > 0:
            dead[ended[0]] = ended[1]
    return dead


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
