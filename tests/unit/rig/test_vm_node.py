# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.rig.vm import __main__ as cli
from tests.rig.vm import cache, command, guest, plan, prepare
from tests.rig.vm.command import RigError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class WithoutMachine(guest.Guest):
    """A guest without a machine, whose folder and plan are real."""

    def __init__(self, disks: int = 4) -> None:
        super().__init__("unit")
        self.folder.mkdir(parents=True)
        self.state = {"accelerator": "tcg", "instance_type": "t", "port": 1, "snapshots": {}}
        self._insert(plan.make(disks, 1, 1024, 512), disks, 1, 1024)

    def need_running(self) -> None:
        pass

    def run(self, words: Any, **_options: Any) -> command.Result:  # type: ignore[override]
        return command.Result(0, "", "")


@pytest.mark.parametrize("name", ["", "../x", "A", "a_b", "-a", "x" * 40])
def test_guest_names_that_are_not_host_names_are_rejected(name: str) -> None:
    with pytest.raises(RigError, match="is not a guest name"):
        guest.folder_of(name)


def test_every_case_has_valid_script() -> None:
    assert {path.stem for path in prepare.SCRIPTS.glob("*.sh")} == set(prepare.CASES)
    for name in prepare.CASES:
        subprocess.run(["sh", "-n", "-c", prepare.script_of(name)], check=True)


def test_prepare_needs_disks_and_known_case() -> None:
    with pytest.raises(RigError, match="the guest has none"):
        prepare.prepare(WithoutMachine(), "gpt")
    with pytest.raises(RigError, match="there is no case 'x': choose one of parallelcluster"):
        prepare.script_of("x")


def test_failed_verb_prints_one_sentence_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--name", "absent", "lose-disk", "0"]) == 1
    assert capsys.readouterr().err == ("rig: lose-disk: the guest absent is not running: start it with `up`.\n")


@pytest.mark.parametrize("name", ["guest-unit", "images-key"])
def test_clean_waits_for_user_of_guest_or_image(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "PROGRESS_EVERY", 0.0)
    folder = WithoutMachine().folder
    with cache.locked(name, "a test"):
        clean = threading.Thread(target=cli.main, args=(["clean"],))
        clean.start()
        errors = ""
        while f"waiting for another process that holds the lock for {name}" not in errors:
            assert clean.is_alive(), errors
            errors += capsys.readouterr().err
            time.sleep(0.01)
        assert folder.exists()
    clean.join()
    assert not folder.exists()


def test_run_ends_command_at_time_limit() -> None:
    with pytest.raises(RigError, match="waiting did not end within 0 s"):
        command.run(["sleep", "60"], "waiting", timeout=0.0)
