# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import gds as gds_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import decide as gds
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes.fake_gds_host import Asker, fixture, load_nvidia_fs, node, outcome, raid0

OPENED = outcome(step="open", log=fixture("libcufile-1.15-h200-compat-allowed.log"))
NO_MODULE = outcome("refused", "open", fixture("libcufile-1.15-h200-compat-forbidden.log"), err=5001)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """run(host, asker, arguments...) gives the exit code of the command."""

    def start(host, asker, *arguments):
        def survey(given, *rest):
            return gds.survey(host, *rest, asker=asker)

        monkeypatch.setattr(gds_cli, "survey", survey)
        monkeypatch.setattr(gds_cli, "Host", lambda: host)
        return cli.main(["gds", *arguments], version="0.1.0", log_dir=str(tmp_path))

    return start


def test_verdicts_are_printed_as_lines(run, capsys):
    host = node()
    raid0(host)
    assert run(host, Asker(OPENED, strict=NO_MODULE, own=outcome()), "/raid", "--active") == 0
    out = capsys.readouterr().out
    assert "PASS gds.mode (/raid): compat: nvfs lacks nvidia_fs_module" in out
    assert "note: /raid is md raid0: P2PDMA does not work over md on x86" in out


def test_missing_required_path_exits_with_1(run, capsys):
    asker = Asker(OPENED, strict=NO_MODULE, own=outcome())
    assert run(node(), asker, "/data", "--active", "--require", "nvfs", "--require", "p2pdma") == 1
    assert "FAIL gds.mode (/data)" in capsys.readouterr().out


def test_missing_answer_exits_with_2(run):
    assert run(node(), Asker(OPENED, strict=outcome("hang")), "/data", "--active") == 2


def test_json_is_one_report(run, capsys):
    host = node()
    load_nvidia_fs(host)
    assert run(host, Asker(outcome(step="open"), strict=outcome()), "/data", "--active", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["versions"]) == (
        "mlcluster.report/1",
        {"mlcluster.aws": "0.1.0", "libcufile": "1.15.1"},
    )
    assert [entry["found"] for entry in document["results"] if entry["id"] == "gds.mode"] == ["nvfs"]


def test_default_is_passive(run):
    asker = Asker(OPENED)
    assert run(node(), asker, "/data") == 0
    assert asker.questions == [("driver", None)]


def test_bandwidth_without_tool_exits_with_2(run, capsys):
    assert run(node(), Asker(OPENED), "/data", "--bandwidth") == 2
    assert "???? gds.bandwidth (/data): gdsio is not installed" in capsys.readouterr().out


def test_unknown_path_of_storage_is_usage_error(run):
    with pytest.raises(SystemExit) as ended:
        run(node(), Asker(OPENED), "--require", "fast")
    assert ended.value.code == 3


def test_failed_look_exits_with_2(monkeypatch, tmp_path, capsys):
    def broken(*arguments):
        raise NodeError("looked for something and did not find it")

    monkeypatch.setattr(gds_cli, "survey", broken)
    assert cli.main(["gds"], log_dir=str(tmp_path)) == 2
    assert "gds: looked for something and did not find it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["--baseline", "nan"], ["--baseline", "0"], ["--timeout", "0"], ["--timeout", "nan"], ["--bandwidth-mib", "-5"]],
)
def test_useless_numbers_are_rejected(run, words):
    with pytest.raises(SystemExit) as ended:
        run(node(), Asker(OPENED), *words)
    assert ended.value.code == 3
