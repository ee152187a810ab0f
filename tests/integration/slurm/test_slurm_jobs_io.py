# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs of the kinds gpu_efa, local_io, fsx_io and gds_io on a real Slurm, with stand-ins for their programs."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.probe_child import PREFIX
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.verify_io import fio_figure

from tests.integration.slurm.ran import install
from tests.rig.slurm import scripts
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for

pytestmark = needs_slurm
TOOLS = ("fio", "ior", "mdtest", "gdsio")


@pytest.fixture
def tools(tmp_path):
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in TOOLS:
        install(name, folder / name)
    return {name: str(folder / name) for name in TOOLS}


@pytest.mark.newer
def test_each_node_reports_under_its_own_name(ran):
    done = ran({"name": "nodes", "kind": "gpu_efa"})
    assert {entry["scope"]["node"] for entry in done.results} == {"n1", "n2"}
    # This machine has no GPU, so the GPU checks do not pass.
    assert done.job.exit_code in (1, 2)
    assert done.job.exit_code == int(done.exit_file)


@pytest.mark.newer
def test_local_disks_are_measured_on_every_node_and_left_clean(ran, tools, slurm):
    done = ran({"name": "disks", "kind": "local_io", "seconds": 1}, local_dir=str(slurm.local), **tools)
    # This machine has no instance store, so its figures are not judged.
    found = [(entry["id"], entry["reason"], entry["scope"]["node"]) for entry in done.results]
    assert found == [("io.fio.place", "not_local_disks", node) for node in ("n1", "n2")]
    assert done.job.exit_code == 2
    # Figures of the stand-in for direct I/O and random reads with blocks of 4 KiB.
    wanted = {"randread": 1953125, "read": 8000000000, "write": 8000000000}
    for node in ("n1", "n2"):
        assert isinstance(json.loads((done.folder / f"place-0-{node}.json").read_text())["disks"], list)
        outputs = {mode: (done.folder / f"fio-0-{mode}-{node}.json").read_text() for mode in wanted}
        assert {mode: fio_figure(text, mode) for mode, text in outputs.items()} == wanted
    assert not list(slurm.local_of("n1").glob("mlcluster-fio-*")) + list(slurm.local_of("n2").glob("mlcluster-fio-*"))


def test_missing_directory_on_node_is_one_sentence(ran, tools, slurm):
    (slurm.local_of("n1") / "only-here").mkdir()
    place = str(slurm.local / "only-here")
    done = ran({"name": "disks", "kind": "local_io"}, local_dir=place, **tools)
    assert (done.job.exit_code, done.results) == (2, [])
    problem = "is not on every node as a directory that you may write to: set slurm_jobs_local_dir to what they have"
    assert problem in done.job.output
    assert list((slurm.local_of("n1") / "only-here").iterdir()) == []


def test_shared_file_system_is_compared_with_expectation(ran, tools, tmp_path):
    done = ran({"name": "fsx", "kind": "fsx_io", "minutes": 9, "least_write_mib": 500, "least_read_mib": 4000}, **tools)
    assert done.status == {
        "io.ior.write": "pass",
        "io.ior.read": "fail",
        "io.cache": "pass",
        "io.mdtest": "pass",
        "io.stripes": "not_applicable",
    }
    assert done.job.exit_code == 1
    # Both figures are of the servers: writes include fsync, and another node's task reads.
    assert [done.of(f"io.ior.{name}")[0]["found"] for name in ("write", "read")] == [900.5, 1800.0]
    rates = {"File creation": 845203.634, "File stat": 845203.634, "File removal": 845203.634}
    assert done.of("io.mdtest")[0]["found"] == rates
    assert "4 tasks, 4000 files\n" in (done.folder / "mdtest.out").read_text()
    assert json.loads((done.folder / "ran.json").read_text())["size"] > 1 << 30
    assert not list((tmp_path / "results").glob("mlcluster-io-*"))


@pytest.fixture
def cancelled(slow_to_kill, facts, runtime, tmp_path):
    """Return ``cancelled(job, began, **settings)``.

    It submits a job, cancels it once ``began`` returns true, and waits for its status.
    """

    def run(job, began, **settings):
        role = scripts.Role(facts, jobs=[job], dir=str(tmp_path), gpus_per_node=1, mpi="none", **settings)
        assert role.problems == []
        role.install(runtime)
        number = int(slow_to_kill.run("sbatch", "--parsable", str(tmp_path / f"{job['name']}.sbatch")).stdout)
        wait_for("the job to be at work", began)
        slow_to_kill.run("scancel", str(number))
        ended = tmp_path / "results" / f"{job['name']}-{number}.exit"
        wait_for("its status", ended.exists)
        assert ended.read_text() == "143\n"

    return run


