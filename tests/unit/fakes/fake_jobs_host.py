# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake machine that submits jobs: files and directories in memory, and a cluster in the shape of slurm_info.

It does what the tasks of the role slurm_jobs do, as far as a look sees it, and refuses what they refuse.
"""

from __future__ import annotations

import copy
import hashlib
import json
import posixpath
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import states
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.look import EMPTY
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Plan

from tests.rig.slurm.scripts import FACTS

MOUNTS = """21 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw
30 21 0:55 / /fsx rw - lustre 10.0.0.1@tcp:/abcdefgh rw
"""
CONF = "/etc/slurm/slurm.conf"
CLUSTER: dict[str, t.Any] = {
    **EMPTY,
    **FACTS,
    "nodes": [{**node, "availability": states.TAKES, "availability_reason": ""} for node in FACTS["nodes"]],
    "version": "24.05.1",
    "prefix": None,
    "installed": True,
    "controllers": [{"name": "head", "up": True}],
    "settings": {"SLURM_CONF": CONF},
}
NO_SLURM: dict[str, t.Any] = {**EMPTY, "installed": False, "healthy": False, "version": None, "prefix": None,
                              "problems": ["found no Slurm"]}  # fmt: skip
SILENT: dict[str, t.Any] = {
    **NO_SLURM,
    "installed": True,
    "problems": ["looked for a running controller and found none"],
}


class JobsHost(Host):
    """texts: files by path; states: results of stat, where that is not root's plain file of mode 0644."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {CONF: "ClusterName=c\n", "/proc/self/mountinfo": MOUNTS}
        self.states: dict[str, dict[str, t.Any]] = {}
        self.cluster = copy.deepcopy(CLUSTER)
        self.programs = {"scontrol", "apt-get", "dpkg-query"}
        self.packages: dict[str, str] = {}
        self.ran: list[list[str]] = []
        self.is_silent = False
        self.mount = "/fsx"

    def survey(self, _slurm: object) -> dict[str, t.Any]:
        """Return survey()'s facts; slurmctld has read the files included in slurm.conf after a reconfigure."""
        return copy.deepcopy(self.cluster)

    def run(
        self, argv: t.Sequence[str], timeout: float = 120, check: bool = True, stdin: str | None = None
    ) -> CommandResult:
        self.ran.append(list(argv))
        if argv[0] == "stat":
            if self.is_silent:
                raise CommandError(argv, None, "", "", "no answer within 30 seconds")
            return CommandResult(0, f"{self.mount}\n", "")
        if argv[0] == "dpkg-query":
            # The database of a machine is never empty: dpkg is a package, too.
            installed = {"dpkg": "1.21.22", **self.packages}
            return CommandResult(0, "".join(f"{name}\t{v}\tii \n" for name, v in installed.items()), "")
        if argv[-1] == "reconfigure":
            self.reconfigure()
            return CommandResult(0, "", "")
        raise CommandError(argv, None, "", "", "the program is not installed")

    def reconfigure(self) -> None:
        found = {"SLURM_CONF": CONF}
        if "include mlcluster_checks.conf" in self.texts[CONF].splitlines():
            own = self.texts.get(f"{posixpath.dirname(CONF)}/mlcluster_checks.conf", "")
            found.update(line.split("=", 1) for line in own.splitlines() if "=" in line)
        self.cluster["settings"] = found

    def which(self, program: str, path: str = "") -> str | None:
        return f"/usr/bin/{program}" if program in self.programs else None

    def exists(self, path: str) -> bool:
        return path in self.texts or path in self.states or path.rpartition("/")[2] in self.programs

    def listdir(self, path: str) -> list[str]:
        return sorted(name[len(path) + 1 :] for name in self.texts if posixpath.dirname(name) == path)

    def read_text(self, path: str) -> str | None:
        return self.texts.get(path)

    def read_json(self, path: str) -> t.Any:
        return json.loads(self.texts[path]) if path in self.texts else None

    def realpath(self, path: str) -> str:
        return path

    def sha256(self, path: str) -> str | None:
        text = self.texts.get(path)
        return hashlib.sha256(text.encode()).hexdigest() if text is not None else None

    def stat(self, path: str) -> dict[str, t.Any] | None:
        if path not in self.texts and path not in self.states:
            return None
        plain = {"mode": "0644", "uid": 0, "gid": 0, "is_dir": False, "is_link": False}
        return {**plain, **self.states.get(path, {})}

    def file_size(self, path: str) -> int | None:
        return len(self.texts[path].encode()) if path in self.texts else None

    def uid(self, name: str) -> int | None:
        return {"root": 0, "slurm": 64}.get(name)

    def gid(self, name: str) -> int | None:
        return self.uid(name)

    def remove(self, path: str) -> None:
        self.texts.pop(path, None)
        self.states.pop(path, None)

    def carry_out(self, plan: Plan, owner: str = "root", texts: t.Mapping[str, str] | None = None) -> None:
        """Do what the tasks of the role do; ``texts`` has what the controller copies: runtime and programs for data."""
        account = {"uid": self.uid(owner), "gid": self.gid(owner)}
        if None in account.values():
            raise AssertionError(f"chown failed: failed to look up user {owner}")
        for step in plan.steps:
            given = step.arguments
            if step.name == "directories":
                for one in given["directories"]:
                    self.states[one["path"]] = {"mode": one["mode"], "is_dir": True, **account}
            elif step.name == "runtime":
                path = "/fsx/jobs/mlcluster.pyz"
                self.texts[path] = (texts or {})[path]
                self.states[path] = {"mode": "0755", **account}
            elif step.name == "data":
                self.texts.update({f"/fsx/jobs/{path}": (texts or {})[path] for path in given["paths"]})
            elif step.name == "tool":
                self.texts[given["mark"]["path"]] = given["mark"]["text"]
        for entry in plan.files:
            self.texts[entry.path] = entry.text
            self.states[entry.path] = {"mode": entry.mode}
        for step in plan.steps:
            if step.name == "slurm_conf":
                self.texts[step.arguments["path"]] += f"{step.arguments['line']}\n"
            elif step.name == "command":
                self.run(step.arguments["argv"])
        self.packages.update({entry.name: entry.version or "1.0-1" for entry in plan.packages})
