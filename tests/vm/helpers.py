# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the real roles on a guest and reads the results from the guest's kernel and files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from tests.rig.vm.command import run
from tests.rig.vm.guest import Guest

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
HERE = Path(__file__).parent
ROLE_PLAYBOOK = HERE / "playbooks" / "role.yml"
CONFIGURED = "configured"
KEPT = "/data/scratch/file"
CONSENT = {"nvme_raid0_existing": "replace", "nvme_raid0_safe_mode": False}
CONSENT_SENTENCE = "nvme_raid0_existing: replace together with nvme_raid0_safe_mode: false"
UNIT = "mlcluster-storage.service"
# Actions that never leave the controller, and those that only gather facts: all others run on the node.
ON_CONTROLLER = {
    "add_host", "assert", "debug", "fail", "group_by", "import_role", "import_tasks", "include_role", "include_tasks",
    "include_vars", "meta", "pause", "run_names", "run_verdict", "set_fact", "set_stats", "validate_argument_spec",
}  # fmt: skip
FACTS = {"setup", "gather_facts"}


class Step(NamedTuple):
    """A task that ran: its name, its action without the collection's name, its result."""

    name: str
    action: str
    result: dict[str, Any]


def items_of(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the results of a loop's items, or the result itself; a module may return a key ``results``, too."""
    items = result.get("results", [])
    return items if items and all("ansible_loop_var" in item for item in items) else [result]


class Run(NamedTuple):
    """A finished playbook run against one host."""

    rc: int
    seconds: float
    steps: list[Step]
    stats: dict[str, int]
    errors: str
    printed: str = ""

    @property
    def changed(self) -> int:
        """The number of changed tasks."""
        return self.stats["changed"]

    @property
    def modules(self) -> list[str]:
        """The actions that ran on the node, facts excluded; each item of a loop counts."""
        return [
            step.action
            for step in self.steps
            if step.action not in ON_CONTROLLER | FACTS and step.result.get("queried", True)
            for item in items_of(step.result)
            if not item.get("skipped")
        ]

    @property
    def refusal(self) -> str:
        """The message of the failed task; fails the test if no task failed."""
        failed = [step.result.get("msg", "") for step in self.steps if step.result.get("failed")]
        assert self.rc == 2 and failed, f"the run was not refused (exit status {self.rc}): {self.errors}"
        return str(failed[-1])

    @property
    def output(self) -> str:
        """The messages of debug tasks and the lines that actions printed."""
        shown = [str(step.result.get("msg", "")) for step in self.steps if step.action == "debug"]
        return "\n".join([self.printed, *shown])

    def result_of(self, action: str) -> dict[str, Any]:
        """Return the result of the last task with that action; fail the test if there is none."""
        found = [step.result for step in self.steps if step.action == action and not step.result.get("skipped")]
        assert found, f"no task ran {action}; there were {[step.action for step in self.steps]}"
        return found[-1]


def _steps(document: Mapping[str, Any]) -> Iterator[Step]:
    for play in document["plays"]:
        for task in play["tasks"]:
            for result in task["hosts"].values():
                yield Step(task["task"]["name"], result["action"].rsplit(".", 1)[-1], result)


def _environment(folder: Path) -> dict[str, str]:
    return {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        # An empty value is an error; the callback that is the output already has no further effect.
        "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.json",
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        "ANSIBLE_LOCAL_TEMP": str(folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }


def _ansible(node: Guest, argv: list[str]) -> Run:
    """Run ansible-playbook or ansible against the guest; the JSON callback prints the result of every task."""
    inventory = node.folder / "inventory.yml"
    inventory.write_text(node.inventory(), encoding="utf-8")
    settings = [f"{key}={value}" for key, value in _environment(node.folder).items()]
    command = ["env", *settings, argv[0], "-i", str(inventory), *argv[1:]]
    started = time.monotonic()
    done = run(command, Path(argv[0]).name, check=False, timeout=1200, cwd=ROOT)
    start = done.out.find("{")
    assert start >= 0, f"{' '.join(argv)} gave no JSON (exit status {done.rc}):\n{done.out}{done.err}"
    document = json.loads(done.out[start:])
    stats = document["stats"].get(node.name, {})
    assert stats, f"no task reached the guest:\n{done.out[-2000:]}{done.err}"
    return Run(done.rc, time.monotonic() - started, list(_steps(document)), stats, done.err, done.out[:start])


def play(
    node: Guest, check: bool = False, playbook: Path = ROOT / "site.yml", tags: Optional[str] = None, **settings: Any
) -> Run:
    """Run a playbook with these variables and return its Run, also of a failed one."""
    argv = [str(BIN / "ansible-playbook"), str(playbook), "-e", json.dumps(settings)]
    argv += ["--check", "--diff"] if check else []
    argv += ["--tags", tags] if tags else []
    return _ansible(node, argv)


def configure(node: Guest, **settings: Any) -> Run:
    """Run site.yml; fail the test if the run fails."""
    done = play(node, **settings)
    failed = [f"{step.name}: {step.result.get('msg')}" for step in done.steps if step.result.get("failed")]
    assert done.rc == 0, f"the role failed: {failed} {done.errors}"
    return done


def entry(node: Guest, tasks_from: str, **settings: Any) -> Run:
    """Run one entry point of the role, and after it a task that shows that the play continued."""
    return play(node, playbook=ROLE_PLAYBOOK, entry_point=tasks_from, **settings)


def module(node: Guest, name: str, arguments: Mapping[str, Any], check: bool = False) -> Run:
    """Run one module of the collection."""
    argv = [str(BIN / "ansible"), node.name, "-m", f"mlcluster.aws.{name}", "-a", json.dumps(arguments)]
    return _ansible(node, argv + (["--check", "--diff"] if check else []))


def expect_unchanged(node: Guest, **settings: Any) -> Run:
    """Run site.yml, and check that nothing changes and at most two modules run besides facts."""
    done = configure(node, **settings)
    touched = [step.name for step in done.steps if step.result.get("changed")]
    assert done.changed == 0, f"the run changed {touched}"
    assert len(done.modules) <= 2, f"the run took {done.modules} to find that nothing differs"
    return done


def blank(node: Guest) -> Guest:
    """Reset the guest to a new instance: four blank disks, no files of the role."""
    node.renew(disks=4)
    return node


def configured(node: Guest) -> Guest:
    """Reset the guest to four disks, the role applied with its defaults and a file on the volume.

    This state is made once a session and restored from a snapshot afterwards.
    """
    if CONFIGURED in node.state["snapshots"]:
        node.restore(CONFIGURED)
        return node
    configure(blank(node))
    # A test may cut the power. On a real node these files would be on disk for long.
    node.run(f"echo kept > {KEPT}; sync")
    node.snapshot(CONFIGURED)
    return node


# -- the state of the node --------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """The node's state. ``mounts``: {target: {source, fstype, options, uuid}}; ``tree``: {path: "mode owner group"}."""

    mounts: dict[str, dict[str, Any]]
    mdstat: str
    record: Optional[dict[str, Any]]
    intent: Optional[dict[str, Any]]
    fstab: str
    unit: dict[str, str]
    journal: str
    tree: dict[str, str]

    @property
    def arrays(self) -> list[str]:
        """The lines of /proc/mdstat that describe an array."""
        return [line for line in self.mdstat.splitlines() if line.startswith("md")]


def look(node: Guest, top: str = "/data") -> Seen:
    """Return the node's state as the kernel, systemd and files have it, in one round trip."""
    text = node.run(["python3", "-", top, UNIT], stdin=(HERE / "guest_look.py").read_text(encoding="utf-8")).out
    return Seen(**json.loads(text))


def settle(node: Guest) -> str:
    """Wait for the end of the boot; return the state that systemd reports (running, degraded, maintenance)."""
    return node.run("systemctl is-system-running --wait", check=False, timeout=400).out.strip()


def expect_volume(
    node: Guest, fstype: str = "ext4", disks: int = 4, path: str = "/data", state: str = "intact", owner: str = "ours"
) -> Seen:
    """Check the volume against the role's promises, by what the kernel reports; return the node's state."""
    seen = look(node, path)
    assert path in seen.mounts, f"nothing is mounted on {path}: {sorted(seen.mounts)}; {seen.journal}"
    mount = seen.mounts[path]
    assert mount["fstype"] == fstype, mount
    assert {"rw", "noatime"} <= set(mount["options"].split(",")), mount
    if disks > 1:
        assert mount["source"].startswith("/dev/md"), mount
        array = next(line for line in seen.arrays if line.startswith(mount["source"].rsplit("/", 1)[-1]))
        assert "active raid0" in array and array.count("nvme") == disks, seen.mdstat
        assert "512k chunks" in seen.mdstat
    else:
        assert mount["source"].startswith("/dev/nvme") and not seen.arrays, (mount, seen.mdstat)
    expect_directories(seen, path)
    expect_record(node, seen, path, fstype, state, owner)
    assert f"UUID={mount['uuid']} {path} {fstype} " in seen.fstab, seen.fstab
    assert seen.unit["UnitFileState"] == "enabled", seen.unit
    return seen


def expect_directories(seen: Seen, path: str = "/data") -> None:
    """Check the directories of the role's defaults, with their owners and modes, and the marker file."""
    wanted = {"": "755", "scratch": "1777", **dict.fromkeys(("cache", "checkpoints", "enroot", "hf"), "755")}
    for name, mode in wanted.items():
        where = f"{path}/{name}".rstrip("/")
        assert seen.tree.get(where) == f"{mode} root root", f"{where}: {seen.tree}"
    assert seen.tree.get(f"{path}/EPHEMERAL.txt") == "644 root root", seen.tree


def expect_record(node: Guest, seen: Seen, path: str, fstype: str, state: str, owner: str) -> None:
    """Check that local_storage.json agrees with the kernel and lists the machine's current disks."""
    record = seen.record
    assert record is not None, "there is no local_storage.json"
    expected = {"state": state, "owner": owner, "path": path, "fstype": fstype}
    assert {key: record[key] for key in expected} == expected, record
    assert record["fs_uuid"] == seen.mounts[path]["uuid"], record
    assert sorted(record["serials"]) == sorted(disk.serial for disk in node.plan if disk.is_instance_store), record
    assert record["boot_id"] == node.run("cat /proc/sys/kernel/random/boot_id").out.strip(), record
    assert seen.intent is None, seen.intent


def digests(node: Guest, freeze: bool = True) -> dict[str, str]:
    """Return {serial: sha256} of the disks' contents, read from their backing files below the kernel's NVMe layer.

    With ``freeze``, mounts of the disks are made read-only first, as a mounted filesystem writes by itself.
    """
    text = (HERE / "guest_digest.py").read_text(encoding="utf-8")
    by_file = json.loads(node.run(["python3", "-", "freeze" if freeze else "leave"], stdin=text).out)
    return {disk.serial: by_file[disk.file] for disk in node.plan}


def files_outside(node: Guest) -> str:
    """Return path, mode, size and time of change of each file where the role may write outside the volume."""
    places = "/etc /usr/local /var/lib/mlcluster /var/log/mlcluster /data /run/systemd/system"
    return node.run(f"find {places} -printf '%p %m %s %T@\\n' 2>/dev/null | sort", check=False).out
