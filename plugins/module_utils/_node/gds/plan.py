# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan of the role nvidia_gds for a node, from the facts of ``role.look`` and the options. Pure."""

from __future__ import annotations

import typing as t

from ..system.plan import File, Package, Plan, Step, command, file_due, not_concerned, refused
from ..system.versions import version_key
from . import files
from .config import NVFS, P2PDMA, GdsConfig
from .packages import packages
from .prerequisites import registry_wanted

ROLE = "nvidia_gds"
LOAD_MODULE = ("modprobe", "nvidia-fs")
NO_DRIVER = "no NVIDIA driver is loaded on this node"
# The releases of libcufile that know use_pci_p2pdma, and the one of the section block.
_P2PDMA_SETTING = (1, 13)
_BLOCK_SETTING = (1, 16)

Facts = t.Mapping[str, t.Any]


def is_concerned(facts: Facts, config: GdsConfig) -> bool:
    """Return whether the role applies: the NVIDIA driver is loaded, or the node becomes an image."""
    return bool(facts["driver"]["loaded"]) or config.image_build


def package_plan(facts: Facts, config: GdsConfig) -> dict[str, t.Any]:
    """Return the packages for the node's CUDA and the mode; see ``packages.packages``."""
    return packages(facts, config.mode, config.cuda_version, config.packages)


def make_plan(facts: Facts, config: GdsConfig) -> Plan:
    """Return the plan for a node."""
    if not is_concerned(facts, config):
        return not_concerned(ROLE, NO_DRIVER)
    wanted = package_plan(facts, config)
    missing = missing_packages(facts, config, wanted)
    refusals = [*wanted["problems"], *_obstacles(facts, config, missing)]
    if refusals:
        return refused(ROLE, refusals)
    due = _files_due(facts, config)
    steps = []
    settings, version = wanted_settings(config, wanted, facts)
    current = facts["cufile_json"]["settings"]
    if config.cufile_enabled and merged(current, settings) != current:
        arguments: dict[str, t.Any] = {"settings": settings, "allow_unknown": config.cufile_allow_unknown}
        if version:
            arguments["gds_version"] = version
        steps.append(Step("cufile", "cufile.json", arguments))
    # A file of which only mode or owner differ has another entry name.
    has_new_options = any(entry.name == "modprobe options" for entry in due)
    if has_new_options:
        steps.append(command("initramfs", initramfs(facts)))
    if config.mode == NVFS and not facts["nvidia_fs"]["loaded"] and not config.image_build:
        # The verdicts report the reason of a failure, with the end of the build log.
        steps.append(command("nvidia-fs", LOAD_MODULE, tolerant=True))
    if has_new_options and config.reboot_allowed and not config.image_build:
        steps.append(Step("reboot", "reboot"))
    return Plan(
        domain=ROLE,
        refresh=bool(missing),
        packages=tuple(missing),
        files=tuple(due),
        steps=tuple(steps),
    )


def _obstacles(facts: Facts, config: GdsConfig, missing: t.Sequence[Package]) -> list[str]:
    """Return a refusal for each required fact that could not be read."""
    found = []
    if config.cufile_enabled and facts["cufile_json"]["valid"] is False:
        found.append(
            f"{facts['cufile_json']['path']} cannot be read as JSON with comments: correct it, or restore the "
            "package's file"
        )
    if missing and not facts["manager"]:
        names = ", ".join(entry.name for entry in missing)
        found.append(f"neither apt nor dnf is on this node, so {names} cannot be installed: set nvidia_gds_packages")
    if config.mode == NVFS and not config.headers_package and not facts["kernel"]["release"]:
        found.append("the release of the running kernel cannot be read: set nvidia_gds_headers_package")
    return found


def initramfs(facts: Facts) -> tuple[str, ...]:
    """Return the command that rebuilds the initramfs."""
    return ("update-initramfs", "-u") if facts["manager"] == "apt" else ("dracut", "--force")


