# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of the role enroot_pyxis on a node, from the facts of ``role.look`` and its options. Pure.

Steps, in their order: runtime, plugin (files, path, made, source, version, and of Slurm slurm_version, include_dir,
prefix, conf_dir), validated (path, text, mode, validate), links (links), plugstack (options of the module
pyxis_plugstack), command (argv, tolerant), slurmd.
"""

from __future__ import annotations

import dataclasses
import posixpath
import typing as t

from ..system.host import NodeError
from ..system.plan import OUTSIDE, File, Package, Plan, Step, Unit, command, file_due, not_concerned, refused
from ..verdict.result import FAIL, PASS, Result
from . import docker as enroot_docker
from . import enroot_conf, files
from .config import EnrootConfig, RoleConfig
from .downloads import artifact, downloads
from .look import PROOF_PATH, proof_text, proved
from .plugstack_write import PluginRequest, plan_changes
from .pyxis_elf import slurm_release
from .pyxis_options import option_problems
from .slurm import own_plugin

ROLE = "enroot_pyxis"
NO_SLURM = "there is no Slurm on this node, so nothing would start a container"
# Platform names of the publisher's packages of Enroot.
_DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PACKAGES = {"enroot": "enroot", "enroot-caps": "enroot+caps"}
# Docker's package by distribution; other distributions of the family use Docker's own.
_DOCKER_PACKAGES = {"Amazon": "docker"}

Facts = t.Mapping[str, t.Any]


def make_plan(facts: Facts, config: RoleConfig) -> Plan:
    """Return the plan for a node. A node without Slurm is skipped; an unknown fact is not a reason to act."""
    if facts["slurm"] is None:
        return not_concerned(ROLE, NO_SLURM)
    found = refusals(facts, config.enroot, config.build_version)
    if found:
        return refused(ROLE, found, _warnings(facts))
    try:
        software = _software(facts, config)
    except NodeError as exc:
        return refused(ROLE, [str(exc)], _warnings(facts))
    packages = [*software.packages, *_packages(facts, config)]
    found = [*software.problems, *_unknown(facts, packages), *_unknown_holds(facts, config)]
    if found:
        return refused(ROLE, found, _warnings(facts))
    due, validated = _files_due(facts, config.enroot)
    # A look that always starts containers is part of a verification, which writes nothing.
    proof = _proof(facts, config.enroot) if config.probe != "always" else None
    parts = {entry.name for entry in due}
    steps = _runtime(facts, config)
    steps += [software.plugin] if software.plugin else []
    steps += [Step("validated", "docker_daemon", entry) for entry in validated]
    steps += _links(facts, config)
    steps += _plugstack_step(facts, config)
    steps += _effects(facts, config, parts | {"docker_daemon"} if validated else parts)
    notes = [*_warnings(facts), *_unverified_version(facts, config), *_restart_notes(facts, parts, bool(validated))]
    notes += [entry.line() for entry in facts["trial"]] if proof else []
    changed = {"plugin", "plugstack", "slurmd"} & ({step.name for step in steps} | parts)
    if changed and facts["slurm"]["slurmd_unit"]:
        if config.slurmd_restart == "idle":
            steps.append(Step("slurmd", "slurmd, when it is idle"))
        else:
            notes.append(
                "slurmd is not restarted, since enroot_pyxis_slurmd_restart is none: restart it when it is idle"
            )
    ready = facts["prepared"] and facts["unit_enabled"]
    return Plan(
        domain=ROLE,
        notes=tuple(notes),
        refresh=any(not entry.url for entry in packages),
        packages=tuple(packages),
        unhold=_unhold(facts, packages),
        hold=_holds(facts, config, packages),
        files=(*due, *([proof] if proof else [])),
        daemon_reload=any(entry.path in _UNIT_FILES for entry in due),
        units=() if ready and "unit" not in parts else (Unit(files.UNIT, enabled=True, state="restarted"),),
        steps=tuple(steps),
    )


_UNIT_FILES = (files.UNIT_PATH, files.SLURMD_PATH, enroot_docker.DROPIN_PATH)


def refusals(facts: Facts, config: EnrootConfig, build: str = "") -> list[str]:
    """Return one sentence for each reason why nothing may be done on a node with Slurm.

    build is the version of Pyxis to build if none fits, "" for none.
    """
    slurm = facts["slurm"]
    if slurm is None:
        return []
    if slurm["version"] is None:
        return [
            f"queried {slurm['bin_dir']}/scontrol for its version and got none: check that Slurm works on this node"
        ]
    found = [facts["place_refusal"]] if facts["place_refusal"] else []
    plugin = chosen_plugin(facts, config, build)
    if manages_plugstack(config, slurm) and plugin:
        found += option_problems(dict(config.plugin_options), plugin["pyxis_version"])
    found += facts["shadowed"]
    if facts["docker"] is not None and facts["place"] is not None:
        try:
            _daemon_text(facts, config)
        except NodeError as exc:
            found.append(str(exc))
    return found


def has_started(facts: Facts) -> bool:
    """Return whether a container of each user started in this look and no check of it failed."""
    trial: t.Sequence[Result] = facts["trial"]
    started = [entry.status for entry in trial if entry.id == "pyxis.container"]
    return set(started) == {PASS} and FAIL not in [entry.status for entry in trial]


def manages_plugstack(config: EnrootConfig, slurm: t.Mapping[str, t.Any]) -> bool:
    """Return whether this node writes plugstack.conf; by default the node with Slurm's files on its own disk does."""
    if config.manage_plugstack == "auto":
        return bool(slurm["has_conf"] and not slurm["conf_shared"])
    return config.manage_plugstack == "always"


