# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.marker import (
    MARKER_PATH,
    Marker,
    check_marker,
    clear_marker,
    read_marker,
    write_marker,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "state/drain.json")


def test_marker_is_written_read_and_cleared(path):
    host = Host()
    assert (read_marker(host, path), clear_marker(host, path)) == (None, False)
    write_marker(host, "the driver\n did not build", "hook", path)
    found = read_marker(host, path)
    assert (found.reason, found.by, json.loads(host.read_text(path))["schema"]) == (
        "the driver did not build",
        "hook",
        "mlcluster.drain/1",
    )
    verdict = check_marker(host, path)[0]
    assert (verdict.status, verdict.severity) == ("fail", "isolate")
    assert verdict.message.startswith("the driver did not build (by hook at 2")
    assert (clear_marker(host, path), check_marker(host, path)[0].status) == (True, "pass")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("could not fetch\nthe bundle\n", "could not fetch the bundle"),
        ("", "an empty marker"),
        ("[1]", "[1]"),
        ("{}", "no reason is given"),
        ('{"reason": "x", "by": 5, "at": null}', "x"),
        ("y" * 1000, "y" * 200),
    ],
)
def test_any_file_content_is_marker(path, text, reason):
    Host().write_text(path, text)
    assert read_marker(Host(), path) == Marker(reason)


def test_unreadable_marker_counts_unless_path_is_invalid(tmp_path):
    (tmp_path / "folder").mkdir()
    assert read_marker(Host(), str(tmp_path / "folder")).reason == "the marker exists and cannot be read"
    (tmp_path / "file").touch()
    assert check_marker(Host(), str(tmp_path / "file/x"))[0].status == "undeterminable"
    with pytest.raises(NodeError, match="could not remove"):
        clear_marker(Host(), str(tmp_path / "folder"))


def test_marker_is_in_state_directory():
    assert MARKER_PATH == "/var/lib/mlcluster/drain.json"
