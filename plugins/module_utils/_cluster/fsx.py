# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One FSx for Lustre file system of a cluster: found or created, with its S3 associations; never deleted or rebuilt."""

from __future__ import annotations

import hashlib
import time
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws

TAG = "mlcluster:filesystem"
CLUSTER_TAG = "mlcluster:cluster"
POLL_SECONDS = 15.0
# FSx API, Lifecycle of a file system and of an association.
WAITING = ("CREATING",)
BROKEN = ("FAILED", "DELETING", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE")
# FSx for Lustre User Guide, file system status: clients reach these.
MOUNTABLE = ("AVAILABLE", "UPDATING")
NOT_FOUND = "FileSystemNotFound"
# FSx API, CreateFileSystemLustreConfiguration: with EFA the metadata configuration is needed.
METADATA_MODE = "AUTOMATIC"
EVENTS = ["NEW", "CHANGED", "DELETED"]
Request = t.Mapping[str, t.Any]


def find(fsx: t.Any, name: str, identifier: str, cluster: str = "") -> dict[str, t.Any] | None:
    """Return the file system with the identifier, else the one with our tag and this name. Raises AwsError for several.

    cluster: its owner; AwsError if all that exist were made for other clusters. Empty skips this check.
    """
    if identifier:
        with aws.doing(f"looking at the file system {identifier}"):
            return t.cast("dict[str, t.Any]", fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"][0])
    with aws.doing("looking at the file systems"):
        every = aws.pages(fsx.describe_file_systems, "FileSystems")
    same_name = [entry for entry in every if aws.tags_of(entry).get(TAG) == name and entry["Lifecycle"] != "DELETING"]
    # File systems of earlier versions have no tag of a cluster.
    of_cluster = [
        entry for entry in same_name if not cluster or aws.tags_of(entry).get(CLUSTER_TAG, cluster) == cluster
    ]
    if same_name and not of_cluster:
        found = ", ".join(f"{entry['FileSystemId']} of {aws.tags_of(entry)[CLUSTER_TAG]}" for entry in same_name)
        raise aws.AwsError(
            f"looked for the file system {name} of the cluster {cluster} and found that of another cluster ({found}); "
            "set its id to share it, or choose another name"
        )
    if len(of_cluster) > 1:
        found = ", ".join(entry["FileSystemId"] for entry in of_cluster)
        raise aws.AwsError(f"{found} all carry the tag {TAG}={name}; set the id of the intended one")
    return of_cluster[0] if of_cluster else None


def of_cluster(fsx: t.Any, cluster: str) -> list[dict[str, t.Any]]:
    """Return the file systems that were created for a cluster, by its tag: {id, name, gib}."""
    with aws.doing(f"looking for the file systems of {cluster}"):
        every = aws.pages(fsx.describe_file_systems, "FileSystems")
    mine = [
        entry for entry in every if aws.tags_of(entry).get(CLUSTER_TAG) == cluster and entry["Lifecycle"] != "DELETING"
    ]
    return [
        {
            "id": entry["FileSystemId"],
            "name": aws.tags_of(entry).get(TAG, ""),
            "gib": entry["StorageCapacity"],
        }
        for entry in sorted(mine, key=lambda entry: str(entry["FileSystemId"]))
    ]


def mount_names(fsx: t.Any, identifiers: t.Sequence[str], region: str) -> tuple[dict[str, dict[str, t.Any]], list[str]]:
    """Return mount data by identifier, {dns_name, mount_name, efa}, and a sentence for each that cannot be mounted.

    One request for all, unless one of them is missing. Raises AwsError if FSx cannot be asked.
    """
    with aws.doing(f"asking FSx in {region} for {', '.join(identifiers)}"):
        described = {entry["FileSystemId"]: entry for entry in _described(fsx, identifiers)}
    names, problems = {}, []
    for identifier in identifiers:
        entry = described.get(identifier)
        lustre = (entry or {}).get("LustreConfiguration", {})
        if entry is None:
            problems.append(f"FSx in {region} has no file system {identifier} for this account: check id and region")
        elif entry["FileSystemType"] != "LUSTRE":
            problems.append(f"{identifier} is of type {entry['FileSystemType']} and not LUSTRE: choose another one")
        elif entry["Lifecycle"] not in MOUNTABLE:
            why = entry.get("FailureDetails", {}).get("Message", "check its state in FSx, and run this again later")
            problems.append(f"{identifier} is {entry['Lifecycle']} and cannot be mounted: {why}")
        else:
            names[identifier] = {
                "dns_name": entry["DNSName"],
                "mount_name": lustre["MountName"],
                "efa": bool(lustre.get("EfaEnabled")),
            }
    return names, problems


def _described(fsx: t.Any, identifiers: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Return FSx's data on existing file systems; FSx rejects the whole request if one is missing."""
    import botocore.exceptions

    try:
        return aws.pages(fsx.describe_file_systems, "FileSystems", FileSystemIds=list(identifiers))
    except botocore.exceptions.ClientError as exc:
        if aws.code(exc) != NOT_FOUND:
            raise
    return [entry for one in identifiers for entry in _described(fsx, [one])] if len(identifiers) > 1 else []


def request(wanted: Request) -> dict[str, t.Any]:
    """Return the arguments of CreateFileSystem; equal options have the same token, so that it is created once."""
    lustre: dict[str, t.Any] = {
        "DeploymentType": wanted.get("deployment") or "PERSISTENT_2",
        "PerUnitStorageThroughput": wanted["throughput"],
        "DataCompressionType": "LZ4",
    }
    if wanted["efa"]:
        lustre.update(EfaEnabled=True, MetadataConfiguration={"Mode": METADATA_MODE})
    tags = {**wanted["tags"], "Name": wanted["name"], TAG: wanted["name"]}
    if wanted["cluster"]:
        tags[CLUSTER_TAG] = wanted["cluster"]
    token = hashlib.sha256(repr(sorted((key, str(value)) for key, value in wanted.items())).encode()).hexdigest()
    result = {
        "ClientRequestToken": token[:63],
        "FileSystemType": "LUSTRE",
        "StorageType": "SSD",
        "StorageCapacity": wanted["gib"],
        "SubnetIds": [wanted["subnet"]],
        "SecurityGroupIds": list(wanted["groups"]),
        "LustreConfiguration": lustre,
        "Tags": [{"Key": key, "Value": str(value)} for key, value in sorted(tags.items())],
    }
    if wanted["kms_key"]:
        result["KmsKeyId"] = wanted["kms_key"]
    return result


def differences(found: t.Mapping[str, t.Any], wanted: Request) -> list[str]:
    """Return the differences of an existing file system that cannot be changed here, a sentence each."""
    if found["FileSystemType"] != "LUSTRE":
        return [f"{found['FileSystemId']} is of type {found['FileSystemType']} and not LUSTRE; choose another one"]
    lustre = found.get("LustreConfiguration", {})
    pairs = [
        ("type", lustre.get("DeploymentType"), wanted.get("deployment") or "PERSISTENT_2"),
        ("gib", found.get("StorageCapacity"), wanted["gib"]),
        ("throughput", lustre.get("PerUnitStorageThroughput"), wanted["throughput"]),
        ("compression", lustre.get("DataCompressionType", "NONE"), "LZ4"),
        ("efa", bool(lustre.get("EfaEnabled")), bool(wanted["efa"])),
    ]
    return [
        f"{found['FileSystemId']} has {what} {existing} and not {requested}; change the variables, or the file system "
        "by hand"
        for what, existing, requested in pairs
        if requested is not None and existing != requested
    ]


def associations(fsx: t.Any, identifier: str) -> list[dict[str, t.Any]]:
    """Return the S3 associations of a file system, as DescribeDataRepositoryAssociations returns them."""
    with aws.doing(f"looking at the data repository associations of {identifier}"):
        return aws.pages(
            fsx.describe_data_repository_associations,
            "Associations",
            Filters=[{"Name": "file-system-id", "Values": [identifier]}],
        )


def refuse_broken(entries: t.Sequence[t.Mapping[str, t.Any]], what: str) -> None:
    """Raise AwsError with FSx's own reason for the first of ``entries`` that has failed or is being deleted."""
    for entry in entries:
        if entry["Lifecycle"] in BROKEN:
            why = entry.get("FailureDetails", {}).get("Message", "no reason is given")
            where = f" ({entry['FileSystemPath']})" if "FileSystemPath" in entry else ""
            raise aws.AwsError(f"{what}{where} is {entry['Lifecycle']}: {why}; repair or delete it by hand")


def missing_associations(existing: t.Sequence[t.Mapping[str, t.Any]], wanted: Request) -> list[dict[str, t.Any]]:
    """Return the missing associations. Raises AwsError for a path that is associated with another bucket."""
    associated = {entry["FileSystemPath"]: entry["DataRepositoryPath"].rstrip("/") for entry in existing}
    result = []
    for link in wanted["associations"]:
        if link["path"] not in associated:
            result.append(dict(link))
        elif associated[link["path"]] != link["s3"].rstrip("/"):
            raise aws.AwsError(
                f"{link['path']} of {wanted['name']} is associated with {associated[link['path']]} and not with "
                f"{link['s3']}; undo that by hand, for it decides where files go"
            )
    return result


def associate(fsx: t.Any, identifier: str, link: t.Mapping[str, t.Any]) -> None:
    """Associate a path with S3: its names appear at once, its contents at the first read."""
    ways: dict[str, t.Any] = {"AutoImportPolicy": {"Events": EVENTS}}
    if link.get("export"):
        ways["AutoExportPolicy"] = {"Events": EVENTS}
    with aws.doing(f"associating {link['path']} of {identifier} with {link['s3']}"):
        fsx.create_data_repository_association(
            FileSystemId=identifier,
            FileSystemPath=link["path"],
            DataRepositoryPath=link["s3"],
            BatchImportMetaDataOnCreate=True,
            S3=ways,
        )


def wait(look: t.Callable[[], list[dict[str, t.Any]]], what: str, seconds: float) -> None:
    """Wait until nothing of ``look`` is being created. Raises AwsError on a failure or a timeout."""
    limit = time.monotonic() + seconds
    while True:
        entries = look()
        refuse_broken(entries, what)
        if not any(entry["Lifecycle"] in WAITING for entry in entries):
            return
        if time.monotonic() > limit:
            raise aws.AwsError(f"{what} is still {entries[0]['Lifecycle']} after {seconds:.0f} s; run this again later")
        time.sleep(POLL_SECONDS)
