# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hook, a pointer and a bundle of which one is of an earlier commit, run together on a node that is a directory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import archive, build, pointer

from hooks.mlcluster_boot import options
from tests.unit.compat import written
from tests.unit.fakes import fake_collections as made

ROOT = Path(__file__).resolve().parents[3]
HOOK = ROOT / "hooks" / "on_node_configured.sh"
(BUNDLE,) = written.path("bundle").glob("*.tar.gz")
SUM = written.text(f"bundle/{BUNDLE.name}.sha256").split()[0]
# The runner of the recorded bundle, and of those built here: it prints its options and removes them, as the real one.
RUNNER = """import os


def main(argv):
    with open(argv[1]) as file:
        words = file.read().split("\\0")
    os.unlink(argv[1])
    print("ran", *words)
    return 7
"""


@pytest.fixture
def run(tmp_path):
    """run(hook, *words): the exit status and the output, with a stand-in for the AWS CLI that has the bundle."""
    tools = tmp_path / "bin"
    tools.mkdir()
    aws = f'#!/bin/sh\nfor last; do :; done\necho "$@" >>{tmp_path}/asked\ncp {BUNDLE} "$last"\n'
    (tools / "aws").write_text(aws)
    (tools / "aws").chmod(0o755)
    root = tmp_path / "root"
    root.mkdir()

    def start(hook, *words):
        command = ["bash", str(hook), *words, "--root", str(root), "--deadline", "60", "--on-failure", "continue"]
        environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    return start


def test_hook_follows_pointer_to_bundle(run, tmp_path):
    words = [
        "--pointer",
        str(written.path("bundle/pointer")),
        "--public-key",
        written.text("bundle/public_key").strip(),
    ]
    code, output = run(HOOK, *words, "--roles", "nvme_raid0")
    assert (code, "ran " in output) == (7, True), output
    assert f"--bundle-sha256 {SUM}" in output
    assert "--roles nvme_raid0" in output
    assert f"--bucket example-bucket --key bundles/{BUNDLE.name}" in (tmp_path / "asked").read_text()
    # A floor of the signed pointer stays that of the node.
    assert (tmp_path / "root/var/lib/mlcluster/version_floor").read_text() == "1.0.0\n"


def test_hook_runs_bundle_of_file(run):
    code, output = run(HOOK, "--bundle", str(BUNDLE), "--sha256", SUM)
    assert (code, f"--bundle-sha256 {SUM}" in output) == (7, True), output


def test_earlier_hook_runs_current_bundle(run, tmp_path):
    """Users copy the hook to S3 once; later bundles have to work with it."""
    request = made.request(tmp_path / "request", compiled=False)
    checkout = tmp_path / "request" / "checkout"
    (checkout / build.ENTRY).write_bytes((ROOT / build.ENTRY).read_bytes())
    (checkout / build.RUNNER).write_text(RUNNER)
    bundle = build.build(request, archive.parse_target("debian-py3.11"))
    build.write(bundle, tmp_path / "bundles", False)
    hook = written.path("bundle/on_node_configured.sh")
    words = ["--bundle", str(tmp_path / "bundles" / bundle.file), "--sha256", bundle.sha256, "--best-effort"]
    words += ["--roles", "nvme_raid0:required,site.own.motd", "--node-type", "compute", "--phase", "build"]
    code, output = run(hook, *words, "--wait-for", "/fsx", "--wait-seconds", "9", "--vars", "{}")
    assert code == 7, output
    (printed,) = (line.removeprefix("ran ") for line in output.splitlines() if line.startswith("ran "))
    given = options.parse_options(printed.split())
    assert [(role.name, role.required) for role in given.roles] == [("nvme_raid0", True), ("site.own.motd", None)]
    assert (given.required, given.phase, given.node_type, given.on_failure) == (False, "build", "compute", "continue")
    assert ([str(path) for path in given.wait_for], given.wait_seconds) == (["/fsx"], 9)
    assert (given.root, given.sha256, given.source) == (tmp_path / "root", bundle.sha256, words[1])
    assert given.deadline_at - given.started_at == 60


def test_earlier_pointer_has_same_content():
    signature, text = pointer.read(written.path("bundle/pointer"))
    released = pointer.from_text(text)
    assert (released["schema"], released["version"], released["floor"]) == ("mlcluster.pointer/1", "1.2.3", "1.0.0")
    assert released["bundles"]["amazon-py3.12"] == {"url": f"s3://example-bucket/bundles/{BUNDLE.name}", "sha256": SUM}
    assert (pointer.to_text(released), len(signature) > 60) == (text, True)


def test_current_bundle_has_paths_of_recorded_bundle(tmp_path):
    """Hook and module ``node_bundle`` of either version read these paths; the runner comes with its bundle."""
    request = made.request(tmp_path / "request", compiled=False)
    bundle = build.build(request, archive.parse_target("debian-py3.11"))
    build.write(bundle, tmp_path, False)
    before, now = (places(file) for file in (BUNDLE, tmp_path / bundle.file))
    assert "mlcluster-bundle/bin/run-node" in before
    assert before <= now


def places(bundle):
    names = subprocess.run(["tar", "-tzf", bundle], capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in names if not (name.startswith("mlcluster-bundle/hooks/") and name.endswith(".py"))}
