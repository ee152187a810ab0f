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


def test_release_is_end_of_name():
    assert containers.release_of("mlcluster-nvme_raid0-debian13") == "debian13"
    with pytest.raises(ContainerError, match="does not end in one of debian12, debian13"):
        containers.release_of("mlcluster-default-plan9")


@pytest.mark.parametrize("answer", [(1, "no such image"), (0, "1000\n")])
def test_missing_or_stale_image_is_built(podman, monkeypatch, answer):
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


@pytest.mark.parametrize(("hard", "expected"), [(20000, 20000), (containers.resource.RLIM_INFINITY, 65536)])
def test_limits_stay_below_those_of_host(monkeypatch, hard, expected):
    monkeypatch.setattr(containers.resource, "getrlimit", lambda number: (1024, hard))
    assert f"nofile={expected}:{expected}" in containers.limits()


def test_boot_names_failed_unit(podman):
    answers, _asked = podman
    outputs = iter(["degraded\n", "broken.service loaded failed failed A unit\n"])
    answers["exec"] = lambda: (1, next(outputs))
    with pytest.raises(ContainerError, match=r"booted with a failed unit: broken\.service"):
        containers.boot("host")


@pytest.mark.parametrize("state", ["exited", "stopped", "removing"])
def test_boot_stops_for_container_that_ended(podman, state):
    answers, _asked = podman
    answers.update(exec=(255, ""), inspect=(0, f"{state}\n"), logs=(0, "no init found\n"))
    with pytest.raises(ContainerError, match="ended while booting: no init found"):
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
    output = ""
    while f"waiting for another run that holds {name}" not in output:
        assert thread.is_alive(), output
        output += capsys.readouterr().out
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["molecule", "mlcluster-a-debian12", "image-debian13"])
def test_clean_waits_for_user_of_host_or_image(podman, capsys, name):
    answers, asked = podman
    answers["ps"] = (0, json.dumps([{"Names": ["mlcluster-a-debian12"]}]))
    with containers.locked(name):
        thread = threading.Thread(target=containers.clean)
        when_refused(thread, capsys, name)
        assert not [words for words in asked if words[0] in ("rm", "rmi")]
    thread.join()
    assert ("rm", "--force", "--ignore", "--time", "0", "mlcluster-a-debian12") in asked
