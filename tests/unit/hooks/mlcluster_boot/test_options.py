# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hooks.mlcluster_boot import options as hook_options
from hooks.mlcluster_boot.options import OptionsError, RoleRequest

TIMES = ["--started-at", "10", "--deadline", "100"]


def test_options_of_caller_and_of_hook():
    options = hook_options.parse_options(
        [
            *("--bundle", "s3://b/k", "--sha256", "0" * 64, "--roles", "nvme_raid0, nvidia_gds:best-effort"),
            *("--required", "--on-failure", "terminate", "--wait-for", "/fsx/a", "--wait-for", "/fsx/b"),
            *("--vars", '{"a": 1}', "--root", "/node", "--bundle-sha256", "1" * 64, "--vars-file", "/w/vars", *TIMES),
        ]
    )
    assert options.roles == (RoleRequest("nvme_raid0", None), RoleRequest("nvidia_gds", False))
    assert (options.required, options.on_failure, options.phase, options.node_type) == (True, "terminate", "boot", None)
    assert options.wait_for == (Path("/fsx/a"), Path("/fsx/b"))
    # The text of variables may hold secrets and is not shown.
    assert (options.source, options.sha256, options.vars_source) == ("s3://b/k", "1" * 64, "the text of --vars")
    assert options.path("/var/log") == Path("/node/var/log")
    assert (options.started_at, options.deadline_at) == (10, 110)


def test_key_in_presigned_address_is_not_shown():
    words = ["--vars", "https://b.example/v.json?X-Amz-Signature=abc", "--bundle", "s3://b/k", *TIMES]
    assert hook_options.parse_options(words).vars_source == "https://b.example/v.json"


@pytest.mark.parametrize(
    "words, part",
    [
        (["--required", "--best-effort"], "not allowed with argument"),
        (["--phase", "later"], "argument --phase: invalid choice"),
        (["--node-type", "gateway"], "argument --node-type"),
        (["--wait-seconds", "long"], "invalid int value"),
        (["--deadline", "soon"], "invalid int value"),
        (["--roles", "a:always,../b"], "not 'a:always', '../b'"),
        (["--roles", "b,a,b:best-effort"], "--roles names b more than once"),
        (["--bundel", "x"], "unrecognized arguments"),
    ],
)
def test_wrong_options_are_named(words, part):
    with pytest.raises(OptionsError) as raised:
        hook_options.parse_options([*words, *TIMES])
    assert part in str(raised.value)


@pytest.mark.parametrize("policy, kept", [("terminate", "terminate"), ("panic", "drain")])
def test_wrong_options_can_still_be_reported(policy, kept):
    words = ["--phase", "later", "--on-failure", policy, "--root", "/node", *TIMES]
    options = hook_options.fallback_options(words)
    assert (options.root, options.on_failure, options.deadline_at) == (Path("/node"), kept, 110)


@pytest.mark.parametrize(
    "started, parallelcluster, settings, seconds",
    [
        (100, False, None, 1800 - 100 - 120),
        (100, True, None, 2100 - 100 - 120),
        # A later run, of a node that has long been up.
        (1560, False, None, 1800 - 120),
        (1859, True, None, 2100 - 1859 - 120),
        (90000, True, None, 2100 - 120),
        # The shorter one, whichever kind of node it is.
        (0, True, "  HeadNodeBootstrapTimeout: 1200\n  ComputeNodeBootstrapTimeout: 0900\n", 900 - 120),
        (0, True, "DevSettings:\n  Timeouts:\n    HeadNodeBootstrapTimeout: 3600 # s\n", 3600 - 120),
        # Too short for anything: what a later run has at least.
        (50, True, "HeadNodeBootstrapTimeout: 60\n", 240 - 120),
        (0, True, "HeadNodeBootstrapTimeout: soon\n# ComputeNodeBootstrapTimeout: 600\n", 2100 - 120),
    ],
)
def test_deadline_of_bootstrap_counts_from_launch(tmp_path, started, parallelcluster, settings, seconds):
    if parallelcluster:
        (tmp_path / "opt/parallelcluster/shared").mkdir(parents=True)
    if settings is not None:
        (tmp_path / "opt/parallelcluster/shared/cluster-config.yaml").write_text(settings)
    options = hook_options.parse_options(["--root", str(tmp_path), "--started-at", str(started)])
    assert options.deadline_at - started == seconds


def test_share_that_does_not_answer_leaves_usual_deadline(tmp_path, monkeypatch):
    monkeypatch.setattr(hook_options, "CONFIGURATION_SECONDS", 0.1)
    (tmp_path / "opt/parallelcluster/shared").mkdir(parents=True)
    os.mkfifo(tmp_path / "opt/parallelcluster/shared/cluster-config.yaml")
    assert hook_options.bootstrap_left(tmp_path, 100.0) == 2100 - 100 - 120


def test_value_that_looks_like_option_is_value():
    words = ["--root", "/node", "--bundle", "--required", "--roles", "--root", *TIMES]
    with pytest.raises(OptionsError, match=r"--roles takes role names .* not '--root'"):
        hook_options.parse_options(words)
    options = hook_options.fallback_options(words)
    assert (options.root, options.source, options.required) == (Path("/node"), "--required", None)
    assert hook_options.parse_options(["--vars", " {}", *TIMES]).vars_source == "the text of --vars"


def test_seconds_with_leading_zero_are_decimal():
    assert hook_options.parse_options(["--started-at", "10", "--deadline", "08"]).deadline_at == 18


def test_words_of_options_file(tmp_path):
    path = tmp_path / "options"
    path.write_bytes(b"--vars\0{\n}\0--roles\0\0")
    assert hook_options.read_words(path) == ["--vars", "{\n}", "--roles", ""]


def variables(tmp_path, text):
    path = tmp_path / "vars"
    path.write_text(text)
    return hook_options.read_vars(path, "s3://b/vars")


@pytest.mark.parametrize("text", ['{"a": {"b": [1]}}', "a:\n  b: [1]\n", "---\na: {b: [1]}\n"])
def test_variables_are_json_or_yaml(tmp_path, text):
    assert variables(tmp_path, text) == {"a": {"b": [1]}}


@pytest.mark.parametrize("text", ["", " \n"])
def test_no_variables(tmp_path, text):
    assert variables(tmp_path, text) == {}
    assert hook_options.read_vars(None, "") == {}


@pytest.mark.parametrize(
    "text, sentence",
    [
        ('{"a": 1,', "the variables of s3://b/vars are not JSON: Expecting property name enclosed in double quotes"),
        ("a: [1\nb: 2\n", "the variables of s3://b/vars are neither JSON nor YAML at line 2, column 2: "),
        (
            "a: !!python/object:os.system {}",
            "the variables of s3://b/vars are neither JSON nor YAML at line 1, column 4",
        ),
        ('{"a":' * 200000, "the variables of s3://b/vars are not JSON: "),
        ("[" * 20000, "the variables of s3://b/vars are nested too deep to be read"),
        ("[1]", "the variables of s3://b/vars must be a mapping of names to values, found list"),
        ('{"a-b": 1, "2": 2}', "the variables of s3://b/vars have invalid names: '2', 'a-b'"),
    ],
)
def test_malformed_variables(tmp_path, text, sentence):
    with pytest.raises(OptionsError) as raised:
        variables(tmp_path, text)
    assert str(raised.value).startswith(sentence)
