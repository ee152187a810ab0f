# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that answers from a recording made by ../fixtures/record.py; what was not recorded is an error of the test."""

from __future__ import annotations

import contextlib
import json
import typing as t
from pathlib import Path

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host

from tests.unit.fakes.fake_device import FakeDevice

FIXTURES = Path(__file__).parents[1] / "fixtures"


class RecordedHost(Host):
    """The recorded node. Reads only: every method that writes raises."""

    def __init__(self, name: str) -> None:
        document = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
        self.programs: dict[str, str | None] = document["programs"]
        self.files: dict[str, str] = document["files"]
        self.directories: dict[str, list[str]] = document["directories"]
        self.links: dict[str, str] = document["links"]
        self.busy: set[str] = set(document.get("busy", ()))
        self.commands = {tuple(entry["argv"]): entry for entry in document["commands"]}

    def run(
        self, argv: t.Sequence[str], timeout: float = 120, check: bool = True, stdin: str | None = None
    ) -> CommandResult:
        if tuple(argv[:3]) == ("wipefs", "--no-act", "--json"):
            return self._wipefs(argv[3:])
        entry = self.commands[tuple(argv)]
        if check and entry["rc"] != 0:
            raise CommandError(argv, entry["rc"], entry["stdout"], entry["stderr"], f"failed with status {entry['rc']}")
        return CommandResult(entry["rc"], entry["stdout"], entry["stderr"])

    def _wipefs(self, paths: t.Sequence[str]) -> CommandResult:
        """The single answers put together, as wipefs itself does for several devices (seen on util-linux 2.41)."""
        entries = [self.commands["wipefs", "--no-act", "--json", path] for path in paths]
        failed = next((entry for entry in entries if entry["rc"] != 0), None)
        if failed:
            return CommandResult(failed["rc"], "", failed["stderr"])
        signatures = [found for entry in entries for found in json.loads(entry["stdout"])["signatures"]]
        return CommandResult(0, json.dumps({"signatures": signatures}), "")

    def which(self, program: str) -> str | None:
        return self.programs.get(program)

    def read_text(self, path: str) -> str | None:
        return self.files.get(path)

    def listdir(self, path: str) -> list[str]:
        return self.directories.get(path, [])

    def exists(self, path: str) -> bool:
        known = [*self.links, *self.files, *self.directories]
        return any(entry == path or entry.startswith(f"{path}/") for entry in known)

    def realpath(self, path: str) -> str:
        return self.links.get(path, path)

    def stat(self, path: str) -> dict[str, t.Any] | None:
        return {"mode": "0755", "uid": 0, "gid": 0, "is_dir": True, "is_link": False}

    @contextlib.contextmanager
    def opened_device(self, device: str, exclusive: bool = False) -> t.Iterator[FakeDevice]:
        """A blank device: the content of disks is not recorded."""
        yield FakeDevice(100 << 30)

    def is_root(self) -> bool:
        return True

    def claimed(self, device: str, number: str) -> bool | None:
        """Busy is what the recording shows a holder or a mount of; the number is checked as on a real node."""
        kname = device.rsplit("/", 1)[-1]
        if (self.files.get(f"/sys/class/block/{kname}/dev") or "").strip() != number:
            return None
        return bool(self.listdir(f"/sys/class/block/{kname}/holders")) or kname in self.busy

    def uid(self, name: str) -> int | None:
        return {"root": 0}.get(name)

    def gid(self, name: str) -> int | None:
        return {"root": 0}.get(name)

    def write_text(self, path: str, text: str, mode: int = 0o644) -> None:
        raise AssertionError(f"a look wrote {path}")
