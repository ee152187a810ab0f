# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import yaml
from ansible_collections.mlcluster.aws.plugins.modules import enroot_pyxis_info

from tests.unit.fakes import fake_rooted_host as rooted

DOCUMENTED = yaml.safe_load(enroot_pyxis_info.RETURN)


def test_info_returns_exactly_documented_keys(run_module, tmp_path):
    result = run_module(enroot_pyxis_info, rooted.node(tmp_path))
    assert set(result) - {"changed", "invocation"} == set(DOCUMENTED)
    assert not result["changed"]


def test_node_without_slurm_does_not_fail(run_module, tmp_path):
    result = run_module(enroot_pyxis_info, rooted.RootedHost(tmp_path))
    assert set(result) - {"changed", "invocation"} == {k for k, v in DOCUMENTED.items() if v["returned"] == "always"}
    assert (result["slurm"], result["problems"]) == (None, [])


def test_controller_is_queried_for_jobs_only_on_request(run_module, tmp_path):
    host = rooted.node(tmp_path)
    host.put("/opt/slurm/bin/squeue")
    host.answers["/opt/slurm/bin/squeue"] = "7\n"
    assert "busy" not in run_module(enroot_pyxis_info, host)["slurm"]
    assert "jobs have the node (7)" in run_module(enroot_pyxis_info, host, jobs=True)["slurm"]["busy"]


def test_all_problems_of_settings_are_reported_at_once(run_module, tmp_path):
    result = run_module(enroot_pyxis_info, rooted.node(tmp_path), hooks=["../evil.sh"], smoke_users=["-x"])
    assert result["failed"]
    assert "../evil.sh" in result["msg"] and "-x" in result["msg"]


def test_candidate_plugin_is_checked_before_install(run_module, tmp_path):
    host = rooted.node(tmp_path)
    host.put("/root/good.so", rooted.spank_plugin())
    host.put("/root/other.so", rooted.spank_plugin(0x170200))
    assert run_module(enroot_pyxis_info, host, candidate="/root/good.so")["candidate"]["fits"]
    other = run_module(enroot_pyxis_info, host, candidate="/root/other.so")["candidate"]
    assert not other["fits"] and "was built for Slurm 23.02.0" in other["problem"]
