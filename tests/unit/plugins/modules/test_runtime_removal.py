# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""runtime_removal as Ansible runs it."""

from __future__ import annotations

import os

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import runtime_removal


@pytest.fixture
def options(tmp_path):
    (tmp_path / "m.pyz").write_text("zip")
    (tmp_path / "m").symlink_to(tmp_path / "m.pyz")
    (tmp_path / "etc").mkdir()
    paths = {"runtime": "m.pyz", "command": "m", "configuration": "etc"}
    return {name: str(tmp_path / path) for name, path in paths.items()}


def test_unused_runtime_is_removed_once(run_on_controller, options):
    found = run_on_controller(runtime_removal, **options)
    assert (found["changed"], found["removed"]) == (True, [options["command"], options["runtime"]])
    assert not os.path.lexists(options["command"]) and not os.path.lexists(options["runtime"])
    again = run_on_controller(runtime_removal, **options)
    assert (again["changed"], again["removed"], again["users"], again["foreign"]) == (False, [], [], [])


def test_runtime_of_a_link_is_kept(run_on_controller, options):
    """A configuration that is a link is used as much as a file."""
    user = f"{options['configuration']}/storage.json"
    os.symlink("/nowhere", user)
    found = run_on_controller(runtime_removal, **options)
    assert (found["changed"], found["removed"], found["users"]) == (False, [], [user])
    assert found["kept"] == [options["command"], options["runtime"]]
    assert os.path.lexists(options["runtime"])


def test_absent_runtime_is_not_kept(run_on_controller, options):
    os.symlink("/nowhere", f"{options['configuration']}/storage.json")
    os.unlink(options["command"])
    os.unlink(options["runtime"])
    assert run_on_controller(runtime_removal, **options)["kept"] == []


def test_check_mode_removes_nothing(run_on_controller, options):
    found = run_on_controller(runtime_removal, check=True, **options)
    assert found["changed"] and len(found["removed"]) == 2 and os.path.lexists(options["command"])


def test_denied_removal_is_one_sentence(run_on_controller, options, monkeypatch):
    def deny(paths):
        raise PermissionError(13, "Permission denied", paths[0])

    monkeypatch.setattr(runtime_removal.remains, "remove", deny)
    found = run_on_controller(runtime_removal, **options)
    assert found["failed"] and "the runtime could not be removed: " in found["msg"]
