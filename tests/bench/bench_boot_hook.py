# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of the boot hook before the first role begins, against installing Ansible on the node with pip.

Both run the same playbook with a role of one task, from the same wheels and the same collections on the local disk.
They count from the start of the hook, or of the first command, to the mark that the task leaves. With pip, a node gets
the two collections that the roles of this one need there too: the bundle has what is needed of them.

Both are measured at each load of ``LOADS`` in one run, on one new ext4, and compared by their CPU seconds. A new one,
because ext4 inspects each inode that was deleted in the last minutes whenever it makes a file: on the disk of a machine
that tests things, that costs more than all else. A node that starts has deleted nothing. Needs root, for the mount and
for the control group that counts the CPU seconds of all processes exactly.

``python -m tests.bench.bench_boot_hook`` measures the hook with all roles alone, in a container without their hardware.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plugins.module_utils._bundle import archive, build, content, manifest, wheels
from plugins.module_utils._node.slurm.client import WITHOUT_SLURM
from tests.build import containers
from tests.rig.vm.command import RigError

ROOT = Path(__file__).resolve().parents[2]
PYTHON = f"3.{sys.version_info[1]}"
ROLE = "collections/ansible_collections/mlcluster/aws/roles/mark/tasks/main.yml"
# Evaluated on the controller when the task begins: the time and the CPU seconds until then are what is measured.
TASKS = b"""- name: Leave a mark
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.pipe', 'cat $CPU_STAT >$MARK') }}"
"""
# All roles of this collection: without their hardware and Slurm they do nothing. Only a head node has the last one.
ROLES = ("nvme_raid0", "efa_nccl", "nvidia_gds", "fsx_lustre", "enroot_pyxis", "slurm_jobs")
# On a node of a cluster, Slurm may only be missing on purpose.
VARIABLES = {f"{role}_slurm_prefix": WITHOUT_SLURM for role in ("enroot_pyxis", "slurm_jobs")}
# Processes beside what is measured that never wait.
LOADS = (0, 20)
# A run of the hook is short beside that of pip, so another program on the machine shifts it more.
ROUNDS = 3
# Least CPU seconds of pip for one of the hook, both until the first role.
TIMES = 5
# Size of the filesystem of one load; only what is written takes room.
FILESYSTEM_BYTES = 8 << 30


def request() -> build.Request:
    """Return the request for a bundle of this checkout: packages that were fetched once are kept."""
    return build.Request(
        collection=ROOT,
        requirements=ROOT / "requirements",
        others=[ROOT / ".collections"],
        others_lock="collections.txt",
        artifacts=[],
        cache=ROOT / ".build" / "bundle",
        pip=[sys.executable, "-m", "pip"],
        commit="",
        epoch=1_700_000_000,
    )


def make_bundle(target: Path) -> str:
    """Write the real bundle with one more role; return its sha256."""
    aim = archive.parse_target(f"debian-py{PYTHON}")
    files, components = build.collect_files(request(), aim)
    release = build.add_compiled(request(), aim, files)
    contents = manifest.manifest("0.0.1", "", aim, 1_700_000_000, components, release)
    files["MANIFEST.json"] = archive.Member(manifest.to_json(contents))
    files[ROLE] = archive.Member(TASKS)
    files["SUMS"] = archive.Member(archive.sums(files))
    target.write_bytes(archive.archive(files, 1_700_000_000))
    return archive.sha256(target.read_bytes())


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a node, without the settings of Python and Ansible of the calling user.

    A python3 that is a script, such as pyenv's, is replaced by the Python that it starts: a node has Python itself.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ANSIBLE_"))}
    return {**kept, "PATH": f"{Path(sys._base_executable).parent}:{kept['PATH']}", **more}


