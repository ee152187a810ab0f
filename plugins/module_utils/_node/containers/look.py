# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read-only facts about containers on a node."""

from __future__ import annotations

import json
import posixpath
import re
import typing as t

from ..system.host import CommandError, NodeError
from ..system.versions import at_least, version_key
from . import docker as enroot_docker
from . import enroot_conf
from . import files as enroot_files
from . import local_directories as enroot_local
from . import slurm as enroot_slurm
from .config import EnrootConfig
from .host import EnrootHost
from .plugstack import read_stack

# Proof of a smoke test that passed, written by the role: the plugin's checksum and the Slurm version.
PROOF_PATH = "/var/lib/mlcluster/enroot_pyxis.json"
PROOF_SCHEMA = "mlcluster.enroot_proof/1"

# README of NVIDIA/pyxis: it needs Enroot 3.1.0.
OLDEST_ENROOT = (3, 1, 0)
CAPS_PROGRAM = "/usr/bin/enroot-aufs2ovlfs"


def survey(host: EnrootHost, config: EnrootConfig) -> dict[str, t.Any]:
    """Return the facts for the plan and the verdicts; reads only. {"slurm": None} on a node without Slurm."""
    slurm = enroot_slurm.look(host, config.slurm_prefix, config.slurm_conf_dir)
    if slurm is None:
        return {"slurm": None}
    stack = read_stack(host, slurm["plugstack"])
    try:
        place: enroot_local.Place | None = enroot_local.choose(host, config.local)
        refusal = ""
    except NodeError as exc:
        place, refusal = None, str(exc)
    found = enroot_slurm.plugins(host, slurm, stack)
    return {
        "slurm": slurm,
        "stack": stack,
        "plugins": found,
        # None if the file is missing.
        "plugin_sums": {plugin["path"]: host.sha256(plugin["path"]) for plugin in found},
        "enroot": enroot_look(host),
        "place": place,
        "place_refusal": refusal,
        "kernel": kernel_look(host),
        "nvidia": nvidia_look(host),
        "docker": enroot_docker.look(host, place) if config.docker else None,
        "proof": host.read_json(PROOF_PATH),
        **written_look(host, config),
        "prepared": place is not None and enroot_local.is_prepared(host, place),
    }


def written_look(host: EnrootHost, config: EnrootConfig) -> dict[str, t.Any]:
    """Return facts about the files and directories that the role manages.

    {"sums" (sha256) and "states" by path, "sysctl_text", "shipped_apparmor", "hooks" (there or not, by path),
    "run_directories" (in the same way), "unit_enabled", "shadowed": sentences}
    """
    settings = enroot_conf.wanted_settings(config.conf, bool(config.credentials))
    hooks = [posixpath.join(enroot_files.HOOKS, hook) for hook in config.hooks]
    return {
        "sums": {path: host.sha256(path) for path in enroot_files.PATHS},
        "states": {path: host.stat(path) for path in enroot_files.PATHS},
        "sysctl_text": host.read_text(enroot_files.SYSCTL_PATH),
        "shipped_apparmor": host.exists(enroot_files.SHIPPED_APPARMOR),
        "hooks": {path: host.exists(path) for path in hooks},
        "run_directories": {path: host.is_dir(path) for path in enroot_files.run_directories(config)},
        "unit_enabled": enroot_files.unit_enabled(host),
        "shadowed": enroot_conf.shadowed(host, settings, enroot_conf.DROPIN_PATH)
        if config.conf_owner == "dropin"
        else [],
    }


def _reported_version(host: EnrootHost, program: str | None, argument: str) -> str | None:
    """Return the version that a program reports; None if the program is missing or reports none."""
    if not program:
        return None
    try:
        found = re.search(r"\d+\.\d+\.\d+", host.run([program, argument], timeout=30).stdout)
    except CommandError:
        return None
    return found.group(0) if found else None


def enroot_look(host: EnrootHost) -> dict[str, t.Any]:
    """Return {"path", "version", "good", "caps"}: good: Pyxis can use it; caps: it can import images."""
    path = host.which("enroot")
    version = _reported_version(host, path, "version")
    good = at_least(version_key(version), OLDEST_ENROOT)
    caps = host.capabilities(CAPS_PROGRAM) is not None
    return {"path": path, "version": version, "good": good, "caps": caps}


def nvidia_look(host: EnrootHost) -> dict[str, t.Any]:
    """Return {"driver", "tool", "version", "runtime"}.

    driver: whether the driver is loaded; tool: the program that Enroot's hook calls; runtime: whether Docker has one.
    """
    tool = host.which("nvidia-container-cli")
    version = _reported_version(host, tool, "--version")
    runtime = host.which("nvidia-container-runtime")
    return {
        "driver": host.exists("/proc/driver/nvidia/version"),
        "tool": tool,
        "version": version,
        "runtime": bool(runtime),
    }


def kernel_look(host: EnrootHost) -> dict[str, int | None]:
    """Return the limits on user namespaces; None for a limit that this kernel does not have."""
    names = {
        "max_user_namespaces": "/proc/sys/user/max_user_namespaces",
        "unprivileged_userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
        "apparmor_restrict_unprivileged_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    }
    texts = {name: (host.read_text(path) or "").strip() for name, path in names.items()}
    return {name: int(text) if text.isdecimal() else None for name, text in texts.items()}


def proved(facts: t.Mapping[str, t.Any], plugin: str) -> bool:
    """Return whether a smoke test has passed with exactly this plugin and this Slurm."""
    proof, known = facts["proof"], facts["plugin_sums"].get(plugin)
    if not isinstance(proof, dict) or proof.get("schema") != PROOF_SCHEMA or known is None:
        return False
    return proof.get("slurm_version") == facts["slurm"]["version"] and proof.get("plugin_sha256") == known


def proof_text(facts: t.Mapping[str, t.Any], plugin: str) -> str:
    """Return the content of PROOF_PATH after a passed smoke test."""
    proof = {
        "schema": PROOF_SCHEMA,
        "plugin": plugin,
        "plugin_sha256": facts["plugin_sums"][plugin],
        "slurm_version": facts["slurm"]["version"],
    }
    return json.dumps(proof, indent=2, sort_keys=True) + "\n"
