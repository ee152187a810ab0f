# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the OFI plugin of NCCL wherever an installer put it, and prove that it loads.

A library is really opened, in a child process of its own: a missing dependency is reported in the loader's words, and
a constructor that crashes or hangs does not affect
this process.
"""

from __future__ import annotations

import typing as t

from ..system import child
from ..system.host import Host
from ..verdict.evidence import is_integer
from .parse import plugin_version

# Newest first. Sources: awsome-distributed-training nccl-tests.Dockerfile (ofi-nccl/lib since installer 1.48, with
# the multiarch triplet before it), its megatron-lm and nemo Dockerfiles (aws-ofi-nccl/lib), aws-ofi-nccl's own
# documentation (install/lib of a build by hand), images of AWS (cuda/efa/lib).
PLUGIN_PLACES = (
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib64",
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
    "/opt/amazon/ofi-nccl/lib/aarch64-linux-gnu",
    "/opt/amazon/aws-ofi-nccl/lib",
    "/opt/aws-ofi-nccl/install/lib",
    "/opt/aws-ofi-nccl/lib",
    "/usr/local/cuda/efa/lib",
)
# The first that exists is the plugin; all others of one place are links to it, or the same code.
NET_NAMES = ("libnccl-net-ofi.so", "libnccl-net-aws-ofi.so", "libnccl-net.so")
TUNER_NAMES = ("libnccl-tuner-ofi.so", "libnccl-tuner-aws-ofi.so", "libnccl-ofi-tuner.so")

DEFAULT_NET = "libnccl-net.so"
NCCL_CONF = "/etc/nccl.conf"
# Variables that choose the transport, and the values with which it stays on EFA. Any other value leaves it: NCCL user
# guide, NCCL_NET; aws-ofi-nccl, src/nccl_ofi_interface_nvidia.cpp (names of the plugin); fabric(7), FI_PROVIDER.
STAYS_ON_EFA: dict[str, tuple[str, ...]] = {
    "NCCL_NET": ("libfabric", "ofi", "aws libfabric"),
    "FI_PROVIDER": ("efa",),
}

# All variables that choose the transport between GPUs and between nodes. A job in a container gets those of the image,
# unless the job sets or clears them.
TRANSPORT = (
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",
    "FI_PROVIDER",
    "FI_EFA_USE_DEVICE_RDMA",
)
# NCCL_NET_PLUGIN is not cleared: an image may need it, because it names the plugin of the image.
CLEARED = tuple(name for name in TRANSPORT if name != "NCCL_NET_PLUGIN")
# Defaults to set in place of clearing: NCCL reads a variable that its environment lacks from /etc/nccl.conf, so only a
# value in the environment overrides that file. The other variables have no default that can be written. NCCL also reads
# a file of the user, which NCCL_CONF_FILE replaces from 2.23 on. Source: NCCL user guide, "Environment variables" and
# NCCL_CONF_FILE.
DEFAULTS = {"NCCL_CONF_FILE": "/dev/null", "NCCL_P2P_DISABLE": "0", "NCCL_SHM_DISABLE": "0"}

# Variables of the dynamic loader (ld.so(8)). Those of a host name its own directories, which an image does not have.
LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")

LOAD_SECONDS = 20
# Highest version of the plugin interface to look for; the newest is v11 (NCCL 2.28). A plugin exports a symbol for each
# version that it supports.
_INTERFACES = 20

# Program of the child process; its argument is the path of the library.
_CHILD = """
import ctypes
found = {"loads": False, "error": None, "symbols": [], "nccl": None}
try:
    library = ctypes.CDLL(sys.argv[1], mode=2)
    found["loads"] = True
    names = [n + str(i) for n in ("ncclNetPlugin_v", "ncclTunerPlugin_v") for i in range(1, %d)]
    found["symbols"] = [name for name in names if hasattr(library, name)]
    if hasattr(library, "ncclGetVersion"):
        number = ctypes.c_int(0)
        if library.ncclGetVersion(ctypes.byref(number)) == 0:
            found["nccl"] = number.value
