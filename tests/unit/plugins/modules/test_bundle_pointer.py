# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""bundle_pointer as Ansible runs it."""

from __future__ import annotations

import json
import subprocess

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.modules import bundle_pointer

BUNDLES = {"debian-py3.10": {"url": "s3://bucket/a.tar.gz", "sha256": "0a" * 32}}


@pytest.fixture
def apply(tmp_path, capsys):
    """apply(check=..., **options) gives what the module printed."""
    key = tmp_path / "key.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)], check=True)

    def run(check=False, **options):
        arguments = {"dest": str(tmp_path / "pointer"), "version": "1.2.3", "bundles": BUNDLES, "private_key": str(key)}
        arguments = {**arguments, **options, "_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            bundle_pointer.main()
        return json.loads(capsys.readouterr().out)

    return run


def test_file_is_written_once_and_reported_in_check_mode(apply, tmp_path):
    result = apply(check=True)
    assert result["changed"]
    assert not (tmp_path / "pointer").exists()
    # A moment that the second run cannot take for its own.
    result = apply(issued="2026-01-01T00:00:00Z")
    assert result["changed"] and len(result["public_key"]) == 124
    assert result["diff"]["after"].startswith("mlcluster.pointer/1\nversion 1.2.3\n")
    assert (tmp_path / "pointer").read_text().endswith(f"\n{result['diff']['after']}")
    result = apply()
    assert (result["changed"], result["pointer"]["issued"]) == (False, "2026-01-01T00:00:00Z")
    assert result["pointer"]["bundles"] == BUNDLES
    assert result["diff"]["before"] == result["diff"]["after"]


def test_default_time_is_now(apply):
    assert apply(issued="2026-01-01T00:00:00Z")["pointer"]["issued"] == "2026-01-01T00:00:00Z"
    assert apply(version="2.0.0")["pointer"]["issued"].endswith("Z")


def test_invalid_parameters_are_reported(apply, tmp_path):
    result = apply(version="one")
    assert result["failed"]
    assert "version is 'one'" in result["msg"]
    assert not (tmp_path / "pointer").exists()
