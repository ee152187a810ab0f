# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import argparse
import json

from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import progress
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host


def test_line_is_printed_without_control_characters(capsys):
    progress.print_line("n1\x1b[31m is red")
    assert capsys.readouterr().out == "n1 [31m is red\n"


def test_outcome_is_written_if_requested(tmp_path):
    progress.write_outcome(Host(), None, {"changed": True})
    progress.write_outcome(Host(), str(tmp_path / "outcome"), {"changed": True})
    assert [path.name for path in tmp_path.iterdir()] == ["outcome"]
    assert json.loads((tmp_path / "outcome").read_text()) == {"changed": True}


def test_common_options_have_defaults():
    parser = argparse.ArgumentParser()
    progress.add_common(parser)
    found = vars(parser.parse_args([]))
    assert found == {"dir": "/fsx/mlcluster/jobs", "dry_run": False, "outcome": None, "slurm_prefix": None,
                     "slurm_conf": None}  # fmt: skip
