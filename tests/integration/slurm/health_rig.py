# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster whose nodes run the Prolog and health scripts that the role slurm_jobs renders, with the real runtime."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.rig.slurm import scripts
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.spec import Spec

# Directories that each node has for itself: drain marker, log, and files of earlier checks.
PRIVATE = ("/var/lib/mlcluster", "/var/log/mlcluster", "/run/mlcluster")
# User IDs of accounts that exist on every Debian.
USER, DAEMON = 65534, 1


def render(folder: Path, base: str, conf: str, imex: str = "required", **checks: object) -> dict[str, str]:
    """Write the role's scripts and their command ``mlcluster`` into ``folder``; return {name: path}."""
    command = folder / "mlcluster"
    # A node's interpreter, without the checkout in its path.
    command.write_text(f'#!/bin/sh\nexec /usr/bin/python3 -I {runtime()} "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    paths = {name: str(folder / "scripts" / name) for name in ("prolog", "epilog", "task_prolog", "health_check")}
    scripts.write_checks({"command": str(command), "scratch_base": base, "slurm_conf": conf, **paths, **checks}, imex)
    return {"command": str(command), **paths}


@functools.cache
def runtime() -> Path:
    """Return the path of the node runtime, which users of jobs can read; it is built once."""
    folder = Path(tempfile.mkdtemp(prefix="mlcluster-runtime-"))
    atexit.register(shutil.rmtree, folder)
    folder.chmod(0o755)
    return scripts.build_runtime(folder)


@contextmanager
def checked_cluster(name: str, nodes: int = 2, **settings: str) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """Yield a cluster with Prolog, Epilog and TaskProlog, and the paths of these scripts."""
    made = [Path(path) for path in PRIVATE if not Path(path).is_dir()]
    for path in made:
        path.mkdir(mode=0o755)
    cluster = Cluster(name)
    # Users of jobs have to read the scripts, and pytest's folders are private.
    folder = Path(tempfile.mkdtemp(prefix="mlcluster-health-"))
    folder.chmod(0o755)
    try:
        paths = render(
            folder,
            f"{cluster.root}/local/jobs",
            f"{cluster.root}/etc/slurm.conf",
            **json.loads(settings.pop("checks", "{}")),
        )
        hooks = {"Prolog": "prolog", "Epilog": "epilog", "TaskProlog": "task_prolog"}
        wanted = {key: paths[script] for key, script in hooks.items()}
        spec = Spec(nodes=nodes, settings={**wanted, "MinJobAge": "60", **settings}, private=PRIVATE)
        cluster.up(spec, owned=True)
        (cluster.root / "open").mkdir()
        (cluster.root / "open").chmod(0o1777)
        yield cluster, paths
    finally:
        cluster.down()
        shutil.rmtree(folder)
        for path in made:
            # A concurrent test may have written to the directory.
            with suppress(OSError):
                path.rmdir()


def state_of(cluster: Cluster, node: str, path: str) -> Path:
    """Return the path outside of the node of a file below one of the directories ``PRIVATE``."""
    place = next(place for place in PRIVATE if path.startswith(f"{place}/"))
    index = PRIVATE.index(place) + 1
    return cluster.root / "nodes" / node / str(index) / path[len(place) + 1 :]


def as_user(cluster: Cluster, uid: int, *more: str) -> list[str]:
    """Return the options of sbatch for a job of an ordinary user."""
    return [f"--uid={uid}", f"--gid={uid}", "--chdir=/", f"--output={cluster.root}/open/%j", *more]
