# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report of a boot run: status file, log, copy of the log in S3, drain marker."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import log
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import marker as health_marker
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

from .node import Role
from .options import Options
from .play import write_json
from .tracker import utc

SCHEMA = "mlcluster.node/1"
VERB = "on_node_configured"
LOG_DIRECTORY = "/var/log/mlcluster"
CLUSTER_LOG = "/var/log/parallelcluster"
# Author of the drain markers of a boot: the next run that succeeds removes them; a person's marker stays.
BY = "mlcluster boot hook"
SHIP_SECONDS = 60
# States of a role that has ended.
OVER = ("configured", "failed")


def uptime() -> float:
    """Return the seconds since the machine started; setting the clock does not change them."""
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])


class _ClusterLog(logging.StreamHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore a full disk: the same line is in the log of the hook."""

    def close(self) -> None:
        """Close the file; on a full disk the last lines are lost."""
        with contextlib.suppress(OSError):
            self.stream.close()
        super().close()


class Report:
    """State of one run, in ``status.json`` and in the log."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.directory = options.path(LOG_DIRECTORY)
        self.logger, self.log_file = log.setup(VERB, str(self.directory))
        cluster = options.path(CLUSTER_LOG)
        if cluster.is_dir():
            try:
                # ParallelCluster lets every user write in its directory of logs.
                handler = _ClusterLog(log.open_log(str(cluster / "mlcluster.log"), 0o644, own=True))
                handler.setFormatter(logging.Formatter("%(asctime)s on_node_configured: %(message)s"))
                self.logger.addHandler(handler)
            except OSError as exc:
                self.logger.warning(
                    "cannot write %s/mlcluster.log (%s): nothing is written there", cluster, exc.strerror
                )
        self.write_failed = False
        self.document: dict[str, Any] = {
            "schema": SCHEMA,
            "state": "waiting",
            "stage": "look",
            "message": "",
            "exit_code": None,
            "on_failure": options.on_failure,
            "phase": options.phase,
            "started": utc(time.time() - (uptime() - options.started_at)),
            "deadline_seconds": round(options.deadline_at - options.started_at),
            "bundle": {"source": options.source.partition("?")[0], "sha256": options.sha256},
            "node": {},
            "roles": [],
            "waits": [],
            "warnings": [],
            "log": self.log_file,
            "run": "",
        }

    @property
    def status_file(self) -> Path:
        """The state of this run, in JSON."""
        return self.directory / "status.json"

    def left(self) -> float:
        """Return the seconds until the deadline, 0 when it is past."""
        return max(0.0, self.options.deadline_at - uptime())

    def update(self, **values: Any) -> None:
        """Change entries and write the file; a full disk is reported once and does not end the run."""
        self.document.update(values)
        self.document["updated"] = utc(time.time())
        self.document["elapsed"] = round(uptime() - self.options.started_at, 1)
        try:
            write_json(self.status_file, self.document)
        except OSError as exc:
            if not self.write_failed:
                self.write_failed = True
                self.logger.warning(
                    "cannot write %s (%s): the run continues without it", self.status_file, exc.strerror
                )

    def info(self, text: str) -> None:
        """Log a line."""
        self.logger.info("%s", text)

    def warn(self, text: str) -> None:
        """Log a warning and keep it in the status file."""
        self.logger.warning("%s", text)
        self.update(warnings=[*self.document["warnings"], text])

    def roles(self, roles: Sequence[Role], snapshot: Mapping[str, Any]) -> None:
        """Record the progress of the play; log a line for each role that ended since the last call."""
        over = {entry["role"] for entry in self.document["roles"] if entry["state"] in OVER}
        self.update(roles=role_states(roles, snapshot))
        for entry in self.document["roles"]:
            if entry["state"] in OVER and entry["role"] not in over:
                self._log_outcome(entry)

    def _log_outcome(self, entry: Mapping[str, Any]) -> None:
        text = f"role {entry['role']} {entry['state']} after {entry['seconds']:.1f} s"
        if entry["state"] == "configured":
            self.info(f"{text}, {entry['changed']} changed")
            return
        message = " ".join(entry["message"].split())
        text += f" at {entry['task']!r}: {message}"
        if entry["required"]:
            self.logger.error("%s", text)
        else:
            self.logger.warning("%s; it is best effort, so the run continues", text)

    def finish(self, state: str, message: str, exit_code: int) -> int:
        """Report the end of the run by the policy; return the exit code of the hook."""
        policy = self.options.on_failure
        code = exit_code if state == "configured" or policy == "terminate" else 0
        if state == "configured":
            self._clear_marker()
            self.info(message)
        else:
            self.logger.error("ERROR: %s", message)
            state = "drained" if policy == "drain" and self._leave_marker(message) else "failed"
        self.update(state=state, message=message, exit_code=exit_code)
        if state != "configured":
            self._copy_logs()
        return code

    def _marker(self) -> str:
        return str(self.options.path(health_marker.MARKER_PATH))

    def _leave_marker(self, message: str) -> bool:
        host = Host()
        try:
            marker = health_marker.read_marker(host, self._marker())
            if marker is None or marker.by == BY:
                health_marker.write_marker(host, message, BY, self._marker())
        except NodeError as exc:
            self.warn(f"jobs could not be kept away: {exc}")
            return False
        return True

    def _clear_marker(self) -> None:
        host = Host()
        try:
            marker = health_marker.read_marker(host, self._marker())
            if marker is not None and marker.by == BY:
                health_marker.clear_marker(host, self._marker())
            elif marker is not None:
                self.warn(f"jobs are still kept away, for another reason: {marker.reason}")
        except NodeError as exc:
            self.warn(f"the drain marker could not be read: {exc}")

    def _copy_logs(self) -> None:
        """Copy log, status and the log of the play below ``--log-prefix``; a failure to copy is a warning."""
        if not self.options.log_prefix:
            return
        name = self.document["node"].get("instance_id") or platform.node()
        prefix = f"{self.options.log_prefix.rstrip('/')}/{name}"
        files = [Path(self.log_file or ""), self.status_file, Path(self.document["run"] or "/nonexistent")]
        try:
            for path in files:
                if path.is_file():
                    upload(path, f"{prefix}/{path.name}", self.options.root, self.options.bucket_owner)
        except Exception as exc:
            self.logger.warning("the log could not be copied to %s: %s", prefix, " ".join(str(exc).split())[:300])
        else:
            self.info(f"log and status were copied to {prefix}")


# For a Python of the node that has boto3: the bundle has none.
UPLOAD = """import sys, boto3, botocore.config
config = botocore.config.Config(connect_timeout=5, read_timeout=20)
*place, owner = sys.argv[1:]
boto3.client("s3", config=config).upload_file(*place, {"ExpectedBucketOwner": owner} if owner else {})
"""


def upload(path: Path, target: str, root: Path, owner: str = "") -> None:
    """Upload one file to an s3:// address with the AWS CLI, else with a Python of this node that has boto3.

    ``owner`` is the account that the bucket has to belong to, empty for any.

    Raises OSError if there is neither, and SubprocessError with the error of the upload.
    """
    bucket, _slash, key = target[len("s3://") :].partition("/")
    pythons = [
        sys.executable,
        "python3",
        *map(str, root.glob("opt/parallelcluster/pyenv/versions/*/envs/*/bin/python3")),
    ]
    ways = [["aws", "s3api", "put-object", "--bucket", bucket, "--key", key, "--body", str(path)]]
    ways[0] += ["--expected-bucket-owner", owner] if owner else []
    ways += [[python, "-I", "-c", UPLOAD, str(path), bucket, key, owner] for python in pythons]
    problem: Exception = FileNotFoundError("neither the AWS CLI nor a Python with boto3 is on this node")
    for way in ways:
        try:
            completed = subprocess.run(way, capture_output=True, timeout=SHIP_SECONDS, text=True, check=False)
        except FileNotFoundError:
            continue
        if completed.returncode == 0:
            return
        if "No module named 'boto3'" not in completed.stderr:
            problem = subprocess.SubprocessError((completed.stderr.strip().splitlines() or ["no error output"])[-1])
    raise problem


def role_states(roles: Sequence[Role], snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return an entry for each role: seconds and number of changes; for a failed one also ``task`` and ``message``.

    The state is ``configured`` or ``failed`` once the play has recorded that; until then ``pending`` or ``running``,
    and ``interrupted`` if the play ended first.
    """
    over = snapshot["state"] not in ("starting", "running")
    entries: list[dict[str, Any]] = []
    for role in roles:
        name = role.name.rpartition(".")[2]
        role_tasks = [task for task in snapshot["tasks"] if task["role"] == name]
        outcome = snapshot["outcomes"].get(role.name)
        if outcome:
            state = outcome["state"]
        elif not role_tasks:
            state = "pending"
        else:
            state = "interrupted" if over else "running"
        entry = {
            "role": role.name,
            "required": role.required,
            "state": state,
            "seconds": round(sum(task["seconds"] for task in role_tasks), 3),
            "changed": sum(task["changed"] for task in role_tasks),
        }
        if state == "failed":
            entry.update(task=outcome["task"], message=outcome["message"])
        entries.append(entry)
    return entries


def prune(bundles: Path, current: str, keep: int = 2) -> None:
    """Remove unpacked bundles except that of this run and the ``keep - 1`` used last."""
    old = sorted(
        (path for path in bundles.iterdir() if path.is_dir() and len(path.name) == 64 and path.name != current),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for path in old[keep - 1 :]:
        # Renamed first: half a bundle must not look like a whole one.
        doomed = path.with_name(f".work.{path.name}")
        os.replace(path, doomed)
        subprocess.run(["rm", "-rf", "--", str(doomed)], check=False)
