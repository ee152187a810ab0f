# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.build import pointers

SOURCE = """
LIMIT = 5
width: int = 3
def free(): ...
class Work:
    BEST = 1
    def stop(self): ...
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(pointers, "CHECKOUT", tmp_path)
    room = tmp_path / pointers.ROOMS / "storage"
    room.mkdir(parents=True)
    (room / "plan.py").write_text(SOURCE)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/run.sh").write_text("seconds_left() {\n  echo 1\n}\n")
    return tmp_path


def problems(cell, heading="## Where to look"):
    table = f"| question | answer |\n|---|---|\n| Where? | {cell} |"
    text = f"# A\n\n`gone.py: x`\n\n{heading}\n\n{table}\n\n## B\n\n`gone.py`\n"
    return list(pointers.pointers("docs/architecture.md", text))


@pytest.mark.parametrize(
    "cell",
    [
        "`storage/plan.py: free`",
        "`storage/plan.py: LIMIT`, `storage/plan.py: width`",
        "`storage/plan.py: Work.stop` and `storage/plan.py: Work.BEST`",
        "`storage/plan.py`",
        "`hooks/run.sh: seconds_left`",
        "`storage/plan.py: free`, for each `jobs/kinds/NAME.py`",
    ],
)
def test_pointer_to_existing_name_passes(checkout, cell):
    assert problems(cell) == []


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("`storage/plan.py: choose`", "storage/plan.py defines no choose"),
        ("`storage/plan.py: stop`", "storage/plan.py defines no stop"),
        ("`hooks/run.sh: seconds`", "hooks/run.sh defines no seconds"),
        ("`storage/gone.py: x`", "there is no file storage/gone.py, nor one of that name below " + pointers.ROOMS),
    ],
)
def test_pointer_to_nothing_is_named_with_its_line(checkout, cell, problem):
    assert problems(cell) == [f"docs/architecture.md:9: {problem}"]


def test_page_without_pointers_is_problem(checkout):
    assert len(problems("nowhere")) == len(problems("`storage/plan.py: free`", heading="## Places")) == 1
    assert list(pointers.pointers("docs/nccl.md", "")) == []
