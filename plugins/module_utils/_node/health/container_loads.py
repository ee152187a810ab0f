# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Libraries that a job in this container loads: NCCL's network plugin and CUDA, in the job's environment.

A child process with a time limit opens the libraries, by the names that NCCL and CUDA programs use and with this
process's LD_LIBRARY_PATH: a step of the job has the environment of the image and of the job.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..efa.environment import Setting, lint
from ..efa.parse import plugin_version
from ..efa.plugin import DEFAULTS, NCCL_CONF, TRANSPORT, leaving_setting, nccl_setting, net_names
from ..system import child
from ..system.host import Host
from ..verdict.evidence import is_integer
from ..verdict.result import Result, Scope, failed, not_applicable, passed, undeterminable

SECONDS = 30
UNREAD_DRIVER = "this container has GPUs, and the version of the kernel's NVIDIA driver cannot be read"
# The argument is a JSON list of names; the first that can be opened is used.
_CHILD = """
import ctypes
def mapped():
    return {row.split(None, 5)[5].strip() for row in open("/proc/self/maps") if ".so" in row}
found = {"name": None, "path": None, "files": [], "symbols": [], "errors": {}, "init": None, "version": None}
before = mapped()
for name in json.loads(sys.argv[1]):
    try:
        library = ctypes.CDLL(name, mode=2)
    except OSError as problem:
        found["errors"][name] = str(problem)
        continue
    found["name"], found["files"] = name, sorted(mapped() - before)
    class Info(ctypes.Structure):
        _fields_ = [("address", ctypes.c_void_p), ("path", ctypes.c_char_p)]
    info = ctypes.POINTER(Info)()
    ctypes.CDLL(None).dlinfo(ctypes.c_void_p(library._handle), 2, ctypes.byref(info))
    found["path"] = info.contents.path.decode(errors="replace")
    found["symbols"] = [n for n in ("ncclNetPlugin_v%d" % i for i in range(1, 21)) if hasattr(library, n)]
    if hasattr(library, "cuInit"):
        found["init"] = library.cuInit(0)
        number = ctypes.c_int(0)
        if library.cuDriverGetVersion(ctypes.byref(number)) == 0:
            found["version"] = number.value
    break
answer(found)
"""
_KEYS: dict[str, child.Check] = {
    "name": child.or_none(child.is_string),
    "path": child.or_none(child.is_string),
    "files": child.is_string_list,
    "symbols": child.is_string_list,
    "errors": child.is_string_dict,
    "init": child.or_none(is_integer),
    "version": child.or_none(is_integer),
}


def opened(host: Host, names: t.Sequence[str]) -> dict[str, t.Any]:
    """Open the first of these libraries that opens in this environment.

    Returns its ``name`` and ``path`` (None: none opens), ``files`` loaded with it, ``symbols`` (network interfaces of
    NCCL), ``errors`` (name to loader message), for libcuda ``init`` (the result of cuInit) and ``version``, and
    ``problem``: why no library could be tried.
    """
    try:
        return {**child.ask_child(host, _CHILD, [json.dumps(list(names))], _KEYS, SECONDS), "problem": None}
    except child.ChildError as exc:
        if not exc.started:
            return {"problem": exc.problem}
        return {"problem": f"the process that opened {' or '.join(names)} {exc.problem}"}


def verify_net(host: Host, efa_inside: int, efa_outside: int | None) -> Result:
    """Return whether NCCL in this container opens the OFI plugin, and so EFA."""
    check = "container.nccl_net"
    if not efa_inside and efa_outside == 0:
        return not_applicable(check, "the host has no EFA devices")
    if not efa_inside and efa_outside is None:
        return undeterminable(check, "the container has no EFA device, and the host's facts are missing")
    leaving = leaving_setting(host)
    if leaving:
        return failed(
            check,
            f"{leaving['name']}={leaving['value']} in {leaving['source']} takes NCCL off EFA",
            severity="reset",
            expected=leaving["good"],
            found=leaving["value"],
            hint=" ".join(_remedies({leaving["name"]: leaving["source"]})),
        )
    setting = nccl_setting(host, "NCCL_NET_PLUGIN")
    names = net_names(setting["value"])
    why = f"NCCL_NET_PLUGIN={setting['value']} in {setting['source']}" if setting["value"] else "its default name"
    if not names:
        return failed(check, f"{why} keeps NCCL from opening any plugin", severity="reset", hint="unset it")
    found = opened(host, names)
    if found["problem"]:
        return undeterminable(check, found["problem"])
    if found["name"] is None:
        words = "; ".join(found["errors"].values())
        hint = "install the EFA software in the image, or correct LD_LIBRARY_PATH and NCCL_NET_PLUGIN"
        return failed(check, f"NCCL opens no plugin by {why}: {words}", severity="reset", hint=hint)
    scope = Scope(device=found["path"])
    version = plugin_version(host.read_text(found["path"]) or "")
    if version is None:
        return failed(
            check, f"NCCL opens {found['path']} by {why}, which is not the OFI plugin", severity="reset", scope=scope
        )
    interfaces = [name for name in found["symbols"] if re.fullmatch(r"ncclNetPlugin_v\d+", name)]
    if not interfaces:
        return failed(check, f"{found['path']} offers no NCCL network interface", severity="reset", scope=scope)
    libfabric = next((path for path in found["files"] if path.rpartition("/")[2].startswith("libfabric")), None)
    if libfabric is None:
        return undeterminable(check, f"{found['path']} opens without libfabric", scope=scope)
    description = f"{version}, {interfaces[-1]}, by {why}, with {libfabric}"
    return passed(check, description, scope=scope)


