# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest: prints as JSON the state of the local volume as the kernel, systemd and files have it."""

from __future__ import annotations

import json
import subprocess
import sys

TOP, UNIT = sys.argv[1:]
STATE = "/var/lib/mlcluster/"


def out(*argv: str) -> str:
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout


def text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""


def document(path: str) -> object:
    try:
        return json.loads(text(path))
    except ValueError:
        return None


found = json.loads(out("findmnt", "-J", "-l", "-o", "TARGET,SOURCE,FSTYPE,OPTIONS,UUID") or '{"filesystems": []}')
properties = "ActiveState,SubState,Result,ExecMainStatus,UnitFileState"
lines = out("systemctl", "show", UNIT, "-p", properties).splitlines()
tree = out("find", TOP, "-maxdepth", "2", "-not", "-name", "lost+found", "-printf", "%p\t%m %u %g\n").splitlines()
print(
    json.dumps(
        {
            "mounts": {entry.pop("target"): entry for entry in found["filesystems"]},
            "mdstat": text("/proc/mdstat"),
            "record": document(STATE + "local_storage.json"),
            "intent": document(STATE + "intent.json"),
            "fstab": text("/etc/fstab"),
            "unit": dict(line.split("=", 1) for line in lines),
            "journal": out("journalctl", "-b", "-u", UNIT, "-o", "cat", "--no-pager"),
            "tree": dict(line.split("\t", 1) for line in tree),
        }
    )
)
