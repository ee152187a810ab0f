# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scratch directory of jobs without TaskProlog, which fails if steps have another root file system (Pyxis)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import checks, files
from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

from tests.rig.slurm import jobs, scripts
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.spec import Spec

pytestmark = needs_slurm
CHECKOUT = Path(__file__).parents[3]
PLUGIN = CHECKOUT / "molecule" / "enroot_pyxis" / "plugin" / "spank_pyxis.c"
HOOKS = ("prolog", "epilog", "task_prolog", "health_check")


@pytest.fixture
def rooted(tmp_path):
    """Yield a cluster with --container-image, whose containers have a root with only the program /bin/in."""
    library, image = tmp_path / "pyxis.so", tmp_path / "a.sqsh"
    version = '-DPYXIS_VERSION="0.24.0"'
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", version, "-o", library, PLUGIN], check=True)
    program = tmp_path / "a.sqsh.root" / "bin" / "in"
    program.parent.mkdir(parents=True)
    source = '#include <stdio.h>\nint main(void) { return puts("inside") < 0; }\n'
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
    cluster = Cluster(f"pytest-rooted-{os.getpid()}")
    yield cluster.up(Spec(nodes=1, gpus=0, plugstack=f"required {library}\n"), owned=True), image
    cluster.down()


def test_containers_start_beside_checks_of_nodes(rooted, run_module, tmp_path):
    cluster, image = rooted
    paths = {name: str(tmp_path / name) for name in HOOKS}
    for path in map(Path, paths.values()):
        path.write_text("#!/bin/sh\nexit 0\n")
        path.chmod(0o755)
    found, wanted = run_module(slurm_info, cluster), checks.wanted(paths)
    state = checks.slurm_state(wanted, found["settings"], found["container_options"])
    text = files.slurm_file(wanted, found["settings"], state).text
    found_settings = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    inside = ("srun", "--chdir=/", f"--container-image={image}", "/bin/in")
    cluster.configure(**found_settings)
    assert cluster.run(*inside).stdout == "inside\n"
    assert {"Prolog", "Epilog", "HealthCheckProgram"} <= set(found_settings)
    # With a TaskProlog in slurm.conf containers do not start.
    cluster.configure(TaskProlog=paths["task_prolog"])
    refused = cluster.run(*inside, check=False)
    assert refused.returncode != 0 and "TaskProlog failed" in refused.stderr


def test_training_has_directory_that_its_node_made(slurm, facts, runtime, tmp_path):
    script = 'echo "$TMPDIR ${MLCLUSTER_SCRATCH:-none}" >"$MLCLUSTER_CHECKPOINTS/$RANK"'
    times = {"minutes": 9, "monitor_seconds": 0, "notice_seconds": 0, "signal_seconds": 60, "grace_seconds": 30}
    what = {"launcher": "srun", "command": ["/bin/sh", "-c", script], "checkpoints": str(tmp_path / "c")}
    job = {"name": "train", "kind": "training", **times, **what}
    base = f"{slurm.local}/jobs"
    role = scripts.Role(facts, jobs=[job], dir=str(tmp_path), gpus_per_node=1, checks={"scratch_base": base})
    role.install(runtime)
    number = int(slurm.run("sbatch", "--parsable", "--hold", str(tmp_path / "train.sbatch")).stdout)
    (slurm.local_of("n1") / "jobs" / f"job-{number}" / "tmp").mkdir(parents=True)
    slurm.run("scontrol", "release", str(number))
    ended = jobs.wait(slurm, number)
    assert ended.state == "COMPLETED", ended.output
    own = f"{base}/job-{number}/tmp"
    variables = [(tmp_path / "c" / str(rank)).read_text().split() for rank in range(2)]
    assert variables[0] == [own, own]
    assert variables[1][1] == "none" and variables[1][0] != own
