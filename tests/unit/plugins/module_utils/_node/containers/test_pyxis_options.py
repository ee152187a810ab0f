# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options that a version of Pyxis supports: an unsupported one stops every job."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.pyxis_options import (
    OPTIONS,
    option_problems,
    option_words,
    parse_words,
)


@pytest.mark.parametrize(
    ("name", "value", "since"),
    [
        ("use_enroot_load", True, "0.21.0"),
        ("importer", "/opt/importer", "0.21.0"),
        ("use_squashfuse", False, "0.22.0"),
        ("sbatch_support", True, "0.12.0"),
    ],
)
def test_option_needs_its_version(name, value, since):
    assert option_problems({name: value}, since) == []
    (problem,) = option_problems({name: value}, "0.11.1")
    assert f"the option {name} needs Pyxis {since}" in problem


def test_unknown_version_gets_only_common_options():
    assert option_problems({"container_scope": "job", "sbatch_support": True}, None) == []
    assert "does not report its version" in option_problems({"importer": "/x"}, None)[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"colour": "red"}, "colour is not an option of Pyxis"),
        ({"container_scope": "node"}, "container_scope is 'node': it must be global or job"),
        ({"execute_entrypoint": "maybe"}, "it must be true or false"),
        ({"runtime_path": "run/pyxis"}, "it must be an absolute path"),
        ({"runtime_path": "/run/../etc"}, "it must be an absolute path"),
        ({"runtime_path": "/run/my pyxis"}, "it must be an absolute path"),
        ({"runtime_path": "/run/a\nrequired /tmp/evil.so"}, "it must be an absolute path"),
    ],
)
def test_bad_options(options, words):
    assert words in "; ".join(option_problems(options, "0.24.0"))


def test_all_problems_are_reported_at_once():
    assert len(option_problems({"colour": 1, "container_scope": 1, "importer": 1}, "0.20.0")) == 4


def test_words_are_ordered_and_booleans_are_digits():
    options = {"sbatch_support": "no", "execute_entrypoint": True, "runtime_path": "/run/pyxis"}
    assert option_words(options) == ["runtime_path=/run/pyxis", "execute_entrypoint=1", "sbatch_support=0"]
    assert parse_words(option_words(options)) == {
        "runtime_path": "/run/pyxis",
        "execute_entrypoint": "1",
        "sbatch_support": "0",
    }


def test_every_option_of_table_can_be_written():
    good = {"bool": True, "scope": "global", "path": "/a"}
    options = {name: good[kind] for name, (kind, _since) in OPTIONS.items()}
    assert option_problems(options, "0.24.0") == []
    assert len(option_words(options)) == len(OPTIONS)
    with pytest.raises(ValueError, match="true or false"):
        option_words({"sbatch_support": "perhaps"})
