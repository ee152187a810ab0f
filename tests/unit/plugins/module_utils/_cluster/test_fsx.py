# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, fsx

WANTED = {
    "name": "checkpoints",
    "cluster": "train",
    "gib": 7200,
    "throughput": 1000,
    "efa": True,
    "subnet": "subnet-1",
    "groups": ["sg-1"],
    "kms_key": "",
    "associations": [],
    "tags": {"Project": "p"},
}
# Shaped as the FSx API documents DescribeFileSystems.
FOUND = {
    "FileSystemId": "fs-0123456789abcdef2",
    "FileSystemType": "LUSTRE",
    "Lifecycle": "AVAILABLE",
    "StorageCapacity": 7200,
    "LustreConfiguration": {
        "DeploymentType": "PERSISTENT_2",
        "PerUnitStorageThroughput": 1000,
        "DataCompressionType": "LZ4",
        "EfaEnabled": True,
    },
    "Tags": [{"Key": "mlcluster:filesystem", "Value": "checkpoints"}],
}


class Fsx:
    def __init__(self, *filesystems, ties=()):
        self.filesystems, self.ties, self.tied = filesystems, list(ties), []

    def describe_file_systems(self, FileSystemIds=None, NextToken=None):  # noqa: N803
        if FileSystemIds:
            return {"FileSystems": [entry for entry in self.filesystems if entry["FileSystemId"] in FileSystemIds]}
        # One a page, as the API may answer.
        index = int(NextToken or 0)
        more = {"NextToken": str(index + 1)} if index + 1 < len(self.filesystems) else {}
        return {"FileSystems": list(self.filesystems[index : index + 1]), **more}

    def describe_data_repository_associations(self, Filters):  # noqa: N803
        assert Filters == [{"Name": "file-system-id", "Values": [FOUND["FileSystemId"]]}]
        return {"Associations": self.ties}

    def create_data_repository_association(self, **request):
        self.tied.append(request)


def other(**changes):
    entry = copy.deepcopy(FOUND)
    entry["LustreConfiguration"].update(changes.pop("LustreConfiguration", {}))
    return {**entry, **changes}


def test_creation_has_expected_arguments():
    request = fsx.request(WANTED)
    assert request["LustreConfiguration"] == {
        "DeploymentType": "PERSISTENT_2",
        "PerUnitStorageThroughput": 1000,
        "DataCompressionType": "LZ4",
        "EfaEnabled": True,
        "MetadataConfiguration": {"Mode": "AUTOMATIC"},
    }
    assert {"Key": "mlcluster:filesystem", "Value": "checkpoints"} in request["Tags"]
    assert {"Key": "mlcluster:cluster", "Value": "train"} in request["Tags"]
    assert "mlcluster:cluster" not in str(fsx.request({**WANTED, "cluster": ""}))
    assert "KmsKeyId" not in request
    assert "EfaEnabled" not in fsx.request({**WANTED, "efa": False})["LustreConfiguration"]


def test_other_deployment_type_is_created_and_compared():
    older = {**WANTED, "efa": False, "throughput": 200, "deployment": "PERSISTENT_1"}
    assert fsx.request(older)["LustreConfiguration"]["DeploymentType"] == "PERSISTENT_1"
    there = other(LustreConfiguration={"DeploymentType": "PERSISTENT_1"})
    assert any("type PERSISTENT_1 and not PERSISTENT_2" in one for one in fsx.differences(there, WANTED))
    assert not any("type" in one for one in fsx.differences(there, older))


def test_token_depends_on_options():
    first, second = fsx.request(WANTED), fsx.request(dict(reversed(WANTED.items())))
    assert first["ClientRequestToken"] == second["ClientRequestToken"]
    assert len(first["ClientRequestToken"]) <= 63
    assert fsx.request({**WANTED, "cluster": "other"})["ClientRequestToken"] != first["ClientRequestToken"]
    assert fsx.request({**WANTED, "gib": 9600})["ClientRequestToken"] != first["ClientRequestToken"]


def test_file_system_is_found_by_tag_unless_deleting():
    strange = other(FileSystemId="fs-a", Tags=[])
    going = other(FileSystemId="fs-b", Lifecycle="DELETING")
    assert fsx.find(Fsx(strange, going, FOUND), "checkpoints", "") == FOUND
    assert fsx.find(Fsx(strange, going), "checkpoints", "") is None
    assert fsx.find(Fsx(strange, FOUND), "any", FOUND["FileSystemId"]) == FOUND


def of_cluster(cluster, identifier):
    tags = [*FOUND["Tags"], {"Key": "mlcluster:cluster", "Value": cluster}]
    return other(FileSystemId=identifier, Tags=tags)


