# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render the environment of NCCL and Neuron by instance type and versions, and judge any environment.

Pure functions over the table ``_data/nccl_env.py``.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import typing as t

from ..._data import instance_types
from ..._data import nccl_env as table
from ..accelerator.versions import rules_for, violation
from ..system.host import NodeError
from ..system.versions import version_key

USES = ("host", "mpi", "container")
DEBUG_LEVELS = ("VERSION", "WARN", "INFO", "TRACE")

# Characters that need no quoting in any of the file formats: no quotes, no line ends, nothing special to a shell, Tcl
# or NCCL's own reader.
_NAME = re.compile(r"[A-Z][A-Za-z0-9_]{0,127}")
_VALUE = re.compile(r"[A-Za-z0-9_./:,^=+%@-]([A-Za-z0-9_./:,^=+%@ -]{0,510}[A-Za-z0-9_./:,^=+%@-])?")
# The version of a plugin that was built from a checkout; it counts as a current one.
_REVISION = re.compile(r"git-[0-9a-f]{6,40}")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_OPEN_QUOTE = re.compile(r"\s*(?:export\s+|setenv\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
# Words before assignments, and names whose assignments also count behind a command, as in mpirun -x NCCL_ALGO=Tree.
_LEADERS = frozenset({"export", "declare", "typeset", "readonly", "setenv", "env", "ENV"})
_EXPORTED = re.compile(r"(?:(?:OFI_)?NCCL|FI|RDMAV|(?:OMPI|PMIX)_MCA|LD|CUDA)_[A-Za-z0-9_]+|RANK|LOCAL_RANK")
_HEADER = "Written by mlcluster.aws; changes are lost."


@dataclasses.dataclass(frozen=True)
class Setting:
    """The target of an environment: instance type, versions (None: a current one), and use (host, mpi, container)."""

    instance_type: str | None = None
    plugin: str | None = None
    nccl: str | None = None
    libfabric: str | None = None
    use: str = "host"

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value!r}: use a version such as 1.21.1"
            for name, value in (("plugin", self.plugin), ("nccl", self.nccl), ("libfabric", self.libfabric))
            if value is not None and not (version_key(str(value)) or _REVISION.fullmatch(str(value)))
        ]
        if self.use not in USES:
            problems.append(f"use is {self.use!r}: use one of {', '.join(USES)}")
        if problems:
            raise NodeError("; ".join(problems))


def traits(instance_type: str | None) -> dict[str, t.Any]:
    """Return ``kind`` (nvidia, neuron, none), ``efa``, ``rdma``, ``nvlink`` (None: not known), ``plugin_sets``.

    None counts as an NVIDIA type with EFA whose other traits are unknown. Raises ``NodeError`` for an unknown type.
    """
    if instance_type is None:
        return {"kind": "nvidia", "efa": True, "rdma": None, "nvlink": None, "plugin_sets": {}}
    facts = instance_types.lookup(instance_type)
    family = next((entry for entry in table.FAMILIES if re.fullmatch(entry["types"], instance_type)), None)
    if facts is None and family is None:
        raise NodeError(
            f"instance type {instance_type!r} is not in the table of types: use the name as EC2 writes it, such as "
            "p5.48xlarge, or add the type to the table"
        )
    if facts is None:
        efa, kind = None, "neuron" if re.match("trn|inf", instance_type) else "nvidia"
    else:
        efa = instance_types.has_efa(facts)
        accelerators = facts["accelerators"] or {"kind": "none"}
        kind = {"gpu": "nvidia", "neuron": "neuron"}.get(accelerators["kind"], "none")
    family = family or {"rdma": None, "nvlink": False, "plugin_sets": {}}
    return {
        "kind": kind,
        "efa": efa,
        "rdma": family["rdma"],
        "nvlink": family["nvlink"],
        "plugin_sets": dict(family["plugin_sets"]),
    }


def _version_fits(version: str | None, condition: str) -> bool:
    operator, limit = t.cast("re.Match[str]", re.fullmatch(r"(==|<)(.+)", condition)).groups()
    if version is None or _REVISION.fullmatch(version):
        return False
    have, want = version_key(version), version_key(limit)
    width = max(len(have), len(want))
    have, want = (numbers + (0,) * (width - len(numbers)) for numbers in (have, want))
    return have < want if operator == "<" else have == want


def _fits(when: t.Mapping[str, t.Any], setting: Setting, known: t.Mapping[str, t.Any], value: str | None) -> bool:
    for key, wanted in when.items():
        if key == "value":
            fits = value is not None and re.fullmatch(wanted, value, re.IGNORECASE) is not None
        elif key == "use":
            fits = setting.use == wanted
        elif key in ("plugin", "nccl", "libfabric"):
            fits = _version_fits(getattr(setting, key), wanted)
        else:
            fits = known[key] == wanted
        if not fits:
            return False
    return True


