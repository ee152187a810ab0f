# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of a job: the file NAME.json beside its script, schema mlcluster.job/1. Pure.

The role slurm_jobs writes it, ``mlcluster job`` reads it.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import typing as t

from ..system.host import NodeError
from .options import NAME, is_path, whole

if t.TYPE_CHECKING:
    from .kind import Kind

SCHEMA = "mlcluster.job/1"
ABOUT = "Written by the role slurm_jobs of mlcluster.aws; changes are lost. Its README explains the format."
RENDER = "render it again with the role slurm_jobs"


@dataclasses.dataclass(frozen=True)
class Container:
    """The container of a job's steps: image, mounts (SOURCE:TARGET[:FLAGS]) and working directory."""

    image: str
    mounts: tuple[str, ...]
    workdir: str


@dataclasses.dataclass(frozen=True)
class Spec:
    """One job.

    ``dir`` is the shared directory of the role, ``python`` the interpreter for the runtime in it. ``nodes`` is the
    number that its script requests, ``tasks`` and ``gpus`` are numbers for each node. ``environment`` has the variables
    of each task, ``scratch`` is the directory in which a node makes one for each job (empty: none). ``sbatch`` names
    the options of sbatch in its script. ``values`` are all options of its kind, ``tools`` the paths of its programs,
    ``asked`` the input of the verdict.
    """

    name: str
    kind: str
    dir: str
    python: str
    nodes: int
    tasks: int
    gpus: int
    mpi: str
    environment: t.Mapping[str, str]
    container: Container | None
    scratch: str
    sbatch: tuple[str, ...]
    values: t.Mapping[str, t.Any]
    tools: t.Mapping[str, str]
    asked: t.Mapping[str, t.Any]

    @property
    def path(self) -> str:
        """The path of this file."""
        return posixpath.join(self.dir, f"{self.name}.json")

    @property
    def script(self) -> str:
        """The path of the batch script."""
        return posixpath.join(self.dir, f"{self.name}.sbatch")

    @property
    def exit_file(self) -> str:
        """The file with the job's exit status, with sbatch's pattern for the job number."""
        number = "%A_%a" if "array" in self.sbatch else "%j"
        return posixpath.join(self.dir, "results", f"{self.name}-{number}.exit")

    @property
    def mlcluster(self) -> tuple[str, ...]:
        """The first words of each command of the runtime."""
        return (self.python, posixpath.join(self.dir, "mlcluster.pyz"))

    def text(self) -> str:
        """Return the content of the file."""
        # Not dataclasses.asdict: it copies containers by their type, which fails for those of Ansible.
        document = {
            "schema": SCHEMA,
            "about": ABOUT,
            **vars(self),
            "container": self.container and vars(self.container),
        }
        return json.dumps(document, indent=2) + "\n"


def _is_text(value: t.Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_word(value: t.Any) -> bool:
    return _is_text(value) and bool(value)


def _texts(value: t.Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _named_texts(value: t.Any) -> bool:
    return isinstance(value, dict) and all(key and "=" not in key and _is_text(each) for key, each in value.items())


def _container(value: t.Any) -> bool:
    return value is None or (
        isinstance(value, dict)
        and set(value) == {"image", "mounts", "workdir"}
        and all(_is_text(value[key]) and value[key] for key in ("image", "workdir"))
        and _texts(value["mounts"])
    )


# Each field: its check, and the end of "use ..." in a message.
_FIELDS: dict[str, tuple[t.Callable[[t.Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str) and bool(NAME.fullmatch(value)), "the name of a job"),
    "kind": (_is_text, "a job kind"),
    "dir": (is_path, "an absolute path"),
    "python": (_is_word, "a program"),
    "nodes": (whole, "an integer from 1"),
    "tasks": (whole, "an integer from 1"),
    "gpus": (lambda value: whole(value, 0), "an integer"),
    "mpi": (_is_word, "a type of srun --mpi"),
    "environment": (_named_texts, "a dictionary of names to strings"),
    "container": (_container, "null, or image, mounts and workdir"),
    "scratch": (_is_text, "a path, or an empty string"),
    "sbatch": (_texts, "a list of names"),
    "values": (lambda value: isinstance(value, dict), "a dictionary"),
    "tools": (_named_texts, "a dictionary of names to paths"),
    "asked": (lambda value: isinstance(value, dict), "a dictionary"),
}


def parse(text: str, path: str, kinds: t.Mapping[str, Kind]) -> Spec:
    """Parse the description of a job. Raises NodeError with all its errors."""
    try:
        found = loads(text)
    except (ValueError, RecursionError) as exc:
        raise NodeError(f"{path} is not JSON ({exc}): {RENDER}") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        schema = found.get("schema") if isinstance(found, dict) else None
        raise NodeError(f"{path} has the schema {schema!r} and not {SCHEMA}: {RENDER}")
    wrong = [
        f"{key} is {found.get(key)!r}, use {wanted}"
        for key, (accepts, wanted) in _FIELDS.items()
        if not accepts(found.get(key))
    ]
    wrong += [f"{key} is unknown" for key in sorted(set(found) - set(_FIELDS) - {"schema", "about"})]
    wrong = wrong or list(_of_kind(found, kinds))
    if wrong:
        raise NodeError(f"{path} is not a job: {'; '.join(wrong)}: {RENDER}")
    container = found["container"]
    return Spec(
        **{
            **{key: found[key] for key in _FIELDS},
            "sbatch": tuple(found["sbatch"]),
            "container": container and Container(container["image"], tuple(container["mounts"]), container["workdir"]),
        }
    )


def loads(text: str) -> t.Any:
    """Parse JSON without NaN and Infinity, which comparisons with a minimum do not reject. Raises ValueError."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(word: str) -> t.NoReturn:
    raise ValueError(f"{word} is not a number")


def _of_kind(found: t.Mapping[str, t.Any], kinds: t.Mapping[str, Kind]) -> t.Iterator[str]:
    kind = kinds.get(found["kind"])
    if kind is None:
        yield f"kind is {found['kind']!r}, use one of {', '.join(kinds)}"
        return
    values = found["values"]
    for name, option in kind.options.items():
        if name not in values:
            yield f"values has no {name}"
        elif values[name] != option.default and not option.type.accepts(values[name]):
            yield f"{name} is {values[name]!r}, use {option.type.wanted}"
    yield from (f"values has {name}, which is unknown" for name in sorted(set(values) - set(kind.options)))
    yield from (f"tools has no {name}" for name in kind.tools if name not in found["tools"])
    yield from (f"asked has no {name}" for name in kind.asked if name not in found["asked"])
