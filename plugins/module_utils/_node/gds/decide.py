# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide the active path of GPUDirect Storage on a mount: nvfs, p2pdma, compat, none, or undeterminable.

libcufile's table describes the driver, not a mount. So a direct path is only reported for a mount on which libcufile
accepted a file while compat mode was forbidden; everything else is a reason, not a proof.
"""

from __future__ import annotations

import typing as t

from ..system.host import Host
from .look import ANSWER_SECONDS, look
from .parse import setting
from .prerequisites import DOUBTFUL, MISSING, NVFS, P2PDMA, from_log, missing, prerequisites
from .probe import ask, gdscheck, library_version, p2pdma_sections

COMPAT = "compat"
NONE = "none"
UNDETERMINABLE = "undeterminable"
MODES = (NVFS, P2PDMA, COMPAT, NONE, UNDETERMINABLE)
DIRECT = (NVFS, P2PDMA)
# Another setting would make the path possible, so this one is not an obstacle.
SETTINGS = ("cufile_p2pdma",)
# Programs go through the CPU with these, whatever the mount could do.
FORCING = ("force_compat_mode", "posix_io_mode", "vanilla_posix_io_mode")
# The storage below the mount decides, whatever libcufile's driver supports.
NOT_FOR_P2PDMA = frozenset({"filesystem", "lvm", "raid_p2pdma"})

Ask = t.Callable[..., dict[str, t.Any]]
Check = t.Callable[..., dict[str, t.Any]]


def survey(
    host: Host,
    paths: list[str],
    active: bool = False,
    library: str | None = None,
    seconds: float = 30,
    asker: Ask = ask,
    checker: Check = gdscheck,
) -> dict[str, t.Any]:
    """Look, probe libcufile, and judge every mount.

    Returns the facts of ``look.look`` with driver_probe (the outcome of opening libcufile's driver, or None
    without a library), gdscheck (the same, or None), capability (the table of whichever answered, and its source), and
    per mount prerequisites[], missing {nvfs, p2pdma}, doubtful {nvfs, p2pdma}, mode, reason, proof (active, passive),
    probe {name: outcome}.
    """
    facts = look(host, paths, library)
    facts["driver_probe"] = facts["gdscheck"] = None
    found = facts["library"]["path"]
    node = facts["cufile_json"]["settings"]
    # libcufile's interpretation of unreadable settings is unknown.
    if found and facts["driver"]["loaded"] and facts["cufile_json"]["valid"] is not False:
        facts["driver_probe"] = asker(found, node, {}, seconds=seconds)
        facts["library"]["version"] = library_version(facts["driver_probe"], facts["library"]["version"])
    table = facts["driver_probe"]["table"] if facts["driver_probe"] else None
    source = "libcufile"
    tool = facts["tools"]["gdscheck.py"] or facts["tools"]["gdscheck"]
    if tool and facts["driver"]["loaded"] and not (table and table["drivers"]):
        facts["gdscheck"] = checker(tool, seconds)
        table, source = facts["gdscheck"]["table"], "gdscheck"
    facts["capability"] = {"source": source if table and table["drivers"] else None, **(table or {})}
    # A driver that gave no answer is not queried again for each mount.
    possible = facts["driver_probe"] is not None and facts["driver_probe"]["state"] in ("ok", "refused")
    once = _once_for_the_driver(asker) if active and possible else None
    for mount in facts["mounts"]:
        _judge_mount(facts, mount, once, seconds)
    return facts


def _once_for_the_driver(asker: Ask) -> Ask:
    """Return an asker that does not repeat a failed load or open of the driver for the next mount."""
    failed: dict[t.Any, dict[str, t.Any]] = {}

    def ask_once(library: str, node: dict[str, t.Any], changes: dict[str, bool], **more: t.Any) -> dict[str, t.Any]:
        key = tuple(sorted(changes.items()))
        if key in failed:
            return {**failed[key], "seconds": 0.0}
        answer = asker(library, node, changes, **more)
        if answer["state"] != "ok" and answer["step"] in ("load", "open"):
            failed[key] = answer
        return answer

    return ask_once


def _judge_mount(facts: dict[str, t.Any], mount: dict[str, t.Any], asker: Ask | None, seconds: float) -> None:
    mount["probe"] = {}
    if asker and mount["mount_point"] and mount["answers"] and mount["exists"]:
        mount["probe"] = probe_mount(facts, mount, asker, seconds)
    items = prerequisites(facts, mount)
    if facts["gdscheck"]:
        items = from_log(items, facts["gdscheck"]["table"])
    for outcome in [facts["driver_probe"], *mount["probe"].values()]:
        if outcome:
            items = from_log(items, outcome["table"], outcome["err"], outcome["cu_err"])
    mount["missing"] = {path: missing(items, path) for path in DIRECT}
    mount["proof"] = "active" if mount["probe"] else "passive"
    mount["mode"], mount["reason"] = judge(facts, mount)
    if mount["mode"] in DIRECT:
        # The path works, so an item that seemed to be missing was not needed; it is still reported.
        items = [
            {**item, "state": DOUBTFUL} if mount["mode"] in item["paths"] and item["state"] == MISSING else item
            for item in items
        ]
    mount["prerequisites"] = items
    mount["missing"] = {path: missing(items, path) for path in DIRECT}
    mount["doubtful"] = {path: missing(items, path, (DOUBTFUL,)) for path in DIRECT}


def probe_mount(facts: dict[str, t.Any], mount: dict[str, t.Any], asker: Ask, seconds: float) -> dict[str, t.Any]:
    """Register a file on the mount under the settings that the verdict needs. Returns {name: outcome}.

    strict: the node's settings, compat mode forbidden. no_p2pdma: the same without P2PDMA, asked where both paths
    could have taken the file. own: the node's settings as they are, asked where strict was refused. with_p2pdma: compat
    forbidden and P2PDMA on, asked where it is off, was not taken, and nothing but the setting seems to be in the way.
    """
    node, library = facts["cufile_json"]["settings"], facts["library"]["path"]

    def register(changes: dict[str, bool]) -> dict[str, t.Any]:
        return asker(library, node, changes, directory=mount["path"], seconds=seconds)

    forbidden = {"allow_compat_mode": False, "force_compat_mode": False}
    wanted = p2pdma_wanted(facts)
    answers: dict[str, t.Any] = {}
    if _forcing(node):
        return {"own": register({})}
    answers["strict"] = register(forbidden)
    if answers["strict"]["state"] == "ok" and wanted:
        answers["no_p2pdma"] = register({**forbidden, "use_pci_p2pdma": False})
    if answers["strict"]["state"] == "refused":
        if setting(node, "properties.allow_compat_mode", True):
            answers["own"] = register({})
        if not wanted and not set(missing(prerequisites(facts, mount), P2PDMA)) - set(SETTINGS):
            answers["with_p2pdma"] = register({**forbidden, "use_pci_p2pdma": True})
    return answers


def p2pdma_wanted(facts: dict[str, t.Any]) -> bool:
    """Return whether the node's cufile.json turns P2PDMA on, for all storage or for some."""
    node = facts["cufile_json"]["settings"]
    switches = [section["use_pci_p2pdma"] for section in p2pdma_sections(node)]
    return any([setting(node, "properties.use_pci_p2pdma", False), *switches])


