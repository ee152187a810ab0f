# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read-only facts about Lustre on a node: client and kernels, mounts, directories, tuning, LNet.

A mount point of systemd's automount is not a mount: it is touched, and the file system's own type is read.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import typing as t

from ..._data import fsx_clients, instance_types
from ..system.ask import ask, line
from ..system.host import Host
from ..system.instance import instance_type
from ..system.kernel import kernel_modules
from ..system.mounts import mount_unit, mounts_on, read_fstab, read_mounts
from ..system.packages import installed_packages
from ..system.parallel import Check, run_all
from ..system.units import starts_at_boot
from ..verdict.result import Result, Scope, failed, passed
from . import directories, files, tuning
from .config import FileSystem, LustreConfig, config_text
from .identity import proved_paths
from .parse import lustre_paths, parse_addresses, parse_net_show, servers, top_mount
from .servers import data_servers, peers, sent_to

TOOLS = ("lfs", "lctl", "lnetctl", "modinfo")
EFA_SOURCE = "FSx for Lustre User Guide, Configuring EFA clients"
NFS_TYPES = ("nfs", "nfs4")


@dataclasses.dataclass(frozen=True)
class Request:
    """Options of a look besides the configuration, under their names in the module lustre_info."""

    probe: bool = False
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def look(host: Host, config: LustreConfig, request: Request) -> dict[str, t.Any]:
    """Return all facts; the RETURN section of the module lustre_info describes them."""
    config = with_adopted(host, config)
    fstab = read_fstab(host)
    mounts = mounted(host, config, fstab)
    lnet_nets, net_problem = nets(host, config.timeout)
    over_efa = [mount for mount in mounts if mount["efa"] and request.probe]
    before, peer_problem = peers(host, config.timeout) if over_efa else ([], None)
    probed = probe_all(host, mounts, config.timeout) if request.probe else {}
    after = peers(host, config.timeout)[0] if over_efa and not peer_problem else []
    for mount in mounts:
        mount["servers"], mount["servers_problem"] = [], peer_problem
        if mount in over_efa and mount["path"] in probed and not peer_problem:
            nids, mount["servers_problem"] = data_servers(host, mount["path"], config.timeout)
            mount["servers"] = sent_to(nids, before, after)
    packages, manager = installed_packages(host)
    size = tuning.machine(host)
    wanted = tuning.parameters(size, config.tuning) if config.tune else []
    options = tuning.module_options(size, config.module_options) if config.tune else []
    proved = proved_paths(mounts)
    chosen = {
        name: entry
        for name, entry in (packages or {}).items()
        if entry["installed"] and any(fnmatch.fnmatchcase(name, pattern) for pattern in request.packages)
    }
    return {
        "machine": size,
        "kernel": kernel_modules(host, "lustre"),
        "tools": {name: host.which(name) for name in TOOLS},
        "version": line(host, "/sys/fs/lustre/version"),
        "package_manager": manager,
        "packages_requested": bool(request.packages),
        "packages": {name: entry["version"] for name, entry in sorted(chosen.items())},
        "unheld_packages": sorted(name for name, entry in chosen.items() if not entry["held"]),
        "mounts": mounts,
        "nfs_mounts": [mount_facts(host, path, config.timeout) for path in config.nfs_mounts],
        "probes": {path: verdict.to_dict() for path, verdict in probed.items()},
        "fstab": fstab,
        "directories": directories.look(host, config, proved),
        "tuning": tuning.compare(host, wanted, config.timeout) if any(map(_is_lustre, mounts)) else [],
        "tune": config.tune,
        "tuning_wanted": len(wanted),
        "module_options": tuning.loaded_options(host, options),
        "modprobe_text": tuning.modprobe_text(options),
        "nets": lnet_nets,
        "net_problem": net_problem,
        "efa_wanted": config.efa_interfaces or efa_interfaces(instance_type(host)),
        "efa_service": starts_at_boot(host, files.EFA_SERVICE),
        "boot_unit_enabled": starts_at_boot(host, files.BOOT_UNIT),
        "mount_units": [mount_unit(system.path) for system in config.file_systems],
        "config_text": config_text(config),
        "files": {path: host.sha256(path) for path in request.files},
        "paths": {path: host.stat(path) for path in request.files},
    }


def mounted(host: Host, config: LustreConfig, fstab: t.Sequence[t.Mapping[str, str]]) -> list[dict[str, t.Any]]:
    """Return the facts of each file system's mount, with its line in fstab and the addresses of its DNS name."""
    found = []
    for system in config.file_systems:
        facts = mount_facts(host, system.path, config.timeout, system)
        found.append({**facts, **fstab_line(system, fstab), **dns_addresses(host, system, facts, config.timeout)})
    return found


def _is_lustre(mount: t.Mapping[str, t.Any]) -> bool:
    return bool(mount["state"] == "lustre")


def with_adopted(host: Host, config: LustreConfig) -> LustreConfig:
    """Return the configuration; without file systems it gets those of the mount table and of fstab."""
    if config.file_systems:
        return config
    fstab = read_fstab(host)
    paths = lustre_paths(read_mounts(host), fstab)
    return dataclasses.replace(config, file_systems=tuple(FileSystem(path) for path in paths))


