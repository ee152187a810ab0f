# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A site's expectations of its nodes, as data: for all nodes, overridden for instance types.

    {"versions": {"driver": ">=580.95", "kernel": "6.8.0-*"}, "mounts": ["/fsx"], "allowed_xids": [13],
     "types": {"p5*": {"gpus": 8, "efa": 32, "disks": 8}}}

``KEYS`` lists the keys. Without an expectation the table of instance types applies. Pure, except for ``check_devices``
and the functions below it, which look at the node.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
import typing as t

from ..efa import look as efa
from ..storage.devices import INSTANCE_STORE_MODEL
from ..system.ask import ask
from ..system.host import Host
from ..system.mounts import read_mounts
from ..system.units import parse_units
from ..system.versions import at_least, version_key
from ..verdict.evidence import is_integer
from ..verdict.result import Result, Scope, failed, first_of, none_expected, passed, undeterminable
from . import system as health_system
from .s3 import Bucket, bucket_problems, parse_bucket

SCHEMA = "mlcluster.expectations/1"
KEYS = {
    "versions": "component to version: exact, with * and ?, or >=VERSION",
    "efa": "number of EFA devices",
    "gpus": "number of GPUs",
    "disks": "number of instance store disks",
    "mounts": "paths that must be mounted",
    "services": "systemd units that must run",
    "held": "packages that must be held back from upgrades: every installed one of a name, with * and ?",
    "allowed_xids": "Xids that do not count",
    "mig": "whether the GPUs are split by MIG",
    "thresholds": "figures by name",
    "buckets": "places in S3, {url, rights, key}",
}
THRESHOLDS = {
    "scratch_free_percent": (0, 100),
    "root_free_percent": (0, 100),
    "gpu_celsius": (1, 200),
}
# The names of packages of Debian's and of Red Hat's families.
_PACKAGE = re.compile(r"package [A-Za-z0-9][A-Za-z0-9+._-]*")
MAX_COUNT = {"efa": efa.MAX_DEVICES, "gpus": 1000, "disks": 1000}
# Number of packages without a hold that a message names.
MAX_NAMES = 8
_NO_TEXT = "use a list of non-empty strings"


@dataclasses.dataclass(frozen=True)
class Expectations:
    """Expectations of one node: ``KEYS`` as fields; unresolved: types that could not be compared with the node's.

    resolved: the node's type, if it was compared with any.
    """

    versions: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    efa: int | None = None
    gpus: int | None = None
    disks: int | None = None
    mounts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    allowed_xids: tuple[int, ...] = ()
    mig: bool = False
    thresholds: t.Mapping[str, float] = dataclasses.field(default_factory=dict)
    buckets: tuple[Bucket, ...] = ()
    unresolved: tuple[str, ...] = ()
    resolved: str | None = None


def problems(given: object) -> list[str]:
    """Return the errors in expectations, one sentence each."""
    if not isinstance(given, dict):
        return [f"the expectations are {_word(given)}: use a dictionary of {', '.join([*KEYS, 'types'])}"]
    found = []
    if given.get("schema", SCHEMA) != SCHEMA:
        found.append(f"the expectations are of {_word(given['schema'])}: this version reads {SCHEMA}")
    types = given.get("types", {})
    found += _section("", {key: value for key, value in given.items() if key not in ("types", "schema")})
    if not isinstance(types, dict):
        return [*found, f"types is {_word(types)}: use a dictionary of instance types, such as p5*"]
    for name, section in types.items():
        if not isinstance(name, str) or not name:
            found.append(f"types has {_word(name)}: use instance types, such as p5* or 'p5.48xlarge'")
        elif not isinstance(section, dict):
            found.append(f"types.{name} is {_word(section)}: use a dictionary of {', '.join(KEYS)}")
        else:
            found += _section(f"types.{name}.", section)
    return found


def _section(where: str, section: t.Mapping[t.Any, t.Any]) -> list[str]:
    found = []
    for key, value in section.items():
        if key not in KEYS:
            found.append(f"{where}{key} is not known: choose from {', '.join(KEYS)}")
        elif key in MAX_COUNT:
            if not is_integer(value) or not 0 <= value <= MAX_COUNT[key]:
                found.append(f"{where}{key} is {_word(value)}: use 0 to {MAX_COUNT[key]}")
        else:
            found += _JUDGES[key](f"{where}{key}", value)
    return found


def _versions(where: str, value: object) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is {_word(value)}: use a dictionary such as driver: '>=580.95'"]
    found = []
    for name, version in value.items():
        minimum = version[2:].strip() if isinstance(version, str) and version.startswith(">=") else None
        if name not in health_system.COMPONENTS and not (isinstance(name, str) and _PACKAGE.fullmatch(name)):
            known = ", ".join(health_system.COMPONENTS)
            found.append(f"{where}.{_word(name)} is not known: choose from {known}, and 'package NAME'")
        elif not isinstance(version, str) or not version or (minimum is not None and not version_key(minimum)):
            found.append(
                f"{where}.{name} is {_word(version)}: use a version in quotes, such as '6.8.0-*' or '>=580.95'"
            )
    return found


