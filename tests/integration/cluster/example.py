# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shipped example, inventories/cluster, as the settings that the role makes of it."""

from __future__ import annotations

from typing import Any

import yaml

from tests.integration.cluster.conftest import ROOT


def settings() -> dict[str, Any]:
    """The role's defaults under the example's variables, without the prefix, as vars/main.yml names them."""
    values: dict[str, Any] = {}
    for path in ("roles/cluster/defaults/main.yml", "inventories/cluster/group_vars/all.yml"):
        values.update(yaml.safe_load((ROOT / path).read_text(encoding="utf-8")))
    plain = {name.removeprefix("cluster_"): value for name, value in values.items()}
    return {**plain, "head_ssh_cidr": plain["ssh_cidrs"][0]}
