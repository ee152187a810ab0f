# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The line of Pyxis in Slurm's list of plugins."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

from tests.unit.plugins.module_utils._node.containers.test_look import PLUGIN, STACK, converge, plan_of, prove, verdicts


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def test_a_new_slurm_means_a_new_plugin_and_the_old_line_does_not_stay_required(host):
    rooted.with_pyxis(rooted.with_enroot(host))
    converge(host)
    prove(host)
    converge(host, plugstack_mode="required")
    assert host.text(STACK + ".d/pyxis.conf").splitlines()[1].startswith("required")
    host.answers["/opt/slurm/bin/scontrol --version"] = "slurm 23.11.10"
    plan = plan_of(host, plugstack_mode="required", build="0.24.0")
    assert plan.plugin["path"] == "/usr/local/lib/mlcluster/pyxis/23.11.10/spank_pyxis.so"
    assert (plan.plugstack["word"], "plugstack" in plan.parts) == ("optional", True)
    # Without anything to build from, too, the old line must not stop every job.
    plan = plan_of(host, plugstack_mode="required")
    assert (plan.plugin, plan.plugstack["word"], plan.plugstack["plugin"]) == (None, "optional", PLUGIN)
    assert "was built for Slurm 22.05.8 and this node has 23.11.10" in verdicts(host)["pyxis.plugin"].message


def test_what_a_line_that_is_there_would_do(host):
    rooted.with_pyxis(rooted.with_enroot(host))
    converge(host)
    host.put(STACK + ".d/pyxis.conf", f"required {PLUGIN} use_squashfuse=1 colour=red\n")
    verdict = verdicts(host)["pyxis.plugstack"]
    assert verdict.status == "fail"
    assert "use_squashfuse needs Pyxis 0.22.0" in verdict.message
    assert "colour is no option of Pyxis" in verdict.message
