# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rig.vm import __main__ as cli
from tests.rig.vm import cache, command, guest, node, plan, prepare
from tests.rig.vm.command import RigError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Recorded(guest.Guest):
    """A guest without a machine: commands are recorded, the plan and the state are real."""

    def __init__(self, disks: int = 4) -> None:
        super().__init__("unit")
        self.folder.mkdir(parents=True)
        self.commands: list[tuple[Any, str | None]] = []
        self.answers: dict[str, str] = {}
        self.state = {"accelerator": "tcg", "instance_type": "t", "port": 1, "snapshots": {}}
        self._insert(plan.make(disks, 1, 1024, 512), disks, 1, 1024)
        self.commands.clear()

    def need_running(self) -> None:
        pass

    def run(self, words: Any, *, stdin: str | None = None, **_options: Any) -> command.Result:  # type: ignore[override]
        self.commands.append((words, stdin))
        return command.Result(0, self.answers.get(words[1], "") if isinstance(words, list) else "", "")

    def load_snapshot(self, name: str) -> None:
        self.commands.append((f"loadvm {name}", None))

    def save_snapshot(self, name: str) -> None:
        self.commands.append((f"savevm {name}", None))

    @property
    def plan_disk(self) -> plan.Plan:
        return plan.load((self.folder / "plan.raw").read_text())


def test_lose_disk_counts_now_and_at_the_next_boot() -> None:
    node_ = Recorded()
    lost = node_.lose_disk(1)
    assert lost not in node_.plan
    assert node_.plan_disk == node_.plan
    assert node_.commands == [([guest.EC2_DISKS, "apply"], plan.dump(node_.plan))]


def test_reshuffle_unplugs_only_idle_disks() -> None:
    node_ = Recorded()
    before = node_.plan
    assert node_.reshuffle(seed=3)
    assert [words[1] for words, _text in node_.commands] == ["busy", "detach", "apply"]
    node_.commands.clear()
    node_.answers["busy"] = "/dev/nvme1n1\n"
    assert not node_.reshuffle(seed=4)
    assert [words[1] for words, _text in node_.commands] == ["busy"]
    assert node_.plan_disk == node_.plan != before


def test_restore_brings_the_plan_back() -> None:
    node_ = Recorded()
    before = node_.plan
    node_.snapshot("full")
    node_.lose_disk(0)
    node_.restore("full")
    assert node_.plan == node_.plan_disk == before
    assert json.loads((node_.folder / "state.json").read_text())["plan"] == plan.dump(before)
    with pytest.raises(RigError, match="there is no snapshot 'other': the guest has full"):
        node_.restore("other")


def test_inventory_is_yaml_that_reaches_the_guest() -> None:
    node_ = Recorded()
    document = yaml.safe_load(node_.inventory(["instance_store", "compute"]))
    variables = document["all"]["hosts"]["unit"]
    assert variables["ansible_host"] == "127.0.0.1"
    assert variables["ansible_ssh_pipelining"] is True
    assert shlex.split(variables["ansible_ssh_args"]) == ["-F", str(node_.folder / "ssh_config")]
    assert set(document["all"]["children"]) == {"instance_store", "compute"}


def test_status_of_a_guest_that_is_not_there() -> None:
    assert guest.Guest("nobody").status() == {
        "name": "nobody",
        "running": False,
        "folder": str(guest.folder_of("nobody")),
    }


@pytest.mark.parametrize("name", ["", "../x", "A", "a_b", "-a", "x" * 40])
def test_guest_names_that_are_no_host_names_are_refused(name: str) -> None:
    with pytest.raises(RigError, match="is no guest name"):
        guest.folder_of(name)


def test_ssh_config_is_understood_by_ssh(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "config").write_text(node.ssh_config(folder, 40022, folder / "100%key"))
    shown = subprocess.run(
        ["ssh", "-G", "-F", str(folder / "config"), "anything"], capture_output=True, text=True, check=True
    ).stdout
    lines = shown.splitlines()
    assert "hostname 127.0.0.1" in lines
    assert "port 40022" in lines
    assert "stricthostkeychecking true" in lines
    assert f"identityfile {folder}/100%key" in [line.replace("%%", "%") for line in lines]