@pytest.fixture(params=["hears", "deaf"])
def endless(request, tmp_path):
    """Yield a program in place of fio, IOR and mdtest that writes to its directory until it is ended.

    The "deaf" one ignores signals and ends with the test.
    """
    deaf = "trap '' TERM"
    if request.param == "hears":
        deaf = 'while :; do date >"$place/file-$SLURM_PROCID-$((at++ % 100))"; done'
    program = tmp_path / "endless"
    program.write_text(
        f"""#!/bin/bash
for word; do
  case $word in
    --directory=*) place=${{word#*=}} ;;
    /*/ior) place=${{word%/ior}} ;;
  esac
done
{deaf}
date >"$place/file-$SLURM_PROCID-0"
until [ -e {tmp_path}/end ]; do sleep 0.1; done
"""
    )
    program.chmod(0o755)
    yield str(program)
    (tmp_path / "end").touch()


def on_local_disks(slurm, of=""):
    return [list(slurm.local_of(node).glob(f"mlcluster-fio-*{of}")) for node in ("n1", "n2")]


def test_cancelled_job_leaves_local_disks_clean(cancelled, endless, slurm):
    job = {"name": "disks", "kind": "local_io", "seconds": 60}
    cancelled(job, lambda: all(on_local_disks(slurm, "/file-*")), local_dir=str(slurm.local), fio=endless)
    wait_for("the files to be gone", lambda: not any(on_local_disks(slurm)))


def test_cancelled_job_leaves_shared_file_system_clean(cancelled, endless, tmp_path):
    place = tmp_path / "shared"
    place.mkdir()
    job = {"name": "fsx", "kind": "fsx_io", "minutes": 9, "directory": str(place)}
    cancelled(job, lambda: list(place.glob("*/file-0-*")), ior=endless, mdtest=endless)
    wait_for("the files to be gone", lambda: not list(place.iterdir()))


@pytest.fixture
def signalled_at_once(tmp_path):
    """Return a Python that gets a signal as soon as it has made the directory for the files."""
    program = tmp_path / "signalled-python"
    program.write_text(
        """#!/bin/sh
exec /usr/bin/python3 -c '
import os, runpy, signal, sys
make = os.mkdir
def mkdir(path, *words):
    make(path, *words)
    if "io-" in os.path.basename(path) and os.path.basename(path).startswith("mlcluster-"):
        os.kill(os.getpid(), signal.SIGTERM)
os.mkdir = mkdir
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
' "$@"
"""
    )
    program.chmod(0o755)
    return str(program)


def test_job_ended_at_start_leaves_no_directory(signalled_at_once, ran, tools, slurm, tmp_path):
    given = {"python": signalled_at_once, **tools}
    disks = ran({"name": "disks", "kind": "local_io"}, local_dir=str(slurm.local), **given)
    assert disks.exit_file != "0\n" and on_local_disks(slurm) == [[], []]
    (tmp_path / "shared").mkdir()
    fsx = ran({"name": "fsx", "kind": "fsx_io", "minutes": 9, "directory": str(tmp_path / "shared")}, **given)
    assert fsx.exit_file == "143\n" and list((tmp_path / "shared").iterdir()) == []


def test_missing_tool_of_job_is_one_sentence(ran):
    done = ran({"name": "fsx", "kind": "fsx_io", "minutes": 9}, ior="/no/ior")
    assert (done.job.exit_code, done.results) == (2, [])
    assert done.job.output.startswith("fsx: /no/ior is not on n1: build IOR once on the shared file system")


def test_figure_of_gdsio_needs_proof_of_its_path(ran, tools, slurm):
    job = {"name": "gds", "kind": "gds_io", "mounts": [str(slurm.local)], "modes": ["nvfs", "p2pdma"], "least_gib": 1.0}
    done = ran({**job, "size_mib": 8}, **tools)
    figures = {entry["scope"]["node"]: entry for entry in done.of("gds.bandwidth")}
    # gdsio reports GPUD and more than was requested; there is no path without a GPU.
    assert {node: entry["status"] for node, entry in figures.items()} == {
        "n1": "undeterminable",
        "n2": "undeterminable",
    }
    assert figures["n1"]["found"] == {
        "mode": "none",
        "proof": "passive",
        # For 8 MiB.
        "GPUD": 8.0,
        "CPU_GPU": 8.0,
        "CPUONLY": 8.0,
    }
    modes = {(entry["scope"]["node"], entry["status"]) for entry in done.of("gds.mode")}
    assert modes == {("n1", "fail"), ("n2", "fail")}
    assert (done.job.exit_code, done.exit_file) == (1, "1\n")
    assert list(slurm.local_of("n1").glob(f"{PREFIX}*")) == []