def verify_settings(host: Host) -> Result:
    """Return whether a harmful setting decides NCCL's transport here (``_data/nccl_env``)."""
    check = "container.nccl_env"
    settings = {name: nccl_setting(host, name) for name in TRANSPORT}
    found = {name: str(one["value"]) for name, one in settings.items() if one["value"] is not None}
    if not found:
        return not_applicable(check, "nothing here sets a variable that decides NCCL's transport")
    judged = {entry["name"]: entry for entry in lint(found, Setting(use="container"))}
    harmful = [name for name, entry in judged.items() if entry["verdict"] not in ("keep", "drop")]
    values_with_source = {name: f"{value} in {settings[name]['source']}" for name, value in found.items()}
    if harmful:
        text = "; ".join(f"{name}={values_with_source[name]}: {judged[name]['why']}" for name in harmful)
        hint = " ".join(_remedies({name: settings[name]["source"] for name in harmful}))
        return failed(check, text, severity="reset", found=values_with_source, hint=hint)
    unknown = [name for name in found if name not in judged or not (judged[name]["judged"] or found[name] == "0")]
    if unknown:
        text = "; ".join(f"{name} reads '{found[name]}'" for name in unknown)
        return undeterminable(check, f"these values are unknown: {text}", found=values_with_source)
    return passed(check, values_with_source)


def _remedies(sources: t.Mapping[str, str | None]) -> t.Iterator[str]:
    """Yield remedies for harmful variables, by the source of each."""
    kept = [name for name, source in sources.items() if source == NCCL_CONF and name not in DEFAULTS]
    cleared = [name for name in sources if name not in kept]
    if cleared:
        yield f"Unset {', '.join(cleared)} in the image or in the job; jobs of the role slurm_jobs do so."
    if kept:
        # Clearing a variable of that file has no effect: see ``DEFAULTS``.
        yield f"Remove {', '.join(kept)} from {NCCL_CONF} of the image: no job can, NCCL always reads that file."


def verify_cuda(host: Host, driver: str | None, gpus: int) -> Result:
    """Return whether CUDA starts: ``cuInit`` and the version of the libcuda that programs here load."""
    check = "container.cuda_init"
    if gpus and not driver:
        return undeterminable(check, UNREAD_DRIVER)
    if not driver or not gpus:
        return not_applicable(check, "there is no NVIDIA driver or no GPU here")
    found = opened(host, ["libcuda.so.1"])
    if found["problem"]:
        return undeterminable(check, found["problem"])
    if found["name"] is None:
        words = "; ".join(found["errors"].values())
        return failed(check, f"libcuda.so.1 does not open: {words}", severity="reset", expected=driver)
    scope, number = Scope(device=found["path"]), found["version"]
    if found["init"] != 0:
        hint = "see cuInit in CUDA's list of errors; 803 and 804: driver and compatibility libraries do not fit"
        code = "nothing" if found["init"] is None else found["init"]
        return failed(check, f"cuInit returned {code}", severity="reset", scope=scope, found=found["init"], hint=hint)
    if not isinstance(number, int) or number < 1000:
        return undeterminable(check, f"cuDriverGetVersion gave {number}", scope=scope)
    description = f"CUDA {number // 1000}.{number % 1000 // 10} of {found['path']} on the kernel's driver {driver}"
    return passed(check, description, scope=scope)
