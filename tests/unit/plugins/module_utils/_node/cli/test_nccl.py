# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs nccl-verdict and efa-counters, with their exit codes, baselines and counters."""

from __future__ import annotations

import io
import json
import os
import sys
import types

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import counters as nccl_counters

from tests.unit.fakes.fake_nccl_output import Plan, output, snapshots

HOSTS = Plan().hosts
FOUR = ["--ranks", "8", "--nodes", "4", "--instance-type", "p5.48xlarge"]


@pytest.fixture
def run(tmp_path, capsys):
    """Return run(*arguments), which returns the exit code, standard output and standard error."""

    def call(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments], "0.1.0", str(tmp_path / "log"))
        except SystemExit as ended:
            code = ended.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

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


def test_report_is_printed_as_json(run, tmp_path):
    code, out, _err = run("nccl-verdict", written(tmp_path / "good", output()), "--json", *FOUR)
    report = json.loads(out)
    assert (code, report["schema"]) == (2, "mlcluster.report/1")
    assert [entry["id"] for entry in report["results"]] == ["nccl.correct", "nccl.fabric", "nccl.bandwidth"]


def test_output_can_be_piped_in(run, monkeypatch):
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
def test_unusable_file_is_usage_error(run, arguments):
    code, out, err = run("nccl-verdict", *arguments)
    assert (code, out) == (3, "")
    assert err


def test_file_without_test_output_is_undeterminable(run):
    assert run("nccl-verdict", __file__, *FOUR)[0] == 2


def test_good_run_is_recorded_and_compared(run, tmp_path):
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


def test_unproved_run_is_not_recorded(run, tmp_path):
    baseline = tmp_path / "nccl.json"
    one = written(tmp_path / "one", output(hosts=("a",), gpus=1))
    code, _out, err = run("nccl-verdict", one, "--ranks", 1, "--nodes", 1, "--record-baseline", baseline)
    assert (code, baseline.exists()) == (2, False)
    assert "needs to know instance_type" in err
    occupied = tmp_path / "good" / "nccl.json"
    good = written(tmp_path / "good", output())
    assert "nothing was recorded" in run("nccl-verdict", good, *FOUR, "--record-baseline", occupied)[2]


def test_counters_are_read_from_two_files(run, tmp_path):
    good = written(tmp_path / "good", output())
    files = ["--counters-before", counters(tmp_path / "before", 0)]
    enough = run("nccl-verdict", good, *FOUR, *files, "--counters-after", counters(tmp_path / "after", 1 << 33))
    assert "PASS nccl.fabric" in enough[1]
    assert run("nccl-verdict", good, *FOUR, *files, "--counters-after", counters(tmp_path / "after", 100))[0] == 1
    # Equal counters mean that nothing was sent, which contradicts the test.
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
    assert nccl_counters.largest_growth(devices, devices) == 0


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_special_file_is_rejected(run, tmp_path, kind):
    path = {"pipe": tmp_path / "pipe", "device": "/dev/zero", "directory": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    code, _out, err = run("nccl-verdict", path)
    assert (code, "it is a directory, pipe or device" in err) == (3, True)
