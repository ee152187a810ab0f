# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of roles and playbooks, and strings of tests, with templates that every supported ansible-core evaluates.

Since 2.19, ansible-core evaluates only strings that are marked as trusted; earlier versions have no such mark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader

try:
    from ansible.template import trust_as_template as _trust
except ImportError:
    # ansible-core before 2.19 has no mark.
    _trust = str
    _MARK: dict[str, Any] = {}
else:
    _MARK = {"trusted_as_template": True}


def trusted(value: str) -> str:
    """Return the string, marked as a trusted template."""
    return _trust(value)


def load(path: str | Path) -> Any:
    """Return the data of a YAML file with strings marked as trusted, as Ansible does for playbook content."""
    return DataLoader().load_from_file(str(path), **_MARK)
