# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands that the checks of the documentation reject, and those that pass."""

from __future__ import annotations

import pytest

from tests.docs_check import docs_commands, docs_markdown

BLOCK = "<!-- runs: {mark} -->\n```console\n$ {command}\n```\n"


def found_in(checkout, text, name="docs/x.md"):
    return [found.split(": ", 1)[1] for found in docs_commands.problems(name, docs_markdown.read(text), checkout)]


def block(command, mark="aws"):
    return BLOCK.format(mark=mark, command=command)


def test_output_lines_are_not_commands():
    text = "$ first --a \\\n    --b\nprinted \\\n$ second # why\n"
    assert docs_commands.command_lines(text) == ("first --a \\\n    --b", "second # why")


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("make setup && export PATH=x # once", [["make", "setup"], ["export", "PATH=x"]]),
        ("A=1 sudo mlcluster gds > out 2>&1; cat out", [["mlcluster", "gds"], ["cat", "out"]]),
        ("srun -N2 mlcluster efa | sort", [["mlcluster", "efa"], ["sort"]]),
        ('echo "a && b"', [["echo", "a && b"]]),
        ("one \\\n  two", [["one", "two"]]),
    ],
)
def test_line_is_split_like_in_shell(line, commands):
    assert docs_commands.simple_commands(line) == commands


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("ansible-playbook -i inventories/none site.yml", "there is no inventory inventories/none"),
        ("ansible-playbook -i INVENTORY playbooks/none.yml", "there is no playbook playbooks/none.yml"),
        ("ansible-playbook mlcluster.aws.none", "there is no playbook mlcluster.aws.none"),
        ("ansible-playbook site.yml -e nvme_raid0_sfae_mode=1", "nvme_raid0_sfae_mode is in no argument spec"),
        ("""ansible-playbook site.yml -e '{"no_such": 1}'""", "no_such is in no argument spec"),
        ("ansible-playbook site.yml -e '[1]'", "-e [1] is not a dictionary"),
        ("ansible-playbook site.yml --tags nvme_raid1", "nothing has the tag nvme_raid1"),
        ("ansible-inventory -i inventories/none --graph", "there is no inventory inventories/none"),
        ("ansible-navigator run playbooks/none.yml", "there is no playbook playbooks/none.yml"),
        ("make none", "the Makefile has no target none"),
        ("make molecule SCENARO=x", "the Makefile has no variable SCENARO"),
        ("make bundle BUNDLE='-e no_such=1'", "no_such is in no argument spec"),
        ("molecule test -s none", "there is no scenario none"),
        ("mlcluster none", "invalid choice"),
        ("mlcluster health --profile none", "invalid choice"),
        ("python3 -m mlcluster_data none", "mlcluster_data has no command none"),
        ("python3 -m mlcluster_data train --none", "there is no option --none"),
        ("python3 -m tests.none", "there is no module tests.none"),
        (".venv/bin/python -m pytest tests/none", "there is no tests/none"),
        ("aws s3 cp hooks/none.sh s3://b/", "there is no hooks/none.sh"),
        ("on_node_configured.sh --bundel x", "there is no option --bundel"),
        ("echo 'a", "no shell understands"),
    ],
)
def test_wrong_command_is_named(checkout, command, problem):
    (found,) = found_in(checkout, block(command))
    assert problem in found


@pytest.mark.parametrize(
    "command",
    [
        "ansible-playbook -i INVENTORY site.yml --limit NODE -e nvme_raid0_safe_mode=false -e @mine.yml --check --diff",
        "ansible-playbook -i h1,h2 mlcluster.aws.site --tags nvme_raid0,efa_nccl_verify -e MINE=1 -e ansible_user=x",
        "ansible-inventory -i inventories/parallelcluster -e cluster=train --graph",
        "make molecule SCENARIO=NAME PYTHON=python3.12 && make test",
        "mlcluster nccl-verdict FILE --ranks RANKS --nodes NODES",
        "sudo mlcluster health --profile full --json",
        "aws s3 cp hooks/on_node_configured.sh s3://BUCKET/mlcluster/",
        "/fsx/mlcluster/jobs/nccl.sbatch",
        "MY_PROGRAM --what",
    ],
)
def test_possible_command_passes(checkout, command):
    assert found_in(checkout, block(command)) == []


def test_file_shown_by_page_exists(checkout):
    shown = "```yaml\n# mine.ec2_nodes.yml: your own\nplugin: mlcluster.aws.ec2_nodes\n```\n\n"
    command = block("ansible-playbook -i mine.ec2_nodes.yml site.yml")
    assert found_in(checkout, shown + command) == []
    assert found_in(checkout, command) != []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```console\n$ make test\n```\n", "mark where it runs"),
        ("```bash\ntrue\n```\n", "mark where it runs"),
        (block("make test", "nowhere"), "nowhere is not a mark"),
        (block("pip install x", "make"), "pip is not make"),
        (block("make SCENARIO=NAME", "here"), "cannot run here"),
        (block("make test", "tests/unit/none.py"), "there is no test tests/unit/none.py"),
        (block("make test", "tests/unit/docs_check/test_docs.py::test_none"), "has no test_none"),
        ("<!-- runs: aws -->\n```console\nonly printed\n```\n", "a console block without a line that begins with '$ '"),
        ("<!-- runs: aws -->\n\ntext\n\n```console\n$ make test\n```\n", "mark where it runs"),
    ],
)
def test_block_needs_valid_mark(checkout, text, problem):
    (found,) = found_in(checkout, text)
    assert problem in found


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("make none", "the Makefile has no target none"),
        ("sudo mlcluster storage-inf", "mlcluster has no verb storage-inf"),
        ("mlcluster health --profil", "mlcluster health has no option --profil"),
        ("ansible-playbook site.yml -e no_such=1", "no_such is in no argument spec"),
    ],
)
def test_command_within_sentence_is_judged(checkout, code, problem):
    (found,) = found_in(checkout, f"Run `{code}` there.\n")
    assert problem in found


@pytest.mark.parametrize(
    "code",
    [
        "make",
        "mlcluster",
        "mlcluster nccl-verdict --ranks",
        "mlcluster health: its output",
        "mlcluster VERB",
        "ls none",
    ],
)
def test_names_and_parts_of_commands_in_sentence_pass(checkout, code):
    assert found_in(checkout, f"Run `{code}` there.\n") == []


def test_script_is_judged_by_its_known_commands(checkout):
    script = "<!-- runs: slurm -->\n```bash\n#!/bin/bash\n# make none\n{line}\nwhile true; do\n  odd 'a\ndone\n```\n"
    assert found_in(checkout, script.format(line="srun python3 -m mlcluster_data train \\\n  --batch-size 8")) == []
    (found,) = found_in(checkout, script.format(line="srun python3 -m mlcluster_data train \\\n  --batch-sizes 8"))
    assert "there is no option --batch-sizes" in found