def chosen_plugin(facts: Facts, config: EnrootConfig, build: str) -> dict[str, t.Any] | None:
    """Return the plugin to use: any that fits, or the listed one on a node that cannot change the list.

    ``due`` is true if it must be installed first. None if no plugin fits and none is built.
    """
    version = facts["slurm"]["version"]
    own = own_plugin(version)
    fitting = [plugin for plugin in facts["plugins"] if plugin["fits"]]
    if _must_use_listed(facts, config) and not any(plugin["fits"] for plugin in _listed(facts)):
        fitting = [plugin for plugin in fitting if plugin["path"] == own]
    if fitting:
        return {**fitting[0], "due": False}
    if not build:
        return None
    return {"path": own, "slurm_version": version, "pyxis_version": build, "fits": True, "problem": "", "due": True}


def _listed(facts: Facts) -> list[dict[str, t.Any]]:
    return [plugin for plugin in facts["plugins"] if plugin["listed"]]


def _must_use_listed(facts: Facts, config: EnrootConfig) -> bool:
    """Return whether this node must use the plugin that another node has listed."""
    return bool(_listed(facts)) and not manages_plugstack(config, facts["slurm"])


def _warnings(facts: Facts) -> list[str]:
    return [facts["place"].warning] if facts["place"] is not None and facts["place"].warning else []


@dataclasses.dataclass(frozen=True)
class _Software:
    """Packages of Enroot, the step that installs the plugin, and problems such as unknown checksums."""

    packages: tuple[Package, ...] = ()
    plugin: Step | None = None
    problems: tuple[str, ...] = ()


def _software(facts: Facts, config: RoleConfig) -> _Software:
    """Return what to fetch for Enroot and the plugin, as far as they are missing, and from where."""
    enroot = facts["enroot"]
    if enroot["path"] and enroot["version"] is None:
        raise NodeError(
            f"queried {enroot['path']} for its version and got none, so it is neither kept nor replaced: check that "
            "'enroot version' works, or remove it"
        )
    wanted, platform = _wanted_enroot(facts, config), _platform(facts)
    version = _enroot_version(facts, config, wanted)
    artifacts = [artifact(config.artifacts, name, platform, version) for name in wanted]
    plugin = chosen_plugin(facts, config.enroot, config.build_version)
    is_due = bool(plugin and plugin["due"])
    prebuilt = _prebuilt(facts, config) if is_due else None
    if is_due:
        artifacts.append(prebuilt or artifact(config.artifacts, "pyxis", "any", config.pyxis_version))
    found = downloads(
        artifacts, config.source, config.mirror_url, config.local_files, config.checksums, config.file_names
    )
    problems = [*found["problems"], *(_header_problems(facts) if is_due and not prebuilt else [])]
    packages = [
        Package(_PACKAGES[file["name"]], version, file["url"], file["sha256"])
        for file in found["files"]
        if file["name"] in _PACKAGES
    ]
    step = _plugin_step(facts, config, plugin, found["files"][-1], bool(prebuilt)) if is_due and plugin else None
    return _Software(tuple(packages), step, tuple(problems))


