# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest

from tests.build import test_matrix as matrix

LOCK = """boto3==1.44.8 \\
    --hash=sha256:00
hypothesis==6.170.17 ; python_version >= "3.11" \\
flask-cors==6.0.5 \\
"""


def test_versions_come_from_the_lock_or_from_the_last_that_an_older_python_has():
    assert matrix.pinned(("boto3", "flask-cors"), LOCK, "3.12") == ["boto3==1.44.8", "flask-cors==6.0.5"]
    assert matrix.pinned(("hypothesis",), LOCK, "3.12") == ["hypothesis==6.170.17"]
    assert matrix.pinned(("hypothesis",), LOCK, "3.10") == [f"hypothesis=={matrix.OLDER['3.10']['hypothesis']}"]
    with pytest.raises(KeyError):
        matrix.pinned(("requests",), LOCK, "3.12")


def test_the_real_lock_has_every_package():
    lock = matrix.LOCK.read_text(encoding="utf-8")
    assert len(matrix.pinned(matrix.PACKAGES, lock, "3.11")) == len(matrix.PACKAGES)


def test_this_python_is_found_and_an_absent_one_is_not():
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = matrix.find(version)
    assert found is not None and found[0] == version
    assert matrix.find("3.99") is None


def test_a_row_without_its_python_is_skipped_with_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(matrix, "MATRIX", (matrix.Row("2.99.0", ("3.98", "3.99")),))
    # Nothing ran, and that is no pass.
    assert matrix.main([]) == 1
    assert "ansible-core 2.99.0: skipped, no Python 3.98 or 3.99 on this machine" in capsys.readouterr().out


@pytest.mark.parametrize(("statuses", "expected"), [((0, None), 0), ((0, 1), 1), ((None, None), 1)])
def test_what_ran_decides(monkeypatch, statuses, expected):
    rows = tuple(matrix.Row(f"2.{number}.0", ()) for number in range(len(statuses)))
    monkeypatch.setattr(matrix, "MATRIX", rows)
    monkeypatch.setattr(matrix, "run", lambda row: dict(zip(rows, statuses))[row])
    assert matrix.main([]) == expected
    assert matrix.main(["2.7"]) == 1
