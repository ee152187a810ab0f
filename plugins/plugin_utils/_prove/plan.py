# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a proof run on one instance: refusals, cost and the order of steps. Pure."""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Everything that a run creates has both tags; nothing else is ever removed.
PROJECT_TAG, PROJECT = "mlcluster:made-by", "prove_on_aws"
RUN_TAG = "mlcluster:prove"
# The random id of a run, which only its record has, too. Same value in plugins/module_utils/_cluster/proof.py.
ID_TAG = "mlcluster:prove-id"
RUN = re.compile(r"prove-[a-z0-9-]{1,40}\Z")
REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}\Z")
TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+\Z")
IMAGE = re.compile(r"ami-[0-9a-f]{8,17}\Z")
SUBNET = re.compile(r"(subnet-[0-9a-f]{8,17})?\Z")
# The path is used in ssh's options.
FOLDER = re.compile(r"[^\s'\"%\\]+\Z")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}\Z")
MIN_MINUTES, MAX_MINUTES = 30, 720
ADDRESSES = ("public", "private")
# The billing code of plain Linux, for which the price list is read.
LINUX = "RunInstances"
NODE = "prove-node"
TIMER = "mlcluster-prove-deadline"

# Name of the step, and its playbook or the instance state that is requested.
STEPS: tuple[dict[str, str], ...] = (
    {"name": "wait", "playbook": "node"},
    {"name": "site", "playbook": "site"},
    {"name": "verify", "playbook": "verify"},
    {"name": "reboot", "playbook": "reboot"},
    {"name": "verify_after_reboot", "playbook": "verify"},
    {"name": "stop", "state": "stopped"},
    {"name": "start", "state": "running"},
    {"name": "wait_after_start", "playbook": "node"},
    {"name": "verify_after_start", "playbook": "verify"},
    {"name": "uninstall", "playbook": "uninstall"},
)


