# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of the role efa_nccl for a node, from the facts of ``role.look`` and the options. Pure."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ..system.distribution import DEBIAN, distribution_problems
from ..system.host import NodeError
from ..system.job_steps import jobs_problem
from ..system.plan import File, Package, Plan, Step, Unit, command, file_due, not_concerned, refused
from ..system.versions import at_least, version_key
from ..verdict.result import FAIL
from . import environment as nccl_env
from . import files
from .config import EfaConfig, known_type
from .parse import UNLIMITED
from .role import VERSIONLOCK, Facts, gnupg_package, hold_patterns, is_concerned, may_have_efa, stale_units, verify
from .systems import system_problem

ROLE = "efa_nccl"
DPKG, RPM = "dpkg", "rpm"
WORK = "/var/cache/mlcluster/efa"
TESTS_WORK = "/var/cache/mlcluster/nccl-tests"

SAFE_MODE = "efa_nccl_safe_mode"

# Steps of the installer.
INSTALL, REPAIR, UPGRADE = "install", "repair", "upgrade"
# The reason of a plan on a node that may lack its EFA devices.
UNKNOWN_COUNT = "how many there should be is not known"
KEEP_NEWER, KEEP_OLDER, NOTHING = "keep newer", "keep older", "none"

_VARIANTS = {
    "full": (),
    "minimal": ("--minimal",),
    "userspace": ("--skip-kmod",),
    "container": ("--skip-kmod", "--skip-limit-conf", "--no-verify"),
}
# The installer checks the packages inside it since 1.48.0 (EC2 User Guide, Get started with EFA and NIXL).
_CHECKS_PACKAGES = "1.48.0"
# Names of the installer's own packages in all its releases: patterns for unattended-upgrades, and for holds of dpkg.
OWN_PACKAGES = ("efa", "efa-*", "libfabric*-aws*", "openmpi*-aws", "libnccl-ofi", "aws-ofi-nccl")
_OWN_HELD = re.compile(r"efa(?:-[a-z0-9-]+)?|libfabric1?-aws(?:-.+)?|openmpi[0-9]*-aws|libnccl-ofi|aws-ofi-nccl")


def make_plan(facts: Facts, config: EfaConfig) -> Plan:
    """Return the plan for a node."""
    unsupported = distribution_problems(facts["distribution"]) or _unsupported(facts, config)
    if unsupported:
        return refused(ROLE, unsupported)
    if not is_concerned(facts, config):
        where = facts["instance_type"] or "this machine"
        is_unknown = facts["expected_devices"] is None and (not facts["instance_type"] or may_have_efa(facts))
        known = UNKNOWN_COUNT if is_unknown else "none is expected"
        return not_concerned(ROLE, f"no EFA device, and {known} on {where}")
    try:
        rendered, problem = environment(facts, config), ""
    except NodeError as exc:
        rendered, problem = {"variables": {}, "notes": []}, str(exc)
    step, missing = installer_step(facts, config), missing_packages(facts, config)
    notes = _notes(facts, config, step, rendered)
    steps = _software_steps(facts, config, step)
    refusals = [f"efa_nccl_environment: {problem}"] if problem else []
    refusals += [*_unreadable(facts, config), *_unverified(config, steps), *_lacks_driver(facts, config)]
    changes = [entry.label for entry in steps if entry.name == "installer"]
    changes = (["packages"] if missing else []) + changes
    if changes and config.safe_mode:
        refusals.append(jobs_problem(facts["job_steps"], ", ".join(changes), SAFE_MODE) or "")
        steps.insert(0, Step("idle", changes[0], {"change": ", ".join(changes), "option": SAFE_MODE}))
    if any(refusals):
        return refused(ROLE, [text for text in refusals if text], notes)
    due = _files_due(facts, config, rendered)
    names = {entry.name for entry in due}
    installs = any(entry.name == "installer" for entry in steps)
    unheld = _unheld(facts, config, missing)
    packages = [*missing, *_tools(facts, config, installs, bool(unheld))]
    return Plan(
        domain=ROLE,
        notes=tuple(notes),
        # The installer also installs packages from the repositories.
        refresh=bool(packages) or installs,
        unhold=tuple(sorted({entry.name for entry in missing} & set(facts["held_packages"]))),
        packages=tuple(packages),
        hold=tuple(unheld),
        files=tuple(due),
        daemon_reload="unit limits" in names or _is_reload_due(facts, config),
        units=tuple(_units(facts, config)),
        steps=(*steps, *_setting_steps(facts, config, names), *_late_steps(facts, config)),
    )


