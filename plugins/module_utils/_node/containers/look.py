# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at everything about containers on a node, and the plan of what differs from what is wanted."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import posixpath
import re
import typing as t

from ..system.host import CommandError, NodeError
from ..system.versions import at_least, version_key
from . import docker as enroot_docker
from . import enroot_conf
from . import files as enroot_texts
from . import local_directories as enroot_local
from . import slurm as enroot_slurm
from .config import EnrootConfig
from .host import EnrootHost
from .plugstack import read_stack
from .plugstack_write import Wanted, plan_changes
from .pyxis_options import option_problems

# What has been proved: the plugin's checksum and the Slurm it was proved with. Written by the role after a smoke test.
PROOF_PATH = "/var/lib/mlcluster/enroot_pyxis.json"
PROOF_SCHEMA = "mlcluster.enroot_proof/1"

# README of NVIDIA/pyxis: it needs Enroot 3.1.0.
OLDEST_ENROOT = (3, 1, 0)
ENROOT = "/usr/bin/enroot"
CAPS_PROGRAM = "/usr/bin/enroot-aufs2ovlfs"


@dataclasses.dataclass
class Plan:
    """What differs. parts are the names of what has to be done, files what has to be written, refusals sentences.

    A file is {"name", "path", "text", "state", "mode", "backup"} in the terms of the module text_files, its name that
    of the part; one that has to be validated is {"path", "text", "mode", "validate"}; a link {"path", "target"}.
    plugstack is what the module pyxis_plugstack is called with, None where this node does not write it.
    """

    refusals: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    parts: list[str] = dataclasses.field(default_factory=list)
    files: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    validated: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    links: list[dict[str, str]] = dataclasses.field(default_factory=list)
    plugstack: dict[str, t.Any] | None = None
    plugin: dict[str, t.Any] | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """The plan as plain JSON types."""
        return dataclasses.asdict(self)


def survey(host: EnrootHost, config: EnrootConfig) -> dict[str, t.Any]:
    """Everything the plan and the verdicts are made of; reads only. {"slurm": None} on a node without Slurm."""
    slurm = enroot_slurm.look(host, config.slurm_prefix, config.slurm_conf_dir)
    if slurm is None:
        return {"slurm": None}
    stack = read_stack(host, slurm["plugstack"])
    try:
        place: enroot_local.Place | None = enroot_local.choose(host, config.local)
        refusal = ""
    except NodeError as exc:
        place, refusal = None, str(exc)
    return {
        "slurm": slurm,
        "stack": stack,
        "plugins": enroot_slurm.plugins(host, slurm, stack),
        "enroot": enroot_look(host),
        "place": place,
        "place_refusal": refusal,
        "kernel": kernel_look(host),
        "nvidia": nvidia_look(host),
        "docker": enroot_docker.look(host) if config.docker else None,
        "proof": host.read_json(PROOF_PATH),
    }


def _told_version(host: EnrootHost, program: str | None, argument: str) -> str | None:
    """The version that a program tells of itself, None where it is missing or tells none."""
    if not program:
        return None
    try:
        found = re.search(r"\d+\.\d+\.\d+", host.run([program, argument], timeout=30).stdout)
    except CommandError:
        return None
    return found.group(0) if found else None


def enroot_look(host: EnrootHost) -> dict[str, t.Any]:
    """{"path", "version", "good", "caps"}: good says whether Pyxis can use it, caps whether it can import images."""
    path = host.which("enroot")
    version = _told_version(host, path, "version")
    good = at_least(version_key(version), OLDEST_ENROOT)
    caps = host.capabilities(CAPS_PROGRAM) is not None
    return {"path": path, "version": version, "good": good, "caps": caps}


def nvidia_look(host: EnrootHost) -> dict[str, t.Any]:
    """{"driver", "tool", "version"}: whether the driver is loaded, and the program that Enroot's hook calls."""
    tool = host.which("nvidia-container-cli")
    version = _told_version(host, tool, "--version")
    return {"driver": host.exists("/proc/driver/nvidia/version"), "tool": tool, "version": version}


