# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the variables of a cluster, all at once, before anything is rendered."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster.network import is_documentation
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import fsx_regions

Settings = Mapping[str, Any]

# FSx for Lustre User Guide, managing throughput capacity: MB/s for each TiB of a file system with SSD, by its type.
THROUGHPUT = {"PERSISTENT_2": (125, 250, 500, 1000), "PERSISTENT_1": (50, 100, 200)}
# The same guide, EFA-enabled file systems: the capacity is a multiple of these GiB, by throughput. Only
# PERSISTENT_2 has EFA.
EFA_STEP_GIB = {1000: 4800, 500: 9600, 250: 19200, 125: 38400}
S3_URI = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<key>[^\s*?]+)")
NAME = re.compile(r"[a-z][a-z0-9-]{0,24}")
CLUSTER_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,59}")
SHA256 = re.compile(r"[0-9a-f]{64}")
QUEUE_DEFAULTS: dict[str, Any] = {
    "count": None,
    "minimum": 0,
    "capacity": "ondemand",
    "reservation": "",
    "placement_group": None,
    "smt": True,
    "efa": None,
    "gpu_health_check": None,
    "exclusive": False,
    "root_gib": 200,
    "root_iops": 3000,
    "root_throughput": 125,
    "ephemeral": "/scratch",
    "hook": True,
    "s3": None,
    "policies": [],
    "price_per_hour": None,
    "vcpus": None,
    "memory_gib": None,
}
QUEUE_NEEDS = ("name", "instance_type", "count")
FILESYSTEM_DEFAULTS: dict[str, Any] = {
    "id": "",
    "by_cluster": False,
    "gib": None,
    "throughput": None,
    "deployment": "PERSISTENT_2",
    "efa": False,
    "associations": [],
}
FILESYSTEM_NEEDS = ("name", "mount")
# Options of hooks/on_node_configured.sh, in the order in which they are given.
HOOK_OPTIONS = ("bundle", "sha256", "pointer", "public_key", "version_floor")
# Other options that its args may have.
HOOK_SWITCHES = ("--required", "--best-effort")
HOOK_ARGS = (
    *("--vars", "--roles", "--phase", "--node-type", "--wait-for", "--wait-seconds", "--root", "--deadline"),
    *("--on-failure", "--bucket-owner", "--log-prefix"),
)
S3_DEFAULTS: dict[str, Any] = {"prefix": "", "write": False}
# Identifiers that count up or repeat one digit, the accounts of AWS's own examples, and words that ask for another.
PLACEHOLDER = re.compile(
    r"\b(ami|cr|eni|fs|i|sg|subnet|vpc)-(01234567|([0-9a-z])\3{6})"
    r"|^arn:aws[a-z-]*:[^:]*:[^:]*:(123456789012|111122223333|(\d)\5{11}):"
    r"|\bYOUR\b"
)


# Expected type of each key. A wrong type is reported by name, and the rest of that section is not checked.
QUEUE_TYPES = {
    **dict.fromkeys(("name", "instance_type", "capacity", "reservation", "ephemeral"), "a string"),
    **dict.fromkeys(("count", "minimum", "root_gib", "root_iops", "root_throughput", "vcpus"), "an integer"),
    **dict.fromkeys(("memory_gib",), "an integer"),
    **dict.fromkeys(("placement_group", "smt", "efa", "gpu_health_check", "exclusive", "hook"), "true or false"),
    "price_per_hour": "a number",
    "policies": "a list of strings",
    "s3": "a list of dictionaries",
}
FILESYSTEM_TYPES = {
    **dict.fromkeys(("name", "mount", "id", "deployment"), "a string"),
    **dict.fromkeys(("gib", "throughput"), "an integer"),
    **dict.fromkeys(("by_cluster", "efa"), "true or false"),
    "associations": "a list of dictionaries",
}
S3_TYPES = {"bucket": "a string", "prefix": "a string", "write": "true or false"}
LINK_TYPES = {"path": "a string", "s3": "a string", "export": "true or false"}
SETTINGS_TYPES = {
    **dict.fromkeys(("queues", "filesystems", "s3"), "a list of dictionaries"),
    **dict.fromkeys(("hook", "tags", "extra", "fsx_regions"), "a dictionary"),
    **dict.fromkeys(("name", "region", "key_name", "head_instance_type"), "a string"),
    "policies": "a list of strings",
    **dict.fromkeys(("head_root_gib", "idle_minutes", "bootstrap_seconds", "log_days"), "an integer"),
    **dict.fromkeys(("memory_scheduling", "detailed_monitoring", "dashboard"), "true or false"),
}