def _forcing(node: dict[str, t.Any]) -> list[str]:
    return [name for name in FORCING if setting(node, f"properties.{name}", False)]


def judge(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> tuple[str, str]:
    """Return (mode, reason) of one mount, from its probe if there is one. Pure."""
    if mount["exists"] is False:
        return UNDETERMINABLE, f"{mount['path']} does not exist"
    if mount["mount_point"] is None:
        return UNDETERMINABLE, f"{mount['path']} is on no mount of the kernel's table"
    if not mount["answers"]:
        return UNDETERMINABLE, f"{mount['path']} did not answer within {ANSWER_SECONDS} seconds"
    if not facts["driver"]["loaded"]:
        return NONE, "the NVIDIA driver is not loaded"
    if not facts["library"]["path"]:
        return NONE, no_library(facts)
    if facts["cufile_json"]["valid"] is False:
        return UNDETERMINABLE, f"{facts['cufile_json']['path']} cannot be read, so libcufile's settings are unknown"
    return _judge_active(facts, mount) if mount["probe"] else _judge_passive(facts, mount)


def no_library(facts: dict[str, t.Any]) -> str:
    """Return the reason why there is no libcufile."""
    asked = facts["library"]["asked"]
    return f"{asked}, the requested libcufile, does not exist" if asked else "libcufile is not installed"


def _judge_active(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> tuple[str, str]:
    probe = mount["probe"]
    if "strict" not in probe:
        names = ", ".join(_forcing(facts["cufile_json"]["settings"]))
        return _judge_own(probe["own"], f"{facts['cufile_json']['path']} forces compat mode ({names})")
    strict = probe["strict"]
    if strict["state"] == "ok":
        return _unless_denied(facts, mount, *_which_direct(facts, mount))
    if strict["state"] == "corrupt":
        return NONE, strict["reason"]
    if strict["state"] != "refused":
        return UNDETERMINABLE, strict["reason"]
    why = _why_not_direct(mount, strict)
    if "own" not in probe:
        return NONE, f"{why}; {facts['cufile_json']['path']} forbids compat mode"
    return _judge_own(probe["own"], why)


def _judge_own(own: dict[str, t.Any], why: str) -> tuple[str, str]:
    if own["state"] == "ok":
        return COMPAT, why
    if own["state"] in ("refused", "corrupt"):
        return NONE, f"{why}; with compat mode allowed: {own['reason']}"
    return UNDETERMINABLE, f"{why}; with compat mode allowed: {own['reason']}"


def _which_direct(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> tuple[str, str]:
    strict = mount["probe"]["strict"]
    proof = "a block went through GPU memory" if strict["io"] else "libcufile took a file"
    proof += " with compat mode forbidden"
    other = mount["probe"].get("no_p2pdma")
    table = strict["table"]
    if table["compatible"]:
        return UNDETERMINABLE, f"{proof}, and yet its log reports compat mode"
    if other and other["state"] == "refused":
        return P2PDMA, f"{proof}, and not without P2PDMA"
    if other and other["state"] != "ok":
        return UNDETERMINABLE, f"{proof}, but by which path is open: {other['reason']}"
    if not facts["nvidia_fs"]["loaded"]:
        return UNDETERMINABLE, f"{proof}, and by neither path: nvidia-fs is not loaded and P2PDMA made no difference"
    if other is None:
        return NVFS, proof
    if NOT_FOR_P2PDMA.intersection(mount["missing"][P2PDMA]):
        return NVFS, f"{proof}; p2pdma lacks {', '.join(mount['missing'][P2PDMA])}"
    if table["p2pdma"]:
        supported = table["p2pdma"]["supported"]
    elif table["drivers"]:
        supported = P2PDMA in table["drivers"].get("NVMe", [])
    else:
        return UNDETERMINABLE, f"{proof}, but both paths are possible and libcufile's log does not report which it took"
    return (P2PDMA, f"{proof}, and P2PDMA comes first") if supported else (NVFS, f"{proof}; P2PDMA is not supported")


def _unless_denied(facts: dict[str, t.Any], mount: dict[str, t.Any], mode: str, reason: str) -> tuple[str, str]:
    """Return the verdict, or undeterminable if libcufile's own row for NVMe disks contradicts it."""
    row = mount["probe"]["strict"]["table"]["drivers"].get("NVMe")
    if mode == NVFS and mount["layout"] in ("disk", "md") and row is not None and NVFS not in row:
        return UNDETERMINABLE, f"{reason}, and yet libcufile's table does not name nvfs for NVMe"
    # NVIDIA's gds-diag: on Grace the settings of P2PDMA turn C2C on.
    is_x86 = facts["kernel"]["machine"] in ("x86_64", None)
    if mode == P2PDMA and not is_x86 and (not row or P2PDMA not in row or "c2c" in row):
        return UNDETERMINABLE, f"{reason}; whether by P2PDMA or by C2C, which have the same settings, is open"
    return mode, reason


def _why_not_direct(mount: dict[str, t.Any], strict: dict[str, t.Any]) -> str:
    parts = [f"{path} lacks {', '.join(mount['missing'][path])}" for path in DIRECT if mount["missing"][path]]
    return "; ".join(parts) or strict["reason"]


def _judge_passive(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> tuple[str, str]:
    """Return (mode, reason) without a file on the mount: a direct path can be ruled out but not confirmed."""
    driver = facts["driver_probe"]
    open_paths = [path for path in DIRECT if not mount["missing"][path]]
    if driver and driver["state"] in ("hang", "crash", "unusable"):
        return UNDETERMINABLE, f"libcufile: {driver['reason']}"
    if driver and driver["state"] == "refused":
        return NONE, f"no file can be used through cuFile: {driver['reason']}"
    if open_paths:
        return (
            UNDETERMINABLE,
            f"nothing that {' or '.join(open_paths)} needs is known to be missing: only an active probe can prove it",
        )
    why = "; ".join(f"{path} lacks {', '.join(mount['missing'][path])}" for path in DIRECT)
    if not setting(facts["cufile_json"]["settings"], "properties.allow_compat_mode", True):
        return NONE, f"{why}; {facts['cufile_json']['path']} forbids compat mode"
    if not facts["udev"]:
        return (
            UNDETERMINABLE,
            f"{why}; without /run/udev/data libcufile may take no file at all: only an active probe can prove it",
        )
    return COMPAT, why


def layout_advice(mount: dict[str, t.Any], machine: str | None, p2pdma: bool) -> str | None:
    """Return advice on a better layout of this mount for GPUDirect Storage; None if there is none. Pure.

    p2pdma: whether the node wants the path through P2PDMA.
    """
    where = mount["mount_point"] or mount["path"]
    if mount["layout"] == "md" and machine in ("x86_64", None):
        urge = ", requested here," if p2pdma else ""
        return (
            f"{where} is md {mount['md_level']}: P2PDMA{urge} does not work over md on x86, so direct I/O needs "
            "nvidia-fs with a patched NVMe driver; nvme_raid0_layout: per_disk gives one filesystem a disk, where "
            "P2PDMA is possible, at the price of one large volume"
        )
    if mount["layout"] in ("lvm", "dm"):
        return (
            f"{where} is on {'LVM' if mount['layout'] == 'lvm' else 'device-mapper'}, which neither path of GPUDirect "
            "Storage takes: use nvme_raid0_layout: raid0 (nvidia-fs) or per_disk (P2PDMA)"
        )
    if mount["fstype"] == "lustre" and mount["mode"] != NVFS:
        return (
            f"{where} is Lustre: the route that AWS documents for GPUDirect Storage is FSx for Lustre over EFA "
            "(PERSISTENT_2 SSD with EFA enabled, client set up with --optimized-for-gds, nvidia-fs loaded)"
        )
    if mount["fstype"] in ("nfs", "nfs4", "overlay", "tmpfs"):
        return (
            f"{where} is {mount['fstype']}, which has no direct path on EC2: keep data for GPUDirect Storage on "
            "instance-store disks or on FSx for Lustre over EFA"
        )
    return None


def advice(facts: dict[str, t.Any]) -> list[str]:
    """Return the advice on all mounts, one sentence each."""
    machine, wanted = facts["kernel"]["machine"], p2pdma_wanted(facts)
    found = [layout_advice(mount, machine, wanted) for mount in facts["mounts"]]
    for mount in facts["mounts"]:
        switched = mount["probe"].get("with_p2pdma")
        if switched and switched["state"] == "ok":
            found.append(f"{mount['path']}: P2PDMA works here as soon as properties.use_pci_p2pdma is true")
    return [text for text in found if text]


def hints(mount: dict[str, t.Any], paths: t.Sequence[str]) -> list[str]:
    """Return the hints for the requested paths, each once."""
    texts = [
        f"{item['id']}: {item['hint']}"
        for item in mount["prerequisites"]
        if item["state"] == MISSING and set(item["paths"]) & set(paths)
    ]
    return list(dict.fromkeys(texts))
