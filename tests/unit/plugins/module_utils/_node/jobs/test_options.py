# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import options

ACCEPTED = [
    (options.COUNT, 1),
    (options.COUNT, 10**15),
    (options.COUNT_OR_NONE, 0),
    (options.SECONDS, 1),
    (options.MINUTES, 1),
    (options.SIZE, 8),
    (options.SIZE, "16G"),
    (options.PATH, "/fsx/a_b"),
    (options.PATHS, []),
    (options.PATHS, ["/fsx/a", "/fsx/b"]),
    (options.WORDS, ["a b", 5, ""]),
    (options.MIB_PER_SECOND, 0),
    (options.GIB_PER_SECOND, 0.5),
    (options.GIB_PER_SECOND, 0),
    (options.LAYOUT, "pairs"),
    (options.NODES, "all"),
    (options.NODES, 2),
    (options.END_TIME, ""),
    (options.END_TIME, "never"),
    (options.END_TIME, "2026-12-01T11:30:00Z"),
    (options.END_TIME, "2026-12-01T11:30:00+01:00"),
]
REFUSED = [
    (options.COUNT, 0),
    (options.COUNT, 10**15 + 1),
    (options.COUNT, True),
    (options.COUNT, "1"),
    (options.COUNT, 1.0),
    (options.COUNT_OR_NONE, -1),
    (options.SIZE, 0),
    (options.SIZE, "0"),
    (options.SIZE, "1P"),
    (options.SIZE, "1g"),
    (options.SIZE, "1" * 19),
    (options.SIZE, True),
    (options.SIZE, 8.0),
    (options.PATH, "fsx/a"),
    (options.PATH, "/"),
    (options.PATH, "/fsx/"),
    (options.PATH, "/fsx/../etc"),
    (options.PATH, "/fsx/a b"),
    (options.PATH, "/fsx/%j"),
    (options.PATH, "/fsx/$HOME"),
    (options.PATH, None),
    (options.PATHS, "/fsx"),
    (options.PATHS, ["/fsx", "fsx"]),
    (options.WORDS, "a b"),
    (options.WORDS, ["a\0b"]),
    (options.WORDS, [None]),
    (options.WORDS, [True]),
    (options.MIB_PER_SECOND, 0.5),
    (options.GIB_PER_SECOND, -1),
    (options.GIB_PER_SECOND, float("inf")),
    (options.GIB_PER_SECOND, float("nan")),
    (options.GIB_PER_SECOND, False),
    (options.LAYOUT, "ring"),
    (options.LAYOUT, ["all"]),
    (options.NODES, "some"),
    (options.NODES, 0),
    (options.END_TIME, "2026-12-01 11:30"),
    (options.END_TIME, "2026-12-01T11:30:00"),
    (options.END_TIME, "2026-13-01T11:30:00Z"),
    (options.END_TIME, "٢026-12-01T11:30:00Z"),
    (options.END_TIME, 5),
]


@pytest.mark.parametrize(("given", "value"), ACCEPTED)
def test_value_of_type_is_accepted(given, value):
    assert given.accepts(value) is True


@pytest.mark.parametrize(("given", "value"), REFUSED)
def test_value_of_another_type_is_rejected(given, value):
    assert given.accepts(value) is False


@pytest.mark.parametrize(
    ("text", "found"),
    [(8, 8), ("8", 8), ("1K", 1 << 10), ("64M", 64 << 20), ("16G", 16 << 30), ("2T", 2 << 40)],
)
def test_bytes_of_size(text, found):
    assert options.size_bytes(text) == found


@pytest.mark.parametrize(
    ("url", "sound"),
    [
        ("s3://corpus", True),
        ("s3://corpus/a/b.bin", True),
        ("s3://Corpus", False),
        ("s3://ab", False),
        ("s3://corpus/", False),
        ("s3://corpus/a b", False),
        ("s3://corpus/$(id)", False),
    ],
)
def test_place_in_s3_has_no_character_special_to_shell(url, sound):
    assert options.match(options.BUCKET)(url) is sound


def test_choices_are_of_their_words_and_as_many_as_asked():
    some = options.choices("a", "b", minimum=1)
    assert [some.accepts(value) for value in (["a"], ["b", "a"], [], ["c"], "a")] == [True, True, False, False, False]
    assert (some.wanted, options.choice("a", "b").wanted) == ("a list of a, b", "one of a, b")
    assert options.choices("a", wanted="a list of letters").wanted == "a list of letters"
