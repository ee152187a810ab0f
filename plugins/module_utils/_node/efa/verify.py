# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on the facts of ``efa.look``. Pure: facts in, mlcluster.result/1 out."""

from __future__ import annotations

import re
import typing as t

from ..accelerator.neuron import verify_neuron
from ..accelerator.versions import verify_versions
from ..system.versions import is_version
from ..verdict.evidence import Field, Subject, decide, exactly, is_text
from ..verdict.result import Result, Scope, failed, none_expected, not_applicable, passed, undeterminable
from .parse import UNLIMITED
from .peers import verify_peers

NO_EFA = "this machine has no EFA device and none is expected"
# States of a port in sysfs: drivers/infiniband/core/sysfs.c, state_show.
_ACTIVE = ("4: ACTIVE", "5: ACTIVE_DEFER")
_DOWN = ("0: NOP", "1: DOWN", "2: INIT", "3: ARMED")
_LIMIT_SOURCE = "the EFA installer's efa-config sets memlock to unlimited (/etc/security/limits.d/01_efa.conf)"
_PTRACE_SOURCE = "aws-parallelcluster-cookbook, resource efa: kernel.yama.ptrace_scope = 0 on EFA compute nodes"


def verify(facts: t.Mapping[str, t.Any]) -> list[Result]:
    """Return the verdicts on EFA.

    Ids: efa.installer, efa.devices, efa.driver, efa.provider, efa.plugin, efa.limits (one for a login and one for each
    running unit), efa.ptrace and efa.fabric_manager; efa.nccl, efa.gdrcopy and efa.nvshmem if installed; those
    of ``verify_versions``; on Neuron machines those of ``verify_neuron``; efa.peers for each peer named.
    """
    family, neuron = facts["family"], facts["neuron"]
    return [
        _installer(facts),
        _devices(facts),
        _driver(facts),
        _provider(facts),
        _plugin(facts),
        *_limits(facts),
        _ptrace(facts),
        _fabric_manager(facts),
        _library(facts, "nccl"),
        _gdrcopy(facts),
        _library(facts, "nvshmem"),
        *verify_versions(facts, used=_needs_libraries(facts)),
        *(verify_neuron(neuron, family["accelerators"], family["source"]) if neuron else []),
        *verify_peers(facts["peers"]),
    ]


def uses_efa(facts: t.Mapping[str, t.Any]) -> bool | None:
    """Return whether the machine has EFA or should have it; None if its type is unknown and it shows none."""
    if facts["devices"] or facts["pci_devices"] or facts["expected_devices"]:
        return True
    return None if facts["expected_devices"] is None else False


def _unless_used(facts: t.Mapping[str, t.Any], check: str) -> Result | None:
    used = uses_efa(facts)
    if used is None:
        return undeterminable(
            check,
            "no EFA device is here, and how many there should be is not known",
            hint="name the instance type or the number of devices expected",
        )
    return None if used else none_expected(check, NO_EFA, facts["expected_source"] or "the expected number", "devices")


def _installer(facts: t.Mapping[str, t.Any]) -> Result:
    check, found = "efa.installer", facts["installer"]
    if found["state"] == "absent":
        if uses_efa(facts):
            return failed(check, "the EFA software is not installed", hint="run the role efa_nccl")
        return not_applicable(check, "the EFA software is not installed, and no EFA device calls for it")
    if found["state"] == "undeterminable":
        if found["version"] is None and uses_efa(facts) is False:
            return not_applicable(check, "whether the EFA software is installed is unknown, and no EFA device needs it")
        return undeterminable(check, "; ".join(found["reasons"]), found=found["version"])
    again = "run the installer of the wanted version again, as the role efa_nccl does"
    if found["state"] == "interrupted":
        what = "; ".join(found["reasons"])
        return failed(check, f"an installation did not end: {what}", found=found["version"], hint=again)
    if found["differences"]:
        names = ", ".join(
            f"{entry['name']} {entry['installed']} instead of {entry['version']}" for entry in found["differences"]
        )
        return failed(check, f"packages of another installer: {names}", found=found["version"], hint=again)
    fields = (
        Field("state", exactly("complete"), label="the state of the installation"),
        Field("version", is_version, label="the installer's version"),
    )
    return decide(check, fields, [Subject(found)], found["version"])


