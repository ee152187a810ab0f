# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controller data for the role nvidia_gds."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.nvidia_gds import EXAMPLE, controller_options


@pytest.mark.parametrize(("switch", "is_given"), [(True, True), ("yes", True), (False, False), ("false", False)])
def test_requested_example_is_sent_to_node(switch, is_given):
    text = EXAMPLE.read_text(encoding="utf-8")
    assert controller_options({"nvidia_gds_example_enabled": switch}) == ({"example_text": text} if is_given else {})
