# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module that looks at a node for several roles."""

from __future__ import annotations

import base64
import io
import json
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.modules import node_plan
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime

# A stand-in for the runtime, with the three functions that the module calls.
STAND_IN = {
    "__init__": "",
    "_node/__init__": "",
    "_node/node/__init__": "",
    "_node/system/__init__": "",
    "_node/system/host": "class Host:\n    name = 'node1'\n",
    "_node/system/release": "def system_facts(host):\n    return {'distribution': host.name}\n",
    "_node/node/look": "def look_all(host, asked, read_only):\n    return {'asked': asked, 'read_only': read_only}\n",
}


def packed(archive):
    return base64.b64encode(zlib.compress(archive)).decode()


@pytest.fixture(scope="module")
def stand_in():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for name, text in STAND_IN.items():
            target.writestr(f"mlcluster/{name}.py", text)
    return packed(buffer.getvalue())


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(node_plan.tempfile, "tempdir", str(tmp_path))

    def call(**options):
        monkeypatch.setattr(sys, "path", [*sys.path])
        with patch_module_args(options), pytest.raises(SystemExit):
            node_plan.main()
        return json.loads(capsys.readouterr().out)

    yield call
    for name in [name for name in sys.modules if name.partition(".")[0] == "mlcluster"]:
        del sys.modules[name]


@pytest.mark.parametrize("is_check", [True, False])
def test_roles_and_system_are_answered_together(run, stand_in, tmp_path, is_check):
    answer = run(roles={"nvidia_gds": {"mode": "nvfs"}}, runtime=stand_in, _ansible_check_mode=is_check)
    assert answer["roles"] == {"asked": {"nvidia_gds": {"mode": "nvfs"}}, "read_only": is_check}
    assert (answer["changed"], answer["python"]) == (False, list(sys.version_info[:2]))
    assert answer["system"] == {"distribution": "node1"}
    # Neither the archive nor its text is left behind.
    assert list(tmp_path.iterdir()) == []
    assert stand_in not in json.dumps(answer)


def test_code_of_looks_is_that_of_the_runtime(run):
    root = _runtime.collection_root()
    answer = run(roles={}, runtime=packed(_runtime.archive(root, "0.1.0")))
    assert set(answer["system"]) >= {"distribution", "pkg_mgr", "kernel"}
    assert (answer["roles"], sys.modules["mlcluster"].__version__) == ({}, "0.1.0")
    assert Path(sys.modules["mlcluster._node.node.look"].__file__).parents[3].name == "mlcluster.pyz"


def test_older_python_skips_looks(run, stand_in, monkeypatch):
    monkeypatch.setattr(node_plan, "OLDEST_PYTHON", (99, 0))
    answer = run(roles={"nvidia_gds": {}}, runtime=stand_in)
    assert (answer["roles"], answer["system"]) == ({}, {})
    assert answer["python"] == list(sys.version_info[:2])


@pytest.mark.parametrize("options", [{"role": "nvidia_gds"}, {"roles": {"nvidia_gds": {}}}, {"roles": ["nvidia_gds"]}])
def test_module_without_action_is_rejected(run, options):
    answer = run(**options)
    assert answer["failed"]
    assert "let the action plugin node_plan call the module" in answer["msg"]


def test_unwritable_temporary_directory_is_named(run, stand_in, monkeypatch, tmp_path):
    monkeypatch.setattr(node_plan.tempfile, "tempdir", str(tmp_path / "none"))
    answer = run(roles={}, runtime=stand_in)
    assert answer["failed"] and "No such file or directory" in answer["msg"]
    assert f"make {tmp_path}/none/mlcluster-plan-" in answer["msg"]
