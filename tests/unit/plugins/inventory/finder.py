# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets Ansible find this collection in the process of the tests."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

COLLECTIONS = Path(__file__).resolve().parents[4] / ".collections"


def install() -> None:
    """To be called before anything imports ``ansible_collections``: older ansible-core takes over no earlier import."""
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader([str(COLLECTIONS)])
