# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts from the facts of ``lustre.look``. Pure: facts in, mlcluster.result/1 out."""

from __future__ import annotations

import typing as t

from ..system.versions import is_version
from ..verdict.evidence import Field, Subject, decide, exactly, is_text
from ..verdict.result import FAIL, PASS, Result, Scope, failed, first_of, not_applicable, passed, undeterminable
from .identity import identify
from .look import EFA_SOURCE, NFS_TYPES

NO_LUSTRE = "no Lustre file system is configured, mounted or in fstab on this node"
_KERNEL_HINT = (
    "install the client of that kernel, or boot one that has it: FSx for Lustre User Guide, client compatibility"
)
_MOUNT_HINT = "check 'journalctl -k', and that the security groups allow ports 988 and 1018-1023"
# Number of missing directories that a message names.
SHOWN = 4
_MOUNT_FAILURES = {
    "absent": "nothing is mounted there",
    "trigger": "systemd's automount was triggered, and nothing was mounted",
    "silent": "the file system gives no answer",
}


def verify(facts: t.Mapping[str, t.Any]) -> list[Result]:
    """Return the verdicts on a node.

    Ids: lustre.client, lustre.next_kernel, lustre.held; for each file system lustre.mounted, lustre.write_read (if it
    was probed) and lustre.network (if EFA is wanted); lustre.directories, one for all missing directories and one for
    each bad one, or one for all; lustre.tuning, lustre.module_options; nfs.mounted for each NFS mount.
    """
    if not facts["mounts"]:
        return [not_applicable("lustre.mounted", NO_LUSTRE), *_nfs(facts)]
    return [
        _client(facts),
        _next_kernel(facts),
        _held(facts),
        *_mounts(facts),
        *[Result.from_dict(entry) for entry in facts["probes"].values()],
        *_networks(facts),
        *_directories(facts),
        _tuning(facts),
        _module_options(facts),
        *_nfs(facts),
    ]


def _client(facts: t.Mapping[str, t.Any]) -> Result:
    check, kernel, missing = "lustre.client", facts["kernel"], [n for n in ("lfs", "lctl") if not facts["tools"][n]]
    if missing:
        verb = "are" if len(missing) > 1 else "is"
        return failed(check, f"{' and '.join(missing)} {verb} not installed", hint="run the role fsx_lustre")
    return _module_for(facts, check, kernel["running"], "the running kernel", "isolate")


def _next_kernel(facts: t.Mapping[str, t.Any]) -> Result:
    check, kernel = "lustre.next_kernel", facts["kernel"]
    if kernel["next"] is not None and kernel["next"] == kernel["running"]:
        return not_applicable(check, "the next boot has the running kernel")
    return _module_for(facts, check, kernel["next"], "the kernel of the next boot", "monitor")


def _module_for(facts: t.Mapping[str, t.Any], check: str, release: str | None, what: str, severity: str) -> Result:
    installed = facts["kernel"]["installed"]
    if release is None:
        return undeterminable(check, f"{what} is unknown")
    if not facts["tools"]["modinfo"]:
        return undeterminable(check, "modinfo is not installed, so the modules of a kernel are unknown")
    if not installed.get(release):
        return failed(check, f"{what} {release} has no module lustre", severity=severity, hint=_KERNEL_HINT)
    version = Field("version", is_version, label=f"the version of the module lustre of {what}")
    found = f"{release} has lustre {installed[release]}"
    return decide(check, (version,), [Subject({"version": installed[release]})], found)


def _held(facts: t.Mapping[str, t.Any]) -> Result:
    check = "lustre.held"
    if facts["packages_requested"] is not True:
        return not_applicable(check, "only the role fsx_lustre knows which packages to hold, and checks them")
    if not is_text(facts["package_manager"]):
        return undeterminable(check, "no package manager answered")
    if not facts["packages"]:
        return not_applicable(check, "none of the packages to hold is installed")
    if facts["unheld_packages"]:
        what = f"an upgrade may separate kernel and client: {', '.join(facts['unheld_packages'])} is not held"
        return failed(check, what, hint="run the role fsx_lustre")
    return passed(check, f"{len(facts['packages'])} packages")


