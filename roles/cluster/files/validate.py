# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge a cluster configuration with the schema and all validators of aws-parallelcluster, without AWS.

Runs on the Python of ParallelCluster's own environment; input and output are JSON. On standard input: ``config``;
``repaired``, the same with its known mistakes corrected, or null; ``types``, entries of DescribeInstanceTypes by name;
``offered``, the names of the types that the region offers, or null if unknown. On standard output: ``version``;
``schema``, the errors of the schema in ``config``, each with ``path`` and ``message``; ``left``, those in
``repaired``; ``findings`` of the validators about the repaired configuration, or the given one without it, each with
``level``, ``validator`` and ``message``; ``judged``, whether the validators ran; ``assumed``, the unknown types.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys

VPC, ZONE, GROUP = "vpc-00000000000000000", "offline-a", "sg-00000000000000000"


class Silent:
    """Answer every call whose result no validator uses."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_args, **_kwargs: {}


class Ec2(Silent):
    """Stand in for EC2: the account is assumed to be correct, the instance types are those of the input."""

    def __init__(self, asked):
        self.types, self.offered, self.assumed = asked.get("types") or {}, asked.get("offered"), []
        self.reservations, self.over_efa = {}, set()
        self.image_architecture = "x86_64"

    def expect(self, config):
        """Assume that facts known only to EC2 match the configuration.

        A reservation is for the type and the number of nodes that name it, an unknown type exists and has EFA if that
        is enabled, and an image is for the processor of the head node.
        """
        head = mapping(mapping(config).get("HeadNode")).get("InstanceType")
        for queue in entries(mapping(mapping(config).get("Scheduling")).get("SlurmQueues")):
            kind = "capacity-block" if queue.get("CapacityType") == "CAPACITY_BLOCK" else "default"
            for resource in entries(queue.get("ComputeResources")):
                name = mapping(resource.get("CapacityReservationTarget")).get("CapacityReservationId")
                if name:
                    self.reservations[name] = (resource.get("InstanceType"), resource.get("MaxCount", 10), kind)
                several = [entry.get("InstanceType") for entry in entries(resource.get("Instances"))]
                types = [name for name in [resource.get("InstanceType"), *several] if isinstance(name, str)]
                if mapping(resource.get("Efa")).get("Enabled"):
                    self.over_efa.update(types)
                for name in types:
                    self.get_instance_type_info(name)
        if isinstance(head, str):
            self.image_architecture = self.get_instance_type_info(head).supported_architecture()[0]

    def get_instance_type_info(self, name):
        """Return a type; an unknown one is assumed to be plain, with one network card."""
        from pcluster.aws.aws_resources import InstanceTypeInfo

        if name not in self.types and name not in self.assumed:
            self.assumed.append(name)
        return InstanceTypeInfo(self.types.get(name) or plain_type(name, name in self.over_efa))

    def list_instance_types(self):
        return [*(self.offered if self.offered is not None else self.types), *self.assumed]

    def get_supported_architectures(self, name):
        return self.get_instance_type_info(name).supported_architecture()

    def get_official_image_id(self, *_args, **_kwargs):
        return "ami-00000000000000000"

    def describe_image(self, ami_id):
        from pcluster.aws.aws_resources import ImageInfo

        disk = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 45}}
        image = {"ImageId": ami_id, "Architecture": self.image_architecture, "State": "available", "Tags": []}
        return ImageInfo({**image, "BlockDeviceMappings": [disk]})

    def describe_key_pair(self, name):
        return {"KeyPairs": [{"KeyName": name, "KeyType": "ed25519"}]}

    def describe_subnets(self, names):
        shape = {"VpcId": VPC, "AvailabilityZone": ZONE, "MapPublicIpOnLaunch": False, "CidrBlock": "10.0.0.0/16"}
        return [{"SubnetId": name, **shape} for name in names]

    def get_subnet_avail_zone(self, _name):
        return ZONE

    def get_subnets_az_mapping(self, names):
        return dict.fromkeys(names, ZONE)

    def get_subnet_vpc(self, _name):
        return VPC

    def get_subnet_cidr(self, _name):
        return "10.0.0.0/16"

    def is_enable_dns_support(self, _name):
        return True

    is_enable_dns_hostnames = is_enable_dns_support

    def is_subnet_public(self, _name):
        return False

    def describe_security_group(self, name):
        # Open to itself, as EFA needs it: the dry run checks the rules of the account's group.
        itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": name}], "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
        return {"GroupId": name, "IpPermissions": itself, "IpPermissionsEgress": itself}

    def describe_security_groups(self, names):
        return [self.describe_security_group(name) for name in names]

    def describe_network_interfaces(self, names):
        return [{"NetworkInterfaceId": name, "VpcId": VPC, "Groups": [{"GroupId": GROUP}]} for name in names]

    def describe_capacity_reservations(self, names):
        from pcluster.aws.aws_resources import CapacityReservationInfo

        entries = []
        for name in names:
            kind, count, reservation = self.reservations.get(name, ("t3.micro", 1, "default"))
            entry = {"CapacityReservationId": name, "InstanceType": kind, "AvailabilityZone": ZONE, "State": "active"}
            counts = {"TotalInstanceCount": count, "AvailableInstanceCount": count, "ReservationType": reservation}
            entries.append(CapacityReservationInfo({**entry, **counts, "InstancePlatform": "Linux/UNIX"}))
        return entries

    def get_instance_type_and_reservation_type_from_capacity_reservation(self, name):
        kind, _count, reservation = self.reservations.get(name, ("t3.micro", 1, "default"))
        return kind, reservation


class Fsx(Silent):
    """Stand in for FSx: every file system that is named exists."""

    def get_file_systems_info(self, names):
        from pcluster.aws.aws_resources import FsxStorageInfo

        shape = {"FileSystemType": "LUSTRE", "VpcId": VPC, "LustreConfiguration": {"MountName": "offline"}}
        interfaces = {"SubnetIds": ["subnet-00000000000000000"], "NetworkInterfaceIds": ["eni-00000000000000000"]}
        return [FsxStorageInfo({"FileSystemId": name, "DNSName": name, **shape, **interfaces}) for name in names]


class S3(Silent):
    """Stand in for S3: every bucket is in the region of the cluster."""

    def get_bucket_region(self, _name):
        return os.environ["AWS_DEFAULT_REGION"]


class Api:
    """Stand in for pcluster.aws.aws_api.AWSApi."""

    def __init__(self, asked):
        self.ec2, self.fsx, self.s3 = Ec2(asked), Fsx(), S3()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Silent()


def mapping(value):
    """Return the value if it is a mapping, else an empty one: the schema reports the error."""
    return value if isinstance(value, dict) else {}


def entries(value):
    """Return the mappings of a list, none of another value."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def plain_type(name, efa):
    """Return a type with one network card that every validator accepts: in any zone, with enough memory."""
    card = {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 4}
    # A g after the number means AWS's own processor, as does the first generation of class a.
    architecture = "arm64" if re.match(r"[a-z]+\d+[a-z]*g|a1\.", name.partition("-")[0]) else "x86_64"
    return {
        "InstanceType": name,
        "SupportedUsageClasses": ["on-demand", "spot", "capacity-block"],
        "ProcessorInfo": {"SupportedArchitectures": [architecture]},
        "VCpuInfo": {"DefaultVCpus": 2, "DefaultCores": 1, "DefaultThreadsPerCore": 2},
        "MemoryInfo": {"SizeInMiB": 1 << 24},
        "EbsInfo": {"EbsOptimizedSupport": "default"},
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
        "NetworkInfo": {"MaximumNetworkCards": 1, "EfaSupported": efa, "NetworkCards": [card]},
    }