def call(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command. Raises RigError with the end of its output."""
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RigError(f"{' '.join(words[:4])} failed: {done.stdout[-300:]}{done.stderr[-300:]}")
    return done


@contextmanager
def new_filesystem(folder: Path) -> Iterator[Path]:
    """Mount a new ext4 below a folder; return its place. Raises RigError."""
    image, place = folder / "ext4", folder / "mounted"
    with image.open("wb") as file:
        file.truncate(FILESYSTEM_BYTES)
    place.mkdir()
    call("mkfs.ext4", "-q", "-F", str(image))
    call("mount", "-o", "loop", str(image), str(place))
    try:
        yield place
    finally:
        call("umount", str(place))
        image.unlink()


@contextmanager
def control_group() -> Iterator[Path]:
    """Return a new control group, which counts what its processes cost."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    places = [place for _device, place, kind, *_more in mounts if kind == "cgroup2"]
    if not places:
        raise RigError("no cgroup2 is mounted, so that nothing counts the CPU seconds: mount one")
    group = Path(tempfile.mkdtemp(prefix="mlcluster-bench-", dir=places[0]))
    try:
        yield group
    finally:
        group.rmdir()


def in_group(group: Path, command: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a control group. Raises RigError with the end of its output."""
    enter = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(group)]
    done = subprocess.run([*enter, *command], capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise RigError(f"{' '.join(command[:3])} failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done


def cpu_seconds(stat: Path) -> float:
    """Return the CPU seconds in a control group's file cpu.stat, or in a copy of it."""
    return int(dict(line.split() for line in stat.read_text(encoding="ascii").splitlines())["usage_usec"]) / 1e6


@contextmanager
def cpu(row: dict[str, Any]) -> Iterator[None]:
    """Add ``cpu``, the processor seconds of all commands in between, to a row."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    row["cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def to_first_role(commands: Sequence[Sequence[str]], folder: Path, **more: str) -> dict[str, float]:
    """Run commands, the last of which leaves the mark; return the cost to it and of all. Raises RigError."""
    mark = folder / "mark"
    with control_group() as group:
        stat = group / "cpu.stat"
        values = environment(MARK=str(mark), CPU_STAT=str(stat), TMPDIR=str(folder), **more)
        begun = time.time()
        for command in commands:
            in_group(group, command, env=values, cwd=folder)
        return {
            "first_role": mark.stat().st_mtime - begun,
            "first_role_cpu": cpu_seconds(mark),
            "seconds": time.time() - begun,
            "cpu": cpu_seconds(stat),
        }


def by_hook(folder: Path, bundle: Path, sha: str, title: str) -> dict[str, Any]:
    """Measure one run of the hook. Raises RigError."""
    hook = ["bash", str(ROOT / "hooks/on_node_configured.sh"), "--root", str(folder), "--bundle", str(bundle)]
    hook += ["--sha256", sha, "--roles", "mark", "--on-failure", "terminate"]
    cost = to_first_role([hook], folder, AWS_EC2_METADATA_DISABLED="true")
    status = json.loads((folder / "var/log/mlcluster/status.json").read_text(encoding="utf-8"))
    return {"run": title, **cost, "changed": sum(role["changed"] for role in status["roles"])}


def by_roles(name: str, sha: str, title: str) -> dict[str, Any]:
    """One run of the hook with all roles in a container, which has none of their hardware. Raises ContainerError."""
    hook = ["bash", "/srv/hook.sh", "--root", "/srv/root", "--bundle", "/srv/bundle.tar.gz", "--sha256", sha]
    hook += ["--roles", ",".join(ROLES), "--node-type", "head", "--vars", json.dumps(VARIABLES)]
    hook += ["--on-failure", "terminate"]
    quiet = ["exec", "--env", "AWS_EC2_METADATA_DISABLED=true", name]
    begun = time.time()
    run = containers.podman(*quiet, "python3", "/srv/cost.py", "/srv/cost.json", *hook)
    seconds = time.time() - begun
    containers.require_success(run, f"The hook in {name}")
    status = json.loads(
        containers.require_success(
            containers.podman("exec", name, "cat", "/srv/root/var/log/mlcluster/status.json"), "Its status"
        )
    )
    cost = json.loads(containers.require_success(containers.podman("exec", name, "cat", "/srv/cost.json"), "Its cost"))
    changed = sum(role["changed"] for role in status["roles"])
    nothing = {"first_role": None, "first_role_cpu": None}
    return {"run": title, **nothing, "cpu": cost["cpu_seconds"], "seconds": seconds, "changed": changed}


def measure_roles(bundle: Path, sha: str) -> list[dict[str, Any]]:
    """Measure a first run of the hook with all roles, and one with nothing to do. Raises ContainerError."""
    name = f"{containers.PREFIX}bench-hook-debian12"
    containers.up(name)
    try:
        for source, target in (
            (bundle, "bundle.tar.gz"),
            (ROOT / "hooks" / "on_node_configured.sh", "hook.sh"),
            (Path(__file__).with_name("cost.py"), "cost.py"),
        ):
            containers.require_success(
                containers.podman("cp", str(source), f"{name}:/srv/{target}"), f"Copying {source}"
            )
        containers.require_success(containers.podman("exec", name, "mkdir", "/srv/root"), "Making a place for the hook")
        return [{**by_roles(name, sha, f"all roles, {title}"), "load": 0} for title in ("first", "no change", "again")]
    finally:
        containers.down([name])


def local_index() -> Path:
    """A folder with the wheels of ansible-core, ansible-runner and all that they depend on, in the nodes' versions."""
    lock = wheels.read_lock(ROOT / "requirements" / archive.LOCKS[PYTHON], PYTHON)
    wanted = re.findall(r"^ansible-(?:core|runner)==[0-9.]+", lock, re.MULTILINE)
    folder = ROOT / ".build" / "bench-index" / "-".join([PYTHON, *wanted])
    if not (folder / "whole").exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "-d", str(folder), *wanted], check=True)
        (folder / "whole").write_text("\n".join(wanted), encoding="utf-8")
    return folder


