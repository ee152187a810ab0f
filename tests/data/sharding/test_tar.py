# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import itertools
import json

import numpy as np
import pytest
import webdataset
from mlcluster_data.errors import CorruptError, DataError
from mlcluster_data.sharding import tar as shards


def documents(*counts):
    """Return documents with these numbers of tokens; a token is 100 times the document's number plus its index."""
    tokens = [100 * number + place for number, count in enumerate(counts) for place in range(count)]
    return np.array(tokens, np.uint16), np.array(counts, np.int64)


def array_of(count):
    """Return an array file whose header announces ``count`` numbers, with only one in it."""
    stream = io.BytesIO()
    about = {"descr": "<i8", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(stream, about)
    return stream.getvalue() + bytes(8)


def cut(rows):
    """Return the samples as (name, tokens)."""
    parts = np.split(rows.tokens, np.cumsum(rows.lengths)[:-1])
    return [(shards.sample_name(number), part.tolist()) for number, part in zip(rows.ids, parts)]


def test_each_document_begins_new_row():
    assert cut(shards.rows_of(3, 7, *documents(5, 1, 2), 2, False)) == [
        ("3-7-0", [0, 1]),
        ("3-7-1", [2, 3]),
        ("3-7-2", [4]),
        ("3-8-0", [100]),
        ("3-9-0", [200, 201]),
    ]


def test_packed_documents_fill_rows():
    assert cut(shards.rows_of(0, 0, *documents(5, 1, 2), 3, True)) == [
        ("0-0-0", [0, 1, 2]),
        ("0-0-1", [3, 4, 100]),
        ("0-2-0", [200, 201]),
    ]


@pytest.mark.parametrize(("packed", "length"), list(itertools.product((False, True), (1, 3, 7, 100))))
def test_no_token_is_lost_and_row_numbers_are_unique(packed, length):
    rng = np.random.default_rng(length)
    tokens, counts = documents(*rng.integers(1, 30, 50))
    rows = shards.rows_of(1, 0, tokens, counts, length, packed)
    assert int(rows.lengths.sum()) == len(tokens)
    assert rows.lengths.max() <= length
    assert rows.lengths.min() >= 1
    assert len(set(rows.ids.tolist())) == len(rows.ids)


def test_numbers_that_do_not_fit_are_rejected():
    one = np.array([0])
    with pytest.raises(DataError, match="more than 32768 inputs"):
        shards.sample_numbers(1 << 15, one, one)
    with pytest.raises(DataError, match="more than 1073741824 documents in an input"):
        shards.sample_numbers(0, np.array([1 << 30]), one)
    with pytest.raises(DataError, match="more than 262144 rows in a document"):
        shards.sample_numbers(0, one, np.array([1 << 18]))
    most = shards.sample_numbers((1 << 15) - 1, np.array([(1 << 30) - 1]), np.array([(1 << 18) - 1]))
    assert most[0] == np.iinfo(np.int64).max
    assert shards.sample_name(most[0]) == "32767-1073741823-262143"


@pytest.mark.parametrize("form", shards.FORMS)
def test_webdataset_reads_shard(tmp_path, form):
    rows = shards.rows_of(2, 0, *documents(*range(1, 400)), 64, False)
    path, size, digest = shards.write_shard(tmp_path, "a.tar", rows, form)
    assert path.stat().st_size == size
    assert path.stat().st_mode & 0o777 == 0o644
    found = []
    for group in webdataset.WebDataset(str(path), shardshuffle=False):
        found += [(number, ids.tolist()) for number, ids in shards.samples_of(group, "a.tar")]
    expected = np.split(rows.tokens, np.cumsum(rows.lengths)[:-1])
    assert found == [(int(number), ids.tolist()) for number, ids in zip(rows.ids, expected)]
    decoded = next(iter(webdataset.WebDataset(str(path), shardshuffle=False).decode()))
    assert "json" in decoded or decoded["tokens.npy"].dtype == np.uint16
    again = shards.write_shard(tmp_path, "a.tar", rows, form)
    assert again[1:] == (size, digest)


def test_compact_form_is_smaller(tmp_path):
    rows = shards.rows_of(0, 0, *documents(*[50] * 600), 64, False)
    compact, plain = (shards.write_shard(tmp_path, form, rows, form)[1] for form in ("npy", "json"))
    assert compact * 5 < plain


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda group: group.pop("ids.npy"), "k lacks ids.npy"),
        (lambda group: group.update({"ids.npy": b"x"}), "holds no array"),
        (lambda group: group.update({"ids.npy": array_of(10**12)}), r"lists \(1000000000000,\) and it has 136 bytes"),
        (lambda group: group.update({"lengths.npy": group["ids.npy"]}), "arrays that do not fit"),
        (lambda group: group.update({"json": b"{}"}), "k.json is not a sample"),
    ],
)
def test_invalid_sample_is_reported(change, words):
    rows = shards.rows_of(0, 5, *documents(3, 4), 8, False)
    group = {"__key__": "k", **{name.split(".", 1)[1]: content for name, content in shards.members(rows, "npy")}}
    assert len(shards.samples_of(group, "a.tar")) == 2
    change(group)
    with pytest.raises(CorruptError, match=f"a.tar.*{words}"):
        shards.samples_of(group, "a.tar")


def test_json_samples_have_their_numbers(tmp_path):
    rows = shards.rows_of(1, 2, *documents(3), 8, False)
    ((name, content),) = shards.members(rows, "json")
    assert name == "1-2-0.json"
    assert json.loads(content) == {"id": int(rows.ids[0]), "input_ids": [0, 1, 2]}
