# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controller data for the options of the role efa_nccl."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.efa_nccl import (
    controller_options,
    controller_problems,
)


def variables(**settings: t.Any) -> dict[str, t.Any]:
    names = {
        "tests_builder": "",
        "tests_version": "2.19.6",
        "installer_version": "1.47.0",
        "installer_source": "upstream",
        "installer_file": "",
        "signing_key": "",
        "check_signature": True,
        **settings,
    }
    own = {f"efa_nccl_{name}": value for name, value in names.items()}
    return {**own, "inventory_hostname": "node1", "groups": {"all": ["head", "node1"]}}


def made(**settings: t.Any) -> dict[str, t.Any]:
    return controller_options(variables(**settings))


def problems(**settings: t.Any) -> list[str]:
    return controller_problems(variables(**settings))


def test_download_table_has_expected_rows():
    found = made()
    assert found["artifact"]["url"] == "https://efa-installer.amazonaws.com/aws-efa-installer-1.47.0.tar.gz"
    assert found["artifact"]["signature_url"] == found["artifact"]["url"] + ".sig"
    assert found["artifact"]["sha256"].startswith("2df4201e") and found["artifact"]["sha256_source"]
    assert found["tests_artifact"]["url"].endswith("v2.19.6.tar.gz")
    assert made(installer_version="9.9.9")["artifact"]["sha256"] == ""
    assert problems() == []


def test_lock_supplies_missing_checksum(tmp_path):
    lock = tmp_path / "lock.yml"
    entry = {"name": "aws-efa-installer", "platform": "any", "version": "9.9.9", "sha256": "1" * 64}
    lock.write_text(yaml.safe_dump({"artifacts": [entry]}))
    assert made(installer_version="9.9.9", lock_file=str(lock))["artifact"]["sha256"] == "1" * 64
    lock.write_text("nothing")
    (problem,) = problems(lock_file=str(lock))
    assert problem.startswith(f"efa_nccl_lock_file: {lock} is not a lock of artifacts")
    assert made(installer_version="9.9.9", lock_file=str(lock))["artifact"]["sha256"] == ""


@pytest.mark.parametrize(("builder", "builds"), [("", True), ("node1", True), ("head", False)])
def test_one_host_builds_nccl_tests(builder, builds):
    assert (made(tests_builder=builder)["builds_tests"], problems(tests_builder=builder)) == (builds, [])


def test_unknown_builder_host_is_rejected():
    (problem,) = problems(tests_builder="haed")
    assert problem.startswith("efa_nccl_tests_builder is not a host of the inventory")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"installer_source": "local"}, "efa_nccl_installer_file is '': use an absolute path on the controller"),
        (
            {"installer_source": "local", "installer_file": "/nowhere", "check_signature": False},
            "there is no such file on the controller",
        ),
        ({"signing_key": "/nowhere"}, "efa_nccl_signing_key is '/nowhere'"),
        (
            {"installer_source": "local", "installer_file": "efa.tar.gz", "check_signature": "no"},
            "efa_nccl_installer_file is 'efa.tar.gz': use an absolute path on the controller",
        ),
    ],
)
def test_missing_controller_files_are_reported(settings, words):
    (problem,) = problems(**settings)
    assert words in problem


def test_local_installer_needs_signature_and_key(tmp_path):
    archive = tmp_path / "efa.tar.gz"
    archive.write_bytes(b"")
    local = {"installer_source": "local", "installer_file": str(archive)}
    signature, key = problems(**local)
    assert signature == (
        f"the signature beside efa_nccl_installer_file is '{archive}.sig' and there is no such file on the controller"
    )
    assert "aws-efa-installer.key' and there is no such file" in key
    (tmp_path / "efa.tar.gz.sig").write_bytes(b"")
    (tmp_path / "own.key").write_bytes(b"")
    assert problems(**local, signing_key=str(tmp_path / "own.key")) == []
