# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a proof is durable before anything is created, and the launch has its id as the client token."""

from __future__ import annotations

import json
import os

import botocore.exceptions
import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, proof
from ansible_collections.mlcluster.aws.plugins.plugin_utils._prove import plan

WANTED = {
    "tags": plan.tags("prove-1"), "vpc": "vpc-1", "subnet": "subnet-1", "ssh_cidr": "203.0.113.7/32",
    "type": "c5d.large", "image": "ami-1", "public_key": "ssh-ed25519 KEY", "user_data": "#cloud-config\n",
}  # fmt: skip
DISKS = ({"DeviceName": "/dev/xvda", "Ebs": {"DeleteOnTermination": True}}, {"DeviceName": "b", "VirtualName": "e0"})


def refusal(code, status=400, tries=0):
    about = {"HTTPStatusCode": status, "RetryAttempts": tries}
    answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": about}
    return botocore.exceptions.ClientError(answer, "RunInstances")


class FakeEc2:
    """A client that notes each request with the record of that time, and raises the errors given for an operation."""

    def __init__(self, path, disks=DISKS, **errors):
        self.path, self.disks, self.errors = path, disks, {name: list(found) for name, found in errors.items()}
        self.asked = []

    def __getattr__(self, name):
        def operation(**request):
            self.asked.append((name, request, json.loads(self.path.read_text(encoding="utf-8"))))
            if self.errors.get(name):
                raise self.errors[name].pop(0)
            return {
                "create_security_group": {"GroupId": "sg-1"},
                "describe_images": {"Images": [{"BlockDeviceMappings": list(self.disks)}]},
                "run_instances": {"Instances": [{"InstanceId": "i-1"}]},
                "describe_instances": {
                    "Reservations": [{"Instances": [{"BlockDeviceMappings": [{"Ebs": {"VolumeId": "vol-1"}}]}]}]
                },
            }.get(name, {})

        return operation

    def get_waiter(self, name):
        return type("Waiter", (), {"wait": lambda waiter, **request: getattr(self, name)(**request)})()

    def named(self, name):
        return [(request, record) for asked, request, record in self.asked if asked == name]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "launched.json"


@pytest.fixture
def launch(path):
    """Return ``launch(ec2)``, with a new record."""

    def run(ec2):
        proof.create(str(path), "us-east-1", "prove-1")
        return proof.launch(ec2, str(path), WANTED, sleep=lambda seconds: None)

    return run


def test_record_has_a_random_id_and_is_private(tmp_path):
    records = [proof.create(str(tmp_path / str(number)), "us-east-1", "prove-1") for number in range(2)]
    assert len({record["id"] for record in records}) == 2
    # EC2's limit of a client token.
    assert all(32 <= len(record["id"]) <= 64 for record in records)
    assert proof.read(str(tmp_path / "0")) == records[0]
    assert (tmp_path / "0").stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]


def test_record_of_another_run_is_never_replaced(path, tmp_path):
    path.write_text("of another")
    with pytest.raises(proof.ProofError, match="is the record of an earlier run, whose instance may still run"):
        proof.create(str(path), "us-east-1", "prove-1")
    assert path.read_text() == "of another" and os.listdir(tmp_path) == [path.name]


def test_link_in_the_place_of_the_record_is_not_followed(path, tmp_path):
    path.symlink_to(tmp_path / "target")
    with pytest.raises(proof.ProofError):
        proof.create(str(path), "us-east-1", "prove-1")
    assert not (tmp_path / "target").exists()


def test_record_and_its_folders_are_synced(path, monkeypatch):
    synced = []
    sync = os.fsync
    monkeypatch.setattr(
        proof.os, "fsync", lambda handle: (synced.append(os.readlink(f"/proc/self/fd/{handle}")), sync(handle))
    )
    proof.create(str(path), "us-east-1", "prove-1")
    assert synced[0].startswith(f"{path.parent}/.launched.json.")
    # The name is synced before the function returns, and so are the new folders above it.
    assert synced[1:3] == [str(path.parent), str(path.parent.parent)]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"region": "r", "run": "prove-1"}', '{"region": "r", "run": "a", "id": ""}']
)
def test_file_that_is_no_record_is_rejected(path, text):
    path.write_text(text)
    with pytest.raises(proof.ProofError, match="is not the record of a run"):
        proof.read(str(path))


def test_each_resource_has_the_recorded_id(path, launch):
    ec2 = FakeEc2(path)
    record = launch(ec2)
    made = ("import_key_pair", "create_security_group", "run_instances")
    entries = [entry for name in made for entry in ec2.named(name)[0][0]["TagSpecifications"]]
    assert [entry["ResourceType"] for entry in entries] == ["key-pair", "security-group", "instance", "volume"]
    for entry in entries:
        assert {tag["Key"]: tag["Value"] for tag in entry["Tags"]} == {**WANTED["tags"], plan.ID_TAG: record["id"]}
    assert proof.ID_TAG == plan.ID_TAG