def _mounts(facts: t.Mapping[str, t.Any]) -> list[Result]:
    found = []
    for mount in facts["mounts"]:
        check, scope = "lustre.mounted", Scope(device=mount["path"])
        other = identify(mount) if mount["state"] == "lustre" else None
        if mount["state"] in _MOUNT_FAILURES:
            why = f": {mount['why']}" if mount["why"] else ""
            found.append(
                failed(check, _MOUNT_FAILURES[mount["state"]] + why, severity="isolate", scope=scope, hint=_MOUNT_HINT)
            )
        elif mount["state"] != "lustre":
            what = f"{mount['source']} is mounted there and reports the type {mount['answer']}"
            found.append(failed(check, what, severity="isolate", scope=scope, expected="lustre"))
        elif other and other.status == FAIL:
            found.append(other)
        elif _is_read_only(mount["options"]) and not _is_read_only(mount["fstab_options"]):
            hint = "find the cause with 'dmesg', then mount it again"
            what = "it is mounted read-only, and fstab does not set that"
            found.append(failed(check, what, severity="reset", scope=scope, hint=hint))
        else:
            verdict = decide(check, _LUSTRE, [Subject(mount)], str(mount["source"]), scope=scope)
            found.append(other if other and verdict.status == PASS else verdict)
    return found


def _is_read_only(options: object) -> bool:
    return isinstance(options, str) and "ro" in options.split(",")


def _is_known(options: object) -> bool:
    return isinstance(options, str) and bool({"rw", "ro"} & set(options.split(",")))


def _has_server(source: object) -> bool:
    """Return whether a source is SERVER:/PATH; NFS exports the path / itself."""
    return isinstance(source, str) and bool(source.partition(":/")[0]) and ":/" in source


def _has_name(source: object) -> bool:
    """Return whether a source is SERVER:/NAME."""
    return _has_server(source) and bool(str(source).partition(":/")[2])


_LUSTRE = (
    Field("fstype", exactly("lustre"), label="its type in the mount table"),
    Field("answer", exactly("lustre"), label="the file system's own answer"),
    Field("source", _has_name, label="its source in the mount table"),
    Field("options", _is_known, label="its options in the mount table"),
)
_NFS = (
    Field("fstype", exactly(*NFS_TYPES), label="its type in the mount table"),
    Field("answer", exactly(*NFS_TYPES), label="the file system's own answer"),
    Field("source", _has_server, label="its source in the mount table"),
)


def _networks(facts: t.Mapping[str, t.Any]) -> list[Result]:
    """Return the verdicts on data over EFA: interfaces are up, and each file system's own servers get data over it."""
    found, wanted = [], facts["efa_wanted"]
    for mount in facts["mounts"]:
        if not mount["efa"]:
            continue
        check = "lustre.network"
        fields: dict[str, t.Any] = {"scope": Scope(device=mount["path"]), "source": EFA_SOURCE}
        up = facts["nets"].get("efa", {"up": 0})["up"]
        probed = facts["probes"].get(mount["path"], {})
        hint = "run AWS's set-up of EFA clients for FSx for Lustre, and check with 'lnetctl net show -v'"
        if facts["net_problem"]:
            found.append(undeterminable(check, facts["net_problem"], **fields))
        elif not up >= wanted:
            what = f"{up} interfaces of LNet are up on EFA, so data goes over TCP or over fewer than wanted"
            found.append(failed(check, what, hint=hint, expected=wanted, found=up, **fields))
        elif probed.get("status") != "pass":
            found.append(undeterminable(check, "nothing was written, so no counter proves the use of EFA", **fields))
        else:
            found.append(_over_efa(mount, up, {"hint": hint, **fields}))
    return found


def _over_efa(mount: t.Mapping[str, t.Any], up: int, fields: t.Mapping[str, t.Any]) -> Result:
    """Return the verdict by the messages to this file system's own servers while it was written to."""
    check, rows = "lustre.network", mount["servers"]
    unknown = [row["nid"] for row in rows if row["nets"] is None]
    if mount["servers_problem"] or not rows or unknown:
        why = mount["servers_problem"] or f"LNet lists no peer {', '.join(unknown)}"
        why = why if rows or mount["servers_problem"] else "none is listed"
        what = f"the servers of this file system are unknown, and other counters count all file systems: {why}"
        return undeterminable(check, what, **fields)
    bare = [row["nid"] for row in rows if "efa" not in row["nets"]]
    if bare:
        what = f"LNet knows no EFA address of {', '.join(bare[:SHOWN])}, so data goes over TCP"
        return failed(check, what, expected=len(rows), found=len(rows) - len(bare), **fields)
    sent = sum(row["sent"]["efa"] for row in rows)
    if not sent > 0:
        what = "the file system was written to and LNet has sent nothing to its servers over EFA"
        return failed(check, what, found={row["nid"]: row["sent"] for row in rows}, **fields)
    over_tcp = [row["nid"] for row in rows if row["sent"]["efa"] <= 0 and any(row["sent"].values())]
    if over_tcp:
        what = f"LNet has sent messages to {', '.join(over_tcp[:SHOWN])} only over other nets than EFA"
        return undeterminable(check, what, **fields)
    return passed(
        check,
        f"{sent} messages over {up} interfaces of EFA to {len(rows)} servers",
        scope=fields["scope"],
        source=fields["source"],
    )


