# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts gathered in the process of the task, and the conditions for it."""

from __future__ import annotations

import platform
import sys

import pytest
from ansible.errors import AnsibleActionFail
from ansible.module_utils import basic
from ansible.modules import setup
from ansible_collections.mlcluster.aws.plugins.action import node_facts


@pytest.fixture(autouse=True)
def arguments_of_modules(monkeypatch):
    """Restore the state that the action changes in its process, which is the test suite's here."""
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", None)
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", None, raising=False)


def test_facts_equal_those_of_setup():
    facts = node_facts.gather(["!all", "!min", "platform", "python"])["ansible_facts"]
    assert facts["ansible_kernel"] == platform.release()
    assert facts["ansible_python"]["executable"] == sys.executable


def test_invalid_answer_is_reported(monkeypatch):
    monkeypatch.setattr(setup, "main", lambda: print("Traceback"))
    with pytest.raises(AnsibleActionFail, match=r"setup gave no facts but 'Traceback"):
        node_facts.gather(["min"])
