# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import io
import json

import pytest
from mlcluster_data.corpus import text
from mlcluster_data.corpus.text import Bad, Division
from mlcluster_data.errors import DataError


@pytest.mark.parametrize(
    ("division", "lines", "expected"),
    [
        (Division("file"), ["a\n", "\n", "b\n"], ["a\n\nb"]),
        (Division("line"), ["a\n", "\n", "b"], ["a", "b"]),
        (Division("blank"), ["a\n", "b\n", "\n", " \n", "c\n"], ["a\nb", "c"]),
        (
            Division("heading", r" = [^=]+ = $"),
            [" = A = \n", "\n", "x\n", " = B = \n", "y\n"],
            [" = A = \n\nx", " = B = \ny"],
        ),
        (Division("file"), ["\n", "  \n"], []),
    ],
)
def test_documents_keep_their_boundaries(division, lines, expected):
    assert list(division.documents(lines)) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("page",), "divided by page"),
        (("heading",), "needs a pattern"),
        (("line", "x"), "set both or neither"),
        (("heading", "("), "is not a regular expression"),
    ],
)
def test_impossible_division_is_rejected(arguments, words):
    with pytest.raises(DataError, match=words):
        Division(*arguments)


def test_bad_byte_is_named_with_its_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nb\xff\n")
    with pytest.raises(
        DataError, match=r"a\.txt: line 2: byte 2 of the line is 0xff, which is not UTF-8: repair the file"
    ):
        list(text.read_documents(path, Division("line"), Bad()))


@pytest.mark.parametrize(("policy", "expected"), [("skip", ["good"]), ("replace", ["good", "b\ufffd"])])
def test_bad_byte_is_left_out_or_replaced_by_choice(tmp_path, policy, expected):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nb\xff\n")
    bad = Bad(policy)
    assert list(text.read_documents(path, Division("line"), bad)) == expected
    assert (bad.skipped, bad.replaced) == ((1, 0) if policy == "skip" else (0, 1))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "is not JSON"),
        ("[1]", 'no text in the field "text"'),
        ('{"text": 1}', "no text"),
        ('{"text": "\\ud800"}', "surrogate"),
    ],
)
def test_json_lines_without_text_are_rejected(tmp_path, line, words):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "x"}}\n\n{line}\n')
    with pytest.raises(DataError, match=f"line 3.*{words}"):
        list(text.read_documents(path, Division(), Bad()))
    bad = Bad("skip")
    assert list(text.read_documents(path, Division(), bad)) == ["x"]
    assert bad.skipped == 1


def test_packed_files_are_read_and_damaged_ones_reported(tmp_path):
    whole = tmp_path / "a.jsonl.gz"
    whole.write_bytes(gzip.compress(json.dumps({"body": "x"}).encode()))
    assert list(text.read_documents(whole, Division(), Bad(), "body")) == ["x"]
    torn = tmp_path / "b.txt.gz"
    torn.write_bytes(gzip.compress(b"x" * 5000)[:-9])
    with pytest.raises(DataError, match=r"b\.txt\.gz is a damaged gzip file"):
        list(text.read_documents(torn, Division(), Bad()))


def test_line_that_is_not_a_document_is_rejected(monkeypatch):
    monkeypatch.setattr(text, "LINE_MOST", 1 << 20)
    with pytest.raises(DataError, match="line 2 is longer than 1 MiB"):
        list(text.lines_of(io.BytesIO(b"a\n" + b"b" * (1 << 20) + b"b"), "x", Bad()))


def test_sources_are_files_and_folders_of_text(tmp_path):
    for name in ("b.txt", "a.jsonl", "c.txt.gz", "d.bin", ".e.txt"):
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in text.text_files([tmp_path])] == ["a.jsonl", "b.txt", "c.txt.gz"]
    assert text.text_files([tmp_path / "d.bin"]) == [tmp_path / "d.bin"]
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="holds no text"):
        text.text_files([tmp_path / "none"])
    with pytest.raises(DataError, match="is missing"):
        text.text_files([tmp_path / "missing"])


@pytest.mark.parametrize("name", ["link", "link.txt"])
def test_text_behind_link_is_not_missed_silently(tmp_path, name):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / name).symlink_to(tmp_path.parent if name == "link" else tmp_path / "absent")
    with pytest.raises(DataError, match=rf"{tmp_path} cannot be read as a whole \({tmp_path / name}: is a link"):
        text.text_files([tmp_path])
