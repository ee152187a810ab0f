# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection variables of an instance."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any

_FIELDS = {"private_ip": "private_ip_address", "public_ip": "public_ip_address", "private_dns": "private_dns_name"}
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*")


@dataclass(frozen=True)
class Connection:
    """The options of the connection, checked by ``check``."""

    kind: str = "ssh"
    address: str = "private_ip"
    bastion_user: str | None = None
    bastion_host: str | None = None
    bastion_port: int | None = None
    ssm_bucket: str | None = None
    ssm_plugin: str = "amazon.aws.aws_ssm"
    profile: str | None = None
    profiles: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class ConnectionOptionError(ValueError):
    """An option of the connection that cannot be used."""


def check(options: Connection) -> Connection:
    """Return the options. Raises ConnectionOptionError for a value that is unsafe in an ssh argument."""
    if options.bastion_user is not None and not _USER.fullmatch(options.bastion_user):
        raise ConnectionOptionError(f"bastion_user: '{options.bastion_user}' is not a user name")
    if options.bastion_host is not None and not _HOST.fullmatch(options.bastion_host):
        raise ConnectionOptionError(f"bastion_host: '{options.bastion_host}' is neither an address nor a host name")
    if options.kind == "ssm" and options.roles:
        raise ConnectionOptionError(
            f"connection: ssm takes a profile and no role, and assume_role_arn has {options.roles[0]}; make a profile "
            "with that role_arn in the AWS configuration files and name it in the option profile"
        )
    if options.kind == "ssm" and options.profiles:
        raise ConnectionOptionError(
            "connection: ssm supports one profile, and the inventory has several; use an inventory file "
            "for each profile"
        )
    if options.bastion_port is not None and not 0 < options.bastion_port < 65536:
        raise ConnectionOptionError(f"bastion_port: {options.bastion_port} is not a port; use 1 to 65535")
    return options


def missing_setting(options: Connection) -> str | None:
    """Return the settings that will be missing when Ansible connects, unless they are set elsewhere."""
    if options.kind == "ssm" and not options.ssm_bucket:
        return (
            "connection: ssm moves every file through a bucket of S3, and ssm_bucket names none; set it, or "
            "ansible_aws_ssm_bucket_name for the hosts"
        )
    return None


def _is_address(text: str | None) -> bool:
    try:
        ipaddress.ip_address(text or "")
    except ValueError:
        return False
    return True


def address(record: dict[str, Any], preference: str) -> str:
    """Return ``ansible_host``: the preferred address if the instance has it, else another, finally its id."""
    return (
        record[_FIELDS[preference]] or record["private_ip_address"] or record["ipv6_address"] or record["instance_id"]
    )


def cluster_key(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key of a cluster, which differs for clusters of the same name."""
    return record["account_id"], record["region"], record["cluster_name"]


def heads(records: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the head node of each cluster; of several the one with the smallest instance id."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        if record["node_type"] == "head" and record["cluster_name"]:
            key = cluster_key(record)
            if key not in found or record["instance_id"] < found[key]["instance_id"]:
                found[key] = record
    return found


def _proxy_jump(target: str, options: Connection) -> str:
    host = f"[{target}]" if ":" in target else target
    user = f"{options.bastion_user}@" if options.bastion_user else ""
    port = f":{options.bastion_port}" if options.bastion_port else ""
    return f"-o ProxyJump={user}{host}{port}"


def _bastion(record: dict[str, Any], head: dict[str, Any] | None, options: Connection) -> dict[str, Any]:
    through = options.bastion_host
    if not through:
        if record["node_type"] == "head":
            return {"ansible_host": address(record, "public_ip")}
        if head is None:
            return {"ansible_host": address(record, options.address)}
        through = head["public_ip_address"] or head["private_ip_address"] or head["ipv6_address"]
        if not _is_address(through):
            through = None
    result = {"ansible_host": address(record, "private_ip")}
    if through:
        result["ansible_ssh_common_args"] = _proxy_jump(through, options)
    return result


def variables(record: dict[str, Any], head: dict[str, Any] | None, options: Connection) -> dict[str, Any]:
    """Return the connection variables of a record; ``head`` is its cluster's head node, for ``ssh_bastion``."""
    if options.kind == "ssh_bastion":
        return _bastion(record, head, options)
    if options.kind == "ssm":
        result = {
            "ansible_host": record["instance_id"],
            "ansible_connection": options.ssm_plugin,
            "ansible_aws_ssm_instance_id": record["instance_id"],
            "ansible_aws_ssm_region": record["region"],
        }
        if options.ssm_bucket:
            result["ansible_aws_ssm_bucket_name"] = options.ssm_bucket
        if options.profile:
            result["ansible_aws_ssm_profile"] = options.profile
        return result
    return {"ansible_host": address(record, options.address)}
