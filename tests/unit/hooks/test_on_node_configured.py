# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The functions of the hook, one by one: the file is sourced, which runs nothing."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import archive

from tests.data.support.planted import PLANTED, plant

ROOT = Path(__file__).resolve().parents[3]
HOOK = ROOT / "hooks" / "on_node_configured.sh"
TEXT = HOOK.read_text(encoding="utf-8")
OPTIONS = re.findall(r"^    \[([a-z0-9-]+)\]=", TEXT, re.MULTILINE)


def call(script: str, *words: str, **environment: str) -> str:
    """Return the output of a script that may use the functions of the hook."""
    done = subprocess.run(
        ["bash", "-c", f'source "{HOOK}"; set -uo pipefail; declare -A opt=(); {script}', "bash", *words],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "", done.stderr
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("roles", "taken"),
    [
        ("", "yes"),
        ("nvme_raid0", "yes"),
        ("nvme_raid0, nvidia_gds:best-effort ,site.own.motd:required,", "yes"),
        ("efa_nccl:maybe", "no"),
        ("efa_nccl:", "no"),
        ("efa-nccl", "no"),
        ("nvme_raid0 efa_nccl", "no"),
        ("a,$(touch x)", "no"),
    ],
)
def test_roles_are_checked_before_bundle_is_fetched(roles, taken):
    script = "form=${takes[roles]}; [[ $1 =~ ^(${form%% *})$ ]] && echo yes || echo no"
    assert call(script, roles) == taken


def test_sourcing_runs_nothing():
    assert call(":") == ""


def test_lines_have_at_most_100_characters():
    assert [line for line in TEXT.splitlines() if len(line) > 100] == []