def kernel_look(host: EnrootHost) -> dict[str, int | None]:
    """The limits on user namespaces; None for those that this kernel does not have."""
    names = {
        "max_user_namespaces": "/proc/sys/user/max_user_namespaces",
        "unprivileged_userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
        "apparmor_restrict_unprivileged_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    }
    texts = {name: (host.read_text(path) or "").strip() for name, path in names.items()}
    return {name: int(text) if text.isdecimal() else None for name, text in texts.items()}


def make_plan(host: EnrootHost, facts: t.Mapping[str, t.Any], config: EnrootConfig, build: str = "") -> Plan:
    """What differs from the wishes. build is the version of Pyxis to be built where none fits, "" for none."""
    plan = Plan()
    slurm = facts["slurm"]
    if slurm is None:
        return plan
    if slurm["version"] is None:
        plan.refusals.append(
            f"asked {slurm['bin_dir']}/scontrol for its version and got none: see that Slurm works on this node first"
        )
        return plan
    if facts["place_refusal"]:
        plan.refusals.append(facts["place_refusal"])
    elif facts["place"].warning:
        plan.warnings.append(facts["place"].warning)
    _plan_enroot(plan, facts, config)
    manages = manages_plugstack(config, slurm)
    _plan_plugin(host, plan, facts, build, manages)
    if manages:
        _plan_plugstack(host, plan, facts, config, build)
    if not facts["place_refusal"]:
        _plan_files(host, plan, facts, config)
    return plan


def manages_plugstack(config: EnrootConfig, slurm: t.Mapping[str, t.Any]) -> bool:
    """Whether this node writes plugstack.conf: the one with Slurm's files on its own disk, unless it is told."""
    if config.manage_plugstack == "auto":
        return slurm["has_conf"] and not slurm["conf_shared"]
    return config.manage_plugstack == "always"


def proved(host: EnrootHost, facts: t.Mapping[str, t.Any], plugin: str) -> bool:
    """Whether a smoke test has passed with this very plugin and this very Slurm."""
    proof = facts["proof"]
    if not isinstance(proof, dict) or proof.get("schema") != PROOF_SCHEMA:
        return False
    return proof.get("slurm_version") == facts["slurm"]["version"] and proof.get("plugin_sha256") == host.sha256(plugin)


def proof_text(host: EnrootHost, facts: t.Mapping[str, t.Any], plugin: str) -> str:
    """What PROOF_PATH has to hold once a smoke test has passed."""
    proof = {
        "schema": PROOF_SCHEMA,
        "plugin": plugin,
        "plugin_sha256": host.sha256(plugin),
        "slurm_version": facts["slurm"]["version"],
    }
    return json.dumps(proof, indent=2, sort_keys=True) + "\n"


def _plan_enroot(plan: Plan, facts: t.Mapping[str, t.Any], config: EnrootConfig) -> None:
    enroot = facts["enroot"]
    if not enroot["good"] or (config.caps and not enroot["caps"]):
        plan.parts.append("enroot")
    nvidia = facts["nvidia"]
    pinned = config.toolkit_version.partition("-")[0]
    if nvidia["driver"] and (not nvidia["tool"] or (pinned and nvidia["version"] != pinned)):
        plan.parts.append("toolkit")
    if facts["docker"] is not None and not facts["docker"]["path"]:
        plan.parts.append("docker")


def _plan_plugin(host: EnrootHost, plan: Plan, facts: t.Mapping[str, t.Any], build: str, manages: bool) -> None:
    """The plugin that is used: any that fits, or on a node that cannot change the list, the one that is listed."""
    version = facts["slurm"]["version"]
    own = enroot_slurm.own_plugin(version)
    listed = [plugin for plugin in facts["plugins"] if plugin["listed"]]
    fitting = [plugin for plugin in facts["plugins"] if plugin["fits"]]
    bound = bool(listed) and not manages
    if bound and not any(plugin["fits"] for plugin in listed):
        fitting = [plugin for plugin in fitting if plugin["path"] == own]
        if listed[0]["path"] != own and not host.exists(listed[0]["path"]):
            plan.links.append({"path": listed[0]["path"], "target": own})
    if fitting:
        plan.plugin = dict(fitting[0])
    elif build:
        plan.plugin = {"path": own, "slurm_version": version, "pyxis_version": build, "fits": True, "problem": ""}
        plan.parts.append("plugin")


def _plan_plugstack(
    host: EnrootHost, plan: Plan, facts: t.Mapping[str, t.Any], config: EnrootConfig, build: str
) -> None:
    slurm, stack = facts["slurm"], facts["stack"]
    word = config.plugstack_mode
    if plan.plugin is None:
        # Nothing that fits: a line that is there must not stop every job.
        if not any(entry.word == "required" for entry in stack.pyxis):
            return
        plugin, word, options = stack.pyxis[0].plugin, "optional", dict(config.plugin_options)
    else:
        plugin, options = plan.plugin["path"], dict(config.plugin_options)
        found = option_problems(options, plan.plugin["pyxis_version"])
        plan.refusals += found
        if found:
            return
        if word == "required" and not proved(host, facts, plugin):
            word = "optional"
    include = config.plugstack_include
    if include == "auto":
        include = "file" if slurm["configless"] else "glob"
    wanted = Wanted(plugin, word, options, include, config.duplicates)
    plan.plugstack = {**dataclasses.asdict(wanted), "path": slurm["plugstack"]}
    if plan_changes(stack, wanted):
        plan.parts.append("plugstack")


def _as_text_file(file: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        "name": file["part"],
        "path": file["path"],
        "text": file["text"] or "",
        "state": "absent" if file["text"] is None else "present",
        "mode": file["mode"],
        "backup": file["path"] == enroot_conf.CONF_PATH,
    }


def _docker_files(
    host: EnrootHost, plan: Plan, facts: t.Mapping[str, t.Any], config: EnrootConfig
) -> list[dict[str, t.Any]]:
    docker, place = facts["docker"], facts["place"]
    root = enroot_docker.data_root(docker, place, config.docker_data_root)
    nvidia = host.which("nvidia-container-runtime") is not None
    try:
        text = enroot_docker.daemon_text(docker["daemon"], root, config.docker_daemon, nvidia)
    except NodeError as exc:
        plan.refusals.append(str(exc))
        return []
    return enroot_docker.files(docker, text, place)


def _plan_files(host: EnrootHost, plan: Plan, facts: t.Mapping[str, t.Any], config: EnrootConfig) -> None:
    settings = enroot_conf.wanted_settings(config.conf, bool(config.credentials))
    if config.conf_owner == "dropin":
        plan.refusals += enroot_conf.shadowed(host, settings, enroot_conf.DROPIN_PATH)
    wanted = enroot_texts.wanted_files(host, facts, config, settings)
    if facts["docker"] is not None:
        wanted += _docker_files(host, plan, facts, config)
    for file in wanted:
        now = host.sha256(file["path"])
        new = hashlib.sha256(file["text"].encode("utf-8")).hexdigest() if file["text"] is not None else None
        if now == new:
            continue
        plan.parts += [] if file["part"] in plan.parts else [file["part"]]
        if "validate" in file:
            plan.validated.append({key: file[key] for key in ("path", "text", "mode", "validate")})
        else:
            plan.files.append(_as_text_file(file))
    for hook in config.hooks:
        path, target = posixpath.join(enroot_texts.HOOKS, hook), posixpath.join(enroot_texts.SHIPPED_HOOKS, hook)
        if not host.exists(path):
            plan.links.append({"path": path, "target": target})
    plan.parts += ["links"] if plan.links else []
    if not enroot_local.is_prepared(host, facts["place"]) or not enroot_texts.unit_enabled(host):
        plan.parts += [] if "unit" in plan.parts else ["unit"]
    if not all(host.is_dir(path) for path in enroot_texts.run_directories(config)):
        plan.parts += [] if "tmpfiles" in plan.parts else ["tmpfiles"]
