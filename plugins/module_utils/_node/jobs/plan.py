# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of the role slurm_jobs for machines that submit jobs, from the facts of ``role.look`` and the options. Pure.

Steps in order: directories (a list of path and mode), runtime, data (paths below dir), tool (how to build one),
slurm_conf (path, line), command.
"""

from __future__ import annotations

import typing as t

from ..system.plan import File, Plan, Step, command, file_due, not_concerned, refused
from . import checks as node_checks
from . import files
from .config import JobsConfig
from .settings import places

ROLE = "slurm_jobs"
NO_SLURM = "this machine has no Slurm"
DIRECTORY_MODE = "0755"
# Path prefix of the folders where a tool's sources are unpacked and built.
WORK = "/var/cache/mlcluster/slurm-jobs"
NEEDS = {
    "ior": "make, a C compiler, and mpicc in slurm_jobs_mpi_home",
    "fio": "make, a C compiler, and the headers of libaio",
    "nccl-tests": (
        "make, a C++ compiler, CUDA in slurm_jobs_cuda_home, MPI in slurm_jobs_mpi_home, and the headers of NCCL"
    ),
}

Facts = t.Mapping[str, t.Any]


def make_plan(facts: Facts, config: JobsConfig) -> Plan:
    """Return the plan for a machine that submits jobs; a machine without Slurm is not concerned."""
    if not facts["cluster"]["installed"]:
        return not_concerned(ROLE, NO_SLURM)
    refusals = _refusals(facts, config)
    notes = _notes(facts, config)
    if refusals:
        return refused(ROLE, refusals)
    return Plan(
        domain=ROLE,
        notes=tuple(notes),
        files=tuple(due for entry in wanted_files(facts, config) for due in _due(facts, entry)),
        steps=tuple(_steps(facts, config)),
    )


def configures_slurm(facts: Facts, config: JobsConfig) -> bool:
    """Return whether Slurm should run the checks and its controller answers."""
    return config.node_checks == "slurm" and bool(facts["cluster"]["healthy"])


def state(facts: Facts) -> node_checks.SlurmState:
    """Return the part of the checks that Slurm runs."""
    cluster = facts["cluster"]
    return node_checks.slurm_state(facts["checks"], cluster["settings"], cluster["container_options"])


def wanted_files(facts: Facts, config: JobsConfig) -> list[File]:
    """Return the files that the role writes completely: scripts of jobs, and those of the checks."""
    found = files.job_files(facts["model"]["jobs"])
    if config.node_checks != "none":
        found += files.check_files(facts["checks"])
    if configures_slurm(facts, config):
        found.append(files.slurm_file(facts["checks"], facts["cluster"]["settings"], state(facts)))
    return found


def marks(config: JobsConfig) -> dict[str, File]:
    """Return the file that records the build, for each tool that the role builds."""
    return {
        tool: files.mark(tool, place, config.mpi_home, config.cuda_home, config.artifacts[tool]["version"])
        for tool, place in places(config).items()
    }


def _refusals(facts: Facts, config: JobsConfig) -> list[str]:
    cluster = facts["cluster"]
    found: list[str] = []
    if config.required:
        found += [] if cluster["healthy"] else cluster["problems"]
        found += facts["cluster_problems"]
    if facts["place_problem"]:
        found.append(
            f"{facts['place_problem']}: name a directory below a shared one in slurm_jobs_dir, or, for a cluster of "
            "one machine, set slurm_jobs_require_mount: false"
        )
    else:
        found += _unverified(facts, config)
        found += [
            f"{place} has files and no {files.BUILT}, so it is not of this role and a build would delete it: move "
            "it away, or set slurm_jobs_ior, slurm_jobs_mdtest, slurm_jobs_fio or slurm_jobs_nccl_tests_dir to its "
            "programs and leave the tool out of slurm_jobs_build"
            for place in facts["unmarked"]
        ]
    if configures_slurm(facts, config) and cluster["problems"]:
        # Unknown settings look like no settings: a Prolog of the site would be replaced.
        found.append(f"what Slurm runs already is not known: {'; '.join(cluster['problems'])}")
    elif configures_slurm(facts, config) and not facts["place_problem"] and facts["is_included"] is None:
        found.append(
            f"{node_checks.conf_path(cluster['settings'])} could not be read, so it is unknown whether it includes the "
            "scripts of slurm_jobs_checks: make it readable for root, or set slurm_jobs_node_checks: scripts"
        )
    taken = state(facts).taken if configures_slurm(facts, config) else ()
    if taken:
        found.append(
            f"Slurm runs {', '.join(taken)} already: call the scripts of slurm_jobs_checks from there, or take that "
            f"out of {node_checks.conf_path(cluster['settings'])}"
        )
    return found


def _unverified(facts: Facts, config: JobsConfig) -> list[str]:
    """Return a message for each tool to build whose sources have no known checksum."""
    return [
        f"{tool} {config.artifacts[tool]['version']} was not downloaded, since no sha256 of it is known: run make "
        "lock-artifacts on a connected machine, or set slurm_jobs_build_sha256"
        for tool in _unbuilt(facts, config)
        if not config.artifacts[tool]["sha256"]
    ]


def _unbuilt(facts: Facts, config: JobsConfig) -> list[str]:
    return [tool for tool, mark in marks(config).items() if _due(facts, mark)]


def _notes(facts: Facts, config: JobsConfig) -> list[str]:
    """Return what this cluster cannot run, if the role continues, and why no TaskProlog is configured."""
    cluster, checks = facts["cluster"], facts["checks"]
    found = [] if config.required else [*cluster["problems"], *facts["cluster_problems"]]
    if configures_slurm(facts, config) and cluster["container_options"] and checks["scratch"]:
        found.append(
            f"Slurm is not configured to run {checks['task_prolog']}: srun has --container-image here, and steps in a "
            "container would fail, since Slurm would not find the file there. The jobs of this role find their "
            f"directories by themselves; in others use export TMPDIR={checks['scratch_base']}/job-$SLURM_JOB_ID/tmp"
        )
    if config.node_checks == "slurm" and not cluster["healthy"]:
        found.append(
            "Slurm was not configured to run the Prolog and other scripts, since its controller gives no answer"
        )
    return found


def _due(facts: Facts, entry: File) -> list[File]:
    return file_due(entry, facts["files"][entry.path], _state(facts, entry.path))


def _state(facts: Facts, path: str) -> t.Mapping[str, t.Any] | None:
    """Return the state of a file; slurm_jobs_owner counts as root, which is that account with root squash."""
    seen: dict[str, t.Any] | None = facts["paths"][path]
    return {**seen, "uid": 0} if seen and seen["uid"] == facts["uid"] else seen


def _steps(facts: Facts, config: JobsConfig) -> list[Step]:
    found = []
    directories = _directories_due(facts, config)
    if directories:
        found.append(Step("directories", "directories", {"directories": directories}))
    if _shared_differs(facts, runtime_path(config), config.runtime_sha256, files.EXECUTABLE):
        found.append(Step("runtime", "runtime"))
    sums = config.data_sums
    programs = [name for name, digest in sums.items() if _data_differs(facts, f"{config.dir}/{name}", digest)]
    if programs:
        found.append(Step("data", "programs for data", {"paths": programs}))
    found += [_tool(config, tool) for tool in _unbuilt(facts, config)]
    if configures_slurm(facts, config):
        found += _slurm_steps(facts)
    return found


def runtime_path(config: JobsConfig) -> str:
    """Return the path of the runtime on every node."""
    return f"{config.dir}/{files.RUNTIME_NAME}"


def directories(config: JobsConfig) -> dict[str, str]:
    """Return the mode of each directory that the role creates, by path."""
    return {config.dir: DIRECTORY_MODE, f"{config.dir}/results": f"{int(config.results_mode, 8):04o}"}


def _directories_due(facts: Facts, config: JobsConfig) -> list[dict[str, str]]:
    found = []
    for path, mode in directories(config).items():
        seen = facts["directories"][path]
        if seen is None or not seen["is_dir"] or seen["mode"] != mode or not _is_owned(facts, seen):
            found.append({"path": path, "mode": mode})
    return found


def _is_owned(facts: Facts, seen: t.Mapping[str, t.Any]) -> bool:
    """Return whether owner and group fit. An unknown account owns nothing; the error comes when the file is written."""
    return bool(seen["uid"] == facts["uid"] and seen["gid"] == facts["gid"])


def _shared_differs(facts: Facts, path: str, digest: str, mode: str) -> bool:
    seen = facts["paths"][path]
    if facts["files"][path] != digest or seen is None:
        return True
    return bool(seen["is_link"] or seen["mode"] != mode or not _is_owned(facts, seen))


def _data_differs(facts: Facts, path: str, digest: str) -> bool:
    seen = _state(facts, path)
    if facts["files"][path] != digest or seen is None:
        return True
    return bool(seen["is_link"] or seen["mode"] != "0644" or seen["uid"] != 0)


def _tool(config: JobsConfig, tool: str) -> Step:
    """Return the step that builds a tool in the folder of its sources, and its requirements.

    IOR: its README. fio: its README, "Compiling". nccl-tests: its README, "Build".
    """
    row, place = config.artifacts[tool], places(config)[tool]
    steps = [["./configure", f"--prefix={place}"], ["make", "--jobs=8"], ["make", "install"]]
    if tool == "nccl-tests":
        steps = [
            ["make", "--jobs=8", "MPI=1", f"MPI_HOME={config.mpi_home}", f"CUDA_HOME={config.cuda_home}"],
            ["cp", "--recursive", "build", place],
        ]
    version = row["version"]
    mark = marks(config)[tool]
    return Step(
        "tool",
        f"{tool} {version}",
        {
            "name": f"{tool} {version}",
            "work": f"{WORK}-{tool}",
            "place": place,
            "folder": f"fio-fio-{version}" if tool == "fio" else f"{tool}-{version}",
            "sources": {"name": tool, "url": row["url"], "sha256": row["sha256"], "file": "sources.tar.gz"},
            "argv": ["sh", "-c", " && ".join(" ".join(map(files.quote, words)) for words in steps)],
            "needs": NEEDS[tool],
            # Written before the build: an incomplete build differs from this file but still belongs to this role.
            "begun": {"path": mark.path, "text": "{}\n"},
            "mark": {"path": mark.path, "text": mark.text},
        },
    )


def _slurm_steps(facts: Facts) -> list[Step]:
    """Return the steps that add the line to slurm.conf and reconfigure Slurm."""
    current = state(facts)
    conf = node_checks.conf_path(facts["cluster"]["settings"])
    own = files.slurm_file(facts["checks"], facts["cluster"]["settings"], current)
    found = []
    if not facts["is_included"]:
        found.append(Step("slurm_conf", conf, {"path": conf, "line": node_checks.INCLUDE}))
    if found or _due(facts, own) or not set(current.due) <= set(current.in_use):
        found.append(command("Slurm's configuration", facts["reconfigure"]))
    return found
