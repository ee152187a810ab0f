# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role nvidia_gds on a node: facts, verdicts, and the report for users and other roles."""

from __future__ import annotations

import typing as t

from ..system.host import Host
from ..system.kernel import kernel_modules
from ..system.mounts import read_mounts
from ..system.packages import package_manager, package_versions
from ..system.plan import Report
from ..system.state import STATE_DIRECTORY
from ..system.versions import version_key
from ..verdict import result
from . import files
from .config import NVFS, GdsConfig
from .decide import advice, survey
from .gdsio import SECONDS as GDSIO_SECONDS
from .gdsio import TRANSFERS, bandwidth
from .packages import asked_names
from .plan import NO_DRIVER, boot_needs, headers_package, is_concerned, kernel_needs, module_here, package_plan
from .verify import verify as verify_mounts

DKMS_TREE = "/var/lib/dkms/nvidia-fs"
# Written by the roles nvme_raid0 and fsx_lustre.
LOCAL_STORAGE = f"{STATE_DIRECTORY}/local_storage.json"
LUSTRE = "/etc/mlcluster/lustre.json"
# Options of a look that only reads.
READ_ONLY: dict[str, t.Any] = {"probe": "passive", "bandwidth": False}
_OTHER_SECONDS = 120
# Probes of ``decide.probe_mount`` for a mount.
_PROBES = 4

Facts = t.Mapping[str, t.Any]


def seconds(config: GdsConfig) -> float:
    """Return the time limit of the look, in seconds."""
    mounts = max(len(config.mounts), 4)
    measured = mounts * GDSIO_SECONDS * len(TRANSFERS) if config.bandwidth else 0
    return _OTHER_SECONDS + config.probe_timeout * (1 + mounts * _PROBES) + measured


def look(host: Host, config: GdsConfig) -> dict[str, t.Any]:
    """Return ``decide.survey`` and manager, kernel_modules, packages, files, paths, fsx, dkms_log and measured."""
    fsx = lustre_mounts(host)
    asked = list(config.mounts) or list(dict.fromkeys([*local_paths(host), *(entry["path"] for entry in fsx)]))
    facts = survey(host, asked, config.probe == "active", config.library, config.probe_timeout)
    facts["manager"] = package_manager(host)
    facts["kernel_modules"] = kernel_modules(host)
    headers = headers_package(facts, config)
    facts["packages"] = package_versions(host, asked_names([*config.packages, *([headers] if headers else [])]))
    facts["files"] = {path: host.sha256(path) for path in files.PATHS}
    facts["paths"] = {path: host.stat(path) for path in files.PATHS}
    facts["fsx"] = fsx
    facts["dkms_log"] = build_log(host, config.dkms_log_lines) if module_problems(facts, config) else None
    can_measure = config.bandwidth and facts["driver"]["loaded"] and facts["tools"]["gdsio"]
    facts["measured"] = (
        [bandwidth(facts, mount, config.bandwidth_mib) for mount in facts["mounts"]] if can_measure else []
    )
    return facts


def local_paths(host: Host) -> list[str]:
    """Return the paths of the volumes of the role nvme_raid0."""
    record = host.read_json(LOCAL_STORAGE)
    if not isinstance(record, dict) or record.get("state") in (None, "none"):
        return []
    volumes = record.get("volumes") or [record]
    return [entry["path"] for entry in volumes if isinstance(entry, dict) and isinstance(entry.get("path"), str)]


def lustre_mounts(host: Host) -> list[dict[str, t.Any]]:
    """Return the mounted file systems of the role fsx_lustre: [{path, efa: bool, or None if not recorded}]."""
    asked = host.read_json(LUSTRE)
    systems = asked.get("file_systems") if isinstance(asked, dict) else None
    targets = {mount["target"] for mount in read_mounts(host) if mount["fstype"] == "lustre"}
    return [
        {"path": entry["path"], "efa": entry.get("efa")}
        for entry in systems or []
        if isinstance(entry, dict) and entry.get("path") in targets
    ]


def build_log(host: Host, lines: int) -> dict[str, str] | None:
    """Return path and text: the end of the log of DKMS's last failed build; DKMS moves the log of a successful one."""
    for version in sorted(host.listdir(DKMS_TREE), key=version_key, reverse=True):
        path = f"{DKMS_TREE}/{version}/build/make.log"
        text = host.read_text(path)
        if text is not None:
            return {"path": path, "text": "\n".join(text.splitlines()[-lines:])}
    return None


