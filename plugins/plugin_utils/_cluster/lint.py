# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the known mistakes of a ParallelCluster 3.16 configuration, each with the right value.

The schema of ParallelCluster stops before its validators, so that a user sees one layer of errors only after the layer
above is corrected. Here every known mistake is corrected on a copy, and the validators check the copy in the same run.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import deletion as _cluster_deletion
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import instance_types as _cluster_types
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster.deletion import mapping

Config = dict[str, Any]
Problem = dict[str, Any]

ERROR, WARNING = "error", "warning"
# Image.Os of earlier ParallelCluster releases that 3.16.1 rejects, and their replacements.
RETIRED = {
    "alinux": "alinux2023",
    "alinux2": "alinux2023",
    "centos7": "rocky9",
    "ubuntu1804": "ubuntu2404",
    "ubuntu2004": "ubuntu2404",
}
PERSISTENT = "PERSISTENT_2"
# The schema of 3.16.1 accepts 8 or 17 of these characters after the prefix, for file systems and reservations 17.
SHAPES = {
    "subnet": (re.compile(r"subnet-([0-9a-z]{8}|[0-9a-z]{17})"), "subnet-00000000000000000"),
    "sg": (re.compile(r"sg-([0-9a-z]{8}|[0-9a-z]{17})"), "sg-00000000000000000"),
    "cr": (re.compile(r"cr-[0-9a-f]{17}"), "cr-00000000000000000"),
    "fs": (re.compile(r"fs-[0-9a-z]{17}"), "fs-00000000000000000"),
}
OPEN = "0.0.0.0/0"


def _problem(path: str, level: str, found: Any, right: str, why: str) -> Problem:
    return {"path": path, "level": level, "found": found, "right": right, "message": why}


def _section(parent: Config, key: str) -> Config:
    """Return the mapping under ``key`` to write to; it replaces any other value, such as YAML's null."""
    if not isinstance(parent.get(key), dict):
        parent[key] = {}
    section: Config = parent[key]
    return section


def _entries(parent: Config, key: str) -> list[Config]:
    value = parent.get(key)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def queues(config: Config) -> list[Config]:
    """Return the queues at their right place."""
    return _entries(mapping(config, "Scheduling"), "SlurmQueues")


def _owners(config: Config) -> list[tuple[str, Config]]:
    """Return the head node and each queue, with its path."""
    queue_parts = [(f"Scheduling/SlurmQueues[{number}]", queue) for number, queue in enumerate(queues(config))]
    return [("HeadNode", mapping(config, "HeadNode")), *queue_parts]


def _image(config: Config) -> Iterator[Problem]:
    image = mapping(config, "Image")
    if isinstance(image.get("Os"), str) and image["Os"] in RETIRED:
        old, image["Os"] = image["Os"], RETIRED[image["Os"]]
        yield _problem("Image/Os", ERROR, old, image["Os"], "ParallelCluster 3.16 has no images of it any more")


def _levels(config: Config) -> Iterator[Problem]:
    """Correct sections that are one level too high."""
    if "SlurmQueues" in config:
        moved = config.pop("SlurmQueues")
        _section(config, "Scheduling").setdefault("SlurmQueues", moved)
        yield _problem(
            "SlurmQueues", ERROR, "at the top level", "Scheduling/SlurmQueues", "queues are part of the scheduling"
        )
    iam = mapping(config, "Iam")
    for key in ("AdditionalIamPolicies", "S3Access"):
        if key in iam:
            moved = iam.pop(key)
            for owner in (mapping(config, "HeadNode"), *queues(config)):
                _section(owner, "Iam").setdefault(key, copy.deepcopy(moved))
            right = f"HeadNode/Iam/{key} and Scheduling/SlurmQueues[]/Iam/{key}"
            yield _problem(f"Iam/{key}", ERROR, "at the top level", right, "each kind of node has rights of its own")
    if "Iam" in config and not iam:
        del config["Iam"]