def plan(settings: Mapping[str, Any], look: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return ``problem``, one sentence or empty, else the plan; ``look`` None checks only the settings."""
    problem = settings_problem(settings)
    if problem or look is None:
        return {"problem": problem}
    problem = account_problem(settings, look)
    if problem:
        return {"problem": problem}
    facts, image = look["types"][settings["type"]], look["images"][0]
    subnet = subnet_of(settings["type"], look) or {}
    return {
        "problem": "",
        "lines": lines(settings, look),
        "refusal": refusal(settings, look),
        "tags": tags(settings["run"]),
        "steps": list(STEPS),
        "groups": groups(facts),
        "subnet": subnet["subnet_id"],
        "vpc": subnet["vpc_id"],
        "image": image_name(image),
    }


def settings_problem(settings: Mapping[str, Any]) -> str:
    """Return the errors in the variables, without a request to AWS."""
    shapes = (
        ("region", REGION, "a region like us-east-1"),
        ("type", TYPE, "an instance type, like c5d.large"),
        ("image", IMAGE, "the id of an image, like ami-0123456789abcdef0"),
        ("user", USER, "the login user of the image, like ubuntu or ec2-user"),
        ("subnet", SUBNET, "the id of a subnet, or an empty string for a default subnet"),
        ("run", RUN, "a name like prove-1 of small letters, digits and hyphens"),
    )
    for name, shape, hint in shapes:
        value = settings.get(name)
        if not isinstance(value, str) or not shape.match(value):
            return f"nothing was launched: prove_on_aws_{name} is {_shown(value)}; use {hint}"
    cidr = settings.get("ssh_cidr")
    if not _is_cidr(cidr):
        return (
            f"nothing was launched: prove_on_aws_ssh_cidr is {_shown(cidr)}; use the IPv4 network from which this "
            "machine reaches the instance, like 203.0.113.7/32, and not the whole internet"
        )
    if settings.get("address") not in ADDRESSES:
        return f"nothing was launched: prove_on_aws_address is {_shown(settings.get('address'))}; use public or private"
    minutes = number(settings.get("minutes"))
    if minutes is None or minutes != int(minutes) or not MIN_MINUTES <= minutes <= MAX_MINUTES:
        return (
            f"nothing was launched: prove_on_aws_minutes is {_shown(settings.get('minutes'))}; use whole minutes, "
            f"{MIN_MINUTES} to {MAX_MINUTES}"
        )
    dollars = settings.get("max_dollars_an_hour")
    if dollars not in ("", None) and (number(dollars) or 0) <= 0:
        return f"nothing was launched: prove_on_aws_max_dollars_an_hour is {_shown(dollars)}; use a number above 0"
    folder = settings.get("folder")
    if not isinstance(folder, str) or not FOLDER.match(folder):
        return f"nothing was launched: prove_on_aws_folder is {_shown(folder)}; use a path without quotes, % and spaces"
    if not isinstance(settings.get("variables"), Mapping):
        return "nothing was launched: prove_on_aws_variables is not a dictionary; map names of role variables to values"
    return ""


def account_problem(settings: Mapping[str, Any], look: Mapping[str, Any]) -> str:
    """Return what is missing or different in AWS, by the variables."""
    kind, region = settings["type"], settings["region"]
    facts = look["types"].get(kind)
    if facts is None:
        return f"nothing was launched: {region} offers no {kind}; set prove_on_aws_type to a type that it offers"
    if not groups(facts):
        return (
            f"nothing was launched: {kind} has neither instance store nor NVIDIA GPUs, so that nothing would be proved "
            "on it; choose another prove_on_aws_type, like c5d.large"
        )
    if not look["images"]:
        return (
            f"nothing was launched: {region} has no image {settings['image']} that this account may use; use one of "
            "that region as prove_on_aws_image"
        )
    image = look["images"][0]
    if str(image.get("platform")).lower() == "windows":
        return f"nothing was launched: {settings['image']} is a Windows image; use a Linux image"
    supported = (facts.get("ProcessorInfo") or {}).get("SupportedArchitectures") or []
    if image.get("architecture") not in supported:
        return (
            f"nothing was launched: {settings['image']} is for {image.get('architecture')}, and {kind} supports "
            f"{', '.join(supported) or 'no architecture that EC2 reports'}; set prove_on_aws_image to an image for it"
        )
    if look["recorded"]:
        return (
            f"nothing was launched: {settings['folder']} has the record of an earlier run, whose instance may still "
            f"run; remove that with -e prove_on_aws_sweep={settings['run']}, or use another prove_on_aws_run"
        )
    if look["taken"]:
        return (
            f"nothing was launched: {region} has a key pair or a security group with the name {settings['run']}; use "
            f"another prove_on_aws_run, or remove that of a run before with -e prove_on_aws_sweep={settings['run']}"
        )
    if not look["subnets"]:
        where = f"no subnet {settings['subnet']}" if settings["subnet"] else "no default subnet"
        return f"nothing was launched: {region} has {where}; set prove_on_aws_subnet to one of yours"
    if subnet_of(kind, look) is None:
        zones = ", ".join(sorted({subnet["availability_zone"] for subnet in look["subnets"]}))
        return (
            f"nothing was launched: no subnet is in a zone that offers {kind} (their zones: {zones}); set "
            "prove_on_aws_subnet"
        )
    if settings["address"] == "public" and not (subnet_of(kind, look) or {}).get("map_public_ip_on_launch"):
        return (
            f"nothing was launched: the subnet for {kind} gives no public addresses; choose another "
            "prove_on_aws_subnet, or prove_on_aws_address=private where this machine reaches private ones"
        )
    return _price_problem(settings, look)


def _price_problem(settings: Mapping[str, Any], look: Mapping[str, Any]) -> str:
    price, dollars = price_of(look), number(settings.get("max_dollars_an_hour"))
    if price is None and dollars is None:
        return (
            f"nothing was launched: the price of {settings['type']} is unknown ({_unknown(look)}); look it up, and "
            "set prove_on_aws_max_dollars_an_hour"
        )
    if price is not None and dollars is not None and price > dollars:
        return (
            f"nothing was launched: {settings['type']} costs {price:.2f} dollars an hour, more than "
            f"prove_on_aws_max_dollars_an_hour ({dollars:g}); raise it, or choose another prove_on_aws_type"
        )
    return ""


def price_of(look: Mapping[str, Any]) -> float | None:
    """Return the dollars an hour of the type with this image; None if unknown."""
    if look["images"] and look["images"][0].get("usage_operation", LINUX) != LINUX:
        return None
    return number(look["price"].get("dollars"))


def _unknown(look: Mapping[str, Any]) -> str:
    if look["images"][0].get("usage_operation", LINUX) != LINUX:
        return "the image has a price of its own"
    return look["price"].get("reason") or "the price list has no price"


def subnet_of(kind: str, look: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first subnet, by zone, in whose zone the type is offered."""
    for subnet in sorted(look["subnets"], key=lambda entry: (entry["availability_zone"], entry["subnet_id"])):
        if kind in look["offered"].get(subnet["availability_zone"], ()):
            return subnet
    return None


def groups(facts: Mapping[str, Any]) -> list[str]:
    """Return the groups of site.yml that fit the hardware of the type, by DescribeInstanceTypes."""
    gpus = (facts.get("GpuInfo") or {}).get("Gpus") or []
    found = ["instance_store"] if facts.get("InstanceStorageSupported") else []
    return found + (["gpu"] if any(gpu.get("Manufacturer") == "NVIDIA" for gpu in gpus) else [])


def lines(settings: Mapping[str, Any], look: Mapping[str, Any]) -> list[str]:
    """Return the lines that are shown before a launch."""
    price, minutes = price_of(look), int(number(settings["minutes"]) or 0)
    if price is None:
        dollars = number(settings["max_dollars_an_hour"]) or 0
        cost = f"price unknown ({_unknown(look)}); at most {dollars:.2f} dollars an hour by your limit, "
    else:
        dollars, cost = price, f"{price:.2f} dollars an hour on demand, "
    return [
        f"run {settings['run']}: one {settings['type']} from {image_name(look['images'][0])} in {settings['region']}",
        f"{cost}{dollars * minutes / 60:.2f} for all of its {minutes} minutes; its disks and traffic come on top",
        f"creates: a key pair, a security group that lets ssh in from {settings['ssh_cidr']}, the instance",
        f"steps: {', '.join(step['name'] for step in STEPS)}; then everything is removed, also after a failure",
        f"the instance terminates itself after {minutes} minutes, or at its next start if it is stopped then",
        f"to remove all of it: -e prove_on_aws_sweep={settings['run']} -e prove_on_aws_region={settings['region']}",
        *unswept(look["records"]),
    ]


def unswept(records: Sequence[str]) -> list[str]:
    """Return a line for each record of another run: it runs, or nothing has removed its resources yet."""
    runs = sorted(record.rpartition("/")[0].rpartition("/")[2] for record in records)
    return [f"not swept, so its instance may still run: add -e prove_on_aws_sweep={run}" for run in runs]


def refusal(settings: Mapping[str, Any], look: Mapping[str, Any]) -> str:
    """Return why nothing is launched if the plan was not confirmed."""
    if settings.get("confirm") == settings["type"]:
        return ""
    found = f", and not {_shown(settings['confirm'])}" if settings.get("confirm") else ""
    return f"nothing was launched: to launch it as shown, add -e prove_on_aws_confirm={settings['type']}{found}"


def tags(run: str) -> dict[str, str]:
    """Return the tags for everything that a run creates."""
    return {PROJECT_TAG: PROJECT, RUN_TAG: run, "Name": run}


def image_name(image: Mapping[str, Any]) -> str:
    """Return the name of a public image; the name of a private image is withheld."""
    name = image.get("name")
    return name if image.get("public") and isinstance(name, str) and name else "a private image"


def user_data(deadline: int, private: str, public: str) -> str:
    """Return the cloud-init configuration: the host key known to the controller, and a timer that ends the instance.

    ``deadline``: seconds since 1970. The timer is enabled, so that it survives a reboot, and persistent: an instance
    that starts after its deadline ends at once. A power-off terminates the instance, as set at the launch.
    """
    moment = f"{datetime.datetime.fromtimestamp(deadline, datetime.timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    units = {
        "service": (
            "[Unit]\nDescription=End this instance\nFailureAction=poweroff-force\n"
            "[Service]\nType=oneshot\nExecStart=/usr/bin/env systemctl poweroff\n"
        ),
        "timer": (
            "[Unit]\nDescription=The time at which this instance ends\n"
            f"[Timer]\nOnCalendar={moment}\nPersistent=true\nAccuracySec=1s\n"
            "[Install]\nWantedBy=timers.target\n"
        ),
    }
    document = {
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": private.strip() + "\n", "ed25519_public": public.strip() + "\n"},
        "write_files": [
            {"path": f"/etc/systemd/system/{TIMER}.{kind}", "permissions": "0644", "content": text}
            for kind, text in units.items()
        ],
        "runcmd": [["systemctl", "daemon-reload"], ["systemctl", "enable", "--now", f"{TIMER}.timer"]],
    }
    return "#cloud-config\n" + json.dumps(document, indent=1) + "\n"


