# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read-only facts of IMEX on a node: unit, files, daemons, channel, record, and other programs that manage it."""

from __future__ import annotations

import fnmatch
import json
import posixpath
import typing as t

from ..._data import instance_types
from ..._data.ultraservers import is_ultraserver
from ..accelerator.fabric import is_alone
from ..accelerator.parse import parse_smi
from ..slurm import parse as slurm_parse
from ..slurm.client import Slurm
from ..system.ask import ask
from ..system.host import Host, NodeError
from ..system.instance import instance_type
from ..system.mounts import SHARED_FILESYSTEMS, find_mount, read_mounts
from ..system.units import parse_units
from . import config, parse

Facts = dict[str, t.Any]

_UNIT_SECONDS = 5
_CTL_SECONDS = 5
_SMI_SECONDS = 5
_PROPERTIES = "Id,LoadState,ActiveState,SubState,UnitFileState,ExecStart"


def look(host: Host, options: config.Options) -> Facts:
    """Return the facts of a node; without an UltraServer only its type.

    ``type``, ``ultraserver`` (None: not known), ``programs`` {name: path or None}, ``unit``, ``config`` and
    ``nodes`` (files), ``daemons``, ``major``, ``channel``, ``record``, and ``record_problem`` if it is unreadable.
    """
    kind = options.instance_type or instance_type(host)
    known = is_ultraserver(kind)
    if known is False and instance_types.lookup(kind) is None:
        known = _by_the_driver(host)
    facts: Facts = {"type": kind, "ultraserver": known}
    if not facts["ultraserver"]:
        return facts
    unit = look_unit(host, options.service)
    own = _file(host, unit["config"] or config.CONFIG)
    settings = parse.settings(own["text"] or "")
    record, record_problem = _record(host)
    return {
        **facts,
        "programs": {name: host.which(name) for name in (config.SERVICE, config.PROGRAM)},
        "unit": unit,
        "config": own,
        "nodes": _file(host, settings.get("IMEX_NODE_CONFIG_FILE") or config.NODES),
        "daemons": daemons(host),
        "major": parse.channel_major(host.read_text("/proc/devices")),
        "channel": host.character_device(config.CHANNEL),
        "record": record,
        "record_problem": record_problem,
    }


def _record(host: Host) -> tuple[Facts | None, str]:
    """Return the record that Prolog wrote last, or None and its error; None and no error if it is missing."""
    text = host.read_text(config.RECORD)
    if text is None and not host.exists(config.RECORD):
        return None, ""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("schema") != config.SCHEMA:
        return None, f"{config.RECORD} cannot be read as {config.SCHEMA}"
    if found.get("state") not in config.STATES:
        return None, f"{config.RECORD} has an unknown state: '{str(found.get('state'))[:40]}'"
    if found["state"] == "failed" and found.get("blame") not in config.BLAMED:
        return None, f"{config.RECORD} does not name the cause of a failure: '{str(found.get('blame'))[:40]}'"
    return found, ""


def _by_the_driver(host: Host) -> bool | None:
    """Return False if the driver has no IMEX channels, or if the GPUs share no NVLink domain with other machines; None
    (unknown) otherwise."""
    devices = host.read_text("/proc/devices")
    if devices and parse.channel_major(devices) is None:
        return False
    text, problem = ask(host, ["nvidia-smi", "-q", "-x"], timeout=_SMI_SECONDS)
    try:
        return False if not problem and is_alone(parse_smi(text)) else None
    except ValueError:
        return None


def look_unit(host: Host, service: str) -> Facts:
    """Return the state of the daemon's unit by systemd: ``problem``, ``load``, ``active``, ``enabled``, ``config``."""
    text, problem = ask(
        host, ["systemctl", "show", f"--property={_PROPERTIES}", f"{service}.service"], timeout=_UNIT_SECONDS
    )
    unit_state = next(iter(parse_units(text).values()), {})
    if not problem and not unit_state:
        problem = f"systemctl shows no unit {service}.service"
    return {
        "problem": problem,
        "load": unit_state.get("LoadState"),
        "active": unit_state.get("ActiveState"),
        "enabled": unit_state.get("UnitFileState"),
        "config": parse.config_path(unit_state.get("ExecStart", "")),
    }


def look_domain(host: Host, path: str, timeout: float = _CTL_SECONDS) -> tuple[parse.Domain | None, str]:
    """Return the domain in the table of this node's daemon, or None and the reason why it is unknown."""
    text, problem = ask(host, [config.PROGRAM, "-c", path, "-N"], timeout=timeout)
    if problem:
        return None, problem
    try:
        return parse.domain(text), ""
    except ValueError as exc:
        return None, f"{config.PROGRAM} -N does not print a table as documented: {exc}"


def look_status(host: Host, path: str) -> str | None:
    """Return the state of this node alone, from its daemon; None without an answer."""
    text, problem = ask(host, [config.PROGRAM, "-c", path, "-q"], timeout=_CTL_SECONDS)
    return None if problem else text.strip()


def daemons(host: Host) -> list[Facts]:
    """Return the running IMEX daemons, also those in containers: ``pid`` and ``config`` (None: the default file).

    A program of that name that a user runs does not count: without root it cannot work, but it would prevent domains.
    """
    found = []
    for name in host.listdir("/proc"):
        if not name.isdecimal():
            continue
        words = (host.read_text(f"/proc/{name}/cmdline") or "").split("\0")
        # A wrapper is run by an interpreter.
        programs = [posixpath.basename(word) for word in words[:2]]
        if config.SERVICE in programs and (host.stat(f"/proc/{name}") or {}).get("uid") == 0:
            given = words[words.index("-c") + 1 : words.index("-c") + 2] if "-c" in words else []
            found.append({"pid": int(name), "config": given[0] if given else None})
    return found


def look_slurm(host: Host, slurm: Slurm) -> Facts:
    """Return ``prologs``, the text of each Prolog of Slurm on this node, and ``switch``, its SwitchType.

    Both are empty without an answer of Slurm; ``slurm_problem`` is the reason.
    """
    problem = ""
    try:
        settings = slurm_parse.settings(slurm.ask("scontrol", "show", "config", timeout=10))
    except NodeError as exc:
        settings, problem = {}, str(exc)
    paths: list[str] = []
    for pattern in filter(None, (part.strip() for part in (settings.get("Prolog") or "").split(","))):
        folder, name = posixpath.split(pattern)
        # Slurm accepts any pattern of glob(7).
        matching = fnmatch.filter(host.listdir(folder), name) if set(name) & set("*?[") else [name]
        paths += [posixpath.join(folder, entry) for entry in matching]
    texts = {path: host.read_text(path) or "" for path in paths}
    return {"prologs": texts, "switch": settings.get("SwitchType"), "slurm_problem": problem}


def _file(host: Host, path: str) -> Facts:
    """Return ``path``, ``text`` (None: it cannot be read), and the network file system that it is on (None: none)."""
    real = host.realpath(path)
    try:
        mount = find_mount(real, read_mounts(host))
        shared = SHARED_FILESYSTEMS.get(mount["fstype"]) if mount else None
    except NodeError:
        shared = None
    return {"path": path, "text": host.read_text(path), "shared": shared}
