# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fifty nodes at once against one endpoint."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.integration.hook.conftest import BUCKET, Node, build_bundle
from tests.integration.hook.faults import error, times

NODES = 50


def boot_all(nodes, words):
    """Start every hook, then wait for all; seconds from the first start to the last end."""
    begun = time.monotonic()
    processes = [node.start(*words(number)) for number, node in enumerate(nodes)]
    ran = [node.ended(process) for node, process in zip(nodes, processes)]
    return ran, time.monotonic() - begun


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_fifty_nodes_at_once(tmp_path, programs, proxy, stored, moto, quick, record_property):
    archive, shared = tmp_path / "bundle.tar.gz", tmp_path / "shared"
    sha = build_bundle(archive, quick=quick)
    name = f"fleet-{quick}.tar.gz"
    stored.upload_file(str(archive), BUCKET, name)
    urls = {
        key: stored.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": key}).replace(moto, proxy.url)
        for key in (name, "vars.json")
    }
    # Some of the first to come are turned away.
    proxy.faults = [times(10, error(503, "SlowDown"), path=name)]
    nodes = [Node(tmp_path / str(number), programs, {"MARKS": str(shared)}) for number in range(NODES)]

    def words(number):
        bundle, variables = (f"{urls[key]}&node={number}" for key in (name, "vars.json"))
        return ["--bundle", bundle, "--sha256", sha, "--vars", variables, "--roles", "mark", "--deadline", "600"]

    ran, seconds = boot_all(nodes, words)
    record_property("seconds", round(seconds, 1))
    assert [(one.rc, one.status["state"]) for one in ran] == [(0, "configured")] * NODES
    # One file that all of them write to stays whole.
    assert shared.read_text() == "from-s3 False\n"
    asked = Counter(request.node for request in proxy.requests)
    assert set(asked) == {str(number) for number in range(NODES)}
    assert sum(asked.values()) == 2 * NODES + 10
    assert {request.path for request in proxy.requests} == {f"/{BUCKET}/{name}", f"/{BUCKET}/vars.json"}
    assert all(node.clean() for node in nodes)
