# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import detached as detached_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli


def test_foreign_directory_is_rejected(tmp_path, capsys):
    assert cli.main(["detached", str(tmp_path), "--", "true"], log_dir=str(tmp_path / "log")) == 3
    assert "is not a directory of node_verb" in capsys.readouterr().err


def test_command_is_run_in_its_directory(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(detached_cli.detached, "is_ours", lambda directory: True)
    monkeypatch.setattr(detached_cli.detached, "keep", lambda directory, argv: kept.append((directory, argv)) or 0)
    assert cli.main(["detached", "/x", "--", "echo", "--dir=/y"], log_dir=str(tmp_path)) == 0
    assert kept == [("/x", ["echo", "--dir=/y"])]
