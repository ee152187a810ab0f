# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shipped example, inventories/cluster, as the role's settings."""

from __future__ import annotations

from typing import Any

import yaml

from tests.integration.cluster.conftest import ROOT

# Placeholders of the example, and values of a user.
OWN = {
    "0" * 64: "3f" * 32,
    "cr-0123456789abcdef0": "cr-0e4b1c9a72d35f806",
    "203.0.113.0/24": "10.9.0.0/16",
}


def own() -> dict[str, Any]:
    """Return the shipped example's variables with own values instead of placeholders."""
    text = (ROOT / "inventories/cluster/group_vars/all.yml").read_text(encoding="utf-8")
    for placeholder, value in OWN.items():
        assert placeholder in text
        text = text.replace(placeholder, value)
    return yaml.safe_load(text)


def settings() -> dict[str, Any]:
    """Return the example's variables over the role's defaults, without the prefix, as vars/main.yml names them."""
    values: dict[str, Any] = {}
    for path in ("roles/cluster/defaults/main.yml", "inventories/cluster/group_vars/all.yml"):
        values.update(yaml.safe_load((ROOT / path).read_text(encoding="utf-8")))
    plain = {name.removeprefix("cluster_"): value for name, value in values.items()}
    return {**plain, "head_ssh_cidr": plain["ssh_cidrs"][0]}