def _devices(facts: t.Mapping[str, t.Any]) -> Result:
    check = "efa.devices"
    outside = _unless_used(facts, check)
    if outside:
        return outside
    count, expected, pci = len(facts["devices"]), facts["expected_devices"], len(facts["pci_devices"])
    fields: dict[str, t.Any] = {
        "found": count,
        "expected": expected,
        "unit": "devices",
        "source": facts["expected_source"],
        "seconds": facts["waited_seconds"],
    }
    if count < pci:
        return failed(
            check,
            f"{pci} EFA functions are on the PCI bus and the driver offers {count} of them",
            severity="reboot",
            hint="look with 'dmesg | grep efa' and 'modinfo efa'",
            **fields,
        )
    states = {device["name"]: device["state"] for device in facts["devices"]}
    down = [name for name, state in states.items() if state in _DOWN]
    if down:
        return failed(
            check,
            f"ports are not active: {', '.join(down)}",
            severity="reset",
            hint="look with 'rdma link' and 'dmesg | grep efa'",
            **fields,
        )
    if expected is None:
        return undeterminable(check, "how many EFA devices there should be is not known", **fields)
    if count < expected:
        return failed(
            check,
            "fewer EFA devices than the instance type allows",
            severity="isolate",
            hint="launch the instance with an EFA interface on each network card, or set the expected number",
            **fields,
        )
    if count > expected:
        return undeterminable(check, "more EFA devices than expected: the expectation is out of date", **fields)
    port = Field("state", exactly(*_ACTIVE), label="the state of its port")
    subjects = [Subject(device, device["name"]) for device in facts["devices"]]
    return decide(check, (port,), subjects, **fields)


def _driver(facts: t.Mapping[str, t.Any]) -> Result:
    check, module = "efa.driver", facts["modules"]["efa"]
    outside = _unless_used(facts, check)
    if outside:
        return outside
    if module["available"] is False:
        return failed(
            check,
            "the running kernel has no module efa",
            severity="reset",
            hint="look with 'dkms status'; install the headers of the running kernel and run the EFA installer again",
        )
    if not module["loaded"]:
        return failed(check, "the module efa is not loaded", severity="reset", hint="run 'modprobe efa'")
    unread = [device["name"] for device in facts["devices"] if not device["driver"]]
    strange = sorted({device["driver"] for device in facts["devices"] if device["driver"]} - {"efa"})
    if strange:
        return failed(check, f"EFA devices are driven by {', '.join(strange)}", severity="reboot", expected="efa")
    if unread:
        return undeterminable(check, f"the driver of {', '.join(unread)} cannot be read")
    disk, memory = module["version"], module["loaded_version"]
    if is_version(disk) and is_version(memory) and disk != memory:
        return failed(
            check,
            "the loaded module efa is not the installed one",
            severity="reboot",
            expected=disk,
            found=memory,
            hint="reboot the node",
        )
    evidence = (
        Field("available", exactly(True), label="the answer of modinfo for the module efa"),
        Field("loaded", exactly(True), label="whether the module efa is loaded"),
        # If neither module reports a version, it is the module of the kernel tree, which has none.
        Field(
            "loaded_version",
            lambda version: version == disk and (version is None or is_version(version)),
            label="/sys/module/efa/version",
        ),
    )
    return decide(check, evidence, [Subject(module)], memory or "in the kernel tree, without a version of its own")


def _provider(facts: t.Mapping[str, t.Any]) -> Result:
    check, fabric = "efa.provider", facts["libfabric"]
    outside = _unless_used(facts, check)
    if outside:
        return outside
    if fabric["program"] is None:
        return undeterminable(check, "fi_info is not installed", hint="install the EFA software without --minimal")
    devices = sorted(device["name"] for device in facts["devices"])
    missing = [name for name in devices if name not in fabric["domains"]]
    fields: dict[str, t.Any] = {"expected": len(devices), "found": len(fabric["domains"]), "unit": "RDM domains"}
    if fabric["problem"] and "no answer within" in fabric["problem"]:
        return undeterminable(check, fabric["problem"])
    if not fabric["domains"]:
        why = fabric["problem"] or "fi_info lists no reliable endpoint of the provider efa"
        return failed(check, f"libfabric does not offer EFA: {why}", severity="reset", **fields)
    if missing:
        return failed(
            check, f"libfabric does not offer all devices, without {', '.join(missing)}", severity="reset", **fields
        )
    if fabric["problem"]:
        return undeterminable(check, fabric["problem"], **fields)
    if not devices:
        return undeterminable(check, "libfabric offers EFA, and sysfs shows no device to compare it with", **fields)
    return passed(check, **fields, source=f"libfabric {fabric['version'] or 'of unknown version'}")


