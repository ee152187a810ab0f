# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands of the documentation that can run here are run, in a copy of the checkout; playbooks are parsed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from plugins.plugin_utils import _runtime
from tests.tools import docs_commands, docs_markdown, docs_programs, house_rules

ROOT = Path(__file__).parents[3]
BLOCKS = [
    block
    for name in docs_commands.pages(ROOT)
    for block in docs_commands.blocks(name, docs_markdown.read_file(ROOT / name))
]
HERE = [block for block in BLOCKS if block.mark == "here"]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of what git has, with the environments and the collections of the checkout."""
    place = tmp_path_factory.mktemp("copy") / "mlcluster.aws"
    for name in house_rules.tracked_files(ROOT):
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    for name in (".venv", ".venv-lint", ".collections"):
        (place / name).symlink_to(ROOT / name)
    return place


@pytest.fixture(scope="module")
def environment(copy):
    """No account, no home but an empty one; mlcluster as a node has it."""
    home = copy.parent / "home"
    programs = home / "bin"
    programs.mkdir(parents=True)
    (programs / "mlcluster").write_bytes(_runtime.archive(ROOT, _runtime.collection_version(ROOT)))
    (programs / "mlcluster").chmod(0o755)
    search = [str(copy / ".venv" / "bin"), str(programs), os.environ.get("PATH", os.defpath)]
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join(search),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_NOCOLOR": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.mark.parametrize("block", HERE, ids=[f"{block.page}:{block.line}" for block in HERE])
def test_a_command_that_runs_here_ends_well(block, copy, environment):
    for line in block.lines:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_every_playbook_that_is_named_parses(copy, environment):
    checkout = docs_programs.Checkout(ROOT)
    named = set()
    for block in BLOCKS:
        for line in block.lines:
            for words in docs_commands.simple_commands(line):
                if docs_commands.program(words[0]) in ("ansible-playbook", "ansible-navigator"):
                    named |= {path for path in map(checkout.playbook, words[1:]) if path and path.endswith(".yml")}
    assert "playbooks/site.yml" in named or "site.yml" in named
    command = ["ansible-playbook", "--syntax-check", "-i", "localhost,", *sorted(named)]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
