# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A training: signals before it runs, requeue, grace, capacity, notices, backup, its directory; srun is a stand-in."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import training as engine

from tests.rig.slurm.scripts import ROLE
from tests.unit.checkout import CHECKOUT

from .conftest import NUMBER

HEARS = 'until [ -e "$JOBS/c/checkpoint-now" ]; do sleep 0.05; done\nexit 75'
# The AWS CLI keeps the claim on a place in S3 and lists it.
CLAIM = '"s3 cp "*.begun) echo "1 ${5##*/}" >"$JOBS/claim"; exit ;;'
CLAIMS = f'case "$*" in {CLAIM} "s3 ls "*.) cat "$JOBS/claim"; exit ;; esac; '
# The AWS CLI where nothing is in S3 yet.
COPIES = f'{CLAIMS}[ "$2" = ls ] && exit 1; exit 0'
PROGRAMS = {"aws": "aws-stand-in", "python": "python"}
# Slurm's srun ends its step for TERM, whatever the training does.
DEAF = "exec sleep 600"


@pytest.fixture
def signalled(batch, training):
    """signalled(program, srun) runs a training whose step is those lines of shell, and which that program signals when
    it is first called. Without a program nothing signals it. Values are those of the job.
    """

    def run(program, srun, environment=None, requeue="exit 0", **values):
        job = {**training, "grace_seconds": 77, **values}
        once = f"[ -e {batch.folder}/sent ] || {{ : >{batch.folder}/sent; kill -USR1 $(cat {batch.folder}/pid); }}\n"
        hold = f"{once if program == 'holder' else ''}echo holds it; cat >/dev/null; exit 0"
        python = f'case "$*" in *" hold "*) {hold} ;; esac\nexec {sys.executable} "$@"'
        shown = 'echo "$*" >>"$JOBS/scontrol"; [ "$2" = hostnames ] && echo n1\n'
        answers = f'{shown}[ "$1" = requeue ] || exit 0\n{requeue}'
        bodies = {"srun": f'echo "$*" >>"$JOBS/srun"\n{srun}', "scontrol": answers, "python": python, "aws": COPIES}
        for name, body in bodies.items():
            batch.program(name, (once if name == program else "") + body)
        done = batch.start(job, settings={"python": f"{batch.folder}/bin/python"}, **(environment or {}))
        assert (batch.folder / "sent").exists() == bool(program), done
        return done

    return run


@pytest.fixture
def events(batch):
    return (batch.results / "t-7" / "events.log").read_text


def requeues(batch):
    return (batch.folder / "scontrol").read_text().count("requeue 7\n")


@pytest.mark.parametrize("program", ["holder", "scontrol", "srun"])
def test_signal_before_training_is_not_lost(signalled, batch, events, program):
    done = signalled(program, HEARS)
    assert (done.returncode, batch.status) == (75, "75\n"), done
    assert events().count("asks for a checkpoint") == 1 and "goes back into the queue" in events()
    assert requeues(batch) == 1


