# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on containers: installed software, Slurm's plugin, directories for images, and a container that starts."""

from __future__ import annotations

import re
import typing as t

from ..system.host import CommandError
from ..system.mounts import SHARED_FILESYSTEMS, find_mount, read_mounts
from ..verdict.result import Result, failed, not_applicable, passed, undeterminable
from . import docker as enroot_docker
from . import enroot_conf
from . import files as enroot_files
from . import local_directories as enroot_local
from .config import EnrootConfig
from .host import EnrootHost
from .pyxis_elf import slurm_release
from .pyxis_options import option_problems, parse_words
from .smoke import node_state, smoke

RERUN = "run the role enroot_pyxis again"
LOADED_PROFILES = "/sys/kernel/security/apparmor/profiles"
# A line of the kernel's list: the name of a profile, and its mode in parentheses.
_PROFILE = re.compile(r"^(\S+) \(([a-z]+)\)$", re.MULTILINE)


def verify(
    host: EnrootHost,
    facts: t.Mapping[str, t.Any],
    refusals: t.Sequence[str],
    config: EnrootConfig,
    probe: bool = False,
) -> list[Result]:
    """Return all verdicts, with ids beginning enroot. and pyxis.; probe also starts containers.

    refusals are those of ``plan.refusals``: if there are any, they are the only verdicts.
    """
    slurm = facts["slurm"]
    if slurm is None:
        return [not_applicable("enroot.slurm", "there is no Slurm on this node, so nothing would start a container")]
    if refusals:
        return [failed("enroot.plan", text, severity="none") for text in refusals]
    results = [
        _enroot(facts["enroot"]),
        _caps(facts["enroot"], config),
        _plugin(facts),
        _plugstack(facts),
        _loaded(host, facts),
        _conf(host, config),
        _local(host, facts),
        _runtime(host, config),
        *_user_namespaces(facts["kernel"], host),
        _nvidia(facts["nvidia"], config),
        _boot_unit(host),
        node_state(host, slurm["bin_dir"]),
    ]
    if facts["docker"] is not None:
        results.append(enroot_docker.verdict(host, facts["docker"]))
    if probe:
        results += smoke(host, slurm["bin_dir"], config.smoke_image, config.smoke_users, config.smoke_seconds)
    return results


def _enroot(enroot: t.Mapping[str, t.Any]) -> Result:
    if enroot["good"]:
        return passed("enroot.version", enroot["version"], source="Pyxis needs Enroot 3.1.0 or newer")
    if enroot["path"] and enroot["version"] is None:
        return undeterminable(
            "enroot.version", f"{enroot['path']} does not report its version: Pyxis needs 3.1.0 or newer"
        )
    found = enroot["version"] or "no enroot"
    return failed("enroot.version", f"found {found}, and Pyxis needs Enroot 3.1.0 or newer", hint=RERUN)


def _caps(enroot: t.Mapping[str, t.Any], config: EnrootConfig) -> Result:
    if not config.caps:
        return not_applicable("enroot.caps", "this node is not to import images")
    if enroot["caps"]:
        return passed("enroot.caps", "ordinary users can import images")
    return failed(
        "enroot.caps",
        "enroot-aufs2ovlfs has no capabilities, so ordinary users cannot import docker:// images",
        hint="install the package enroot+caps, or set enroot_pyxis_caps: false",
    )


def _plugin(facts: t.Mapping[str, t.Any]) -> Result:
    check, version = "pyxis.plugin", facts["slurm"]["version"]
    listed = [plugin for plugin in facts["plugins"] if plugin["listed"]]
    if not listed:
        return failed(check, "plugstack.conf lists no Pyxis plugin", hint=RERUN)
    bad = [plugin["problem"] for plugin in listed if not plugin["fits"]]
    if bad:
        return failed(check, "; ".join(bad), severity="isolate", hint="build Pyxis for this Slurm: " + RERUN)
    plugin = listed[0]
    own = plugin["pyxis_version"] or "of unknown version"
    note = f"Slurm compares the release, {slurm_release(version)}"
    return passed(check, f"Pyxis {own} for Slurm {plugin['slurm_version']} at {plugin['path']}", source=note)


