# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Launch the instance of a proof on AWS, with a durable record that is older than everything it creates.

The record has a random id, which is a tag of every resource of the run and the client token of its launch. EC2 launches
at most one instance for a token (Amazon EC2 Developer Guide, Ensuring idempotency), and finds it by the filter
``client-token``. So a sweep finds the instance even if the controller died before the answer to the launch.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
import typing as t
from pathlib import Path

from .._node.system import files
from . import aws

# Same value in plugins/plugin_utils/_prove/plan.py.
ID_TAG = "mlcluster:prove-id"
# The resources that EC2 may not know for some seconds after it has created them.
NOT_YET = ("InvalidGroup.NotFound", "InvalidKeyPair.NotFound")
ATTEMPTS, SECONDS = 12, 5
# EC2 answers a lack of capacity with status 500, although nothing was launched.
REFUSED = ("InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity")
# Ten minutes for an instance to run.
WAIT = {"Delay": 5, "MaxAttempts": 120}

Record = dict[str, t.Any]


class ProofError(Exception):
    """Nothing is launched; the message is one sentence."""


def create(path: str, region: str, run: str) -> Record:
    """Return the new record of a run, which is durable then. Raises ProofError if there is one, and OSError."""
    record = {"region": region, "run": run, "id": secrets.token_hex(16)}
    folder, name = os.path.split(path)
    handle = files.open_directory(folder)
    fresh = f".{name}.{secrets.token_hex(8)}"
    try:
        files.write_new(fresh, _data(record), directory=handle)
        try:
            # Unlike a rename, a link never replaces the record of another process.
            os.link(fresh, name, src_dir_fd=handle, dst_dir_fd=handle, follow_symlinks=False)
        except FileExistsError as exc:
            raise ProofError(
                f"nothing was launched: {path} is the record of an earlier run, whose instance may still run; remove "
                f"that with -e prove_on_aws_sweep={run}, or use another prove_on_aws_run"
            ) from exc
        finally:
            os.unlink(fresh, dir_fd=handle)
        os.fsync(handle)
    finally:
        os.close(handle)
    # The folder of the run may be new, too, and so may those above it.
    for parent in Path(folder).absolute().parents:
        with contextlib.suppress(PermissionError):
            files.sync_directory(parent)
    return record


def read(path: str) -> Record:
    """Return the record of a run. Raises ProofError if it is not one, and OSError."""
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    try:
        record = json.loads(text)
        if not all(isinstance(record[key], str) and record[key] for key in ("region", "run", "id")):
            raise ValueError("without region, run or id")
    except (ValueError, KeyError, TypeError) as exc:
        raise ProofError(f"nothing was launched: {path} is not the record of a run: {exc}") from exc
    return t.cast(Record, record)


def launch(
    ec2: t.Any, path: str, wanted: t.Mapping[str, t.Any], sleep: t.Callable[[float], None] = time.sleep
) -> Record:
    """Create key pair, security group and instance, and return the record with the ids of instance and volumes.

    ``wanted``: tags, vpc, subnet, ssh_cidr, type, image, public_key and user_data. Raises ProofError, AwsError and
    OSError.
    """
    record = read(path)
    if "requested" in record:
        raise ProofError(f"nothing was launched: {path} is the record of a run that has launched its instance")
    run, tags = record["run"], {**wanted["tags"], ID_TAG: record["id"]}
    with aws.doing(f"importing the key pair {run}"):
        ec2.import_key_pair(
            KeyName=run, PublicKeyMaterial=wanted["public_key"].encode(), TagSpecifications=_tagged(tags, "key-pair")
        )
    with aws.doing(f"creating the security group {run}"):
        group = ec2.create_security_group(
            GroupName=run,
            Description="One instance that proves mlcluster.aws",
            VpcId=wanted["vpc"],
            TagSpecifications=_tagged(tags, "security-group"),
        )["GroupId"]
        rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": wanted["ssh_cidr"]}]}
        _patiently(lambda: ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule]), sleep)
    with aws.doing(f"reading the image {wanted['image']}"):
        image = ec2.describe_images(ImageIds=[wanted["image"]])["Images"][0]
    request = {
        "ClientToken": record["id"],
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": wanted["image"],
        "InstanceType": wanted["type"],
        "KeyName": run,
        "SubnetId": wanted["subnet"],
        "SecurityGroupIds": [group],
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required"},
        "UserData": wanted["user_data"],
        "TagSpecifications": _tagged(tags, "instance", "volume"),
        **_ending_disks(image),
    }

    def request_instance() -> t.Any:
        nonlocal record
        record = _write(path, {**record, "requested": int(time.time())})
        return ec2.run_instances(**request)

    with aws.doing(f"launching a {wanted['type']}"):
        try:
            answer = _patiently(request_instance, sleep)
        except Exception as exc:
            # The last try may be the one that arrived, minutes after the first: a sweep waits from now on.
            end = {"requested": int(time.time()), **({"refused": aws.code(exc)} if is_refused(exc) else {})}
            _write(path, {**record, **end})
            raise
    instance = answer["Instances"][0]["InstanceId"]
    record = _write(path, {**record, "instances": [instance]})
    with aws.doing(f"waiting until {instance} runs"):
        ec2.get_waiter("instance_running").wait(InstanceIds=[instance], WaiterConfig=WAIT)
        found = ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
    disks = [disk["Ebs"]["VolumeId"] for disk in found.get("BlockDeviceMappings") or () if "Ebs" in disk]
    return _write(path, {**record, "volumes": disks})


def is_refused(error: BaseException) -> bool:
    """Return whether EC2 has answered that it launched nothing; a lost or unclear answer proves nothing."""
    name, response = aws.code(error), getattr(error, "response", None)
    if not name or not isinstance(response, dict):
        return False
    about = response.get("ResponseMetadata", {})
    # The answer to an earlier try may be lost, and only one with this token and valid rights would show its instance.
    is_first = about.get("RetryAttempts") == 0
    # A mismatch means that there is an instance with this token.
    is_denied = 400 <= about.get("HTTPStatusCode", 0) < 500 and not name.startswith("Idempotent")
    return name in REFUSED or (is_denied and is_first)


def _ending_disks(image: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options that make every volume of the image end with its instance."""
    disks = [disk for disk in image.get("BlockDeviceMappings") or () if "Ebs" in disk]
    stay = [disk["DeviceName"] for disk in disks if disk["Ebs"].get("DeleteOnTermination") is not True]
    changed = [{"DeviceName": name, "Ebs": {"DeleteOnTermination": True}} for name in stay]
    return {"BlockDeviceMappings": changed} if changed else {}


def _patiently(call: t.Callable[[], t.Any], sleep: t.Callable[[float], None]) -> t.Any:
    """Return the answer of EC2, asked again while it does not know a new resource."""
    for _attempt in range(ATTEMPTS - 1):
        try:
            return call()
        except Exception as exc:
            if aws.code(exc) not in NOT_YET:
                raise
            sleep(SECONDS)
    return call()


def _tagged(tags: t.Mapping[str, str], *kinds: str) -> list[dict[str, t.Any]]:
    entries = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": entries} for kind in kinds]


def _write(path: str, record: Record) -> Record:
    files.replace_file(path, _data(record), 0o600)
    return record


def _data(record: Record) -> bytes:
    return (json.dumps(record) + "\n").encode()
