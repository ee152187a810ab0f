# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of the role fsx_lustre on a node, from the facts of ``role.look`` and its options. Pure.

Steps, in their order: repository (path, text), runtime, efa_client (archive, sha256, arguments), mounts (lines, state),
directories (options of the module lustre_directories), tuning.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import typing as t

from ..system.job_steps import jobs_problem
from ..system.plan import File, Package, Plan, Step, Unit, file_due, not_concerned, refused
from . import files
from .config import CONFIG_PATH, RoleConfig

ROLE = "fsx_lustre"
NOTHING = "no Lustre file system is configured, mounted or in fstab on this node"
SWITCH = "fsx_lustre_safe_mode"
# The client's packages by distribution, else by its family. Ubuntu has one package for each kernel: AWS's package
# without a kernel in its name would install another kernel.
CLIENTS = {"Amazon": ("lustre-client",), "RedHat": ("kmod-lustre-client", "lustre-client")}
CLIENT_OF_A_KERNEL = {"Ubuntu": "lustre-client-modules-"}

Facts = t.Mapping[str, t.Any]


def make_plan(facts: Facts, config: RoleConfig) -> Plan:
    """Return the plan for a node. A node without Lustre is skipped; an unknown fact is not a reason to act."""
    if not is_concerned(facts, config):
        return not_concerned(ROLE, NOTHING)
    packages = missing_packages(facts, config)
    efa = _lacks_efa(facts, config)
    refusals = _refusals(facts, config, packages, efa)
    if refusals:
        return refused(ROLE, refusals)
    due = _files_due(facts, config)
    unit = _wants_unit(facts, config)
    return Plan(
        domain=ROLE,
        refresh=bool(packages),
        packages=tuple(Package(name) for name in packages or ()),
        hold=_holds(facts, config, packages or ()),
        files=tuple(due),
        daemon_reload=any(entry.path == files.UNIT_PATH for entry in due),
        units=(Unit(files.BOOT_UNIT, enabled=True),) if unit and not facts["boot_unit_enabled"] else (),
        steps=tuple(_steps(facts, config, packages, efa)),
    )


def bare_kernels(facts: Facts) -> list[str]:
    """Return which of the running and the next kernel lack the module lustre; an unknown release is left out."""
    kernel = facts["kernel"]
    known = dict.fromkeys(release for release in (kernel["running"], kernel["next"]) if release)
    return [release for release in known if not kernel["installed"].get(release)]


def missing_packages(facts: Facts, config: RoleConfig) -> list[str] | None:
    """Return the client's packages to install; None if the client is missing and its packages are unknown."""
    tools = facts["tools"]
    # Without modinfo it is unknown which kernel lacks the module.
    bare = bare_kernels(facts) if tools["modinfo"] else []
    if not _has_lustre(facts, config) or (tools["lfs"] and tools["lctl"] and not bare):
        return []
    name, family = facts["system"]["distribution"], facts["system"]["os_family"]
    prefix = CLIENT_OF_A_KERNEL.get(name)
    known = CLIENTS.get(name, CLIENTS.get(family, ()))
    own = [f"{prefix}{release}" for release in bare_kernels(facts)] if prefix else known
    return list(config.packages or own) or None


def _refusals(facts: Facts, config: RoleConfig, packages: t.Sequence[str] | None, efa: bool) -> list[str]:
    if packages is None:
        where = facts["system"]["distribution"] or "this distribution, which /etc/os-release does not name"
        problem = (
            f"the node lacks the Lustre client for its kernels, and AWS has none for {where}: install one, or list its "
            "packages in fsx_lustre_packages"
        )
        return [problem]
    found = []
    if packages and None in (facts["package_manager"], facts["system"]["pkg_mgr"]):
        found.append(
            f"{', '.join(packages)} must be installed, and there is no apt or dnf here, or neither dpkg-query nor rpm "
            "answered: check that 'dpkg-query -W' or 'rpm -qa' ends, then run again"
        )
    if config.repository and facts["system"]["os_family"] not in files.REPOSITORY_PATHS:
        found.append(
            "fsx_lustre_repository is set, and /etc/os-release names no distribution with apt or dnf: leave it empty "
            "and add the repository to the image"
        )
    change = ", ".join(packages) or ("the set-up of EFA" if efa else "")
    busy = jobs_problem(facts["steps"], change, SWITCH) if change and config.safe_mode else None
    return found + ([busy] if busy else [])


def is_concerned(facts: Facts, config: RoleConfig) -> bool:
    """Return whether the role applies: the node has or wants a shared file system, or becomes an image."""
    return bool(config.image_build or facts["mounts"] or facts["nfs_mounts"])


def _has_lustre(facts: Facts, config: RoleConfig) -> bool:
    return bool(config.image_build or facts["mounts"])


def _wants_unit(facts: Facts, config: RoleConfig) -> bool:
    """Return whether a boot has parameters to set or EFA to prove."""
    tuned = config.lustre.tune and (facts["tuning_wanted"] > 0 or config.image_build)
    return _has_lustre(facts, config) and bool(tuned or _with_efa(facts))