def _identifiers(config: Config) -> Iterator[Problem]:
    places: list[tuple[str, Any, Any, str]] = []
    for path, owner in _owners(config):
        networking = mapping(owner, "Networking")
        if "SubnetId" in networking:
            places.append((f"{path}/Networking/SubnetId", networking, "SubnetId", "subnet"))
        for key, kind in (("SubnetIds", "subnet"), ("SecurityGroups", "sg"), ("AdditionalSecurityGroups", "sg")):
            values = networking.get(key)
            for index in range(len(values) if isinstance(values, list) else 0):
                places.append((f"{path}/Networking/{key}[{index}]", values, index, kind))
        for number, resource in enumerate(_entries(owner, "ComputeResources")):
            target = mapping(resource, "CapacityReservationTarget")
            if "CapacityReservationId" in target:
                where = f"{path}/ComputeResources[{number}]/CapacityReservationTarget/CapacityReservationId"
                places.append((where, target, "CapacityReservationId", "cr"))
    for number, storage in enumerate(_entries(config, "SharedStorage")):
        lustre = mapping(storage, "FsxLustreSettings")
        if "FileSystemId" in lustre:
            places.append((f"SharedStorage[{number}]/FsxLustreSettings/FileSystemId", lustre, "FileSystemId", "fs"))
    for path, holder, key, kind in places:
        shape, example = SHAPES[kind]
        if not isinstance(holder[key], str) or not shape.fullmatch(holder[key]):
            old, holder[key] = holder[key], example
            yield _problem(path, ERROR, old, f"{kind}- and 17 digits", "this is not an identifier of AWS")


def _storage(config: Config) -> Iterator[Problem]:
    made = 0
    for number, storage, policy in _cluster_deletion.shared(config):
        section, _identifier = _cluster_deletion.MADE.get(str(storage.get("StorageType")), ("", ""))
        if not policy or not section:
            continue
        path, settings = f"SharedStorage[{number}]/{section}", _section(storage, section)
        lustre = storage["StorageType"] == "FsxLustre"
        made += lustre
        if lustre and settings.get("DeploymentType") == "PERSISTENT":
            settings["DeploymentType"] = PERSISTENT
            why = "there is no such type, and PERSISTENT_2 is the one with this throughput"
            yield _problem(f"{path}/DeploymentType", ERROR, "PERSISTENT", PERSISTENT, why)
        if policy == _cluster_deletion.STORAGE_POLICY:
            found, settings["DeletionPolicy"] = settings.get("DeletionPolicy", "Delete (the default)"), "Retain"
            why = f"deleting the cluster would delete the data under {storage.get('MountDir')}"
            yield _problem(f"{path}/DeletionPolicy", WARNING, found, "Retain", why)
        if lustre and made > 1:
            # The identifiers have to differ, or the validators report that.
            storage[section] = {"FileSystemId": f"fs-{number:017d}"}
            why = "ParallelCluster makes one file system for a cluster; make this one beside it (cluster_filesystems)"
            yield _problem(
                path, ERROR, f"file system number {made} to make", "FileSystemId: fs-… and no other key", why
            )


def _queue_problems(config: Config) -> Iterator[Problem]:
    scheduling = mapping(config, "Scheduling")
    if scheduling.get("ScalingStrategy") == "best-effort":
        scheduling["ScalingStrategy"] = "all-or-nothing"
        why = "a job of many nodes would hold, and pay for, a part of them"
        yield _problem("Scheduling/ScalingStrategy", WARNING, "best-effort", "all-or-nothing", why)
    for number, queue in enumerate(queues(config)):
        path, networking = f"Scheduling/SlurmQueues[{number}]", mapping(queue, "Networking")
        if "SecurityGroups" in networking:
            found = networking.pop("SecurityGroups")
            networking.setdefault("AdditionalSecurityGroups", found)
            why = "it replaces ParallelCluster's own group, which lets EFA and Slurm through"
            yield _problem(f"{path}/Networking/SecurityGroups", WARNING, found, "AdditionalSecurityGroups", why)
        actions = mapping(queue, "CustomActions")
        if "OnNodeStart" in actions:
            actions.setdefault("OnNodeConfigured", actions.pop("OnNodeStart"))
            why = "at the start the local disks, EFA, FSx and Slurm are not ready yet"
            yield _problem(f"{path}/CustomActions/OnNodeStart", WARNING, "OnNodeStart", "OnNodeConfigured", why)
        single = all("InstanceType" in resource for resource in _entries(queue, "ComputeResources"))
        if single and "AllocationStrategy" in queue:
            found = queue.pop("AllocationStrategy")
            why = "it chooses between instance types, and each resource here has one"
            yield _problem(f"{path}/AllocationStrategy", WARNING, found, "leave it out", why)


