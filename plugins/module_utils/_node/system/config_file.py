# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON files with the configuration that roles write on a node, for programs that run there without Ansible."""

from __future__ import annotations

import json
import typing as t

from .host import Host, NodeError


def read_config(host: Host, path: str, role: str) -> t.Any:
    """Return the content of a file, of any JSON type. Raises ``NodeError`` that names the role that writes it."""
    text = host.read_text(path)
    if text is None:
        raise NodeError(f"looked for {path} and did not find it: run the role {role} on this node first")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise NodeError(f"{path} is not valid JSON ({exc}): run the role {role} again to write it") from None


def is_configured(host: Host, path: str) -> bool:
    """Return whether a role wrote this file of its settings. Raises ``NodeError`` if it exists and is unreadable."""
    if host.read_text(path) is not None:
        return True
    if host.exists(path):
        raise NodeError(f"{path} is there and could not be read: run as root, and check that it is a plain file")
    return False
