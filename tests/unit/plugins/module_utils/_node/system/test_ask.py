# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.ask import first_number, reliable
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult

from tests.unit.fakes.fake_training_host import TrainingHost


@pytest.mark.parametrize(("text", "number"), [("8 (4)\n", 8), ("524288\n", 524288), ("", 0), (None, 0), ("x", 0)])
def test_first_number_of_sysfs_text(text, number):
    assert first_number(text) == number


@pytest.mark.parametrize(("rc", "found"), [(0, "1.2\n"), (1, ""), (255, ""), (-9, "")])
def test_output_beside_error_status_is_not_reliable(rc, found):
    host = TrainingHost()
    host.commands["tool --version"] = CommandResult(rc, "1.2\n", "")
    assert reliable(host, ["tool", "--version"]) == found
    assert reliable(host, ["other"]) == ""