# --- The node ---------------------------------------------------------------------------------------------------------


def kind(facts: Facts, config: EfaConfig) -> str:
    """Return the accelerator of the machine: gpu, neuron or none."""
    if config.accelerator != "auto":
        return config.accelerator
    known = facts["family"]["accelerators"]
    return known["kind"] if known else "gpu" if facts["nvidia_driver"] else "none"


def reboot_reasons(facts: Facts, config: EfaConfig) -> list[str]:
    """Return why the node needs a reboot; a machine that builds an image never needs one."""
    if config.image_build:
        return []
    asked = ["the system asks for it"] if facts["reboot_required"] else []
    results = verify(facts, config)
    return asked + [entry.id for entry in results if entry.status == FAIL and entry.severity == "reboot"]


def _unsupported(facts: Facts, config: EfaConfig) -> list[str]:
    if not config.installer_enabled:
        return []
    problem = system_problem(facts["distribution"], config.installer_version)
    return [problem] if problem else []


def _unreadable(facts: Facts, config: EfaConfig) -> t.Iterator[str]:
    """Yield a refusal for each required fact that could not be read."""
    wants_packages = config.installer_enabled or config.hold or config.packages
    if facts["package_manager"] is None and wants_packages:
        yield (
            "queried dpkg-query or rpm for the packages of this node and got no answer: check that "
            "'dpkg-query -W' or 'rpm -qa' ends, then run again"
        )
    total = facts["huge_pages"]["total"]
    if config.huge_pages is not None and total is None and not config.image_build:
        yield (
            f"efa_nccl_huge_pages is {config.huge_pages} and /proc/meminfo does not report how many there are: leave "
            "it out on a kernel without huge pages"
        )


def _unverified(config: EfaConfig, steps: t.Sequence[Step]) -> t.Iterator[str]:
    """Yield a refusal for each download without a checksum."""
    due = {entry.name for entry in steps}
    if "installer" in due and not config.sha256:
        yield (
            f"EFA installer {config.installer_version} was not downloaded, since no sha256 of it is known: run make "
            "lock-artifacts on a connected machine, or set efa_nccl_installer_sha256"
        )
    if "tests" in due and not config.tests_checksum:
        yield (
            f"nccl-tests {config.tests_version} were not downloaded, since no sha256 of them is known: run make "
            "lock-artifacts on a connected machine, or set efa_nccl_tests_sha256"
        )


def _lacks_driver(facts: Facts, config: EfaConfig) -> t.Iterator[str]:
    has_one = facts["nvidia_driver"] or config.driver_packages or config.image_build
    if config.required and kind(facts, config) == "gpu" and not has_one:
        yield (
            f"this is a {facts['instance_type'] or 'machine with GPUs'} and no NVIDIA driver is loaded: use an image "
            "that has one, or pin one in efa_nccl_driver_packages"
        )


def _notes(facts: Facts, config: EfaConfig, step: str, rendered: t.Mapping[str, t.Any]) -> list[str]:
    found, wanted = facts["installer"]["version"], config.installer_version
    notes = []
    if step == KEEP_NEWER:
        notes.append(f"EFA {found} is newer than efa_nccl_installer_version {wanted} and is kept")
    elif step == KEEP_OLDER:
        notes.append(
            f"EFA {found} is older than efa_nccl_installer_version {wanted} and is kept, as efa_nccl_existing requires"
        )
    stale = stale_units(facts, config)
    if stale:
        notes.append(f"services run with an older limit until they are restarted: {', '.join(stale)}")
    if config.environment_enabled and rendered["variables"]:
        notes += rendered["notes"]
    if reboot_reasons(facts, config) and not config.reboot_allowed:
        notes.append("a reboot is needed, and efa_nccl_reboot_allowed does not allow it")
    return notes


# --- Packages ---------------------------------------------------------------------------------------------------------


