# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import stage

OURS = {"Version": "2012-10-17", "Statement": [{"Sid": "TlsOnly", "Effect": "Deny"}]}
TRAPS = (None, "", 7, True, False, 1.5, [], {}, ["a"], [7], {"a": 1}, "{{ 7 * 7 }}", "Ünicode\n")


def upload(**changes):
    return {"source": "/data", "bucket": "train-data", **changes}


def test_all_mistakes_at_once_sentence_each():
    found = stage.problems(
        [{"nmae": "x"}, {"name": "No_Bucket"}], [upload(delet=True), {"source": "/a"}, upload(sample="a.tar")]
    )
    assert [sentence.split(" has ")[0].split(":")[0] for sentence in found] == [
        "bucket 1 of cluster_buckets", "bucket 1 of cluster_buckets", "bucket 2 of cluster_buckets",
        "upload 1 of cluster_uploads", "upload 2 of cluster_uploads", "upload 3 of cluster_uploads",
    ]  # fmt: skip
    assert "the key 'delet', which does not exist; those that do are source, bucket, prefix, delete, sample" in found[3]


@pytest.mark.parametrize(("prefix", "other"), [("", "a"), ("a", "a"), ("a/", "/a/b/"), (None, None)])
def test_delete_never_removes_files_of_other_upload(prefix, other):
    uploads = [upload(prefix=prefix, delete="yes"), upload(source="/more", prefix=other)]
    (sentence,) = stage.problems([], uploads)
    assert sentence.startswith(
        "the upload of /data has delete and would remove the files that the upload of /more puts into s3://train-data/"
    )
    assert stage.problems([], [{**uploads[0], "delete": False}, uploads[1]]) == []


def test_delete_beside_other_prefix_is_accepted():
    uploads = [upload(prefix="a", delete=True), upload(prefix="ab"), upload(bucket="other-data")]
    assert stage.problems([], uploads) == []


@pytest.mark.parametrize(("key", "trap"), [*itertools.product(stage.UPLOAD_KEYS, TRAPS)])
def test_no_value_causes_traceback(key, trap):
    for sentence in stage.plan([{"name": trap}], [upload(**{key: trap}), upload()])["problems"]:
        assert len(sentence.splitlines()) == 1


def test_only_own_manifests_are_added_to_sample(tmp_path):
    for folder, name, text in (
        ("shards", "manifest.json", json.dumps({"schema": "mlcluster.dataset/1"})),
        ("web", "manifest.json", json.dumps({"schema": "extension/3"})),
        ("broken", "manifest.json", "{"),
        ("", "inputs.json", json.dumps({"schema": "mlcluster.inputs/1"})),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    sample = ["shards/0.tar", "shards/1.tar", "web/a.js", "broken/a", "a.jsonl"]
    plan = stage.plan([], [upload(), upload(source=str(tmp_path), sample=sample)])
    assert plan["uploads"][0] == {**upload(), "prefix": "", "delete": False, "sample": []}
    assert plan["uploads"][1]["sample"] == [*sample, "shards/manifest.json", "inputs.json"]
    assert plan["judged"] == [[1, "shards"], [1, ""]]


@pytest.mark.parametrize("others", [[], {"Sid": "Them"}, [{"Sid": "Them"}, {"Effect": "Allow"}]])
def test_foreign_statements_are_kept(others):
    made = stage.policy(json.dumps({"Version": "2008-10-17", "Statement": others}), OURS)
    assert made["Statement"] == [*(others if isinstance(others, list) else [others]), *OURS["Statement"]]
    assert stage.policy(json.dumps(made), OURS) == made


def test_bucket_without_policy_gets_ours():
    assert stage.policy("", OURS) == OURS
