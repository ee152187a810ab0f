# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In the place of the program pcluster, which needs CloudFormation and images of AWS.

Answers as the API of aws-parallelcluster 3.16.1 is described in its openapi.yaml, and exits as its entrypoint.py does:
a dry run that would work exits with 1. Each answer to describe-cluster moves a creation or deletion on by one step.
State and calls lie in the folder MLCLUSTER_RIG_PCLUSTER.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

STEPS = 3
FOLDER = Path(os.environ["MLCLUSTER_RIG_PCLUSTER"])
STATE, CALLS, CONFIG, REFUSAL = (FOLDER / name for name in ("state.json", "calls", "config.yaml", "refusal.json"))
# Where a web server gives the files of the folder; without it the bucket of the cluster is not there any more.
ADDRESS = FOLDER / "address"


def summary(name, region, status):
    return {"clusterName": name, "region": region, "clusterStatus": status, "version": "3.16.1"}


def described(state):
    """The cluster as it is now, and one step further for the next time."""
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
    return {"events": [{"logicalResourceId": name, "resourceStatus": said} for name, said in rows[-done or 3 :]]}


def answer(chosen):
    """What is printed, and the exit status."""
    state = json.loads(STATE.read_text()) if STATE.exists() else None
    if state and state["verb"] == "DELETE" and state["left"] <= 0:
        STATE.unlink()
        state = None
    if chosen.verb == "create-cluster":
        CONFIG.write_text(Path(chosen.cluster_configuration).read_text())
        if REFUSAL.exists():
            return json.loads(REFUSAL.read_text()), 1
        if chosen.dryrun == "true":
            return {"message": "Request would have succeeded, but DryRun flag is set."}, 1
        STATE.write_text(
            json.dumps({"name": chosen.cluster_name, "region": chosen.region, "verb": "CREATE", "left": STEPS})
        )
        return {"cluster": summary(chosen.cluster_name, chosen.region, "CREATE_IN_PROGRESS")}, 0
    if not state:
        words = "does not exist or belongs to an incompatible ParallelCluster major version."
        return {"message": f"Cluster '{chosen.cluster_name}' {words}"}, 1
    if chosen.verb == "describe-cluster":
        return described(state), 0
    if chosen.verb == "get-cluster-stack-events":
        return events(state), 0
    STATE.write_text(json.dumps({**state, "verb": "DELETE", "left": STEPS}))
    return {"cluster": summary(chosen.cluster_name, chosen.region, "DELETE_IN_PROGRESS")}, 0


def main():
    parser = argparse.ArgumentParser(prog="pcluster")
    verbs = ("create-cluster", "describe-cluster", "delete-cluster", "get-cluster-stack-events")
    parser.add_argument("verb", choices=verbs)
    parser.add_argument("--cluster-name", required=True)
    parser.add_argument("--region", required=True)
    parser.add_argument("--cluster-configuration")
    parser.add_argument("--dryrun", choices=["true", "false"])
    parser.add_argument("--rollback-on-failure", choices=["true", "false"])
    chosen = parser.parse_args()
    with CALLS.open("a") as stream:
        stream.write(f"{chosen.verb}{' dryrun' if chosen.dryrun == 'true' else ''}\n")
    said, status = answer(chosen)
    print(json.dumps(said, indent=2))
    return status


if __name__ == "__main__":
    sys.exit(main())