def module_problems(facts: Facts, config: GdsConfig) -> list[str]:
    """Return a sentence for each kernel that lacks nvidia-fs."""
    if config.mode != NVFS or not is_concerned(facts, config):
        return []
    modules, found = facts["kernel_modules"], []
    running, following = modules["running"], modules["next"]
    if not module_here(facts) and not config.image_build:
        found.append(f"nvidia-fs is missing for the running kernel {running}")
    is_other = following and (following != running or config.image_build)
    if is_other and not modules["installed"].get(following):
        found.append(f"nvidia-fs is missing for kernel {following}, which the next boot uses")
    return found


def verify(facts: Facts, config: GdsConfig) -> list[result.Result]:
    """Return the verdicts on the mounts, and those of the role itself."""
    if not is_concerned(facts, config):
        text = f"nvidia_gds_required is true and {NO_DRIVER}: install one, or leave the node out"
        return [result.failed("gds.driver", text, "reset")] if config.required else []
    # The mounts of a machine that only makes an image prove nothing.
    found = [] if config.image_build else verify_mounts(dict(facts), config.required_modes)
    return [*found, *_packages(facts, config), *_kernel_modules(facts, config), *_lustre(facts, config)]


def _packages(facts: Facts, config: GdsConfig) -> list[result.Result]:
    missing = package_plan(facts, config)["missing"]
    if config.install_enabled or not missing:
        return []
    text = f"packages are missing and nvidia_gds_install_enabled is false: {', '.join(missing)}"
    return [result.failed("gds.packages", text)]


def _kernel_modules(facts: Facts, config: GdsConfig) -> list[result.Result]:
    found = module_problems(facts, config)
    return [result.failed("gds.kernel_module", text) for text in found]


def _lustre(facts: Facts, config: GdsConfig) -> list[result.Result]:
    found = []
    for entry in facts["fsx"] if config.mode == NVFS else ():
        path = entry["path"]
        scope = result.Scope(device=path)
        if entry["efa"] is None:
            text = f"{path} is FSx for Lustre and {LUSTRE} does not record whether it uses EFA"
            found.append(result.undeterminable("gds.fsx", text, scope=scope))
        elif not entry["efa"]:
            text = (
                f"{path} is FSx for Lustre without EFA: GPUDirect Storage needs a PERSISTENT_2 file system made with "
                "EFA enabled and a client set up for it"
            )
            found.append(result.failed("gds.fsx", text, scope=scope))
    return found


def report(facts: Facts, config: GdsConfig) -> Report:
    """Return the report for users besides verdicts, and the fact ``mlcluster_gds``."""
    if not is_concerned(facts, config):
        return Report(facts={"mlcluster_gds": {"mounts": {}, "reboot_needed": [], "bandwidth": []}})
    driver, wanted = facts["driver"], package_plan(facts, config)
    licence = "open" if driver["open_module"] else "proprietary or unknown"
    driver_line = f"driver {driver['version'] or 'none'} ({licence} kernel module by {driver['evidence'] or 'nothing'})"
    report_lines = [f"{driver_line}, CUDA {wanted['cuda'] or 'unknown'} by {wanted['evidence'] or 'nothing'}"]
    measured = [entry.line() for entry in facts["measured"]]
    report_lines += measured
    report_lines += advice(dict(facts)) if config.layout_advice else []
    reboot_for = boot_needs(facts, config) + kernel_needs(facts, config)
    if reboot_for:
        place = files.REVIEW if config.safe_mode else files.MODPROBE
        report_lines.append(
            f"reboot needed for {'; '.join(reboot_for)}; the settings are in {place}, and nothing was rebooted"
        )
    details, log = [], facts["dkms_log"]
    if log:
        details.append(f"DKMS could not build nvidia-fs; the last lines of {log['path']} are:\n{log['text']}")
    modes = {"mounts": {mount["path"]: mount["mode"] for mount in facts["mounts"]}}
    return Report(
        info=tuple(report_lines),
        details=tuple(details),
        facts={"mlcluster_gds": {**modes, "reboot_needed": reboot_for, "bandwidth": measured}},
    )
