# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import enroot_pyxis_info, pyxis_plugstack

from tests.unit.fakes import fake_rooted_host as rooted

STACK = "/opt/slurm/etc/plugstack.conf"
PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"
LISTED = {"path": STACK, "plugin": PLUGIN, "slurm_version": "22.05.8"}


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def test_look_has_all_facts_of_role(run_module, host):
    rooted.with_pyxis(rooted.with_enroot(host))
    result = run_module(enroot_pyxis_info, host)
    assert not result["changed"]
    assert (result["slurm"]["version"], result["enroot"]["version"]) == ("22.05.8", "4.1.2")
    assert (result["plugins"][0]["path"], result["writes_plugstack"], result["refusals"]) == (PLUGIN, True, [])
    assert result["place"]["kind"] == "fallback"
    assert result["removable"] == ["/usr/local/lib/mlcluster/pyxis", "/etc/mlcluster/enroot"]
    assert len(result["results"]) == len(result["lines"]) > len(result["problems"]) > 0


def test_node_without_slurm(run_module, tmp_path):
    result = run_module(enroot_pyxis_info, rooted.RootedHost(tmp_path))
    assert (result["slurm"], result["refusals"], result["problems"]) == (None, [], [])


def test_bad_settings_fail_with_all_sentences(run_module, host):
    result = run_module(enroot_pyxis_info, host, hooks=["evil.sh"], conf={"PATH": "/"})
    assert result["failed"]
    assert "hooks has evil.sh, which is not an optional hook" in result["msg"]
    assert "PATH is not a setting" in result["msg"]


@pytest.mark.parametrize(
    ("probe", "check", "tried"), [("never", False, False), ("always", False, True), ("always", True, False)]
)
def test_containers_are_started_only_on_request(run_module, host, probe, check, tried):
    rooted.with_pyxis(rooted.with_enroot(host))
    host.put("/x.sqsh")
    host.answers["runuser"] = "node=n1 root=1:1\n"
    host.answers["--container-image"] = "node=n1 root=2:2\n"
    options = {"smoke_image": "/x.sqsh", "smoke_users": ["alice"], "probe": probe}
    result = run_module(enroot_pyxis_info, host, check=check, **options)
    assert ("pyxis.container" in [entry["id"] for entry in result["results"]]) == tried


def test_plugstack_is_written_once(run_module, host):
    rooted.with_pyxis(host)
    dry = run_module(pyxis_plugstack, host, check=True, **LISTED)
    assert (dry["changed"], host.exists(STACK)) == (True, False)
    done = run_module(pyxis_plugstack, host, **LISTED)
    assert done["changes"] == dry["changes"] == [STACK + ".d/pyxis.conf", STACK]
    assert done["diff"][1]["after"] == f"include {STACK}.d/*.conf\n"
    assert not run_module(pyxis_plugstack, host, **LISTED)["changed"]
    gone = run_module(pyxis_plugstack, host, path=STACK, state="absent")
    assert (gone["changed"], host.listdir(STACK + ".d")) == (True, [])


def test_plugin_for_another_slurm_is_never_listed_as_required(run_module, host):
    rooted.with_pyxis(host, slurm=0x170B0A)
    result = run_module(pyxis_plugstack, host, **LISTED, keyword="required")
    assert result["failed"]
    assert (
        "was built for Slurm 23.11.10 and this node has 22.05.8: listed as required it would stop every job"
        in (result["msg"])
    )
    assert not host.exists(STACK)


def test_option_that_would_stop_every_job_is_rejected(run_module, host):
    rooted.with_pyxis(host)
    assert "needs Pyxis 0.21.0" in run_module(pyxis_plugstack, host, **LISTED, options={"importer": "/x"})["msg"]


def test_problems_of_others_are_reported(run_module, host):
    rooted.with_pyxis(host)
    host.put(STACK, f"optional {PLUGIN}\noptional {PLUGIN}\n")
    result = run_module(pyxis_plugstack, host, **LISTED)
    assert "listed 2 times" in json.dumps(result["problems"])
