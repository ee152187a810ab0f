# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import cufile_apply as cufile_file
from ansible_collections.mlcluster.aws.plugins.modules import cufile_config

TEXT = '{\n    // why\n    "properties": {"allow_compat_mode": false}\n}\n'
ALLOW = {"properties": {"allow_compat_mode": True}}


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """run(check=False, **options) gives what the module printed."""
    lock = str(tmp_path / "lock")
    change = cufile_file.change
    monkeypatch.setattr(cufile_config, "change", lambda host, request, dry_run: change(host, request, dry_run, lock))

    def module(check=False, **options):
        arguments = {"path": str(tmp_path / "cufile.json"), **options, "_ansible_check_mode": check}
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            cufile_config.main()
        result = json.loads(capsys.readouterr().out)
        assert bool(ended.value.code) == result.get("failed", False)
        return result

    return module


@pytest.fixture
def file(tmp_path):
    (tmp_path / "cufile.json").write_text(TEXT)
    return tmp_path / "cufile.json"


def test_setting_is_changed_once(run, file):
    result = run(settings=ALLOW)
    assert result["changed"]
    assert result["changes"] == [{"key": "properties.allow_compat_mode", "before": False, "after": True}]
    assert (result["target"], result["config"]) == (str(file), ALLOW)
    assert (result["diff"]["before"], result["diff"]["after"]) == (TEXT, file.read_text())
    assert file.read_text() == TEXT.replace("false", "true")
    with open(result["backup_file"], encoding="utf-8") as copy:
        assert copy.read() == TEXT
    again = run(settings=ALLOW)
    assert (again["changed"], again["changes"], again["backup_file"]) == (False, [], None)


def test_check_mode_reports_and_writes_nothing(run, file):
    result = run(check=True, settings=ALLOW)
    assert (result["changed"], result["backup_file"], file.read_text()) == (True, None, TEXT)
    assert result["diff"]["after"] == TEXT.replace("false", "true")


def test_keys_are_removed_once(run, file):
    result = run(state="absent", keys=["properties.allow_compat_mode"], backup=False)
    assert (result["changed"], result["config"], result["backup_file"]) == (True, {"properties": {}}, None)
    assert not run(state="absent", keys=["properties.allow_compat_mode"])["changed"]


def test_file_is_created_on_request(run, tmp_path):
    assert "does not exist" in run(settings=ALLOW)["msg"]
    assert run(settings=ALLOW, create=True)["changed"]
    assert json.loads((tmp_path / "cufile.json").read_text()) == ALLOW


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "state is present but all of the following are missing: settings"),
        ({"state": "absent"}, "state is absent but all of the following are missing: keys"),
        ({"settings": ALLOW, "keys": ["a"]}, "parameters are mutually exclusive"),
        ({"settings": {"properties": {"use_compat_mode": True}}}, "it is called properties.allow_compat_mode there"),
        ({"settings": {"block": {"nvme": {"use_pci_p2pdma": True}}}, "gds_version": "1.15"}, "known from GDS 1.16 on"),
    ],
)
def test_invalid_change_is_rejected_without_writing(run, file, options, words):
    result = run(**options)
    assert words in result["msg"]
    assert file.read_text() == TEXT
    assert [path.name for path in file.parent.iterdir()] == ["cufile.json"]


def test_unknown_setting_is_written_on_request(run, file):
    assert run(settings={"vendor": {"mode": "fast"}}, allow_unknown=True)["config"]["vendor"] == {"mode": "fast"}
