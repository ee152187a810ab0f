# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node_bundle as Ansible runs it."""

from __future__ import annotations

import json
import sys

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle.archive import BundleError
from ansible_collections.mlcluster.aws.plugins.modules import node_bundle

from tests.unit.fakes import fake_collections as made


@pytest.fixture
def apply(tmp_path, capsys, monkeypatch):
    """apply(check=..., **options) gives what the module printed."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    wanted = made.request(tmp_path)

    def run(check=False, **options):
        arguments = {
            "target": "debian-py3.11",
            "collection": str(wanted.collection),
            "requirements": str(wanted.requirements),
            "collections_paths": [str(tmp_path / "others")],
            "dest": str(tmp_path / "dist"),
            "cache": str(wanted.cache),
        }
        arguments = {**arguments, **options, "_ansible_check_mode": check}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            node_bundle.main()
        return json.loads(capsys.readouterr().out)

    return run


def test_file_is_written_once_and_reported_in_check_mode(apply, tmp_path):
    foretold = apply(check=True)
    assert foretold["changed"]
    assert not (tmp_path / "dist").exists()
    result = apply()
    assert (result["changed"], result["sha256"]) == (True, foretold["sha256"])
    assert result["size"] == (tmp_path / "dist" / result["file"]).stat().st_size
    assert result["path"] == str(tmp_path / "dist" / "mlcluster-bundle-1.2.3-debian-py3.11.tar.gz")
    assert json.loads((tmp_path / "dist" / result["sbom"].rpartition("/")[2]).read_text())["bomFormat"] == "CycloneDX"
    assert (result["target"], result["version"]) == ("debian-py3.11", "1.2.3")
    assert not apply()["changed"]


def test_date_is_option_then_environment_then_zero(apply, monkeypatch):
    assert apply()["manifest"]["created"] == "1970-01-01T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert apply()["manifest"]["created"] == "1970-01-02T00:00:00Z"
    assert apply(source_date_epoch=0)["manifest"]["created"] == "1970-01-01T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "noon")
    assert "SOURCE_DATE_EPOCH is 'noon'" in apply()["msg"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "suse-py3.11"}, "there is no bundle for 'suse-py3.11'"),
        ({"target": "debian-py3.10"}, "build from a checkout"),
        ({"collections_paths": ["/nowhere"]}, "ansible.posix is not in /nowhere"),
        ({"collection": "/nowhere"}, "/nowhere"),
    ],
)
def test_failed_build_is_reported(apply, options, words):
    result = apply(**options)
    assert result["failed"]
    assert words in result["msg"]


def test_default_pip_is_that_of_this_python(tmp_path):
    params = dict.fromkeys(("requirements", "source_date_epoch"), None)
    params.update(collection=str(tmp_path), collections_paths=[], collections_lock="x", artifacts=[], cache="c", pip=[])
    params["compiled"] = False
    assert node_bundle.request(params, {}).pip == [sys.executable, "-m", "pip"]
    assert node_bundle.request({**params, "pip": ["uv"]}, {}).pip == ["uv"]
    assert node_bundle.request(params, {}).requirements == tmp_path / "requirements"
    assert not node_bundle.request(params, {}).compiled
    with pytest.raises(BundleError):
        node_bundle.request(params, {"SOURCE_DATE_EPOCH": "-1"})
