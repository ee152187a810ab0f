# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The place of a path: a file system that other machines see, a disk of its own, or the root disk."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import shared_place
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import (
    CommandError,
    CommandResult,
    NodeError,
)

MOUNTS = """\
22 1 259:1 / / rw - ext4 /dev/root rw
30 22 0:50 / /fsx rw - lustre fs-1@tcp:/abc rw
31 22 0:51 / /home rw - nfs4 head:/home rw
32 22 0:52 / /auto rw - autofs systemd-1 rw
33 32 0:53 / /auto rw - lustre fs-2@tcp:/def rw
34 22 259:9 / /scratch rw - xfs /dev/md127 rw
"""


class FakePlaces:
    """A host with mounts, exports, and existing directories; stat of a silent path gives no answer."""

    def __init__(self, exports="", silent=(), there=("/", "/fsx", "/home", "/auto", "/scratch", "/srv")):
        self.files = {"/proc/self/mountinfo": MOUNTS, shared_place.EXPORTS: exports}
        self.silent, self.there = silent, there
        self.timeouts = []

    def read_text(self, path):
        return self.files.get(path)

    def run(self, argv, timeout, check):
        self.timeouts.append(timeout)
        program, form, dashes, path = argv
        assert (program, dashes, check) == ("stat", "--", False) and form in ("--format=%m", "--format=%F")
        path = path[:-2] if path.endswith("/.") else path
        if (path or "/") in self.silent:
            raise CommandError(argv, None, "", "", f"it did not end within {timeout} seconds")
        if (path or "/") not in self.there:
            return CommandResult(1, "", "No such file or directory")
        mount = path if path in ("/fsx", "/home", "/auto", "/scratch") else "/"
        return CommandResult(0, f"{mount}\n", "")


@pytest.mark.parametrize(
    ("path", "mount", "source", "state"),
    [
        ("/fsx/images/new", "/fsx", "fs-1@tcp:/abc", "shared"),
        ("/home/u", "/home", "head:/home", "shared"),
        ("/auto/x", "/auto", "fs-2@tcp:/def", "shared"),
        ("/scratch/x", "/scratch", "/dev/md127", "local"),
        ("/nowhere/x", "/", "/dev/root", "root"),
        ("/", "/", "/dev/root", "root"),
    ],
)
def test_place_is_that_of_nearest_directory_that_exists(path, mount, source, state):
    seen = shared_place.look(FakePlaces(), path, 5)
    assert (seen["mount"], seen["source"], seen["state"], seen["path"]) == (mount, source, state, path)


@pytest.mark.parametrize(("path", "state"), [("/srv", "shared"), ("/srv/a", "shared"), ("/srvs/a", "root")])
def test_exported_directory_is_shared_and_its_neighbour_is_not(path, state):
    host = FakePlaces(exports="/srv\t*(rw)\nno tab here\n")
    assert shared_place.exports(host) == ["/srv"]
    assert shared_place.look(host, path, 5)["state"] == state


def test_silent_file_system_is_reported_within_given_time():
    host = FakePlaces(silent=("/fsx",))
    seen = shared_place.look(host, "/fsx/new", 3)
    assert (seen["state"], seen["mount"], set(host.timeouts)) == ("silent", None, {3})
    assert "did not end within 3 seconds" in seen["why"]
    assert shared_place.problem(seen, []) == f"/fsx/new gives no answer: {seen['why']}"


def test_only_place_on_root_disk_is_problem():
    host = FakePlaces()
    everywhere = shared_place.shared_mounts(host)
    assert everywhere == ["/auto", "/fsx", "/home"]
    found = shared_place.problem(shared_place.look(host, "/nowhere", 5), everywhere)
    assert "/nowhere is on no mount" in found and found.endswith("shared here are /auto, /fsx, /home")
    assert shared_place.problem({"path": "/x", "state": "root"}, []).endswith("nothing that is shared is mounted here")
    assert [shared_place.problem({"path": "/x", "state": state}, []) for state in ("shared", "local")] == ["", ""]


def test_answer_is_demanded_and_missing_path_is_one():
    shared_place.demand_answer(FakePlaces(), "/fsx/not/there")
    with pytest.raises(NodeError, match="whether its servers answer"):
        shared_place.demand_answer(FakePlaces(silent=("/fsx",)), "/fsx")


def test_unreadable_root_is_no_place():
    assert shared_place.look(FakePlaces(there=()), "/a/b", 5)["state"] == "silent"