def _plugin_step(facts: Facts, config: RoleConfig, plugin: Facts, file: t.Mapping[str, t.Any], prebuilt: bool) -> Step:
    slurm = facts["slurm"]
    source = f"pyxis-{config.pyxis_version}"
    arguments = {
        "files": [dict(file)],
        "path": plugin["path"],
        "made": file["file"] if prebuilt else f"{source}/spank_pyxis.so",
        "source": "" if prebuilt else source,
        "version": config.pyxis_version,
        "slurm_version": slurm["version"],
        "include_dir": slurm["include_dir"],
        "prefix": slurm["prefix"],
        "conf_dir": slurm["conf_dir"],
    }
    return Step("plugin", "plugin", arguments)


def _header_problems(facts: Facts) -> list[str]:
    """Return why a plugin cannot be built here: a plugin for another Slurm would stop every job."""
    slurm = facts["slurm"]
    if slurm["header_version"] == slurm["version"]:
        return []
    found = f"is of {slurm['header_version']}" if slurm["header_version"] else "is missing"
    return [
        (
            f"Pyxis must be built for Slurm {slurm['version']} and {slurm['include_dir']}/slurm/slurm_version.h "
            f"{found}: install the headers of that Slurm (libslurm-dev, slurm-devel)"
        )
    ]


def _wanted_enroot(facts: Facts, config: RoleConfig) -> list[str]:
    enroot = facts["enroot"]
    other = config.upgrade and enroot["version"] != config.enroot_version
    wanted = ["enroot"] if not enroot["good"] or other else []
    return [*wanted, *(["enroot-caps"] if config.enroot.caps and (not enroot["caps"] or other) else [])]


def _enroot_version(facts: Facts, config: RoleConfig, wanted: t.Sequence[str]) -> str:
    """Return the version of Enroot's packages: the package of capabilities must match the installed Enroot."""
    if "enroot" in wanted:
        return config.enroot_version
    return facts["enroot"]["version"] or config.enroot_version


def _platform(facts: Facts) -> str:
    machine = facts["architecture"]
    if facts["system"]["os_family"] == "Debian":
        return f"deb-{_DEBIAN_ARCHITECTURES.get(machine, machine)}"
    return f"rpm-{machine}"


def _prebuilt(facts: Facts, config: RoleConfig) -> dict[str, t.Any] | None:
    """Return the first prebuilt plugin for this release of Slurm and this architecture."""
    release = slurm_release(facts["slurm"]["version"])
    for entry in config.prebuilt:
        if slurm_release(str(entry["slurm_version"])) == release and entry["architecture"] == facts["architecture"]:
            return {**entry, "name": "pyxis"}
    return None


def docker_packages(facts: Facts, config: RoleConfig) -> list[Package]:
    """Return Docker's packages, each with its version if one is pinned."""
    own = "docker.io" if facts["system"]["os_family"] == "Debian" else "docker-ce"
    names = config.docker_packages or (_DOCKER_PACKAGES.get(facts["system"]["distribution"], own),)
    return [Package.of(entry) for entry in names]


def toolkit_packages(config: RoleConfig) -> list[Package]:
    """Return the packages of the NVIDIA container toolkit."""
    return [Package(name, config.enroot.toolkit_version) for name in config.toolkit_packages]


def _packages(facts: Facts, config: RoleConfig) -> list[Package]:
    found = []
    if facts["docker"] is not None and not facts["docker"]["path"]:
        found += docker_packages(facts, config)
    nvidia, pinned = facts["nvidia"], config.enroot.toolkit_version.partition("-")[0]
    is_other = bool(pinned and nvidia["version"] and nvidia["version"] != pinned)
    if nvidia["driver"] and (not nvidia["tool"] or is_other):
        found += toolkit_packages(config)
    return found


