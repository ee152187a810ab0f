# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

from tests.tools import setup
from tests.tools.packages import SetupError


def test_where_torch_cannot_be_had_everything_else_is_set_up_all_the_same(tmp_path, monkeypatch):
    def fail(*given, **options):
        raise SetupError("Installing torch-cpu.txt failed")

    monkeypatch.setattr(setup.environments, "ensure_environment", fail)
    monkeypatch.setattr(setup.environments, "find_python", lambda name: sys.executable)
    said = []
    setup.ensure_data(tmp_path, said.append)
    assert said == [".venv-data: left out, so the parts slurm and data cannot run: Installing torch-cpu.txt failed"]


def test_without_its_python_the_data_environment_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(setup.sys, "version_info", (3, 13, 0))
    monkeypatch.setattr(setup.environments, "find_python", lambda name: None)
    said = []
    setup.ensure_data(tmp_path, said.append)
    assert "needs Python 3.11" in said[0]
