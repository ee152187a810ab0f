# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that a container and its host fit each other: the same look inside and outside, and rules to compare them.

The host writes its facts to a file (verb host-facts) that is mounted into the container; without it, checks that need a
comparison are undeterminable.
"""

from __future__ import annotations

import os
import re
import shutil
import typing as t

from ..._data.checklists import CHECKLISTS
from ..accelerator.parse import parse_driver_version
from ..storage.record import RECORD_PATH, read_document
from ..system import child
from ..system.ask import ask, line
from ..system.host import Host, NodeError
from ..system.linker import parse_ldconfig
from ..system.mounts import read_mounts
from ..system.state import STATE_DIRECTORY
from ..system.versions import at_least, is_version, version_key
from ..verdict.result import Result, Scope, failed, not_applicable, passed, undeterminable
from . import checklist
from .container_loads import UNREAD_DRIVER, verify_cuda, verify_net, verify_settings

FACTS_PATH = f"{STATE_DIRECTORY}/host_facts.json"
FACTS_SCHEMA = "mlcluster.host_facts/1"
# The first driver that runs a CUDA major version; newer drivers run older ones.
# Source: docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1.
MIN_DRIVER = {11: 450, 12: 525, 13: 580}
CUDA_SOURCE = "NVIDIA CUDA Compatibility, minor version compatibility"
IMPORT_SECONDS = 60
# Components that ``require`` may name, and their facts.
COMPONENTS = {
    "cuda": "cuda.toolkit",
    "nccl": "nccl.version",
    "plugin": "plugin.version",
    "libfabric": "libfabric.version",
    "pytorch": "pytorch.version",
    "megatron": "megatron.version",
}
# Components that the host was verified with.
COMPARED = ("nccl", "plugin", "libfabric")
_NAMES = {
    "cuda": "the CUDA toolkit",
    "nccl": "NCCL",
    "plugin": "the OFI plugin of NCCL",
    "libfabric": "libfabric",
    "pytorch": "PyTorch",
    "megatron": "Megatron-LM",
}

# Runs in the container's own Python. Megatron-LM is not imported, as that needs a GPU: a source tree has its version in
# package_info.py.
_CHILD = r"""
import importlib.metadata, importlib.util, re
found = dict.fromkeys(("pytorch.version", "pytorch.cuda", "pytorch.nccl", "pytorch.error", "megatron.version"))
try:
    import torch
    found["pytorch.version"] = torch.__version__
    found["pytorch.cuda"] = torch.version.cuda
    try:
        found["pytorch.nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    except Exception:
        pass
except ModuleNotFoundError as problem:
    if problem.name != "torch":
        found["pytorch.error"] = str(problem)
except Exception as problem:
    found["pytorch.error"] = str(problem)
try:
    found["megatron.version"] = importlib.metadata.version("megatron-core")
except importlib.metadata.PackageNotFoundError:
    spec = importlib.util.find_spec("megatron")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        info = os.path.join(place, "core", "package_info.py")
        if os.path.exists(info):
            text = open(info).read()
            parts = [re.search(r"^%s = (\d+)" % part, text, re.M) for part in ("MAJOR", "MINOR", "PATCH")]
            if all(parts):
                found["megatron.version"] = ".".join(part.group(1) for part in parts)
answer(found)
"""
_KEYS = {
    name: child.or_none(child.is_string)
    for name in ("pytorch.version", "pytorch.cuda", "pytorch.nccl", "pytorch.error", "megatron.version")
}


def look(host: Host) -> dict[str, t.Any]:
    """Return versions and devices as they are here, inside or outside; a missing fact could not be determined.

    cuda.toolkit, nccl.version, plugin.version, libfabric.version, pytorch.version, pytorch.cuda, pytorch.error,
    megatron.version (None: missing), driver (of the kernel), libcuda (version in the name of the library), gpus and
    efa (numbers of device nodes), root (what is mounted at /), volumes [{path, device}] of the local storage.
    """
    facts = checklist.look(host, CHECKLISTS["container"], {})
    facts.update(_python(host))
    if facts.get("nccl.version") is None and facts.get("pytorch.nccl"):
        # PyTorch's wheels contain an NCCL that the linker does not know.
        facts["nccl.version"] = facts["pytorch.nccl"]
    facts["driver"] = parse_driver_version(host.read_text("/proc/driver/nvidia/version") or "")
    libraries, problem = ask(host, ["ldconfig", "-p"])
    if not problem:
        path = next(iter(parse_ldconfig(libraries).get("libcuda.so.1", ())), None)
        version = re.search(r"\.so\.(\d+(?:\.\d+)+)\Z", host.realpath(path)) if path else None
        facts["libcuda"] = version.group(1) if version else None
    facts["gpus"] = sum(1 for name in host.listdir("/dev") if re.fullmatch(r"nvidia\d+", name))
    facts["efa"] = sum(1 for name in host.listdir("/dev/infiniband") if name.startswith("uverbs"))
    facts["root"] = mounted_root(host)
    return facts


def mounted_root(host: Host) -> str | None:
    """Return the mount at /, which distinguishes a container from its host; None if it is not known."""
    try:
        top = [m for m in read_mounts(host) if m["target"] == "/"]
    except NodeError:
        return None
    return f"{top[-1]['device']} {top[-1]['root']}" if top else None


def is_root(root: object) -> bool:
    """Return whether a value has the form of ``mounted_root``: MAJOR:MINOR PATH."""
    return isinstance(root, str) and re.fullmatch(r"\d+:\d+ /.*", root) is not None


def host_facts(host: Host) -> dict[str, t.Any]:
    """Return the facts that a host writes for its containers: ``look``, local volumes, boot ID and time."""
    mounts = {mount["target"]: mount["device"] for mount in read_mounts(host)}
    record = read_document(host, RECORD_PATH)
    volumes = (record or {}).get("volumes") or []
    # A damaged record does not prove that there is no volume.
    known = record is not None or not host.exists(RECORD_PATH)
    return {
        "schema": FACTS_SCHEMA,
        "boot_id": line(host, "/proc/sys/kernel/random/boot_id"),
        "time": host.now(),
        **look(host),
        "volumes": [{"path": one["path"], "device": mounts.get(one["path"])} for one in volumes] if known else None,
    }


def read_facts(host: Host, path: str) -> dict[str, t.Any] | None:
    """Return the host's facts; None if the file is missing, damaged, or was written before this boot."""
    document = host.read_json(path)
    if not isinstance(document, dict) or document.get("schema") != FACTS_SCHEMA:
        return None
    # The kernel is the same inside and outside.
    boot = line(host, "/proc/sys/kernel/random/boot_id")
    return document if boot and document.get("boot_id") == boot else None


def verify_container(host: Host, path: str, require: t.Mapping[str, str | None]) -> list[Result]:
    """Return every verdict on this container.

    They are the checklist, container.root, container.driver, container.driver_for_cuda, one for each of ``COMPONENTS``
    against the host, container.gpus, container.efa, container.nccl_net, container.nccl_env, container.cuda_init and
    container.mounts.
    """
    inside, outside = look(host), read_facts(host, path)
    wanted = [check for check in CHECKLISTS["container"] if check["fact"] in inside]
    present = [check for check in wanted if inside[check["fact"]] is not None]
    results = checklist.verify(present, inside)
    results += [_root(inside, outside), _driver(host, inside), _cuda(host, inside)]
    results += [_component(name, inside, outside, name in require, require.get(name)) for name in COMPONENTS]
    results += [_devices("container.gpus", "gpus", "GPUs", inside, outside, os.environ.get("SLURM_GPUS_ON_NODE"))]
    results += [_devices("container.efa", "efa", "EFA devices", inside, outside, None)]
    results.append(verify_net(host, inside["efa"], (outside or {}).get("efa")))
    results.append(verify_settings(host))
    results.append(verify_cuda(host, inside["driver"], inside["gpus"]))
    return [*results, *_mounts(host, outside)]


def _python(host: Host) -> dict[str, t.Any]:
    """Return what the container's default Python can import; only an error if it gives no answer."""
    program = shutil.which("python3")
    if not program:
        return {"pytorch.version": None, "megatron.version": None}
    try:
        answer = child.ask_child(host, _CHILD, [], _KEYS, IMPORT_SECONDS, python=[program])
    except child.ChildError as exc:
        problem = f"{program} {exc.problem} while importing PyTorch" if exc.started else exc.problem
        return {"pytorch.error": problem}
    if answer["pytorch.error"] is None:
        return {name: value for name, value in answer.items() if name != "pytorch.error"}
    # PyTorch is broken: it is not missing, and its version is not known.
    return {name: answer[name] for name in ("pytorch.error", "megatron.version")}


def _root(inside: t.Mapping[str, t.Any], outside: t.Mapping[str, t.Any] | None) -> Result:
    """Return whether this is a container: without one, the same command runs on the host."""
    check, own_root, host_root = "container.root", inside["root"], (outside or {}).get("root")
    if outside is None:
        return undeterminable(check, "there are no facts of the host to compare with", hint=_NO_FACTS)
    unknown = [str(root) for root in (own_root, host_root) if not is_root(root)]
    if unknown:
        text = f"the mount at / could not be determined, here or on the host: it reads '{unknown[0]}'"
        return undeterminable(check, text)
    if own_root == host_root:
        hint = "check that Pyxis is loaded: srun --help | grep container-image"
        return failed(check, "this is not a container: its root directory is the host's", severity="reset", hint=hint)
    return passed(check, "a root directory of its own")


def _driver(host: Host, inside: t.Mapping[str, t.Any]) -> Result:
    kernel, check = inside["driver"], "container.driver"
    if not kernel and inside["gpus"]:
        return undeterminable(check, UNREAD_DRIVER)
    if not kernel:
        return not_applicable(check, "the kernel has no NVIDIA driver loaded")
    if "libcuda" not in inside:
        return undeterminable(check, "ldconfig did not answer, so libcuda.so.1 is not known", expected=kernel)
    hint = "start the container with NVIDIA's hook (nvidia-container-toolkit) and with no libcuda of its own"
    if inside["libcuda"] is None:
        return failed(check, "libcuda.so.1 is not in the container", severity="reset", expected=kernel, hint=hint)
    if inside["libcuda"] != kernel:
        message = "libcuda in the container is not the one of the kernel's driver"
        return failed(check, message, severity="reset", expected=kernel, found=inside["libcuda"], hint=hint)
    return passed(check, inside["libcuda"], expected=kernel)


def _cuda(host: Host, inside: t.Mapping[str, t.Any]) -> Result:
    """Return whether the kernel's driver runs programs of this CUDA major version."""
    check = "container.driver_for_cuda"
    toolkit, driver = inside.get("cuda.toolkit") or inside.get("pytorch.cuda"), version_key(inside["driver"])
    if not driver and inside["gpus"]:
        return undeterminable(check, UNREAD_DRIVER)
    if not driver:
        return not_applicable(check, "the kernel has no NVIDIA driver loaded")
    known = version_key(toolkit)
    major = known[0] if known else None
    if major not in MIN_DRIVER:
        majors = ", ".join(map(str, MIN_DRIVER))
        return undeterminable(
            check, f"CUDA is {toolkit or 'not found'}, and only {majors} are known", source=CUDA_SOURCE
        )
    fields = {"expected": f"{MIN_DRIVER[major]} or newer for CUDA {toolkit}", "found": inside["driver"]}
    fields["source"] = CUDA_SOURCE
    if driver[0] >= MIN_DRIVER[major]:
        return passed(check, **fields)
    if host.exists("/usr/local/cuda/compat/libcuda.so.1"):
        return undeterminable(check, "it is not known whether the image's compatibility libraries are used", **fields)
    hint = "use an image with an older CUDA, or hosts with a newer driver"
    return failed(check, "the host's driver is too old for this CUDA", severity="reset", hint=hint, **fields)


def _component(
    name: str, inside: t.Mapping[str, t.Any], outside: t.Mapping[str, t.Any] | None, required: bool, minimum: str | None
) -> Result:
    """Check one component: present if required, not older than ``minimum``, and not older than the host's version."""
    check, fact, what = f"container.{name}", COMPONENTS[name], _NAMES[name]
    if fact not in inside:
        why = inside.get(f"{name}.error") or f"{what} could not be determined"
        return (
            failed(check, f"{what} cannot be imported: {why}")
            if f"{name}.error" in inside
            else undeterminable(check, why)
        )
    found = inside[fact]
    if found is None:
        if required:
            return failed(check, f"{what} is not in the container", expected=minimum or "any version")
        if name in COMPARED and (outside or {}).get(fact):
            message = (
                f"{what} was not found at its usual places in the container, and the host has {(outside or {})[fact]}"
            )
            return undeterminable(check, message, hint="container.nccl_net shows what a job opens; use --require")
        return not_applicable(check, f"{what} is not in the container, and is not required")
    have = version_key(found)
    for which, version in (("the required one", minimum), ("that of the host", (outside or {}).get(fact))):
        want = version_key(version)
        if version and (not have or not want):
            return undeterminable(check, f"{found} cannot be compared with {version}", found=found, expected=version)
        if have and want and not at_least(have, want):
            message = f"{what} is older than {which}"
            return failed(check, message, found=found, expected=f"{version} or newer", hint="build the image again")
    if outside is None and name in COMPARED:
        return undeterminable(check, "there are no facts of the host to compare with", found=found, hint=_NO_FACTS)
    # None: not installed on the host.
    host_version = (outside or {}).get(fact, "nothing")
    if name in COMPARED and host_version is not None and not is_version(host_version):
        return undeterminable(check, f"the host's facts give '{host_version}' as the version of {what}", found=found)
    if not is_version(found):
        return undeterminable(check, f"the version of {what} reads '{found}'")
    return passed(check, found, expected=minimum or (outside or {}).get(fact))


_NO_FACTS = f"run 'mlcluster host-facts' on the host and mount {FACTS_PATH} into the container"


def _devices(
    check: str,
    key: str,
    what: str,
    inside: t.Mapping[str, t.Any],
    outside: t.Mapping[str, t.Any] | None,
    share: str | None,
) -> Result:
    """Check the device nodes: as many as the job's share, else as many as the host has."""
    if outside is None:
        return undeterminable(
            check, "there are no facts of the host to compare with", found=inside[key], hint=_NO_FACTS
        )
    host_count = outside.get(key)
    if not isinstance(host_count, int) or isinstance(host_count, bool) or host_count < 0:
        return undeterminable(check, f"the host's facts do not give its number of {what}", found=inside[key])
    if inside[key] > host_count:
        counts = f"there are {inside[key]} {what} here and the host's facts give {host_count}"
        text = f"{counts}: they are of another host or time"
        return undeterminable(check, text, found=inside[key], hint=_NO_FACTS)
    expected = int(share) if share and share.isdecimal() else host_count
    fields: dict[str, t.Any] = {"expected": expected, "found": inside[key], "unit": what}
    if not host_count:
        return not_applicable(check, f"the host has no {what}")
    if not expected:
        return not_applicable(check, f"the job has no {what}")
    if inside[key] < expected:
        hint = "mount /dev/infiniband" if key == "efa" else "start the container with NVIDIA's hook"
        return failed(check, f"{what} of the host are not in the container", severity="reset", hint=hint, **fields)
    return passed(check, **fields)


def _mounts(host: Host, outside: t.Mapping[str, t.Any] | None) -> list[Result]:
    """Return whether each local volume of the host is here: a mount of the same device, at any path.

    The root directory does not count, since Enroot unpacks images onto the local volume. A mounted file of the volume
    does not count either.
    """
    check = "container.mounts"
    if outside is None:
        return [undeterminable(check, "there are no facts of the host to compare with", hint=_NO_FACTS)]
    volumes = outside.get("volumes")
    if not isinstance(volumes, list):
        return [undeterminable(check, "the host's facts do not give its local volumes")]
    if not volumes:
        return [not_applicable(check, "the host has no local volume")]
    try:
        mounts = read_mounts(host)
    except NodeError as exc:
        return [undeterminable(check, str(exc))]
    results = []
    for volume in volumes:
        targets = [m["target"] for m in mounts if m["device"] == volume["device"] and m["target"] != "/"]
        states = {path: host.stat(path) for path in targets}
        directories = [path for path, state in states.items() if state and state["is_dir"]]
        unread = [path for path, state in states.items() if state is None]
        scope = Scope(device=volume["path"])
        if not volume["device"]:
            text = "the local volume was not mounted on the host when it wrote its facts"
            results.append(undeterminable(check, text, scope=scope, hint=_NO_FACTS))
        elif directories:
            results.append(passed(check, directories[0], expected=volume["path"], scope=scope))
        elif unread:
            text = f"the local volume is mounted at {unread[0]}, which cannot be read"
            results.append(undeterminable(check, text, scope=scope, hint=f"run 'ls -ld {unread[0]}' in the container"))
        else:
            hint = f"add --container-mounts={volume['path']}:{volume['path']}"
            message = "the host's local volume is not in the container"
            results.append(failed(check, message, severity="reset", scope=scope, hint=hint))
    return results