def missing_packages(facts: Facts, config: EfaConfig) -> list[Package]:
    """Return the pinned packages of this kind of machine that are missing, or installed in another version.

    An epoch, as in 1:2.3-4, is not compared, because the look reports versions without it.
    """
    is_neuron = kind(facts, config) == "neuron"
    pinned = [package for package in config.packages if (package in config.neuron_packages) == is_neuron]
    return [
        Package(*(str(package.get(key) or "") for key in ("name", "version", "url", "sha256")))
        for package in pinned
        if facts["packages"].get(package["name"]) != re.sub(r"^\d+:", "", str(package["version"]))
    ]


def _tools(facts: Facts, config: EfaConfig, installs: bool, holds: bool) -> list[Package]:
    """Return packages that the role itself needs: gpg to prove a signature, versionlock for dnf to hold packages."""
    family = facts["distribution"]["family"]
    wanted = [gnupg_package(family)] if installs and config.check_signature else []
    wanted += [VERSIONLOCK] if holds and facts["package_manager"] == RPM else []
    return [Package(name) for name in wanted if not facts["packages"].get(name)]


def _unheld(facts: Facts, config: EfaConfig, missing: t.Sequence[Package]) -> list[str]:
    """Return the packages to hold: those that training needs and that are installed without a hold, and ``missing``.

    A package of ``missing`` may be held now: the role releases it to install another version, and holds it again.
    """
    if not config.hold:
        return []
    family = facts["distribution"]["family"]
    patterns = hold_patterns(config, family)
    present = {name for name, version in facts["packages"].items() if version}
    # The facts also list the role's own tools, which need no hold.
    tools = {gnupg_package(family), VERSIONLOCK}
    unasked = {name for name in tools if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
    return sorted((present - unasked - set(facts["held_packages"])) | {entry.name for entry in missing})


# --- The installer and nccl-tests -------------------------------------------------------------------------------------


def installer_step(facts: Facts, config: EfaConfig) -> str:
    """Return the installer's step: install, repair, upgrade, keep newer, keep older, none."""
    found = facts["installer"]
    if not config.installer_enabled:
        return NOTHING
    if facts["files"][files.INTENT] is not None or found["state"] == "interrupted":
        return REPAIR
    if found["state"] == "absent":
        return INSTALL
    has, wants = version_key(found["version"]), version_key(config.installer_version)
    if not has:
        return NOTHING
    if not at_least(wants, has):
        return KEEP_NEWER
    if not at_least(has, wants):
        return KEEP_OLDER if config.existing == "keep" else UPGRADE
    # A minimal installation has no libfabric; the other variants do.
    lacks_libfabric = config.installer_variant != "minimal" and facts["libfabric"]["program"] is None
    return REPAIR if found["differences"] or lacks_libfabric else NOTHING


def installer_arguments(config: EfaConfig) -> list[str]:
    """Return the arguments of efa_installer.sh, each once."""
    checks = config.check_signature and at_least(version_key(config.installer_version), version_key(_CHECKS_PACKAGES))
    arguments = [
        "-y",
        *_VARIANTS[config.installer_variant],
        *(["--no-verify"] if config.image_build else []),
        *(["--check-signatures"] if checks else []),
        *config.installer_arguments,
    ]
    return list(dict.fromkeys(arguments))


def _software_steps(facts: Facts, config: EfaConfig, step: str) -> list[Step]:
    steps = []
    if step in (INSTALL, REPAIR, UPGRADE):
        steps.append(Step("installer", f"{step} EFA", _installer(facts, config, step)))
    if _are_tests_due(facts, config):
        steps.append(Step("tests", "nccl-tests", _tests(config)))
    return steps


def _installer(facts: Facts, config: EfaConfig, step: str) -> dict[str, t.Any]:
    """Return the arguments of ``apply.install``, and ``downloads``: the files to fetch first."""
    sources = config.sources
    archive, key = f"{WORK}/{config.archive}", f"{WORK}/aws-efa-installer.key"
    downloads = [_download(sources["archive"], archive)]
    if config.check_signature:
        downloads += [_download(sources["signature"], f"{archive}.sig"), _download(sources["key"], key)]
    return {
        "work": WORK,
        "downloads": downloads,
        "archive": archive,
        "origin": sources["archive"],
        "sha256": config.sha256,
        "sha256_source": config.sha256_source,
        "signature_origin": sources["signature"],
        "key": key if config.check_signature else "",
        "key_origin": sources["key"],
        "fingerprint": config.fingerprint,
        "version": config.installer_version,
        "step": step,
        "arguments": installer_arguments(config),
        "timeout": config.installer_timeout,
        "is_dpkg": facts["package_manager"] == DPKG,
        "unhold": [name for name in facts["held_packages"] if _OWN_HELD.fullmatch(name)],
    }


def _download(url: str, path: str) -> dict[str, str]:
    """Return a file for ``roles/plan/tasks/fetch.yml``; the module checks its sha256 or signature before its use."""
    name = path.rpartition("/")[2]
    return {"name": name, "url": url, "file": name, "proved_by": "efa_step"}


def _are_tests_due(facts: Facts, config: EfaConfig) -> bool:
    if config.tests != "build" or not config.builds_tests or kind(facts, config) == "neuron":
        return False
    return _differs(facts["files"][files.tests_marker(config)], files.tests_text(config))


def _tests(config: EfaConfig) -> dict[str, t.Any]:
    """Return the arguments of ``apply.build_tests``, and ``downloads``."""
    archive = f"{TESTS_WORK}/nccl-tests.tar.gz"
    return {
        "work": TESTS_WORK,
        "downloads": [_download(config.tests_url, archive)],
        "archive": archive,
        "origin": config.tests_url,
        "sha256": config.tests_checksum,
        "version": config.tests_version,
        "make": [
            "MPI=1",
            f"MPI_HOME={config.mpi_home}",
            f"CUDA_HOME={config.cuda_home}",
            *config.tests_arguments,
        ],
        "tests_dir": config.tests_dir,
        "marker": files.tests_marker(config),
        "marker_text": files.tests_text(config),
    }


# --- Files and settings -----------------------------------------------------------------------------------------------


def environment(facts: Facts, config: EfaConfig) -> dict[str, t.Any]:
    """Return NCCL's environment for this type and these versions. Raises NodeError for a harmful variable.

    An image gets the variables of the instance type in the options, not those of the machine that builds it. A type
    that the table lacks gets the variables that all types get.
    """
    plugin = facts["plugin"] or {}
    target = config.instance_type or (None if config.image_build else facts["instance_type"])
    names = plugin.get("names", ())
    setting = nccl_env.Setting(
        instance_type=known_type(target),
        plugin=plugin.get("version"),
        nccl=facts["nccl"]["version"],
        libfabric=facts["libfabric"]["version"],
    )
    is_only_ofi = "libnccl-net-ofi.so" in names and "libnccl-net.so" not in names
    return nccl_env.render(
        setting, nccl_env.Options(net_plugin="ofi" if is_only_ofi else None, extra=config.environment)
    )


def kernel_settings(facts: Facts, config: EfaConfig) -> dict[str, int]:
    """Return the kernel settings; that of Yama only if the kernel has Yama, or for an image."""
    settings = {}
    if config.ptrace_scope >= 0 and (facts["yama"] is not False or config.image_build):
        settings["kernel.yama.ptrace_scope"] = config.ptrace_scope
    if config.huge_pages is not None:
        settings["vm.nr_hugepages"] = config.huge_pages
    return settings


def _are_settings_off(facts: Facts, config: EfaConfig) -> bool:
    """Return whether a present value differs, as after an interrupted run; an unknown value does not differ."""
    scope, total = facts["ptrace_scope"], facts["huge_pages"]["total"]
    has_scope = "kernel.yama.ptrace_scope" in kernel_settings(facts, config)
    return (has_scope and scope is not None and scope != config.ptrace_scope) or (
        config.huge_pages is not None and total is not None and total < config.huge_pages
    )


def _differs(checksum: str | None, text: str) -> bool:
    return bool(file_due(File("", "", text), checksum, {"mode": "0644", "uid": 0, "is_link": False}))


def _files_due(facts: Facts, config: EfaConfig, rendered: t.Mapping[str, t.Any]) -> list[File]:
    family = facts["distribution"]["family"]
    is_debian = family == DEBIAN
    sums, states = facts["files"], facts["paths"]
    plugin = facts["plugin"]
    linker = files.linker_text(plugin["place"]) if plugin else ""
    # The file is kept if the plugin is on the linker's path only because of this file.
    needs_linker = bool(plugin) and (plugin["on_linker_path"] is False or not _differs(sums[files.LINKER], linker))
    settings = kernel_settings(facts, config)
    patterns = [*hold_patterns(config, family), *OWN_PACKAGES]
    variables = rendered["variables"] if config.environment_enabled else {}
    # Neuron's variables are not NCCL's.
    is_nccl = any(re.match("(?:OFI_)?NCCL_", name) for name in variables)
    limits = config.limits_enabled
    wanted: list[tuple[str, str, bool, str]] = [
        ("linker path", files.LINKER, needs_linker, linker),
        ("limits", files.LIMITS, limits, files.LIMITS_TEXT),
        *(("unit limits", path, limits, files.UNIT_LIMITS_TEXT) for path in files.unit_paths(config)),
        ("kernel settings", files.KERNEL, bool(settings), files.kernel_text(settings)),
        ("unattended upgrades", files.UPGRADES, is_debian and config.hold, files.upgrades_text(patterns)),
        (
            "needrestart",
            files.NEEDRESTART,
            is_debian and bool(config.needrestart_keep),
            files.needrestart_text(config.needrestart_keep),
        ),
        ("nccl.conf", files.NCCL_CONF, is_nccl, rendered.get("nccl_conf", "")),
        ("profile", files.PROFILE, bool(variables), rendered.get("profile", "")),
        ("modulefile", files.modulefile(config, family), bool(variables), rendered.get("modulefile", "")),
    ]
    due = []
    for name, path, is_wanted, text in wanted:
        entry = File(name, path, text) if is_wanted else File(name, path, state="absent")
        # A site may have its own /etc/nccl.conf, which is kept.
        due += file_due(entry, sums[path], states[path], kept=path == files.NCCL_CONF)
    return due


def _is_reload_due(facts: Facts, config: EfaConfig) -> bool:
    """Return whether systemd has not read a drop-in, as after an interrupted run."""
    limits = [unit["configured_memlock"] for unit in facts["units"].values() if unit["exists"]]
    return config.limits_enabled and any(limit not in (None, UNLIMITED) for limit in limits)


def _setting_steps(facts: Facts, config: EfaConfig, changed: t.Collection[str]) -> list[Step]:
    """Return the commands that apply the files, also after an interrupted run that wrote them."""
    plugin, steps = facts["plugin"], []
    is_unread = bool(plugin) and plugin["on_linker_path"] is False and plugin["loads"]
    if "linker path" in changed or is_unread:
        steps.append(command("linker path", ["ldconfig"]))
    has_settings = bool(kernel_settings(facts, config)) and not config.image_build
    if has_settings and ("kernel settings" in changed or _are_settings_off(facts, config)):
        steps.append(command("kernel settings", ["sysctl", "--load", files.KERNEL]))
    return steps


# --- Services ---------------------------------------------------------------------------------------------------------


def _units(facts: Facts, config: EfaConfig) -> list[Unit]:
    manager = facts["fabric_manager"]
    is_off = manager["active"] is False or manager["enabled"] is False
    if facts["family"]["nvswitch"] is not True or not manager["exists"] or not is_off or config.image_build:
        return []
    return [Unit(manager["unit"], enabled=True, state="started")]


def _late_steps(facts: Facts, config: EfaConfig) -> list[Step]:
    """Return the last steps: restarts of services that run with an older limit, and a reboot.

    A daemon without a unit cannot be restarted. No service is restarted unless it is known that no job runs.
    """
    steps = []
    restarts = [name for name in stale_units(facts, config) if facts["units"][name]["exists"]]
    if restarts and config.restart_units and facts["job_steps"] == 0:
        steps.append(Step("restart", "service restarts", {"units": restarts}))
    if config.reboot_allowed and reboot_reasons(facts, config):
        if config.safe_mode:
            steps.append(Step("idle before reboot", "reboot", {"change": "a reboot", "option": SAFE_MODE}))
        steps.append(Step("reboot", "reboot"))
    return steps
