# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-ins reject the same arguments as the real programs, and their output depends on their arguments."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.integration.slurm.ran import PROGRAMS, install

# For each program: a valid call, a change that makes it invalid, and a part of the message. {} is a directory.
RIGHT = {
    "aws": "s3 sync --only-show-errors --exclude .backed-up {} s3://bucket/x",
    "collective_perf": "-b 8 -e 1K -f 4 -n 20 -w 5 -c 1 -g 1",
    "fio": "--name=data --directory={} --direct=1 --ioengine=libaio --iodepth=32 --size=4G --numjobs=4 --time_based "
    "--runtime=30 --group_reporting --output-format=json --rw=write --bs=1M",
    "gdsio": "-x 2 -I 1 -d 0 -w 8 -s 8M -i 1024K -f {}/new",
    "ior": "-a POSIX -w -r -e -F -C -Q 2 -t 1m -b 64m -o {}/ior -O summaryFormat=JSON -O summaryFile={}/ior.json",
    "mdtest": "-F -u -n 1000 -d {}/mdtest",
    "nccom_test": "--nworkers 8 --nnodes 1 --minbytes 8 --maxbytes 1024 --stepfactor 4 --iters 20 --warmup_iters 5 "
    "--datatype fp32 --check --non-interactive all_reduce",
}  # fmt: skip
WRONG = [
    ("aws", "sync", "rm", "invalid choice: 'rm'"),
    ("aws", "--only-show-errors", "--recursive", "unrecognized arguments: --recursive"),
    ("aws", "--exclude .backed-up {}", "/no/such", "The user-provided path /no/such does not exist."),
    ("aws", "s3://bucket/x", "/bucket", "Invalid argument type: /bucket"),
    ("aws", "s3 sync", "s4 sync", "invalid choice: 's4'"),
    ("collective_perf", "-n 20", "-n 0", "'0': use a number from 1"),
    ("collective_perf", "-g 1", "-g 8", "Invalid number of GPUs: 8 requested but only 2 were found."),
    ("collective_perf", "-c 1", "-c 2", "invalid choice: 2"),
    ("collective_perf", "-b 8", "-b 2K", "invalid size specified for 'maxbytes'"),
    ("collective_perf", "-w 5", "-w 5 -k 1", "unrecognized arguments: -k"),
    ("fio", "--rw=write", "--rw=wirte", "invalid choice: 'wirte'"),
    ("fio", "--runtime=30", "--runtime=0", "time_based requires a runtime/timeout setting"),
    ("fio", "--size=4G", "--size=4k", "size 4096 is smaller than the block size 1048576"),
    ("fio", "--direct=1", "--direct=2", "invalid choice: 2"),
    ("fio", "--direct=1", "--direkt=1", "unrecognized arguments: --direkt=1"),
    ("fio", "--directory={}", "--directory=/no/such", "No such file or directory: /no/such"),
    ("fio", "--numjobs=4", "--numjobs=0", "'0': min value out of range"),
    ("gdsio", "-s 8M", "-s 0M", "'0M' is not a size"),
    ("gdsio", "-s 8M", "-s 1K", "file size 1024 is smaller than the IO size 1048576"),
    ("gdsio", "-x 2", "-x 9", "invalid choice: 9"),
    ("gdsio", "-I 1", "-I 0", "file open or size failed: "),
    ("gdsio", "-w 8", "-w 8 -q", "unrecognized arguments: -q"),
    ("ior", "-t 1m", "-t 3m", "block size must be a multiple of transfer size"),
    ("ior", "-b 64m", "-b 0m", "'0m' is not a size"),
    ("ior", "-e", "-j", "unrecognized arguments: -j"),
    ("ior", "summaryFormat=JSON", "summaryFromat=JSON", "Unrecognized parameter"),
    ("ior", "{}/ior ", "/no/such/ior ", "cannot open /no/such/ior: No such file or directory"),
    ("mdtest", "-n 1000", "-n 0", "'0': use the number of items of each task, from 1"),
    ("mdtest", "-n 1000", "-n minus", "'minus': use the number of items"),
    ("mdtest", "-F", "--no-such-option", "unrecognized arguments: --no-such-option"),
    ("mdtest", "-d {}/mdtest", "-d /no/such/dir", "unable to create test directory path /no/such/dir"),
    ("mdtest", "-u", "-D", "-D and -F exclude each other"),
    ("nccom_test", "--datatype fp32", "--datatype int4", "invalid choice: 'int4'"),
    ("nccom_test", "--iters 20", "--iters 0", "'0': use a number from 1"),
    ("nccom_test", "--nworkers 8", "--nworkers 1", "1 workers cannot be spread over 1 nodes"),
    ("nccom_test", "--nnodes 1", "--nnodes 3", "8 workers cannot be spread over 3 nodes"),
    ("nccom_test", "--nnodes 1", "--nnodes 2", "several nodes need --hosts or --slurm-mode"),
    ("nccom_test", "--check ", "", "stand-in: --check is missing"),
    ("nccom_test", "--check", "--chekc", "unrecognized arguments: --chekc"),
    ("nccom_test", "all_reduce", "all_to_all", "invalid choice: 'all_to_all'"),
]
# This one is not a stand-in.
OWN = {"training"}


