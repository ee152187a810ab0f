# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The workflows of a code host; ``make lint`` holds them against its schema."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.unit.checkout import CHECKOUT

FILES = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def steps():
    for path in FILES:
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            yield from job["steps"]


def test_each_command_is_target_of_makefile():
    commands = [step["run"] for step in steps() if "run" in step]
    assert {command.split()[1] for command in commands} == {"lint", "unit", "sanity"}
    for command in commands:
        word, target, *options = command.split(maxsplit=2)
        assert (word, target in TARGETS) == ("make", True), command
        assert "\n" not in command and all(option.startswith("CORE=") for option in options), command


def test_actions_of_others_are_held_at_commit():
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used and all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", name) for name in used), used


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_workflow_may_only_read(path):
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert document["permissions"] == {"contents": "read"}
    assert not [name for name, job in document["jobs"].items() if "permissions" in job]
    assert "secrets." not in path.read_text(encoding="utf-8")


def test_sanity_runs_on_three_cores_that_matrix_locks():
    (job,) = [
        job
        for path in FILES
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()
        if name == "sanity"
    ]
    cores = job["strategy"]["matrix"]["core"]
    assert len(cores) == 3
    assert all((CHECKOUT / "requirements" / f"matrix-{core}.txt").exists() for core in cores)