def test_launch_is_recorded_before_it_is_requested(path, launch):
    ec2 = FakeEc2(path)
    record = launch(ec2)
    # Every request, the first one too, comes after the record with the id.
    assert {seen["id"] for _name, _request, seen in ec2.asked} == {record["id"]}
    ((request, seen),) = ec2.named("run_instances")
    assert request["ClientToken"] == seen["id"] and seen["requested"] and "instances" not in seen
    assert (request["MinCount"], request["MaxCount"]) == (1, 1)
    assert request["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert request["MetadataOptions"] == {"HttpTokens": "required"}
    ((_request, seen),) = ec2.named("instance_running")
    assert seen["instances"] == ["i-1"]
    assert json.loads(path.read_text()) == record and record["volumes"] == ["vol-1"]


def test_second_launch_of_a_record_is_rejected(path, launch):
    launch(FakeEc2(path))
    ec2 = FakeEc2(path)
    with pytest.raises(proof.ProofError, match="is the record of a run that has launched its instance"):
        proof.launch(ec2, str(path), WANTED)
    assert ec2.asked == []


@pytest.mark.parametrize(
    ("disks", "changed"),
    [
        (DISKS, None),
        ([], None),
        ([{"DeviceName": "a", "Ebs": {"DeleteOnTermination": False}}], ["a"]),
        ([{"DeviceName": "a", "Ebs": {}}, *DISKS], ["a"]),
    ],
)
def test_volume_of_the_image_ends_with_its_instance(path, launch, disks, changed):
    ec2 = FakeEc2(path, disks)
    launch(ec2)
    found = ec2.named("run_instances")[0][0].get("BlockDeviceMappings")
    assert found == (changed and [{"DeviceName": name, "Ebs": {"DeleteOnTermination": True}} for name in changed])


@pytest.mark.parametrize("operation", ["authorize_security_group_ingress", "run_instances"])
def test_new_group_that_ec2_does_not_know_yet_is_awaited(path, launch, operation):
    ec2 = FakeEc2(path, **{operation: [refusal("InvalidGroup.NotFound")] * 2})
    launch(ec2)
    assert len(ec2.named(operation)) == 3
    assert len({request.get("ClientToken") for request, _record in ec2.named(operation)}) == 1


def test_group_that_ec2_never_knows_is_an_error(path, launch):
    ec2 = FakeEc2(path, run_instances=[refusal("InvalidGroup.NotFound")] * 100)
    with pytest.raises(aws.AwsError, match=r"launching a c5d\.large failed: InvalidGroup.NotFound"):
        launch(ec2)
    assert len(ec2.named("run_instances")) == proof.ATTEMPTS


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (refusal("VcpuLimitExceeded"), True),
        (refusal("InsufficientInstanceCapacity", 500), True),
        # EC2 would have answered a later try with the instance of the first one.
        (refusal("InsufficientInstanceCapacity", 500, tries=4), True),
        # The rights ended between the first try, whose answer was lost, and the second one.
        (refusal("RequestExpired", tries=1), False),
        (refusal("RequestExpired"), True),
        (refusal("AuthFailure", 401, tries=None), False),
        (refusal("InternalError", 500), False),
        (refusal("RequestLimitExceeded", 503), False),
        (refusal("IdempotentParameterMismatch"), False),
        (refusal("", 400), False),
        (botocore.exceptions.ConnectionClosedError(endpoint_url="x"), False),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="x"), False),
    ],
)
def test_lost_answer_is_not_a_refusal(path, launch, error, is_refused):
    assert proof.is_refused(error) is is_refused
    with pytest.raises(aws.AwsError, match=r"launching a c5d\.large failed"):
        launch(FakeEc2(path, run_instances=[error]))
    record = json.loads(path.read_text())
    assert ("refused" in record) is is_refused and record["requested"]


def test_sweep_waits_from_the_last_try_of_the_launch(path, launch, monkeypatch):
    """boto3 repeats a request without an answer for minutes, and any of its tries may have arrived."""
    clock, ec2 = [1000.0], FakeEc2(path, run_instances=[refusal("InvalidGroup.NotFound")])
    monkeypatch.setattr(proof.time, "time", lambda: clock[0])

    def run_instances(**request):
        clock[0] += 400
        answer = FakeEc2.__getattr__(ec2, "run_instances")(**request)
        raise botocore.exceptions.ReadTimeoutError(endpoint_url="x") if answer else AssertionError

    ec2.run_instances = run_instances
    with pytest.raises(aws.AwsError, match=r"launching a c5d\.large failed"):
        launch(ec2)
    # While it is asked, the record has the time of this try; after the failure that of its end.
    assert [seen["requested"] for _request, seen in ec2.named("run_instances")] == [1000, 1400]
    assert json.loads(path.read_text())["requested"] == 1800


@pytest.mark.parametrize(
    ("operation", "sentence"),
    [("import_key_pair", "importing the key pair prove-1"), ("create_security_group", "creating the security group")],
)
def test_denied_key_or_group_launches_nothing(path, launch, operation, sentence):
    ec2 = FakeEc2(path, **{operation: [refusal("UnauthorizedOperation")]})
    with pytest.raises(aws.AwsError, match=f"{sentence}.* failed: UnauthorizedOperation"):
        launch(ec2)
    assert ec2.named("run_instances") == [] and "requested" not in json.loads(path.read_text())
