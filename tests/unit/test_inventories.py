# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "inventories"


def role_defaults():
    return {name for path in ROOT.glob("roles/*/defaults/main.yml") for name in yaml.safe_load(path.read_text())}


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("*/group_vars/*.yml")), ids=lambda path: str(path.parent.parent.name)
)
def test_examples_set_only_variables_that_exist(path):
    names = set(yaml.safe_load(path.read_text()) or {})
    assert {name for name in names if not name.startswith("ansible_")} <= role_defaults()
