# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a role against what the node has."""

from __future__ import annotations

import hashlib

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _file_drift


def file(**changes):
    return {"name": "limits", "paths": ["/a"], "wanted": True, "text": "x\n", **changes}


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def drift(files, sums, **state):
    """file_drift where every file that is there is root's, a plain file of mode 0644, or as state says."""
    states = {path: found and {"mode": "0644", "uid": 0, "is_link": False, **state} for path, found in sums.items()}
    return _file_drift.file_drift(files, sums, states)


def test_a_file_that_is_as_wanted_is_no_difference():
    assert drift([file()], {"/a": checksum("x\n")}) == []


@pytest.mark.parametrize("found", [None, checksum("y\n")])
def test_a_file_that_differs_is_written(found):
    wanted = {"name": "limits", "path": "/a", "text": "x\n", "mode": "0644", "backup": False}
    assert drift([file()], {"/a": found}) == [wanted]


@pytest.mark.parametrize("state", [{"mode": "0666"}, {"mode": "0600"}, {"uid": 1000}, {"is_link": True}])
def test_a_file_of_another_mode_or_owner_is_written_under_a_name_that_says_so(state):
    (found,) = drift([file()], {"/a": checksum("x\n")}, **state)
    assert found == {"name": "limits (mode or owner)", "path": "/a", "text": "x\n", "mode": "0644", "backup": False}
    # What is not to be there is not judged by them.
    assert drift([file(wanted=False, kept=True)], {"/a": checksum("x\n")}, **state) == []


def test_a_file_may_have_a_mode_of_its_own():
    assert drift([file(mode="0600")], {"/a": checksum("x\n")}, mode="0600") == []
    assert drift([file(mode="0600")], {"/a": None})[0]["mode"] == "0600"


def test_every_path_of_an_entry_is_compared():
    found = drift([file(paths=["/a", "/b"])], {"/a": checksum("x\n"), "/b": None})
    assert [entry["path"] for entry in found] == ["/b"]


def test_a_file_that_is_not_wanted_goes_where_it_is():
    files = [file(wanted=False, paths=["/a", "/b"])]
    assert drift(files, {"/a": "1", "/b": None}) == [{"name": "limits", "path": "/a", "state": "absent"}]


def test_a_file_of_others_is_kept_and_backed_up_where_something_is_lost():
    assert drift([file(wanted=False, kept=True)], {"/a": "1"}) == []
    assert drift([file(kept=True)], {"/a": "1"})[0]["backup"]
    assert not drift([file(kept=True)], {"/a": checksum("x\n")}, mode="0600")[0]["backup"]
    assert drift([file(kept=True)], {"/a": checksum("x\n")}, is_link=True)[0]["backup"]


@pytest.mark.parametrize(("sums", "states"), [({}, {}), ({"/a": "1"}, {})])
def test_a_file_that_was_not_looked_at_is_an_error(sums, states):
    with pytest.raises(AnsibleFilterError, match="/a was not looked at"):
        _file_drift.file_drift([file()], sums, states)