def flat(messages, path=""):
    """Yield the errors of the schema as path and message; list positions are written as [0]."""
    if isinstance(messages, dict):
        for key, value in messages.items():
            if key == "_schema":
                step = path
            elif isinstance(key, int):
                step = f"{path}[{key}]"
            else:
                step = f"{path}/{key}" if path else str(key)
            yield from flat(value, step)
    else:
        for message in messages if isinstance(messages, list) else [messages]:
            yield {"path": path, "message": str(message)}


def load(config):
    """Return the cluster that the schema loads from a configuration, or None, and its errors."""
    from marshmallow import ValidationError
    from pcluster.schemas.cluster_schema import ClusterSchema

    try:
        return ClusterSchema(cluster_name="offline").load(config), []
    except ValidationError as error:
        return None, list(flat(error.messages))


def judge(asked):
    """Return the answer described in the module's docstring."""
    import pcluster.validators.iam_validators
    from pcluster.aws.aws_api import AWSApi
    from pcluster.utils import get_installed_version

    api = Api(asked)
    AWSApi.instance = staticmethod(lambda: api)
    # This validator creates its own client, not through the API.
    pcluster.validators.iam_validators.IamClient = lambda: api.iam
    api.ec2.expect(asked.get("repaired") or asked["config"])
    cluster, errors = load(asked["config"])
    left = []
    if asked.get("repaired"):
        cluster, left = load(asked["repaired"])
    found = cluster.validate() if cluster is not None else []
    return {
        "version": get_installed_version(),
        "schema": errors,
        "left": left,
        "findings": [{"level": f.level.name, "validator": f.validator_type, "message": f.message} for f in found],
        "judged": cluster is not None,
        "assumed": sorted(api.ec2.assumed),
    }


def main():
    """Read a request, judge it, write the answer."""
    asked = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    # No request may leave this machine, and no credentials of the user are used.
    os.environ.update(
        AWS_DEFAULT_REGION=str(asked["config"].get("Region") or "us-east-1"),
        AWS_ACCESS_KEY_ID="offline",
        AWS_SECRET_ACCESS_KEY="offline",  # noqa: S106
        AWS_EC2_METADATA_DISABLED="true",
        AWS_ENDPOINT_URL="http://127.0.0.1:9",
    )
    answer = judge(asked)
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
