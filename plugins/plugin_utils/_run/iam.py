# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask IAM for the caller's rights to the actions of the policies in docs/iam."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster.aws import UNREACHABLE

from .names import COLLECTION

FOLDER = COLLECTION / "docs" / "iam"
# A node's role is not the role of the user who runs playbooks.
NODES = ("hook",)
CONDITIONAL = "conditional"
_ASSUMED = re.compile(r"arn:(aws[a-z-]*):sts::(\d{12}):assumed-role/([^/]+)/.+")


class RightsError(Exception):
    """AWS gave no answer; the message is one sentence with what to do."""


class UnreachableError(RightsError):
    """AWS could not be reached, which proves nothing about the credentials."""


def playbooks(folder: Path = FOLDER) -> list[str]:
    """Return the playbooks that have a policy. Raises RightsError if there is none."""
    found = sorted(path.stem for path in folder.glob("*.json") if path.stem not in NODES)
    if not found:
        raise RightsError(f"there is no policy in {folder}: install the complete collection")
    return found


def policy(playbook: str, folder: Path = FOLDER) -> tuple[list[str], list[str]]:
    """Return (all actions, those allowed for every resource) of a playbook's policy. Raises OSError, ValueError."""
    document = json.loads((folder / f"{playbook}.json").read_text(encoding="utf-8"))
    statements = document["Statement"]
    every = sorted({action for entry in statements for action in entry["Action"]})
    return every, sorted({action for entry in statements if entry["Resource"] == "*" for action in entry["Action"]})


def identity(session: Any, region: str | None) -> dict[str, str]:
    """Return account and ARN of the caller. Raises RightsError, and UnreachableError without an answer of AWS."""
    import botocore.exceptions

    try:
        # A missing profile is found by the first setting that is read.
        place = region or session.get_config_variable("region") or "us-east-1"
        answer = session.create_client("sts", region_name=place).get_caller_identity()
    except botocore.exceptions.ClientError as exc:
        raise RightsError(f"AWS refuses the credentials: {_reason(exc)}; log in again, or set AWS_PROFILE") from exc
    except (botocore.exceptions.ConnectionError, botocore.exceptions.HTTPClientError) as exc:
        raise UnreachableError(
            f"AWS could not be queried for the caller's identity: {' '.join(str(exc).split())}; {UNREACHABLE}"
        ) from exc
    except botocore.exceptions.BotoCoreError as exc:
        raise RightsError(
            f"no AWS credentials work here: {' '.join(str(exc).split())}; set AWS_PROFILE, or log in"
        ) from exc
    return {"Account": str(answer["Account"]), "Arn": str(answer["Arn"])}


def simulate(session: Any, arn: str, actions: Sequence[str]) -> dict[str, str]:
    """Return IAM's decision for the caller by action. Raises RightsError if IAM may not be asked."""
    import botocore.exceptions

    client = session.create_client("iam", region_name="us-east-1")
    try:
        pages = client.get_paginator("simulate_principal_policy").paginate(
            PolicySourceArn=_principal(client, arn), ActionNames=list(actions)
        )
        decisions = {entry["EvalActionName"]: _decision(entry) for page in pages for entry in page["EvaluationResults"]}
    except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as exc:
        raise RightsError(f"IAM does not report what {arn} may do: {_reason(exc)}") from exc
    # A missing action does not count as allowed.
    return {action: decisions.get(action, "not reported") for action in actions}


def _decision(entry: Mapping[str, Any]) -> str:
    """Return a decision; ``conditional`` if a policy has a condition on a value that the simulation lacks.

    IAM ignores a statement with such a condition: one that allows (in one region only) or that denies (without MFA).
    """
    decision = str(entry["EvalDecision"])
    return CONDITIONAL if decision != "explicitDeny" and entry.get("MissingContextValues") else decision


def _principal(client: Any, arn: str) -> str:
    """Return the ARN that policies are attached to: for a role's session the role, whose path only IAM knows."""
    assumed = _ASSUMED.fullmatch(arn)
    if assumed is None:
        return arn
    return str(client.get_role(RoleName=assumed.group(3))["Role"]["Arn"])


def _reason(error: Exception) -> str:
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    details = response.get("Error") or {}
    return " ".join(f"{details.get('Code', type(error).__name__)}: {details.get('Message', error)}".split())[:300]
