# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""prove_launch as Ansible runs it."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import prove_launch

OPTIONS = {
    "region": "us-east-1", "tags": {"a": "b"}, "vpc": "vpc-1", "subnet": "subnet-1", "ssh_cidr": "203.0.113.7/32",
    "type": "c5d.large", "image": "ami-1", "public_key": "ssh-ed25519 KEY", "user_data": "SECRET",
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch):
    """The requests to proof.launch: client, record and type."""
    found = []
    monkeypatch.setattr(prove_launch.aws, "client", lambda params, service: service)
    monkeypatch.setattr(
        prove_launch.proof,
        "launch",
        lambda client, path, wanted: found.append((client, path, wanted["type"])) or {"instances": ["i-1"]},
    )
    return found


def test_record_is_returned(run_on_controller, asked, tmp_path):
    found = run_on_controller(prove_launch, record=str(tmp_path / "r"), **OPTIONS)
    assert asked == [("ec2", str(tmp_path / "r"), "c5d.large")]
    assert (found["changed"], found["record"]) == (True, {"instances": ["i-1"]})


def test_private_host_key_is_not_shown(run_on_controller, asked, tmp_path):
    assert "SECRET" not in str(run_on_controller(prove_launch, record=str(tmp_path / "r"), **OPTIONS))


def test_check_mode_launches_nothing(run_on_controller, asked, tmp_path):
    found = run_on_controller(prove_launch, check=True, record=str(tmp_path / "r"), **OPTIONS)
    assert found["changed"] and asked == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (prove_launch.proof.ProofError("nothing was launched: x"), "nothing was launched: x"),
        (prove_launch.aws.AwsError("launching failed"), "launching failed"),
        (OSError("disk full"), "of the run failed: disk full"),
    ],
)
def test_error_is_the_message(run_on_controller, asked, monkeypatch, tmp_path, error, message):
    def fail(*given):
        raise error

    monkeypatch.setattr(prove_launch.proof, "launch", fail)
    found = run_on_controller(prove_launch, record=str(tmp_path / "r"), **OPTIONS)
    assert found["failed"] and message in found["msg"]
