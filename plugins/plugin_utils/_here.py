# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the node of a task is the machine, and its Python the Python, that Ansible itself runs on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ansible import constants


def is_here(connection: Any, task: Any, variables: Mapping[str, Any]) -> bool:
    """Return whether a module would run with this Python on this machine, so that nothing has to be sent."""
    python = variables.get("ansible_python_interpreter") or constants.config.get_config_value("INTERPRETER_PYTHON")
    # The keyword environment sets variables for a module's process.
    is_other = bool(connection.become is not None or any(task.environment or []))
    return bool(connection.transport.rpartition(".")[2] == "local" and python == sys.executable and not is_other)