def _unjudged(name: str, value: str, setting: Setting) -> dict[str, t.Any]:
    verdict, why, judged = "keep", "not a variable of NCCL, the OFI plugin or libfabric that is judged here", False
    for prefix, known, limit, have, what in (
        ("OFI_NCCL_", table.KNOWN_OFI, table.KNOWN_OFI_UP_TO, setting.plugin, "the OFI plugin"),
        ("NCCL_", table.KNOWN_NCCL, table.KNOWN_NCCL_UP_TO, setting.nccl, "NCCL"),
    ):
        if not name.startswith(prefix):
            continue
        newer = have is not None and version_key(have)[:2] > version_key(limit)
        if name in known:
            why = f"{what} reads it; nothing speaks for or against it"
        elif newer:
            why = f"not known to this table, which ends at {what} {limit}"
        else:
            verdict, judged = "drop", True
            why = f"{what} up to {limit} has no variable of that name, so nothing reads it"
        break
    return _entry(name, value, {"verdict": verdict, "why": why, "source": "table"}, judged)


def _entry(name: str, value: str, rule: t.Mapping[str, t.Any], judged: bool = True) -> dict[str, t.Any]:
    to_value = rule.get("to_value")
    if name == "NCCL_DEBUG_FILE" and to_value:
        # Only the placeholder of the process is corrected; the rest of the path is kept.
        stem = re.sub(r"[.-]?%[^hp/.]", "", value) or "nccl"
        to_value = stem + "".join(f".{mark}" for mark in ("%h", "%p") if mark not in stem)
    return {
        "name": name,
        "value": value,
        "verdict": rule["verdict"],
        "to": rule.get("to"),
        "to_value": to_value,
        "why": rule["why"],
        "since": rule.get("since"),
        "source": table.SOURCES[rule["source"]],
        "judged": judged,
    }