def _rights(config: Config) -> Iterator[Problem]:
    ssh = mapping(config, "HeadNode", "Ssh")
    if ssh and ssh.get("AllowedIps", OPEN) == OPEN:
        found, ssh["AllowedIps"] = ssh.get("AllowedIps", f"{OPEN} (the default)"), "10.0.0.0/16"
        yield _problem("HeadNode/Ssh/AllowedIps", WARNING, found, "your own network", "any address could try to log in")
    for path, owner in _owners(config):
        for policy in _entries(mapping(owner, "Iam"), "AdditionalIamPolicies"):
            if str(policy.get("Policy", "")).endswith(("/AmazonS3ReadOnlyAccess", "/AmazonS3FullAccess")):
                why = "it allows reading every bucket of the account, and writing to none"
                right = "Iam/S3Access with the buckets, EnableWriteAccess where nodes write"
                yield _problem(f"{path}/Iam/AdditionalIamPolicies", WARNING, policy["Policy"], right, why)


def _trusted(action: Config) -> Iterator[str]:
    """Return what a node reads from S3 without a checksum: the script, and the variables of the boot hook."""
    yield str(action.get("Script", ""))
    words = action.get("Args")
    words = words if isinstance(words, list) else []
    yield from (str(value) for option, value in zip(words, words[1:]) if option == "--vars")


def _scripts(config: Config) -> Iterator[Problem]:
    """Report write access to what all nodes run as root: it would make a job root on all nodes."""
    owners = _owners(config)
    actions = [action for _path, owner in owners for action in mapping(owner, "CustomActions").values()]
    scripts = sorted({text for action in actions if isinstance(action, dict) for text in _trusted(action)})
    for path, owner in owners:
        for number, right in enumerate(_entries(mapping(owner, "Iam"), "S3Access")):
            place = f"s3://{right.get('BucketName')}/{str(right.get('KeyName') or '*').removesuffix('*')}"
            found = [script for script in scripts if script.startswith(place)]
            if right.get("EnableWriteAccess") is True and found:
                where = f"{path}/Iam/S3Access[{number}]/EnableWriteAccess"
                why = f"jobs there could replace {found[0]}, which runs as root on every node"
                yield _problem(where, WARNING, True, "a KeyName of a folder without scripts", why)


def alternatives(name: str, offered: Sequence[str]) -> list[str]:
    """Return offered types of the same class and size, newest first: c7i.4xlarge and c6in.4xlarge for c6i.4xlarge."""
    family, _dot, size = name.partition(".")
    found = re.match(r"([a-z]+)(\d+)([a-z-]*)", family)
    if not found:
        return []
    ranked = []
    for other in offered:
        match = re.match(r"([a-z]+)(\d+)([a-z-]*)\.(\S+)", other)
        # A g after the number is AWS's own processor, which needs other images.
        same_chip = match and ("g" in match[3]) == ("g" in found[3])
        if match and same_chip and match[1] == found[1] and match[4] == size:
            # The same letters after the number first (i: Intel), then the newest.
            ranked.append((match[3] != found[3], -int(match[2]), other))
    return [other for _same, _age, other in sorted(ranked)]


def _offers(config: Config, offered: Sequence[str] | None) -> Iterator[Problem]:
    if offered is None:
        return
    for path, holder in _cluster_types.places(config):
        name = str(holder["InstanceType"])
        if name not in offered:
            others = alternatives(name, offered)
            why = f"{config.get('Region', 'the region')} does not offer it"
            yield _problem(path, ERROR, name, " or ".join(others[:3]) or "another type or region", why)
            if others:
                holder["InstanceType"] = others[0]


