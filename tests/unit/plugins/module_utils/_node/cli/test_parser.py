# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import argparse

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli.parser import Parser


def test_parser_error_exits_with_3(capsys):
    parser = Parser(prog="mlcluster probe")
    parser.add_argument("--level", type=int)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--level", "high"])
    assert ended.value.code == 3 and isinstance(parser, argparse.ArgumentParser)
    assert "usage: mlcluster probe" in capsys.readouterr().err
