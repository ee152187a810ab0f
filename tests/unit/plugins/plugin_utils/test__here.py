# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tasks that need no process besides Ansible's own."""

from __future__ import annotations

import sys
import types

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._here import is_here


@pytest.mark.parametrize(
    ("transport", "become", "python", "here"),
    [
        ("local", None, sys.executable, True),
        ("ansible.builtin.local", None, sys.executable, True),
        ("ssh", None, sys.executable, False),
        ("local", object(), sys.executable, False),
        ("local", None, "/usr/bin/python3", False),
        ("local", None, None, False),
    ],
)
def test_only_this_machine_and_this_python_are_here(transport, become, python, here):
    connection = types.SimpleNamespace(transport=transport, become=become)
    task = types.SimpleNamespace(environment=[None, {}])
    assert is_here(connection, task, {"ansible_python_interpreter": python}) is here
    # It applies to a module's process.
    task.environment.append({"http_proxy": "http://proxy:3128"})
    assert is_here(connection, task, {"ansible_python_interpreter": python}) is False