def _texts(where: str, value: object) -> list[str]:
    good = isinstance(value, (list, tuple)) and all(isinstance(text, str) and text for text in value)
    return [] if good else [f"{where} is {_word(value)}: {_NO_TEXT}"]


def _mounts(where: str, value: object) -> list[str]:
    return _texts(where, value) or [
        f"{where} has {path!r}: use absolute paths"
        for path in t.cast("list[str]", value)
        if not path.startswith("/") or "\0" in path
    ]


def _xids(where: str, value: object) -> list[str]:
    good = isinstance(value, (list, tuple)) and all(is_integer(code) and 0 < code < 1000 for code in value)
    return [] if good else [f"{where} is {_word(value)}: use a list of numbers, such as [13, 31]"]


def _mig(where: str, value: object) -> list[str]:
    return [] if isinstance(value, bool) else [f"{where} is {_word(value)}: use true or false"]


def _thresholds(where: str, value: object) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is {_word(value)}: use a dictionary of {', '.join(THRESHOLDS)}"]
    found = []
    for name, figure in value.items():
        if name not in THRESHOLDS:
            found.append(f"{where}.{name} is not known: choose from {', '.join(THRESHOLDS)}")
            continue
        minimum, maximum = THRESHOLDS[name]
        if isinstance(figure, bool) or not isinstance(figure, (int, float)) or not minimum <= figure <= maximum:
            found.append(f"{where}.{name} is {_word(figure)}: use {minimum} to {maximum}")
    return found


_JUDGES: dict[str, t.Callable[[str, t.Any], list[str]]] = {
    "versions": _versions,
    "mounts": _mounts,
    "services": _texts,
    "held": _texts,
    "allowed_xids": _xids,
    "mig": _mig,
    "thresholds": _thresholds,
    "buckets": bucket_problems,
}


def _word(value: object) -> str:
    return repr(value)[:60]


def resolve(given: t.Mapping[str, t.Any], instance_type: str | None) -> Expectations:
    """Return the expectations of a node of this type. Types are patterns: a later matching one overrides earlier ones,
    and all override the values for every node. Mappings are merged, lists are replaced.
    """
    types = given.get("types", {})
    fit = [types[name] for name in types if instance_type and fnmatch.fnmatchcase(instance_type, name)]
    merged: dict[str, t.Any] = {}
    for section in [given, *fit]:
        for key in section:
            if key in KEYS and isinstance(section[key], dict):
                merged[key] = dict(merged.get(key, {}), **section[key])
            elif key in KEYS:
                merged[key] = section[key]
    for key in ("mounts", "services", "held", "allowed_xids"):
        merged[key] = tuple(merged.get(key, ()))
    merged["buckets"] = tuple(parse_bucket(one) for one in merged.get("buckets", ()))
    known = {"resolved": instance_type if types else None} if instance_type else {"unresolved": tuple(types)}
    return Expectations(**merged, **known)


def packages(expect: Expectations) -> tuple[str, ...]:
    """Return the packages whose versions a site expects."""
    return tuple(name.partition(" ")[2] for name in expect.versions if name.startswith("package "))


def judge_versions(
    expect: Expectations, versions: t.Mapping[str, str], unreadable: t.Collection[str] = ()
) -> list[Result]:
    """Return expect.version for each component, from ``system.versions``; unreadable: components that may be present
    and whose versions could not be determined.
    """
    found = []
    for name, wanted in expect.versions.items():
        scope, have = Scope(device=name), versions.get(name)
        if have is None and name in unreadable:
            message = f"the version of {name} could not be determined"
            found.append(undeterminable("expect.version", message, expected=wanted, scope=scope))
        elif have is None:
            found.append(failed("expect.version", f"no {name} is found on this node", expected=wanted, scope=scope))
        elif wanted.startswith(">="):
            minimum, key = version_key(wanted[2:].strip()), version_key(have)
            if not key or not minimum:
                message = f"{have} cannot be compared with {wanted}"
                found.append(undeterminable("expect.version", message, expected=wanted, found=have, scope=scope))
            else:
                found.append(_version(at_least(key, minimum), name, wanted, have))
        else:
            found.append(_version(fnmatch.fnmatchcase(have, wanted), name, wanted, have))
    return found


def _version(good: bool, name: str, wanted: str, have: str) -> Result:
    fields: dict[str, t.Any] = {"expected": wanted, "scope": Scope(device=name)}
    if good:
        return passed("expect.version", have, **fields)
    return failed("expect.version", f"{name} is not what the site expects", found=have, **fields)


