# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of the guides are those of the collection's data."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from tests.docs_check import guide_tables
from tests.docs_check.guide_tables import proofs

GUIDES = guide_tables.pages()


def test_each_table_is_in_some_guide():
    pages = "".join(path.read_text(encoding="utf-8") for path in GUIDES)
    assert [name for name in guide_tables.TABLES if f"<!-- table: {name} -->" not in pages] == []


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_guides_are_up_to_date(path):
    text = path.read_text(encoding="utf-8")
    assert guide_tables.renewed(text) == text, "run: .venv/bin/python -m tests.docs_check.guide_tables"


def test_table_is_replaced_and_nothing_else():
    text = "before\n<!-- table: xids -->\nold\n<!-- /table -->\nafter\n"
    new = guide_tables.renewed(text)
    assert new.startswith("before\n<!-- table: xids -->\n| Xid | bucket |")
    assert new.endswith("|\n<!-- /table -->\nafter\n")
    assert "old" not in new


def test_unknown_table_is_error():
    with pytest.raises(KeyError):
        guide_tables.renewed("<!-- table: other -->\n<!-- /table -->")


def test_imports_of_kinds_are_up_to_date():
    text = (guide_tables.KINDS / "__init__.py").read_text(encoding="utf-8")
    new = guide_tables.kind_imports(text, guide_tables.kind_names())
    assert new == text, "run: .venv/bin/python -m tests.docs_check.guide_tables"


def test_new_file_becomes_kind_by_its_import(tmp_path):
    package = tmp_path / "plugins/module_utils"
    shutil.copytree(guide_tables.CHECKOUT / "plugins/module_utils", package)
    folder = package / guide_tables.KINDS.relative_to(guide_tables.CHECKOUT / "plugins/module_utils")
    shutil.copy(folder / "node_smoke.py", folder / "echo.py")
    (folder / "training.py").unlink()
    registry = folder / "__init__.py"
    names = guide_tables.kind_names(folder)
    registry.write_text(guide_tables.kind_imports(registry.read_text(encoding="utf-8"), names), encoding="utf-8")
    program = "from plugins.module_utils._node.jobs.kinds import JOB_KINDS; print(*JOB_KINDS)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == names
    assert "echo" in names
    assert "training" not in names


def test_registry_without_place_for_imports_is_error():
    with pytest.raises(ValueError, match="has 0 blocks"):
        guide_tables.kind_imports("KINDS = {}\n", ["nccl"])


def test_folder_without_kind_is_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no kind of job"):
        guide_tables.kind_names(tmp_path)


def test_data_of_type_are_shown():
    rows = {row.split("|")[1].strip(): row for row in guide_tables.training_types().splitlines()}
    assert "8 H200, 144384 MiB | 8 x 3800 | 32 | 3200 | 400 | no public figure" in rows["p5e.48xlarge"]
    assert rows["p5.48xlarge"].rstrip().endswith("| below |")
    assert "m7i.large" not in rows


def test_least_passing_figure_is_below_published_one():
    row = next(line for line in guide_tables.published_bandwidths().splitlines() if "p5en.48xlarge | 1 |" in line)
    assert "16 GiB 482.05 | 16 GiB 433.8 |" in row


def sent(**change):
    """Write a file as prove_on_aws writes it, for this test alone."""
    verdicts = [{"id": "a.b", "status": "pass"}]
    steps = [{"name": name, "state": "passed", "seconds": 9, "verdicts": verdicts} for name in proofs.NAMES]
    facts = {"kernel": "6.8.0", "system": "Ubuntu 24.04"}
    moments = {"started": "2026-01-31T12:00:00Z", "finished": "2026-01-31T12:40:00Z"}
    document = {"schema": "mlcluster.evidence/1", "type": "c5d.large", "image": "x", "facts": facts, "versions": {}}
    return json.dumps({**document, **moments, "steps": steps, **change})


def test_without_evidence_nothing_is_proved(tmp_path):
    assert "is not proved" in guide_tables.evidence(tmp_path)


def test_each_evidence_is_row(tmp_path):
    (tmp_path / "one.json").write_text(sent(), encoding="utf-8")
    row = guide_tables.evidence(tmp_path).splitlines()[2]
    assert row == f"| c5d.large | Ubuntu 24.04, 6.8.0 | {', '.join(proofs.NAMES)} | nothing |"


def test_evidence_with_foreign_field_is_no_row(tmp_path):
    (tmp_path / "one.json").write_text(sent(account="1"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"one\.json has the field account"):
        guide_tables.evidence(tmp_path)