def filled(defaults: Settings, given: Settings) -> dict[str, Any]:
    """Merge ``given`` over ``defaults``; a null value counts as not set."""
    return {**defaults, **{key: value for key, value in given.items() if value is not None}}


def _type_errors(what: str, given: Settings, types: Mapping[str, str]) -> Iterator[str]:
    for key, expected in types.items():
        if given.get(key) is not None and not argument_types.CHECKS[expected](given[key]):
            yield f"{what}: {key} is '{given[key]}'; use {expected}"


def _without_type_errors(given: Settings, types: Mapping[str, str]) -> dict[str, Any]:
    """Return ``given`` without the values that ``_type_errors`` reports, to check the rest in the same run."""
    return {
        key: value
        for key, value in given.items()
        if value is None or key not in types or argument_types.CHECKS[types[key]](value)
    }


def _unknown(what: str, given: Settings, known: tuple[str, ...]) -> Iterator[str]:
    for key in sorted(set(map(str, given)) - set(known)):
        yield f"{what} has the key '{key}', which does not exist; those that do are {', '.join(known)}"


def _missing(what: str, given: Settings, needs: tuple[str, ...]) -> Iterator[str]:
    for key in needs:
        if given.get(key) in (None, ""):
            yield f"{what} lacks '{key}'; set it"


def _duplicates(what: str, values: list[Any]) -> Iterator[str]:
    for value in sorted({str(value) for value in values if value and values.count(value) > 1}):
        yield f"{what} '{value}' is used twice; use another value for one of them"


def queue_problems(queue: Settings) -> Iterator[str]:
    """Return the errors in one queue, a sentence each."""
    what = f"queue '{queue.get('name', '?')}'"
    yield from _unknown(what, queue, (*QUEUE_NEEDS[:2], *QUEUE_DEFAULTS))
    yield from _missing(what, queue, QUEUE_NEEDS)
    yield from _type_errors(what, queue, QUEUE_TYPES)
    given = filled(QUEUE_DEFAULTS, _without_type_errors(queue, QUEUE_TYPES))
    if given.get("name") and not NAME.fullmatch(str(given["name"])):
        yield f"{what}: a queue's name is small letters, digits and hyphens, 25 at most, and begins with a letter"
    if given["capacity"] not in ("ondemand", "spot", "capacity-block"):
        yield f"{what}: capacity is '{given['capacity']}'; use ondemand, spot or capacity-block"
    if given["capacity"] == "capacity-block" and not given["reservation"]:
        yield f"{what}: a capacity block needs its reservation; set reservation: cr-…"
    if given["reservation"] and not re.fullmatch(
        r"cr-[0-9a-f]{17}|arn:aws[a-z-]*:resource-groups:\S+", str(given["reservation"])
    ):
        yield f"{what}: reservation is '{given['reservation']}'; use cr- with 17 digits, or the ARN of a resource group"
    if given["count"] is not None and given["minimum"] > given["count"]:
        yield f"{what}: minimum {given['minimum']} is more than count {given['count']}; lower it"
    # Amazon EBS: gp3 gives at most 0.25 MiB/s for each provisioned IOPS.
    if given["root_throughput"] > given["root_iops"] / 4:
        yield (
            f"{what}: root_throughput {given['root_throughput']} needs root_iops of {given['root_throughput'] * 4} or "
            f"more, and it has {given['root_iops']}"
        )


