# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import decide as gds
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Result
from ansible_collections.mlcluster.aws.plugins.modules import gds_info

from tests.unit.fakes.fake_gds_host import Asker, fixture, load_nvidia_fs, node, outcome, raid0

OPENED = outcome(step="open", log=fixture("libcufile-1.15-h200-compat-allowed.log"))
NO_MODULE = outcome("refused", "open", fixture("libcufile-1.15-h200-compat-forbidden.log"), err=5001)
COMPAT = {"strict": NO_MODULE, "own": outcome()}


@pytest.fixture
def look(run_module, monkeypatch):
    """look(host, asker, options...) gives what the module printed."""

    def run(host, asker, **options):
        monkeypatch.setattr(gds_info, "survey", lambda *given: gds.survey(*given, asker=asker))
        return run_module(gds_info, host, **options)

    return run


def test_returned_keys_match_documentation(look):
    result = look(node(), Asker(OPENED, **COMPAT), mounts=["/data"], probe="active")
    documented = yaml.safe_load(gds_info.RETURN)
    assert set(result) - {"changed", "invocation"} == set(documented)
    # A disk, md or not, has the same keys.
    assert set(result["mounts"][0]) == set(documented["mounts"]["contains"])


def test_active_probe(look):
    host = node()
    load_nvidia_fs(host)
    asker = Asker(outcome(step="open"), strict=outcome())
    result = look(host, asker, mounts=["/data"], probe="active", required=["nvfs", "p2pdma"])
    (mount,) = result["mounts"]
    assert (mount["mode"], mount["proof"], result["problems"], result["changed"]) == ("nvfs", "active", [], False)
    assert [Result.from_dict(entry).line() for entry in result["results"]] == result["lines"]


def test_check_mode_writes_to_no_mount(look):
    asker = Asker(OPENED)
    result = look(node(), asker, mounts=["/data"], probe="active", bandwidth=True, check=True)
    assert (result["mounts"][0]["mode"], result["mounts"][0]["proof"]) == ("compat", "passive")
    assert asker.questions == [("driver", None)]
    assert "gds.bandwidth" not in [entry["id"] for entry in result["results"]]


def test_missing_required_path_is_reported_without_failure(look):
    result = look(node(), Asker(OPENED, **COMPAT), mounts=["/data"], probe="active", required=["nvfs"])
    assert [line.split()[:2] for line in result["problems"]] == [
        ["FAIL", "gds.module:"],
        ["FAIL", "gds.mode"],
        ["FAIL", "gds.prerequisites"],
    ]


def test_advice_and_bandwidth(look):
    host = node()
    raid0(host)
    result = look(host, Asker(OPENED), mounts=["/raid"], bandwidth=True)
    assert result["advice"][0].startswith("/raid is md raid0: P2PDMA does not work over md on x86")
    assert result["results"][-1]["id"] == "gds.bandwidth"
    assert result["results"][-1]["status"] == "undeterminable"


def test_other_facts_of_role_are_returned(look):
    host = node()
    host.programs.update(modinfo="/sbin/modinfo", rpm="/usr/bin/rpm")
    host.files["/etc/modprobe.d/mlcluster-gds.conf"] = "x"
    host.files["/lib/modules/6.8.0-1021-aws/modules.dep"] = ""
    host.commands["rpm -qa --qf %{NAME}\\t%{VERSION}-%{RELEASE}\\n"] = "nvidia-gds\t13.0.2-1\n"
    result = look(
        host,
        Asker(OPENED),
        files=["/etc/modprobe.d/mlcluster-gds.conf", "/none"],
        packages=["nvidia-gds"],
    )
    assert result["files"] == {"/etc/modprobe.d/mlcluster-gds.conf": "ab" * 32, "/none": None}
    assert result["packages"] == {"nvidia-gds": "13.0.2-1"}
    assert result["kernel_modules"] == {
        "running": "6.8.0-1021-aws",
        "next": "6.8.0-1021-aws",
        "installed": {"6.8.0-1021-aws": None},
    }
    assert result["registry_dwords_wanted"] == {"RMForceStaticBar1": "1", "RmForceDisableIomapWC": "1"}
    assert result["capability"]["source"] == "libcufile"
    assert (result["mounts"], [entry["id"] for entry in result["results"]]) == (
        [],
        ["gds.driver", "gds.library", "gds.module"],
    )


@pytest.mark.parametrize("options", [{"timeout": 0}, {"bandwidth_mib": 0}])
def test_invalid_option_fails_with_one_sentence(look, options):
    result = look(node(), Asker(OPENED), **options)
    assert result["failed"]
    assert result["msg"].startswith("timeout and bandwidth_mib must be 1 or more")


def test_unreadable_node_fails(run_module, monkeypatch):
    def broken(*given):
        raise NodeError("looked for something and did not find it")

    monkeypatch.setattr(gds_info, "survey", broken)
    assert run_module(gds_info, node())["msg"] == "looked for something and did not find it"
