# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every node needs besides its devices: a right clock, its services, space on the root, file systems that answer,
containers; and the versions that a report compares between nodes. Changes nothing.
"""

from __future__ import annotations

import json
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
from ..system.distribution import read_distribution
from ..system.host import Host, NodeError
from ..system.kernel import kernel_releases
from ..system.mounts import read_mounts
from ..system.units import parse_units
from ..verdict.result import Result, Scope, failed, not_applicable, passed, undeterminable

# Services that a training node may have; one that is enabled and does not run is broken.
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
NETWORK_FILESYSTEMS = ("lustre", "nfs", "nfs4", "fuse.mount-s3", "wekafs", "beegfs")
LEAST_ROOT_PERCENT = 5
# Packages whose versions should be the same on every node, by the names of Debian's and of Red Hat's families.
PACKAGES = (
    "aws-neuronx-dkms", "aws-neuronx-runtime-lib", "aws-neuronx-tools", "datacenter-gpu-manager-4-core", "docker-ce",
    "docker.io", "efa", "enroot", "libfabric1-aws", "libfabric-aws", "libnccl2", "libnccl", "libnccl-ofi",
    "lustre-client", "nvidia-container-toolkit", "nvidia-fs", "nvidia-gds", "openmpi40-aws", "openmpi50-aws", "slurmd",
)  # fmt: skip
# What has a version besides packages, with the path that is there where the component is, also where it tells none.
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
    """node.clock: whether something keeps the clock right; jobs, logs and S3's signatures depend on it."""
    told, problem = ask(host, ["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    if problem:
        return [undeterminable("node.clock", problem)]
    word = told.strip()
    if word == "yes":
        return [passed("node.clock", "synchronized")]
    if word != "no":
        return [undeterminable("node.clock", f"timedatectl says neither yes nor no: {word[:100] or 'it said nothing'}")]
    return [
        failed(
            "node.clock",
            "nothing keeps the clock right",
            severity="monitor",
            expected="synchronized",
            found="not synchronized",
            hint="start chronyd, and see whether it reaches 169.254.169.123",
        )
    ]


def check_services(host: Host) -> list[Result]:
    """node.service for each of ``SERVICES`` that this node is to run."""
    told, problem = ask(
        host, ["systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState", "--", *SERVICES]
    )
    if problem:
        return [undeterminable("node.service", problem)]
    units = parse_units(told)
    if not units:
        # It has a block for each unit that is asked for, also for one that does not exist.
        return [
            undeterminable("node.service", f"systemctl speaks of no unit: {told.strip()[:100] or 'it said nothing'}")
        ]
    found = []
    for name, unit in sorted(units.items()):
        if unit.get("UnitFileState") != "enabled" or unit.get("LoadState") != "loaded":
            continue
        state, scope = unit.get("ActiveState", ""), Scope(device=name)
        if state in ("active", "reloading"):
            found.append(passed("node.service", state, scope=scope))
        elif state == "activating":
            found.append(undeterminable("node.service", "it is just being started", scope=scope, found=state))
        else:
            hint = f"look with 'journalctl -u {name}'"
            told = "it is enabled and does not run"
            found.append(failed("node.service", told, severity="reset", scope=scope, found=state, hint=hint))
    return found or [not_applicable("node.service", "none of the services that are looked at is enabled here")]


def check_root(host: Host, least_percent: float = LEAST_ROOT_PERCENT) -> list[Result]:
    """node.root_space: space and inodes of the root file system; slurmd and the logs end with them."""
    free = min(scratch.free_percent("/").values())
    fields: dict[str, t.Any] = {"expected": least_percent, "found": free, "unit": "% free"}
    if free < least_percent:
        hint = "look with 'du -x /var' who fills it"
        return [failed("node.root_space", "the root file system runs full", severity="reset", hint=hint, **fields)]
    return [passed("node.root_space", **fields)]


def check_mounts(host: Host) -> list[Result]:
    """mounts.answer for each network file system: whether it tells its size. One that hangs is ended with the check."""
    mounts = [mount for mount in read_mounts(host) if mount["fstype"] in NETWORK_FILESYSTEMS]
    if not mounts:
        return [not_applicable("mounts.answer", "no network file system is mounted")]
    found = []
    for mount in mounts:
        scope = Scope(device=mount["target"])
        if _is_private(host, mount["options"].split(",")):
            why = "a FUSE mount without allow_other answers its owner alone"
            found.append(not_applicable("mounts.answer", why, scope=scope))
            continue
        told, problem = ask(host, ["stat", "--file-system", "--format=%T %b", "--", mount["target"]], timeout=20)
        if problem:
            hint = "look with 'dmesg', and whether the security groups let the file system through"
            told = f"it gives no answer: {problem}"
            found.append(failed("mounts.answer", told, severity="isolate", scope=scope, hint=hint))
        elif not _is_answer(told.strip(), mount["fstype"]):
            told = f"its answer is not a type and a size: {told.strip()[:100] or 'nothing'}"
            found.append(undeterminable("mounts.answer", told, scope=scope))
        else:
            found.append(passed("mounts.answer", f"{mount['fstype']} from {mount['source']}", scope=scope))
    return found


# A type that stat has no name for has its number.
_ANSWER = re.compile(r"(?:\S+|UNKNOWN \(0x[0-9a-f]+\)) (\d+)")


def _is_answer(text: str, fstype: str) -> bool:
    """Whether a text is a type and a size. Only FUSE may have 0 blocks: Lustre has none without its servers."""
    found = _ANSWER.fullmatch(text)
    return found is not None and (int(found.group(1)) > 0 or fstype.startswith("fuse."))


def _is_private(host: Host, options: t.Collection[str]) -> bool:
    """Whether the kernel lets nobody but another user look at what is mounted, not even root (fuse(8))."""
    owners = [option for option in options if option.startswith("user_id=")]
    return bool(owners) and f"user_id={host.own_uid()}" not in owners and "allow_other" not in options


def check_containers(host: EnrootHost | None = None) -> list[Result]:
    """What containers-info says of Enroot, Pyxis and Docker, on a node that the role enroot_pyxis set up."""
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
    """What lustre-info says, without a write, on a node that the role fsx_lustre set up."""
    if host.read_text(LUSTRE_CONFIG) is None:
        return [not_applicable("lustre.mounted", "the role fsx_lustre has not set this node up")]
    try:
        return verify_lustre(lustre.look(host, load_lustre(host, LUSTRE_CONFIG), lustre.Wishes()))
    except NodeError as exc:
        return [undeterminable("lustre.mounted", str(exc))]


def check_pcluster_diag(host: Host) -> list[Result]:
    """pcluster.NAME for each check of AWS's own pcluster-diag, where ParallelCluster 3.16 or newer brought it.

    Source of its status words: aws/aws-parallelcluster-cookbook, pcluster_diag/models/result.py.
    """
    program = host.which("pcluster-diag")
    if program is None:
        return [not_applicable("pcluster.diag", "pcluster-diag is not installed")]
    # It also writes its report into a file, by default below wherever it runs. Without --yes it asks before a check
    # that is not read-only, and an empty answer leaves it out.
    with tempfile.TemporaryDirectory(prefix="mlcluster-") as folder:
        told, problem = ask(host, [program, "run", "--output-file", f"{folder}/report.json"], timeout=120)
    report = _report_in(told)
    if report is None:
        return [undeterminable("pcluster.diag", problem or "its report is not the JSON that 3.16 writes")]
    return [_pcluster_verdict(entry) for entry in report] or [undeterminable("pcluster.diag", "it ran no check")]


def _report_in(text: str) -> list[dict[str, t.Any]] | None:
    try:
        found = json.loads(text[text.index("{") :])["results"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(entry, dict) for entry in found) else None


def _pcluster_verdict(entry: t.Mapping[str, t.Any]) -> Result:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", str(entry.get("check_id"))).lower().strip("_")
    check = f"pcluster.{name or 'unnamed'}"
    said = "; ".join(
        f"{one.get('code')}: {one.get('message')}"
        for kind in ("errors", "warnings", "infos")
        for one in (entry[kind] if isinstance(entry.get(kind), list) else ())
        if isinstance(one, dict)
    )
    status = entry.get("status")
    if status == "PASSED":
        return passed(check, said or "PASSED", source="pcluster-diag")
    if status in ("FAILURE", "WARNING"):
        severity = "monitor" if status == "WARNING" else "reset"
        return failed(check, said or str(status), severity=severity, source="pcluster-diag")
    if status in ("SKIPPED_NOT_APPLICABLE", "SKIPPED"):
        return not_applicable(check, said or str(status), source="pcluster-diag")
    return undeterminable(check, said or f"its status is {status}", source="pcluster-diag")


def check_kernel(host: Host) -> list[Result]:
    """node.kernel: whether the next boot starts the kernel that runs now, with which everything else was proved."""
    kernels = kernel_releases(host)
    if not kernels["next"]:
        return [not_applicable("node.kernel", "no kernel is installed here, as in a container")]
    fields: dict[str, t.Any] = {"expected": kernels["running"], "found": kernels["next"]}
    if kernels["running"] == kernels["next"]:
        return [passed("node.kernel", **fields)]
    told = "the next boot starts another kernel, with which no driver was proved"
    hint = "hold the kernel's packages, or reboot once no job runs and look again"
    return [failed("node.kernel", told, severity="monitor", hint=hint, **fields)]


def versions(host: Host, packages: t.Mapping[str, str | None], more: t.Collection[str] = ()) -> dict[str, str]:
    """Component to version, of what is here: those of ``COMPONENTS`` that tell it, and ``package NAME`` for each of
    ``PACKAGES`` and of more that is installed.
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


def silent(host: Host, told: t.Mapping[str, str]) -> list[str]:
    """Those of ``COMPONENTS`` that are here and tell no version, as the EFA driver of the kernel's own sources."""
    return [name for name, path in COMPONENTS.items() if name not in told and host.exists(path)]
