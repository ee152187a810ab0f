# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of an UltraServer, of files in memory, with a Slurm and an IMEX daemon whose answers the test sets."""

from __future__ import annotations

import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host

TYPE = "p6e-gb200.36xlarge"
ADDRESSES = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
CONFIG = "/etc/nvidia-imex/config.cfg"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
LOG = "/var/log/nvidia-imex.log"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
SITE = "# NVIDIA IMEX configuration file.\nLOG_LEVEL=4\nSERVER_PORT=50000\nIMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005\n"


def table(
    letters: t.Sequence[str],
    statuses: t.Sequence[str] | None = None,
    versions: t.Sequence[str] | None = None,
    addresses: t.Sequence[str] = tuple(ADDRESSES.values()),
) -> str:
    """Return the output of nvidia-imex-ctl -N; letters has a row of connections for each node."""
    count = len(letters)
    states, shown = statuses or ["READY"] * count, versions or ["580.95.05"] * count
    lines = ["Nodes:"]
    lines += [
        f"Node #{number:<3} - {addresses[number]:<15} - {states[number]:<20} - Version: {shown[number]}"
        for number in range(count)
    ]
    lines += ["", " Nodes From\\To  " + "   ".join(str(number) for number in range(count))]
    lines += [f"       {number}        " + "   ".join(row.split()) for number, row in enumerate(letters)]
    whole = {letter for row in letters for letter in row.split()} == {"C"} and set(states) == {"READY"}
    lines.append(f"Domain State: {'UP' if whole else 'DEGRADED' if 'READY' in states else 'DOWN'}")
    return "\n".join(lines) + "\n"


WHOLE = table(["C C C", "C C C", "C C C"])


class FakeImexHost(Host):
    """Without arguments: node n1 of job 7 on n1 to n3, whose daemons are joined at once."""

    def __init__(self, **variables: str) -> None:
        self.files = {
            CONFIG: SITE,
            NODES: "0.0.0.0\n0.0.0.0\n",
            "/proc/devices": "Character devices:\n234 nvidia-caps-imex-channels\n\nBlock devices:\n259 blkext\n",
            "/proc/self/mountinfo": "22 1 259:1 / / rw shared:1 - ext4 /dev/nvme0n1p1 rw\n",
        }
        self.device: tuple[int, int, int] | None = None
        self.variables = {
            "SLURM_JOB_ID": "7",
            "SLURM_NODELIST": "n[1-3]",
            "SLURM_JOB_RESTART_COUNT": "0",
            "SLURM_JOB_OVERSUBSCRIBE": "NO",
            **variables,
        }
        self.programs = {
            name: f"/usr/bin/{name}" for name in ("nvidia-imex", "nvidia-imex-ctl", "scontrol", "systemctl")
        }
        self.unit = {
            "Id": "nvidia-imex.service",
            "LoadState": "loaded",
            "ActiveState": "inactive",
            "UnitFileState": "enabled",
            "ExecStart": f"{{ path=/usr/bin/nvidia-imex ; argv[]=/usr/bin/nvidia-imex -c {CONFIG} ; pid=0 }}",
        }
        self.after_restart: str | None = "active"
        self.tables: list[str] = [WHOLE]
        self.slurm: dict[str, str] = {
            "show node": "".join(
                f"NodeName={name} NodeAddr={address} State=IDLE\n" for name, address in ADDRESSES.items()
            ),
            "show config": "Prolog                  = (null)\nSwitchType              = (null)\n",
            "show topology": "",
            "show job": "JobId=7 JobName=x UserId=a(1) JobState=RUNNING Restarts=0 NodeList=n[1-3] OverSubscribe=NO\n",
        }
        self.smi = ""
        self.logs = ""
        self.status = "READY"
        self.uids: dict[str, int] = {}
        self.ran: list[str] = []
        self.clock = 0.0

    def run(
        self, argv: t.Sequence[str], timeout: float = 120, check: bool = True, stdin: str | None = None
    ) -> CommandResult:
        words = [word for word in argv if word != "env" and not word.startswith("SLURM_")]
        line = " ".join(words).replace("/usr/bin/", "")
        self.ran.append(line)
        done = self._answer(line)
        if check and done.rc:
            raise CommandError(argv, done.rc, done.stdout, done.stderr, f"failed with status {done.rc}")
        return done

    def _answer(self, line: str) -> CommandResult:
        if line.startswith("systemctl show"):
            return CommandResult(0, "".join(f"{key}={value}\n" for key, value in self.unit.items()), "")
        if line.startswith("systemctl restart"):
            self.files[LOG] = self.files.get(LOG, "") + self.logs
            if self.after_restart is None:
                self.unit["ActiveState"] = "failed"
                return CommandResult(1, "", "Job for nvidia-imex.service failed")
            self.unit["ActiveState"] = self.after_restart
        elif line.startswith("systemctl stop") or (
            line.startswith("systemctl reset-failed") and self.unit["ActiveState"] == "failed"
        ):
            self.unit["ActiveState"] = "inactive"
        elif line.startswith("nvidia-imex-ctl") and line.endswith(" -q"):
            return CommandResult(0, f"{self.status}\n", "")
        elif line.startswith("nvidia-imex-ctl"):
            text = self.tables.pop(0) if len(self.tables) > 1 else self.tables[0]
            return CommandResult(0 if text else 255, text, "" if text else "ERROR: no answer")
        elif line.startswith("nvidia-smi"):
            return CommandResult(0 if self.smi else 9, self.smi, "" if self.smi else "couldn't communicate")
        elif line.startswith("tail"):
            _tail, _option, start, path = line.split()
            return CommandResult(0, self.files.get(path, "").encode()[int(start) - 1 :].decode(), "")
        elif line.startswith("scontrol"):
            known = [text for words, text in self.slurm.items() if words in line]
            if "show node" in line and known:
                names = line.split()[-1].split(",")
                known = ["".join(f"{row}\n" for row in known[0].splitlines() if row.split()[0][9:] in names)]
            return CommandResult(0, known[0], "") if known else CommandResult(1, "", f"slurm: {line}")
        return CommandResult(0, "", "")

    def which(self, program: str, path: str = "") -> str | None:
        return self.programs.get(program)

    def variable(self, name: str) -> str | None:
        return self.variables.get(name)

    def read_text(self, path: str) -> str | None:
        return self.files.get(path)

    def write_text(self, path: str, text: str, mode: int = 0o644) -> None:
        self.files[path] = text

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.programs.values()

    def stat(self, path: str) -> dict[str, t.Any] | None:
        return {"uid": self.uids.get(path, 0)}

    def file_size(self, path: str) -> int | None:
        return len(self.files[path].encode()) if path in self.files else None

    def realpath(self, path: str) -> str:
        return path

    def listdir(self, path: str) -> list[str]:
        below = {name[len(path) + 1 :].split("/")[0] for name in self.files if name.startswith(f"{path}/")}
        return sorted(below)

    def character_device(self, path: str) -> tuple[int, int, int] | None:
        return self.device

    def make_character_device(self, path: str, major: int, minor: int, mode: int) -> None:
        assert path == CHANNEL
        self.device = (major, minor, mode)

    def addresses_of(self, name: str) -> list[str]:
        return {"host-1": ["127.0.1.1"], "host-2": ["10.0.0.9"]}.get(name, [])

    def monotonic(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def now(self) -> str:
        return "2026-11-29T12:00:00Z"
