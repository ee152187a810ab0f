# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a role for a node (``mlcluster.plan/1``): only the differences from the wanted state.

Every domain has a pure function from facts and configuration to a ``Plan``. A node without differences has an
empty plan, also after a plan was carried out. Roles carry out plans, and decide nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import typing as t

SCHEMA = "mlcluster.plan/1"
MODE = "0644"
# Suffix of the name of a file of which only mode or owner differs: its readers need no restart after the fix.
OUTSIDE = " (mode or owner)"


@dataclasses.dataclass(frozen=True)
class Package:
    """A package to install: from the node's repositories, or from ``url``, whose file must have this ``sha256``.

    A url is a web address (https, http), an S3 address (s3://), or a path on the controller.
    An empty version is the newest in the repositories; otherwise it has the repositories' spelling.
    """

    name: str
    version: str = ""
    url: str = ""
    sha256: str = ""

    @classmethod
    def of(cls, spec: str) -> Package:
        """Return the package that ``name`` or ``name=version`` names."""
        name, _equals, version = spec.partition("=")
        return cls(name, version)


@dataclasses.dataclass(frozen=True)
class File:
    """A file owned by root to write completely, or with ``state`` absent to remove. ``backup`` keeps the old file.

    ``name`` is a description for users ("unit limits"); several files may share one.
    """

    name: str
    path: str
    text: str = ""
    mode: str = MODE
    state: str = "present"
    backup: bool = False


@dataclasses.dataclass(frozen=True)
class Unit:
    """The wanted state of a systemd unit; None keeps a property unchanged. state is started, stopped or restarted."""

    name: str
    enabled: bool | None = None
    state: str | None = None


@dataclasses.dataclass(frozen=True)
class Step:
    """An action that is not a package, file or unit: the role has a task file for it, with ``arguments``.

    ``name`` is a word such as ``installer``; ``label`` is its name for users ("upgrade EFA"). The tasks that roles
    share carry out those of ``command`` and ``runtime``.
    """

    name: str
    label: str
    arguments: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)


def command(label: str, argv: t.Sequence[str], tolerant: bool = False) -> Step:
    """Return a step that runs a command without a shell, such as ldconfig; a tolerant one may fail."""
    return Step("command", label, {"argv": list(argv), "tolerant": tolerant})


@dataclasses.dataclass(frozen=True)
class Report:
    """The report of a look besides plan and verdicts.

    ``info`` are further lines for users. ``details`` are longer texts for a failure, such as the end of a log.
    ``facts`` become Ansible facts by their names, for other roles.
    """

    info: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    facts: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The actions of a role on a node, in the order of the fields.

    domain
        The role's name.
    concerned
        False if the role does not apply to this node; ``reason`` is why. Such a plan has no actions.
    refusals
        The reasons against any action, a sentence each; a plan with refusals has no actions.
    notes
        Information for users that changes nothing.
    refresh
        Whether the package lists must be updated before ``packages`` can be found.
    unhold, packages, hold
        Names to release from their hold; packages to install; names to hold. Globs are resolved.
    files, daemon_reload, units
        Files to write or remove; whether systemd must reload its units; units to bring into a state.
    steps
        The role's own steps, in order.
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
        """The differences in words, each once; empty if there is nothing to do."""
        found = ["packages"] if self.packages or self.unhold else []
        found += [entry.name for entry in self.files]
        found += ["held packages"] if self.hold else []
        found += [f"unit {entry.name}" for entry in self.units]
        found += [entry.label for entry in self.steps]
        if self.daemon_reload and not found:
            found.append("units that systemd has not read")
        return list(dict.fromkeys(found))

    def to_dict(self) -> dict[str, t.Any]:
        """Return the plan for JSON: the fields by their names, and ``schema``, ``differences`` and ``empty``."""
        plain = dataclasses.asdict(self)
        differences = self.differences()
        return {"schema": SCHEMA, **plain, "differences": differences, "empty": not differences}


def refused(domain: str, refusals: t.Iterable[str], notes: t.Iterable[str] = ()) -> Plan:
    """Return a plan without actions, with the reasons."""
    return Plan(domain=domain, refusals=tuple(refusals), notes=tuple(notes))


def not_concerned(domain: str, reason: str) -> Plan:
    """Return the plan for a node to which a role does not apply."""
    return Plan(domain=domain, concerned=False, reason=reason)


def file_due(
    wanted: File,
    checksum: str | None,
    state: t.Mapping[str, t.Any] | None,
    kept: bool = False,
) -> list[File]:
    """Return the file to write or remove; empty if it is as wanted.

    ``checksum`` is the sha256 of the existing file, None without one; ``state`` has mode, uid and is_link of
    ``Host.stat``. ``kept`` is for a path that others may also write: it is written with a backup and never removed.
    Raises ``ValueError`` for an existing file without a state.
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