def _plugin(facts: t.Mapping[str, t.Any]) -> Result:
    check, plugin = "efa.plugin", facts["plugin"]
    chips = facts["family"]["accelerators"]
    if chips and chips["kind"] == "neuron":
        return not_applicable(check, "Neuron devices do not use NCCL")
    if plugin is None:
        if uses_efa(facts) and (chips or facts["nvidia_driver"]):
            return failed(
                check,
                "NCCL has no OFI plugin on this machine and would fall back to TCP sockets",
                hint="install the EFA software without --minimal",
            )
        return not_applicable(check, "no OFI plugin is installed, and nothing here calls for one")
    scope = Scope(device=plugin["net"])
    if plugin["loads"] is None:
        return undeterminable(check, f"the plugin could not be tried: {plugin['error']}", scope=scope)
    if not plugin["loads"]:
        return failed(check, f"the plugin does not load: {plugin['error']}", scope=scope, hint="run 'ldd' on it")
    if not plugin["interfaces"]:
        return failed(check, "the library loads and offers no NCCL network interface", scope=scope)
    if plugin["on_linker_path"] is False and facts["linker_problem"]:
        why = f"the plugin loads, and whether NCCL finds it by name is not known: {facts['linker_problem']}"
        return undeterminable(check, why, found=plugin["version"], scope=scope)
    if plugin["on_linker_path"] is False:
        return undeterminable(
            check,
            "the plugin loads, and NCCL does not find it by name: the dynamic linker does not know its directory",
            found=plugin["version"],
            scope=scope,
            hint=f"put {plugin['place']} into a file of /etc/ld.so.conf.d, then run 'ldconfig'",
        )
    return _opened(facts, plugin)


def _interfaces(value: object) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(re.fullmatch(r"ncclNetPlugin_v\d+", str(one)) for one in value)
    )


_PLUGIN = (
    Field("loads", exactly(True), label="whether the plugin loads"),
    Field("interfaces", _interfaces, label="the interfaces of the plugin"),
    Field("on_linker_path", exactly(True), label="whether the dynamic linker knows the plugin"),
    Field("version", is_version, label="the plugin's version"),
    Field("opened", is_text, label="the plugin that NCCL opens"),
)


def _opened(facts: t.Mapping[str, t.Any], plugin: t.Mapping[str, t.Any]) -> Result:
    """Check that NCCL opens that plugin and its tuner: a plugin that is never opened proves nothing."""
    check, scope, net = "efa.plugin", Scope(device=plugin["net"]), facts["nccl_net"]
    set_by = f"NCCL_NET_PLUGIN={net['value']} in {net['source']}" if net["value"] else ""
    leaving = facts["efa_blocked_by"]
    if leaving and uses_efa(facts) is not False:
        return failed(
            check,
            f"{leaving['name']}={leaving['value']} in {leaving['source']} takes NCCL off EFA",
            expected=leaving["good"],
            found=leaving["value"],
            scope=scope,
            hint=f"remove {leaving['name']} there",
        )
    if not net["names"]:
        return failed(check, f"{set_by} keeps NCCL from opening any plugin", scope=scope, hint="remove it")
    if net["path"] is None and facts["linker_problem"]:
        why = f"which library NCCL opens for {' or '.join(net['names'])} is not known: {facts['linker_problem']}"
        return undeterminable(check, why, scope=scope)
    if net["path"] is None:
        names = " or ".join(net["names"])
        why = f", by {set_by}" if set_by else ", its default name"
        return failed(
            check,
            f"NCCL opens {names}{why}, and the dynamic linker knows no library of that name",
            scope=scope,
            hint="set NCCL_NET_PLUGIN=ofi in /etc/nccl.conf, as the role efa_nccl does",
        )
    if net["plugin"] != plugin["net"]:
        what = "another OFI plugin than the one that works" if net["plugin"] else "not the OFI plugin"
        return failed(
            check,
            f"NCCL opens {net['path']}, {f'by {set_by}' if set_by else 'the first that the dynamic linker knows'}, "
            f"which is {what}",
            scope=scope,
            hint="set NCCL_NET_PLUGIN=ofi in /etc/nccl.conf, or remove the other plugin",
        )
    named = facts["nccl_tuner"]
    tuners = [(f"the tuner {plugin['tuner']}", plugin["tuner_loads"], plugin["tuner_error"])] if plugin["tuner"] else []
    if named["value"] and named["value"] != "none":
        what = f"NCCL_TUNER_PLUGIN={named['value']} in {named['source']}"
        tuners.append((what, named["loads"], named["error"]))
    for what, loads, error in tuners:
        if loads is False:
            return failed(check, f"{what} does not load: {error}", scope=scope, hint="run 'ldd' on it")
    for what, loads, error in tuners:
        if loads is not True:
            return undeterminable(check, f"{what} could not be tried: {error}", scope=scope)
    description = f"{plugin['version']}, {plugin['interfaces'][-1]}, opened as {net['path']}"
    return decide(check, _PLUGIN, [Subject({**plugin, "opened": net["plugin"]})], description, scope=scope)


