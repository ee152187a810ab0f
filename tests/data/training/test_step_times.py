# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step times: the time that a rank spends in its own work, and the file with the times."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from mlcluster_data.training import step_times, trainer

from tests.data.training.test_trainer import Run, at_step

CPU = torch.device("cpu")


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(step_times, "time", clock)
    return clock


def one_step(times, clock, batch=0.5, waiting=2.0, forward=0.25, rest=1.0):
    clock.now += batch
    times.batch_is_there()
    clock.now += waiting
    with times.forward():
        clock.now += forward
    clock.now += rest
    times.step_is_over()


def test_wait_for_other_ranks_is_not_own_time(clock, tmp_path):
    times = step_times.StepTimes(tmp_path / "steps.0", CPU)
    clock.now += 50
    times.begin()
    one_step(times, clock)
    one_step(times, clock)
    assert (tmp_path / "steps.0").read_text() == "2 7.500000 1.500000\n"
    times.close()
    assert list(tmp_path.iterdir()) == []


def test_file_is_written_at_intervals(clock, tmp_path):
    times = step_times.StepTimes(tmp_path / "steps.0", CPU)
    for _step in range(5):
        one_step(times, clock, 0.05, 0.05, 0.05, 0.05)
    assert (tmp_path / "steps.0").read_text().split()[0] == "1"
    one_step(times, clock)
    assert (tmp_path / "steps.0").read_text().split()[0] == "6"


class Event:
    """A GPU event: the GPU works for 0.25 s after each one, and has reached the first of two."""

    reached = 0

    def __init__(self, enable_timing):
        assert enable_timing
        self.number = 0

    def record(self):
        Event.reached += 1
        self.number = Event.reached

    def query(self):
        return self.number <= Event.reached - 2

    def elapsed_time(self, other):
        assert other.number == self.number + 1
        return 250.0


def test_gpu_times_are_read_without_waiting(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    times = step_times.StepTimes(tmp_path / "steps.0", torch.device("cuda"))
    for _step in range(3):
        one_step(times, clock, batch=0.5, forward=9.0)
    # The last step is not finished.
    assert times.own == 3 * 0.5 + 2 * 0.25


@pytest.mark.parametrize("kind", ["missing", "link"])
def test_unwritable_file_does_not_end_training(clock, tmp_path, caplog, kind):
    path = tmp_path / "gone" / "steps.0"
    if kind == "link":
        path.parent.mkdir()
        (tmp_path / "other").write_text("kept")
        path.symlink_to(tmp_path / "other")
    times = step_times.StepTimes(path, CPU)
    one_step(times, clock)
    one_step(times, clock)
    times.close()
    assert caplog.text.count("step times cannot be written") == (kind == "missing")
    # The entry is replaced and not followed.
    assert kind == "missing" or (tmp_path / "other").read_text() == "kept"


@pytest.mark.parametrize(
    "variables, name",
    [
        ({}, None),
        ({"LOCAL_RANK": "3"}, None),
        ({"MLCLUSTER_STEP_FILE": "/dev/shm/s.7", "LOCAL_RANK": "3"}, "/dev/shm/s.7.3"),
        ({"MLCLUSTER_STEP_FILE": "/dev/shm/s.7"}, "/dev/shm/s.7.0"),
        ({"MLCLUSTER_STEP_FILE": "/dev/shm/s.7", "LOCAL_RANK": "../x"}, None),
    ],
)
def test_file_of_rank(variables, name):
    assert step_times.file_of(variables) == (Path(name) if name else None)


def test_training_writes_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(step_times, "EVERY", 0.0)
    made = trainer.Trainer

    def with_file(*given, **named):
        rank = torch.distributed.get_rank()
        return made(*given, **named, step_file=tmp_path / f"steps.{rank}")

    monkeypatch.setattr(trainer, "Trainer", with_file)

    def check(training):
        # An epoch has six steps; the time between epochs is not a step.
        steps, seconds, own = (tmp_path / f"steps.{torch.distributed.get_rank()}").read_text().split()
        assert int(steps) == training.position.step - 1 and 0 < float(own) < float(seconds)

    place = tmp_path / "run"
    place.mkdir()
    assert [ended for ended, *_rest in Run(place).go(during=at_step(8, check))] == [True, True]
    assert not list(tmp_path.glob("steps.*"))
