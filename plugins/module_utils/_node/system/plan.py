# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a role for a node (``mlcluster.plan/1``): what differs from what is wanted, and nothing else.

Every domain has a pure function from facts and configuration to a ``Plan``. A node on which nothing differs has an
empty plan; carried out, a plan leaves an empty one behind. Roles carry out plans, and decide nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import typing as t

SCHEMA = "mlcluster.plan/1"
MODE = "0644"
# What is told of a file of which only that differs: nobody has to read it again once it is put right.
OUTSIDE = " (mode or owner)"


@dataclasses.dataclass(frozen=True)
class Package:
    """A package to install: from the node's repositories, or from ``url``, whose file has to have that ``sha256``.

    A url is of the web (https, http), of S3 (s3://), or a path on the controller.
    An empty version takes the newest that the repositories have; otherwise it is spelled as they spell it.
    """

    name: str
    version: str = ""
    url: str = ""
    sha256: str = ""


@dataclasses.dataclass(frozen=True)
class File:
    """A file of root's to write whole, or with ``state`` absent to remove. ``backup`` keeps what it replaces.

    ``name`` is what people call it ("unit limits"); several files may share one.
    """

    name: str
    path: str
    text: str = ""
    mode: str = MODE
    state: str = "present"
    backup: bool = False


@dataclasses.dataclass(frozen=True)
class Unit:
    """A unit of systemd as it has to be; None leaves that side of it alone. state is started, stopped or restarted."""

    name: str
    enabled: bool | None = None
    state: str | None = None


@dataclasses.dataclass(frozen=True)
class Step:
    """Something that is not a package, file or unit: the role has a task file for it, which takes ``arguments``.

    ``name`` is a word such as ``installer``; ``shown`` is what people read ("upgrade EFA"). The tasks that roles share
    do those of ``command`` and ``runtime``.
    """

    name: str
    shown: str
    arguments: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)


def command(shown: str, argv: t.Sequence[str], tolerant: bool = False) -> Step:
    """A command without a shell, such as ldconfig; of a tolerant one that fails, the look afterwards tells the rest."""
    return Step("command", shown, {"argv": list(argv), "tolerant": tolerant})


@dataclasses.dataclass(frozen=True)
class Told:
    """What a look tells besides plan and verdicts.

    ``shown`` are lines for people. ``details`` are longer texts that a failure ends with, such as the end of a log.
    ``facts`` become facts of Ansible by their names, for other roles.
    """

    shown: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    facts: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a role has to do on a node, in the order of the fields.

    domain
        The role's name.
    concerned
        False where the role has nothing to do with this node; ``reason`` says why. Such a plan has no actions.
    refusals
        Why nothing may be done, a sentence each; a plan with refusals has no actions.
    notes
        What people should know, and what changes nothing.
    refresh
        The package lists have to be fetched anew before ``packages`` can be found.
    unhold, packages, hold
        Names whose hold stands in the way; what to install; names to hold. Globs are resolved.
    files, daemon_reload, units
        Files to write or remove; whether systemd has to read its units again; units to bring into a state.
    steps
        What only this role does, in its order.
    """

    domain: str
    concerned: bool = True
    reason: str = ""
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refresh: bool = False
    unhold: tuple[str, ...] = ()
    packages: tuple[Package, ...] = ()
    hold: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    daemon_reload: bool = False
    units: tuple[Unit, ...] = ()
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if (self.refusals or not self.concerned) and self.differences():
            raise ValueError(f"the plan of {self.domain} refuses and acts: a refusal must leave everything as it is")

    def differences(self) -> list[str]:
        """What differs, in words for people, each once; empty where there is nothing to do."""
        found = ["packages"] if self.packages or self.unhold else []
        found += [entry.name for entry in self.files]
        found += ["held packages"] if self.hold else []
        found += [f"unit {entry.name}" for entry in self.units]
        found += [entry.shown for entry in self.steps]
        if self.daemon_reload and not found:
            found.append("units that systemd has not read")
        return list(dict.fromkeys(found))

    def to_dict(self) -> dict[str, t.Any]:
        """The plan as JSON has it: the fields by their names, and ``schema``, ``differences`` and ``empty``."""
        plain = dataclasses.asdict(self)
        differences = self.differences()
        return {"schema": SCHEMA, **plain, "differences": differences, "empty": not differences}


def refused(domain: str, refusals: t.Iterable[str], notes: t.Iterable[str] = ()) -> Plan:
    """A plan that does nothing and says why."""
    return Plan(domain=domain, refusals=tuple(refusals), notes=tuple(notes))


def not_concerned(domain: str, reason: str) -> Plan:
    """The plan for a node that a role has nothing to do with."""
    return Plan(domain=domain, concerned=False, reason=reason)


def file_due(
    wanted: File,
    checksum: str | None,
    state: t.Mapping[str, t.Any] | None,
    kept: bool = False,
) -> list[File]:
    """The file as it has to be written or removed; empty where it is as wanted.

    ``checksum`` is the sha256 of what is there, None where nothing is; ``state`` has mode, uid and is_link as
    ``Host.stat`` gives them. ``kept`` is for a path that others may have written too: it is written with a backup and
    never removed. Raises ``ValueError`` where there is a file whose state was not looked at.
    """
    if checksum is not None and state is None:
        raise ValueError(f"{wanted.path} was read and its state was not looked at")
    if wanted.state == "absent":
        return [wanted] if state is not None and not kept else []
    is_other = checksum != hashlib.sha256(wanted.text.encode()).hexdigest()
    is_link = bool(state and state["is_link"])
    if not is_other and state and not is_link and state["mode"] == wanted.mode and state["uid"] == 0:
        return []
    name = wanted.name if is_other else wanted.name + OUTSIDE
    return [dataclasses.replace(wanted, name=name, backup=wanted.backup or (kept and (is_other or is_link)))]
