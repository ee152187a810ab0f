# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of what every list of directories takes: Ansible joins the options of fragments, not suboptions."""

from __future__ import annotations

_OWNERSHIP = """\
      owner:
        description: Owner.
        type: str
        default: root
      group:
        description: Group.
        type: str
        default: root
      mode:
        description: Mode, octal, in quotes. World-writable only together with the sticky bit.
        type: str
        default: "{mode}"
"""


def ownership(mode: str) -> str:
    """The suboptions owner, group and mode, indented for an option's suboptions; mode is its default."""
    return _OWNERSHIP.format(mode=mode)