def _directories(facts: t.Mapping[str, t.Any]) -> list[Result]:
    check, rows = "lustre.directories", facts["directories"]
    if not rows:
        return [not_applicable(check, "no directories are wanted")]
    found = []
    missing = [row["path"] for row in rows if row["state"] == "missing"]
    if missing:
        what = f"{len(missing)} of {len(rows)} are missing: {first_of(missing, SHOWN)}"
        found.append(failed(check, what, hint="run the role fsx_lustre on the head node: only it creates them"))
    for row in rows:
        scope = Scope(device=row["path"])
        if row["state"] == "refused":
            found.append(failed(check, str(row["why"]), scope=scope))
        elif row["state"] == "unknown":
            found.append(undeterminable(check, str(row["why"]), scope=scope))
    return found or [passed(check, f"{len(rows)} directories")]


def _not_tuned(facts: t.Mapping[str, t.Any], check: str, reason: str) -> Result:
    """Return the verdict if no value is wanted: not applicable for ``reason`` if the machine's size is known."""
    if facts["tune"] is not True:
        return not_applicable(check, "fsx_lustre_tune is off")
    unknown = [name for name, size in facts["machine"].items() if size is None]
    if unknown:
        return undeterminable(
            check, f"{' and '.join(unknown)} of this machine are unknown, and the wanted values depend on them"
        )
    return not_applicable(check, reason)


def _tuning(facts: t.Mapping[str, t.Any]) -> Result:
    check, rows = "lustre.tuning", facts["tuning"]
    if not facts["tuning_wanted"]:
        return _not_tuned(facts, check, "a machine of this size needs no values other than Lustre's defaults")
    if not rows:
        return undeterminable(check, "no Lustre file system is mounted, so there are no parameters to compare")
    source = "; ".join(dict.fromkeys(row["source"] for row in rows))
    problems = [row["problem"] for row in rows if row["problem"]]
    wrong = [row for row in rows if row["differs"]]
    if wrong:
        what = ", ".join(f"{row['name']} is {' and '.join(row['found'])} instead of {row['wanted']}" for row in wrong)
        return failed(check, what, hint="start mlcluster-lustre.service again", source=source)
    if problems:
        return undeterminable(check, "; ".join(problems), source=source)
    parameters = ", ".join(f"{row['name']}={row['wanted']}" for row in rows)
    subjects = [Subject({**row, "same": row["found"] == [row["wanted"]]}, row["name"]) for row in rows]
    every = Subject({"differs": False, "same": len(rows) == facts["tuning_wanted"]}, "the list of parameters")
    return decide(check, _TUNING, [every, *subjects], parameters, source=source)


_TUNING = (
    Field("differs", exactly(False), label="whether it differs"),
    Field("same", exactly(True), label="whether all its values are the wanted one"),
)


def _module_options(facts: t.Mapping[str, t.Any]) -> Result:
    check, rows = "lustre.module_options", facts["module_options"]
    if not rows:
        return _not_tuned(facts, check, "a machine of this size needs no options other than the modules' defaults")
    source = "; ".join(dict.fromkeys(row["source"] for row in rows))
    wrong = [row for row in rows if row["found"] not in (None, row["wanted"])]
    if wrong:
        what = ", ".join(f"{row['name']} is {row['found']} instead of {row['wanted']}" for row in wrong)
        hint = "they apply from the next boot, when the modules are loaded again"
        return failed(check, what, severity="reboot", hint=hint, source=source)
    loaded = [row for row in rows if row["loaded"]]
    if not loaded:
        return not_applicable(check, "the modules are not loaded yet; they read their options when they load")
    unknown = [row["name"] for row in loaded if row["found"] is None]
    if unknown:
        return undeterminable(check, f"the loaded modules do not show {', '.join(unknown)}", source=source)
    parameters = ", ".join(f"{row['name']}={row['wanted']}" for row in rows)
    known = Field("loaded", exactly(True, False), label="whether its module is loaded")
    return decide(check, (known,), [Subject(row, row["name"]) for row in rows], parameters, source=source)


def _nfs(facts: t.Mapping[str, t.Any]) -> list[Result]:
    found = []
    for mount in facts["nfs_mounts"]:
        scope = Scope(device=mount["path"])
        if mount["state"] == "nfs":
            found.append(decide("nfs.mounted", _NFS, [Subject(mount)], str(mount["source"]), scope=scope))
            continue
        other = f"{mount['source']} is mounted there and reports the type {mount['answer']}"
        what = _MOUNT_FAILURES.get(mount["state"], other)
        why = f": {mount['why']}" if mount["why"] and mount["state"] in _MOUNT_FAILURES else ""
        hint = "check 'findmnt', and that the security groups allow NFS (111, 2049, 20001-20003)"
        found.append(failed("nfs.mounted", what + why, severity="isolate", scope=scope, hint=hint))
    return found