def filesystem_problems(filesystem: Settings) -> Iterator[str]:
    """Return the errors in one file system, a sentence each."""
    what = f"file system '{filesystem.get('name', '?')}'"
    yield from _unknown(what, filesystem, (*FILESYSTEM_NEEDS, *FILESYSTEM_DEFAULTS))
    yield from _missing(what, filesystem, FILESYSTEM_NEEDS)
    yield from _type_errors(what, filesystem, FILESYSTEM_TYPES)
    given = filled(FILESYSTEM_DEFAULTS, _without_type_errors(filesystem, FILESYSTEM_TYPES))
    for link in given["associations"]:
        yield from _unknown(f"{what}: an association", link, tuple(LINK_TYPES))
        yield from _missing(f"{what}: an association", link, ("path", "s3"))
        yield from _type_errors(f"{what}: an association", link, LINK_TYPES)
    mount = str(given.get("mount") or "/")
    if not re.fullmatch(r"/[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*|/", mount):
        yield f"{what}: mount is '{mount}'; use an absolute path"
    if given["id"]:
        if not re.fullmatch(r"fs-[0-9a-z]{17}", str(given["id"])):
            yield f"{what}: id is '{given['id']}'; use fs- with 17 letters and digits"
        extra = [key for key in ("gib", "throughput", "associations") if given[key]]
        if extra or given["by_cluster"]:
            extra = extra or ["by_cluster"]
            yield f"{what} exists already, so only name, mount and id apply; remove {', '.join(extra)}"
        return
    yield from _missing(what, filesystem, ("gib", "throughput"))
    kind = given["deployment"]
    if kind not in THROUGHPUT:
        yield f"{what}: deployment is {kind}; use one of {', '.join(THROUGHPUT)}"
        return
    if given["gib"] and not (given["gib"] == 1200 or given["gib"] % 2400 == 0):
        yield f"{what}: gib is {given['gib']}; {kind} has 1200 or a multiple of 2400"
    if given["throughput"] and given["throughput"] not in THROUGHPUT[kind]:
        rates = THROUGHPUT[kind]
        allowed = f"{', '.join(map(str, rates[:-1]))} or {rates[-1]}"
        yield f"{what}: throughput is {given['throughput']}; {kind} has {allowed} MB/s for each TiB"
    if given["efa"]:
        yield from _efa_problems(what, given)
    if given["by_cluster"] and given["efa"]:
        yield f"{what}: ParallelCluster creates none with EFA; remove by_cluster, so that the role creates it"


