# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs nccl-verdict and efa-counters, with their exit codes, baselines and counters."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import threading
import types

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import baseline as nccl_baseline
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import counters as nccl_counters
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

from tests.unit.fakes.fake_nccl_output import Plan, output, snapshots

HOSTS = Plan().hosts
LIMIT = 60
FOUR = ["--ranks", "8", "--nodes", "4", "--instance-type", "p5.48xlarge"]


@pytest.fixture
def run(tmp_path, capsys):
    """run(*arguments) gives the exit code, what was printed, and what was said on standard error."""

    def call(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments], "0.1.0", str(tmp_path / "log"))
        except SystemExit as ended:
            code = ended.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def written(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def counters(path, sent):
    entries = snapshots(HOSTS, sent).items()
    return written(path, [json.dumps({"host": host, "devices": devices}) for host, devices in entries])


def test_verdicts_are_printed_and_their_code_returned(run, tmp_path):
    good = written(tmp_path / "good", output())
    code, out, _err = run("nccl-verdict", good, *FOUR)
    assert code == 2
    assert out.splitlines()[0].startswith("PASS nccl.correct")
    assert "GPUDirect RDMA between nodes: all" in out
    assert "between the GPUs of a node: P2P (8 channels); NVLink SHARP: 16 channels" in out
    assert run("nccl-verdict", written(tmp_path / "bad", output(network="Socket")), *FOUR)[0] == 1
    one = written(tmp_path / "one", output(hosts=("a",), gpus=1))
    assert run("nccl-verdict", one, "--ranks", 1, "--nodes", 1)[0] == 0


def test_a_report_is_printed_as_json(run, tmp_path):
    code, out, _err = run("nccl-verdict", written(tmp_path / "good", output()), "--json", *FOUR)
    report = json.loads(out)
    assert (code, report["schema"]) == (2, "mlcluster.report/1")
    assert [entry["id"] for entry in report["results"]] == ["nccl.correct", "nccl.fabric", "nccl.bandwidth"]


def test_an_output_can_be_piped_in(run, monkeypatch):
    text = "\n".join(output()).encode() + b"\xff\n"
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(text)))
    assert run("nccl-verdict", "-", *FOUR)[1].startswith("PASS nccl.correct")


@pytest.mark.parametrize(
    "arguments",
    [
        ("/does/not/exist",),
        (__file__, "--ranks", 0),
        (__file__, "--tolerance", 100),
        (__file__, "--baseline", "/does/not/exist"),
        (__file__, "--baseline", __file__),
        (__file__, "--counters-before", "/does/not/exist"),
        (__file__, "--counters-after", __file__),
        (),
    ],
)
def test_what_cannot_be_used_is_said_and_is_a_usage_error(run, arguments):
    code, out, err = run("nccl-verdict", *arguments)
    assert (code, out) == (3, "")
    assert err


def test_a_file_that_is_no_output_is_undeterminable(run):
    assert run("nccl-verdict", __file__, *FOUR)[0] == 2


def test_a_good_run_becomes_a_baseline_that_the_next_is_compared_with(run, tmp_path):
    good, baseline = written(tmp_path / "good", output()), tmp_path / "site" / "nccl.json"
    assert run("nccl-verdict", good, *FOUR, "--record-baseline", baseline)[0] == 2
    document = json.loads(baseline.read_text())
    assert (document["schema"], len(document["entries"])) == ("mlcluster.nccl_baseline/1", 6)
    assert run("nccl-verdict", good, *FOUR, "--baseline", baseline)[0] == 0
    assert run("nccl-verdict", good, *FOUR, "--baseline", baseline, "--tolerance", 0)[0] == 0
    slow = written(tmp_path / "slow", output(busbw=lambda size: 100.0 * size / (size + (1 << 26))))
    assert run("nccl-verdict", slow, *FOUR, "--baseline", baseline)[0] == 1
    before = baseline.read_text()
    code, _out, err = run("nccl-verdict", slow, *FOUR, "--baseline", baseline, "--record-baseline", baseline)
    assert (code, baseline.read_text()) == (1, before)
    assert "nothing was recorded" in err


def test_a_run_that_proves_nothing_becomes_no_baseline(run, tmp_path):
    baseline = tmp_path / "nccl.json"
    one = written(tmp_path / "one", output(hosts=("a",), gpus=1))
    code, _out, err = run("nccl-verdict", one, "--ranks", 1, "--nodes", 1, "--record-baseline", baseline)
    assert (code, baseline.exists()) == (2, False)
    assert "needs to know instance_type" in err
    occupied = tmp_path / "good" / "nccl.json"
    good = written(tmp_path / "good", output())
    assert "nothing was recorded" in run("nccl-verdict", good, *FOUR, "--record-baseline", occupied)[2]