@pytest.fixture
def call(tmp_path):
    """Return ``call(program, words)``: it runs a stand-in as the only task of a job on a node with two GPUs."""
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "0,1",
        **{f"SLURM_{name}": "0" for name in ("PROCID", "LOCALID")},
        **{f"SLURM_{name}": "1" for name in ("NTASKS", "NNODES")},
    }

    def run(program, words, **more):
        install(program, tmp_path / "all_reduce_perf" if program == "collective_perf" else tmp_path / program)
        target = tmp_path / ("all_reduce_perf" if program == "collective_perf" else program)
        (tmp_path / "data").mkdir(exist_ok=True)
        return subprocess.run(
            [str(target), *words.replace("{}", str(tmp_path / "data")).split()],
            env={**environment, **more}, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60,
        )  # fmt: skip

    return run


def test_every_stand_in_has_invalid_call():
    programs = {path.stem for path in PROGRAMS.glob("*.py")} - OWN
    assert programs and programs == set(RIGHT) == {program for program, *_rest in WRONG}


@pytest.mark.parametrize("program", RIGHT)
def test_header_names_version_and_source_of_grammar(program):
    text = (PROGRAMS / f"{program}.py").read_text()
    assert '"""Stands in for ' in text and "Grammar" in text.split('"""')[1]


@pytest.mark.parametrize("program", RIGHT)
def test_valid_call_is_accepted(call, program):
    done = call(program, RIGHT[program])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("program", "right", "wrong", "words"), WRONG)
def test_invalid_call_is_rejected(call, program, right, wrong, words):
    assert right in RIGHT[program]
    done = call(program, RIGHT[program].replace(right, wrong, 1))
    assert done.returncode != 0 and words in done.stderr + done.stdout


def test_output_of_nccl_tests_follows_from_arguments(call):
    words = RIGHT["collective_perf"].replace("-n 20 -w 5 -c 1", "-n 7 -w 3 -c 0")
    lines = call("collective_perf", words).stdout.splitlines()
    sweep = "nGpus 1 minBytes 8 maxBytes 1024 step: 4(factor)"
    assert f"{sweep} warmup iters: 3 iters: 7 agg iters: 1 validation: 0" in lines[2]
    rows = [line.split() for line in lines if line.split()[0].isdecimal()]
    assert [row[0] for row in rows] == ["8", "32", "128", "512"]
    assert {(row[8], row[12]) for row in rows} == {("N/A", "N/A")}
    two = call("collective_perf", RIGHT["collective_perf"].replace("-g 1", "-g 2")).stdout
    assert "nGpus 2" in two and two.count(" device ") == 2


def test_figures_of_fio_are_of_disk_only_past_page_cache(call):
    def figure(words):
        (job,) = json.loads(call("fio", words).stdout.partition("\n")[2])["jobs"]
        return job["write"]["bw_bytes"], job["read"]["bw_bytes"], job["write"]["iops"]

    assert figure(RIGHT["fio"]) == (8000000000, 0, 8e9 / (1 << 20))
    assert figure(RIGHT["fio"].replace("--direct=1", "--direct=0"))[0] == 50000000000
    assert figure(RIGHT["fio"].replace("=write", "=randread"))[:2] == (0, 8000000000)


@pytest.mark.parametrize(
    ("right", "wrong", "write", "read"),
    [
        ("-e", "-e", 900.5, 1800.0),
        ("-e", "", 50000.0, 1800.0),
        ("-C", "", 900.5, 50000.0),
        ("-Q 2", "-Q 1", 900.5, 50000.0),
        ("-F", "", 450.25, 900.0),
        ("-r", "", 900.5, None),
        ("-w", "", None, 1800.0),
    ],
)
def test_ior_figures_are_of_servers_only_without_cache(call, tmp_path, right, wrong, write, read):
    done = call("ior", RIGHT["ior"].replace(right, wrong, 1), SLURM_NTASKS="4", SLURM_NNODES="2")
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "data/ior.json").read_text())["summary"]
    assert {entry["operation"]: entry["bwMaxMIB"] for entry in summary} == {
        name: figure for name, figure in (("write", write), ("read", read)) if figure
    }


def test_table_of_mdtest_follows_from_arguments(call):
    only_files = call("mdtest", RIGHT["mdtest"], SLURM_NTASKS="4").stdout
    assert "4 tasks, 4000 files\n" in only_files and "Directory" not in only_files and "845203.634" in only_files
    both = call("mdtest", RIGHT["mdtest"].replace("-F -u", "-F").replace("-F", "")).stdout
    assert "1 tasks, 1000 files/directories\n" in both and "Directory creation" in both and "845203.634" not in both


