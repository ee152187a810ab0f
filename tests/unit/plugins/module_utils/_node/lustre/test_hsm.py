# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counting, restoring, releasing and archiving the files of a file system that is linked to S3."""

from __future__ import annotations

import errno
import functools
import json
import os
import pathlib

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import lustre as lustre_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import hsm as lustre_hsm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import (
    CommandError,
    CommandResult,
    NodeError,
)

from tests.unit.fakes.fake_lustre_host import LustreHost


@pytest.fixture
def tree(host, tmp_path):
    """Files in the states released, local, dirty, new and lost, and a link."""
    top = tmp_path / "tree"
    (top / "sub").mkdir(parents=True)
    flags = {"a": 0x0D, "sub/b": 0x0D, "local": 0x09, "dirty": 0x0B, "new": 0, "lost": 0x4D}
    for name, value in flags.items():
        (top / name).write_text(name, encoding="utf-8")
        host.hsm[str(top / name)] = value
    (top / "link").symlink_to(tmp_path)
    return str(top)


def test_states_are_counted(host, tree):
    counts = lustre_hsm.count(host, tree)
    assert {key: counts[key] for key in ("files", "released", "local", "archived", "dirty", "lost")} == {
        "files": 6,
        "released": 3,
        "local": 3,
        "archived": 3,
        "dirty": 1,
        "lost": 1,
    }
    assert counts["exported"] is False


def test_hydrate_restores_released_files(host, tree):
    report = []
    tally = lustre_hsm.run(host, "hydrate", tree, parallel=2, progress=lambda one: report.append(one.done))
    assert (tally.files, tally.done, tally.already, tally.passed_over, tally.waiting) == (6, 2, 3, 1, 0)
    assert report[0] == 0
    assert report[-1] == 2
    assert lustre_hsm.run(host, "hydrate", tree).done == 0


def test_release_skips_files_without_copy_in_s3(host, tree):
    tally = lustre_hsm.run(host, "release", tree)
    assert (tally.done, tally.already, tally.passed_over) == (1, 3, 2)
    assert host.hsm[f"{tree}/dirty"] == 0x0B
    assert host.hsm[f"{tree}/new"] == 0


def test_archive_sends_new_and_changed_files(host, tree):
    tally = lustre_hsm.run(host, "archive", tree)
    assert (tally.done, tally.already, tally.passed_over) == (2, 3, 1)


def test_file_lost_in_s3_never_counts_as_archived(host, tree):
    """A local file is archived again, and Lustre's error is reported."""
    host.hsm[f"{tree}/local"] = 0x49
    host.broken[f"{tree}/local"] = ""
    tally = lustre_hsm.run(host, "archive", tree)
    assert (tally.already, tally.passed_over, len(tally.failures)) == (2, 1, 1)
    assert tally.failures[0].startswith(f"{tree}/local: ")


@pytest.mark.parametrize("when", ["hsm_state", "hsm_archive", "sleep"])
def test_files_deleted_meanwhile_are_skipped(host, tree, monkeypatch, when):
    """Retention deletes an old checkpoint while newer ones are sent to S3."""

    def gone(paths):
        return CommandResult(2, "", "No such file or directory") if not all(map(os.path.lexists, paths)) else None

    def remove():
        pathlib.Path(tree, "new").unlink(missing_ok=True)

    state, archive = host.hsm_state, host.hsm_archive

    def hsm_state(paths):
        if when == "hsm_state":
            remove()
        return gone(paths) or state(paths)

    def hsm_archive(paths):
        if when == "hsm_archive":
            remove()
        late = [path for path in paths if when == "sleep" and path.endswith("/new")]
        return gone(paths) or archive([path for path in paths if path not in late])

    monkeypatch.setattr(host, "hsm_state", hsm_state)
    monkeypatch.setattr(host, "hsm_archive", hsm_archive)
    monkeypatch.setattr(host, "sleep", lambda seconds: remove())
    tally = lustre_hsm.run(host, "archive", tree)
    assert (tally.files, tally.done, tally.already, tally.waiting, tally.failures) == (5, 1, 3, 0, [])


def test_file_that_an_error_hides_is_not_skipped(host, tree, monkeypatch):
    """Only a deleted file may be left out: the others would count as sent."""
    monkeypatch.setattr(host, "hsm_state", lambda paths: CommandResult(2, "", "Cannot send after transport endpoint"))
    paths, before = lustre_hsm.files_below(tree), os.stat

    def away(path, *rest, **given):
        if str(path) in paths:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return before(path, *rest, **given)

    monkeypatch.setattr(os, "lstat", away)
    monkeypatch.setattr(os, "stat", away)
    with pytest.raises(NodeError, match="is unknown: "):
        lustre_hsm.states(host, paths, 1)