def test_counters_are_taken_from_two_files(run, tmp_path):
    good = written(tmp_path / "good", output())
    files = ["--counters-before", counters(tmp_path / "before", 0)]
    enough = run("nccl-verdict", good, *FOUR, *files, "--counters-after", counters(tmp_path / "after", 1 << 33))
    assert "PASS nccl.fabric" in enough[1]
    assert run("nccl-verdict", good, *FOUR, *files, "--counters-after", counters(tmp_path / "after", 100))[0] == 1
    # The same counters twice say that nothing was sent, which is not what happened.
    code, _out, err = run("nccl-verdict", good, *FOUR, *files, "--counters-after", tmp_path / "." / "before")
    assert (code, "is given for the counters before and after" in err) == (3, True)


def test_counters_of_this_host_are_one_line(run, tmp_path, monkeypatch):
    monkeypatch.setattr(nccl_counters, "INFINIBAND", str(tmp_path / "infiniband"))
    assert run("efa-counters")[0] == 2
    for port, values in (("1", {"tx_bytes": "12\n", "rx_bytes": "30\n", "tx_pkts": "4\n"}), ("2", {"tx_bytes": "5\n"})):
        folder = tmp_path / "infiniband" / "rdmap0s6" / "ports" / port / "hw_counters"
        folder.mkdir(parents=True)
        for name, value in values.items():
            (folder / name).write_text(value)
    (folder / "rx_bytes").write_text("not a number\n")
    vendor = tmp_path / "infiniband" / "rdmap0s6" / "device" / "vendor"
    vendor.parent.mkdir()
    vendor.write_text("0x15b3\n")
    assert run("efa-counters")[0] == 2
    vendor.write_text("0x1d0f\n")
    code, out, _err = run("efa-counters")
    assert code == 0
    assert json.loads(out)["devices"] == {"rdmap0s6": {"tx_bytes": 17, "rx_bytes": 30}}
    found = nccl_counters.parse_snapshots(out, "it")
    assert len(found) == 1
    devices = next(iter(found.values()))
    assert nccl_counters.grown(devices, devices) == 0


@pytest.mark.parametrize(
    "line",
    [
        "rdmap0s6 12",
        "[]",
        '{"host": "a"}',
        '{"host": "a", "devices": {"d": {"tx_bytes": -1}}}',
        '{"host": "a", "devices": {"d": {"tx_bytes": true}}}',
        '{"host": "a", "devices": {"d": 3}}',
        "[" * 200_000,
    ],
)
def test_lines_that_are_no_counters_are_named(line):
    with pytest.raises(NodeError, match="line 2 of before is no snapshot"):
        nccl_counters.parse_snapshots(f"\n{line}\n", "before")


