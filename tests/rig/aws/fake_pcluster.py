# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for pcluster of aws-parallelcluster 3.16.1, which needs CloudFormation and images of AWS.

Grammar: its openapi.yaml, from which entrypoint.py makes the options. Output follows openapi.yaml and exit codes follow
entrypoint.py: a successful dry run exits with 1. It has one cluster in one region at a time; other names and regions
do not exist. Each describe-cluster advances a creation or deletion by one step. State and calls are in the folder
MLCLUSTER_RIG_PCLUSTER.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path

STEPS = 3
FOLDER = Path(os.environ["MLCLUSTER_RIG_PCLUSTER"])
STATE, CALLS, CONFIG, REFUSAL = (FOLDER / name for name in ("state.json", "calls", "config.yaml", "refusal.json"))
# Has the address of a web server for the folder's files; without it, the bucket of the cluster is missing.
ADDRESS = FOLDER / "address"


def summary(name, region, status):
    return {"clusterName": name, "region": region, "clusterStatus": status, "version": "3.16.1"}


def described(state):
    """Return the cluster as it is now, and advance it by one step."""
    verb, left = state["verb"], state["left"]
    status = f"{verb}_COMPLETE" if left <= 0 else f"{verb}_IN_PROGRESS"
    STATE.write_text(json.dumps({**state, "left": left - 1}))
    cluster = summary(state["name"], state["region"], status)
    cluster.update(cloudFormationStackStatus=status, computeFleetStatus="RUNNING", tags=[])
    url = f"{ADDRESS.read_text()}/{CONFIG.name}" if ADDRESS.exists() else "NOT_AVAILABLE"
    cluster.update(clusterConfiguration={"url": url})
    cluster.update(creationTime="2026-11-28T05:00:00.000Z", lastUpdatedTime="2026-11-28T05:00:00.000Z")
    if status == "CREATE_COMPLETE":
        cluster["headNode"] = {
            "instanceId": "i-0123456789abcdef0",
            "instanceType": "c7i.4xlarge",
            "launchTime": "2026-11-28T05:01:00.000Z",
            "privateIpAddress": "10.0.0.10",
            "publicIpAddress": "203.0.113.10",
            "state": "running",
        }
    return cluster


def events(state):
    done = STEPS - state["left"]
    rows = [("HeadNode", "CREATE_IN_PROGRESS"), ("Queue", "CREATE_COMPLETE"), ("Roles", "CREATE_COMPLETE")]
    return {"events": [{"logicalResourceId": name, "resourceStatus": status} for name, status in rows[-done or 3 :]]}


# Sections that the schema of 3.16.1 requires.
SECTIONS = ("Image", "HeadNode", "Scheduling")


def refusal(text):
    """Return why a configuration is invalid, by its sections (keys of JSON, or lines of YAML); else ""."""
    try:
        found = set(json.loads(text))
    except ValueError:
        found = set(re.findall(r"(?m)^([A-Za-z]+):", text))
    missing = [name for name in SECTIONS if name not in found]
    return f"[{', '.join(f'({name!r}, Missing data for required field.)' for name in missing)}]" if missing else ""


def create(chosen, state):
    """Return the output and the exit status."""
    text = Path(chosen.cluster_configuration).read_text()
    CONFIG.write_text(text)
    if state:
        return {"message": f"Cluster with name {chosen.cluster_name} already exists."}, 1
    if REFUSAL.exists():
        return json.loads(REFUSAL.read_text()), 1
    if problem := refusal(text):
        errors = [{"level": "ERROR", "type": "ConfigSchemaValidator", "message": problem}]
        return {"message": "Invalid cluster configuration.", "configurationValidationErrors": errors}, 1
    if chosen.dryrun == "true":
        return {"message": "Request would have succeeded, but DryRun flag is set."}, 1
    STATE.write_text(
        json.dumps({"name": chosen.cluster_name, "region": chosen.region, "verb": "CREATE", "left": STEPS})
    )
    return {"cluster": summary(chosen.cluster_name, chosen.region, "CREATE_IN_PROGRESS")}, 0


def answer(chosen):
    """Return the output and the exit status."""
    state = json.loads(STATE.read_text()) if STATE.exists() else None
    if state and state["verb"] == "DELETE" and state["left"] <= 0:
        STATE.unlink()
        state = None
    if state and (state["name"], state["region"]) != (chosen.cluster_name, chosen.region):
        state = None
    if chosen.verb == "create-cluster":
        return create(chosen, state)
    if not state:
        words = "does not exist or belongs to an incompatible ParallelCluster major version."
        return {"message": f"Cluster '{chosen.cluster_name}' {words}"}, 1
    if chosen.verb == "describe-cluster":
        return described(state), 0
    if chosen.verb == "get-cluster-stack-events":
        return events(state), 0
    STATE.write_text(json.dumps({**state, "verb": "DELETE", "left": STEPS}))
    return {"cluster": summary(chosen.cluster_name, chosen.region, "DELETE_IN_PROGRESS")}, 0


def cluster_name(text):
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]{0,59}", text):
        raise argparse.ArgumentTypeError(f"{text!r} does not match '^[a-zA-Z][a-zA-Z0-9-]+$'")
    return text


def region(text):
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", text):
        raise argparse.ArgumentTypeError(f"{text!r}: invalid or unsupported region")
    return text


def file(text):
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"File not found: {text}")
    return text


def main():
    parser = argparse.ArgumentParser(prog="pcluster", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("create-cluster", "describe-cluster", "delete-cluster", "get-cluster-stack-events"):
        verb = verbs.add_parser(name, allow_abbrev=False)
        verb.add_argument("--cluster-name", required=True, type=cluster_name)
        verb.add_argument("--region", required=True, type=region)
        if name == "create-cluster":
            verb.add_argument("--cluster-configuration", required=True, type=file)
            verb.add_argument("--dryrun", choices=["true", "false"])
            verb.add_argument("--rollback-on-failure", choices=["true", "false"])
    chosen = parser.parse_args()
    dry = " dryrun" if getattr(chosen, "dryrun", None) == "true" else ""
    with CALLS.open("a") as stream:
        stream.write(f"{chosen.verb}{dry}\n")
    reply, status = answer(chosen)
    print(json.dumps(reply, indent=2))
    return status


if __name__ == "__main__":
    sys.exit(main())
