# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters return the values of the table, and reject errors in one sentence."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.mlcluster.aws.plugins.filter.nccl_env import FilterModule

FILTERS = FilterModule().filters()
RENDER = FILTERS["nccl_env"]
LINT = FILTERS["nccl_env_lint"]
PROBLEM = FILTERS["nccl_env_problem"]


def test_environment_is_rendered_with_its_files():
    made = RENDER("p4d.24xlarge", plugin="1.21.1", nccl=None, debug="WARN", extra={"FI_LOG_LEVEL": "warn"})
    assert made["variables"] == {
        "NCCL_SOCKET_IFNAME": "^docker,lo,veth",
        "NCCL_DEBUG": "WARN",
        "FI_LOG_LEVEL": "warn",
    }
    assert made["environ"].count("\n") == 4
    assert made["modulefile"].startswith("#%Module1.0\n")
    assert made["plugin_sets"]["NCCL_BUFFSIZE"] == "8388608"


def test_switches_may_be_strings():
    assert RENDER("p4d.24xlarge", huge_pages="no")["variables"]["FI_EFA_USE_HUGE_PAGE"] == "0"
    assert "NCCL_NET" not in RENDER("p4d.24xlarge", pin_network="false")["variables"]
    with pytest.raises(AnsibleFilterError, match="NCCL_IFNAME must be"):
        RENDER("p4d.24xlarge", extra={"NCCL_IFNAME": "eth0"}, accept_harmful="no")


def test_variables_are_judged_in_both_forms():
    assert [entry["verdict"] for entry in LINT({"NCCL_ALGO": "Ring"}, "p5.48xlarge", plugin="1.16.2")] == ["harmful"]
    assert [entry["verdict"] for entry in LINT("export NCCL_ALGO=Ring")] == ["drop"]
    assert PROBLEM({"NCCL_ALGO": "Ring"}) == ""
    assert "NCCL_ALGO=Ring is harmful" in PROBLEM({"NCCL_ALGO": "Ring"}, plugin="1.16.2")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: RENDER("x9.large"), "nccl_env: instance type 'x9.large' is not in the table"),
        (lambda: RENDER("p5.48xlarge", size=3), "nccl_env does not know size"),
        (lambda: RENDER("p5.48xlarge", extra=["a"]), "extra must map"),
        (lambda: RENDER("p5.48xlarge", pin_network="maybe"), "pin_network is 'maybe': use true or false"),
        # YAML reads 1.20 without quotes as 1.2, a version that needs other variables.
        (lambda: RENDER("p5.48xlarge", plugin=1.20), "plugin is the number 1.2: put the version into quotes"),
        (lambda: LINT({}, nccl=2.30), "nccl is the number 2.3: put the version into quotes"),
        (lambda: LINT(["NCCL_NET=Socket"]), "use a dictionary"),
        (lambda: LINT({}, "x9.large"), "nccl_env_lint: instance type"),
    ],
)
def test_invalid_request_is_one_sentence(call, sentence):
    with pytest.raises(AnsibleFilterError, match=sentence):
        call()


def test_problem_filter_never_raises():
    assert "not in the table" in PROBLEM({}, "x9.large")
    assert "use a dictionary" in PROBLEM(3)
