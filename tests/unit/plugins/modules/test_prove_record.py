# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""prove_record as Ansible runs it."""

from __future__ import annotations

import json

from ansible_collections.mlcluster.aws.plugins.modules import prove_record

OPTIONS = {"region": "us-east-1", "run": "prove-1"}


def test_record_is_returned_as_written(run_on_controller, tmp_path):
    path = tmp_path / "launched.json"
    found = run_on_controller(prove_record, path=str(path), **OPTIONS)
    assert found["changed"] and found["record"] == json.loads(path.read_text())
    assert (found["record"]["region"], found["record"]["run"]) == ("us-east-1", "prove-1")


def test_second_record_is_rejected(run_on_controller, tmp_path):
    path = tmp_path / "launched.json"
    run_on_controller(prove_record, path=str(path), **OPTIONS)
    before = path.read_text()
    found = run_on_controller(prove_record, path=str(path), **OPTIONS)
    assert found["failed"] and "remove that with -e prove_on_aws_sweep=prove-1" in found["msg"]
    assert path.read_text() == before


def test_missing_folder_is_one_sentence(run_on_controller, tmp_path):
    found = run_on_controller(prove_record, path=str(tmp_path / "none" / "launched.json"), **OPTIONS)
    assert found["failed"] and "cannot be written" in found["msg"] and "prove_on_aws_folder" in found["msg"]


def test_check_mode_writes_nothing(run_on_controller, tmp_path):
    found = run_on_controller(prove_record, check=True, path=str(tmp_path / "launched.json"), **OPTIONS)
    assert found["changed"] and list(tmp_path.iterdir()) == []
