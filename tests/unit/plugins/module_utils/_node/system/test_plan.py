# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema of plans: differences, refusals, and files that are due."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import (
    File,
    Package,
    Plan,
    Step,
    Unit,
    file_due,
    not_concerned,
    refused,
)

WANTED = File(name="limits", path="/etc/security/limits.d/95-mlcluster.conf", text="* soft memlock unlimited\n")
SUM = hashlib.sha256(WANTED.text.encode()).hexdigest()
AS_WANTED: dict[str, Any] = {"mode": "0644", "uid": 0, "gid": 0, "is_link": False, "is_dir": False}


def test_plan_without_actions_is_empty() -> None:
    plan = Plan(domain="efa_nccl", notes=("EFA 1.52 is newer and is kept",)).to_dict()
    assert plan["empty"] is True
    assert plan["differences"] == []
    assert plan["schema"] == "mlcluster.plan/1"


@pytest.mark.parametrize(
    ("actions", "difference"),
    [
        ({"packages": (Package("fio"),)}, "packages"),
        ({"unhold": ("libfabric-aws",)}, "packages"),
        ({"hold": ("linux-aws",)}, "held packages"),
        ({"files": (WANTED,)}, "limits"),
        ({"units": (Unit("nvidia-fabricmanager.service", enabled=True),)}, "unit nvidia-fabricmanager.service"),
        ({"steps": (Step("installer", "upgrade EFA"),)}, "upgrade EFA"),
        ({"daemon_reload": True}, "units that systemd has not read"),
    ],
)
def test_each_kind_of_action_is_difference(actions: dict[str, Any], difference: str) -> None:
    plan = Plan(domain="efa_nccl", **actions)
    assert plan.differences() == [difference]
    assert json.loads(json.dumps(plan.to_dict()))["empty"] is False
    with pytest.raises(ValueError, match="refuses and acts"):
        Plan(domain="efa_nccl", refusals=("no driver",), **actions)
    with pytest.raises(ValueError, match="refuses and acts"):
        Plan(domain="efa_nccl", concerned=False, **actions)


def test_several_files_of_one_name_are_one_difference() -> None:
    files = (WANTED, File(name="limits", path="/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf"))
    assert Plan(domain="efa_nccl", files=files).differences() == ["limits"]


def test_refusal_and_node_of_no_concern_have_no_actions() -> None:
    assert refused("nvidia_gds", ["no driver"], ["seen"]).to_dict()["refusals"] == ("no driver",)
    assert not_concerned("nvidia_gds", "no NVIDIA driver is loaded").to_dict()["empty"] is True


@pytest.mark.parametrize(
    ("checksum", "state", "name"),
    [
        (SUM, AS_WANTED, None),
        (None, None, "limits"),
        ("0" * 64, AS_WANTED, "limits"),
        (SUM, {**AS_WANTED, "mode": "0666"}, "limits (mode or owner)"),
        (SUM, {**AS_WANTED, "uid": 1000}, "limits (mode or owner)"),
        (SUM, {**AS_WANTED, "is_link": True}, "limits (mode or owner)"),
    ],
)
def test_file_with_any_difference_is_written(
    checksum: str | None, state: dict[str, Any] | None, name: str | None
) -> None:
    due = file_due(WANTED, checksum, state)
    assert [entry.name for entry in due] == ([name] if name else [])


def test_file_of_others_is_written_with_backup_and_never_removed() -> None:
    gone = File(name="nccl.conf", path="/etc/nccl.conf", state="absent")
    assert file_due(gone, "0" * 64, AS_WANTED) == [gone]
    assert file_due(gone, "0" * 64, AS_WANTED, kept=True) == []
    assert file_due(gone, None, None) == []
    (due,) = file_due(WANTED, "0" * 64, AS_WANTED, kept=True)
    assert due.backup is True
    (outside,) = file_due(WANTED, SUM, {**AS_WANTED, "mode": "0600"}, kept=True)
    assert outside.backup is False


def test_file_with_checksum_needs_state() -> None:
    with pytest.raises(ValueError, match="not looked at"):
        file_due(WANTED, SUM, None)
