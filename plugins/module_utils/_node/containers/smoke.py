# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start a container through Slurm as an ordinary user, and prove it from inside the container.

If the plugin is not loaded or the option is ignored, the command runs on the host and ends with 0. So the same command
runs on the same node without and with the container, and the two must have different root directories.
"""

from __future__ import annotations

import dataclasses
import re
import socket
import typing as t

from ..slurm import states
from ..system.host import CommandError
from ..verdict.result import Result, Scope, failed, not_applicable, passed, undeterminable
from .host import EnrootHost
from .start_errors import start_problem

# Prints the identity of the root directory, and whether the devices of EFA are visible.
_SHOW = "echo node=$SLURMD_NODENAME root=$(stat -c %d:%i /) efa=$(ls -d /dev/infiniband 2>/dev/null)"


@dataclasses.dataclass(frozen=True)
class Trial:
    """One trial: the image, the user, the node ("" for any), the seconds, and the plugin for MPI ("" for none)."""

    image: str
    user: str
    node: str
    seconds: int
    mpi: str = ""


def smoke(host: EnrootHost, bin_dir: str, image: str, users: t.Sequence[str], seconds: int) -> list[Result]:
    """Return verdicts pyxis.container (one a user), pyxis.pmix and pyxis.devices. Leaves no files."""
    if not image:
        return [not_applicable("pyxis.container", "no image is set for the test: set enroot_pyxis_smoke_image")]
    if not host.exists(image):
        return [
            undeterminable(
                "pyxis.container",
                f"{image} is missing",
                hint="create it with enroot_image on storage that all nodes share",
            )
        ]
    node = node_name(host, bin_dir)
    if node is None:
        # A container on another node proves nothing of this one.
        reason = "sinfo gave no answer, so the name of this node in Slurm is not known"
        return [undeterminable("pyxis.container", reason, hint="look with 'scontrol ping'")]
    results = []
    seen = None
    for user in users:
        verdict, inside = try_container(host, bin_dir, Trial(image, user, node, seconds))
        results.append(verdict)
        seen = seen or inside
    if results[0].status == "pass":
        mpi = _mpi_plugin(host, bin_dir)
        trial = Trial(image, users[0], node, seconds, mpi or "")
        silent = undeterminable("pyxis.pmix", "srun --mpi=list gave no answer")
        results.append(silent if mpi is None else _pmix(host, bin_dir, trial))
        results.append(_devices(seen or {}))
    return results


def _sinfo(bin_dir: str) -> list[str]:
    """Return the beginning of sinfo; --local: in a federation another cluster may have a node of this name."""
    return [f"{bin_dir}/sinfo", "--noheader", "--Node", "--local"]


def node_name(host: EnrootHost, bin_dir: str) -> str | None:
    """Return this node's name in Slurm; None if sinfo does not answer.

    "" if Slurm does not list the node, such as a login node: then the container starts on any node.
    """
    try:
        output = host.run([*_sinfo(bin_dir), "--format=%N %n"], timeout=30).stdout
    except CommandError:
        return None
    name = socket.gethostname().split(".", 1)[0]
    for line in output.splitlines():
        words = line.split()
        if name in words:
            return words[0]
    return ""


def node_state(host: EnrootHost, bin_dir: str) -> Result:
    """Return the verdict on whether a failed prolog or epilog, such as that of Pyxis, has drained this node."""
    check, name = "pyxis.node", node_name(host, bin_dir)
    if name is None:
        # Undeterminable would fail the role on a node that is configured before its controller runs.
        return not_applicable(check, "sinfo gave no answer, so nothing was checked: slurmctld may not run yet")
    if not name:
        return not_applicable(check, "Slurm has no node of this name, so it drains none")
    try:
        # A line for each partition of the node.
        lines = set(host.run([*_sinfo(bin_dir), f"--nodes={name}", "--format=%T %E"], timeout=30).stdout.splitlines())
    except CommandError as exc:
        return undeterminable(check, f"sinfo gave no state of {name}: {exc}")
    if len(lines) > 1:
        return undeterminable(check, f"sinfo gives {len(lines)} states of {name}: {'; '.join(sorted(lines))[:300]}")
    state, _space, reason = "".join(lines).partition(" ")
    effect, why = states.availability(*states.split(state))
    # A node that was resumed keeps the reason for a while (seen with Slurm 24.11).
    if effect == states.CLOSED and ("epilog error" in reason.lower() or "prolog error" in reason.lower()):
        return failed(
            check,
            f"this node takes no jobs: {state}, {reason.strip()}",
            severity="isolate",
            hint="with container_scope job the epilog must find enroot; fix it, then scontrol update State=RESUME",
        )
    if effect == states.UNKNOWN:
        return undeterminable(check, f"the node is {why}", found=state)
    # Other reasons for a drained node are not about containers: slurm.node reports them.
    return passed(check, state)


def try_container(host: EnrootHost, bin_dir: str, trial: Trial) -> tuple[Result, dict[str, str] | None]:
    """Return the verdict on one user's container, and its output; the second is None if nothing was proved."""
    check, scope = "pyxis.container", Scope(device=trial.user)
    if host.uid(trial.user) is None:
        return undeterminable(check, f"there is no user {trial.user} on this node", scope=scope), None
    started = host.monotonic()
    try:
        outside = _run_step(host, bin_dir, trial, False)
    except CommandError as exc:
        reason = f"Slurm starts no job now, so no container was tested: {exc}"
        return undeterminable(check, reason, scope=scope), None
    # The second step must run on the node of the first, or the root directories cannot be compared.
    second_trial = dataclasses.replace(trial, node=trial.node or outside.get("node", ""))
    try:
        inside = _run_step(host, bin_dir, second_trial, True)
    except CommandError as exc:
        if exc.rc is None or _has_timed_out(exc.stderr):
            return undeterminable(check, f"the container did not start in time: {exc}", scope=scope), None
        text, hint = f"no container starts for {trial.user}: {start_problem(exc.stderr) or exc}", None
        if "account is currently not available" in exc.stderr:
            hint = "Enroot starts the user's login shell, and that of this user is nologin: choose another user"
        if "TaskProlog failed" in exc.stderr:
            hint = "Slurm runs TaskProlog inside the container, where it is missing: remove it from slurm.conf"
        return failed(check, text, severity="isolate", scope=scope, hint=hint), None
    other = inside.get("node") or second_trial.node
    if second_trial.node and other != second_trial.node:
        # Two nodes have different root directories without any container.
        text = f"the step ran on {other} instead of {second_trial.node}, so nothing proves that it ran in a container"
        return undeterminable(check, text, scope=scope), None
    if not inside.get("root") or inside["root"] == outside.get("root"):
        text = f"a job of {trial.user} that requested a container ran on the host: Pyxis is not active"
        hint = "check 'srun --help | grep container-image' and plugstack.conf"
        return failed(check, text, severity="isolate", scope=scope, hint=hint), None
    found = f"a container of {trial.user} on {inside.get('node') or 'a node'}, with its own root directory"
    return passed(check, found, scope=scope, seconds=round(host.monotonic() - started, 3)), {
        **inside,
        "outside_efa": outside.get("efa", ""),
    }