def _with_efa(facts: Facts) -> bool:
    return any(mount["efa"] for mount in facts["mounts"])


def _lacks_efa(facts: Facts, config: RoleConfig) -> bool:
    """Return whether LNet has too few EFA interfaces; false for an image, which runs on another machine."""
    if not config.efa_client or config.image_build or not _with_efa(facts):
        return False
    # If LNet is loaded and lnetctl fails, the number of interfaces is unknown; without the module there are none.
    if facts["net_problem"] and facts["lnet_loaded"] and facts["tools"]["lnetctl"]:
        return False
    return bool(facts["nets"].get("efa", {"up": 0})["up"] < facts["efa_wanted"])


def _holds(facts: Facts, config: RoleConfig, packages: t.Sequence[str]) -> tuple[str, ...]:
    """Return the packages to hold, installed or to be installed."""
    if not config.hold:
        return ()
    patterns = config.hold_packages or files.HELD.get(facts["system"]["os_family"], ())
    new = [name for name in packages if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    return tuple(dict.fromkeys([*facts["unheld_packages"], *new]))


def _files_due(facts: Facts, config: RoleConfig) -> list[File]:
    unit, has_lustre = _wants_unit(facts, config), _has_lustre(facts, config)
    text = files.boot_unit(facts["mount_units"], _with_efa(facts)) if unit else ""
    wanted = [
        _wanted("config", CONFIG_PATH, facts["config_text"]),
        _wanted("boot unit", files.UNIT_PATH, text),
        _wanted("module options", files.MODPROBE_PATH, facts["modprobe_text"] if has_lustre else ""),
    ]
    if not unit:
        wanted.append(_wanted("boot unit", files.ENABLED, ""))
    if config.lustre.tune and None in facts["machine"].values():
        # A machine of unknown size may need these files, so none is removed.
        wanted = [entry for entry in wanted if entry.state == "present"]
    sums, states = facts["files"], facts["paths"]
    return [due for entry in wanted for due in file_due(entry, sums[entry.path], states[entry.path])]


def _wanted(name: str, path: str, text: str) -> File:
    """Return a file with this text, or its removal if the text is empty."""
    return File(name, path, text, state="present" if text else "absent")


def _steps(facts: Facts, config: RoleConfig, packages: t.Sequence[str] | None, efa: bool) -> list[Step]:
    found = []
    place = files.REPOSITORY_PATHS.get(facts["system"]["os_family"])
    if config.repository and place:
        due = file_due(File("repository", place, config.repository), facts["files"][place], facts["paths"][place])
        found += [Step("repository", "repository", dataclasses.asdict(entry)) for entry in due]
    # The task of this step installs the runtime and its command together.
    if config.runtime_sha256 and facts["files"][files.RUNTIME_PATH] != config.runtime_sha256:
        found.append(Step("runtime", "runtime"))
    elif not facts["files"][files.COMMAND_PATH]:
        found.append(Step("runtime", "command"))
    if efa:
        archive = {"archive": config.efa_client, "sha256": config.efa_client_sha256}
        found.append(Step("efa_client", "EFA client", {**archive, "arguments": list(config.efa_client_arguments)}))
    lines = unmounted(facts, config)
    if lines:
        state = "present" if config.image_build else "mounted"
        found.append(Step("mounts", "mounts", {"lines": lines, "state": state}))
    if config.head_node and _directories_due(facts, bool(lines)):
        found.append(Step("directories", "directories", _wanted_directories(config)))
    if _untuned(facts, config, bool(lines or packages)):
        found.append(Step("tuning", "tuning"))
    return found


def unmounted(facts: Facts, config: RoleConfig) -> list[dict[str, str]]:
    """Return the lines of fstab to write, {path, source, options}, for this role's file systems.

    Lines of other programs are kept. An image has nothing mounted.
    """
    states = () if config.image_build else ("absent", "trigger")
    found = []
    for mount in facts["mounts"]:
        options = files.mount_options(config.mount_options, mount["efa"])
        if not mount["dns_name"] or mount["line"] == "other":
            continue
        if mount["line"] == "none" or mount["fstab_options"] != options or mount["state"] in states:
            source = f"{mount['dns_name']}@tcp:/{mount['mount_name']}"
            found.append({"path": mount["path"], "source": source, "options": options})
    return found


def _directories_due(facts: Facts, mounts: bool) -> bool:
    # Directories below a file system that is not mounted yet are unknown.
    states = {"missing", "unknown"} if mounts else {"missing"}
    return any(row["state"] in states for row in facts["directories"])


def _wanted_directories(config: RoleConfig) -> dict[str, t.Any]:
    """Return the options of the module lustre_directories."""
    plain = dataclasses.asdict(config.lustre)
    return {key: plain[key] for key in ("file_systems", "directories", "timeout")}


def _untuned(facts: Facts, config: RoleConfig, changes: bool) -> bool:
    """Return whether parameters differ now, or this run's changes (a mount or an installation) will reset them."""
    if config.image_build or not _wants_unit(facts, config) or not config.lustre.tune or not facts["tuning_wanted"]:
        return False
    return changes or any(row["differs"] for row in facts["tuning"])