def review(config: Any, offered: Sequence[str] | None = None) -> dict[str, Any]:
    """Return ``problems``, each with ``path, level, found, right, message``, and ``repaired``, a corrected copy.

    ``offered`` are the types that the region offers, None if that is unknown; then ``described`` are the types' rows in
    the collection's own table, by name. ``config`` is not changed.
    """
    if not isinstance(config, dict):
        why = "a configuration is a dictionary with Region, Image, HeadNode and Scheduling"
        return {
            "problems": [_problem("the whole", ERROR, type(config).__name__, "", why)],
            "repaired": None,
            "offers_checked": offered is not None,
            "types": [],
            "described": {},
        }
    repaired = copy.deepcopy(config)
    found: list[Problem] = []
    for rule in (_image, _levels, _identifiers, _storage, _queue_problems, _rights, _scripts):
        found.extend(rule(repaired))
    found.extend(_offers(repaired, offered))
    types = _cluster_types.names(repaired)
    table = {} if offered is not None else {name: _cluster_types.described(name) for name in types}
    return {
        "problems": found,
        "repaired": repaired if found else None,
        "offers_checked": offered is not None,
        # A type that only a correction added needs no description.
        "types": [name for name in types if name in repr(config)],
        "described": {name: entry for name, entry in table.items() if entry},
    }


def _covered(path: str, problems: Sequence[Problem]) -> bool:
    """Return whether a schema error is already reported with its right value."""
    if path == "Scheduling/SlurmQueues" and any(problem["path"] == "SlurmQueues" for problem in problems):
        return True
    # The schema numbers sections differently if they are on the wrong level.
    return any(
        path == known["path"] or re.sub(r"\[\d+\]\Z", "", path) == re.sub(r"\[\d+\]\Z", "", known["path"])
        for known in problems
    )


def sentence(problem: Problem) -> str:
    """Return one problem as one sentence."""
    found = "" if problem["found"] in (None, "") else f" is {problem['found']!r}:"
    right = f"; use {problem['right']}" if problem["right"] else ""
    return f"{problem['path']}{found} {problem['message']}{right}"


def verdict(reviewed: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return ``errors``, ``warnings`` and ``notes``, a sentence each, from the review and files/validate.py."""
    problems: list[Problem] = list(reviewed["problems"])
    seen = {"schema": "ParallelCluster's schema", "left": "ParallelCluster's schema, after the repairs"}
    for part in ("schema", "left"):
        for violation in answer[part]:
            if not _covered(violation["path"], problems):
                why = f"{violation['message']} ({seen[part]})"
                problems.append(_problem(violation["path"] or "the whole", ERROR, None, "", why))
    errors = [sentence(problem) for problem in problems if problem["level"] == ERROR]
    warnings = [sentence(problem) for problem in problems if problem["level"] == WARNING]
    notes: list[str] = []
    for finding in answer["findings"]:
        text = f"{finding['message']} ({finding['validator']})"
        (errors if finding["level"] == "ERROR" else warnings if finding["level"] == "WARNING" else notes).append(text)
    if not answer["judged"]:
        errors.append("ParallelCluster's validators were not reached, because its schema rejects the configuration")
    for name in reviewed["types"]:
        if name in reviewed["described"]:
            warnings.append(
                f"{name} was checked with the table of the collection, which does not know its capacity types and "
                "placement groups: EC2 was not queried; set cluster_online: true"
            )
        elif name in answer["assumed"]:
            warnings.append(f"{name} was not checked: EC2 was not queried; set cluster_online: true")
    if not reviewed["offers_checked"]:
        notes.append("whether the region offers the instance types was not checked, because EC2 was not queried")
    unique = {
        name: list(dict.fromkeys(texts))
        for name, texts in (("errors", errors), ("warnings", warnings), ("notes", notes))
    }
    return {**unique, "version": answer["version"], "valid": not unique["errors"]}
