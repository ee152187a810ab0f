# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm on the node, its files, and the Pyxis plugins that are installed."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ..slurm.client import PCS_SCHEDULERS, Slurm, find_prefix, node_name
from ..slurm.look import ON_NODES
from ..system.host import CommandError, NodeError
from ..system.job_steps import running_steps
from ..system.mounts import SHARED_FILESYSTEMS, find_mount, read_mounts
from .host import EnrootHost
from .plugstack import PLUGIN_NAME, Stack
from .pyxis_elf import ElfError, read_spank_plugin, slurm_release, slurm_version_text

# AWS PCS has the configuration of a version below this folder (docs.aws.amazon.com/pcs, spank_configure).
PCS_CONFIGURATIONS = "/etc/aws/pcs/scheduler"
CONF_DIRECTORIES = ("/etc/slurm", "/etc/slurm-llnl")

# One directory for each Slurm version: nodes of two versions must never share a file.
OWN_PLUGINS = "/usr/local/lib/mlcluster/pyxis"
# Directories of the plugin in ParallelCluster, the Deep Learning AMIs and packages.
PLUGIN_DIRECTORIES = ("/usr/local/lib/slurm", "/usr/lib/slurm", "/usr/lib64/slurm")

# Time limit for the controller's answer.
_ASK_SECONDS = 20.0


def look(host: EnrootHost, prefix: str = "", conf_dir: str = "") -> dict[str, t.Any] | None:
    """Return facts about Slurm, or None on a node without it.

    {"prefix", "bin_dir", "version", "header_version", "include_dir", "conf_dir", "conf_fstype", "conf_shared",
    "has_conf", "plugstack", "configless", "plugin_directories", "slurmd_unit", "steps"}; versions as "23.11.10".
    """
    prefix = prefix or find_prefix(host, "srun") or ""
    if not prefix:
        found = host.which("srun")
        if not found:
            return None
        prefix = posixpath.dirname(posixpath.dirname(found))
    srun = f"{prefix}/bin/srun"
    if not host.exists(srun):
        return None
    conf_dir = conf_dir or _conf_dir(host, prefix)
    settings = slurm_settings(host.read_text(f"{conf_dir}/slurm.conf") or "")
    entry = find_mount(conf_dir, read_mounts(host))
    fstype = entry["fstype"] if entry else "unknown"
    return {
        "prefix": prefix,
        "bin_dir": f"{prefix}/bin",
        "version": _running_version(host, prefix),
        "header_version": _header_version(host, prefix),
        "include_dir": f"{prefix}/include",
        "conf_dir": conf_dir,
        "conf_fstype": fstype,
        "conf_shared": fstype in SHARED_FILESYSTEMS,
        "has_conf": host.exists(f"{conf_dir}/slurm.conf"),
        "plugstack": settings.get("plugstackconfig") or f"{conf_dir}/plugstack.conf",
        "configless": "enable_configless" in settings.get("slurmctldparameters", "").lower().split(","),
        "plugin_directories": _plugin_directories(prefix, settings),
        "slurmd_unit": _has_unit(host, "slurmd.service"),
        "steps": running_steps(host),
    }


def slurm_settings(text: str) -> dict[str, str]:
    """Return the settings of slurm.conf by lower-case name; node and partition lines are skipped."""
    settings = {}
    for line in text.splitlines():
        found = re.fullmatch(r"\s*([A-Za-z]+)\s*=\s*(\S[^#]*?)\s*(?:#.*)?", line)
        if found and found.group(1).lower() not in ("nodename", "partitionname", "nodeset", "downnodes"):
            settings[found.group(1).lower()] = found.group(2)
    return settings


def busy(host: EnrootHost, slurm: t.Mapping[str, t.Any]) -> str:
    """Return why slurmd of this node must not be restarted, in a few words; empty if no job has the node.

    A job has its node from its allocation on, also while it runs no step, as between the commands of salloc: only the
    controller knows such jobs. If the controller does not answer, the node counts as busy.
    """
    steps = running_steps(host)
    if steps is None:
        return "could not determine which jobs have the node (/proc shows no process)"
    if steps:
        return f"steps of jobs run on the node ({steps})"
    conf = f"{slurm['conf_dir']}/slurm.conf" if slurm["has_conf"] else None
    node = node_name()
    arguments = ("--noheader", "--all", f"--states={ON_NODES}", f"--nodelist={node}", "--format=%i")
    try:
        output = Slurm(host, slurm["prefix"], conf, local=True).ask("squeue", *arguments, timeout=_ASK_SECONDS)
    except NodeError as exc:
        return f"could not determine which jobs have the node {node} ({exc})"
    jobs = output.split()
    return f"jobs have the node ({', '.join(jobs[:5])}{', ...' if len(jobs) > 5 else ''})" if jobs else ""


