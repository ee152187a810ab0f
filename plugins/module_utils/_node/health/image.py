# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The container profile inside an image on this node, started through Slurm and Pyxis like a job's step."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import typing as t
import uuid

from ..containers.start_errors import start_problem
from ..efa.plugin import LOADER
from ..slurm.client import Slurm, node_name
from ..slurm.look import container_options
from ..slurm.parse import nodes
from ..system.host import CommandError, CommandResult, Host, NodeError
from ..system.state import write_json
from ..verdict import result
from ..verdict.result import Result, Scope, failed, not_applicable, passed, undeterminable
from .container import host_facts

CHECK = "container.image"
RUNTIME_PATH = "/usr/local/lib/mlcluster/mlcluster.pyz"
# A job may have its own /tmp (job_container/tmpfs), but not its own /run/mlcluster.
FACTS_FOLDER = "/run/mlcluster"
# Limits in seconds: waiting for the node, the profile inside, everything.
WAIT_SECONDS = 20
INSIDE_SECONDS = 60
LONGEST = 140
ASK_SECONDS = 20
_NO_PLACE = re.compile(r"Unable to allocate resources|Immediate execution|Requested nodes are busy")
_PYXIS = re.compile(r"pyxis:|enroot|\[ERROR\]")


def runtime_path(host: Host) -> str | None:
    """Return the runtime file for a container: the running one, else the one that the roles install."""
    running = next((path for path in sys.path if path.endswith(".pyz")), None)
    return running or (RUNTIME_PATH if host.exists(RUNTIME_PATH) else None)


def check_image(host: Host, slurm: Slurm, image: str, user: str = "root") -> list[Result]:
    """Return container.image and the verdicts of the container profile inside the image, with the image in their scope.

    Leaves nothing behind and disturbs no job: on a full node the result is undeterminable.
    """
    scope = Scope(device=image)
    try:
        argv, why = _command(host, slurm, image, user)
    except (CommandError, NodeError) as exc:
        return [undeterminable(CHECK, str(exc), scope=scope)]
    if why is not None:
        return [dataclasses.replace(why, scope=scope)]
    facts = f"{FACTS_FOLDER}/host_facts-{uuid.uuid4().hex}.json"
    runtime = t.cast(str, runtime_path(host))
    started = host.monotonic()
    try:
        write_json(host, facts, host_facts(host))
        inside = ["python3", runtime, "health", "--profile", "container", "--json", "--host-facts", facts]
        inside += ["--seconds", str(INSIDE_SECONDS)]
        mounts = f"--container-mounts={runtime}:{runtime},{facts}:{facts}"
        completed = host.run([*argv, mounts, *inside], timeout=LONGEST, check=False)
    except (CommandError, NodeError, OSError) as exc:
        return [undeterminable(CHECK, f"the container could not be started: {exc}", scope=scope)]
    finally:
        host.remove(facts)
    return _read(image, completed, round(host.monotonic() - started, 3))


def _command(host: Host, slurm: Slurm, image: str, user: str) -> tuple[list[str], Result | None]:
    """Return the beginning of the srun command, and a verdict if it cannot be run."""
    if runtime_path(host) is None:
        hint = "run the role nvme_raid0 or enroot_pyxis on this node"
        return [], undeterminable(CHECK, f"{RUNTIME_PATH}, which runs in the container, is missing", hint=hint)
    if not container_options(slurm.run("srun", "--help", timeout=ASK_SECONDS).stdout):
        hint = "run the role enroot_pyxis on this node"
        return [], undeterminable(CHECK, "srun has no --container-image: Pyxis is not loaded", hint=hint)
    name = node_name()
    show = ("--details", "--oneliner", "show", "node", name)
    known = nodes(slurm.run("scontrol", *show, timeout=ASK_SECONDS).stdout)
    if not known:
        return [], not_applicable(CHECK, "Slurm runs no jobs on this node")
    own = [node for node in known if name in (node["name"], node["hostname"])]
    if len(own) != 1:
        listed = ", ".join(node["name"] for node in known)[:300]
        return [], undeterminable(CHECK, f"scontrol was asked for {name or 'a node without a name'} and shows {listed}")
    if image.startswith("/") and not host.exists(image):
        hint = "create it with the module enroot_image on storage that this node has mounted"
        return [], undeterminable(CHECK, "the image is missing", hint=hint)
    options = ["--quiet", "--nodes=1", "--ntasks=1", f"--nodelist={own[0]['name']}", "--time=5", "--chdir=/"]
    options += [f"--immediate={WAIT_SECONDS}", "--job-name=mlcluster-health", "--mpi=none"]
    # Without them Slurm hides the GPUs from the step.
    options += [f"--gres=gpu:{own[0]['gpus']}"] if own[0]["gpus"] else []
    become = [] if user == "root" else ["runuser", "-u", user, "--"]
    # As in jobs of the role slurm_jobs: the paths of the host's loader stay outside.
    outside = ["env", *(word for name in LOADER for word in ("-u", name))]
    return [*outside, *become, *slurm.argv("srun", *options, f"--container-image={image}")], None


def _read(image: str, completed: CommandResult, seconds: float) -> list[Result]:
    """Return the verdicts of the report, which is the last line of the step's output."""
    scope = Scope(device=image)
    document = next((line for line in reversed(completed.stdout.splitlines()) if line.startswith("{")), "")
    try:
        report = result.loads(document)
        found = report.results if isinstance(report, result.Report) else ()
    except result.ResultError:
        found = ()
    if found:
        verdicts = [_inside(image, verdict) for verdict in found]
        return [passed(CHECK, f"{len(found)} checks inside", scope=scope, seconds=seconds), *verdicts]
    errors = start_problem(completed.stderr) or " ".join(completed.stderr.split())[-300:] or "no error output"
    if _NO_PLACE.search(completed.stderr):
        return [
            undeterminable(CHECK, "jobs occupy the node, so no container was started", scope=scope, seconds=seconds)
        ]
    if completed.rc and _PYXIS.search(completed.stderr):
        hint = "look with 'mlcluster containers-info', then try the image with srun by hand"
        if "Invalid image format" in errors:
            # Enroot's words also for a file that the user may not read.
            hint = "check that the file is a complete squashfs image, and that the user may read it"
        message = f"no container starts: {errors}"
        return [failed(CHECK, message, severity="reset", scope=scope, hint=hint, seconds=seconds)]
    hint = "check that the image has python3, 3.9 or newer"
    return [undeterminable(CHECK, f"the container gave no report: {errors}", scope=scope, hint=hint, seconds=seconds)]


def _inside(image: str, verdict: Result) -> Result:
    device = f"{image} {verdict.scope.device}" if verdict.scope.device else image
    return dataclasses.replace(verdict, scope=dataclasses.replace(verdict.scope, device=device))


def image_problem(image: str) -> str | None:
    """Return the error in an image name, or None. The name becomes an option of srun, and must not add another one."""
    good = json.dumps(image) == f'"{image}"' and not image.startswith("-") and " " not in image and image.isprintable()
    return None if good and image else f"image is {image!r}: use the path of a .sqsh file, or REGISTRY#NAME:TAG"
