# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action training_image, as a task has it; the Dockerfile is in tests/unit/roles/test_enroot_pyxis_image.py."""

from __future__ import annotations

import types

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible_collections.mlcluster.aws.plugins.action import training_image
from ansible_collections.mlcluster.aws.plugins.modules import training_image as documented
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts

BASE = "nvcr.io/nvidia/cuda:any@sha256:" + "a" * 64
SUMS = {f"aws-efa-installer-{version}.tar.gz": "b" * 64 for version in ("1.48.0", "1.51.0")}


@pytest.fixture
def decide():
    """decide(**options) gives the result of the task."""

    def run(**options):
        task = types.SimpleNamespace(
            args={"base": BASE, "checksums": SUMS, **options},
            check_mode=False,
            async_val=0,
            action="training_image",
            get_search_path=list,
        )
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="none"))
        action = training_image.ActionModule(task, connection, None, DataLoader(), None, None)
        return action.run(task_vars={"inventory_hostname": "head"})

    return run


def test_documented_options_match_action():
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    spec = {
        name: {key: value for key, value in entry.items() if key != "description"} for name, entry in options.items()
    }
    assert spec == training_image.ARGUMENT_SPEC


def test_documented_values_match_result(decide):
    result = decide()
    assert set(yaml.safe_load(documented.RETURN)) == set(result) - {"changed"}
    assert result["changed"] is False


def test_requirements_of_site_replace_those_of_role(decide, tmp_path):
    own = tmp_path / "mine.txt"
    pins = ("megatron-core==0.19.2", "torch==9.9.9")
    own.write_text("".join(f"{pin} --hash=sha256:{'c' * 64}\n" for pin in pins), encoding="utf-8")
    result = decide(requirements=str(own))
    assert result["versions"]["pytorch"] == "9.9.9"
    assert result["requirements"] == own.read_text(encoding="utf-8")
    assert result["tag"] != decide()["tag"]


def test_image_has_version_of_hosts(decide):
    assert decide(efa_version="1.48.0")["archive"] == "aws-efa-installer-1.48.0.tar.gz"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"base": "nvcr.io/nvidia/cuda:13"}, "^head: enroot_pyxis_image_base is 'nvcr.io/nvidia/cuda:13'"),
        ({"base": "x", "name": "X"}, "; enroot_pyxis_image_name is 'X'"),
    ],
)
def test_unbuildable_image_is_rejected(decide, options, words):
    with pytest.raises(AnsibleActionFail, match=words):
        decide(**options)


def test_unreadable_lock_is_reported(decide, monkeypatch, tmp_path):
    lock = tmp_path / "artifacts.lock.yml"
    lock.write_text("artifacts: 1\n", encoding="utf-8")
    monkeypatch.setattr(_artifacts, "collection_lock", lambda: lock)
    with pytest.raises(AnsibleActionFail, match=r"^head: .*is not a lock of artifacts"):
        decide()
