# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Known mistakes of a configuration; integration/cluster/test_validate.py lets ParallelCluster itself judge them."""

from __future__ import annotations

import copy
from pathlib import Path

import yaml
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import lint as _cluster_lint

GOOD = {
    "Region": "us-east-1",
    "Image": {"Os": "ubuntu2404"},
    "HeadNode": {
        "InstanceType": "c7i.4xlarge",
        "Networking": {"SubnetId": "subnet-0123456789abcdef0"},
        "Ssh": {"AllowedIps": "10.0.0.0/16"},
    },
    "Scheduling": {
        "SlurmQueues": [
            {
                "Name": "gpus",
                "Networking": {"SubnetIds": ["subnet-01234567"], "AdditionalSecurityGroups": ["sg-01234567"]},
                "ComputeResources": [{"Name": "a", "InstanceType": "p5.48xlarge"}],
            }
        ]
    },
    "SharedStorage": [
        {"StorageType": "FsxLustre", "MountDir": "/a", "FsxLustreSettings": {"FileSystemId": "fs-0123456789abcdef3"}},
        {"StorageType": "Efs", "MountDir": "/b", "EfsSettings": {"DeletionPolicy": "Retain"}},
    ],
}
ANSWER = {"version": "3.16.1", "schema": [], "left": [], "findings": [], "judged": True, "assumed": []}


def changed(change):
    config = copy.deepcopy(GOOD)
    change(config)
    return config


def test_good_configuration_is_left_unchanged():
    reviewed = _cluster_lint.review(GOOD, ["c7i.4xlarge", "p5.48xlarge"])
    assert (reviewed["problems"], reviewed["repaired"]) == ([], None)


def test_original_is_never_changed():
    config = changed(lambda it: it["Image"].update(Os="alinux2"))
    before = copy.deepcopy(config)
    reviewed = _cluster_lint.review(config)
    assert config == before
    assert reviewed["repaired"]["Image"]["Os"] == "alinux2023"


def test_repairs_need_no_second_repair():
    config = changed(lambda it: it.update(SlurmQueues=it["Scheduling"].pop("SlurmQueues"), Iam={"S3Access": []}))
    once = _cluster_lint.review(config)
    assert [problem["path"] for problem in once["problems"]] == ["SlurmQueues", "Iam/S3Access"]
    assert _cluster_lint.review(once["repaired"])["problems"] == []


def test_storage_deleted_with_cluster_is_reported():
    config = changed(
        lambda it: it.update(
            SharedStorage=[
                {"StorageType": "Efs", "MountDir": "/a", "EfsSettings": None},
                {"StorageType": "Ebs", "MountDir": "/b", "EbsSettings": {"Size": 100}},
                {"StorageType": "Ebs", "MountDir": "/c", "EbsSettings": {"VolumeId": "vol-01234567"}},
                {"StorageType": "FsxLustre", "MountDir": "/d"},
                {"StorageType": "FsxOntap", "MountDir": "/e", "FsxOntapSettings": {"VolumeId": "fsvol-1"}},
            ]
        )
    )
    found_values = [(problem["path"], problem["right"]) for problem in _cluster_lint.review(config)["problems"]]
    assert found_values == [
        ("SharedStorage[0]/EfsSettings/DeletionPolicy", "Retain"),
        ("SharedStorage[1]/EbsSettings/DeletionPolicy", "Retain"),
        ("SharedStorage[3]/FsxLustreSettings/DeletionPolicy", "Retain"),
    ]


def test_write_access_to_script_or_variables_is_reported():
    def wire(it):
        script = {"OnNodeConfigured": {"Script": "s3://tools/hooks/on.sh", "Args": ["--vars", "s3://vars/v.json"]}}
        it["HeadNode"].update(CustomActions=script)
        rights = [
            {"BucketName": "tools"},
            {"BucketName": "tools", "KeyName": "logs/*", "EnableWriteAccess": True},
            {"BucketName": "tools", "KeyName": "hooks/*", "EnableWriteAccess": True},
            {"BucketName": "tools", "EnableWriteAccess": True},
            {"BucketName": "vars", "EnableWriteAccess": True},
        ]
        it["Scheduling"]["SlurmQueues"][0]["Iam"] = {"S3Access": rights}

    problems = _cluster_lint.review(changed(wire))["problems"]
    assert [(problem["path"].rpartition("/S3Access")[2], problem["level"]) for problem in problems] == [
        ("[2]/EnableWriteAccess", "warning"),
        ("[3]/EnableWriteAccess", "warning"),
        ("[4]/EnableWriteAccess", "warning"),
    ]
    assert "could replace s3://tools/hooks/on.sh, which runs as root on every node" in _cluster_lint.sentence(
        problems[0]
    )