def test_version_is_that_of_collection():
    (version,) = re.findall(r"^version: (\S+)$", (ROOT / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert f"\nHOOK_VERSION={version} " in TEXT


def test_s3_program_runs_on_oldest_python_searched():
    (minor,) = re.findall(r"find_python (\d+) 'import boto3'", TEXT)
    ast.parse(call('echo "$S3_PROGRAM"'), feature_version=(3, int(minor)))


@pytest.mark.parametrize("option", [*OPTIONS, "required", "best-effort", "dry-run", "help", "version"])
def test_every_option_is_in_help_and_guide(option):
    assert len(OPTIONS) == 16
    guide = (ROOT / "docs/boot_hook.md").read_text(encoding="utf-8")
    assert re.search(rf"--{option}\b", call("print_help")) and re.search(rf"`[^`]*--{option}\b", guide)


@pytest.mark.parametrize("text", ['a "quoted" \\ word\twith\ntwo lines', "b\xff\x01", "x" * 3000, "é" * 3000])
def test_for_json_is_valid_in_json(text):
    shown = call('for_json "$1"', text)
    assert json.loads(f'"{shown}"') == shown and len(shown) <= 2000


def test_shown_words_hide_secrets():
    words = ["--bundle", "https://b/k?sig=f00d", "--vars", ' {"token": "f00d"}', "--roles", "a b"]
    shown = call('words=("$@"); shown_words', *words)
    assert shown == " --bundle 'https://b/k?...' --vars '{...}' --roles a\\ b"


@pytest.mark.parametrize(
    "versions, highest", [("1.9 1.10", "1.10"), ("1.2.3 0", "1.2.3"), ("2 1.99.99", "2"), ("0 0 0.1", "0.1")]
)
def test_highest_is_by_number(versions, highest):
    assert call('highest "$@"', *versions.split()) == highest


@pytest.mark.parametrize(
    "source, reason, final",
    [
        ("s3://b/k", "An error occurred (SlowDown)", "no"),
        ("s3://b/k", "An error occurred (NoSuchKey)", "yes"),
        ("https://b/k", "curl: (22) The requested URL returned error: 404", "yes"),
        ("https://b/k", "curl: (22) The requested URL returned error: 503", "no"),
        ("/fsx/bundle", "cp: cannot stat", "yes"),
    ],
)
def test_is_final_knows_permanent_errors(source, reason, final):
    assert call('is_final "$1" "$2" && echo yes || echo no', source, reason) == final


@pytest.mark.parametrize("environment, called", [({"cfn_node_type": "HeadNode"}, "yes"), ({}, "no")])
def test_called_by_boot_knows_parallelcluster_by_its_variables(environment, called):
    assert call("called_by_boot && echo yes || echo no", **environment) == called


@pytest.mark.parametrize(
    "root, user, problem",
    [
        ("", "1000", "configuring a node needs root: run it with sudo"),
        ("", "0", ""),
        ("/image", "1000", ""),
    ],
)
def test_check_rights_demands_root_for_own_node(root, user, problem):
    script = 'id() { [ "$1" = -u ] && echo "$user"; }; root=$1 user=$2 problem=""; check_rights; echo "$problem"'
    assert call(script, root, user) == problem


OWN_LOG = 'own_log "$1" && echo yes || echo no'


@pytest.mark.parametrize("before", [None, "earlier"])
def test_own_log_is_made_or_continued(tmp_path, before):
    path = tmp_path / "mlcluster.log"
    if before:
        path.write_text(before)
    assert call(f"umask 077; {OWN_LOG}", str(path)) == "yes"
    assert path.read_text() == (before or "") and [entry.name for entry in tmp_path.iterdir()] == ["mlcluster.log"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("what", ["second name", *PLANTED])
def test_planted_log_is_not_written_to(tmp_path, what):
    path, victim = tmp_path / "mlcluster.log", tmp_path / "victim"
    victim.write_text("kept")
    if what == "second name":
        os.link(victim, path)
    else:
        plant(path, what, victim)
    assert call(OWN_LOG, str(path)) == "no"
    assert victim.read_text() == "kept" and not (tmp_path / "absent").exists()


def test_find_python_takes_that_of_parallelcluster_last(tmp_path):
    own = tmp_path / "opt/parallelcluster/pyenv/versions/3.12.8/bin/python3"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    script = 'opt[root]=$1; read_options; find_python 9; PATH=$2; timeout() { "${@:2}"; }; find_python 9'
    on_path, without_path = call(script, str(tmp_path), str(tmp_path / "empty")).splitlines()
    assert on_path.startswith("/") and not on_path.startswith(str(tmp_path))
    assert without_path == str(own)


def test_options_and_variables_are_readable_by_root_only(tmp_path):
    script = 'work=$1 words=(--deadline 9) root="" sha=a started=1; opt[vars]="{}"; umask 022; write_variables'
    call(script, str(tmp_path))
    options = (tmp_path / "options").read_text().split("\0")
    assert options[:2] == ["--deadline", "9"] and (tmp_path / "vars").read_text() == "{}\n"
    assert [oct(path.stat().st_mode)[-3:] for path in sorted(tmp_path.iterdir())] == ["600", "600"]


def test_open_to_others_names_first(tmp_path):
    good, bad, missing = tmp_path / "good", tmp_path / "bad", tmp_path / "missing"
    good.mkdir(0o755)
    bad.mkdir()
    bad.chmod(0o775)
    assert call('open_to_others "$1"', str(good)) == ""
    assert call('open_to_others "$1" "$2"', str(good), str(bad)) == f"{bad} (owner {os.getuid()}, mode 775)"
    # An unreadable path is not safe.
    assert str(missing) in call('open_to_others "$1"', str(missing))


def test_describe_tree_shows_every_kind_of_change(tmp_path):
    tree = tmp_path / "mlcluster-bundle"
    tree.mkdir()
    (tree / "file").write_text("a")
    (tree / "link").symlink_to("file")

    def shown() -> str:
        return call('describe_tree "$1"', str(tmp_path))

    seen = [shown()]
    for change in (
        lambda: (tree / "file").write_text("b"),
        lambda: (tree / "file").chmod(0o755),
        lambda: ((tree / "link").unlink(), (tree / "link").symlink_to("other")),
        (tree / "empty").mkdir,
        lambda: (tree / "file").rename(tree / "file2"),
    ):
        change()
        seen.append(shown())
    assert len(set(seen)) == len(seen) and seen[0] != ""


@pytest.fixture
def unpacked(tmp_path):
    """A bundle as it lies on a node, without its sums."""
    tree = tmp_path / "mlcluster-bundle"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "run-node").write_text("run\n")
    (tree / "a file").write_text("")
    return tree


def with_sums(tree):
    members = {path.relative_to(tree).as_posix(): path for path in tree.rglob("*") if path.is_file()}
    (tree / "SUMS").write_bytes(
        archive.sums({name: archive.Member(path.read_bytes()) for name, path in members.items()})
    )


@pytest.mark.parametrize("prepare", [with_sums, lambda tree: None], ids=["sums", "no sums"])
def test_record_is_what_unchanged_tree_shows(unpacked, prepare):
    prepare(unpacked)
    parent = str(unpacked.parent)
    assert call('record_tree "$1"', parent) == call('describe_tree "$1"', parent) != ""


@pytest.mark.parametrize("name", ["bin/run-node", "SUMS"])
def test_record_shows_file_that_was_unpacked_wrong(unpacked, name):
    with_sums(unpacked)
    before = call('record_tree "$1"', str(unpacked.parent))
    (unpacked / name).write_text("other\n")
    parent = str(unpacked.parent)
    assert call('describe_tree "$1"', parent) != before
    assert (call('record_tree "$1"', parent) == before) == (name != "SUMS")
