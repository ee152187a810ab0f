# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers of modules that failed, as ansible-core 2.17, 2.19 and 2.21 gave them for one that raised."""

from __future__ import annotations

import types

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.module_error import module_error

TRACEBACK = """Traceback (most recent call last):
  File "AnsiballZ_boom.py", line 107, in <module>
    _ansiballz_main()
ValueError: the look found
two lines
"""
FAILURE = "MODULE FAILURE\nSee stdout/stderr for the exact error"
CAPTURED = types.SimpleNamespace(event=types.SimpleNamespace(msg="the look found\ntwo lines", formatted_traceback=None))

# Since 2.19, of a module whose output is no answer.
UNREADABLE = "Module result deserialization failed: No start of json char found"
NOT_PARSED = types.SimpleNamespace(
    event=types.SimpleNamespace(msg="Module result deserialization failed.", formatted_traceback=None)
)
START = "pyenv: python3.13: command not found"
SHIM = f"{START}\n\nNote: See help\n      for tips.\n"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"msg": "no such\nfile"}, "no such file"),
        ({"msg": "no such file", "exception": CAPTURED}, "no such file"),
        ({"exception": CAPTURED}, "the look found two lines"),
        ({"msg": FAILURE, "module_stderr": TRACEBACK}, "ValueError: the look found two lines"),
        ({"msg": FAILURE, "module_stderr": "", "exception": TRACEBACK}, "ValueError: the look found two lines"),
        ({"msg": FAILURE, "module_stderr": "/bin/sh: 1: python3: not found\n"}, "/bin/sh: 1: python3: not found"),
        ({"msg": FAILURE, "module_stdout": "sudo: a password is required"}, "sudo: a password is required"),
        ({"msg": FAILURE}, "MODULE FAILURE See stdout/stderr for the exact error"),
        ({"msg": UNREADABLE, "exception": NOT_PARSED, "module_stderr": SHIM}, f"{START} Note: See help for tips."),
        ({"msg": UNREADABLE, "exception": NOT_PARSED, "module_stdout": "Killed"}, "Killed"),
        ({"msg": UNREADABLE, "exception": NOT_PARSED, "module_stderr": ""}, UNREADABLE),
        ({"exception": "(traceback unavailable)"}, "(traceback unavailable)"),
        ({}, "the module ended without error output"),
    ],
)
def test_error_of_failed_module_is_one_line(answer, error):
    assert module_error(answer) == error