def test_a_folder_too_deep_for_a_socket_gets_no_shared_connection(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    assert "ControlMaster" not in node.ssh_config(deep, 1, deep / "key")
    assert "ControlMaster auto" in node.ssh_config(Path("/tmp/g"), 1, Path("/tmp/key"))


def test_a_list_is_quoted_for_the_guests_shell_and_a_string_is_not() -> None:
    assert node.remote_command(["printf", "%s", "a b;c"]) == "printf %s 'a b;c'"
    assert node.remote_command("a; b") == "a; b"


def test_every_case_has_a_script_that_a_shell_understands() -> None:
    assert {path.stem for path in prepare.SCRIPTS.glob("*.sh")} == set(prepare.CASES)
    for name in prepare.CASES:
        subprocess.run(["sh", "-n", "-c", prepare.script_of(name)], check=True)


def test_prepare_hands_the_disks_to_the_script() -> None:
    node_ = Recorded()
    node_.answers["list"] = "/dev/nvme0n1\n"
    prepare.prepare(node_, "lvm-with-ebs")
    words = node_.commands[-1][0]
    assert words[:3] == ["sh", "-eu", "-c"]
    assert words[5:] == ["/dev/nvme0n1", "/dev/nvme0n1"]


def test_prepare_needs_disks_and_a_known_case() -> None:
    with pytest.raises(RigError, match="the guest has none"):
        prepare.prepare(Recorded(), "gpt")
    with pytest.raises(RigError, match="there is no case 'x': choose one of parallelcluster"):
        prepare.script_of("x")


def test_a_verb_that_fails_says_one_sentence_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--name", "nobody", "lose-disk", "0"]) == 1
    assert capsys.readouterr().err == ("rig: lose-disk: the guest nobody is not running: start it with `up`.\n")


def test_the_name_may_stand_before_or_after_the_verb() -> None:
    assert cli.parser().parse_args(["--name", "a", "reboot"]).name == "a"
    assert cli.parser().parse_args(["reboot", "--name", "b"]).name == "b"
    assert cli.parser().parse_args(["reboot"]).name == "demo"


def test_down_of_a_guest_that_is_not_there_is_fine() -> None:
    assert cli.main(["--name", "nobody", "down"]) == 0


@pytest.mark.parametrize("name", ["guest-unit", "images-key"])
def test_clean_waits_for_whoever_uses_a_guest_or_builds_an_image(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "PROGRESS_EVERY", 0.0)
    folder = Recorded().folder
    with cache.locked(name, "a test"):
        clean = threading.Thread(target=cli.main, args=(["clean"],))
        clean.start()
        said = ""
        while f"waiting for another process that holds the lock for {name}" not in said:
            assert clean.is_alive(), said
            said += capsys.readouterr().err
            time.sleep(0.01)
        assert folder.exists()
    clean.join()
    assert not folder.exists()


def test_run_reports_failures_in_one_sentence() -> None:
    with pytest.raises(RigError, match=r"counting failed with exit status 3: .*\nbad things"):
        command.run(
            [sys.executable, "-c", "import sys; sys.exit(print('bad things', file=sys.stderr) or 3)"], "counting"
        )
    with pytest.raises(RigError, match="needs the program no-such-program, which is not installed"):
        command.run(["no-such-program"], "counting")
    assert command.run([sys.executable, "-c", "print(input())"], "echoing", stdin="words\n").out == "words\n"


def test_run_ends_what_takes_too_long() -> None:
    with pytest.raises(RigError, match="waiting did not end within 0 s"):
        command.run(["sleep", "60"], "waiting", timeout=0.0)


def test_long_work_shows_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "PROGRESS_EVERY", 0.0)
    left = [1, 2, 3]
    command.wait_for("a thing", lambda: left.pop() == 1 or None, timeout=30, poll=0.0)
    assert capsys.readouterr().err.startswith("rig: waiting for a thing: 0 s so far\n")


def test_a_program_that_is_fed_may_take_longer_than_a_progress_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "PROGRESS_EVERY", 0.1)
    answer = command.run(["sh", "-c", "sleep 0.4; cat"], "feeding", stdin="x" * 200000)
    assert answer.out == "x" * 200000
    assert "rig: feeding: 0 s so far" in capsys.readouterr().err
