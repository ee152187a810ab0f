# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of all checks, and what it is made of."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data.checks import CHECKS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import profiles

from tests.data_tables import make_checks
from tests.unit.fakes.fake_training_host import good_node

PAGE = """
| verdict | fails when, and why | do |
|---|---|---|
| `gpu.a`, `gpu.b` | a **bad** thing ([x 1](https://example.org)) `a \\| b` | mend |
| `gpu.…` | all others | look |

| symptom | cause | do |
|---|---|---|
| `gpu.c` | no check | nothing |

| verdict | fails when | do |
|---|---|---|
| `gpu.a` | more | mend |
"""


def test_table_is_up_to_date():
    made = make_checks.written(make_checks.kept())
    assert made == make_checks.TARGET.read_text(encoding="utf-8"), "run python -m tests.data_tables.make_checks"


def test_causes_are_read_from_catalogue():
    first = "a bad thing (x 1) a | b"
    assert make_checks.catalogued(PAGE) == {"gpu.a": f"{first}; more", "gpu.b": first}


def test_id_without_caller_is_rejected(tmp_path):
    (tmp_path / "plugins").mkdir()
    with pytest.raises(make_checks.CatalogueError, match=r"no caller of new\.thing is known"):
        make_checks.who_asks({"new.thing": ""}, tmp_path)


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("plugins/module_utils/_node/health/light.py", ["prolog"]),
        ("plugins/module_utils/_node/health/system.py", ["full"]),
        ("plugins/module_utils/_node/efa/verify.py", ["full", "role"]),
        ("plugins/module_utils/_node/system/host.py", []),
    ],
)
def test_callers_follow_from_file(path, who):
    assert make_checks.asked_by(path) == who


@pytest.mark.parametrize("profile", ["prolog", "full"])
def test_results_of_profile_are_listed_for_it(profile, tmp_path):
    options = profiles.Options(marker=str(tmp_path / "none"))
    found = {one.id for one in profiles.run_profile(good_node(), profile, options, 60, str(tmp_path))}
    assert len(found) > 5
    assert sorted(found - {name for name, _text, _severities, who in CHECKS if profile in who}) == []


def test_severities_are_those_of_schema():
    for name, _text, severities, _who in CHECKS:
        assert list(severities) == [word for word in make_checks.SEVERITIES if word in severities], name


def test_long_texts_are_written_as_formatter_would():
    text = "word " * 60
    assert make_checks._text(text.strip()).count("\n") == 5
    assert make_checks._text('say "no"') == "        'say \"no\"',\n"