def _pmix(host: EnrootHost, bin_dir: str, trial: Trial) -> Result:
    if not trial.mpi:
        return not_applicable("pyxis.pmix", "this Slurm was built without PMIx")
    try:
        host.run(_command(bin_dir, trial, False, "true"), timeout=trial.seconds + 30)
    except CommandError as exc:
        if "Invalid MPI type" in exc.stderr:
            # srun --mpi=list names the plugin even if the library that it needs is missing.
            return not_applicable("pyxis.pmix", "this Slurm lists PMIx and cannot load it, also without a container")
        return undeterminable(
            "pyxis.pmix", f"this Slurm starts nothing with --mpi={trial.mpi}, also without a container: {exc}"
        )
    show = 'test -n "$PMIX_RANK" && test -d "$PMIX_SERVER_TMPDIR" && echo ready'
    try:
        output = host.run(_command(bin_dir, trial, True, show), timeout=trial.seconds + 30).stdout
    except CommandError as exc:
        if exc.rc is None or _has_timed_out(exc.stderr):
            return undeterminable("pyxis.pmix", f"the container did not start in time: {exc}")
        problem = start_problem(exc.stderr)
        if problem:
            hint = "see the hook 50-slurm-pmi.sh of Enroot, which mounts the directories of PMIx"
            if re.search(r"%[nh]\b", problem):
                hint = "set SlurmdSpoolDir to a path without %n and %h, which the hook 50-slurm-pmi.sh does not replace"
            return failed("pyxis.pmix", f"no container starts with --mpi={trial.mpi}: {problem}", hint=hint)
        return failed(
            "pyxis.pmix",
            f"a container started with --mpi={trial.mpi} does not see the directory of the PMIx server",
            hint="add 50-slurm-pmi.sh to enroot_pyxis_hooks",
        )
    if "ready" not in output:
        return undeterminable("pyxis.pmix", "the container gave no answer")
    return passed("pyxis.pmix", f"a container with --mpi={trial.mpi} sees the PMIx server")


def _devices(seen: t.Mapping[str, str]) -> Result:
    if not seen.get("outside_efa"):
        return not_applicable("pyxis.devices", "the node has no /dev/infiniband")
    if seen.get("efa"):
        return passed("pyxis.devices", "/dev/infiniband is visible inside the container")
    return failed(
        "pyxis.devices",
        "/dev/infiniband is on the node and not inside the container, so NCCL would use TCP",
        severity="isolate",
        hint="set ENROOT_RESTRICT_DEV to no in enroot_pyxis_conf",
    )


def _command(bin_dir: str, trial: Trial, container: bool, show: str) -> list[str]:
    argv = ["runuser", "-u", trial.user, "--", f"{bin_dir}/srun", "--quiet", "--nodes=1", "--ntasks=1", "--time=5"]
    argv += [f"--immediate={trial.seconds}", "--chdir=/", "--job-name=mlcluster-smoke"]
    argv += [f"--nodelist={trial.node}"] if trial.node else []
    argv += [f"--mpi={trial.mpi}"] if trial.mpi else ["--mpi=none"]
    argv += [f"--container-image={trial.image}"] if container else []
    return [*argv, "sh", "-c", show]


def _run_step(host: EnrootHost, bin_dir: str, trial: Trial, container: bool) -> dict[str, str]:
    output = host.run(_command(bin_dir, trial, container, _SHOW), timeout=trial.seconds + 30).stdout
    return dict(re.findall(r"\b(node|root|efa)=(\S*)", output))


def _has_timed_out(stderr: str) -> bool:
    return "Unable to allocate resources" in stderr or "Immediate execution" in stderr


def _mpi_plugin(host: EnrootHost, bin_dir: str) -> str | None:
    """Return the plugin for PMIx, "" without it; None if srun does not list its plugins."""
    try:
        completed = host.run([f"{bin_dir}/srun", "--mpi=list"], timeout=30)
    except CommandError:
        return None
    return "pmix" if re.search(r"^\s*pmix\b", completed.stdout + completed.stderr, re.MULTILINE) else ""