def _unverified_version(facts: Facts, config: RoleConfig) -> list[str]:
    nvidia = facts["nvidia"]
    if not (nvidia["driver"] and nvidia["tool"] and config.enroot.toolkit_version) or nvidia["version"]:
        return []
    return [f"{nvidia['tool']} does not report its version, so enroot_pyxis_toolkit_version is not compared with it"]


def _unknown(facts: Facts, packages: t.Sequence[Package]) -> list[str]:
    if not packages or None not in (facts["package_manager"], facts["system"]["pkg_mgr"]):
        return []
    names = ", ".join(entry.name for entry in packages)
    return [
        (
            f"{names} must be installed, and there is no apt or dnf here, or neither dpkg-query nor rpm answered: "
            "check that 'dpkg-query -W' or 'rpm -qa' ends, then run again"
        )
    ]


def _unknown_holds(facts: Facts, config: RoleConfig) -> list[str]:
    """Return one sentence if packages have to be held and their holds could not be determined."""
    tools = [path for path in ((facts["docker"] or {}).get("path"), facts["nvidia"]["tool"]) if path]
    if not config.hold or not tools or facts["package_manager"] is not None or facts["system"]["pkg_mgr"] is None:
        return []
    return [
        (
            f"could not determine whether the packages of {' and '.join(tools)} are held, since neither dpkg-query nor "
            "rpm answered: check that it ends, then run again"
        )
    ]


def _unhold(facts: Facts, packages: t.Sequence[Package]) -> tuple[str, ...]:
    """Return the packages to release: a held package of another version blocks the wanted one."""
    return tuple(entry.name for entry in packages if facts["held"].get(entry.name))


def _holds(facts: Facts, config: RoleConfig, packages: t.Sequence[Package]) -> tuple[str, ...]:
    """Return the packages to hold, installed or to be installed: Docker if it is wanted, and the toolkit."""
    if not config.hold:
        return ()
    own_packages = docker_packages(facts, config) if facts["docker"] is not None else []
    own_packages += toolkit_packages(config)
    new = {entry.name for entry in packages}
    return tuple(
        name
        for name in dict.fromkeys(entry.name for entry in own_packages)
        if name in new or facts["held"].get(name) is False
    )


def _runtime(facts: Facts, config: RoleConfig) -> list[Step]:
    """Return the step that installs the node runtime, or only its command; the task of the step installs both."""
    if config.runtime_sha256 and facts["sums"][files.RUNTIME_PATH] != config.runtime_sha256:
        return [Step("runtime", "runtime")]
    return [] if facts["sums"][files.COMMAND_PATH] else [Step("runtime", "command")]


def _daemon_text(facts: Facts, config: EnrootConfig) -> str:
    docker = facts["docker"]
    root = enroot_docker.data_root(docker, facts["place"], config.docker_data_root)
    return enroot_docker.daemon_text(docker["daemon"], root, config.docker_daemon, facts["nvidia"]["runtime"])


def _files_due(facts: Facts, config: EnrootConfig) -> tuple[list[File], list[dict[str, t.Any]]]:
    """Return the files to write or remove, and those that a program must validate first."""
    wanted = files.wanted_files(facts, config)
    if facts["docker"] is not None:
        wanted += enroot_docker.files(facts["docker"], _daemon_text(facts, config), facts["place"])
    due: list[File] = []
    validated: list[dict[str, t.Any]] = []
    for entry in wanted:
        path, text = entry["path"], entry["text"]
        # A file with no text is removed.
        file = File(entry["part"], path, text or "", state="absent" if text is None else "present")
        found = file_due(file, facts["sums"][path], facts["states"][path], kept=path == enroot_conf.CONF_PATH)
        # An unchanged text needs no validation and no restart.
        if "validate" in entry and not any(one.name.endswith(OUTSIDE) for one in found):
            validated += [
                {"path": path, "text": one.text, "mode": one.mode, "validate": entry["validate"]} for one in found
            ]
        else:
            due += found
    return due, validated