def test_file_system_of_other_cluster_is_rejected():
    theirs, own = of_cluster("old", "fs-old"), of_cluster("train", "fs-own")
    sentence = (
        "checkpoints of the cluster train and found that of another cluster (fs-old of old); set its id to share it"
    )
    with pytest.raises(aws.AwsError, match=re.escape(sentence)):
        fsx.find(Fsx(theirs), "checkpoints", "", "train")
    assert fsx.find(Fsx(theirs, own), "checkpoints", "", "train") == own
    # By its id on purpose, without a cluster, or created before the tag existed.
    assert fsx.find(Fsx(theirs), "checkpoints", "fs-old", "train") == theirs
    assert fsx.find(Fsx(theirs), "checkpoints", "") == theirs
    assert fsx.find(Fsx(FOUND), "checkpoints", "", "train") == FOUND
    with pytest.raises(aws.AwsError, match="fs-0123456789abcdef2, fs-own all carry the tag"):
        fsx.find(Fsx(theirs, FOUND, own), "checkpoints", "", "train")


def test_two_file_systems_of_same_name_are_rejected():
    with pytest.raises(
        aws.AwsError, match="fs-0123456789abcdef2, fs-x all carry the tag mlcluster:filesystem=checkpoints"
    ):
        fsx.find(Fsx(FOUND, other(FileSystemId="fs-x")), "checkpoints", "")


def test_matching_file_system_is_adopted():
    assert fsx.differences(FOUND, WANTED) == []
    assert fsx.differences(FOUND, {**WANTED, "gib": None, "throughput": None}) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"StorageCapacity": 4800}, "gib 4800 and not 7200"),
        ({"LustreConfiguration": {"DeploymentType": "SCRATCH_2"}}, "type SCRATCH_2 and not PERSISTENT_2"),
        ({"LustreConfiguration": {"PerUnitStorageThroughput": 250}}, "throughput 250 and not 1000"),
        ({"LustreConfiguration": {"DataCompressionType": "NONE"}}, "compression NONE and not LZ4"),
        ({"LustreConfiguration": {"EfaEnabled": False}}, "efa False and not True"),
        ({"FileSystemType": "ONTAP"}, "is of type ONTAP and not LUSTRE"),
    ],
)
def test_differences_of_file_system_are_reported(changes, sentence):
    (problem,) = fsx.differences(other(**changes), WANTED)
    assert sentence in problem


def test_only_missing_associations_are_created():
    links = [{"path": "/datasets", "s3": "s3://data/datasets/"}, {"path": "/out", "s3": "s3://out", "export": True}]
    client = Fsx(FOUND, ties=[{"FileSystemPath": "/datasets", "DataRepositoryPath": "s3://data/datasets"}])
    there = fsx.associations(client, FOUND["FileSystemId"])
    (link,) = fsx.missing_associations(there, {**WANTED, "associations": links})
    fsx.associate(client, FOUND["FileSystemId"], link)
    (made,) = client.tied
    assert (made["FileSystemPath"], made["DataRepositoryPath"]) == ("/out", "s3://out")
    assert set(made["S3"]) == {"AutoImportPolicy", "AutoExportPolicy"}


def test_path_associated_elsewhere_is_rejected():
    there = [{"FileSystemPath": "/datasets", "DataRepositoryPath": "s3://old"}]
    with pytest.raises(aws.AwsError, match="is associated with s3://old and not with s3://data; undo that by hand"):
        fsx.missing_associations(there, {**WANTED, "associations": [{"path": "/datasets", "s3": "s3://data"}]})


def test_waiting_ends_when_available(monkeypatch):
    answers = iter(["CREATING", "CREATING", "AVAILABLE"])
    monkeypatch.setattr(fsx.time, "sleep", lambda seconds: None)
    fsx.wait(lambda: [{"Lifecycle": next(answers)}], "fs-1", 60)
    assert next(answers, None) is None


def test_failure_is_reported_with_reason():
    failed = {"Lifecycle": "FAILED", "FailureDetails": {"Message": "no capacity in this zone"}}
    with pytest.raises(aws.AwsError, match="fs-1 is FAILED: no capacity in this zone"):
        fsx.wait(lambda: [failed], "fs-1", 60)


def test_failed_association_is_reported_at_once():
    tie = {"FileSystemPath": "/datasets", "DataRepositoryPath": "s3://data", "Lifecycle": "FAILED"}
    tie["FailureDetails"] = {"Message": "the bucket is in another region"}
    with pytest.raises(
        aws.AwsError, match=r"an association of fs-1 \(/datasets\) is FAILED: the bucket is in another region; repair"
    ):
        fsx.wait(lambda: [{**tie, "Lifecycle": "AVAILABLE"}, tie], "an association of fs-1", 3600)


def test_waiting_has_time_limit():
    with pytest.raises(aws.AwsError, match="fs-1 is still CREATING after -1 s; run this again later"):
        fsx.wait(lambda: [{"Lifecycle": "CREATING"}], "fs-1", -1)
