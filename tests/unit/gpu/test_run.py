# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script for a machine with a GPU, on one without: its steps, its limits, and what it keeps."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.fakes.fake_gds_host import FIXTURES

GPU = Path(__file__).resolve().parents[2] / "gpu"
RUN = GPU / "run"
KEPT = [
    "accelerators.json",
    "gds.json",
    "libcufile.log",
    "nccl-verdict.json",
    "nccl.txt",
    "nvidia-smi.xml",
    "summary.tsv",
    "system.txt",
]

SMI = """#!/bin/sh
echo '<uuid>GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee</uuid><serial>1650123456789</serial>'
"""
# Answers as the runtime does: which verb, and its arguments.
ARCHIVE = """
import os, sys
print(sys.argv[1:])
sys.exit(int(os.environ.get("STATUS_" + sys.argv[1].replace("-", "_").upper(), "0")))
"""
ALL_REDUCE = """#!/bin/sh
echo "NCCL INFO Bootstrap: Using eth0:10.1.2.3<0> $NCCL_DEBUG $*"
# As timeout is told by the kernel that the time is over: how soon others are done is the machine's business.
# Once it sleeps it knows its child; before that it would end by itself.
[ -z "$HANG" ] || {
    until grep -q "^State:.S" "/proc/$PPID/status"; do :; done
    kill -ALRM "$PPID"
    exec sleep 600
}
"""