def _efa_problems(what: str, given: Settings) -> Iterator[str]:
    """Check the options of a file system with EFA, which FSx would reject only after the network was created."""
    if given["deployment"] != "PERSISTENT_2":
        yield f"{what}: deployment is {given['deployment']} and efa is true; only PERSISTENT_2 has EFA"
        return
    step = EFA_STEP_GIB.get(given["throughput"])
    if step and given["gib"] and given["gib"] % step:
        next_size = -(-given["gib"] // step) * step
        yield (
            f"{what}: gib is {given['gib']}; with EFA and {given['throughput']} MB/s for each TiB it is a multiple of "
            f"{step}: use {next_size}, or another throughput"
        )


def hook_arguments(hook: Settings) -> list[tuple[str, str]]:
    """Return each option of the hook's args with its value, empty for an option without value."""
    arguments = iter([str(argument) for argument in hook.get("args") or []])
    return [(argument, "" if argument in HOOK_SWITCHES else next(arguments, "")) for argument in arguments]


def hook_problems(hook: Settings) -> Iterator[str]:
    """Return the errors in the hook, a sentence each; no hook is valid."""
    if not hook:
        return
    yield from _unknown("hook", hook, ("script", *HOOK_OPTIONS, "args"))
    yield from _missing("hook", hook, ("script",))
    if not isinstance(hook.get("args") or [], list):
        yield f"hook: args is '{hook['args']}'; use a list"
    else:
        for option, value in hook_arguments(hook):
            if option not in (*HOOK_SWITCHES, *HOOK_ARGS):
                yield f"hook: args has '{option}'; it may have {', '.join((*HOOK_SWITCHES, *HOOK_ARGS))}"
            elif option in HOOK_ARGS and not value:
                yield f"hook: args has {option} without a value; add one"
    for key in ("script", "bundle", "pointer"):
        if hook.get(key) and not S3_URI.fullmatch(str(hook[key])):
            yield f"hook: {key} is '{hook[key]}'; use s3://BUCKET/KEY"
    if hook.get("pointer"):
        if hook.get("bundle") or hook.get("sha256") or not hook.get("public_key"):
            yield "hook: a pointer needs public_key, and neither bundle nor sha256; the pointer names them"
    elif not hook.get("bundle") or not hook.get("sha256"):
        yield "hook: bundle and sha256 are needed, so that nodes can verify the bundle; make bundle prints them"
    elif not SHA256.fullmatch(str(hook["sha256"])):
        yield f"hook: sha256 is '{hook['sha256']}'; use 64 digits 0-9 and a-f"


def _strings(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each string in ``value`` with its path; entries of a list are identified by their names, if any."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _strings(f"{path}.{key}" if path else str(key), entry)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            name = entry.get("name") if isinstance(entry, Mapping) else None
            yield from _strings(f"{path}.{name or number}", entry)


def _is_placeholder(value: str) -> bool:
    if SHA256.fullmatch(value):
        return len(set(value)) == 1
    try:
        return is_documentation(ipaddress.ip_network(value, strict=False))
    except ValueError:
        return bool(PLACEHOLDER.search(value))


def placeholders(settings: Settings, network: Settings) -> list[str]:
    """Return the placeholders left in the variables and in cluster_subnets, a sentence each."""
    given = {key: value for key, value in settings.items() if key != "tags"}
    given["ssh_cidrs"] = given.pop("head_ssh_cidr", "")
    return [
        f"cluster_{path} is '{value}', a placeholder; set your own"
        for path, value in _strings("", {**given, "subnets": network})
        if _is_placeholder(value)
    ]


def coerce_settings(settings: Settings) -> dict[str, Any]:
    """Convert numbers and booleans that ``-e KEY=VALUE`` passed as strings."""
    types = {key: name for key, name in SETTINGS_TYPES.items() if name in ("an integer", "true or false")}
    return {key: argument_types.coerce(types[key], value) if key in types else value for key, value in settings.items()}


def problems(settings: Settings) -> list[str]:
    """Return all problems of the variables, a sentence each; pcluster's own validators run later."""
    type_errors = [*_type_errors("the cluster", settings, SETTINGS_TYPES)]
    return [" ".join(sentence.split()) for sentence in (type_errors or _problems(settings))]


def _region_problems(filesystem: Settings, settings: Settings, regions: Settings) -> Iterator[str]:
    """Return what the region lacks for an otherwise valid file system."""
    given = filled(FILESYSTEM_DEFAULTS, filesystem)
    if not given["id"]:
        yield from fsx_regions.refusals(f"file system '{given['name']}'", given, str(settings["region"]), regions)


def notes(settings: Settings) -> list[str]:
    """Return what could not be checked of variables without problems, a sentence each."""
    own, filesystems = settings.get("fsx_regions") or {}, settings.get("filesystems") or []
    return fsx_regions.unjudged(str(settings.get("region", "")), own, filesystems)


def _problems(settings: Settings) -> list[str]:
    found = []
    if not CLUSTER_NAME.fullmatch(str(settings.get("name", ""))):
        found.append(
            f"cluster_name is '{settings.get('name', '')}'; use letters, digits and hyphens, 60 at most, a letter first"
        )
    if not re.fullmatch(r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}", str(settings.get("region", ""))):
        found.append(f"cluster_region is '{settings.get('region', '')}'; use a region such as us-east-1")
    queues, filesystems = settings.get("queues") or [], settings.get("filesystems") or []
    if not queues:
        found.append("cluster_queues is empty; a cluster needs at least one queue")
    for queue in queues:
        found.extend(queue_problems(queue))
    regions = settings.get("fsx_regions") or {}
    found.extend(fsx_regions.option_errors(regions))
    for filesystem in filesystems:
        errors = list(filesystem_problems(filesystem))
        found.extend(errors or _region_problems(filesystem, settings, regions))
    found.extend(_duplicates("queue", [queue.get("name") for queue in queues]))
    found.extend(_duplicates("file system", [entry.get("name") for entry in filesystems]))
    found.extend(_duplicates("mount", [entry.get("mount") for entry in filesystems]))
    created = [str(entry.get("name")) for entry in filesystems if entry.get("by_cluster") and not entry.get("id")]
    if len(created) > 1:
        found.append(
            f"ParallelCluster creates at most one file system, and {', '.join(created)} have by_cluster; keep it for "
            "one"
        )
    found.extend(hook_problems(settings.get("hook") or {}))
    owners = (settings, *(_without_type_errors(queue, QUEUE_TYPES) for queue in queues))
    for right in (right for owner in owners for right in owner.get("s3") or []):
        found.extend(_type_errors("s3", right, S3_TYPES))
        found.extend(_unknown("s3", right, ("bucket", *S3_DEFAULTS)))
        found.extend(_missing("s3", right, ("bucket",)))
    return found
