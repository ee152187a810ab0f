# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb that lists all checks."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data.checks import CHECKS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import checks, main


def test_all_checks_are_listed(capsys, tmp_path):
    assert main.main(["checks"], log_dir=str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line[0].isalpha()] == [row[0] for row in CHECKS]
    assert lines[-1].startswith(f"{len(CHECKS)} checks; ") and max(map(len, lines)) <= 100


def test_profile_and_prefix_filter_checks(capsys, tmp_path):
    assert main.main(["checks", "gpu.", "--profile", "prolog", "--json"], log_dir=str(tmp_path)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "mlcluster.checks/1"
    assert {"gpu.count", "gpu.xid"} <= {check["id"] for check in document["checks"]}
    for check in document["checks"]:
        assert check["id"].startswith("gpu.") and "prolog" in check["profiles"] and check["fails_when"]


def test_unknown_prefix_is_usage_error(capsys, tmp_path):
    assert main.main(["checks", "gpus.", "--profile", "prolog"], log_dir=str(tmp_path)) == 3
    output = capsys.readouterr()
    assert not output.out and "begins with 'gpus.' in the profile prolog; 'mlcluster checks' lists all" in output.err


def test_json_without_checks_is_empty_list(capsys, tmp_path):
    assert main.main(["checks", "gpus.", "--json"], log_dir=str(tmp_path)) == 3
    assert json.loads(capsys.readouterr().out)["checks"] == []


@pytest.mark.parametrize("who", checks.ASKED_BY)
def test_profiles_have_checks(who):
    assert checks.chosen("", who)


def test_checks_have_only_known_profiles():
    assert {who for row in CHECKS for who in row[3]} == set(checks.ASKED_BY)