def places(value, path=()):
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from places(inner, (*path, key))


def test_no_value_causes_traceback():
    path = Path(__file__).parents[4] / "integration" / "cluster" / "mistakes.yaml"
    mistakes = yaml.safe_load(path.read_text(encoding="utf-8"))
    for place in places(mistakes):
        for trap in (None, "", 0, True, "x", [], {}, [None], [[1]]):
            changed = copy.deepcopy({"root": mistakes})
            holder = changed
            for key in ("root", *place)[:-1]:
                holder = holder[key]
            holder[("root", *place)[-1]] = trap
            reviewed = _cluster_lint.review(changed["root"], ["p5e.48xlarge"])
            assert all(_cluster_lint.sentence(problem) for problem in reviewed["problems"])


def test_sections_of_wrong_type_are_left_to_schema():
    for wrong in (None, [], "text", 3):
        config = {"Image": wrong, "HeadNode": wrong, "Scheduling": wrong, "SharedStorage": wrong, "Iam": wrong}
        assert _cluster_lint.review(config, [])["problems"] == []


def test_alternatives_are_of_same_class_size_and_chip():
    offered = ["c5.4xlarge", "c7i.4xlarge", "c8g.4xlarge", "c7i.2xlarge", "m7i.4xlarge", "c6in.4xlarge", "odd"]
    assert _cluster_lint.alternatives("c6i.4xlarge", offered) == ["c7i.4xlarge", "c6in.4xlarge", "c5.4xlarge"]
    assert _cluster_lint.alternatives("c6g.4xlarge", offered) == ["c8g.4xlarge"]
    assert _cluster_lint.alternatives("strange", offered) == []


def test_type_without_alternative_has_general_hint():
    (problem,) = _cluster_lint.review(GOOD, ["c7i.4xlarge"])["problems"]
    assert _cluster_lint.sentence(problem) == (
        "Scheduling/SlurmQueues[0]/ComputeResources[0]/InstanceType is 'p5.48xlarge': us-east-1 does not offer it; "
        "use another type or region"
    )


def test_other_schema_error_is_reported():
    answer = {**ANSWER, "schema": [{"path": "Imds", "message": "Not a valid mapping type."}], "judged": False}
    verdict = _cluster_lint.verdict(_cluster_lint.review(GOOD, None), answer)
    assert verdict["errors"] == [
        "Imds Not a valid mapping type. (ParallelCluster's schema)",
        "ParallelCluster's validators were not reached, because its schema rejects the configuration",
    ]
    assert not verdict["valid"]
    assert "was not checked, because EC2 was not queried" in verdict["notes"][0]


def test_known_schema_error_is_reported_once():
    config = changed(lambda it: it["Image"].update(Os="alinux2"))
    answer = {**ANSWER, "schema": [{"path": "Image/Os", "message": "Must be one of: alinux2023."}]}
    verdict = _cluster_lint.verdict(_cluster_lint.review(config, None), answer)
    assert len(verdict["errors"]) == 1


def test_findings_are_sorted_by_level():
    findings = [{"level": level, "validator": "V", "message": level} for level in ("ERROR", "WARNING", "INFO", "INFO")]
    reviewed = _cluster_lint.review(GOOD, ["c7i.4xlarge", "p5.48xlarge"])
    verdict = _cluster_lint.verdict(reviewed, {**ANSWER, "findings": findings})
    assert (verdict["errors"], verdict["warnings"], verdict["notes"]) == (["ERROR (V)"], ["WARNING (V)"], ["INFO (V)"])


def test_only_types_of_user_count_as_assumed():
    verdict = _cluster_lint.verdict(
        _cluster_lint.review(GOOD, None), {**ANSWER, "assumed": ["c7i.4xlarge", "m7i.large"]}
    )
    # Types in the collection's table are checked by it.
    unchecked, tabled = verdict["warnings"]
    assert unchecked.startswith("c7i.4xlarge was not checked: ")
    assert tabled.startswith("p5.48xlarge was checked with the table of the collection, ")