def _proof(facts: Facts, config: EnrootConfig) -> File | None:
    """Return the proof of a smoke test that passed in this look."""
    plugin = chosen_plugin(facts, config, "")
    if not has_started(facts) or plugin is None or proved(facts, plugin["path"]):
        return None
    return File("proof", PROOF_PATH, proof_text(facts, plugin["path"]))


def _links(facts: Facts, config: RoleConfig) -> list[Step]:
    """Return the links to create: hooks, and the path of a listed, missing plugin as a link to this node's plugin."""
    links = []
    own, listed = own_plugin(facts["slurm"]["version"]), _listed(facts)
    bound = _must_use_listed(facts, config.enroot) and not any(plugin["fits"] for plugin in listed)
    if bound and listed[0]["path"] != own and not listed[0]["exists"]:
        links.append({"path": listed[0]["path"], "target": own})
    links += [
        {"path": path, "target": posixpath.join(files.SHIPPED_HOOKS, posixpath.basename(path))}
        for path, exists in facts["hooks"].items()
        if not exists
    ]
    return [Step("links", "links", {"links": links})] if links else []


def plugstack_wanted(facts: Facts, config: EnrootConfig, build: str) -> dict[str, t.Any] | None:
    """Return the arguments of the module pyxis_plugstack; None if this node writes nothing there."""
    slurm, stack, keyword = facts["slurm"], facts["stack"], config.plugstack_mode
    if not manages_plugstack(config, slurm):
        return None
    plugin = chosen_plugin(facts, config, build)
    if plugin is None:
        # No plugin fits: an existing line must not stop every job.
        if not any(entry.keyword == "required" for entry in stack.pyxis):
            return None
        path, keyword = stack.pyxis[0].plugin, "optional"
    else:
        path = plugin["path"]
        if keyword == "required" and not proved(facts, path) and not has_started(facts):
            keyword = "optional"
    include = config.plugstack_include
    if include == "auto":
        include = "file" if slurm["configless"] else "glob"
    wanted = PluginRequest(path, keyword, dict(config.plugin_options), include, config.duplicates)
    return {**dataclasses.asdict(wanted), "path": slurm["plugstack"], "slurm_version": slurm["version"]}


def _plugstack_step(facts: Facts, config: RoleConfig) -> list[Step]:
    wanted = plugstack_wanted(facts, config.enroot, config.build_version)
    if wanted is None:
        return []
    own = {field.name: wanted[field.name] for field in dataclasses.fields(PluginRequest)}
    return [Step("plugstack", "plugstack", wanted)] if plan_changes(facts["stack"], PluginRequest(**own)) else []


def _effects(facts: Facts, config: RoleConfig, parts: t.Collection[str]) -> list[Step]:
    """Return the commands that apply changed files."""
    found = []
    missing = [path for path, exists in facts["run_directories"].items() if not exists]
    if "tmpfiles" in parts or missing:
        found.append(command("tmpfiles", ["systemd-tmpfiles", "--create", files.TMPFILES_PATH]))
    wanted = {entry["path"]: entry["text"] for entry in files.wanted_files(facts, config.enroot)}
    if "sysctl" in parts and wanted[files.SYSCTL_PATH] is not None:
        found.append(command("sysctl", ["sysctl", "--load", files.SYSCTL_PATH]))
    if "apparmor" in parts and wanted[files.APPARMOR_PATH] is not None:
        found.append(command("apparmor", ["apparmor_parser", "--replace", files.APPARMOR_PATH]))
    if "docker_daemon" in parts and _docker_is_idle(facts):
        # Tolerant, since Docker may run without this unit.
        found.append(command("docker_daemon", ["systemctl", "try-restart", "docker.service"], tolerant=True))
    return found


def _docker_is_idle(facts: Facts) -> bool:
    """Return whether Docker runs no containers; false if their number is unknown, true if Docker is not installed."""
    return not facts["docker"]["path"] or facts["docker"]["containers"] == 0


def _restart_notes(facts: Facts, parts: t.Collection[str], validated: bool) -> list[str]:
    if not (validated or "docker_daemon" in parts) or _docker_is_idle(facts):
        return []
    count = facts["docker"]["containers"]
    found = "it does not report how many containers run" if count is None else f"{count} containers run in it"
    return [f"Docker is not restarted, since {found}: restart it when they have ended"]
