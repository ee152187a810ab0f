# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback cluster_progress in real runs of ansible-playbook, on a terminal and without one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parents[3]
PLAYS = [
    {
        "name": "Prove it",
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {"name": "Change something", "ansible.builtin.command": "true"},
            {"name": "Show something", "ansible.builtin.debug": {"msg": ["the page is", "report.html"]}},
            {
                "name": "Show more",
                "ansible.builtin.debug": {"msg": "item {{ item }}"},
                "loop": [1, 2, 3],
                "when": "item != 2",
            },
            {"name": "Show a variable", "vars": {"paths": ["/fsx"]}, "ansible.builtin.debug": {"var": "paths"}},
            {"name": "Break", "ansible.builtin.command": "false", "when": "inventory_hostname == 'n2'"},
        ],
    },
    {"name": "No host", "hosts": "nothing", "gather_facts": False, "tasks": []},
]


@pytest.fixture
def command(tmp_path, monkeypatch):
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts = {"n1": here, "n2": here, "n3": here, "lost": lost}
    (tmp_path / "nodes.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}), encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump(PLAYS), encoding="utf-8")
    (tmp_path / "ansible.cfg").write_text(
        "[defaults]\nstdout_callback = mlcluster.aws.cluster_progress\nnocolor = true\n"
        f"collections_path = {CHECKOUT / '.collections'}\n",
        encoding="utf-8",
    )
    monkeypatch.delenv("ANSIBLE_STDOUT_CALLBACK", raising=False)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    monkeypatch.setenv("COLUMNS", "100")
    return [CHECKOUT / ".venv/bin/ansible-playbook", "-i", tmp_path / "nodes.yml", tmp_path / "play.yml"]


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_output_without_terminal_is_plain_lines(command, strategy, monkeypatch):
    monkeypatch.setenv("ANSIBLE_STRATEGY", strategy)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    lines = done.stdout.splitlines()
    assert lines[0] == "== Prove it"
    assert "UNREACHABLE lost | Change something" in lines
    assert lines.count("   the page is") == 1 and lines.count("   report.html") == 1
    assert [line for line in lines if line.startswith("   item ")] == ["   item 1", "   item 3"]
    assert lines.count('   paths: ["/fsx"]') == 1
    at = lines.index("FAILED n2 | Break")
    assert lines[at + 1] == "    the command ended with 1"
    assert "== No host" in lines and "   no node is in its groups" in lines
    assert lines[-1].startswith("2 of 4 nodes FAILED: lost, n2; 3 changed; ")
    assert "\x1b" not in done.stdout and "\r" not in done.stdout
    assert len(lines) < 19, done.stdout


def test_terminal_has_one_updated_line(command):
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as run:
        os.close(slave)
        shown = b""
        # Reading from a terminal whose other end is closed is an error.
        try:
            while data := os.read(master, 65536):
                shown += data
        except OSError:
            pass
        run.wait()
    os.close(master)
    text = shown.decode()
    assert "other tasks: Change something (" in text
    lines = [line.rsplit("\x1b[K", 1)[-1].rstrip("\r") for line in text.split("\n")]
    assert "FAILED n2 | Break" in lines
    assert [line for line in lines if line][-1].startswith("2 of 4 nodes FAILED: lost, n2; 3 changed; ")


MANY = [
    {
        "name": "Forty nodes",
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            # A skipped task starts no process.
            {"name": "Reach it", "ansible.builtin.raw": "true", "when": "inventory_hostname in groups['lost']"},
            {"name": "Show it", "ansible.builtin.debug": {"msg": "the same of all"}},
            {"name": "Change it", "ansible.builtin.set_fact": {"x": 1}, "changed_when": True},
            {
                "name": "Break it",
                "ansible.builtin.fail": {"msg": "disk {{ inventory_hostname }}\nis \x1b[31mgone"},
                "when": "inventory_hostname in groups['broken']",
            },
        ],
    }
]


@pytest.fixture
def forty(command, tmp_path):
    lost = {f"n{number}": {"ansible_connection": "ssh", "ansible_port": 1} for number in range(38, 41)}
    names = [f"n{number}" for number in range(1, 41)]
    groups = {
        "all": {"hosts": {name: {"ansible_host": "127.0.0.1"} for name in names}},
        "lost": {"hosts": lost},
        "broken": {"hosts": dict.fromkeys(names[:7])},
    }
    (tmp_path / "nodes.yml").write_text(yaml.safe_dump(groups), encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump(MANY), encoding="utf-8")
    return command


@pytest.mark.parametrize(
    ("options", "most"),
    [((), 45), pytest.param(("-v",), 90, marks=pytest.mark.slow), pytest.param(("-vv",), 130, marks=pytest.mark.slow)],
)
def test_forty_nodes_with_failures_are_summarized(forty, options, most):
    done = subprocess.run([*forty, *options], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    lines = done.stdout.splitlines()
    assert lines.count("== Forty nodes") == 1
    # The order of the nodes depends on the load.
    assert sorted(line for line in lines if line.startswith("UNREACHABLE")) == [
        f"UNREACHABLE n{number} | Reach it" for number in range(38, 41)
    ]
    assert sorted(line for line in lines if line.startswith("FAILED")) == [
        f"FAILED n{number} | Break it" for number in range(1, 8)
    ]
    # Node output cannot colour the terminal, and is complete.
    assert lines.count("   the same of all") == 1 and "\x1b" not in done.stdout
    assert "    disk n7" in lines
    role = next(line for line in lines if line.startswith("other tasks"))
    assert "40 nodes, 37 changed, 10 FAILED (n1, n2, n3, n38, n39 and 5 more)" in role
    assert lines[-1].startswith("10 of 40 nodes FAILED: n1, n2, n3, n38, n39 and 5 more; 37 changed; ")
    assert sum(line.startswith("   changed ") for line in lines) == (37 if options else 0)
    assert any(line.startswith("   ok ") for line in lines) is (options == ("-vv",))
    assert len(lines) < most, done.stdout