def test_throughput_of_gdsio_follows_from_size(call):
    done = {size: call("gdsio", RIGHT["gdsio"].replace("8M", size)).stdout for size in ("8M", "1M")}
    assert "Throughput: 8.000000 GiB/sec" in done["8M"] and "DataSetSize: 8192/8192(KiB)" in done["8M"]
    assert "Throughput: 3.333333 GiB/sec" in done["1M"] and "DataSetSize: 1024/1024(KiB)" in done["1M"]


@pytest.mark.parametrize(("workers", "busbw"), [("8", "1.75"), ("2", "1.00")])
def test_bus_bandwidth_of_nccom_test_follows_from_workers(call, workers, busbw):
    lines = call("nccom_test", RIGHT["nccom_test"].replace("--nworkers 8", f"--nworkers {workers}")).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["8", "32", "128", "512"]
    assert {line.split()[-1] for line in lines[1:-1]} == {busbw}


def test_sync_copies_missing_files_only(call, tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("a", ".backed-up"):
        (tmp_path / "data" / name).touch()
    dry = call("aws", "s3 sync --dryrun --exclude .backed-up {} s3://bucket/x").stdout
    assert dry.startswith("(dryrun) upload: ") and dry.count("\n") == 1 and not (tmp_path / "s3").exists()
    assert call("aws", RIGHT["aws"]).stdout == ""
    assert [path.name for path in (tmp_path / "s3/bucket/x").iterdir()] == ["a"]
    assert call("aws", "s3 sync --dryrun --exclude .backed-up {} s3://bucket/x").stdout == ""


def test_sync_compares_sizes_and_times_only(call, tmp_path):
    """As the AWS CLI does: it does not read content."""
    source, copy = tmp_path / "data" / "a", tmp_path / "s3/bucket/x/a"
    source.parent.mkdir()
    source.write_text("old")
    os.utime(source, (1_000_000, 1_000_000))
    call("aws", RIGHT["aws"])
    source.write_text("new")
    os.utime(source, (1_000_000, 1_000_000))
    call("aws", RIGHT["aws"])
    assert copy.read_text() == "old"
    later = copy.stat().st_mtime + 5
    os.utime(source, (later, later))
    call("aws", RIGHT["aws"])
    assert copy.read_text() == "new"
    source.write_text("longer")
    os.utime(source, (1_000_000, 1_000_000))
    call("aws", RIGHT["aws"])
    assert copy.read_text() == "longer"


def test_copy_compares_sizes_only_on_request(call, tmp_path):
    source, copy = tmp_path / "data" / "a", tmp_path / "s3/bucket/x/a"
    source.parent.mkdir()
    source.write_text("old")
    call("aws", RIGHT["aws"])
    source.write_text("new")
    later = copy.stat().st_mtime + 5
    os.utime(source, (later, later))
    call("aws", RIGHT["aws"].replace("sync", "sync --size-only"))
    assert copy.read_text() == "old"
    call("aws", "s3 cp {}/a s3://bucket/x/b")
    assert (tmp_path / "s3/bucket/x/b").read_text() == "new"
    assert call("aws", "s3 cp {} s3://bucket/x").returncode == 255


def test_copy_is_killed_after_number_of_objects(call, tmp_path):
    (tmp_path / "data").mkdir()
    for name in "abc":
        (tmp_path / "data" / name).touch()
    (tmp_path / "CUT").write_text("2")
    assert call("aws", RIGHT["aws"]).returncode == -9
    assert sorted(path.name for path in (tmp_path / "s3/bucket/x").iterdir()) == ["a", "b"]


def test_listing_ends_with_1_where_nothing_is(call, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("x")
    assert call("aws", "s3 ls s3://bucket/x/").returncode == 1
    call("aws", RIGHT["aws"])
    assert call("aws", "s3 ls s3://bucket/x/").returncode == 0
    assert call("aws", "s3 ls s3://bucket/").returncode == 0
    assert call("aws", "s3 ls s3://bucket/x/a/").returncode == 1
    assert call("aws", "s3 ls s3://bucket/y/").returncode == 1
    # Without a slash it is the beginning of names.
    (tmp_path / "data" / "a[1].begun").touch()
    call("aws", RIGHT["aws"])
    assert call("aws", "s3 ls s3://bucket/x/a[1].").stdout.endswith(" a[1].begun\n")
    assert call("aws", "s3 ls s3://bucket/x/b").returncode == 1


def test_object_is_printed_or_absent(call, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("x")
    call("aws", RIGHT["aws"])
    assert call("aws", "s3 cp s3://bucket/x/a -").stdout == "x"
    done = call("aws", "s3 cp s3://bucket/x/b -")
    assert done.returncode == 1 and 'Key "x/b" does not exist' in done.stderr
