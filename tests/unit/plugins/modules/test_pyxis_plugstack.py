# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.modules import pyxis_plugstack

from tests.unit.fakes import fake_rooted_host as rooted

PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"
STACK = "/opt/slurm/etc/plugstack.conf"
LINE = f"{STACK}.d/pyxis.conf"
LISTED = {"path": STACK, "plugin": PLUGIN, "slurm_version": "22.05.8"}


@pytest.fixture
def host(tmp_path):
    made = rooted.RootedHost(tmp_path)
    made.folder("/opt/slurm/etc")
    made.put(PLUGIN, rooted.spank_plugin())
    return made


def test_plugstack_returns_exactly_documented_keys(run_module, host):
    result = run_module(pyxis_plugstack, host, **LISTED)
    assert set(result) - {"changed", "diff", "invocation"} == set(yaml.safe_load(pyxis_plugstack.RETURN))


def test_pyxis_is_listed_once_and_removed(run_module, host):
    first = run_module(pyxis_plugstack, host, **LISTED)
    assert (first["changed"], sorted(first["changes"])) == (True, [STACK, LINE])
    assert f"optional {PLUGIN}" in host.text(LINE)
    again = run_module(pyxis_plugstack, host, **LISTED)
    assert (again["changed"], again["changes"], again["diff"]) == (False, [], [])
    gone = run_module(pyxis_plugstack, host, path=STACK, state="absent")
    assert gone["changed"]
    assert not run_module(pyxis_plugstack, host, path=STACK, state="absent")["changed"]


def test_bytes_outside_utf8_are_shown_and_kept(run_module, host):
    host.put(STACK, b"# caf\xe9\nmandatory \xe9\n")
    result = run_module(pyxis_plugstack, host, **LISTED)
    (diff,) = (entry for entry in result["diff"] if entry["after_header"] == STACK)
    assert diff["before"] == "# caf\ufffd\nmandatory \ufffd\n"
    assert any(problem.endswith("mandatory \ufffd") for problem in result["problems"])
    with open(host.at(STACK), "rb") as stream:
        assert stream.read().startswith(b"# caf\xe9\nmandatory \xe9\n")


def test_check_mode_shows_and_writes_nothing(run_module, host):
    result = run_module(pyxis_plugstack, host, check=True, **LISTED)
    assert result["changed"]
    assert {entry["after_header"] for entry in result["diff"]} == {STACK, LINE}
    assert not host.exists(STACK)


def test_plugin_for_another_slurm_is_never_required(run_module, host):
    result = run_module(pyxis_plugstack, host, **{**LISTED, "slurm_version": "24.11.5"}, keyword="required")
    assert result["failed"]
    assert "listed as required it would stop every job, so nothing was written" in result["msg"]
    assert not host.exists(STACK)


def test_option_unknown_to_plugin_is_rejected(run_module, host):
    result = run_module(pyxis_plugstack, host, **LISTED, options={"no_such": "1"})
    assert result["failed"]
    assert "no_such" in result["msg"]
    assert not host.exists(STACK)
