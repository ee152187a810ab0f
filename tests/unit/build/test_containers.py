# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import threading
import time

import pytest

from tests.build import containers
from tests.build.containers import ContainerError


@pytest.fixture
def podman(monkeypatch, tmp_path):
    """A podman that answers from a table of first words and records what it was asked."""
    asked = []
    answers = {}

    def run(*arguments):
        asked.append(arguments)
        answer = answers.get(arguments[0], (0, ""))
        status, text = answer() if callable(answer) else answer
        return subprocess.CompletedProcess(arguments, status, text, "" if status == 0 else text)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(containers, "podman", run)
    monkeypatch.setattr(containers.time, "time", lambda: 1_000_000.0)
    return answers, asked


def test_release_is_the_end_of_the_name():
    assert containers.release_of("mlcluster-nvme_raid0-debian13") == "debian13"
    with pytest.raises(ContainerError, match="does not end in one of debian12, debian13"):
        containers.release_of("mlcluster-default-plan9")


def test_images_of_different_releases_and_recipes_differ(monkeypatch):
    first = containers.image_name("debian12")
    assert containers.image_name("debian13") != first
    monkeypatch.setattr(containers, "RECIPE", (*containers.RECIPE, "--verbose"))
    assert containers.image_name("debian12") != first


def test_a_fresh_image_is_used(podman):
    answers, asked = podman
    answers["image"] = (0, "999000\n")
    assert containers.ensure_image("debian12") == containers.image_name("debian12")
    assert len(asked) == 1


@pytest.mark.parametrize("answer", [(1, "no such image"), (0, "1000\n")])
def test_a_missing_or_stale_image_is_built(podman, monkeypatch, answer):
    answers, asked = podman
    answers["image"] = answer
    built = []

    def build(command, **_options):
        built.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(containers.subprocess, "run", build)
    containers.ensure_image("debian12")
    assert [command[0] for command in built] == ["mmdebstrap"]
    assert asked[-1][0] == "import"


def test_a_failed_build_says_the_last_words(podman, monkeypatch):
    answers, _asked = podman
    answers["image"] = (1, "no such image")
    failed = subprocess.CompletedProcess([], 25, "", "first\nE: no space left\n")
    monkeypatch.setattr(containers.subprocess, "run", lambda command, **_options: failed)
    with pytest.raises(ContainerError, match="mmdebstrap failed with status 25: E: no space left"):
        containers.ensure_image("debian12")


@pytest.mark.parametrize(("hard", "expected"), [(20000, 20000), (containers.resource.RLIM_INFINITY, 65536)])
def test_limits_stay_below_those_of_the_host(monkeypatch, hard, expected):
    monkeypatch.setattr(containers.resource, "getrlimit", lambda number: (1024, hard))
    assert f"nofile={expected}:{expected}" in containers.limits()


def test_boot_ends_when_systemd_says_so(podman):
    answers, asked = podman
    answers["exec"] = (0, "running\n")
    containers.boot("host")
    assert len(asked) == 1


def test_boot_names_the_failed_unit(podman):
    answers, _asked = podman
    said = iter(["degraded\n", "broken.service loaded failed failed A unit\n"])
    answers["exec"] = lambda: (1, next(said))
    with pytest.raises(ContainerError, match=r"booted with a failed unit: broken\.service"):
        containers.boot("host")


@pytest.mark.parametrize("state", ["exited", "stopped", "removing"])
def test_boot_gives_up_on_a_container_that_ended(podman, state):
    answers, _asked = podman
    answers.update(exec=(255, ""), inspect=(0, f"{state}\n"), logs=(0, "no init found\n"))
    with pytest.raises(ContainerError, match="ended while booting: no init found"):
        containers.boot("host")


def test_boot_gives_up_on_a_container_that_somebody_removed(podman):
    answers, _asked = podman
    answers.update(exec=(125, "no such container"), inspect=(125, 'Error: no such container "host"'))
    with pytest.raises(ContainerError, match=r'Looking at host .* failed .*: Error: no such container "host"'):
        containers.boot("host")


def test_clean_removes_only_what_is_ours(podman, capsys):
    answers, asked = podman
    answers["ps"] = (0, json.dumps([{"Names": ["mlcluster-a-debian12"]}, {"Names": ["other"]}]))
    answers["images"] = (0, "localhost/mlcluster-debian12:abc\nlocalhost/other:1\nlocalhost/mlcluster-slurm:1\n")
    containers.clean()
    assert ("rm", "--force", "--ignore", "--time", "0", "mlcluster-a-debian12") in asked
    assert ("rmi", "localhost/mlcluster-debian12:abc") in asked
    assert capsys.readouterr().out == "removed 1 containers and 1 images\n"


def when_refused(thread, capsys, name):
    """Start the thread, and come back when it waits for the lock."""
    thread.start()
    said = ""
    while f"waiting for another run that holds {name}" not in said:
        assert thread.is_alive(), said
        said += capsys.readouterr().out
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["molecule", "mlcluster-a-debian12", "image-debian13"])
def test_clean_waits_for_whoever_uses_what_it_would_remove(podman, capsys, name):
    answers, asked = podman
    answers["ps"] = (0, json.dumps([{"Names": ["mlcluster-a-debian12"]}]))
    with containers.locked(name):
        thread = threading.Thread(target=containers.clean)
        when_refused(thread, capsys, name)
        assert not [words for words in asked if words[0] in ("rm", "rmi")]
    thread.join()
    assert ("rm", "--force", "--ignore", "--time", "0", "mlcluster-a-debian12") in asked


def test_errors_are_one_sentence_on_stderr(podman, capsys):
    assert containers.main(["up", "host-plan9"]) == 1
    assert capsys.readouterr().err.startswith("ERROR: host-plan9 does not end in")


def test_a_lock_is_held_by_one_at_a_time(podman, capsys):
    order = []

    def second():
        with containers.locked("demo"):
            order.append("second")

    with containers.locked("demo"):
        thread = threading.Thread(target=second)
        when_refused(thread, capsys, "demo")
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
