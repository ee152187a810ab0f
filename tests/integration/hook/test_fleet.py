# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fifty nodes boot at once with one S3 endpoint."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter

import pytest

from plugins.module_utils._bundle import archive, build, manifest
from tests.bench import bench_boot_hook
from tests.integration.hook.conftest import BUCKET, MARKER_ROLES, Node, build_bundle
from tests.integration.hook.faults import Proxy, error, times

NODES = 50


def boot_all(nodes, words):
    """Start all hooks and wait for their ends; return results and seconds from first start to last end."""
    begun = time.monotonic()
    processes = [node.start(*words(number)) for number, node in enumerate(nodes)]
    ran = [node.ended(process) for node, process in zip(nodes, processes)]
    return ran, time.monotonic() - begun


def whole_bundle(target):
    """Return a bundle with all packages, as in a release, with marker roles, and its sha256."""
    aim = archive.parse_target(f"debian-py{bench_boot_hook.PYTHON}")
    files, components = build.collect_files(bench_boot_hook.request(), aim)
    release = build.add_compiled(bench_boot_hook.request(), aim, files)
    contents = manifest.manifest("1.2.3", "", aim, 1_700_000_000, components, release)
    files["MANIFEST.json"] = archive.Member(manifest.to_json(contents))
    for path in MARKER_ROLES.rglob("*.yml"):
        place = f"collections/ansible_collections/mlcluster/aws/roles/{path.relative_to(MARKER_ROLES)}"
        files[place] = archive.Member(path.read_bytes())
    target.write_bytes(archive.archive(files, 1_700_000_000))
    return archive.sha256(target.read_bytes())


@pytest.fixture
def secure(tmp_path, moto, stored):
    """Yield the local S3 behind https, and its certificate."""
    certificate = tmp_path / "certificate.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -subj /CN=s3 -days 2".split()
    places = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(tmp_path / "key.pem"), "-out", str(certificate)]
    subprocess.run(["openssl", *words, *places], check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_text((tmp_path / "key.pem").read_text() + certificate.read_text())
    server = Proxy(moto, both)
    yield server, certificate
    server.close()


# The collection's roles write to /etc and /usr also with --root, so test_container.py tests them.
@pytest.mark.parametrize("whole", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_fifty_nodes_at_once(tmp_path, programs, secure, stored, moto, whole, record_property):
    proxy, certificate = secure
    shared, sums = tmp_path / "shared", {}
    for name, make in {"quick": build_bundle, "whole": whole_bundle}.items():
        if name == "quick" or whole:
            sums[name] = make(tmp_path / name)
            stored.upload_file(str(tmp_path / name), BUCKET, name)
    urls = {
        key: stored.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": key}).replace(moto, proxy.url)
        for key in (*sums, "vars.json")
    }
    # The first ten requests are rejected.
    proxy.faults = [times(10, error(503, "SlowDown"), path="/quick")]
    environment = {"MARKS": str(shared), "CURL_CA_BUNDLE": str(certificate)}
    nodes = [Node(tmp_path / str(number), programs, environment) for number in range(NODES)]

    def words(number):
        name = "whole" if number < whole else "quick"
        bundle, variables = (f"{urls[key]}&node={number}" for key in (name, "vars.json"))
        return ["--bundle", bundle, "--sha256", sums[name], "--vars", variables, "--roles", "mark", "--deadline", "600"]

    ran, seconds = boot_all(nodes, words)
    record_property("seconds", round(seconds, 1))
    assert [(one.rc, one.status["state"]) for one in ran] == [(0, "configured")] * NODES
    # All of them write to one file, which stays intact.
    assert set(shared.read_text().splitlines()) == {"from-s3 False"}
    asked = Counter(request.node for request in proxy.requests)
    assert set(asked) == {str(number) for number in range(NODES)}
    # Besides these ten, a request on a busy machine may exceed curl's time limit.
    tries = sum(len(re.findall(r"try \d+ for \S+ failed: ", one.log)) for one in ran)
    assert 2 * NODES + 10 <= sum(asked.values()) <= 2 * NODES + tries
    assert {request.path for request in proxy.requests} == {f"/{BUCKET}/{key}" for key in urls}
    assert all(node.clean() for node in nodes)
