# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Look at the network of a cluster, found by its tag, and list its missing parts. Read-only."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws

Look = dict[str, t.Any]
TAG = "mlcluster:network"
# FSx for Lustre User Guide, limiting access with security groups: 988 and 1018-1023, both ways.
FSX_PORTS = ("988", "1018-1023")
ENDPOINT_GONE = ("deleting", "deleted", "failed", "rejected", "expired")
NAT_GONE = ("deleting", "deleted", "failed")
# EC2 API, VpcPeeringConnectionStateReason, VpnGateway and TransitGatewayVpcAttachment.
PEERING_GONE = ("deleted", "deleting", "expired", "failed", "rejected")
GATEWAY_GONE = ("deleting", "deleted")
ATTACHMENT_GONE = ("deleting", "deleted", "failed", "failing", "rejected", "rejecting")
ANY = "0.0.0.0/0"
# RFC 5737.
DOCUMENTATION = tuple(ipaddress.IPv4Network(block) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))
GROUPS = ("nodes", "fsx", "ssh", "grafana")
# Of the nodes; EC2 gives each new group the second one. EFA needs the first one, too.
EGRESS = ("all from itself", f"all from {ANY}")


def _filter(name: str, value: str) -> list[dict[str, t.Any]]:
    return [{"Name": name, "Values": [value]}]


