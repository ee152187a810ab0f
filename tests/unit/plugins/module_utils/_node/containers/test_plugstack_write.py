# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The line of Pyxis in Slurm's list of plugins."""

from __future__ import annotations

import pytest

from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.plugins.module_utils._node.containers.test_look import PLUGIN, STACK, converge, verdicts


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def test_bad_options_of_existing_line_are_reported(host):
    rooted.with_pyxis(rooted.with_enroot(host))
    converge(host)
    host.put(STACK + ".d/pyxis.conf", f"required {PLUGIN} use_squashfuse=1 colour=red\n")
    verdict = verdicts(host)["pyxis.plugstack"]
    assert verdict.status == "fail"
    assert "use_squashfuse needs Pyxis 0.22.0" in verdict.message
    assert "colour is not an option of Pyxis" in verdict.message
