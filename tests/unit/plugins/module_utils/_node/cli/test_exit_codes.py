# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One exit code for a missing file: 3 for an input that the caller names, 2 for what the node itself should have.

docs/operations.md, "Exit codes", is the same for users.
"""

from __future__ import annotations

import io
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

from tests.unit.checkout import CHECKOUT

MISSING = "/nonexistent/file"
INPUTS = {
    "health": ("--expect", MISSING),
    "job": (MISSING,),
    "job-node": (MISSING,),
    "nccl-verdict": (MISSING,),
    "submit-training": (MISSING,),
}
MORE_INPUTS = (
    ("job", "--dry-run", MISSING),
    ("submit-training", "--dry-run", MISSING),
    ("nccl-verdict", "--counters-before", MISSING, "--counters-after", f"{MISSING}s", "-"),
    ("nccl-verdict", "--baseline", MISSING, "-"),
)
NODE_FILES = {
    "containers-boot": ("--config", MISSING),
    "containers-info": ("--config", MISSING),
    "heal": ("--config", MISSING),
    "lustre-data": ("state", MISSING),
    "lustre-info": ("--config", MISSING),
    "lustre-tune": ("--config", MISSING),
    "storage-boot": ("--config", MISSING),
    "storage-info": ("--config", MISSING),
}
# Verbs without a file that has to exist: they read none, write it, or report the files of the node as verdicts.
WITHOUT = {
    "accelerators", "checkpoints", "checks", "detached", "drain-marker", "efa", "efa-counters", "gds", "host-facts",
    "imex", "instance-notice", "job-exec", "job-label", "job-task", "job-verdict", "plan", "registry-credential",
    "scratch", "validate", "watch",
}  # fmt: skip


@pytest.fixture
def code_of(tmp_path, capsys, monkeypatch):
    """code_of(verb, *words) gives the exit code and the error output."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))

    def run(*words):
        code = cli.main(list(words), log_dir=str(tmp_path / "log"))
        return code, capsys.readouterr().err

    return run


def test_every_verb_is_listed_once():
    listed = [*INPUTS, *NODE_FILES, *WITHOUT]
    assert sorted(listed) == sorted(verb for verbs in cli.PARTS.values() for verb in verbs)


@pytest.mark.parametrize("words", [*((verb, *words) for verb, words in INPUTS.items()), *MORE_INPUTS], ids=" ".join)
def test_missing_input_is_usage(code_of, words):
    code, errors = code_of(*words)
    assert code == result.EXIT_USAGE and MISSING in errors


@pytest.mark.parametrize("verb", sorted(NODE_FILES))
def test_missing_file_of_node_is_undeterminable(code_of, verb):
    code, errors = code_of(verb, *NODE_FILES[verb])
    assert code == result.EXIT_UNDETERMINABLE and MISSING in errors


def test_documented_exceptions_are_verbs():
    page = (CHECKOUT / "docs/operations.md").read_text(encoding="utf-8")
    section = page.split("## Exit codes\n")[1].split("\n## ")[0]
    for code in ("0", "1", "2", "3"):
        assert f"\n| {code} | " in section
    verbs = {verb for verbs in cli.PARTS.values() for verb in verbs}
    assert set(re.findall(r"`mlcluster ([a-z-]+)", section)) <= verbs
