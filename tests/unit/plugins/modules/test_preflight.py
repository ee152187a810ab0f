# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action preflight: its collections and AWS; whole runs are in tests/integration/refusals."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.action import preflight
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import iam

USER = {"Account": "1", "Arn": "arn:aws:iam::1:user/me"}


@pytest.fixture
def aws(monkeypatch):
    """aws(identity, simulate) gives the verdicts on credentials and rights of two playbooks."""

    def run(identity, simulate=None, playbooks=("create_network", "stage_data")):
        monkeypatch.setattr(iam, "identity", identity)
        monkeypatch.setattr(iam, "simulate", simulate)
        action = object.__new__(preflight.ActionModule)
        found = action._aws(list(playbooks), "us-east-1")
        run.hints = [entry.hint for entry in found]
        return [(entry.id, entry.status) for entry in found]

    return run


def refuse(*_args):
    raise iam.RightsError("no")


def test_aws_is_not_queried_without_playbook(aws):
    assert aws(refuse, playbooks=()) == [
        ("preflight.credentials", "not_applicable"),
        ("preflight.rights", "not_applicable"),
    ]


def test_invalid_credentials_prove_no_permission(aws):
    assert aws(refuse) == [("preflight.credentials", "fail"), ("preflight.rights", "undeterminable")]
    assert aws.hints[1] == "log in first"


def test_unreachable_aws_proves_nothing(aws):
    def lost(*_args):
        raise iam.UnreachableError("no way")

    assert aws(lost) == [("preflight.credentials", "undeterminable"), ("preflight.rights", "undeterminable")]


def test_unreported_permissions_are_not_proved(aws):
    assert aws(lambda *_args: USER, refuse) == [
        ("preflight.credentials", "pass"),
        ("preflight.rights", "undeterminable"),
    ]


@pytest.mark.parametrize(("decision", "status"), [("allowed", "pass"), ("explicitDeny", "fail")])
def test_each_playbook_has_its_own_verdict(aws, decision, status):
    def simulate(_session, _arn, actions):
        return dict.fromkeys(actions, decision)

    assert aws(lambda *_args: USER, simulate) == [
        ("preflight.credentials", "pass"),
        ("preflight.rights", status),
        ("preflight.rights", status),
    ]


def test_account_root_has_all_permissions(aws):
    found = aws(lambda *_args: {"Account": "1", "Arn": "arn:aws:iam::1:root"}, refuse)
    assert found[1:] == [("preflight.rights", "pass")] * 2


def test_collections_are_found_with_their_versions():
    found = preflight._collections()
    assert {"amazon.aws", "ansible.posix", "community.general"} <= set(found)
    assert all(version and version[0].isdigit() and oldest[0].isdigit() for version, oldest in found.values())


def test_collection_without_manifest_has_no_version(tmp_path):
    assert preflight._version(tmp_path) is None
    (tmp_path / "MANIFEST.json").write_text("{}", encoding="utf-8")
    assert preflight._version(tmp_path) is None


def test_skipped_task_was_not_started():
    action = object.__new__(preflight.ActionModule)
    given = {
        "preflight_ssh": {"rc": 0},
        "preflight_sudo": {"skipped": True},
        "preflight_python": "nonsense",
    }
    assert action._probes(given) == {"ssh": {"rc": 0}}
