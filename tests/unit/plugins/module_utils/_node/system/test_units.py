# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.units import parse_units

from tests.unit.fakes import fake_training_host as training_host


def test_several_units():
    text = training_host.unit("a.service", LimitMEMLOCK="65536") + "\n" + training_host.unit("b.service") + "\nX=1\n"
    assert sorted(parse_units(text)) == ["a.service", "b.service"]
    assert parse_units(text)["a.service"]["LimitMEMLOCK"] == "65536"
    assert parse_units("") == {}
