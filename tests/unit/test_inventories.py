# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
import yaml

from plugins.module_utils._data import instance_types

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "inventories"


def role_defaults():
    text = (ROOT / "roles" / "nvme_raid0" / "defaults" / "main.yml").read_text()
    return set(yaml.safe_load(text))


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("*/group_vars/*.yml")), ids=lambda path: str(path.parent.parent.name)
)
def test_examples_set_only_variables_that_exist(path):
    names = set(yaml.safe_load(path.read_text()) or {})
    assert {name for name in names if not name.startswith("ansible_")} <= role_defaults()


def test_the_parallelcluster_example_is_an_inventory():
    command = [
        str(Path(sys.executable).parent / "ansible-inventory"),
        "-i",
        str(EXAMPLES / "parallelcluster"),
        "--list",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    listed = json.loads(done.stdout)
    assert len(listed["instance_store"]["hosts"]) == 80
    assert listed["_meta"]["hostvars"]["train-dy-p5-80"]["nvme_raid0_existing"] == "adopt"


def matches(expression, instance_type):
    environment = jinja2.Environment(autoescape=True)
    environment.tests["match"] = lambda value, pattern: re.match(pattern, value) is not None
    return environment.compile_expression(expression)(instance_type=instance_type)


def test_the_ec2_example_groups_every_accelerated_type_with_local_disks():
    expression = yaml.safe_load((EXAMPLES / "ec2" / "aws_ec2.yml").read_text())["groups"]["instance_store"]
    for name in instance_types.names():
        facts = instance_types.lookup(name)
        disks = facts["instance_store"]["count"]
        if facts["accelerators"] and disks:
            assert matches(expression, name), name
        if matches(expression, name):
            assert disks, name
    assert not matches(expression, "m5.large")
