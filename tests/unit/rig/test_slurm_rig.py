# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records and files of the rig; the clusters themselves are tested in tests/integration/slurm."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.slurm import __main__ as command
from tests.rig.slurm import processes, record
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.processes import Process, RigError
from tests.rig.slurm.spec import Ports, Spec

PORTS = Ports(20001, 20002, 20003, (20004, 20005))


@pytest.fixture
def base(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "base", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "a cluster of 0 nodes was requested: use 1 to 64"),
        ({"gpus": 17}, "17 GPUs a node were requested: use 0 to 16"),
    ],
)
def test_impossible_cluster_is_rejected(options, message):
    with pytest.raises(RigError, match=message):
        Spec(**options)


@pytest.mark.skipif(os.geteuid() != 0, reason="the rig needs root, and reports that first")
def test_private_directory_has_to_exist_only_at_start(base):
    spec = Spec(private=("/none/such",))
    with pytest.raises(RigError, match="/none/such is to be private to each node and is not a directory here"):
        Cluster("c1").up(spec)
    (base / "c1").mkdir()
    record.Record("m", spec, PORTS).save(base / "c1")
    assert record.load(base / "c1").spec == spec


def test_record_of_another_checkout_is_read(base):
    """Its own fields are passed over; a rig that could not read it would start no cluster beside it."""
    (base / "c1").mkdir()
    record.Record("m", Spec(), PORTS).save(base / "c1")
    path = base / "c1" / "rig.json"
    data = json.loads(path.read_text())
    data["spec"]["of_tomorrow"] = {"a": 1}
    path.write_text(json.dumps(data))
    assert record.load(base / "c1").spec == Spec()


@pytest.mark.parametrize("name", ["../x", "", "A", "x" * 32, "-a"])
def test_name_never_leaves_directory_of_rig(base, name):
    with pytest.raises(RigError, match="is not a name for a cluster"):
        record.folder(name)


def test_ports_of_other_clusters_are_left_unchanged(base, monkeypatch):
    (base / "c1").mkdir()
    record.Record("m", Spec(), PORTS).save(base / "c1")
    monkeypatch.setattr(record, "PORTS", range(20001, 20011))
    found = record.choose_ports(2)
    assert {found.controller, found.accounting, found.database, *found.nodes} == set(range(20006, 20011))
    with pytest.raises(RigError, match="looked for 6 free ports from 20001 to 20010 and found 5"):
        record.choose_ports(3)


def test_ports_are_chosen_under_lock(base, monkeypatch):
    def choose(nodes):
        with open(base / ".-ports.lock", "w") as stream, pytest.raises(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return PORTS

    monkeypatch.setattr(record, "choose_ports", choose)
    save = record.Record.save
    monkeypatch.setattr(record.Record, "save", lambda self, root: (choose(2), save(self, root)))
    (base / "c1").mkdir()
    assert record.create(base / "c1", Spec(), None) == record.load(base / "c1")


def sleeper(mark: str, log: Path) -> Process:
    process = processes.spawn(["sleep", "600"], log, mark)
    # Before it runs, the kernel shows no environment of a process that Popen has begun.
    processes.wait_for("its mark", lambda: process in processes.marked(mark))
    return process


def test_process_with_other_start_time_is_not_ended(tmp_path):
    ours = sleeper("mark-a", tmp_path / "log")
    processes.end([Process(ours.pid, ours.started - 1)])
    assert processes.alive(ours)
    processes.end([ours])
    assert not processes.alive(ours)
    assert processes.identify(ours.pid) is None


def test_removal_ends_unrecorded_processes(base):
    root = base / "c1"
    root.mkdir()
    record.Record("mark-b", Spec(), PORTS).save(root)
    forgotten, foreign = sleeper("mark-b", root / "log"), sleeper("mark-b2", base / "log")
    try:
        assert record.remove("c1")
        assert (processes.alive(forgotten), processes.alive(foreign), root.exists()) == (False, True, False)
        assert not record.remove("c1")
    finally:
        processes.end([foreign])


def test_cluster_ends_after_its_owner(base):
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    gone = Process(dead.pid, 1)
    dead.wait()
    for name, owner in (("orphan", gone), ("owned", processes.identify(os.getpid())), ("kept", None)):
        (base / name).mkdir()
        record.Record(f"mark-{name}", Spec(), PORTS, owner).save(base / name)
    assert record.sweep() == ["orphan"]
    assert record.names() == ["kept", "owned"]


def test_missing_program_is_one_sentence(tmp_path):
    with pytest.raises(RigError, match="needs the program no-such-daemon, which is not installed: run `make setup`"):
        processes.spawn(["no-such-daemon"], tmp_path / "log", "m")


def test_command_line_reaches_spec(monkeypatch, capsys, base):
    seen = []

    monkeypatch.setattr(Cluster, "up", lambda self, spec: seen.append((self.name, spec)) or self)
    monkeypatch.setattr(Cluster, "status", lambda self: {"name": self.name})
    argv = "up --name c --nodes 3 --set MinJobAge=2 --set-node Feature=p5 --accounting --partition".split()
    assert command.main([*argv, "a:Nodes=n[1-2] MaxTime=10"]) == 0
    assert seen == [
        (
            "c",
            Spec(
                nodes=3,
                accounting=True,
                settings={"MinJobAge": "2"},
                node_settings={"Feature": "p5"},
                partitions={"a": {"Nodes": "n[1-2]", "MaxTime": "10"}},
            ),
        )
    ]
    assert '"name": "c"' in capsys.readouterr().out


def test_failure_is_one_sentence_and_status_1(capsys, base):
    assert command.main(["status", "--name", "nothing"]) == 1
    assert "there is no cluster called nothing" in capsys.readouterr().err