def _with_tag(name: str, entries: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return entries with exactly our tag: in a filter of EC2 the characters * and ? are wildcards."""
    return [entry for entry in entries if aws.tags_of(entry).get(TAG) == name]


def _rules(permissions: t.Sequence[t.Mapping[str, t.Any]], own: str) -> list[str]:
    """Return the rules of a group as sorted strings like ``tcp 988 from itself``."""
    found: list[str] = []
    for permission in permissions:
        protocol = permission["IpProtocol"]
        first, last = permission.get("FromPort"), permission.get("ToPort")
        ports = "all" if protocol == "-1" else f"{protocol} {first}" if first == last else f"{protocol} {first}-{last}"
        others = [pair["GroupId"] for pair in permission.get("UserIdGroupPairs", [])]
        others = ["itself" if other == own else other for other in others]
        others += [entry["CidrIp"] for entry in permission.get("IpRanges", [])]
        others += [entry["CidrIpv6"] for entry in permission.get("Ipv6Ranges", [])]
        found.extend(f"{ports} from {other}" for other in others)
    return sorted(found)


def _part(name: str, entry: t.Mapping[str, t.Any]) -> str:
    """Return the part of the network that an entry is, by its Name tag."""
    tag = aws.tags_of(entry).get("Name", "")
    return tag[len(name) + 1 :] if tag.startswith(f"{name}-") else tag


def look(ec2: t.Any, name: str, key_name: str, all_foreign: bool = False) -> Look:
    """Return the existing parts of the network ``name``; without ``key_name`` no key pair is searched.

    ``foreign`` are resources of others among the network's parts; with ``all_foreign`` also those of other kinds:
    network interfaces, peerings, other gateways, access lists.
    """
    found: Look = {"vpc": None, "vpcs": 0, "key": None, "key_ours": False, "zones": [], "foreign": []}
    found["addresses"] = _addresses(ec2, name)
    found["loose"] = _loose_gateways(ec2, name)
    # Its address is in use until it is deleted.
    nats = aws.pages(ec2.describe_nat_gateways, "NatGateways", Filters=_filter(f"tag:{TAG}", name))
    found["deleting"] = [nat["NatGatewayId"] for nat in _with_tag(name, nats) if nat["State"] == "deleting"]
    zones = ec2.describe_availability_zones(Filters=_filter("zone-type", "availability-zone"))["AvailabilityZones"]
    found["zones"] = sorted(zone["ZoneName"] for zone in zones if zone["State"] == "available")
    if key_name:
        keys = ec2.describe_key_pairs(Filters=_filter("key-name", key_name))["KeyPairs"]
        keys = [key for key in keys if key["KeyName"] == key_name]
        found["key"] = keys[0]["KeyName"] if keys else None
        # A key pair that existed before is not ours, and is never deleted.
        found["key_ours"] = bool(keys) and aws.tags_of(keys[0]).get(TAG) == name
    vpcs = _with_tag(name, ec2.describe_vpcs(Filters=_filter(f"tag:{TAG}", name))["Vpcs"])
    found["vpcs"] = len(vpcs)
    if len(vpcs) != 1:
        return found
    vpc = vpcs[0]["VpcId"]
    attributes = {
        key: ec2.describe_vpc_attribute(VpcId=vpc, Attribute=f"{key[0].lower()}{key[1:]}")[key]["Value"]
        for key in ("EnableDnsSupport", "EnableDnsHostnames")
    }
    found["vpc"] = {"id": vpc, "cidr": vpcs[0]["CidrBlock"], "dns": all(attributes.values())}
    in_vpc = _filter("vpc-id", vpc)
    subnets, others = _ours(name, aws.pages(ec2.describe_subnets, "Subnets", Filters=in_vpc), ("public", "private"))
    found["subnets"] = {
        part: {
            "id": entry["SubnetId"],
            "cidr": entry["CidrBlock"],
            "zone": entry["AvailabilityZone"],
            "is_public": entry["MapPublicIpOnLaunch"],
        }
        for part, entry in subnets.items()
    }
    foreign = [f"subnet {entry['SubnetId']}" for entry in others]
    found["foreign"] = foreign
    found.update(_internet_gateway(ec2, name, vpc, foreign))
    found.update(_gateways(ec2, name, in_vpc, foreign))
    found["routes"] = _route_tables(ec2, name, in_vpc, foreign)
    groups, others = _ours(name, aws.pages(ec2.describe_security_groups, "SecurityGroups", Filters=in_vpc), GROUPS)
    found["groups"] = {
        part: {
            "id": entry["GroupId"],
            "rules": _rules(entry["IpPermissions"], entry["GroupId"]),
            "egress": _rules(entry["IpPermissionsEgress"], entry["GroupId"]),
        }
        for part, entry in groups.items()
    }
    foreign += [f"security group {entry['GroupName']}" for entry in others if entry["GroupName"] != "default"]
    if all_foreign:
        foreign += _foreign_resources(ec2, vpc, (found["nat"] or {}).get("interfaces", []))
    foreign.sort()
    return found


def _addresses(ec2: t.Any, name: str) -> list[dict[str, t.Any]]:
    """Return Elastic IP addresses with our tag, ``used`` or not. An unused one is from a run that was killed before
    its NAT gateway."""
    entries = _with_tag(name, ec2.describe_addresses(Filters=_filter(f"tag:{TAG}", name))["Addresses"])
    found = [{"ip": entry["PublicIp"], "used": bool(entry.get("AssociationId"))} for entry in entries]
    return sorted(found, key=lambda entry: str(entry["ip"]))


def _loose_gateways(ec2: t.Any, name: str) -> list[str]:
    """Return internet gateways with our tag and no VPC, from a run that was killed before the attachment or after the
    detachment."""
    gateways = ec2.describe_internet_gateways(Filters=_filter(f"tag:{TAG}", name))["InternetGateways"]
    return sorted(entry["InternetGatewayId"] for entry in _with_tag(name, gateways) if not entry.get("Attachments"))


def _foreign_resources(ec2: t.Any, vpc: str, interfaces: t.Sequence[str]) -> list[str]:
    """Return what blocks the deletion of a VPC, or would be deleted with it, a string each; ``interfaces`` are ours."""
    in_vpc = _filter("vpc-id", vpc)
    found = [
        f"network interface {entry['NetworkInterfaceId']} ({entry.get('Description') or 'without description'})"
        for entry in aws.pages(ec2.describe_network_interfaces, "NetworkInterfaces", Filters=in_vpc)
        if entry["NetworkInterfaceId"] not in interfaces
    ]
    for side in ("requester", "accepter"):
        filters = _filter(f"{side}-vpc-info.vpc-id", vpc)
        found += [
            f"peering {entry['VpcPeeringConnectionId']}"
            for entry in aws.pages(ec2.describe_vpc_peering_connections, "VpcPeeringConnections", Filters=filters)
            if entry["Status"]["Code"] not in PEERING_GONE
        ]
    filters = _filter("attachment.vpc-id", vpc)
    found += [
        f"VPN gateway {entry['VpnGatewayId']}"
        for entry in ec2.describe_vpn_gateways(Filters=filters)["VpnGateways"]
        if entry["State"] not in GATEWAY_GONE
        and any(link["VpcId"] == vpc and link["State"] != "detached" for link in entry.get("VpcAttachments", []))
    ]
    found += [
        f"transit gateway attachment {entry['TransitGatewayAttachmentId']}"
        for entry in aws.pages(
            ec2.describe_transit_gateway_vpc_attachments, "TransitGatewayVpcAttachments", Filters=in_vpc
        )
        if entry["State"] not in ATTACHMENT_GONE
    ]
    # There is no filter by VPC here.
    found += [
        f"egress-only internet gateway {entry['EgressOnlyInternetGatewayId']}"
        for entry in aws.pages(ec2.describe_egress_only_internet_gateways, "EgressOnlyInternetGateways")
        if any(link["VpcId"] == vpc for link in entry.get("Attachments", []))
    ]
    found += [
        f"network access list {entry['NetworkAclId']}"
        for entry in aws.pages(ec2.describe_network_acls, "NetworkAcls", Filters=in_vpc)
        if not entry["IsDefault"]
    ]
    return found


def _ours(
    name: str, entries: t.Sequence[dict[str, t.Any]], parts: t.Sequence[str]
) -> tuple[dict[str, dict[str, t.Any]], list[dict[str, t.Any]]]:
    """Return entries by part of the network, and foreign ones: without our tag, with another name, or a second one of
    a name."""
    own_by_part: dict[str, dict[str, t.Any]] = {}
    others = []
    for entry in entries:
        part = _part(name, entry)
        if aws.tags_of(entry).get(TAG) == name and part in parts and part not in own_by_part:
            own_by_part[part] = entry
        else:
            others.append(entry)
    return own_by_part, others


def _internet_gateway(ec2: t.Any, name: str, vpc: str, foreign: list[str]) -> Look:
    """Return the internet gateway, of which a VPC has at most one: it is used whatever its owner; only one with our tag
    is ours to delete, another is added to ``foreign``."""
    gateways = ec2.describe_internet_gateways(Filters=_filter("attachment.vpc-id", vpc))["InternetGateways"]
    is_own = bool(_with_tag(name, gateways))
    if gateways and not is_own:
        foreign.append(f"internet gateway {gateways[0]['InternetGatewayId']}")
    return {"igw": gateways[0]["InternetGatewayId"] if gateways else None, "igw_ours": is_own}


def _gateways(ec2: t.Any, name: str, in_vpc: list[dict[str, t.Any]], foreign: list[str]) -> Look:
    """Return the NAT gateway and the endpoint with our tag; others are added to ``foreign``, also a second one with
    the tag, which no part of the network would delete."""
    nats = aws.pages(ec2.describe_nat_gateways, "NatGateways", Filters=in_vpc)
    own_nats: list[dict[str, t.Any]] = []
    for nat in nats:
        if nat["State"] not in NAT_GONE:
            if aws.tags_of(nat).get(TAG) == name and not own_nats:
                own_nats.append(nat)
            else:
                foreign.append(f"NAT gateway {nat['NatGatewayId']}")
    own_endpoints: list[dict[str, t.Any]] = []
    for entry in aws.pages(ec2.describe_vpc_endpoints, "VpcEndpoints", Filters=in_vpc):
        if entry["State"].lower() in ENDPOINT_GONE:
            continue
        # An endpoint of type Interface has network interfaces and no route table.
        gateway = entry.get("VpcEndpointType", "Gateway") == "Gateway" and entry["ServiceName"].endswith(".s3")
        if gateway and aws.tags_of(entry).get(TAG) == name and not own_endpoints:
            own_endpoints.append(entry)
        else:
            foreign.append(f"endpoint {entry['VpcEndpointId']} of {entry['ServiceName']}")
    return {
        "nat": {
            "id": own_nats[0]["NatGatewayId"],
            "interfaces": [address.get("NetworkInterfaceId") for address in own_nats[0]["NatGatewayAddresses"]],
            "addresses": sorted(
                address["PublicIp"] for address in own_nats[0]["NatGatewayAddresses"] if address.get("PublicIp")
            ),
        }
        if own_nats
        else None,
        "endpoint": {
            "id": own_endpoints[0]["VpcEndpointId"],
            "tables": sorted(own_endpoints[0].get("RouteTableIds", [])),
        }
        if own_endpoints
        else None,
    }


def _route_tables(ec2: t.Any, name: str, in_vpc: list[dict[str, t.Any]], foreign: list[str]) -> Look:
    tables = {}
    every = aws.pages(ec2.describe_route_tables, "RouteTables", Filters=in_vpc)
    own_by_part, others = _ours(name, every, ("public", "private"))
    for part, entry in own_by_part.items():
        default_routes = [route for route in entry["Routes"] if route.get("DestinationCidrBlock") == ANY]
        gateway = (
            (default_routes[0].get("NatGatewayId") or default_routes[0].get("GatewayId")) if default_routes else None
        )
        subnets = sorted(link["SubnetId"] for link in entry["Associations"] if link.get("SubnetId"))
        tables[part] = {"id": entry["RouteTableId"], "out": gateway, "subnets": subnets}
    # The main table is created and deleted with the VPC.
    foreign += [
        f"route table {entry['RouteTableId']}"
        for entry in others
        if not any(link.get("Main") for link in entry["Associations"])
    ]
    return tables


def wanted_rules(part: str, wanted: t.Mapping[str, t.Any]) -> list[str]:
    """Return the required rules of a group, in the format of ``look``; empty: the group is not wanted."""
    if part == "nodes":
        return ["all from itself"]
    if part == "fsx":
        return sorted(f"tcp {ports} from itself" for ports in FSX_PORTS)
    port = 22 if part == "ssh" else wanted["grafana_port"]
    return sorted({f"tcp {port} from {network}" for network in _networks(wanted[f"{part}_cidrs"])})


def _networks(cidrs: t.Sequence[str]) -> list[str]:
    """Return networks in EC2's format: 10.9.0.1/32 for 10.9.0.1. ``option_problems`` reports invalid ones."""
    found = []
    for value in cidrs:
        try:
            found.append(str(ipaddress.ip_network(value)))
        except ValueError:
            found.append(value)
    return found


def is_documentation(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    """Return whether a network is one of those reserved for documentation."""
    return isinstance(network, ipaddress.IPv4Network) and any(network.subnet_of(block) for block in DOCUMENTATION)


def option_problems(wanted: t.Mapping[str, t.Any]) -> list[str]:
    """Return the errors in the options, a sentence each."""
    found = [*_user_network_problems(wanted)]
    blocks = {}
    for key in ("cidr", "public_cidr", "private_cidr"):
        try:
            blocks[key] = ipaddress.IPv4Network(wanted[key])
        except ValueError as exc:
            found.append(f"cluster_network_{key} is '{wanted[key]}': {exc}")
            continue
        # Amazon VPC User Guide, VPC CIDR blocks and subnet sizing.
        if not 16 <= blocks[key].prefixlen <= 28:
            found.append(f"cluster_network_{key} is '{wanted[key]}'; Amazon VPC takes from /16 to /28")
    if len(blocks) == 3:
        for key in ("public_cidr", "private_cidr"):
            if not blocks[key].subnet_of(blocks["cidr"]):
                found.append(f"cluster_network_{key} {blocks[key]} is not within cluster_network_cidr {blocks['cidr']}")
        if blocks["public_cidr"].overlaps(blocks["private_cidr"]):
            found.append("cluster_network_public_cidr and cluster_network_private_cidr overlap; choose others")
    return found


def _user_network_problems(wanted: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    for key in ("ssh_cidrs", "grafana_cidrs"):
        for value in wanted[key]:
            try:
                network = ipaddress.ip_network(value)
            except ValueError as exc:
                yield f"cluster_{key} has '{value}': {exc}"
                continue
            if network.prefixlen == 0:
                yield f"cluster_{key} has '{value}', every address; use the networks of your users"
            elif is_documentation(network):
                yield f"cluster_{key} has '{value}', which is set aside for examples; use the networks of your users"
            elif network.version == 6:
                yield f"cluster_{key} has '{value}', and the network is made for IPv4 only; use IPv4 networks"
    if not 1 <= wanted["grafana_port"] <= 65535:
        yield f"cluster_grafana_port is {wanted['grafana_port']}; a port is 1 to 65535"


def _refusals(found: Look, wanted: t.Mapping[str, t.Any], zone: str) -> list[str]:
    """Return why this network cannot become the wanted one without a removal."""
    name, result = wanted["name"], []
    if found["vpcs"] > 1:
        result.append(f"{found['vpcs']} VPCs carry the tag {TAG}={name}; take it off those that are not the cluster's")
    if zone not in found["zones"]:
        result.append(f"cluster_zone is '{zone}'; the region has {', '.join(found['zones']) or 'none available'}")
    if wanted["key_name"] and not found["key"] and not wanted["key_public"]:
        result.append(f"there is no key pair '{wanted['key_name']}'; set cluster_key_public to import your public key")
    vpc = found["vpc"]
    if not vpc:
        return result
    if vpc["cidr"] != wanted["cidr"]:
        result.append(f"the VPC {vpc['id']} has {vpc['cidr']} and not {wanted['cidr']}, which cannot be changed")
    for part in ("public", "private"):
        subnet = found["subnets"].get(part)
        if subnet and (subnet["cidr"], subnet["zone"]) != (wanted[f"{part}_cidr"], zone):
            result.append(
                f"the {part} subnet {subnet['id']} is {subnet['cidr']} in {subnet['zone']} and not "
                f"{wanted[f'{part}_cidr']} in {zone}, which cannot be changed"
            )
    return result


def plan(found: Look, wanted: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return ``refusals``, ``actions`` (a string each), ``todo`` (their parts) and ``zone``; pure."""
    subnets, vpc = found.get("subnets", {}), found["vpc"]
    existing_subnet = subnets.get("private") or subnets.get("public")
    zone = wanted["zone"] or (existing_subnet["zone"] if existing_subnet else (found["zones"] or [""])[0])
    refusals = option_problems(wanted) + _refusals(found, wanted, zone)
    steps: list[tuple[str, str]] = []
    if not vpc or not vpc["dns"]:
        steps.append(("vpc", f"VPC {wanted['cidr']} with DNS"))
    if not found.get("igw"):
        steps.append(("igw", "internet gateway"))
    for part in ("public", "private"):
        if part not in subnets:
            steps.append((f"subnet_{part}", f"{part} subnet {wanted[f'{part}_cidr']} in {zone}"))
        elif subnets[part]["is_public"] != (part == "public"):
            way = "with" if part == "public" else "without"
            steps.append((f"subnet_{part}", f"{part} subnet {subnets[part]['id']} {way} public addresses"))
    if not found.get("nat"):
        steps.append(("nat", "NAT gateway with an address of its own"))
    steps.extend(_route_steps(found, subnets))
    for part in GROUPS:
        rules, group = wanted_rules(part, wanted), found.get("groups", {}).get(part)
        if rules != (group["rules"] if group else []) or (part == "nodes" and not set(EGRESS) <= set(group["egress"])):
            steps.append((f"group_{part}", f"security group {part}: {', '.join(rules) or 'no rule'}"))
    if wanted["key_name"] and not found["key"]:
        steps.append(("key", f"key pair {wanted['key_name']} from your public key"))
    return {
        "refusals": refusals,
        "actions": [text for _part, text in steps],
        "todo": [part for part, _text in steps],
        "zone": zone,
    }


def _route_steps(found: Look, subnets: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str]]:
    routes = found.get("routes", {})
    gateways = {"public": found.get("igw"), "private": (found.get("nat") or {}).get("id")}
    for part in ("public", "private"):
        table = routes.get(part)
        own = [subnets[part]["id"]] if part in subnets else []
        if not table or table["out"] != gateways[part] or table["subnets"] != own or gateways[part] is None:
            gateway_name = "internet gateway" if part == "public" else "NAT gateway"
            yield f"route_{part}", f"{part} route table over the {gateway_name}"
    endpoint = found.get("endpoint")
    tables = sorted(table["id"] for table in routes.values())
    if not endpoint or len(tables) < 2 or endpoint["tables"] != tables:
        yield (
            "endpoint",
            "S3 gateway endpoint in both route tables, which bypasses the NAT gateway",
        )


def outputs(found: Look) -> dict[str, t.Any]:
    """Return the values of a complete network for a cluster: subnets, CIDR block, zone, ids of security groups."""
    return {
        "head_subnet": found["subnets"]["public"]["id"],
        "compute_subnet": found["subnets"]["private"]["id"],
        "cidr": found["vpc"]["cidr"],
        "zone": found["subnets"]["private"]["zone"],
        "groups": [found["groups"][part]["id"] for part in ("nodes", "fsx")],
        "head_groups": [found["groups"][part]["id"] for part in ("ssh", "grafana") if part in found["groups"]],
    }