@pytest.fixture
def retry_at_once(monkeypatch, batch):
    """A runtime that does not wait between two tries of a controller."""
    program = f"{batch.folder}/bin/python"
    patched = (
        "import runpy, sys; sys.argv = sys.argv[1:]; sys.path.insert(0, sys.argv[0])\n"
        "from mlcluster._node.jobs import training\n"
        "training.RETRY_SECONDS = 0.1\n"
        "sys.path.pop(0)\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    install = batch.program

    def write(name, body):
        install(name, body.replace('"$@"', f'-c {shlex.quote(patched)} "$@"') if name == "python" else body)

    monkeypatch.setattr(batch, "program", write)
    return program


@pytest.mark.usefixtures("retry_at_once")
def test_controller_that_is_silent_for_while_costs_no_requeue(signalled, batch, events):
    down = "slurm_requeue error: Unable to contact slurm controller (connect failure)"
    requeue = f'[ $(grep -c requeue "$JOBS/scontrol") -ge 3 ] || {{ echo "{down}" >&2; exit 1; }}'
    done = signalled("srun", HEARS, requeue=requeue)
    assert done.returncode == 75, done
    assert requeues(batch) == 3
    assert events().count(f"is not in the queue: {down}\n") == 2 and events().count("ends with 75") == 1


def test_requeue_that_controller_rejects_is_tried_once(signalled, batch, events):
    done = signalled("srun", HEARS, requeue='echo "Requested operation is presently disabled for job 7" >&2; exit 1')
    assert done.returncode == 75, done
    assert requeues(batch) == 1
    assert "is not in the queue: Requested operation is presently disabled for job 7\n" in events()


def test_order_to_end_with_requeue_leaves_status_of_training(signalled, batch):
    done = signalled("srun", HEARS, requeue='kill -TERM $(cat "$JOBS/pid"); exit 0')
    assert (done.returncode, batch.status) == (75, "75\n"), done


def test_training_that_does_not_hear_is_ended(signalled, batch, events):
    done = signalled("holder", DEAF, grace_seconds=1)
    assert done.returncode == 143, done
    assert "training ended with 143" in events() and requeues(batch) == 1


def test_training_out_of_requeues_is_not_put_back(signalled, batch, events):
    done = signalled("srun", HEARS, {"SLURM_RESTART_COUNT": "2"}, requeues=2)
    assert done.returncode == 75 and requeues(batch) == 0 and "asks for a checkpoint" in events()


def test_end_that_is_past_is_ignored_and_noted(signalled, events):
    done = signalled(None, "exit 3", ends_at="2001-02-03T04:05:06Z")
    assert done.returncode == 3, done
    assert "ignores ends_at, for 2001-02-03T04:05:06Z is past" in events()
    assert "asks for a checkpoint" not in events() and "queue" not in events()


def soon(seconds):
    """So many seconds from now, as ends_at takes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def test_near_end_is_heeded_once_and_not_after_requeue(signalled, batch, events):
    """Seconds enough for the slowest machine, and fewer than signal_seconds."""
    first = signalled(None, HEARS, ends_at=soon(500))
    assert first.returncode == 75 and "goes back into the queue" in events(), first
    shutil.rmtree(batch.results / "t-7")
    again = signalled(None, "exit 3", {"SLURM_RESTART_COUNT": "1"}, ends_at=soon(500))
    assert again.returncode == 3, again
    assert "restart 1: continues until the nodes stop" in events()
    assert "asks for a checkpoint" not in events() and "queue" not in events()


@pytest.mark.parametrize(
    ("ends_at", "restart", "until", "note"),
    [
        ("1970-01-01T00:20:00Z", 0, 590, ""),
        ("1970-01-01T00:10:05Z", 0, 0, ""),
        ("1970-01-01T00:10:05Z", 1, None, "continues until the nodes stop, for ends_at is 595 seconds away"),
        ("1970-01-01T00:00:10Z", 0, None, "ignores ends_at, for 1970-01-01T00:00:10Z is past"),
        ("1970-01-01T02:00:10+0200", 0, None, "ignores ends_at, for 1970-01-01T02:00:10+0200 is past"),
    ],
)
def test_time_until_end_of_capacity(ends_at, restart, until, note):
    times = engine.capacity({"ends_at": ends_at, "signal_seconds": 600}, 10.0, restart)
    assert times.until_request == until and times.note.startswith(note) and bool(times.note) == bool(note)


def test_notice_of_node_requests_checkpoint(signalled, batch, events):
    notice = 'case "$*" in *instance-notice*) echo "spot terminate at X"; exit 1 ;; esac\n'
    done = signalled(None, notice + HEARS, notice_seconds=1)
    assert done.returncode == 75 and "asks for a checkpoint" in events() and requeues(batch) == 1, done
    assert (batch.results / "t-7" / "notice.log").read_text() == "spot terminate at X\n"
    calls = (batch.folder / "srun").read_text()
    assert "--overlap --kill-on-bad-exit=0" in calls and "instance-notice --before 600 --every 1\n" in calls


def test_end_of_notice_watch_is_no_notice(signalled, batch, events):
    done = signalled(None, 'case "$*" in *instance-notice*) exit 2 ;; esac\nsleep 0.5; exit 3', notice_seconds=1)
    assert done.returncode == 3 and "asks for a checkpoint" not in events() and requeues_of(batch) == 0


def requeues_of(batch):
    return (batch.folder / "scontrol").read_text().count("requeue")


@pytest.mark.parametrize(
    ("gpus", "on_node", "expected"), [(8, None, 8), (8, "4", 4), (8, "8", 8), (8, "16", 8), (8, "0", 1), (0, None, 1)]
)
def test_shared_node_has_process_for_each_given_gpu(gpus, on_node, expected):
    assert engine.processes(gpus, on_node) == expected


def test_number_of_processes_is_that_of_tasks(signalled, batch, training):
    script = batch.start({**training, "command": ["true"]}, settings={"gpus_per_node": 8}, SLURM_GPUS_ON_NODE="4")
    assert script.returncode == 0, script
    assert "--ntasks-per-node=4 --ntasks=4 " in (batch.folder / "srun").read_text()


def test_newest_checkpoint_goes_to_s3_first(signalled, batch, events):
    """Slurm may end the job before all are there."""
    for step in (10, 30, 20):
        (batch.folder / "c" / f"step-{step}").mkdir(parents=True)
        (batch.folder / "c" / f"step-{step}" / "complete").touch()
    signalled("", "exit 0", backup="s3://bucket/runs", keep=1)
    backed_up = [line.rpartition("step-")[2] for line in events().splitlines() if "backed up" in line]
    assert backed_up == ["30", "20", "10"], events()
    # With a copy each, the older ones may go.
    assert [path.name for path in (batch.folder / "c").iterdir()] == ["step-30"]


@pytest.mark.parametrize("aws", ["exit 1", '[ "$2" = cp ] || echo "(dryrun) upload: x"', '[ "$4" != --dryrun ]'])
def test_copy_that_is_not_proved_does_not_count(training, batch, events, aws):
    (batch.folder / "c" / "step-1").mkdir(parents=True)
    (batch.folder / "c" / "step-1" / "complete").touch()
    batch.program("aws-stand-in", f'{CLAIMS}[ "$2" = ls ] && exit 1; {aws}')
    job = {**training, "backup": "s3://bucket/runs"}
    batch.start(job, settings={"aws": f"{batch.folder}/bin/aws-stand-in"})
    assert f"NOT backed up: {batch.folder}/c/step-1\n" in events()
    assert [path.name for path in sorted((batch.folder / "c" / "step-1").glob(".*"))] == [".backup-begun"]


@pytest.fixture
def copying(training, batch, events):
    """Return ``copying(keep)``: it runs a training with a stand-in for the AWS CLI; returns events of its copies.

    The training itself does nothing, and what holds its directory is a stand-in, so the job runs in this process.
    ``copying.at`` is the folder that stands for this training's prefix in S3, ``copying.once(lines)`` is a run whose
    AWS CLI first does these lines of shell.
    """
    (batch.folder / "cli").mkdir()
    shutil.copy(CHECKOUT / "tests/integration/slurm/programs/aws.py", batch.folder / "cli" / "aws")
    batch.program("srun", "exit 0")
    batch.program("python", "echo holds it; cat >/dev/null")

    def once(lines, keep=3):
        batch.program("aws-stand-in", f'{lines}\nexec {sys.executable} -I -S {batch.folder}/cli/aws "$@"')
        programs = {name: f"{batch.folder}/bin/{program}" for name, program in PROGRAMS.items()}
        assert batch.run_here({**training, "backup": "s3://bucket/runs", "keep": keep}, programs) == 0

    def run(keep=3):
        once("", keep)
        return [line.partition(": ")[2] for line in events().splitlines() if "backed up" in line or "another" in line]

    run.at = batch.folder / "cli/s3/bucket/runs/t"
    run.once = once
    return run


def checkpoint(folder, step, content, marker="", mtime=None):
    place = folder / f"step-{step}"
    place.mkdir(parents=True, exist_ok=True)
    for name, text in (("data", content), ("complete", marker)):
        (place / name).write_text(text)
        if mtime:
            os.utime(place / name, (mtime, mtime))
    return place


MANIFEST = json.dumps(
    {"schema": "mlcluster.checkpoint/1", "step": 1, "world_size": 1, "files": {}, "notes": {}, "created": ""}
)


FILES = {"data": {"size": 5, "sha256": hashlib.sha256(b"mine!").hexdigest()}}
LISTED = json.dumps({**json.loads(MANIFEST), "files": FILES})


@pytest.mark.parametrize("marker", ["", MANIFEST])
def test_copy_of_another_training_is_not_used_or_replaced(copying, batch, marker):
    """The AWS CLI takes an object of the same size for the copy of an older file."""
    mine = checkpoint(batch.folder / "c", 1, "mine!", marker, mtime=1_000_000)
    other = checkpoint(copying.at, 1, "other", marker and marker.replace('"created": ""', '"created": "x"'))
    checkpoint(batch.folder / "c", 2, "newer")
    found = copying(keep=1)
    assert f"NOT backed up: {mine}" in found
    assert "s3://bucket/runs/t/step-1 holds another checkpoint of that name: set backup to a prefix" in " ".join(found)
    assert (other / "data").read_text() == "other" and (mine / "data").read_text() == "mine!"


def test_checkpoint_restored_from_its_copy_is_backed_up(copying, batch):
    mine = checkpoint(batch.folder / "c", 1, "mine!", LISTED)
    checkpoint(copying.at, 1, "mine!", LISTED)
    assert f"backed up {mine}" in copying()


@pytest.mark.parametrize("name", ["notes", "more/data"])
def test_file_outside_the_manifest_is_sent_again(copying, batch, name):
    """The manifest of the copy does not prove it, and neither does its size."""
    mine = checkpoint(batch.folder / "c", 1, "mine!", LISTED)
    (mine / name).parent.mkdir(exist_ok=True)
    (mine / name).write_text("first")
    assert copying() == [f"backed up {mine}"]
    (mine / name).write_text("again")
    assert f"backed up {mine} to " in " ".join(copying())
    assert [(path.parent / name).read_text() for path in sorted(copying.at.glob("*/complete"))] == ["first", "again"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_copy_that_was_begun_never_joins_that_of_another(copying, batch, is_whole):
    """It was begun with nothing sent; then a training with the same prefix used the place."""
    mine = checkpoint(batch.folder / "c", 1, "mine!")
    (batch.folder / "cli" / "CUT").write_text("0")
    assert copying() == [f"NOT backed up: {mine}"] and not copying.at.exists()
    (batch.folder / "cli" / "CUT").unlink()
    other = checkpoint(copying.at, 1, "other")
    if not is_whole:
        (other / "complete").unlink()
    assert f"backed up {mine} to s3://bucket/runs/t/step-1." in " ".join(copying())
    assert copies(copying.at) == (["other"] if is_whole else []) + ["mine!"]
    assert (other / "data").read_text() == "other" and (other / "complete").exists() is is_whole


def test_place_claimed_at_the_same_moment_is_left(copying, batch):
    """Both found it empty; files of equal size would be taken for copies, and either marker would be the last."""
    mine = checkpoint(batch.folder / "c", 1, "mine!")
    claimed = f"{copying.at}/step-1.{'0' * 16}.begun"
    copying.once(f'[ "$2" = cp ] && mkdir -p {copying.at} && echo >{claimed}')
    (place,) = copying.at.glob("step-*/complete")
    assert place.parent.name.endswith(".again") and copies(copying.at) == ["mine!"]
    # Nothing is left to send.
    assert copying() == [] and mine.exists()


def test_cut_copy_without_its_mark_continues_at_its_place(copying, batch):
    """A full disk takes no mark; here a directory has its name. The claim in S3 is enough."""
    mine = checkpoint(batch.folder / "c", 1, "mine!")
    (mine / ".backup-begun").mkdir()
    # The claim and the data, without the marker.
    (batch.folder / "cli" / "CUT").write_text("2")
    assert copying() == [f"NOT backed up: {mine}"]
    assert [path.name for path in (copying.at / "step-1").iterdir()] == ["data"]
    (mine / ".backup-begun").rmdir()
    (batch.folder / "cli" / "CUT").unlink()
    assert copying() == [f"backed up {mine}"]
    assert [path.parent.name for path in copying.at.glob("step-1*/complete")] == ["step-1"]


def copies(at, name="data"):
    """Return the content of a file in each copy in S3 that has the marker, that of the first place first."""
    return [path.with_name(name).read_text() for path in sorted(at.glob("step-*/complete"))]


def test_rewritten_checkpoint_is_sent_again(copying, batch):
    mine = checkpoint(batch.folder / "c", 1, "first")
    assert copying() == [f"backed up {mine}"]
    (mine / "complete").unlink()
    checkpoint(batch.folder / "c", 1, "again")
    (again,) = copying()
    assert copies(copying.at) == ["first", "again"]
    (place,) = copying.at.glob("*.again")
    assert again == f"backed up {mine} to s3://bucket/runs/t/{place.name}"
    # Nothing is left to send.
    assert copying() == []


@pytest.mark.parametrize("begun", [False, True])
def test_file_of_same_size_and_older_time_is_sent_again(copying, batch, begun):
    """As aws s3 sync does not: it takes a newer object of the same size for the copy."""
    mine = checkpoint(batch.folder / "c", 1, "first")
    if begun:
        (batch.folder / "cli" / "LOSSY").touch()
        checkpoint(copying.at, 2, "x")
        assert f"NOT backed up: {mine}" in copying()
        (batch.folder / "cli" / "LOSSY").unlink()
        checkpoint(copying.at, 1, "first")
    else:
        assert f"backed up {mine}" in copying()
    checkpoint(batch.folder / "c", 1, "again", mtime=1_000_000)
    assert f"backed up {mine} to s3://bucket/runs/t/step-1." in " ".join(copying())
    (place,) = copying.at.glob("step-1.*.again")
    assert (place / "data").read_text() == "again" and (copying.at / "step-1" / "data").read_text() == "first"


@pytest.mark.parametrize("allowed", range(4))
def test_copy_cut_at_any_object_leaves_the_older_one_whole(copying, batch, allowed):
    """The marker of the older copy must never stand beside files of the newer one."""
    mine = checkpoint(batch.folder / "c", 1, "first")
    (mine / "more").write_text("first")
    copying()
    for name in ("data", "more"):
        (mine / name).write_text("again")
    cut = batch.folder / "cli" / "CUT"
    cut.write_text(str(allowed))
    done = copying()
    again = ["again"] if allowed == 3 else []
    assert ("NOT" in done[0]) is (allowed < 3), done
    for name in ("data", "more"):
        assert copies(copying.at, name) == ["first", *again]
    # The next run sends what is missing, and nothing twice.
    cut.write_text(str(3 - allowed))
    copying()
    for name in ("data", "more"):
        assert copies(copying.at, name) == ["first", "again"]


def test_checkpoint_written_during_its_copy_gets_no_marker(copying, batch):
    mine = checkpoint(batch.folder / "c", 1, "first")
    copying.once(f'[ "$2" = sync ] && echo again >{mine}/data')
    assert [path.name for path in (copying.at / "step-1").iterdir()] == ["data"]
    assert f"backed up {mine} to " in " ".join(copying())
    assert copies(copying.at) == ["again\n"]


def test_marker_written_while_it_is_sent_joins_no_other_files(copying, batch):
    """Beside files of equal size it would make them look like a whole copy of the later content."""
    mine = checkpoint(batch.folder / "c", 1, "mine!", LISTED)
    later = LISTED.replace(FILES["data"]["sha256"], hashlib.sha256(b"again").hexdigest())
    (batch.folder / "later").write_text(later)
    again = f"printf again >{mine}/data; cp {batch.folder}/later {mine}/complete"
    copying.once(f'case "$2 $5" in cp*/complete) {again} ;; esac')
    assert (copies(copying.at), copies(copying.at, "complete")) == (["mine!"], [LISTED])
    assert f"backed up {mine} to s3://bucket/runs/t/step-1." in " ".join(copying())
    assert (copies(copying.at), copies(copying.at, "complete")) == (["mine!", "again"], [LISTED, later])


def test_large_copy_that_is_always_cut_comes_to_its_end(copying, batch):
    """Each run sends one more file, also of the copy of a later content."""
    mine = checkpoint(batch.folder / "c", 1, "first")
    copying()
    for number in range(3):
        (mine / f"part-{number}").write_text("again")
    cut = batch.folder / "cli" / "CUT"
    found: list[str] = []
    # Four files; only the run with nothing left to cut sends the marker.
    for _run in range(5):
        cut.write_text("1")
        found += copying()
    assert found[:4] == [f"NOT backed up: {mine}"] * 4 and f"backed up {mine} to " in found[4]
    assert copies(copying.at) == ["first", "first"]


def test_other_time_of_a_file_is_no_reason_to_send_it(copying, batch):
    """As after a restore, or with a clock that was set back: the manifest shows that S3 has this content."""
    mine = checkpoint(batch.folder / "c", 1, "mine!", LISTED)
    assert f"backed up {mine}" in copying()
    os.utime(mine / "data", (4_000_000_000, 4_000_000_000))
    (batch.folder / "cli" / "CUT").write_text("1")
    # The marker only.
    assert copying() == [f"backed up {mine}"]
    assert [path.name for path in copying.at.iterdir() if path.is_dir()] == ["step-1"]


def test_marker_is_copied_after_all_other_files(training, batch, events):
    """A copy that is cut short never looks complete."""
    checkpoint(batch.folder / "c", 1, "mine")
    program = '[ "$2" = ls ] && exit 1; [ "$2" = sync ] && exit 1; exit 0'
    batch.program("aws-stand-in", f'{CLAIMS}echo "$*" >>"$JOBS/aws"; {program}')
    batch.start({**training, "backup": "s3://bucket/runs"}, settings={"aws": f"{batch.folder}/bin/aws-stand-in"})
    (sent,) = [line for line in (batch.folder / "aws").read_text().splitlines() if " ls " not in line]
    assert "--exclude complete " in sent
    assert f"NOT backed up: {batch.folder}/c/step-1\n" in events()


@pytest.mark.parametrize("name", ["lr[1]-1", "l?r*-1"])
def test_checkpoint_with_name_of_a_pattern_gets_its_marker_last(copying, batch, name):
    """The AWS CLI reads the path of a folder as a part of each pattern."""
    mine = batch.folder / "c" / name
    (mine / "more" / name).mkdir(parents=True)
    for file in ("data", "complete", f"more/{name}/complete"):
        (mine / file).write_text("x")
    begun = copying.at / name
    copying.once('case "$2 $5" in cp*/complete) exit 1 ;; esac')
    assert sorted(path.name for path in begun.iterdir()) == ["data", "more"]
    assert (begun / "more" / name / "complete").exists()
    assert f"backed up {mine}" in copying()
    assert sorted(path.name for path in begun.iterdir()) == ["complete", "data", "more"]


def test_damaged_checkpoint_does_not_replace_its_good_copy(copying, batch):
    mine = checkpoint(batch.folder / "c", 1, "mine!", LISTED)
    assert f"backed up {mine}" in copying()
    checkpoint(batch.folder / "c", 1, "m1ne!", LISTED)
    assert f"NOT backed up: {mine}" in copying()
    assert (copying.at / "step-1" / "data").read_text() == "mine!"


def test_copy_that_was_begun_continues(copying, batch):
    mine = checkpoint(batch.folder / "c", 1, "mine!")
    cut = batch.folder / "cli" / "CUT"
    # Each run sends one more: the claim on the place, a file, and the marker.
    for sent in (0, 1):
        cut.write_text("1")
        assert f"NOT backed up: {mine}" in copying()
        assert len(list(copying.at.glob("step-1.*.begun"))) == 1
        assert len(list(copying.at.glob("step-1/*"))) == sent
    cut.write_text("1")
    assert copying() == [f"backed up {mine}"]
    assert copies(copying.at) == ["mine!"]


def test_place_in_s3_that_cannot_be_listed_is_not_written_to(training, batch, events):
    checkpoint(batch.folder / "c", 1, "mine")
    batch.program("aws-stand-in", 'echo "$*" >>"$JOBS/aws"; [ "$2" = ls ] && exit 254; exit 0')
    batch.start({**training, "backup": "s3://bucket/runs"}, settings={"aws": f"{batch.folder}/bin/aws-stand-in"})
    assert f"NOT backed up: {batch.folder}/c/step-1\n" in events()
    assert not {"sync", "cp"} & set((batch.folder / "aws").read_text().split())


def test_copy_at_end_continues_when_job_is_reported_to_end(training, batch, events):
    """Slurm sends TERM to every process of the job."""
    (batch.folder / "c" / "step-1").mkdir(parents=True)
    (batch.folder / "c" / "step-1" / "complete").touch()
    end = 'kill -TERM $$; kill -TERM $(cat "$JOBS/pid"); exit 0'
    batch.program("aws-stand-in", f'{CLAIMS}[ "$2" = ls ] && exit 1; {end}')
    done = batch.start({**training, "backup": "s3://bucket/runs"}, settings={"aws": f"{batch.folder}/bin/aws-stand-in"})
    assert (done.returncode, batch.status) == (0, "0\n"), done
    assert f" backed up {batch.folder}/c/step-1\n" in events()


def test_unreadable_checkpoints_stop_training(batch, training, monkeypatch):
    (batch.folder / "c").mkdir()
    (batch.folder / "c" / "step-1").mkdir()
    # A link to too long a name: the file system does not report whether the marker exists.
    (batch.folder / "c" / "step-1" / "complete").symlink_to("x" * 300)
    done = batch.start(training)
    assert done.returncode == 2 and "so the checkpoint to resume from is unknown: see that" in done.stderr, done
    assert not (batch.folder / "srun").exists() and (batch.folder / "c" / "step-1").exists()


def test_second_training_in_directory_does_not_start(batch, training, events):
    (batch.folder / "c").mkdir()
    command = [sys.executable, "-m", "mlcluster_data", "hold", str(batch.folder / "c")]
    environment = {**os.environ, "SLURM_JOB_ID": "6", "SLURM_RESTART_COUNT": "0", "PYTHONPATH": str(ROLE / "files")}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout.readline() == f"holds {batch.folder}/c\n".encode()
        done = batch.start(training)
        assert (done.returncode, batch.status) == (1, "1\n")
        assert f"ERROR: {batch.folder}/c is in use by process {holder.pid} of job 6 on " in done.stderr
        assert "did not start" in events()
        assert not (batch.folder / "srun").exists()
        holder.stdin.close()
    assert holder.returncode == 0
    assert batch.start(training).returncode == 0
    assert (batch.folder / "srun").exists()
    assert list((batch.folder / "c").iterdir()) == []


def test_job_that_comes_back_is_not_kept_out_by_its_earlier_run(batch, training, events):
    """Not even while the last process of that run is still there."""
    (batch.folder / "c").mkdir()
    command = [sys.executable, "-m", "mlcluster_data", "hold", str(batch.folder / "c")]
    environment = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "0", "PYTHONPATH": str(ROLE / "files")}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as holder:
        holder.stdout.readline()
        assert batch.start(training, SLURM_RESTART_COUNT="1").returncode == 0
        holder.stdin.close()
    assert "which process" in events()


@pytest.fixture
def taken():
    """A job number whose port something listens on, while nothing does on the next one that the job would try."""
    for number in range(NUMBER, NUMBER + 3000):
        try:
            with (
                socket.create_server(("127.0.0.1", 20000 + number + 3163)),
                socket.create_server(("127.0.0.1", 20000 + number)),
            ):
                pass
            server = socket.create_server(("127.0.0.1", 20000 + number))
        except OSError:
            continue
        with server:
            yield number
        return


def test_port_on_which_something_listens_is_passed_over(batch, training, taken):
    assert batch.start(training, SLURM_JOB_ID=str(taken)).returncode == 0
    assert f" MASTER_PORT={20000 + taken + 3163} " in (batch.folder / "srun").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_restart_writes_no_results_of_another_user(batch, training):
    place = batch.results / f"t-{NUMBER}"
    place.mkdir()
    os.chown(place, 1001, 1001)
    done = batch.start(training, SLURM_RESTART_COUNT="1")
    assert (done.returncode, list(place.iterdir())) == (2, [])
    assert f"t: {place} is not of root: let it be moved away" in done.stderr


def test_training_ended_while_waiting_has_its_status(batch, training):
    batch.program("python", f'case "$*" in *" hold "*) kill -TERM $(cat "$JOBS/pid"); cat >/dev/null; exit 1 ;; esac\n'
                  f'exec {sys.executable} "$@"')  # fmt: skip
    done = batch.start(training, settings={"python": f"{batch.folder}/bin/python"})
    assert (done.returncode, batch.status) == (143, "143\n"), done
    assert not (batch.folder / "srun").exists()


def test_holder_ended_as_it_gets_directory_leaves_no_lock(tmp_path):
    program = f"""
import os, signal
from mlcluster_data import __main__
from mlcluster_data.locks import directory
directory.Lock._sweep = lambda self, here: os.kill(os.getpid(), signal.SIGTERM)
__main__.main(["hold", {str(tmp_path)!r}])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROLE / "files")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (143, [])