def inventory(settings: Mapping[str, Any], wanted: Sequence[str], address: str, folder: str) -> dict[str, Any]:
    """Return the inventory for the steps: one node, its groups and its connection."""
    options = {
        "UserKnownHostsFile": f"{folder}/known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        # The address changes at the stop, the host key does not.
        "HostKeyAlias": settings["run"],
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "ConnectTimeout": "15",
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "8",
    }
    host = {
        **settings["variables"],
        "ansible_host": address,
        "ansible_user": settings["user"],
        "ansible_ssh_private_key_file": f"{folder}/key",
        "ansible_ssh_common_args": " ".join(f"-o '{name}={value}'" for name, value in options.items()),
        "ec2_instance_type": settings["type"],
        # The launch attaches no EFA interfaces.
        "ec2_efa_attached": 0,
    }
    return {"all": {"hosts": {NODE: host}, "children": {group: {"hosts": {NODE: {}}} for group in wanted}}}


def number(value: Any) -> float | None:
    """Return a number that was passed as a number or a string; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
        return float(value)
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e9 else None


def _is_cidr(value: Any) -> bool:
    try:
        return isinstance(value, str) and "/" in value and ipaddress.IPv4Network(value).prefixlen > 0
    except ValueError:
        return False


def _shown(value: Any) -> str:
    return f"'{value}'" if value not in ("", None) else "not given"
