# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import health as health_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import profiles as health
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import drain as health_drain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import (
    failed,
    not_applicable,
    passed,
    undeterminable,
)

from tests.unit.fakes.fake_training_host import good_node

BROKEN = failed("storage.mounted", "not mounted", severity="reset")
WATCHED = failed("gpu.clocks", "too hot", severity="monitor")
OPEN = undeterminable("efa.devices", "not known")
WELL = passed("gpu.count", 8)
ASIDE = not_applicable("gpu.xid", "no GPU")


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return run(results, *arguments), which returns the exit code; run.calls has the calls of Slurm."""

    def go(results, *arguments):
        monkeypatch.setattr(health, "run_profile", lambda *given: list(results))
        return cli.main(["health", *arguments], log_dir=str(tmp_path))

    go.calls = []

    def drain(slurm, node, blocking, seconds):
        go.calls.append(("drain", [verdict.id for verdict in blocking]))
        return "drained it"

    def undrain(slurm, node, results, seconds):
        go.calls.append(("undrain", [verdict.id for verdict in results]))

    monkeypatch.setattr(health_drain, "drain", drain)
    monkeypatch.setattr(health_drain, "undrain", undrain)
    return go


@pytest.mark.parametrize(
    ("results", "plain", "opened", "closed"),
    [
        ([WELL, ASIDE], 0, 0, 0),
        ([WELL, WATCHED], 1, 0, 0),
        ([WELL, OPEN], 2, 0, 1),
        ([WELL, BROKEN, OPEN], 1, 1, 1),
        ([], 2, 0, 0),
    ],
)
def test_exit_codes_of_verdicts_and_gates(run, results, plain, opened, closed):
    assert (run(results), run(results, "--fail-open"), run(results, "--fail-closed")) == (plain, opened, closed)
    assert run.calls == []


def test_least_severity_moves_gate(run):
    assert run([WATCHED], "--fail-open", "--least-severity", "monitor") == 1
    assert run([BROKEN], "--fail-open", "--least-severity", "isolate") == 0


@pytest.mark.parametrize(
    ("results", "arguments", "calls"),
    [
        ([BROKEN, OPEN], ["--drain"], [("drain", ["storage.mounted"])]),
        ([BROKEN, OPEN], ["--drain", "--fail-closed"], [("drain", ["storage.mounted", "efa.devices"])]),
        ([WELL], ["--drain", "--undrain"], [("undrain", ["gpu.count"])]),
        ([BROKEN], ["--undrain"], []),
        ([WATCHED], ["--drain"], []),
    ],
)
def test_slurm_is_updated_only_on_request(run, results, arguments, calls):
    run(results, *arguments)
    assert run.calls == calls


def test_missing_slurm_answer_keeps_verdicts(run, monkeypatch, capsys):
    def unanswered(*given):
        raise NodeError("scontrol: no answer within 2 seconds")

    monkeypatch.setattr(health_drain, "drain", unanswered)
    assert run([BROKEN], "--drain", "--fail-open") == 1
    assert "no answer within 2 seconds" in capsys.readouterr().err


def test_report_as_json(run, capsys):
    assert run([WELL], "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["results"][0]["id"]) == ("mlcluster.report/1", "gpu.count")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--xid-since", "yesterday"], "xid_since is 'yesterday': use a time like 2026-01-31 12:00:00"),
        (["--scratch", "jobs"], "scratch has 'jobs': use an absolute path"),
        (["--mount", "local"], "mounts has 'local': use an absolute path"),
        (["--image=--gres=gpu"], "image is '--gres=gpu': use the path of a .sqsh file"),
        (["--image", "a.sqsh", "--image-user", "-x y"], "image_user is '-x y': use the name of a user"),
        (["--require", "nccl=new"], "require has nccl 'new': use a version such as 2.5.1"),
    ],
)
def test_invalid_option_is_one_sentence(run, arguments, sentence, capsys):
    assert run([WELL], *arguments) == 3
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read or is not JSON"),
        ("{", "cannot be read or is not JSON"),
        ("[" * 200000, "cannot be read or is not JSON"),
        ("[]", "the expectations are []: use a dictionary of versions, "),
        ('{"drivers": "580"}', "drivers is not known: choose from versions, efa"),
    ],
)
def test_invalid_file_of_expectations_is_rejected(run, tmp_path, text, sentence, capsys):
    path = tmp_path / "site.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert run([WELL], "--expect", str(path)) == 3
    assert sentence in capsys.readouterr().err


def test_file_of_expectations_is_used(run, tmp_path, monkeypatch):
    path = tmp_path / "site.json"
    path.write_text(json.dumps({"schema": "mlcluster.expectations/1", "gpus": 8}), encoding="utf-8")
    seen = []
    run([WELL])
    monkeypatch.setattr(health, "run_profile", lambda host, profile, options, seconds: seen.append(options) or [WELL])
    arguments = ["health", "--expect", str(path), "--kind", "compute", "--image", "a.sqsh"]
    assert cli.main(arguments, log_dir=str(tmp_path)) == 0
    assert (seen[0].expectations["gpus"], seen[0].kind, seen[0].image) == (8, "compute", "a.sqsh")


@pytest.mark.parametrize(
    "arguments",
    [["--require", "jax"], ["--seconds", "0"], ["--fail-open", "--fail-closed"], ["--profile", "deep"]],
)
def test_invalid_arguments_are_usage_errors(run, arguments):
    with pytest.raises(SystemExit) as ended:
        run([WELL], *arguments)
    assert ended.value.code == 3


@pytest.mark.parametrize(
    ("shape", "begins"),
    [("diag", "{"), ("prometheus", "# HELP mlcluster_"), ("junit", "<?xml"), ("nhc", "")],
)
def test_formats_of_other_tools_are_printed(run, shape, begins, capsys):
    assert run([WELL, BROKEN], "--format", shape) == 1
    shown = capsys.readouterr().out
    assert shown.startswith(begins) and len(shown.splitlines()) >= 1


# The profiles, as real processes on a made-up node.


# The other verbs.


@pytest.fixture
def marker(monkeypatch, tmp_path):
    path = str(tmp_path / "drain.json")
    for name in ("read_marker", "clear_marker", "write_marker"):
        function = getattr(health_cli, name)
        monkeypatch.setattr(health_cli, name, lambda *given, function=function: function(*given, path=path))
    return lambda *arguments: cli.main(["drain-marker", *arguments], log_dir=str(tmp_path / "log"))


def test_marker_is_set_shown_and_cleared(marker, capsys):
    assert (marker(), marker("--set", "the driver did not build"), marker()) == (0, 0, 1)
    assert capsys.readouterr().out == "no marker (/var/lib/mlcluster/drain.json)\nthe driver did not build\n"
    assert (marker("--clear"), marker("--clear"), marker()) == (0, 0, 0)


def test_unremovable_marker_is_undeterminable(marker, tmp_path, capsys):
    (tmp_path / "drain.json").mkdir()
    assert marker("--clear") == 2
    assert "could not remove" in capsys.readouterr().err


def test_host_facts_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(health_cli, "Host", lambda: good)
    good, path = good_node(), str(tmp_path / "facts-n3.json")
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    kept = {}
    good.write_text = lambda where, text, mode: kept.update({where: (json.loads(text), mode)})
    assert cli.main(["host-facts", "--output", path.replace("n3", "%N")], log_dir=str(tmp_path)) == 0
    assert (kept[path][0]["schema"], kept[path][1]) == ("mlcluster.host_facts/1", 0o644)

    def refuse(where, text, mode):
        raise OSError(30, "Read-only file system")

    good.write_text = refuse
    assert cli.main(["host-facts", "--output", path], log_dir=str(tmp_path)) == 2
    assert "Read-only file system" in capsys.readouterr().err
