# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to IAM, and its answers and errors; every action of every policy is denied once."""

from __future__ import annotations

import botocore.exceptions
import botocore.session
import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import iam, preflight
from botocore.stub import ANY, Stubber

USER = "arn:aws:iam::111122223333:user/me"
SESSION = "arn:aws:sts::111122223333:assumed-role/Admin/me"
ROLE = "arn:aws:iam::111122223333:role/path/Admin"


class Stubbed:
    """Return a botocore session whose clients return the answers in order."""

    def __init__(self):
        self.session = botocore.session.Session()
        self.session.set_credentials("AKIA", "s")
        self.clients = {}

    def get_config_variable(self, name):
        return self.session.get_config_variable(name)

    def create_client(self, service, region_name=None):
        if service not in self.clients:
            client = self.session.create_client(service, region_name=region_name)
            self.clients[service] = (client, Stubber(client))
            self.clients[service][1].activate()
        return self.clients[service][0]

    def stub(self, service):
        self.create_client(service, "us-east-1")
        return self.clients[service][1]


@pytest.fixture
def session():
    return Stubbed()


def evaluation(action, decision="allowed"):
    return {"EvalActionName": action, "EvalResourceName": "*", "EvalDecision": decision}


def test_caller_and_bad_credentials_are_reported(session):
    session.stub("sts").add_response("get_caller_identity", {"Account": "111122223333", "Arn": USER, "UserId": "x"})
    assert iam.identity(session, None) == {"Account": "111122223333", "Arn": USER}
    session.stub("sts").add_client_error("get_caller_identity", "ExpiredToken", "The token has expired")
    with pytest.raises(
        iam.RightsError, match="AWS refuses the credentials: ExpiredToken: The token has expired; log in"
    ):
        iam.identity(session, "us-west-2")


def test_no_credentials_are_one_sentence(session, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(iam.RightsError, match=r"no AWS credentials work here: .*set AWS_PROFILE, or log in"):
        iam.identity(botocore.session.Session(), "us-east-1")


def test_missing_profile_is_one_sentence(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(iam.RightsError, match=r"profile \(no-such-profile\) could not be found; set AWS_PROFILE"):
        iam.identity(botocore.session.Session(), None)


def test_lost_endpoint_proves_nothing_about_credentials(session, monkeypatch):
    error = botocore.exceptions.EndpointConnectionError(endpoint_url="https://sts.us-easst-1.invalid/")

    def lost(**_options):
        raise error

    client = session.create_client("sts", "us-easst-1")
    monkeypatch.setattr(client, "get_caller_identity", lost)
    with pytest.raises(iam.UnreachableError, match=r"caller's identity: Could not connect.*check the name of the reg"):
        iam.identity(session, "us-easst-1")


def test_role_session_is_judged_by_its_role(session):
    session.stub("iam").add_response(
        "get_role",
        {
            "Role": {
                "Path": "/path/",
                "RoleName": "Admin",
                "RoleId": "AROAAAAAAAAAAAAAAAAA",
                "Arn": ROLE,
                "CreateDate": "2026-01-01T00:00:00Z",
            }
        },
        {"RoleName": "Admin"},
    )
    session.stub("iam").add_response(
        "simulate_principal_policy",
        {"EvaluationResults": [evaluation("ec2:RunInstances", "explicitDeny")], "IsTruncated": False},
        {"PolicySourceArn": ROLE, "ActionNames": ["ec2:RunInstances"]},
    )
    assert iam.simulate(session, SESSION, ["ec2:RunInstances"]) == {"ec2:RunInstances": "explicitDeny"}


def test_missing_action_is_not_allowed(session):
    session.stub("iam").add_response(
        "simulate_principal_policy", {"EvaluationResults": [evaluation("ec2:RunInstances")], "IsTruncated": False}
    )
    assert iam.simulate(session, USER, ["ec2:RunInstances", "ec2:StopInstances"]) == {
        "ec2:RunInstances": "allowed",
        "ec2:StopInstances": "not reported",
    }


@pytest.mark.parametrize(
    ("decision", "missing", "found"),
    [
        ("allowed", [], "allowed"),
        ("allowed", ["aws:MultiFactorAuthPresent"], "conditional"),
        ("implicitDeny", ["aws:RequestedRegion"], "conditional"),
        ("implicitDeny", [], "implicitDeny"),
        ("explicitDeny", ["aws:RequestedRegion"], "explicitDeny"),
    ],
)
def test_decision_without_a_compared_value_is_conditional(decision, missing, found):
    assert iam._decision({**evaluation("ec2:RunInstances", decision), "MissingContextValues": missing}) == found


def test_denied_simulation_is_one_sentence(session):
    session.stub("iam").add_client_error("simulate_principal_policy", "AccessDenied", "no")
    with pytest.raises(iam.RightsError, match=f"IAM does not report what {USER} may do: AccessDenied: no"):
        iam.simulate(session, USER, ["ec2:RunInstances"])


@pytest.mark.parametrize("playbook", iam.playbooks())
def test_every_denied_right_of_playbook_is_reported(session, playbook):
    every, free = iam.policy(playbook)
    assert every and set(free) <= set(every)
    for denied in every:
        decisions = dict.fromkeys(every, "allowed") | {denied: "explicitDeny"}
        session.stub("iam").add_response(
            "simulate_principal_policy",
            {"EvaluationResults": [evaluation(*pair) for pair in decisions.items()], "IsTruncated": False},
            {"PolicySourceArn": USER, "ActionNames": ANY},
        )
        (entry,) = preflight.rights({playbook: iam.simulate(session, USER, every)}, {playbook: free})
        assert entry.status == "fail" and f"{playbook}.yml is denied {denied}" in entry.line()


def test_missing_policies_are_reported(tmp_path):
    with pytest.raises(iam.RightsError, match="there is no policy in"):
        iam.playbooks(tmp_path)
