# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tasks of roles/plan with a real dnf, on what looks like Amazon Linux 2023."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.packages import parse_rpm, parse_versionlock
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Package, Plan

from tests.rig import controller
from tests.rig.dnf_root import DnfRoot
from tests.rig.mirror.server import Handler, Mirror

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a root of its own needs mounts, which root alone makes")
# Ansible's own facts have to report dnf as the package manager.
PLAYS = """\
- name: Carry out a plan
  hosts: all
  gather_facts: true
  gather_subset: ['!all', '!min', pkg_mgr]
  tasks:
    - name: Carry out its parts
      ansible.builtin.include_role:
        name: mlcluster.aws.{{ role }}
        tasks_from: "{{ part }}"
      loop: "{{ parts }}"
      loop_control: {loop_var: part}
"""
PYTHON = "/usr/bin/python3"
# Holds the lock that dnf's transactions take, until its input ends.
HOLDER = """
import sys, dnf.lock
with dnf.lock.build_rpmdb_lock("/var/lib/dnf", True):
    print("held", flush=True)
    sys.stdin.read()
"""


class Flaky(Mirror):
    """A mirror that fails for the first requests of a file; ``failures`` has their number by file name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.RequestHandlerClass = FlakyHandler
        self.failures: dict[str, int] = {}


class FlakyHandler(Handler):
    """Handles a request; a failure is status 503 for metadata and a lost connection for a package."""

    server: Flaky

    def do_GET(self) -> None:  # noqa: N802
        """Send the file, or fail while failures are left for it."""
        name = self.path.rpartition("/")[2]
        if not self.server.failures.get(name):
            super().do_GET()
            return
        self.server.failures[name] -= 1
        if name.endswith(".rpm"):
            self.connection.shutdown(2)
        else:
            self.send_error(503)


class Node(DnfRoot):
    """A root file system whose dnf uses the mirror, and the plays that run in it."""

    def __init__(self, folder: Path) -> None:
        self.mirror = Flaky(folder / "shared")
        threading.Thread(target=self.mirror.serve_forever, daemon=True).start()
        super().__init__(folder, self.mirror.url)
        (self.shared / "plays.yml").write_text(PLAYS, encoding="utf-8")

    def begin(self, role: str, *parts: str, **variables: object) -> subprocess.Popen[str]:
        """Start a play, without pauses between retries."""
        variables = {"__plan_delay": 0, **variables, "role": role, "parts": parts}
        variables["ansible_python_interpreter"] = PYTHON
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        command = [program, "-i", "n1,", "-c", "local", str(self.shared / "plays.yml"), "-e", json.dumps(variables)]
        return subprocess.Popen(
            self.command(command),
            env=controller.environment(self.shared, ANSIBLE_DISPLAY_SKIPPED_HOSTS="true", PYTHONUNBUFFERED="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def play(self, role: str, *parts: str, **variables: object) -> str:
        """Run a play and return its output as one line."""
        return " ".join(self.begin(role, *parts, **variables).communicate()[0].split())

    def carry_out(self, plan: Plan, *parts: str, **variables: object) -> str:
        """Run a play that carries out a plan, and return its output as one line."""
        return self.play("plan", *parts, plan_actions=plan.to_dict(), **variables)

    def packages(self, *names: str) -> dict[str, tuple[str, bool]]:
        """Return {name: (version, held)} of those of these packages that are installed."""
        listed = self.run("rpm", "-qa", "--qf", "%{NAME}\\t%{VERSION}-%{RELEASE}\\n")
        locked = parse_versionlock(self.run("cat", "/etc/dnf/plugins/versionlock.list"))
        return {
            name: (entry["version"], entry["held"])
            for name, entry in parse_rpm(listed, locked).items()
            if name in names
        }


@pytest.fixture(scope="module")
def node(tmp_path_factory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("dnf"))
    try:
        node.offer("fio-3.29-1", "fio-3.36-1", "iotop-0.6-1", "kmod-2-1", "kmod-3-1", "gdr-2-1", "late-1-1", "new-1-1")
        yield node
    finally:
        node.close()
        node.mirror.shutdown()
        node.mirror.server_close()


# The Molecule scenarios efa_nccl and fsx_lustre cover held packages and changed locks on a host like Rocky Linux 9.
@pytest.mark.slow
def test_role_installs_pinned_packages_once(node):
    wanted = {"slurm_jobs_node_packages": ["fio=3.29", "iotop"], "slurm_jobs_groups": []}
    # A real node has packages; a database without any counts as unreadable.
    node.run("dnf", "--assumeyes", "install", "kmod")
    first = node.play("slurm_jobs", "node_tools", **wanted)
    assert node.packages("fio", "iotop") == {"fio": ("3.29-1", False), "iotop": ("0.6-1", False)}, first
    again = node.play("slurm_jobs", "node_tools", **wanted)
    assert "changed=0 unreachable=0 failed=0" in again


@pytest.mark.slow
def test_held_package_stays_until_plan_changes_it(node):
    plan = Plan("role", packages=(Package("kmod", "2-1"),), hold=("kmod",))
    first = node.carry_out(plan, "packages", "hold")
    assert node.packages("kmod") == {"kmod": ("2-1", True)}, first
    node.run("dnf", "--assumeyes", "upgrade", "kmod")
    assert node.packages("kmod") == {"kmod": ("2-1", True)}
    plan = Plan("role", unhold=("kmod",), packages=(Package("kmod", "3-1"),), hold=("kmod",))
    second = node.carry_out(plan, "packages", "hold")
    assert node.packages("kmod") == {"kmod": ("3-1", True)}, second


def test_package_file_of_another_sha256_is_refused(node):
    file = node.shared / "rpms" / "gdr-2-1.noarch.rpm"
    right = hashlib.sha256(file.read_bytes()).hexdigest()
    for sha256, installed in (("0" * 64, {}), (right, {"gdr": ("2-1", False)})):
        package = Package("gdr", "2-1", url=f"{node.mirror.url}/rpms/{file.name}", sha256=sha256)
        output = node.carry_out(Plan("role", packages=(package,)), "packages")
        assert node.packages("gdr") == installed, output
        assert ("did not match" in output) is (not installed)


def test_errors_of_network_are_tried_again(node):
    node.run("dnf", "clean", "all")
    # dnf itself tries four times.
    node.mirror.failures = {"repomd.xml": 4, "late-1-1.noarch.rpm": 4}
    output = node.carry_out(Plan("role", packages=(Package("late"),)), "packages")
    assert node.packages("late") == {"late": ("1-1", False)}, output
    assert output.count("FAILED - RETRYING") == 2


def test_lock_of_another_process_is_waited_for(node):
    plan = Plan("role", packages=(Package("new"),))
    command = node.command([PYTHON, "-c", HOLDER])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        output = node.carry_out(plan, "packages", __plan_lock_seconds=0)
        assert "waited 0 s to change packages, and /var/lib/dnf/rpmdb_lock.pid is held by python3 (process" in output
        assert node.packages("new") == {}
        waiting = node.begin("plan", "packages", plan_actions=plan.to_dict())
        while "Wait for the package locks" not in waiting.stdout.readline():
            assert waiting.poll() is None
        holder.communicate()
    output = waiting.communicate()[0]
    assert node.packages("new") == {"new": ("1-1", False)}, output
