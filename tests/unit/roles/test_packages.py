# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages are installed by the shared tasks of roles/plan, which wait for the holder of the package manager's lock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PLAN = ROOT / "roles/plan"
INSTALLERS = {"apt", "dnf", "dnf5", "yum", "package"}


def tasks(content: Any) -> Iterator[dict[str, Any]]:
    """Every task of a file, those in blocks too."""
    for task in content if isinstance(content, list) else []:
        if isinstance(task, dict):
            yield task
            for part in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers"):
                yield from tasks(task.get(part))


def installers() -> list[tuple[str, str, dict[str, Any]]]:
    """(file, module, task) of each task that installs packages."""
    files = [
        *ROOT.glob("roles/*/tasks/**/*.yml"),
        *ROOT.glob("roles/*/handlers/*.yml"),
        *ROOT.glob("playbooks/**/*.yml"),
    ]
    return [
        (path.relative_to(ROOT).as_posix(), word.rpartition(".")[2], task)
        for path in sorted(files)
        for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8")))
        for word in task
        if word.rpartition(".")[2] in INSTALLERS
    ]


def test_packages_are_only_installed_by_shared_tasks():
    others = {path for path, _module, _task in installers() if not path.startswith("roles/plan/")}
    assert others == set()


@pytest.mark.parametrize("path, module, task", [entry for entry in installers() if entry[0].startswith("roles/plan/")])
def test_shared_package_task_waits_and_retries(path, module, task):
    arguments = next(value for key, value in task.items() if key.rpartition(".")[2] == module)
    assert task["retries"] >= 5 and "__plan_passes" in task["until"] and task["delay"] == "{{ __plan_delay }}"
    # The option lock_timeout of the dnf module has no effect.
    assert arguments.get("lock_timeout") == ("{{ __plan_lock_seconds }}" if module == "apt" else None)
    assert module != "apt" or task["environment"] == "{{ __plan_package_environment }}"


@pytest.mark.parametrize(
    "message, passes",
    [
        ("Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)", True),
        ("lockfile is held by another process", True),
        ("Failed to download metadata for repo 'amazonlinux'", True),
        ("dpkg: error: dpkg frontend lock was locked by another process with pid 4711", True),
        ("Failed to download packages: x-1-1.noarch: Cannot download, all mirrors were already tried", True),
        # A repository that dnf could not reach is passed over.
        ("Failed to install some of the specified packages No package nvidia-gds available.", True),
        ("Hash Sum mismatch", True),
        ("No package matching 'nvidia-gds' is available", False),
        ("Depsolve Error occurred: nothing provides kernel-devel", False),
        ("E: Unable to correct problems, you have held broken packages.", False),
    ],
)
def test_temporary_error_is_retried(message, passes):
    variables = yaml.safe_load((PLAN / "vars/main.yml").read_text(encoding="utf-8"))
    assert (variables["__plan_lock_seconds"], variables["__plan_delay"]) == (300, 10)
    assert variables["__plan_package_environment"]["NEEDRESTART_SUSPEND"] == "1"
    pattern = re.sub(r"\s+\|", "|", variables["__plan_passing"])
    assert bool(re.search(pattern, message)) is passes
