# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo of ``make site``: a local EC2-like node, configured by site.yml, and verified by its runtime and a job."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[3]
# The package of the hook imports the collection under its name, as it does on a node.
sys.path.insert(0, str(ROOT / ".collections"))

from hooks.mlcluster_boot import play
from plugins.module_utils._node.verdict import result

INVENTORY = "inventories/demo"
RUNTIME = "/usr/local/lib/mlcluster/mlcluster.pyz"
RECORD = "/var/lib/mlcluster/local_storage.json"
RIG = [sys.executable, "-m", "tests.rig.vm"]
SLURM = Path(__file__).with_name("slurm.sh")
# Submits the script that slurm_jobs wrote and prints the report that the job leaves when it has ended.
JOB = """cd /data/jobs/results && number=$(sbatch --parsable --chdir=/tmp ../node_smoke.sbatch) || exit 1
for _try in $(seq 3000); do [ -s "node_smoke-$number.exit" ] && break; sleep 0.2; done
cat "node_smoke-$number/report.json" """


class DemoError(Exception):
    """The demo cannot continue; the message states what was tried, what was found and what to do."""


def rig(*words: str, capture: bool = False, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one verb of the rig; its progress goes to standard error as it is."""
    done = subprocess.run([*RIG, *words], cwd=ROOT, stdout=subprocess.PIPE if capture else None, text=True, check=False)
    if check and done.returncode:
        raise DemoError(f"`{shlex.join(['python3', '-m', 'tests.rig.vm', *words])}` failed; its message is above")
    return done


def bring_up() -> tuple[dict[str, Any], bool]:
    """Return the status of the running demo node, and whether it ran before."""
    status = json.loads(rig("status", capture=True).stdout)
    if status["running"] and rig("ssh", "true", check=False).returncode == 0:
        return status, True
    rig("up")
    return json.loads(rig("status", capture=True).stdout), False


class Proof(NamedTuple):
    """The node's reports after the run; each is None if it is missing."""

    record: Optional[dict[str, Any]]
    mount: Optional[dict[str, Any]]
    report: Optional[result.Report]
    job: Optional[result.Report] = None


def start_slurm() -> None:
    """Make the node a Slurm cluster of one node, as an AMI or ParallelCluster does."""
    if rig("ssh", SLURM.read_text(encoding="utf-8"), check=False).returncode:
        raise DemoError("Slurm did not start on the node; its last output is above: `python3 -m tests.rig.vm ssh`")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def ask(ssh: Callable[[str], str]) -> Proof:
    """Return the node's record, mount and verdict, and a job's verdict; ``ssh`` runs a line on the node."""
    record = _json(ssh(f"cat {RECORD}"))
    record = record if isinstance(record, dict) else None
    path = record.get("path") if record else None
    mount = None
    if path:
        found = _json(
            ssh(f"findmnt --json --bytes --mountpoint {shlex.quote(path)} -o TARGET,SOURCE,FSTYPE,SIZE,OPTIONS")
        )
        mount = found["filesystems"][0] if isinstance(found, dict) and found.get("filesystems") else None
    return Proof(record, mount, _report(ssh(f"python3 {RUNTIME} storage-info --json")), _report(ssh(JOB)))


def _report(text: str) -> Optional[result.Report]:
    try:
        report = result.loads(text)
    except result.ResultError:
        return None
    return report if isinstance(report, result.Report) else None


def judge(outcome: play.Outcome, proof: Proof) -> tuple[int, str]:
    """Return the exit code (0 pass, 1 fail, 2 undeterminable) and the reason, from the run and the node's proof."""
    if outcome.exit_code:
        return outcome.exit_code, f"the playbook run ended as {outcome.state}"
    if proof.report is None:
        return 2, f"the node gave no verdict: `{RUNTIME} storage-info --json` did not answer with a report"
    if proof.job is None:
        return 2, "the job gave no verdict: it was not submitted, or left no report in /data/jobs/results"
    results = (*proof.report.results, *proof.job.results)
    code = result.exit_code(results)
    if not proof.report.results or not proof.job.results:
        return 2, "the node's report, or the job's, has no check in it"
    if code:
        worst = next(r for r in results if r.status == result.overall(results))
        return code, worst.line()
    if proof.mount is None:
        return 1, "findmnt does not see the volume on the node"
    return 0, f"{sum(r.status == result.PASS for r in results)} checks passed, on the node and in a job on it"


def size(number: Any) -> str:
    """Return bytes in binary units."""
    value = float(number or 0)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def _node_line(status: dict[str, Any], reused: bool) -> str:
    how = "already running" if reused else "started now"
    where = f"{status['name']}, a local {status['instance_type']} under {status['accelerator']}"
    return f"{where}, {how}, ssh port {status['ssh']['port']}"


def _job_line(job: Optional[result.Report]) -> str:
    if job is None:
        return "none"
    return f"node_smoke ran by Slurm on {job.host}: {result.overall(job.results)}, {len(job.results)} checks"


def verdict(status: dict[str, Any], reused: bool, outcome: play.Outcome, proof: Proof) -> list[str]:
    """Return the lines to print, without the closing hints."""
    code, why = judge(outcome, proof)
    record, mount = proof.record or {}, proof.mount or {}
    hosts = outcome.status["hosts"].values()
    seconds = ", ".join(f"{role} {spent:.0f} s" for role, spent in outcome.status["roles"].items() if role)
    rows = [
        ("node", _node_line(status, reused)),
        (
            "layout",
            f"{record.get('layout', 'unknown')} over {len(record.get('disks') or [])} disks: "
            + (" ".join(disk["path"] for disk in record.get("disks") or []) or "none"),
        ),
        ("device", str(record.get("device") or "none")),
        ("mount", f"{mount.get('target')} {mount.get('fstype')} {size(mount.get('size'))}" if mount else "none"),
        ("state", f"{record.get('state', 'unknown')}, owner {record.get('owner', 'unknown')}"),
        (
            "run",
            f"changed={sum(c['changed'] for c in hosts)} in {outcome.status['elapsed']:.0f} s"
            + (f" ({seconds})" if seconds else ""),
        ),
        ("job", _job_line(proof.job)),
        ("report", str(outcome.status_file.parent)),
    ]
    word = {0: "PASS", 1: "FAIL"}.get(code, "UNDETERMINABLE")
    return [f"mlcluster.aws demo: {word} ({why})"] + [f"  {name:<8}{text}" for name, text in rows]


HINTS = [
    "  look    python3 -m tests.rig.vm ssh",
    f"  again   make site   (or .venv/bin/ansible-playbook -i {INVENTORY} site.yml)",
    "  stop    python3 -m tests.rig.vm down",
]


def main() -> int:
    """Run the demo; returns 0 pass, 1 fail, 2 undeterminable."""
    began = time.monotonic()
    os.chdir(ROOT)
    try:
        status, reused = bring_up()
        start_slurm()
        outcome = play.run_playbook(
            ROOT / "site.yml",
            inventories=[INVENTORY],
            report_dir=play.default_report_dir(),
            project_dir=ROOT,
        )
        proof = ask(lambda line: rig("ssh", line, capture=True, check=False).stdout)
    except (DemoError, play.RunError) as exc:
        print(f"mlcluster.aws demo: {exc}", file=sys.stderr)
        return 2
    code, why = judge(outcome, proof)
    lines = verdict(status, reused, outcome, proof)
    document = {"verdict": code, "why": why, "record": proof.record, "mount": proof.mount}
    for name, report in (("report", proof.report), ("job", proof.job)):
        document[name] = report.to_dict() if report else None
    play.write_json(outcome.status_file.parent / "verdict.json", document)
    print("\n".join(["", *lines, f"  total   {time.monotonic() - began:.0f} s", *HINTS]))
    return code


if __name__ == "__main__":
    sys.exit(main())
