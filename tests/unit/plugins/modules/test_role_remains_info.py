# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""role_remains_info as Ansible runs it."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.modules import role_remains_info


def test_text_names_what_exists(run_on_controller, tmp_path):
    items = [
        {"what": "the results", "paths": [str(tmp_path)]},
        {"what": "the client", "paths": [str(tmp_path / "none")]},
        {"what": "the mount", "found": True},
    ]
    found = run_on_controller(role_remains_info, items=items)
    assert (found["changed"], found["kept"]) == (False, ["the results", "the mount"])
    assert found["text"] == "the results; the mount"


def test_absent_items_are_nothing(run_on_controller, tmp_path):
    found = run_on_controller(role_remains_info, items=[{"what": "x", "paths": [str(tmp_path / "none")]}])
    assert (found["kept"], found["text"]) == ([], "nothing")