@pytest.fixture
def machine(tmp_path):
    """run(arguments..., NAME=value...) starts the script among stand-ins; it gives (status, files, table, errors)."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("nvidia-smi", SMI), ("all_reduce_perf", ALL_REDUCE)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    archive = tmp_path / "mlcluster.pyz"
    archive.write_text(ARCHIVE)
    out = tmp_path / "out"

    def run(*arguments, without=(), **more):
        for name in without:
            (programs / name).unlink()
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHON": sys.executable,
            "MLCLUSTER_PYZ": str(archive),
            "NCCL_TESTS": str(programs),
            **{name: str(value) for name, value in more.items()},
        }
        done = subprocess.run(
            ["bash", str(RUN), *(arguments or [str(out), "/data"])],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        files = {path.name: path.read_text() for path in sorted(out.iterdir())} if out.exists() else {}
        rows = csv.DictReader(files.get("summary.tsv", "").splitlines(), delimiter="\t")
        return done.returncode, files, {row["step"]: row for row in rows}, done.stderr

    return run


def test_every_step_runs_and_eight_files_are_kept(machine):
    status, files, table, _errors = machine()
    assert status == 0
    assert list(files) == KEPT
    assert list(table) == ["system", "nvidia-smi", "accelerators", "gds", "libcufile", "nccl", "nccl-verdict"]
    assert files["gds.json"] == "['gds', '--active', '--json', '/data']\n"
    assert files["accelerators.json"] == "['accelerators', '--json']\n"
    assert files["nccl-verdict.json"].startswith("['nccl-verdict', '--ranks', '1', '--nodes', '1', '--json', '")
    assert "INFO -b 8 -e 64M -f 2 -g 1" in files["nccl.txt"]


def test_identifiers_of_machine_are_masked(machine):
    _status, files, _table, _errors = machine()
    assert files["nvidia-smi.xml"] == (
        "<uuid>GPU-00000000-0000-0000-0000-000000000000</uuid><serial>0000000000</serial>\n"
    )
    assert "eth0:192.0.2.2<0>" in files["nccl.txt"]


def test_other_files_in_directory_are_unchanged(machine, tmp_path):
    text = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee\n"
    (tmp_path / "out").mkdir()
    for place in (tmp_path / "out" / "mine", tmp_path / "target"):
        place.write_text(text)
    (tmp_path / "out" / "link").symlink_to(tmp_path / "target")
    status, files, _table, errors = machine()
    assert (status, files["mine"], errors) == (0, text, "")
    assert ((tmp_path / "out" / "link").is_symlink(), (tmp_path / "target").read_text()) == (True, text)


@pytest.mark.parametrize("verdict", [1, 2])
def test_verdict_is_answer(machine, verdict):
    status, _files, table, _errors = machine(STATUS_GDS=verdict)
    assert (status, table["gds"]["status"]) == (0, str(verdict))


def test_step_that_crashes_fails_run_and_others_go_on(machine):
    status, files, table, _errors = machine(STATUS_ACCELERATORS=7)
    assert (status, table["accelerators"]["status"], table["nccl"]["status"]) == (1, "7", "0")
    assert list(files) == KEPT


def test_step_that_hangs_is_stopped(machine):
    status, _files, table, _errors = machine(HANG=1, STEP_SECONDS=600)
    assert (status, table["nccl"]["status"], table["nccl-verdict"]["status"]) == (1, "124", "0")


def test_without_nccl_tests_library_itself_is_asked(machine):
    _status, _files, table, _errors = machine(without=["all_reduce_perf"], NCCL_TESTS="")
    assert table["nccl"]["status"] == "1"
    assert "libnccl.so.2 cannot be loaded" in table["nccl"]["last line of standard error"]


def test_directory_itself_is_probed_when_no_path_is_named(machine, tmp_path):
    out = str(tmp_path / "out")
    _status, files, _table, _errors = machine(out)
    assert files["gds.json"] == f"['gds', '--active', '--json', '{out}']\n"


def test_missing_gpu_archive_or_arguments_is_one_sentence(machine, tmp_path):
    status, _files, _table, errors = machine(MLCLUSTER_PYZ=tmp_path / "missing.pyz")
    assert (status, "make it with 'tests/gpu/run build'" in errors) == (2, True)
    status, _files, _table, errors = machine(without=["nvidia-smi"])
    assert (status, errors) == (2, "nvidia-smi is not there: this needs a machine with an NVIDIA GPU\n")
    done = subprocess.run(["bash", str(RUN)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split(":")[0]) == (3, "usage")


def test_archive_that_it_builds_runs(tmp_path):
    archive = tmp_path / "made" / "mlcluster.pyz"
    done = subprocess.run(["bash", str(RUN), "build", str(archive)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{archive}\n", "")
    asked = [sys.executable, str(archive), "gds", "--help"]
    assert "--active" in subprocess.run(asked, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """A directory with stand-ins for libcufile, libnccl and libcudart."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler to make the libraries")
    place = tmp_path_factory.mktemp("libraries")
    (place / "nccl.c").write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        "int ncclCommInitAll(void **c, int n, const int *d) { *c = (void *)1; return n != 1 || d[0]; }\n"
        "int ncclAllReduce(const void *s, void *t, size_t n, int k, int o, void *c, void *q)\n"
        '{ memcpy(t, s, n * 4); if (getenv("WRONG")) ((char *)t)[9] ^= 1;\n'
        "  return k != 7 || o || c != (void *)1 || q; }\n"
        "int ncclCommDestroy(void *c) { return c != (void *)1; }\n"
    )
    (place / "cudart.c").write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        'int cudaMalloc(void **p, size_t n) { *p = malloc(n); return getenv("NO_MEMORY") ? 2 : 0; }\n'
        "int cudaMemcpy(void *t, const void *s, size_t n, int k) { memcpy(t, s, n); return k != 1 && k != 2; }\n"
        "int cudaDeviceSynchronize(void) { return 0; }\n"
    )
    sources = {
        "libcufile.so.0": FIXTURES / "fake_cufile.c",
        "libnccl.so.2": place / "nccl.c",
        "libcudart.so.13": place / "cudart.c",
    }
    for name, source in sources.items():
        subprocess.run([compiler, "-shared", "-fPIC", "-o", str(place / name), str(source)], check=True)
    return place


def one_gpu(libraries, *arguments, **more):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), **more}
    argv = [sys.executable, str(GPU / "one_gpu.py"), *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def test_log_of_libcufile_is_written_where_it_is_asked_for(libraries, tmp_path):
    log = tmp_path / "cufile.log"
    recorded = FIXTURES / "libcufile-1.15-h200-compat-forbidden.log"
    done = one_gpu(libraries, "cufile", str(log), FAKE_CUFILE_LOG=str(recorded), FAKE_CUFILE_OPEN="5001")
    assert (done.returncode, done.stderr) == (1, "cuFileDriverOpen gave 5001, CUDA 0\n")
    assert log.read_text() == recorded.read_text()
    assert one_gpu(libraries, "cufile", str(log)).returncode == 0


def test_all_reduce_over_one_rank(libraries):
    done = one_gpu(libraries, "nccl")
    assert (done.returncode, done.stdout) == (0, "all_reduce of 1048576 floats over one rank: equal\n")
    done = one_gpu(libraries, "nccl", WRONG="1")
    assert (done.returncode, done.stderr) == (1, "the sum over one rank differs from what went in\n")
    done = one_gpu(libraries, "nccl", NO_MEMORY="1")
    assert (done.returncode, done.stderr) == (1, "cudaMalloc gave the error 2\n")
    assert one_gpu(libraries, "everything").returncode == 3