def _plugstack(facts: t.Mapping[str, t.Any]) -> Result:
    stack = facts["stack"]
    found = list(stack.problems)
    for plugin in facts["plugins"]:
        for entry in stack.pyxis if plugin["listed"] else ():
            if entry.plugin == plugin["path"]:
                found += option_problems(parse_words(entry.options), plugin["pyxis_version"])
    if found:
        return failed("pyxis.plugstack", "; ".join(dict.fromkeys(found)), severity="isolate")
    if not stack.pyxis:
        return failed("pyxis.plugstack", f"{stack.path} does not list Pyxis", hint=RERUN)
    entry = stack.pyxis[0]
    return passed("pyxis.plugstack", f"{entry.keyword} in {entry.file}, listed once")


def _loaded(host: EnrootHost, facts: t.Mapping[str, t.Any]) -> Result:
    """Return the verdict from srun's help, because srun does not report an include that matches no file."""
    check = "pyxis.loaded"
    try:
        completed = host.run([f"{facts['slurm']['bin_dir']}/srun", "--help"], timeout=60)
    except CommandError as exc:
        return undeterminable(check, f"srun --help gave no answer: {exc}")
    count = len(re.findall(r"^\s+--container-image=", completed.stdout, re.MULTILINE))
    twice = "provided by both" in completed.stderr + completed.stdout
    if twice:
        return failed(check, "srun warns that two plugins offer --container-image", hint="keep one of the two lines")
    if count == 1:
        return passed(check, "srun --help has --container-image once")
    if count:
        return failed(check, f"srun --help has --container-image {count} times", hint="keep one line of Pyxis")
    errors = " ".join(completed.stderr.split())
    return failed(
        check,
        "srun --help has no --container-image, so Pyxis is not loaded" + (f": {errors}" if errors else ""),
        severity="isolate",
    )


def _conf(host: EnrootHost, config: EnrootConfig) -> Result:
    now = enroot_conf.effective(host)
    wanted = enroot_conf.wanted_settings(config.conf, bool(config.credentials))
    off = [
        f"{key} is {now[key].value if key in now else 'not set'}" for key in wanted if _value(now, key) != wanted[key]
    ]
    if off:
        return failed("enroot.conf", f"Enroot would not read the wanted settings: {'; '.join(off)}", hint=RERUN)
    shared = []
    table = read_mounts(host)
    for key in ("ENROOT_DATA_PATH", "ENROOT_CACHE_PATH", "ENROOT_TEMP_PATH", "ENROOT_RUNTIME_PATH"):
        base = enroot_conf.base_of(_value(now, key) or "")
        entry = find_mount(base, table) if base else None
        if entry and entry["fstype"] in SHARED_FILESYSTEMS:
            shared.append(f"{key} is on {SHARED_FILESYSTEMS[entry['fstype']]}")
    if shared:
        return failed("enroot.conf", f"{'; '.join(shared)}, where Enroot cannot unpack", hint="use a local directory")
    return passed("enroot.conf", f"{len(wanted)} settings as wanted")


def _value(settings: t.Mapping[str, enroot_conf.Setting], key: str) -> str | None:
    return settings[key].value if key in settings else None


def _local(host: EnrootHost, facts: t.Mapping[str, t.Any]) -> Result:
    place = facts["place"]
    if not enroot_local.is_prepared(host, place):
        return failed("enroot.local", f"{place.path} is not ready for images of all users", hint=RERUN)
    free = host.free_bytes(place.path)
    gib = f"{free / 2**30:.0f} GiB free" if free is not None else "free space unknown"
    return passed("enroot.local", f"{place.path} ({place.kind}, {place.fstype}), {gib}", message=place.warning or None)


def _runtime(host: EnrootHost, config: EnrootConfig) -> Result:
    check, path = "enroot.runtime", enroot_conf.RUNTIME_DIRECTORY
    missing = [other for other in enroot_files.run_directories(config) if not host.is_dir(other)]
    if missing:
        return failed(check, f"{', '.join(missing)} is missing: every boot creates it", hint=RERUN)
    entry = find_mount(path, read_mounts(host))
    if entry is None or entry["fstype"] not in ("tmpfs", "ramfs"):
        kind = entry["fstype"] if entry else "unknown"
        return failed(check, f"{path} is on {kind}: runtime files belong on tmpfs", severity="none")
    free = host.free_bytes(path)
    if free is None:
        return undeterminable(check, f"statvfs gave no answer for {path}")
    fields: dict[str, t.Any] = {"expected": config.runtime_min_mib, "found": free >> 20, "unit": "MiB"}
    if free >> 20 < config.runtime_min_mib:
        hint = "make the tmpfs larger, or set runtime_path in enroot_pyxis_plugin_options to a local disk"
        return failed(check, f"{path} has little space for imports", hint=hint, **fields)
    return passed(check, **fields)


