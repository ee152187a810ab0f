# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook preflight over nodes that are this machine, and over one that does not answer."""

from __future__ import annotations

import json

PLAYBOOK = "playbooks/preflight.yml"
GOOD = {"head": {"h1": {}}, "compute": {"n1": {}}}
LOST = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


def test_ready_nodes_pass(run_playbook, tmp_path):
    report = tmp_path / "report.json"
    status, output = run_playbook(PLAYBOOK, GOOD, preflight_report=str(report))
    assert status == 0, output
    for line in (
        "PASS preflight.controller: ansible-core",
        "PASS preflight.inventory: 2 nodes: compute 1, head 1",
        "PASS preflight.names:",
        "PASS preflight.ssh: 2 nodes: a shell answered",
        "PASS preflight.sudo: 2 nodes: the user becomes root",
        "PASS preflight.python: 2 nodes: Python 3.9 or newer is there",
        "n/a preflight.credentials: no playbook that asks AWS",
    ):
        assert line in output, f"{line}: {output}"
    # Check mode writes nothing.
    assert not report.exists()


def test_all_findings_are_reported_at_once(run_playbook):
    groups = {
        "compute": {"n1": {}, "n2": LOST},
        "gpu": {"n1": {"nvidia_gds_mode": "nvsf", "efa_nccl_hlod": True}},
        "efa": {"n1": {"ec2_instance_type": "p99.huge"}},
        "heads": {"h1": {}},
    }
    status, output = run_playbook(PLAYBOOK, groups)
    assert status == 2, output
    for line in (
        "???? preflight.inventory: nothing is known about the instance type p99.huge",
        "FAIL preflight.names: the inventory has no group head, but one called heads",
        "FAIL preflight.names: no role reads the variable efa_nccl_hlod (of n1); did you mean efa_nccl_hold?",
        "FAIL preflight.variables: value of nvidia_gds_mode must be one of: compat, nvfs, p2pdma, got: nvsf (n1)",
        "FAIL preflight.artifacts: the sha256 of aws-efa-installer",
        "FAIL preflight.ssh: 1 node (n2): no shell answered",
        "???? preflight.sudo: 1 node not checked, since the step before failed",
        "???? preflight.python: 1 node not checked, since the step before failed",
        "not ready: 8 of 11 checks, above",
    ):
        assert line in output, f"{line}: {output}"


def test_no_host_and_unknown_playbook_are_refused(run_playbook):
    status, output = run_playbook(PLAYBOOK, {"web": {"w1": {}}})
    assert status == 2, output
    assert "FAIL preflight.inventory: none of the groups instance_store, efa, gpu, compute, login, head has" in output
    assert "the inventory has web" in output
    status, output = run_playbook(PLAYBOOK, GOOD, preflight_playbooks=["create_claster"])
    assert status == 2 and "preflight_playbooks has create_claster: those that ask AWS are build_bundle" in output


def test_report_is_written_outside_of_check_mode(run_playbook, tmp_path):
    report = tmp_path / "report.json"
    status, output = run_playbook(PLAYBOOK, GOOD, check=False, preflight_report=str(report))
    assert status == 0, output
    document = json.loads(report.read_text(encoding="utf-8"))
    assert document["schema"] == "mlcluster.report/1"
    assert {entry["id"] for entry in document["results"]} >= {"preflight.controller", "preflight.python"}
    assert report.stat().st_mode & 0o777 == 0o600


# podman exec runs a program, not a line of a shell.
PODMAN = """#!/bin/sh
[ "$1" = exec ] && [ "$2" = n1 ] || { echo "podman: unknown: $*" >&2; exit 125; }
shift 2
exec "$@"
"""
CONTAINER = {"ansible_connection": "containers.podman.podman", "ansible_become": False}


def program(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def test_connection_without_shell_passes(run_playbook, tmp_path):
    program(tmp_path / "podman", PODMAN)
    status, output = run_playbook(PLAYBOOK, {"compute": {"n1": {**CONTAINER, "ansible_host": "n1"}}})
    assert status == 0 and "PASS preflight.python: 1 node: Python 3.9 or newer is there" in output, output


def test_python_that_does_not_start_is_named(run_playbook, tmp_path):
    shim = tmp_path / "python3.13"
    program(shim, "#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n")
    status, output = run_playbook(PLAYBOOK, {"compute": {"n1": {"ansible_python_interpreter": "auto"}}})
    assert status == 2 and f"FAIL preflight.python: 1 node (n1): {shim} does not start" in output, output
