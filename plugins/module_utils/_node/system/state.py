# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""State of roles on a node, as JSON."""

from __future__ import annotations

import json
import typing as t

from .host import Host, NodeError

STATE_DIRECTORY = "/var/lib/mlcluster"


def write_json(host: Host, path: str, document: t.Mapping[str, t.Any]) -> None:
    """Write a JSON file atomically, readable for all users. Raises ``NodeError`` if it cannot be written."""
    try:
        host.write_text(path, json.dumps(document, indent=2, sort_keys=True) + "\n", 0o644)
    except OSError as exc:
        raise NodeError(f"could not write {path} ({exc.strerror or exc}): look with 'df' and 'mount'") from exc