def galaxy_archives(folder: Path) -> list[str]:
    """Build what Galaxy would offer: this collection and those that its roles need on a node."""
    pack = [str(Path(sys.executable).with_name("ansible-galaxy")), "collection", "build", "--output-path", str(folder)]
    sources = [ROOT]
    for name in content.OTHERS:
        sources.append(folder / name)
        shutil.copytree(content.find(name, [ROOT / ".collections"]), sources[-1])
        info = json.loads((sources[-1] / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]
        kept = {key: value for key, value in info.items() if value is not None}
        (sources[-1] / "galaxy.yml").write_text(json.dumps(kept), encoding="utf-8")
    for source in sources:
        subprocess.run([*pack, str(source)], check=True, capture_output=True)
    return [str(path) for path in sorted(folder.glob("*.tar.gz"))]


def by_pip(folder: Path) -> dict[str, Any]:
    """Measure a virtual environment, pip, ansible-galaxy, and the playbook. Raises RigError."""
    index = local_index()
    programs, collections = folder / "venv" / "bin", folder / "collections"
    (folder / "galaxy").mkdir()
    archives = galaxy_archives(folder / "galaxy")
    role = collections / "ansible_collections/bench/own/roles/mark/tasks/main.yml"
    role.parent.mkdir(parents=True)
    role.write_bytes(TASKS)
    variables = {"configure_node_roles": [{"name": "bench.own.mark", "key": "mark", "required": True}]}
    wanted = (index / "whole").read_text(encoding="utf-8").split()
    play = [str(programs / "ansible-playbook"), "mlcluster.aws.configure_node", "-i", "localhost,"]
    install = [str(programs / "ansible-galaxy"), "collection", "install", "--offline", "--no-deps", *archives]
    commands = [
        [sys._base_executable, "-m", "venv", str(folder / "venv")],
        [str(programs / "pip"), "install", "-q", "--no-index", "--find-links", str(index), *wanted],
        [*install, "-p", str(collections)],
        [*play, "-e", json.dumps(variables)],
    ]
    settings = {
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_PYTHON_INTERPRETER": str(programs / "python"),
    }
    return {"run": "pip, galaxy, playbook", **to_first_role(commands, folder, **settings), "changed": 0}


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes busy in between."""
    made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _number in range(processes)]
    try:
        yield
    finally:
        for process in made:
            process.kill()
            process.wait()


def at_load(folder: Path, bundle: Path, sha: str, load: int) -> list[dict[str, Any]]:
    """Measure a first run of the hook, one without changes, and the way with pip, beside so many busy processes."""
    (folder / "pip").mkdir()
    with busy(load):
        rounds = []
        for number in range(ROUNDS):
            node = folder / f"node{number}"
            node.mkdir()
            rounds.append(
                [by_hook(node, bundle, sha, name) for name in ("hook, bundle on the disk", "hook, no change")]
            )
        rows = [middle(rows) for rows in zip(*rounds)]
        rows.append(by_pip(folder / "pip"))
    return [{**row, "load": load} for row in rows]


def middle(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the run with the median CPU seconds until its first role."""
    return sorted(rows, key=lambda row: float(row["first_role_cpu"]))[len(rows) // 2]


def measure() -> dict[str, Any]:
    """Hook and pip at each load, and real roles. Raises RigError, and AssertionError below TIMES."""
    folder = Path(tempfile.mkdtemp(prefix="mlcluster-bench-"))
    try:
        bundle = folder / "bundle.tar.gz"
        sha = make_bundle(bundle)
        runs, ratios = [], {}
        for load in LOADS:
            with new_filesystem(folder) as place:
                first, again, other = at_load(place, bundle, sha, load)
            folder.joinpath("mounted").rmdir()
            runs += [first, again, other]
            ratios[load] = {
                "cpu": other["first_role_cpu"] / first["first_role_cpu"],
                "seconds": other["first_role"] / first["first_role"],
            }
            assert again["changed"] == 0, "the second run changed something"
        runs += measure_roles(bundle, sha)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    least = min(ratio["cpu"] for ratio in ratios.values())
    assert least >= TIMES, f"pip costs only {least:.1f} times the CPU seconds of the hook until the first role ({runs})"
    return {"bench": "boot_hook", "python": PYTHON, "ratios": ratios, "runs": runs}


def table(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as lines of text."""
    lines = [
        f"boot hook on Python {figures['python']}",
        f"  {'':<26}{'':>6}{'to first role':>22}{'whole run':>22}",
        f"  {'run':<26}{'load':>6}" + f"{'seconds':>11}{'CPU':>11}" * 2 + f"{'changed':>9}",
    ]
    for row in figures["runs"]:
        values = [row[name] for name in ("first_role", "first_role_cpu", "seconds", "cpu")]
        spent = "".join(f"{'-' if value is None else f'{value:.2f} s':>11}" for value in values)
        lines.append(f"  {row['run']:<26}{row['load']:>6}{spent}{row['changed']:>9}")
    for load, ratio in figures["ratios"].items():
        lines.append(
            f"  load {load}: pip takes {ratio['cpu']:.1f} times the CPU seconds of the hook until the first role, "
            f"which begins {ratio['seconds']:.1f} times later"
        )
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mlcluster-bench-") as scratch:
        made = Path(scratch) / "bundle.tar.gz"
        rows = measure_roles(made, make_bundle(made))
    print("\n".join(table({"python": PYTHON, "runs": rows, "ratios": {}})))
