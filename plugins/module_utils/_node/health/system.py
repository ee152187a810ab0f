# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of a node besides its devices: clock, services, space on the root, file systems that answer, containers; and
the versions that a report compares between nodes. Changes nothing.
"""

from __future__ import annotations

import re
import tempfile
import typing as t

from ..accelerator.cuda import CUDA_HOME, cuda_version
from ..accelerator.parse import parse_driver_version
from ..containers import look as enroot
from ..containers.config import CONFIG_PATH as ENROOT_CONFIG
from ..containers.config import load_config
from ..containers.host import EnrootHost
from ..containers.plan import refusals
from ..containers.verify import verify as verify_enroot
from ..efa import look as efa
from ..efa.parse import parse_marker
from ..lustre import look as lustre
from ..lustre.config import CONFIG_PATH as LUSTRE_CONFIG
from ..lustre.config import load_config as load_lustre
from ..lustre.verify import verify as verify_lustre
from ..scratch import directories as scratch
from ..system.ask import ask, line
from ..system.config_file import is_configured
from ..system.distribution import read_distribution
from ..system.host import Host, NodeError
from ..system.kernel import kernel_releases
from ..system.mounts import SHARED_FILESYSTEMS, parse_fstab, read_mounts
from ..system.units import UNITS, parse_units
from ..verdict import unique_json
from ..verdict.result import (
    FAIL,
    UNDETERMINABLE,
    Result,
    Scope,
    failed,
    none_expected,
    not_applicable,
    overall,
    passed,
    undeterminable,
)

# Services that a training node may have; one that is enabled and not running is broken.
SERVICES = (
    "chrony.service",
    "chronyd.service",
    "docker.service",
    "munge.service",
    "nvidia-fabricmanager.service",
    "nvidia-persistenced.service",
    "slurmctld.service",
    "slurmd.service",
    "slurmdbd.service",
    "systemd-timesyncd.service",
)
MIN_ROOT_PERCENT = 5
# Packages whose versions should be the same on every node, by the names of Debian's and of Red Hat's families.
PACKAGES = (
    "aws-neuronx-dkms", "aws-neuronx-runtime-lib", "aws-neuronx-tools", "datacenter-gpu-manager-4-core", "docker-ce",
    "docker.io", "efa", "enroot", "libfabric1-aws", "libfabric-aws", "libnccl2", "libnccl", "libnccl-ofi",
    "lustre-client", "nvidia-container-toolkit", "nvidia-fs", "nvidia-gds", "openmpi40-aws", "openmpi50-aws", "slurmd",
)  # fmt: skip
# Components with a version besides packages, with a path that exists if the component does, even without a version.
COMPONENTS = {
    "kernel": "/",
    "os": "/",
    "driver": "/proc/driver/nvidia",
    "cuda": CUDA_HOME,
    "efa_driver": "/sys/module/efa",
    "efa_installer": efa.MARKER_PATH,
    "nvidia_fs": "/sys/module/nvidia_fs",
    "lustre": "/sys/module/lustre",
}


def check_clock(host: Host) -> list[Result]:
    """Return node.clock: whether the clock is synchronized; jobs, logs and S3's signatures depend on it."""
    output, problem = ask(host, ["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    if problem:
        return [undeterminable("node.clock", problem)]
    word = output.strip()
    if word == "yes":
        return [passed("node.clock", "synchronized")]
    if word != "no":
        return [undeterminable("node.clock", f"timedatectl reports neither yes nor no: {word[:100] or 'no output'}")]
    return [
        failed(
            "node.clock",
            "the clock is not synchronized",
            severity="monitor",
            expected="synchronized",
            found="not synchronized",
            hint="start chronyd, and check that it reaches 169.254.169.123",
        )
    ]


def check_services(host: Host) -> list[Result]:
    """Return node.service for each of ``SERVICES`` that is enabled on this node."""
    output, problem = ask(
        host, ["systemctl", "show", "--property=Id,Names,LoadState,ActiveState,UnitFileState", "--", *SERVICES]
    )
    if problem:
        return [undeterminable("node.service", problem)]
    units = parse_units(output)
    if not units:
        # systemctl prints a block for each requested unit, even for one that does not exist.
        return [undeterminable("node.service", f"systemctl lists no unit: {output.strip()[:100] or 'no output'}")]
    listed = {name for unit in units.values() for name in [unit["Id"], *unit.get("Names", "").split()]}
    missing = sorted(set(SERVICES) - listed)
    judged = (_service(name, unit) for name, unit in sorted(units.items()))
    found = [verdict for verdict in judged if verdict is not None]
    if missing:
        found.append(undeterminable("node.service", f"systemctl does not list {', '.join(missing)}"))
    return found or [not_applicable("node.service", "none of the checked services is enabled here")]


# Values of LoadState (systemd(1)) and of UnitFileState (systemctl(1), is-enabled).
_ABSENT = ("not-found", "masked")
_BROKEN = ("bad-setting", "error")
_ENABLED = ("enabled", "enabled-runtime")
_NOT_ENABLED = (
    "disabled", "static", "indirect", "generated", "transient", "alias", "linked", "linked-runtime", "masked",
    "masked-runtime",
)  # fmt: skip


def _service(name: str, unit: t.Mapping[str, str]) -> Result | None:
    """Return the verdict on a service; None if systemd is not to start it."""
    load, file, scope = unit.get("LoadState", ""), unit.get("UnitFileState", ""), Scope(device=name)
    state = unit.get("ActiveState", "")
    if load in _ABSENT or (load == "loaded" and file in _NOT_ENABLED):
        return None
    if load in _BROKEN and file not in _NOT_ENABLED:
        hint = f"look with 'systemd-analyze verify {name}'"
        message = "systemd cannot load its unit file"
        return failed("node.service", message, severity="reset", scope=scope, found=load, hint=hint)
    if load != "loaded" or file not in _ENABLED:
        message = f"whether it is to run is not known: LoadState is '{load}', UnitFileState is '{file}'"
        return undeterminable("node.service", message, scope=scope)
    if state in ("active", "reloading"):
        return passed("node.service", state, scope=scope)
    if state == "activating":
        return undeterminable("node.service", "it is starting", scope=scope, found=state)
    hint = f"look with 'journalctl -u {name}'"
    message = "it is enabled and not running"
    return failed("node.service", message, severity="reset", scope=scope, found=state, hint=hint)


def check_root(host: Host, least_percent: float = MIN_ROOT_PERCENT) -> list[Result]:
    """Return node.root_space: space and inodes of the root file system; slurmd and the logs need both."""
    free = min(scratch.free_percent("/").values())
    fields: dict[str, t.Any] = {"expected": least_percent, "found": free, "unit": "% free"}
    if free < least_percent:
        hint = "check with 'du -x /var' what fills it"
        return [failed("node.root_space", "the root file system is nearly full", severity="reset", hint=hint, **fields)]
    return [passed("node.root_space", **fields)]


def check_mounts(host: Host) -> list[Result]:
    """Return mounts.answer for each network file system: whether it reports its size. The check's limit ends a hang."""
    mounts = [mount for mount in read_mounts(host) if mount["fstype"] in SHARED_FILESYSTEMS]
    if not mounts:
        if _mounts_only_local(host):
            why = "no network file system is mounted, and /etc/fstab has none"
            return [none_expected("mounts.answer", why, "/etc/fstab", "mounts")]
        return [not_applicable("mounts.answer", "no network file system is mounted")]
    found = []
    for mount in mounts:
        scope = Scope(device=mount["target"])
        if _is_private(host, mount["options"].split(",")):
            why = "a FUSE mount without allow_other answers only its owner"
            found.append(not_applicable("mounts.answer", why, scope=scope))
            continue
        output, problem = ask(host, ["stat", "--file-system", "--format=%T %b", "--", mount["target"]], timeout=20)
        if problem:
            hint = "look with 'dmesg', and check that the security groups allow the file system"
            message = f"it does not answer: {problem}"
            found.append(failed("mounts.answer", message, severity="isolate", scope=scope, hint=hint))
        elif not _is_answer(output.strip(), mount["fstype"]):
            message = f"its answer is not a type and a size: {output.strip()[:100] or 'nothing'}"
            found.append(undeterminable("mounts.answer", message, scope=scope))
        else:
            found.append(passed("mounts.answer", f"{mount['fstype']} from {mount['source']}", scope=scope))
    return found


# File systems of this machine alone, in /etc/fstab.
_LOCAL = ("btrfs", "ext2", "ext3", "ext4", "none", "proc", "swap", "sysfs", "tmpfs", "vfat", "xfs")


def _mounts_only_local(host: Host) -> bool:
    """Return whether this node is set up without any network file system: by /etc/fstab and mount units, and no
    automounter waits.
    """
    text = host.read_text("/etc/fstab")
    rows = [row for row in (text or "").splitlines() if row.strip() and not row.lstrip().startswith("#")]
    table = parse_fstab(text or "")
    automounts = [
        one for one in read_mounts(host) if one["fstype"] == "autofs" and not one["target"].startswith("/proc/")
    ]
    known = text is not None and len(table) == len(rows)
    units = [name for name in host.listdir(UNITS) if name.endswith(".mount")]
    return (
        known
        and not automounts
        and all(entry["fstype"] in _LOCAL for entry in table)
        and all(_is_local_unit(host, f"{UNITS}/{name}") for name in units)
    )


def _is_local_unit(host: Host, path: str) -> bool:
    """Return whether a site's mount unit is masked, or of a file system of this machine, such as a snap's."""
    types = re.findall(r"^[ \t]*Type[ \t]*=[ \t]*(\S+)", host.read_text(path) or "", re.MULTILINE)
    return host.realpath(path) == "/dev/null" or (bool(types) and types[-1] in (*_LOCAL, "squashfs"))


# stat prints the number of a type that it has no name for.
_ANSWER = re.compile(r"(?:\S+|UNKNOWN \(0x[0-9a-f]+\)) (\d+)")


def _is_answer(text: str, fstype: str) -> bool:
    """Return whether ``text`` is a type and a size. Only FUSE may have 0 blocks: Lustre has 0 without its servers."""
    found = _ANSWER.fullmatch(text)
    return found is not None and (int(found.group(1)) > 0 or fstype.startswith("fuse."))


def _is_private(host: Host, options: t.Collection[str]) -> bool:
    """Return whether only another user may access a mount, not even root (fuse(8))."""
    owners = [option for option in options if option.startswith("user_id=")]
    return bool(owners) and f"user_id={host.own_uid()}" not in owners and "allow_other" not in options


def check_containers(host: EnrootHost | None = None) -> list[Result]:
    """Return the verdicts of containers-info, on a node that the role enroot_pyxis set up."""
    host = host or EnrootHost()
    if not host.exists(ENROOT_CONFIG):
        return [not_applicable("enroot.config", "the role enroot_pyxis has not set this node up")]
    try:
        config = load_config(host, ENROOT_CONFIG)
        facts = enroot.survey(host, config)
        return verify_enroot(host, facts, refusals(facts, config), config)
    except NodeError as exc:
        return [undeterminable("enroot.config", str(exc))]


def check_lustre(host: Host) -> list[Result]:
    """Return the verdicts of lustre-info without a write, on a node that the role fsx_lustre set up."""
    try:
        if not is_configured(host, LUSTRE_CONFIG):
            return [not_applicable("lustre.mounted", "the role fsx_lustre has not set this node up")]
        return verify_lustre(lustre.look(host, load_lustre(host, LUSTRE_CONFIG), lustre.Request()))
    except NodeError as exc:
        return [undeterminable("lustre.mounted", str(exc))]


def check_pcluster_diag(host: Host) -> list[Result]:
    """Return pcluster.NAME for each check of AWS's pcluster-diag, which is part of ParallelCluster 3.16 and newer.

    Source of its status words: aws/aws-parallelcluster-cookbook, pcluster_diag/models/result.py.
    """
    program = host.which("pcluster-diag")
    if program is None:
        return [not_applicable("pcluster.diag", "pcluster-diag is not installed")]
    # It also writes its report to a file, by default below the current directory. Without --yes it asks before a check
    # that is not read-only, and an empty answer skips it.
    with tempfile.TemporaryDirectory(prefix="mlcluster-") as folder:
        output, problem = ask(host, [program, "run", "--output-file", f"{folder}/report.json"], timeout=120)
    report = _report_in(output)
    if report is None:
        return [undeterminable("pcluster.diag", problem or "its report is not the JSON that 3.16 writes")]
    found = [_pcluster_verdict(entry) for entry in report] or [undeterminable("pcluster.diag", "it ran no check")]
    if problem and overall(found) not in (FAIL, UNDETERMINABLE):
        # Its report has no failure that its exit status could stand for.
        found.append(undeterminable("pcluster.diag", problem))
    return found


def _report_in(text: str) -> list[dict[str, t.Any]] | None:
    try:
        found = unique_json.loads(text[text.index("{") :])["results"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(entry, dict) for entry in found) else None


def _pcluster_verdict(entry: t.Mapping[str, t.Any]) -> Result:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", str(entry.get("check_id"))).lower().strip("_")
    check = f"pcluster.{name or 'unnamed'}"
    details = "; ".join(
        f"{one.get('code')}: {one.get('message')}"
        for kind in ("errors", "warnings", "infos")
        for one in (entry[kind] if isinstance(entry.get(kind), list) else ())
        if isinstance(one, dict)
    )
    status = entry.get("status")
    if status == "PASSED" and entry.get("errors") not in (None, []):
        return undeterminable(check, f"it passed, and lists errors: {details or 'unread'}", source="pcluster-diag")
    if status == "PASSED":
        return passed(check, details or "PASSED", source="pcluster-diag")
    if status in ("FAILURE", "WARNING"):
        severity = "monitor" if status == "WARNING" else "reset"
        return failed(check, details or str(status), severity=severity, source="pcluster-diag")
    if status in ("SKIPPED_NOT_APPLICABLE", "SKIPPED"):
        return not_applicable(check, details or str(status), source="pcluster-diag")
    return undeterminable(check, details or f"its status is {status}", source="pcluster-diag")


def check_kernel(host: Host) -> list[Result]:
    """Return node.kernel: whether the next boot starts the running kernel, with which everything else was verified."""
    kernels = kernel_releases(host)
    if not kernels["next"]:
        return [not_applicable("node.kernel", "no kernel is installed here, as in a container")]
    fields: dict[str, t.Any] = {"expected": kernels["running"], "found": kernels["next"]}
    if kernels["running"] == kernels["next"]:
        return [passed("node.kernel", **fields)]
    message = "the next boot starts another kernel, with which no driver was verified"
    hint = "hold the kernel's packages, or reboot once no job runs and look again"
    return [failed("node.kernel", message, severity="monitor", hint=hint, **fields)]


def versions(host: Host, packages: t.Mapping[str, str | None], more: t.Collection[str] = ()) -> dict[str, str]:
    """Return {component: version}: ``COMPONENTS`` with a readable version, and ``package NAME`` for each installed
    package of ``PACKAGES`` and ``more``.
    """
    found: dict[str, str | None] = {
        "kernel": line(host, "/proc/sys/kernel/osrelease"),
        "os": read_distribution(host)["title"] or None,
        "driver": parse_driver_version(host.read_text("/proc/driver/nvidia/version") or ""),
        "cuda": cuda_version(host, CUDA_HOME),
        "efa_driver": line(host, "/sys/module/efa/version"),
        "efa_installer": parse_marker(host.read_text(efa.MARKER_PATH) or "")["version"],
        "nvidia_fs": line(host, "/sys/module/nvidia_fs/version"),
        "lustre": line(host, "/sys/module/lustre/version"),
    }
    found.update({f"package {name}": packages.get(name) for name in (*PACKAGES, *more)})
    return {name: version for name, version in found.items() if version}


def unreadable(host: Host, found: t.Mapping[str, str]) -> list[str]:
    """Return the ``COMPONENTS`` that are present without a readable version, such as the kernel's own EFA driver."""
    return [name for name, path in COMPONENTS.items() if name not in found and host.exists(path)]
