# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks with invalid variables: the messages that they end with before they contact a node or AWS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rig import controller

HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}


@pytest.fixture
def run_playbook(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Return ``run_playbook(playbook, groups, *options, **variables)``, which returns exit status and output.

    ``groups`` is {group: {host: variables}}; every host is this machine. The run is in check mode unless ``check`` is
    False. ``display`` is the stdout callback. The output is one line: all white space is single blanks.
    """

    def run(
        playbook: str | Path,
        groups: dict[str, dict[str, Any]],
        *options: str,
        check: bool = True,
        display: str = "ansible.builtin.default",
        **variables: Any,
    ) -> tuple[int, str]:
        children = {name: {"hosts": hosts} for name, hosts in groups.items()}
        inventory = tmp_path / "inventory.json"
        inventory.write_text(json.dumps({"all": {"vars": HERE, "children": children}}), encoding="utf-8")
        argv = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, playbook, *options]
        argv += ["--check"] if check else []
        environment = controller.environment(
            tmp_path,
            PATH=f"{tmp_path}:{os.defpath}",
            ANSIBLE_STDOUT_CALLBACK=display,
            # No credentials of this machine, and no wait for any.
            AWS_EC2_METADATA_DISABLED="true",
        )
        done = subprocess.run(
            [*argv, "-e", json.dumps(variables)],
            cwd=controller.ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run
