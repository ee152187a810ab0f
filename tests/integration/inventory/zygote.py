# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs Ansible's commands in forks of a process that has imported them once.

Each fork runs the command's code with a fresh state and saves the second for imports. A request is one line of JSON on
standard input: ``argv`` (ansible-inventory or ansible-playbook first), ``env``, ``cwd``, ``out`` and ``err`` (files to
write). The answer is one line: the exit status.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable

import botocore.session
import jmespath
from ansible.cli.inventory import InventoryCLI
from ansible.cli.playbook import PlaybookCLI

COMMANDS = {"ansible-inventory": InventoryCLI, "ansible-playbook": PlaybookCLI}
PRELOADED = (botocore.session, jmespath)


def _status(work: Callable[[], object]) -> int:
    try:
        work()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


def child(request: dict) -> int:
    """Run the requested command in this process; return its exit status."""
    for number, name in ((1, request["out"]), (2, request["err"])):
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    argv = request["argv"]
    status = _status(lambda: COMMANDS[argv[0]].cli_executor(argv))
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def main() -> None:
    """Serve requests until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os._exit(child(request))
        _pid, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