@pytest.mark.parametrize("action", ["state", "archive", "release", "hydrate"])
def test_link_is_rejected(host, tree, caplog, action):
    args = cli.build_parser("1").parse_args(["lustre-data", action, f"{tree}/link"])
    assert lustre_cli.data_verb(args, host) == 2
    assert "is a link to " in caplog.text


def test_failed_file_is_reported_and_others_continue(host, tree):
    host.broken[f"{tree}/a"] = ""
    tally = lustre_hsm.run(host, "hydrate", tree)
    assert (tally.done, tally.waiting, len(tally.failures)) == (1, 0, 1)
    assert tally.failures[0].startswith(f"{tree}/a: ")


def test_unfinished_files_are_waiting_at_time_limit(host, tree, monkeypatch):
    monkeypatch.setattr(LustreHost, "hsm_restore", lambda self, paths: self._each(paths, lambda flags: flags))
    tally = lustre_hsm.run(host, "hydrate", tree, timeout=10)
    assert (tally.done, tally.waiting) == (0, 2)
    assert host.clock >= 10


def test_hanging_coordinator_ends_at_time_limit(host, tree, monkeypatch):
    """Each request takes its whole limit; over many files that would take days."""
    limits = []

    def hangs(argv, timeout=120, check=True, stdin=None):
        if argv[1] != "hsm_restore":
            return LustreHost.run(host, argv, timeout, check, stdin)
        limits.append(timeout)
        host.clock += timeout
        raise CommandError(argv, None, "", "", f"no answer within {timeout:g} seconds")

    monkeypatch.setattr(host, "run", hangs)
    monkeypatch.setattr(lustre_hsm, "BATCH", 1)
    tally = lustre_hsm.run(host, "hydrate", tree, parallel=1, timeout=150)
    assert limits == [120, 30]
    assert (tally.done, tally.waiting, tally.failures) == (0, 2, [])


def test_unreachable_file_system_is_reported_not_read(host, tree, monkeypatch):
    host.mounts[tree] = "hangs"
    monkeypatch.setattr(os, "scandir", lambda path: pytest.fail("it would wait for ever"))
    for look in (lustre_hsm.count, functools.partial(lustre_hsm.run, action="hydrate")):
        with pytest.raises(NodeError, match="no answer within 5 seconds: look with 'dmesg' whether its servers answer"):
            look(host=host, path=tree)


def test_other_or_missing_file_system_is_rejected(host, tree, monkeypatch):
    with pytest.raises(NodeError, match="could not be read"):
        lustre_hsm.run(host, "hydrate", f"{tree}/nothing")
    with pytest.raises(NodeError, match="must be one of hydrate, release, archive"):
        lustre_hsm.run(host, "delete", tree)
    host.broken["lfs"] = "not a Lustre file system"
    with pytest.raises(NodeError, match="not a Lustre file system"):
        lustre_hsm.count(host, tree)


def test_verb_prints_counts_and_sets_exit_status(host, tree, capsys, caplog):
    def run(*words):
        return lustre_cli.data_verb(cli.build_parser("1").parse_args(["lustre-data", *words]), host)

    assert run("hydrate", tree, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    problem = "1 of 6 files were passed over, since their copy in S3 is lost"
    assert (report["changed"], report["problem"]) == (True, f"{tree}: {problem}")
    assert (report["paths"][tree]["done"], report["paths"][tree]["problem"]) == (2, problem)
    assert run("state", tree) == 0
    assert "released 1" in capsys.readouterr().out
    assert run("hydrate", f"{tree}/a") == 0
    assert run("state", f"{tree}/nothing", "--json") == 2
    assert "could not be read" in json.loads(capsys.readouterr().out.splitlines()[-1])["problem"]


def test_verb_reports_each_path_and_worst_status(host, tree, capsys):
    def run(*words):
        status = lustre_cli.data_verb(cli.build_parser("1").parse_args(["lustre-data", *words]), host)
        return status, capsys.readouterr().out

    missing = f"{tree}/nothing"
    status, text = run("hydrate", tree, missing, f"{tree}/a", "--json")
    report = json.loads(text)
    assert (status, list(report["paths"])) == (2, sorted([tree, missing, f"{tree}/a"]))
    assert [report["paths"][f"{tree}/a"][name] for name in ("files", "done", "problem")] == [1, 0, ""]
    first, second = report["problem"].split("; ", 1)
    assert first.startswith(f"{tree}: 1 of 6 files") and second.startswith(f"{missing}: {missing} could not be read")
    status, text = run("state", f"{tree}/a", f"{tree}/new", "--json")
    report = json.loads(text)
    assert (status, report["changed"], report["problem"]) == (0, False, "")
    status, text = run("state", f"{tree}/a", f"{tree}/new")
    assert [line.partition(",")[0] for line in text.splitlines()] == [f"path {tree}/a", f"path {tree}/new"]
