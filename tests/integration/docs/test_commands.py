# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the documentation's commands in a copy of the checkout, as far as they can run here.

Of commands that need AWS, playbooks are parsed, inventories are read from a stand-in for EC2, and the hosts of plays
are listed over these inventories.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from plugins.plugin_utils import _runtime
from tests.build import house_rules
from tests.docs_check import docs_commands, docs_markdown, docs_programs
from tests.rig.ec2 import Endpoint, Fleet, Region, Scenario

ROOT = Path(__file__).parents[3]
PAGES = {name: docs_markdown.read_file(ROOT / name) for name in docs_commands.pages(ROOT)}
BLOCKS = [block for name, page in PAGES.items() for block in docs_commands.blocks(name, page)]
HERE = [block for block in BLOCKS if block.mark == "here"]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a copy of the tracked files, with the environments and the collections of the checkout."""
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
    """Return an environment without AWS credentials, with an empty home and with the program mlcluster in PATH."""
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
def test_command_succeeds(block, copy, environment):
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


@pytest.fixture(scope="module")
def account(environment):
    """Yield the environment of a user whose account has a cluster called train, tagged as the examples expect it."""
    head = Fleet(cluster="train", role="HeadNode", type="c6i.4xlarge", public=True, tags={"Cluster": "training"})
    nodes = Fleet(count=2, cluster="train", queue="gpu", compute_resource="p5", tags={"Cluster": "training"})
    with Endpoint(Scenario(regions=(Region("us-east-1", (head, nodes)),))) as endpoint:
        endpoint.prepare()
        yield {**environment, **endpoint.environment(), "AWS_REGION": "us-east-1"}


def run(words, copy, environment):
    """Run a command in the copy and return its output."""
    done = subprocess.run(
        words, cwd=copy, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def named(*programs):
    """Yield the argument list of every command of these programs in a block."""
    for block in BLOCKS:
        for line in block.lines if block.language == "console" else ():
            for words in docs_commands.simple_commands(line):
                if docs_commands.program(words[0]) in programs:
                    yield words


def inventory_options(words):
    """Return the inventory of a command, and its ``-e cluster=`` if it has one."""
    pairs = list(zip(words, words[1:], strict=False))
    sources = [after for before, after in pairs if before in ("-i", "--inventory")]
    return (*sources, *(after for before, after in pairs if before == "-e" and after.startswith("cluster=")))


def test_every_named_playbook_parses(copy, environment):
    checkout = docs_programs.Checkout(ROOT)
    words = [word for command in named("ansible-playbook", "ansible-navigator") for word in command[1:]]
    playbooks = {path for path in map(checkout.playbook, words) if path and path.endswith(".yml")}
    assert {"site.yml", "playbooks/check_nodes.yml"} <= playbooks
    run(["ansible-playbook", "--syntax-check", "-i", "localhost,", *sorted(playbooks)], copy, environment)


def test_every_named_inventory_finds_its_nodes(copy, account):
    for page in PAGES.values():
        for block in page.blocks:
            for name in docs_commands.SHOWN.findall(block.text):
                if name.endswith("ec2_nodes.yml"):
                    (copy / name).write_text(block.text, encoding="utf-8")
    commands = {tuple(words) for words in named("ansible-inventory") if not any(map(docs_programs.is_own, words))}
    assert len(commands) >= 3
    for words in sorted(commands):
        output = run(list(words), copy, account)
        assert "@compute:" in output and "@gpu:" in output, f"{' '.join(words)}\n{output}"


def test_every_play_lists_hosts_of_example_inventories(copy, account):
    checkout = docs_programs.Checkout(ROOT)
    playbooks: dict[tuple[str, ...], set[str]] = {}
    for words in named("ansible-playbook"):
        options = inventory_options(words)
        if options and options[0] in checkout.files:
            paths = {path for path in map(checkout.playbook, words) if path and path.endswith(".yml")}
            playbooks.setdefault((options[0], *options[1:2]), set()).update(paths)
    assert {"inventories/ec2", "inventories/parallelcluster", "inventories/cluster"} <= {key[0] for key in playbooks}
    for (source, *cluster), paths in sorted(playbooks.items()):
        extra = ["-e", "cluster=train"] if cluster else []
        run(["ansible-playbook", "-i", source, *extra, "--list-hosts", *sorted(paths)], copy, account)