def judge(name: str, value: object, setting: Setting, known: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the entry of one variable; ``known`` is the result of ``traits`` for the setting's type. See ``lint``."""
    text = str(value)
    for rule in table.RULES:
        if re.fullmatch(rule["names"], name) and _fits(rule.get("when", {}), setting, known, text.strip()):
            return _entry(name, text, rule)
    return _unjudged(name, text, setting)


def assignments(variables: t.Mapping[str, object] | str) -> list[tuple[str, str]]:
    """Return names and values of a mapping, or of the assignments in a file (a job script, a profile, nccl.conf)."""
    if not isinstance(variables, str):
        return [(str(name), str(value)) for name, value in variables.items()]
    found = []
    for line in re.sub(r"\\\r?\n", " ", variables).splitlines():
        try:
            found += _in_words(shlex.split(line, comments=True))
        except ValueError:
            match = _OPEN_QUOTE.match(line)
            found += [(match.group(1), match.group(2).strip())] if match else []
    return found


def _in_words(words: t.Sequence[str]) -> list[tuple[str, str]]:
    """Return the assignments in a line of a script: before a command, behind export, and among a command's options."""
    if len(words) == 3 and words[0] in ("setenv", "ENV") and "=" not in words[1]:
        return [(words[1], words[2].strip("{}"))]
    found, leading = [], True
    for word in words:
        if word.startswith("--export="):
            parts = [_ASSIGNMENT.fullmatch(part) for part in word[len("--export=") :].split(",")]
            found += [(part.group(1), part.group(2)) for part in parts if part]
        elif match := _ASSIGNMENT.fullmatch(word):
            if leading or _EXPORTED.fullmatch(match.group(1)):
                found.append((match.group(1), match.group(2).rstrip(";")))
        elif word in _LEADERS:
            leading = True
        elif not word.startswith("-"):
            leading = False
        leading = leading or word.endswith(";") or word in ("&&", "||")
    return found


def lint(variables: t.Mapping[str, object] | str, setting: Setting) -> list[dict[str, t.Any]]:
    """Return the entry of each variable, in order, as ``judge`` returns it.

    verdict is keep, drop (without effect, or the software chooses better), rename (no program reads this name; ``to``
    is the right one) or harmful. ``to_value`` is the value to use instead, ``since`` the first version to which the
    verdict applies, ``judged`` whether the table covers the variable. Raises ``NodeError`` for an unknown type.
    """
    known = traits(setting.instance_type)
    return [judge(name, value, setting, known) for name, value in assignments(variables)]


def problem(variables: t.Mapping[str, object] | str, setting: Setting) -> str:
    """Return one sentence on the harmful and misnamed variables; empty if there are none."""
    return "; ".join(
        _sentence(entry) for entry in lint(variables, setting) if entry["verdict"] in ("harmful", "rename")
    )


def _sentence(entry: t.Mapping[str, t.Any]) -> str:
    if entry["verdict"] == "rename":
        return f"{entry['name']} must be {entry['to']}: {entry['why']}"
    instead = f" (use {entry['to_value']})" if entry["to_value"] else ""
    return f"{entry['name']}={entry['value']} is harmful: {entry['why']}{instead}"


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of an environment, beyond the variables that the versions require.

    debug: NCCL_DEBUG (None: not set). huge_pages False keeps libfabric off huge pages. pin_network: NCCL stops instead
    of falling back to sockets. net_plugin: NCCL_NET_PLUGIN, needed where only libnccl-net-ofi.so is installed.
    extra: variables of the user; harmful or misnamed ones are rejected unless accept_harmful is set.
    """

    debug: str | None = None
    huge_pages: bool = True
    pin_network: bool = False
    net_plugin: str | None = None
    extra: t.Mapping[str, object] = dataclasses.field(default_factory=dict)
    accept_harmful: bool = False


def _wanted(setting: Setting, options: Options, known: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str, str]]:
    for entry in table.RENDER:
        if _fits(entry["when"], setting, known, None):
            yield entry["name"], entry["value"], f"{entry['why']} ({table.SOURCES[entry['source']]})"
    if known["kind"] == "nvidia":
        if options.debug:
            yield "NCCL_DEBUG", options.debug, "requested"
        if options.net_plugin:
            yield "NCCL_NET_PLUGIN", options.net_plugin, "the file under which the OFI plugin is installed"
        if options.pin_network and known["efa"] is not False:
            old = setting.plugin is not None and _version_fits(setting.plugin, f"<{table.NETWORK_NAME_SINCE}")
            name = table.NETWORK_NAME_OLD if old else table.NETWORK_NAME
            yield "NCCL_NET", name, "NCCL stops instead of falling back to sockets"
        if setting.use == "mpi":
            for name, value in table.RENDER_MPI.items():
                yield name, value, f"Open MPI's own messages stay on TCP ({table.SOURCES['aws-tests']})"
    if known["kind"] in ("nvidia", "neuron") and known["efa"] is not False and not options.huge_pages:
        yield "FI_EFA_USE_HUGE_PAGE", "0", f"fork() does not run out of huge pages ({table.SOURCES['ofi']})"
    for name, own in options.extra.items():
        yield str(name), str(own), "requested"


def _notes(setting: Setting) -> list[str]:
    """Return the notes of the version matrix on these versions, together and on that type."""
    facts = instance_types.lookup(setting.instance_type) or {}
    versions = {"nccl": setting.nccl, "plugin": setting.plugin, "libfabric": setting.libfabric}
    violations = [
        violation(rule, version)
        for name, version in versions.items()
        if version is not None
        for rule in rules_for(name, versions, setting.instance_type, (facts.get("accelerators") or {}).get("name"))
    ]
    return [text for text in violations if text]


def refuse_bad(variables: t.Mapping[str, str]) -> None:
    """Raise ``NodeError`` with every name and value that needs quoting in one of the file formats."""
    problems = [
        f"{name!r} is not a name for a variable: use capital letters, digits and underscores"
        for name in variables
        if not _NAME.fullmatch(name)
    ] + [
        f"{name} has the value {value!r}: use letters, digits and . / : , ^ = + % @ _ -, on one line"
        for name, value in variables.items()
        if not _VALUE.fullmatch(value)
    ]
    if problems:
        raise NodeError("; ".join(problems))


def render(setting: Setting, options: Options | None = None) -> dict[str, t.Any]:
    """Return the environment as a mapping and as the content of each file.

    ``variables``; ``nccl_conf`` (what NCCL reads by itself: /etc/nccl.conf), ``profile`` (the rest, for
    /etc/profile.d; a value set before wins), ``environ`` (all, NAME=value: enroot's environ.d, systemd), ``modulefile``
    (all, Tcl); ``why`` for each name; ``notes``; ``lint`` of the variables of the user. Raises ``NodeError``.
    """
    options = options or Options()
    known = traits(setting.instance_type)
    if options.debug is not None and options.debug not in DEBUG_LEVELS:
        raise NodeError(f"debug is {options.debug!r}: use one of {', '.join(DEBUG_LEVELS)}")
    judged = lint(options.extra, setting)
    found = problem(options.extra, setting)
    if found and not options.accept_harmful:
        raise NodeError(found)
    variables, why = {}, {}
    for name, value, reason in _wanted(setting, options, known):
        variables[name], why[name] = value, reason
    refuse_bad(variables)
    notes = _notes(setting) + [
        f"{entry['name']} is better left out: {entry['why']}" for entry in judged if entry["verdict"] == "drop"
    ]
    return {
        "variables": variables,
        "why": why,
        "notes": notes,
        "lint": judged,
        "plugin_sets": known["plugin_sets"] if known["kind"] == "nvidia" else {},
        **_texts(variables),
    }


def _texts(variables: t.Mapping[str, str]) -> dict[str, str]:
    own = {name: value for name, value in variables.items() if name.startswith(("NCCL_", "OFI_NCCL_"))}
    rest = {name: value for name, value in variables.items() if name not in own}
    return {
        "nccl_conf": _lines("#", (f"{name}={value}" for name, value in own.items())),
        "profile": _lines("#", (f'export {name}="${{{name}-{value}}}"' for name, value in rest.items())),
        "environ": _lines("#", (f"{name}={value}" for name, value in variables.items())),
        "modulefile": _lines("#%Module1.0\n#", (f"setenv {name} {{{value}}}" for name, value in variables.items())),
    }


def _lines(comment: str, lines: t.Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in (f"{comment} {_HEADER}", *lines))
