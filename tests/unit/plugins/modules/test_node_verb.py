# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_verb with a runtime that is a small script."""

from __future__ import annotations

import json
import sys

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.modules import node_verb

# Both the verb and its keeper, as the runtime is.
RUNTIME = """
import json, sys
if sys.argv[1] == "detached":
    sys.path[:0] = [{collections!r}]
    from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import detached
    sys.exit(detached.keep(sys.argv[2], sys.argv[4:]))
print(sys.argv[1], *sys.argv[3:], flush=True)
if "--dry-run" in sys.argv:
    sys.exit(0)
place = sys.argv[2].partition("=")[2]
with open(place, "w") as stream:
    json.dump({{"changed": True}}, stream)
sys.exit(sys.stdin.read() or 0)
"""


@pytest.fixture
def module(tmp_path, monkeypatch, capsys):
    """module(**options) gives what the module printed."""
    from tests.unit.checkout import CHECKOUT

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runtime = tmp_path / "mlcluster.pyz"
    runtime.write_text(RUNTIME.format(collections=str(CHECKOUT / ".collections")))

    def run(check=False, **options):
        given = {"runtime": str(runtime), "python": sys.executable, "_ansible_check_mode": check, **options}
        with patch_module_args(given), pytest.raises(SystemExit):
            node_verb.main()
        return json.loads(capsys.readouterr().out)

    return run


def to_the_end(module, **started):
    text, offset = "", 0
    for _look in range(50):
        seen = module(directory=started["directory"], offset=offset, interval=5)
        text, offset = text + seen["text"], seen["offset"]
        if seen["over"]:
            return text, seen
    pytest.fail(text)


def test_verb_runs_to_its_end(module):
    text, seen = to_the_end(module, **module(verb=["validate", "smoke"], stdin="no disk"))
    assert (text, seen["rc"], seen["errors"], seen["outcome"]) == (
        "validate smoke\n",
        1,
        "no disk\n",
        {"changed": True},
    )


def test_check_mode_is_dry_run(module):
    text, seen = to_the_end(module, **module(check=True, verb=["validate", "smoke"]))
    assert text.startswith("validate --outcome=") and text.endswith(" smoke\n")
    assert (seen["rc"], seen["outcome"]) == (0, {})


def test_ended_run_is_forgotten(module, tmp_path):
    started = module(verb=["validate"])
    to_the_end(module, **started)
    module(directory=started["directory"], forget=True)
    assert list(tmp_path.iterdir()) == [tmp_path / "mlcluster.pyz"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"runtime": "/no/such.pyz", "verb": ["x"]}, "looked for the node runtime in /no/such.pyz and found none"),
        ({"python": "/no/python", "verb": ["x"]}, "looked for Python in /no/python and found none"),
        ({}, "verb is missing"),
        ({"directory": "/etc"}, "/etc is not a directory of a verb that was started"),
    ],
)
def test_invalid_options_are_rejected(module, options, why):
    answer = module(**options)
    assert answer["failed"] and why in answer["msg"]