def _limits(facts: t.Mapping[str, t.Any]) -> list[Result]:
    check = "efa.limits"
    outside = _unless_used(facts, check)
    if outside:
        return [outside]
    return [_login_limit(facts)] + [
        _unit_limit(name, unit) for name, unit in facts["units"].items() if unit["pid"] is not None
    ]


def _login_limit(facts: t.Mapping[str, t.Any]) -> Result:
    login, scope = facts["limits"]["login"], Scope(device="login")
    fields: dict[str, t.Any] = {"expected": UNLIMITED, "scope": scope, "source": _LIMIT_SOURCE}
    unread = facts["limits"]["unread"]
    if unread:
        reason = f"{', '.join(unread)} cannot be read, and the last file with a limit counts"
        return undeterminable("efa.limits", reason, hint="run as root", **fields)
    low = [kind for kind in ("soft", "hard") if login[kind] != UNLIMITED]
    others = facts["limits"]["others"]
    if not low and others:
        return undeterminable(
            "efa.limits",
            f"logins of {', '.join(others)} have lower limits of their own, which override those of all users",
            found={name: limit["soft"] or limit["hard"] for name, limit in others.items()},
            hint="take these lines out of /etc/security/limits.d, if jobs run under these names",
            **fields,
        )
    if not low:
        return passed("efa.limits", UNLIMITED, **fields)
    limits = " and ".join(
        f"{kind} {login[kind]} KiB in {login[kind + '_file']}" if login[kind] is not None else f"{kind} not set"
        for kind in low
    )
    return failed(
        "efa.limits",
        f"a login may not lock all memory: {limits}",
        hint="set memlock to unlimited in the last file of /etc/security/limits.d, then log in again",
        **fields,
    )


def _unit_limit(name: str, unit: t.Mapping[str, t.Any]) -> Result:
    running, scope = unit["running_memlock"], Scope(device=name)
    fields: dict[str, t.Any] = {"expected": UNLIMITED, "scope": scope, "source": _LIMIT_SOURCE}
    if running is None:
        return undeterminable("efa.limits", f"the limits of process {unit['pid']} could not be read", **fields)
    if running["soft"] == UNLIMITED:
        return passed("efa.limits", UNLIMITED, **fields)
    hint = "set LimitMEMLOCK=infinity in a drop-in of the unit and restart it"
    if unit["configured_memlock"] == UNLIMITED:
        hint = "restart the unit: it runs with the limit from before the change"
    return failed(
        "efa.limits",
        "the running unit may not lock all memory",
        found=running["soft"],
        unit="bytes",
        hint=hint,
        **fields,
    )


