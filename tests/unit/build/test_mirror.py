# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.build import mirror


@pytest.fixture
def unit(tmp_path, monkeypatch):
    monkeypatch.setattr(mirror, "UNIT", tmp_path)
    (tmp_path / "plugins" / "modules").mkdir(parents=True)
    return tmp_path / "plugins" / "modules"


def found(path, text="import os\n"):
    return list(mirror.mirror(path, text))


def test_source_without_test_fails(unit):
    (problem,) = found("plugins/modules/new.py")
    assert problem == "plugins/modules/new.py:1: has no test: write tests/unit/plugins/modules/test_new.py"
    (unit / "test_new.py").touch()
    assert found("plugins/modules/new.py") == []


@pytest.mark.parametrize(
    "path", ["plugins/modules/__init__.py", "plugins/filter/x.py", "hooks/x.py", "plugins/modules/x.md"]
)
def test_other_files_need_none(unit, path):
    assert found(path) == []


def test_entry_of_registry_has_test_of_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(mirror, "UNIT", tmp_path)
    path = "plugins/module_utils/_node/jobs/kinds/echo.py"
    assert list(mirror.mirror(path, "x = 1"))
    test = tmp_path / "plugins/module_utils/_node/jobs/kinds/test_kinds.py"
    test.parent.mkdir(parents=True)
    test.touch()
    assert list(mirror.mirror(path, "x = 1")) == []
