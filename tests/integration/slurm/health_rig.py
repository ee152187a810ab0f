# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster whose nodes run the scripts of role slurm_jobs, rendered by the role, with the real runtime."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime

from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.spec import Spec

CHECKOUT = Path(__file__).parents[3]
# Of each node its own: the drain marker and the log; what an earlier check left behind.
PRIVATE = ("/var/lib/mlcluster", "/var/log/mlcluster", "/run/mlcluster")
# Uids of accounts that every Debian has.
NOBODY, DAEMON = 65534, 1


def render(folder: Path, base: str, conf: str, **checks: object) -> dict[str, str]:
    """Run the part of the role that writes the scripts; name to path of each."""
    archive = Path(_runtime.build(cache=folder / "cache")["path"])
    command = folder / "mlcluster"
    # The interpreter is that of a node; nothing of the checkout is on its path.
    command.write_text(f'#!/bin/sh\nexec /usr/bin/python3 -I {archive} "$@"\n', encoding="utf-8")
    for path in (archive, command):
        path.chmod(0o755)
    paths = {name: str(folder / "scripts" / name) for name in ("prolog", "epilog", "task_prolog", "health_check")}
    wanted = {"command": str(command), "scratch_base": base, "slurm_conf": conf, **paths, **checks}
    role = {"name": "mlcluster.aws.slurm_jobs", "tasks_from": "node_checks", "public": False}
    tasks = [{"ansible.builtin.include_role": role}]
    play = [{"hosts": "localhost", "gather_facts": False, "vars": {"slurm_jobs_checks": wanted}, "tasks": tasks}]
    (folder / "play.json").write_text(json.dumps(play), encoding="utf-8")
    arguments = ["-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"]
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / ".collections"),
        "ANSIBLE_HOME": str(folder / "home"),
    }
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    done = subprocess.run(
        [program, *arguments, str(folder / "play.json")],
        env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return {"command": str(command), **paths}


@contextmanager
def checked_cluster(name: str, nodes: int = 2, **settings: str) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """A cluster with Prolog, Epilog and TaskProlog in place, and the paths of its scripts."""
    made = [Path(path) for path in PRIVATE if not Path(path).is_dir()]
    for path in made:
        path.mkdir(mode=0o755)
    cluster = Cluster(name)
    # Users of jobs have to reach the scripts, and pytest's folders are closed.
    folder = Path(tempfile.mkdtemp(prefix="mlcluster-health-"))
    folder.chmod(0o755)
    try:
        scripts = render(
            folder,
            f"{cluster.root}/local/jobs",
            f"{cluster.root}/etc/slurm.conf",
            **json.loads(settings.pop("checks", "{}")),
        )
        hooks = {"Prolog": "prolog", "Epilog": "epilog", "TaskProlog": "task_prolog"}
        wanted = {key: scripts[script] for key, script in hooks.items()}
        spec = Spec(nodes=nodes, settings={**wanted, "MinJobAge": "60", **settings}, private=PRIVATE)
        cluster.up(spec, owned=True)
        (cluster.root / "open").mkdir()
        (cluster.root / "open").chmod(0o1777)
        yield cluster, scripts
    finally:
        cluster.down()
        shutil.rmtree(folder)
        for path in made:
            # Another that runs meanwhile may have written there.
            with suppress(OSError):
                path.rmdir()


def state_of(cluster: Cluster, node: str, path: str) -> Path:
    """Where a file below one of L{PRIVATE} of a node is seen from outside."""
    place = next(place for place in PRIVATE if path.startswith(f"{place}/"))
    index = PRIVATE.index(place) + 1
    return cluster.root / "nodes" / node / str(index) / path[len(place) + 1 :]


def as_user(cluster: Cluster, uid: int, *more: str) -> list[str]:
    """Options of sbatch for a job of an ordinary user."""
    return [f"--uid={uid}", f"--gid={uid}", "--chdir=/", f"--output={cluster.root}/open/%j", *more]