def _ptrace(facts: t.Mapping[str, t.Any]) -> Result:
    check, scope = "efa.ptrace", facts["ptrace_scope"]
    outside = _unless_used(facts, check)
    if outside:
        return outside
    if scope is None and facts["yama"]:
        return undeterminable(check, "kernel.yama.ptrace_scope cannot be read")
    if scope is None:
        return not_applicable(check, "this kernel has no Yama, so processes may read each other's memory")
    if scope == 0:
        return passed(check, 0, expected=0, source=_PTRACE_SOURCE)
    return failed(
        check,
        "libfabric's shared-memory copies between the processes of a node are forbidden",
        expected=0,
        found=scope,
        source=_PTRACE_SOURCE,
        hint="set kernel.yama.ptrace_scope to 0",
    )


def _fabric_manager(facts: t.Mapping[str, t.Any]) -> Result:
    check, manager = "efa.fabric_manager", facts["fabric_manager"]
    switched, driver = facts["family"]["nvswitch"], facts["nvidia_driver"]
    if switched is None and not driver:
        return not_applicable(check, "the instance type is not known, and no NVIDIA driver is loaded to need it")
    if switched is None:
        return undeterminable(check, "whether this machine has NVSwitches is not known: its instance type is unknown")
    if switched is False:
        return not_applicable(check, "this machine has no NVSwitch")
    if switched is not True:
        return undeterminable(check, f"whether this machine has NVSwitches reads '{switched}'")
    if not driver:
        return undeterminable(check, "the NVIDIA driver is not loaded, so there is no version to compare with")
    fields: dict[str, t.Any] = {"expected": driver, "found": manager["version"], "scope": Scope(device=manager["unit"])}
    if manager["exists"] is None:
        return undeterminable(check, f"systemctl does not report {manager['unit']}", **fields)
    if not manager["exists"]:
        return failed(
            check,
            "the fabric manager is not installed, and without it CUDA does not start on this machine",
            severity="reset",
            hint="install the fabric manager of exactly the driver's version",
            **fields,
        )
    if not manager["active"]:
        return failed(
            check,
            "the fabric manager is not running",
            severity="reset",
            hint="look with 'journalctl -u nvidia-fabricmanager'",
            **fields,
        )
    if not manager["version"]:
        why = manager["problem"] or "nv-fabricmanager --version names none"
        return undeterminable(check, f"the fabric manager's version is not known: {why}", **fields)
    if manager["version"] != driver:
        return failed(
            check,
            "the fabric manager is not of the driver's version",
            severity="reset",
            hint="install the matching package and restart both",
            **fields,
        )
    evidence = (
        Field("exists", exactly(True), label="whether the unit is there"),
        Field("active", exactly(True), label="whether the unit is active"),
        Field("version", exactly(driver), label="its version"),
    )
    return decide(check, evidence, [Subject(manager)], **fields)


def _needs_libraries(facts: t.Mapping[str, t.Any]) -> bool:
    """Return whether the machine may have EFA or accelerators."""
    return uses_efa(facts) is not False or bool(facts["family"]["accelerators"])


def _library(facts: t.Mapping[str, t.Any], name: str) -> Result:
    check, library = f"efa.{name}", facts[name]
    if library["path"] is None and facts["linker_problem"] and _needs_libraries(facts):
        return undeterminable(check, f"whether the library is installed is not known: {facts['linker_problem']}")
    if library["path"] is None:
        return not_applicable(check, "the library is not installed")
    scope = Scope(device=library["path"])
    if library["loads"] is None:
        return undeterminable(check, f"the library could not be tried: {library['error']}", scope=scope)
    if not library["loads"]:
        return failed(check, f"the library does not load: {library['error']}", scope=scope, hint="run 'ldd' on it")
    evidence = (Field("loads", exactly(True), label="whether the library loads"),)
    return decide(check, evidence, [Subject(library)], library["version"] or "loads", scope=scope)


def _gdrcopy(facts: t.Mapping[str, t.Any]) -> Result:
    """Check GDRCopy: a library and a kernel module with a device node, which need each other."""
    check, module = "efa.gdrcopy", facts["modules"]["gdrdrv"]
    library = _library(facts, "gdrcopy")
    if library.status != "pass":
        return library
    if module["loaded"] is True and facts["gdrcopy"]["device_node"] is True:
        return library
    what = "is loaded and has no device node" if module["loaded"] else "is not loaded"
    hint = "run 'modprobe gdrdrv', and look with 'dkms status'"
    return failed(check, f"the library is there, and its kernel module gdrdrv {what}", hint=hint)
