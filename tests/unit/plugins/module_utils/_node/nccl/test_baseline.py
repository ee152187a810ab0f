# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The baseline of a site: recorded once, by one at a time, and never over another file."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import baseline as nccl_baseline
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

LIMIT = 60


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


def test_recording_same_again_changes_nothing(tmp_path):
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
    """A host that is about to write when another one records, which ends or waits before this one continues."""

    def __init__(self, other):
        self.other, self.seen = other, threading.Event()

    def write_text(self, path, text, mode=0o644):
        self.other.start()
        assert self.seen.wait(LIMIT)
        super().write_text(path, text, mode)


def test_two_records_at_once_are_both_kept(tmp_path):
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


def test_user_who_may_write_baseline_may_record_next(tmp_path, monkeypatch):
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
    # A record that changes nothing needs no write and no lock.
    (tmp_path / ".nccl.json.lock").unlink()
    assert not nccl_baseline.record(Host(), "link.json", [ENTRY])
    assert not (tmp_path / ".nccl.json.lock").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not valid JSON"),
        ("[" * 200_000, "is not valid JSON"),
        (with_busbw("9" * 400), "is not a baseline"),
        (with_busbw("Infinity"), "is not a baseline"),
        (with_busbw("NaN"), "is not a baseline"),
        (with_busbw("365.0").replace('"ranks": 32', '"ranks": 0'), "is not a baseline"),
        ("[]", "is not a baseline"),
        ('{"schema": "mlcluster.nccl_baseline/2", "entries": []}', "is not a baseline"),
        (json.dumps({"schema": nccl_baseline.SCHEMA, "entries": [{**ENTRY, "busbw": -1}]}), "is not a baseline"),
        (json.dumps({"schema": nccl_baseline.SCHEMA, "entries": [{**ENTRY, "size": "1G"}]}), "is not a baseline"),
        (json.dumps({"schema": nccl_baseline.SCHEMA, "entries": [{"size": 1}]}), "is not a baseline"),
    ],
)
def test_file_that_is_not_baseline_is_not_overwritten(tmp_path, text, sentence):
    path = tmp_path / "nccl.json"
    path.write_text(text)
    with pytest.raises(NodeError, match=sentence):
        nccl_baseline.record(Host(), str(path), [ENTRY])
    assert path.read_text() == text