def _user_namespaces(kernel: t.Mapping[str, int | None], host: EnrootHost) -> list[Result]:
    check, maximum = "enroot.userns", kernel["max_user_namespaces"]
    if maximum is None:
        return [failed(check, "this kernel has no user namespaces (CONFIG_USER_NS)", severity="isolate")]
    if maximum < 2 or kernel["unprivileged_userns_clone"] == 0:
        return [failed(check, "ordinary users may not create user namespaces on this node", hint=RERUN)]
    results = [passed(check, maximum, unit="user namespaces")]
    if kernel["apparmor_restrict_unprivileged_userns"] == 1:
        results.append(_apparmor(host))
    return results


def _apparmor(host: EnrootHost) -> Result:
    """Return whether a profile that allows user namespaces is loaded: the file of a profile does nothing by itself."""
    check = "enroot.apparmor"
    profiles = [path for path in (enroot_files.SHIPPED_APPARMOR, enroot_files.APPARMOR_PATH) if host.exists(path)]
    if not profiles:
        text = "AppArmor restricts user namespaces and no profile allows them to enroot-nsenter"
        return failed(check, text, hint=RERUN)
    loaded = host.read_text(LOADED_PROFILES)
    if loaded is None:
        return undeterminable(
            check, f"{profiles[0]} exists, and {LOADED_PROFILES} cannot be read", hint="run it as root"
        )
    modes = {name: mode for name, mode in _PROFILE.findall(loaded) if name in enroot_files.APPARMOR_PROFILES}
    if not modes:
        hint = f"load it with 'apparmor_parser --replace {profiles[0]}', and look with 'systemctl status apparmor'"
        return failed(check, f"{profiles[0]} exists, and its profile is not loaded", hint=hint)
    listed_profiles = " and ".join(f"{name} ({mode})" for name, mode in sorted(modes.items()))
    # The kernel attaches none of several profiles that match a path equally.
    if len(modes) > 1:
        hint = "keep one, and remove the other with 'apparmor_parser --remove FILE'"
        return undeterminable(check, f"{listed_profiles} are loaded, and which of them applies is unknown", hint=hint)
    # Those of Enroot and of the role have this mode; the rules of another one are not known.
    if "unconfined" not in modes.values():
        return undeterminable(
            check, f"the profile {listed_profiles} is loaded, and whether it allows user namespaces is unknown"
        )
    return passed(check, f"the profile {listed_profiles} is loaded")


def _nvidia(nvidia: t.Mapping[str, t.Any], config: EnrootConfig) -> Result:
    check = "enroot.nvidia"
    if not nvidia["driver"]:
        return not_applicable(check, "no NVIDIA driver is loaded on this node")
    if not nvidia["tool"]:
        return failed(
            check, "nvidia-container-cli is missing, so containers see no GPU", severity="isolate", hint=RERUN
        )
    pinned = config.toolkit_version.partition("-")[0]
    if not nvidia["version"]:
        wanted = f", and {pinned} is wanted" if pinned else ", so whether it runs at all is not known"
        return undeterminable(check, f"{nvidia['tool']} does not report its version{wanted}")
    if pinned and nvidia["version"] != pinned:
        return failed(check, "another version of nvidia-container-cli", expected=pinned, found=nvidia["version"])
    return passed(check, f"nvidia-container-cli {nvidia['version']}")


def _boot_unit(host: EnrootHost) -> Result:
    if enroot_files.unit_enabled(host):
        return passed("enroot.boot_unit", f"{enroot_files.UNIT} is enabled")
    return failed("enroot.boot_unit", f"{enroot_files.UNIT} is not enabled", hint=RERUN)
