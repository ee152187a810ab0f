# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layouts that the role brings."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre import layouts as lustre_layouts
from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre.settings import fsx_lustre_plan

from tests.unit.plugins.plugin_utils._lustre.test_settings import SETTINGS


@pytest.mark.parametrize("name", [name for name in lustre_layouts.LAYOUTS if name != "none"])
def test_shipped_layouts_are_sound(name):
    settings = {**SETTINGS, "layout": name, "file_systems": [{"path": f"/fsx{number}"} for number in (1, 2, 3)]}
    assert fsx_lustre_plan(settings)["problems"] == []