def headers_package(facts: Facts, config: GdsConfig) -> str:
    """Return the package of kernel headers that DKMS needs; empty if none is needed."""
    if config.mode != NVFS or config.headers_package == "none":
        return ""
    prefix = "linux-headers" if facts["manager"] == "apt" else "kernel-devel"
    return config.headers_package or f"{prefix}-{facts['kernel']['release']}"


def module_here(facts: Facts) -> bool:
    """Return whether the running kernel has nvidia-fs."""
    modules = facts["kernel_modules"]
    return bool(facts["nvidia_fs"]["loaded"]) or modules["installed"].get(modules["running"]) is not None


def missing_packages(facts: Facts, config: GdsConfig, wanted: t.Mapping[str, t.Any]) -> list[Package]:
    """Return the packages to install, the headers first, since DKMS builds with them."""
    if not config.install_enabled:
        return []
    headers = headers_package(facts, config)
    first = headers and not module_here(facts) and wanted["missing"] and not facts["packages"].get(headers)
    return [Package.of(spec) for spec in [*([headers] if first else []), *wanted["missing"]]]


def wanted_settings(
    config: GdsConfig, wanted: t.Mapping[str, t.Any], facts: Facts
) -> tuple[dict[str, t.Any], str | None]:
    """Return the required settings of cufile.json, and the release of libcufile they are for (None if unknown)."""
    version = facts["library"]["version"] or wanted["gds"] or None
    release = version_key(version) if version else ()
    settings: dict[str, t.Any] = {"properties": {"allow_compat_mode": config.compat_allowed}}
    if config.is_direct and release >= _P2PDMA_SETTING:
        settings["properties"]["use_pci_p2pdma"] = config.mode == P2PDMA
    if config.mode == P2PDMA and release >= _BLOCK_SETTING:
        settings["block"] = {"nvme": {"use_pci_p2pdma": True}}
    return merged(settings, config.cufile_settings), version


def merged(below: t.Mapping[str, t.Any], above: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return both mappings in one, at every depth; ``above`` wins."""
    both = dict(below)
    for key, value in above.items():
        inner = both.get(key)
        both[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both


def boot_needs(facts: Facts, config: GdsConfig) -> list[str]:
    """Return the requirements of P2PDMA that the running kernel does not meet; an image has no driver to ask."""
    if config.mode != P2PDMA:
        return []
    found = []
    wanted = registry_wanted(facts["gpus"])
    current = facts["registry_dwords"] or {}
    if facts["kernel"]["machine"] in ("x86_64", None) and {**current, **wanted} != current:
        found.append(f"RegistryDwords of the NVIDIA driver ({files.registry_text(wanted)})")
    if facts["nvme_multipath"] is not False:
        found.append("multipath of nvme_core turned off")
    return found


def kernel_needs(facts: Facts, config: GdsConfig) -> list[str]:
    """Return the requirements that only a kernel parameter can meet."""
    on_x86 = facts["kernel"]["machine"] == "x86_64"
    return ["an IOMMU that is off"] if config.is_direct and facts["iommu"] is True and on_x86 else []


def _files_due(facts: Facts, config: GdsConfig) -> list[File]:
    # Options that are in place stay, whatever the running kernel has by now.
    has_options = config.mode == P2PDMA
    iommu = bool(kernel_needs(facts, config))
    options = files.module_options(registry_wanted(facts["gpus"]), facts["kernel"]["machine"]) if has_options else ""
    wanted = (
        ("module at boot", files.MODULES_LOAD, config.mode == NVFS, files.modules_load(), False),
        (
            "boot settings for review",
            files.REVIEW,
            has_options or iommu,
            files.review(options, initramfs(facts), iommu),
            False,
        ),
        # Options that were set on purpose stay when the switch is reset.
        (
            "modprobe options",
            files.MODPROBE,
            has_options and not config.safe_mode,
            files.modprobe(options),
            has_options,
        ),
        ("example", files.EXAMPLE, config.example_enabled, config.example_text, False),
    )
    due = []
    for name, path, is_wanted, text, kept in wanted:
        entry = File(name, path, text) if is_wanted else File(name, path, state="absent")
        due += file_due(entry, facts["files"][path], facts["paths"][path], kept)
    return due