def judge_held(
    expect: Expectations, installed: t.Collection[str], held: t.Collection[str], known: bool
) -> list[Result]:
    """Return expect.held for each pattern: every installed package that matches must be held.

    installed: at least the packages that match a pattern; known: whether a package manager answered.
    """
    found = []
    for pattern in expect.held:
        scope = Scope(device=pattern)
        names = fnmatch.filter(sorted(installed), pattern)
        free = [name for name in names if name not in held]
        if not known:
            found.append(undeterminable("expect.held", "neither dpkg nor rpm answered", scope=scope))
        elif names and not free:
            found.append(passed("expect.held", ", ".join(names), scope=scope))
        elif free:
            message = f"an upgrade may replace the verified version of {first_of(free, MAX_NAMES)}"
            hint = "run 'apt-mark hold' or 'dnf versionlock add' for each, or expect fewer packages"
            found.append(
                failed(
                    "expect.held", message, scope=scope, hint=hint, expected=len(names), found=len(names) - len(free)
                )
            )
        else:
            message = "no such package is installed"
            hint = "compare the name with 'dpkg -l' or 'rpm -qa'"
            found.append(failed("expect.held", message, scope=scope, hint=hint))
    return found


def check_devices(host: Host, expect: Expectations) -> list[Result]:
    """Return expect.gpus, expect.disks, expect.mount for each path, and expect.type if any type has expectations."""
    found = []
    if expect.unresolved:
        message = (
            f"the instance type is not known, so {', '.join(expect.unresolved)} of the expectations could not be used"
        )
        found.append(undeterminable("expect.type", message, hint="set the instance type"))
    if expect.resolved:
        found.append(passed("expect.type", expect.resolved))
    if expect.gpus is not None:
        found.append(_count("gpus", expect.gpus, len(host.listdir("/proc/driver/nvidia/gpus"))))
    if expect.disks is not None:
        found.append(_count("disks", expect.disks, _disks(host)))
    mounts = {mount["target"]: mount for mount in read_mounts(host)}
    for path in expect.mounts:
        scope = Scope(device=path)
        if path in mounts and mounts[path]["fstype"] == "autofs":
            message = "only its automount is mounted: the file system itself is mounted on first access"
            found.append(undeterminable("expect.mount", message, scope=scope, hint=f"look with 'ls {path}'"))
        elif path in mounts:
            message = f"{mounts[path]['fstype']} from {mounts[path]['source']}"
            found.append(passed("expect.mount", message, scope=scope))
        else:
            hint = f"run 'findmnt --verify', then 'mount {path}'"
            found.append(failed("expect.mount", "it is not mounted", severity="reset", scope=scope, hint=hint))
    return found


def dropped(expect: Expectations) -> list[Result]:
    """Return that checks do not apply for which a site expects nothing; nothing if its types could not be used.

    They end the drain of a node for an expectation that the site has since removed.
    """
    made = {
        "expect.gpus": expect.gpus is not None,
        "expect.disks": expect.disks is not None,
        "expect.mount": bool(expect.mounts),
        "expect.devices": bool(expect.mounts or expect.resolved) or expect.gpus is not None or expect.disks is not None,
        "expect.type": bool(expect.resolved),
        "expect.service": bool(expect.services),
        "expect.version": bool(expect.versions),
        "expect.held": bool(expect.held),
        # The look at all places has the name of the first right.
        "s3.list": bool(expect.buckets),
        **{f"s3.{right}": any(right in one.rights for one in expect.buckets) for right in ("read", "write")},
    }
    names = [] if expect.unresolved else [name for name, verdicts in made.items() if not verdicts]
    return [none_expected(name, "the site expects none", "the site's expectations") for name in names]


def _count(what: str, wanted: int, have: int) -> Result:
    fields: dict[str, t.Any] = {"expected": wanted, "found": have, "unit": what}
    if have == wanted:
        return passed(f"expect.{what}", **fields)
    severity = "isolate" if have < wanted else "monitor"
    return failed(f"expect.{what}", f"not as many {what} as the site expects", severity=severity, **fields)


def _disks(host: Host) -> int:
    models = [host.read_text(f"/sys/class/nvme/{name}/model") or "" for name in host.listdir("/sys/class/nvme")]
    return sum(model.strip() == INSTANCE_STORE_MODEL for model in models)


def check_services(host: Host, expect: Expectations) -> list[Result]:
    """Return expect.service for each unit."""
    if not expect.services:
        return []
    output, problem = ask(host, ["systemctl", "show", "--property=Id,Names,ActiveState", "--", *expect.services])
    if problem:
        return [undeterminable("expect.service", problem, scope=Scope(device=name)) for name in expect.services]
    # systemctl prints a unit's own name, even if another was requested (chronyd on Debian).
    states = {
        name: unit.get("ActiveState", "")
        for unit in parse_units(output).values()
        for name in unit.get("Names", "").split()
    }
    found = []
    for name in expect.services:
        full = name if "." in name else f"{name}.service"
        state, scope = states.get(full), Scope(device=name)
        if state is None:
            # systemctl also lists units that do not exist.
            found.append(undeterminable("expect.service", "systemctl does not list it", scope=scope))
        elif state in ("active", "reloading"):
            found.append(passed("expect.service", state, scope=scope))
        else:
            hint = f"look with 'systemctl status {name}'"
            message = "it is not running"
            found.append(failed("expect.service", message, severity="reset", found=state, scope=scope, hint=hint))
    return found
