# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of an account: moto, with the changes that this package describes.

Arguments: the name of a guest, which is then the machine of instances, and the path of an ssh configuration for it.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instances import InstanceBackend
from moto.ec2.models.nat_gateways import NatGatewayBackend
from moto.ec2.responses.instances import InstanceResponse
from moto.ec2.utils import filter_dict_attribute_mapping
from moto.fsx.models import FileSystem
from moto.s3.models import FakeBucket

from tests.rig import local_s3


def _as_aws(make: Any, show: Any) -> tuple[Any, Any]:
    """Return FileSystem's methods with an identifier of 17 digits, and the state and mount name that AWS reports."""

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        short, self.file_system_id = self.file_system_id, f"fs-{uuid.uuid4().hex[:17]}"
        self.dns_name = self.dns_name.replace(short, self.file_system_id)
        tags = self.backend.list_tags_for_resource(self.resource_arn)
        self.resource_arn = self.resource_arn.replace(short, self.file_system_id)
        self.backend.tagger.tag_resource(self.resource_arn, tags)

    def to_dict(self: Any) -> dict[str, Any]:
        shown = {**show(self), "Lifecycle": "AVAILABLE"}
        if "LustreConfiguration" in shown:
            shown["LustreConfiguration"] = {**shown["LustreConfiguration"], "MountName": self.file_system_id[-8:]}
        return shown

    return init, to_dict


class TokenMismatchError(EC2ClientError):
    """The answer to a launch with the token of another one."""

    def __init__(self) -> None:
        super().__init__("IdempotentParameterMismatch", "The client token was used in a request with other parameters")


def _once(launch: Any) -> Any:
    """Return InstanceBackend's run_instances, which launches once for a client token."""
    launched: dict[tuple[int, str], tuple[str, Any]] = {}

    def run_instances(self: Any, image: str, count: int, *given: Any, **named: Any) -> Any:
        token, asked = named.get("client_token"), repr((image, count, given, sorted(named.items())))
        # Moto's token of a request without one.
        if token == "ABCDE":
            return launch(self, image, count, *given, **named)
        key = (id(self), str(token))
        if key in launched and launched[key][1].id not in self.reservations:
            # The account was reset.
            del launched[key]
        if key not in launched:
            launched[key] = (asked, launch(self, image, count, *given, **named))
        if launched[key][0] != asked:
            raise TokenMismatchError
        return launched[key][1]

    return run_instances


def _disassociating(delete: Any) -> Any:
    """Return NatGatewayBackend's delete_nat_gateway, which disassociates the address of the gateway."""

    def delete_nat_gateway(self: Any, nat_gateway_id: str) -> Any:
        gateway = delete(self, nat_gateway_id)
        for entry in gateway.address_set:
            if entry.get("allocationId"):
                (address,) = self.address_by_allocation([entry["allocationId"]])
                self.disassociate_address(address=address.public_ip)
        return gateway

    return delete_nat_gateway


def _as_image(parse: Any) -> Any:
    """Return InstanceResponse's reader of disks, which takes size and snapshot of a disk of the image from that."""

    def parse_disks(self: Any) -> Any:
        get = self._get_param
        (image,) = self.ec2_backend.describe_images(ami_ids=[get("ImageId")])
        disks = {disk["DeviceName"]: disk["Ebs"] for disk in image.block_device_mappings if "Ebs" in disk}

        def filled(name: str, *default: Any) -> Any:
            value = get(name, *default)
            if name == "BlockDeviceMappings":
                for disk in value:
                    disk["Ebs"] = {**disks.get(disk["DeviceName"], {}), **disk.get("Ebs", {})}
            return value

        self._get_param = filled
        try:
            return parse(self)
        finally:
            del self._get_param

    return parse_disks


if __name__ == "__main__":
    InstanceResponse._parse_block_device_mapping = _as_image(  # type: ignore[method-assign]
        InstanceResponse._parse_block_device_mapping
    )
    NatGatewayBackend.delete_nat_gateway = _disassociating(  # type: ignore[method-assign]
        NatGatewayBackend.delete_nat_gateway
    )
    filter_dict_attribute_mapping["client-token"] = "client_token"
    InstanceBackend.run_instances = _once(InstanceBackend.run_instances)  # type: ignore[method-assign]
    FakeBucket.get_permission = lambda self, action, resource: None  # type: ignore[method-assign]
    FileSystem.__init__, FileSystem.to_dict = _as_aws(  # type: ignore[method-assign]
        FileSystem.__init__, FileSystem.to_dict
    )
    if sys.argv[1:]:
        # A server without machines does not need these.
        from tests.rig.aws.machine import Machine
        from tests.rig.vm.guest import Guest

        name, config = sys.argv[1:]
        Machine(Guest(name), Path(config)).attach()
    local_s3.main()