def efa_interfaces(known: str | None) -> int:
    """Return how many EFA interfaces AWS's set-up gives LNet on an instance type; one for an unknown type."""
    table = instance_types.lookup(known)
    several = table and table["network_cards"] > 1
    return fsx_clients.EFA_INTERFACES.get(known or "", fsx_clients.SEVERAL_CARDS if several else fsx_clients.ONE_CARD)


def fstab_line(system: FileSystem, fstab: t.Iterable[t.Mapping[str, str]]) -> dict[str, t.Any]:
    """Return the owner of a file system's line in fstab: {dns_name, line: own, other or none, fstab_options}.

    The same source does not make a line own: ParallelCluster writes such lines too, and maintains them. Of several
    lines, one that is not own counts: writing the own line would replace all lines of the path.
    """
    lines = [entry for entry in fstab if mounts_on(entry, system.path)]
    others = [line for line in lines if not (line["src"] == system.source and _is_marked(line))]
    if not lines:
        return {"dns_name": system.dns_name, "line": "none", "fstab_options": None}
    options = (others or lines)[0]["opts"]
    return {"dns_name": system.dns_name, "line": "other" if others else "own", "fstab_options": options}


def dns_addresses(host: Host, system: FileSystem, mount: t.Mapping[str, t.Any], timeout: float) -> dict[str, t.Any]:
    """Return the addresses of the DNS name of a mounted file system, and why there are none: addresses, dns_problem.

    Lustre's source has addresses in place of the name. Without a name, or where the source has it, none is asked.
    """
    if mount["state"] != "lustre" or not system.dns_name or set(servers(mount["source"])) == {system.dns_name}:
        return {"addresses": [], "dns_problem": None}
    output, problem = ask(host, ["getent", "ahostsv4", system.dns_name], timeout=timeout)
    found = [] if problem else parse_addresses(output)
    return {"addresses": found, "dns_problem": problem or (None if found else "getent lists no address")}


def _is_marked(line: t.Mapping[str, str]) -> bool:
    return files.OWN_LINE in line["opts"].split(",")


def mount_facts(host: Host, path: str, timeout: float, wanted: FileSystem | None = None) -> dict[str, t.Any]:
    """Return the mount at a path: path, state, source, fstype, options, answer, why, efa, mount_name (as wanted).

    state is lustre or nfs (mounted, and the file system reports this type), trigger (systemd's automount, and touching
    it mounted nothing), silent (no answer), other (another file system is mounted), absent (nothing is mounted).
    """
    # The dot at the end reads the mounted file system instead of the automount trigger.
    output, problem = ask(host, ["stat", "--file-system", "--format=%T", "--", f"{path}/."], timeout=timeout)
    mount = top_mount(path, read_mounts(host))
    answer = output.strip()
    seen: dict[str, t.Any] = {
        "path": path,
        "state": "absent",
        "source": mount["source"] if mount else None,
        "fstype": mount["fstype"] if mount else None,
        "options": mount["options"] if mount else "",
        "answer": answer or None,
        "why": problem,
        "efa": bool(wanted and wanted.efa),
        "mount_name": wanted.mount_name if wanted else "",
    }
    if mount and mount["fstype"] == "autofs":
        seen["state"] = "trigger"
    elif mount and problem:
        seen["state"] = "silent"
    elif mount:
        seen["state"] = "lustre" if answer == "lustre" else "nfs" if answer in NFS_TYPES else "other"
    return seen


def probe_all(host: Host, mounts: t.Sequence[t.Mapping[str, t.Any]], timeout: float) -> dict[str, Result]:
    """Write and read back data on each proved file system in parallel, within timeout; return lustre.write_read."""
    due = proved_paths(mounts)
    checks = [Check("lustre.write_read", _probe(path), timeout) for path in due]
    verdicts = run_all(host, checks, timeout * max(1, len(due)))
    return {path: dataclasses.replace(verdict, scope=Scope(device=path)) for path, verdict in zip(due, verdicts)}


def nets(host: Host, timeout: float) -> tuple[dict[str, dict[str, int]], str | None]:
    """Return the nets of LNet with their counters, and why they are unknown."""
    output, problem = ask(host, ["lnetctl", "net", "show", "-v"], timeout=timeout)
    return ({}, problem) if problem else (parse_net_show(output), None)


def _probe(path: str) -> t.Callable[[Host], list[Result]]:
    def write_and_read(host: Host) -> list[Result]:
        check = "lustre.write_read"
        try:
            host.write_probe(path)
        except PermissionError:
            hint = "the root squash of FSx denies it: add this node's subnet to its exceptions, or probe as a user"
            return [failed(check, "root may not write there", severity="monitor", hint=hint)]
        except OSError as exc:
            hint = "check with 'lfs df' and 'dmesg'"
            return [failed(check, f"a write failed: {exc.strerror or exc}", severity="isolate", hint=hint)]
        return [passed(check, "1 MiB written, read back and compared")]

    return write_and_read
