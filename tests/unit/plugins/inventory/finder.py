# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let Ansible find this collection in the tests' process."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

COLLECTIONS = Path(__file__).resolve().parents[4] / ".collections"


def install() -> None:
    """Register the collection; call it before any import of ``ansible_collections``, for older ansible-core."""
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader([str(COLLECTIONS)])
