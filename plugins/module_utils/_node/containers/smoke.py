# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts a container through Slurm as an ordinary user, and believes it only when the container is seen from inside.

A plugin that is not loaded, or an option that is ignored, lets the command run on the host and end with 0. So the
same command runs on the same node without and with the container, and the two must not see the same root directory.
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

# Prints what only this place has: the root directory, and whether the devices of EFA can be seen.
_SHOW = "echo node=$SLURMD_NODENAME root=$(stat -c %d:%i /) efa=$(ls -d /dev/infiniband 2>/dev/null)"


@dataclasses.dataclass(frozen=True)
class Trial:
    """What is tried: the image, the user, the node ("" for any), the seconds, and the plugin for MPI ("" for none)."""

    image: str
    user: str
    node: str
    seconds: int
    mpi: str = ""


def smoke(host: EnrootHost, bin_dir: str, image: str, users: t.Sequence[str], seconds: int) -> list[Result]:
    """Verdicts pyxis.container (one a user), pyxis.pmix and pyxis.devices. Nothing is left behind."""
    if not image:
        return [not_applicable("pyxis.container", "no image was given to try: set enroot_pyxis_smoke_image")]
    if not host.exists(image):
        return [
            undeterminable(
                "pyxis.container",
                f"{image} is not there",
                hint="make it with enroot_image on storage that all nodes see",
            )
        ]
    node = node_name(host, bin_dir)
    results = []
    seen = None
    for user in users:
        verdict, inside = try_container(host, bin_dir, Trial(image, user, node, seconds))
        results.append(verdict)
        seen = seen or inside
    trial = Trial(image, users[0], node, seconds, _mpi_plugin(host, bin_dir))
    if results[0].status == "pass":
        results.append(_pmix(host, bin_dir, trial))
        results.append(_devices(seen or {}))
    return results


def node_name(host: EnrootHost, bin_dir: str) -> str:
    """The name that Slurm has for this node, "" when it runs no jobs: then any node will do."""
    try:
        said = host.run([f"{bin_dir}/sinfo", "--noheader", "--Node", "--format=%N %n"], timeout=30).stdout
    except CommandError:
        return ""
    name = socket.gethostname().split(".", 1)[0]
    for line in said.splitlines():
        words = line.split()
        if name in words:
            return words[0]
    return ""


def node_state(host: EnrootHost, bin_dir: str) -> Result:
    """Whether the end of a job has drained this node: an epilog that fails, as Pyxis' own may, stops the queue."""
    check, name = "pyxis.node", node_name(host, bin_dir)
    if not name:
        return not_applicable(check, "Slurm does not know this node, or gives no answer now")
    try:
        argv = [f"{bin_dir}/sinfo", "--noheader", "--Node", f"--nodes={name}", "--format=%T %E"]
        state, _space, reason = host.run(argv, timeout=30).stdout.split("\n", 1)[0].partition(" ")
    except CommandError as exc:
        return undeterminable(check, f"sinfo gave no state of {name}: {exc}")
    effect, why = states.availability(*states.split(state))
    # A node that was resumed keeps the reason for a while (seen with Slurm 24.11).
    if effect == states.CLOSED and ("epilog error" in reason.lower() or "prolog error" in reason.lower()):
        return failed(
            check,
            f"this node takes no jobs: {state}, {reason.strip()}",
            severity="isolate",
            hint="with container_scope job the epilog has to find enroot; mend it, then scontrol update State=RESUME",
        )
    if effect == states.UNKNOWN:
        return undeterminable(check, f"the node is {why}", found=state)
    # A node that is drained for another reason says nothing of containers: slurm.node judges it.
    return passed(check, state)


