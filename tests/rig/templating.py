# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of roles and playbooks, and text of tests, with expressions that every supported ansible-core evaluates.

From 2.19 on, ansible-core evaluates only text that is marked as trusted; before, it knows no such mark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader

try:
    from ansible.template import trust_as_template as _trust
except ImportError:
    # Before 2.19 there is no mark.
    _trust = str
    _MARK: dict[str, Any] = {}
else:
    _MARK = {"trusted_as_template": True}


def trusted(value: str) -> str:
    """Return the text, marked as one that may be evaluated."""
    return _trust(value)


def load(path: str | Path) -> Any:
    """Return the data of a YAML file, its expressions marked as templates as Ansible does for playbook content."""
    return DataLoader().load_from_file(str(path), **_MARK)