except OSError as problem:
    found["error"] = str(problem)
answer(found)
""" % (_INTERFACES + 1)
_KEYS: dict[str, child.Check] = {
    "loads": child.is_boolean,
    "error": child.or_none(child.is_string),
    "symbols": child.is_string_list,
    "nccl": child.or_none(is_integer),
}


def try_load(host: Host, library: str) -> dict[str, t.Any]:
    """Open a library with dlopen, by path or by its name for the linker, with all symbols bound at once.

    {"loads": bool, or None where it could not be tried, "error": the loader's text or None, "symbols": the plugin
    interfaces it exports, "nccl": NCCL's version number or None}. LD_LIBRARY_PATH and LD_PRELOAD of this process are
    ignored, because a job does not have them.
    """
    try:
        return child.ask_child(host, _CHILD, [library], _KEYS, LOAD_SECONDS, without=("LD_LIBRARY_PATH", "LD_PRELOAD"))
    except child.ChildError as exc:
        error = f"the process that loaded it {exc.problem}" if exc.started else exc.problem
        return {"loads": False if exc.started else None, "error": error, "symbols": [], "nccl": None}


def nccl_version(number: int | None) -> str | None:
    """Return NCCL's version number (22809, and 2708 before 2.9) as text; nccl.h, NCCL_VERSION()."""
    if not isinstance(number, int) or number < 1000:
        return None
    base = 10000 if number >= 10000 else 1000
    return f"{number // base}.{number % base // 100}.{number % 100}"


def find_plugins(
    host: Host, extra_places: t.Sequence[str], libraries: t.Mapping[str, t.Sequence[str]]
) -> list[dict[str, t.Any]]:
    """Return every plugin, the newest place first; a library with several names is listed once.

    Each: place, net and tuner (paths; tuner may be None), names (the file names that are there), version, loads,
    error, interfaces (net interfaces it exports), tuner_loads, tuner_error, on_linker_path (the linker knows it under
    one of its names; ``opened_net`` returns what NCCL opens).
    ``libraries`` is the result of ``parse_ldconfig``.
    """
    found: list[dict[str, t.Any]] = []
    seen: set[str] = set()
    for place in dict.fromkeys([*extra_places, *PLUGIN_PLACES]):
        file_names = set(host.listdir(place))
        names = [name for name in NET_NAMES if name in file_names]
        real = host.realpath(f"{place}/{names[0]}") if names else ""
        if not names or real in seen:
            continue
        seen.add(real)
        tuner = next((f"{place}/{name}" for name in TUNER_NAMES if name in file_names), None)
        net_result = try_load(host, f"{place}/{names[0]}")
        tuner_result = try_load(host, tuner) if tuner else {"loads": None, "error": None}
        found.append(
            {
                "place": place,
                "net": f"{place}/{names[0]}",
                "tuner": tuner,
                "names": names,
                # Libraries only: a file of another type may be endless.
                "version": plugin_version(host.read_text(real) or "") if net_result["loads"] else None,
                "loads": net_result["loads"],
                "error": net_result["error"],
                "interfaces": [name for name in net_result["symbols"] if name.startswith("ncclNetPlugin_")],
                "tuner_loads": tuner_result["loads"],
                "tuner_error": tuner_result["error"],
                "on_linker_path": any(real in map(host.realpath, libraries.get(name, ())) for name in NET_NAMES),
            }
        )
    return found


def choose_plugin(plugins: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any] | None:
    """Return the first plugin that loads and exports an interface of NCCL; if none does, the first that exists."""
    working = [plugin for plugin in plugins if plugin["loads"] and plugin["interfaces"]]
    return dict((working or list(plugins))[0]) if plugins else None


def nccl_setting(host: Host, name: str) -> dict[str, str | None]:
    """Return ``value`` and ``source`` of a variable as NCCL reads it.

    The first source that has the variable is used: the environment, the file of NCCL_CONF_FILE (by default
    ~/.nccl.conf), /etc/nccl.conf. In a file it is the first line of that name, even if the value is empty. NCCL strips
    no blanks: ``NAME = x`` sets another variable. Source: NCCL user guide, "Environment variables"; src/misc/param.cc.
    The environment is that of this process; inside a step of a job it is the job's.
    """
    value = host.variable(name)
    if value is not None:
        return {"value": value or None, "source": "the environment" if value else None}
    home = host.variable("HOME")
    user_file = host.variable("NCCL_CONF_FILE") or (f"{home}/.nccl.conf" if home else None)
    for path in [user_file, NCCL_CONF] if user_file else [NCCL_CONF]:
        for line in (host.read_text(path) or "").splitlines():
            key, equals, value = line.partition("=")
            if equals and key == name:
                return {"value": value or None, "source": path if value else None}
    return {"value": None, "source": None}


def leaving_setting(host: Host) -> dict[str, t.Any] | None:
    """Return the first variable that takes NCCL off EFA: ``name``, ``value``, ``source``, ``good`` values; or None."""
    for name, good in STAYS_ON_EFA.items():
        setting = nccl_setting(host, name)
        if setting["value"] is not None and setting["value"].lower() not in good:
            return {"name": name, **setting, "good": list(good)}
    return None


def net_names(value: str | None) -> list[str]:
    """Return the names that NCCL tries for its network plugin, in turn; none for the value ``none``."""
    return [DEFAULT_NET] if value is None else [] if value == "none" else [value, f"libnccl-net-{value}.so"]


def opened_net(
    host: Host, libraries: t.Mapping[str, t.Sequence[str]], plugins: t.Sequence[t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """Return which network plugin NCCL opens on this machine.

    ``value`` and ``source`` of NCCL_NET_PLUGIN; ``names`` that NCCL tries in turn; ``path`` of the first one that
    exists, or None; ``plugin``, the ``net`` of the entry of ``plugins`` with that file, or None for another library.
    NCCL's default name is exactly libnccl-net.so. A value is tried as a library and then as libnccl-net-VALUE.so;
    ``none`` turns plugins off (NCCL user guide, NCCL_NET_PLUGIN).
    """
    setting = nccl_setting(host, "NCCL_NET_PLUGIN")
    names = net_names(setting["value"])
    path = next((found for name in names for found in [_resolve(host, name, libraries)] if found), None)
    net_by_file = {
        host.realpath(f"{plugin['place']}/{name}"): plugin["net"] for plugin in plugins for name in plugin["names"]
    }
    return {**setting, "names": names, "path": path, "plugin": net_by_file.get(host.realpath(path)) if path else None}


def opened_tuner(host: Host) -> dict[str, t.Any]:
    """Return ``value`` and ``source`` of NCCL_TUNER_PLUGIN, and whether it ``loads`` (None: not set), with ``error``.

    A value is tried as a library and then as libnccl-tuner-VALUE.so (NCCL user guide, NCCL_TUNER_PLUGIN).
    """
    setting = nccl_setting(host, "NCCL_TUNER_PLUGIN")
    value = setting["value"]
    if value is None or value == "none":
        return {**setting, "loads": None, "error": None}
    first = try_load(host, value)
    second = first if first["loads"] is not False or "/" in value else try_load(host, f"libnccl-tuner-{value}.so")
    tried = second if second["loads"] else first
    return {**setting, "loads": tried["loads"], "error": tried["error"]}


def _resolve(host: Host, name: str, libraries: t.Mapping[str, t.Sequence[str]]) -> str | None:
    if "/" in name:
        return name if host.exists(name) else None
    return next(iter(libraries.get(name, ())), None)