def try_container(host: EnrootHost, bin_dir: str, trial: Trial) -> tuple[Result, dict[str, str] | None]:
    """One user's container, and what it saw inside; the second is None where nothing was proved."""
    check, scope = "pyxis.container", Scope(device=trial.user)
    if host.uid(trial.user) is None:
        return undeterminable(check, f"there is no user {trial.user} on this node", scope=scope), None
    started = host.monotonic()
    try:
        outside = _seen(host, bin_dir, trial, False)
    except CommandError as exc:
        reason = f"Slurm runs no job at all now, so containers could not be tried: {exc}"
        return undeterminable(check, reason, scope=scope), None
    # The second step has to run where the first did, or the root directories could not be compared.
    there = dataclasses.replace(trial, node=trial.node or outside.get("node", ""))
    try:
        inside = _seen(host, bin_dir, there, True)
    except CommandError as exc:
        if exc.rc is None or _gave_up_waiting(exc.stderr):
            return undeterminable(check, f"the container did not start in time: {exc}", scope=scope), None
        text, hint = f"no container starts for {trial.user}: {exc}", None
        if "TaskProlog failed" in exc.stderr:
            hint = "Slurm runs TaskProlog inside the container and ends what has none: take it out of slurm.conf"
        return failed(check, text, severity="isolate", scope=scope, hint=hint), None
    if not inside.get("root") or inside["root"] == outside.get("root"):
        text = f"a job of {trial.user} that asked for a container ran on the host: Pyxis is not at work"
        hint = "look with 'srun --help | grep container-image' and at plugstack.conf"
        return failed(check, text, severity="isolate", scope=scope, hint=hint), None
    found = f"a container of {trial.user} on {inside.get('node') or 'a node'}, with a root directory of its own"
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
            # srun --mpi=list names it wherever the plugin lies, also where the library that it needs does not.
            return not_applicable("pyxis.pmix", "this Slurm lists PMIx and cannot load it, container or not")
        return undeterminable(
            "pyxis.pmix", f"this Slurm starts nothing with --mpi={trial.mpi}, container or not: {exc}"
        )
    show = 'test -n "$PMIX_RANK" && test -d "$PMIX_SERVER_TMPDIR" && echo ready'
    try:
        said = host.run(_command(bin_dir, trial, True, show), timeout=trial.seconds + 30).stdout
    except CommandError as exc:
        if exc.rc is None or _gave_up_waiting(exc.stderr):
            return undeterminable("pyxis.pmix", f"the container did not start in time: {exc}")
        return failed(
            "pyxis.pmix",
            f"a container started with --mpi={trial.mpi} does not see the directory of the PMIx server",
            hint="add 50-slurm-pmi.sh to enroot_pyxis_hooks",
        )
    if "ready" not in said:
        return undeterminable("pyxis.pmix", "the container gave no answer")
    return passed("pyxis.pmix", f"a container with --mpi={trial.mpi} sees the PMIx server")


def _devices(seen: t.Mapping[str, str]) -> Result:
    if not seen.get("outside_efa"):
        return not_applicable("pyxis.devices", "the node has no /dev/infiniband")
    if seen.get("efa"):
        return passed("pyxis.devices", "/dev/infiniband is seen inside")
    return failed(
        "pyxis.devices",
        "/dev/infiniband is on the node and not inside the container, so NCCL would go by TCP",
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


def _seen(host: EnrootHost, bin_dir: str, trial: Trial, container: bool) -> dict[str, str]:
    said = host.run(_command(bin_dir, trial, container, _SHOW), timeout=trial.seconds + 30).stdout
    return dict(re.findall(r"\b(node|root|efa)=(\S*)", said))


def _gave_up_waiting(stderr: str) -> bool:
    return "Unable to allocate resources" in stderr or "Immediate execution" in stderr


def _mpi_plugin(host: EnrootHost, bin_dir: str) -> str:
    try:
        done = host.run([f"{bin_dir}/srun", "--mpi=list"], timeout=30)
    except CommandError:
        return ""
    return "pmix" if re.search(r"^\s*pmix\b", done.stdout + done.stderr, re.MULTILINE) else ""