def own_plugin(slurm_version: str) -> str:
    """Return the path at which the role installs the plugin for this Slurm."""
    return f"{OWN_PLUGINS}/{slurm_version}/{PLUGIN_NAME}"


def plugins(host: EnrootHost, slurm: t.Mapping[str, t.Any], stack: Stack) -> list[dict[str, t.Any]]:
    """Return every Pyxis plugin on the node, the listed ones first.

    [{"path", "exists", "listed", "slurm_version", "pyxis_version", "fits", "problem"}]; fits: this Slurm loads it.
    """
    listed = [_full_path(host, entry.plugin, slurm) for entry in stack.pyxis]
    places = [*listed, own_plugin(slurm["version"] or "unknown")]
    places += [posixpath.join(directory, PLUGIN_NAME) for directory in slurm["plugin_directories"]]
    found = []
    for path in dict.fromkeys(places):
        if path in listed or host.exists(path):
            known = {"listed": path in listed, "exists": host.exists(path)}
            found.append({**check_plugin(host, path, slurm["version"]), **known})
    return found


def check_plugin(host: EnrootHost, path: str, slurm_version: str | None) -> dict[str, t.Any]:
    """Return {"path", "slurm_version", "pyxis_version", "fits", "problem"} of one plugin file."""
    answer: dict[str, t.Any] = {"path": path, "slurm_version": None, "pyxis_version": None, "fits": False}
    data = host.read_bytes(path)
    if data is None:
        return {**answer, "problem": f"{path} is missing or unreadable"}
    try:
        plugin = read_spank_plugin(data)
    except ElfError as exc:
        return {**answer, "problem": f"{path} is not a plugin for Slurm: {exc}"}
    answer.update(slurm_version=plugin.slurm_version, pyxis_version=plugin.pyxis_version)
    answer["fits"] = slurm_release(plugin.slurm_version) == slurm_release(slurm_version)
    if answer["fits"]:
        return {**answer, "problem": ""}
    return {**answer, "problem": f"{path} was built for Slurm {plugin.slurm_version} and this node has {slurm_version}"}


def _full_path(host: EnrootHost, plugin: str, slurm: t.Mapping[str, t.Any]) -> str:
    if plugin.startswith("/"):
        return plugin
    places = [posixpath.join(directory, plugin) for directory in slurm["plugin_directories"]]
    return next((path for path in places if host.exists(path)), places[0])


def _conf_dir(host: EnrootHost, prefix: str) -> str:
    choices = [f"{prefix}/etc"] if prefix not in ("/usr", "/usr/local") else []
    if prefix.startswith(f"{PCS_SCHEDULERS}/"):
        choices.insert(0, f"{PCS_CONFIGURATIONS}/{posixpath.basename(prefix)}")
    choices += [*CONF_DIRECTORIES, f"{prefix}/etc"]
    return next((path for path in choices if host.exists(f"{path}/slurm.conf")), choices[0])


def _running_version(host: EnrootHost, prefix: str) -> str | None:
    # Not srun: it loads the plugins first, and a plugin that does not fit stops it even here.
    try:
        output = host.run([f"{prefix}/bin/scontrol", "--version"], timeout=30).stdout
    except CommandError:
        return None
    found = re.search(r"\b(\d+\.\d+\.\d+)", output)
    return found.group(1) if found else None


def _header_version(host: EnrootHost, prefix: str) -> str | None:
    text = host.read_text(f"{prefix}/include/slurm/slurm_version.h") or ""
    found = re.search(r"#define\s+SLURM_VERSION_NUMBER\s+0x([0-9a-fA-F]+)", text)
    return slurm_version_text(int(found.group(1), 16)) if found else None


def _plugin_directories(prefix: str, settings: t.Mapping[str, str]) -> list[str]:
    configured = [path for path in settings.get("plugindir", "").split(":") if path.startswith("/")]
    # Debian's packages use a directory of the architecture.
    debian = [f"/usr/lib/{machine}-linux-gnu/{name}" for machine in ("x86_64", "aarch64") for name in _DEBIAN_NAMES]
    return list(dict.fromkeys([*configured, *PLUGIN_DIRECTORIES, f"{prefix}/lib/slurm", *debian]))


_DEBIAN_NAMES = ("slurm-wlm", "slurm")


def _has_unit(host: EnrootHost, name: str) -> bool:
    return any(
        host.exists(f"{place}/{name}")
        for place in ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
    )