def test_a_host_that_is_there_twice_is_not_guessed_at():
    lines = '{"host": "a", "devices": {}}\n{"host": "a", "devices": {}}\n'
    with pytest.raises(NodeError, match="before has the host a twice: give one file"):
        nccl_counters.parse_snapshots(lines, "before")


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_file_is_refused_and_never_waited_for(run, tmp_path, kind):
    path = {"pipe": tmp_path / "pipe", "device": "/dev/zero", "directory": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    code, _out, err = run("nccl-verdict", path)
    assert (code, "it is a directory, pipe or device" in err) == (3, True)


@pytest.mark.parametrize(
    ("before", "after", "bytes_"),
    [
        ({"a": {"tx_bytes": 1}}, {"a": {"tx_bytes": 11}, "b": {"tx_bytes": 99}}, 10),
        (
            {"a": {"tx_bytes": 1, "rx_bytes": 5}, "b": {"tx_bytes": 2}},
            {"a": {"tx_bytes": 4, "rx_bytes": 6}, "b": {"tx_bytes": 9}},
            10,
        ),
        ({"a": {"tx_bytes": 9}}, {"a": {"tx_bytes": 1}}, None),
        ({"a": {"tx_bytes": 9}}, {}, None),
        ({}, {}, None),
    ],
)
def test_growth_is_that_of_the_counter_that_grew_most(before, after, bytes_):
    assert nccl_counters.grown(before, after) == bytes_


ENTRY = {
    "tool": "nccl-tests",
    "instance_type": "p5.48xlarge",
    "nodes": 4,
    "collective": "all_reduce",
    "size": 1 << 30,
    "busbw": 365.0,
    "ranks": 32,
    "recorded": "2026-11-27T00:00:00Z",
}


def with_busbw(text):
    return json.dumps({"schema": nccl_baseline.SCHEMA, "entries": [ENTRY]}).replace("365.0", text)


def test_recording_the_same_again_changes_nothing(tmp_path):
    host, path = Host(), str(tmp_path / "nccl.json")
    later = {**ENTRY, "recorded": "2026-12-01T00:00:00Z"}
    other = {**ENTRY, "nodes": 2, "busbw": 400.0}
    assert nccl_baseline.record(host, path, [ENTRY], write=False)
    assert not host.exists(path)
    assert nccl_baseline.record(host, path, [ENTRY])
    assert not nccl_baseline.record(host, path, [later])
    assert nccl_baseline.record(host, path, [other])
    assert nccl_baseline.record(host, path, [{**later, "busbw": 370.0}])
    assert nccl_baseline.record(host, path, [{**ENTRY, "ranks": 4, "busbw": 90.0}])
    kept = nccl_baseline.load(host, path)
    for nodes, ranks, figures in ((4, 32, {1 << 30: 370.0}), (2, 32, {1 << 30: 400.0}), (4, 4, {1 << 30: 90.0})):
        assert nccl_baseline.figures(kept, "nccl-tests", "p5.48xlarge", nodes, ranks, "all_reduce") == figures
    assert nccl_baseline.figures(kept, "nccl-tests", "p5.48xlarge", 3, 32, "all_reduce") == {}


class Between(Host):
    """One that is about to write when another records, which ends or waits before this one goes on."""

    def __init__(self, other):
        self.other, self.seen = other, threading.Event()

    def write_text(self, path, text, mode=0o644):
        self.other.start()
        assert self.seen.wait(LIMIT)
        super().write_text(path, text, mode)


def test_of_two_that_record_at_once_neither_is_lost(tmp_path):
    path, results = str(tmp_path / "site" / "nccl.json"), []
    nccl_baseline.record(Host(), path, [ENTRY])

    class Waiting(Host):
        def sleep(self, seconds):
            first.seen.set()
            super().sleep(seconds)

    def second():
        results.append(nccl_baseline.record(Waiting(), path, [{**ENTRY, "nodes": 2}]))
        first.seen.set()

    first = Between(threading.Thread(target=second))
    results.append(nccl_baseline.record(first, path, [{**ENTRY, "nodes": 8}]))
    first.other.join(LIMIT)
    assert results == [True, True]
    assert [entry["nodes"] for entry in nccl_baseline.load(Host(), path)] == [2, 4, 8]


def test_who_may_write_the_baseline_may_be_the_next_to_record(tmp_path, monkeypatch):
    """Whatever the umask of the user who came first, and where the name is relative or a link."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.json").symlink_to("nccl.json")
    before = os.umask(0o077)
    try:
        assert nccl_baseline.record(Host(), "link.json", [ENTRY])
        assert nccl_baseline.record(Host(), "nccl.json", [{**ENTRY, "nodes": 2}])
    finally:
        os.umask(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".nccl.json.lock", "link.json", "nccl.json"]
    assert stat.S_IMODE((tmp_path / ".nccl.json.lock").stat().st_mode) == 0o666
    # What changes nothing needs to write nothing, and no lock.
    (tmp_path / ".nccl.json.lock").unlink()
    assert not nccl_baseline.record(Host(), "link.json", [ENTRY])
    assert not (tmp_path / ".nccl.json.lock").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not valid JSON"),
        ("[" * 200_000, "is not valid JSON"),
        (with_busbw("9" * 400), "is no baseline"),
        (with_busbw("Infinity"), "is no baseline"),
        (with_busbw("NaN"), "is no baseline"),
        (with_busbw("365.0").replace('"ranks": 32', '"ranks": 0'), "is no baseline"),
        ("[]", "is no baseline"),
        ('{"schema": "mlcluster.nccl_baseline/2", "entries": []}', "is no baseline"),
        (json.dumps({"schema": nccl_baseline.SCHEMA, "entries": [{**ENTRY, "busbw": -1}]}), "is no baseline"),
        (json.dumps({"schema": nccl_baseline.SCHEMA, "entries": [{**ENTRY, "size": "1G"}]}), "is no baseline"),
        (json.dumps({"schema": nccl_baseline.SCHEMA, "entries": [{"size": 1}]}), "is no baseline"),
    ],
)
def test_a_file_that_is_no_baseline_is_never_overwritten(tmp_path, text, sentence):
    path = tmp_path / "nccl.json"
    path.write_text(text)
    with pytest.raises(NodeError, match=sentence):
        nccl_baseline.record(Host(), str(path), [ENTRY])
    assert path.read_text() == text
