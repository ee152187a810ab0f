# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a boot run, and the variables of the roles."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

POLICIES = ("continue", "drain", "terminate")
PHASES = ("build", "boot")
NODE_TYPES = ("head", "login", "compute", "standalone")
ROLE_NAME = re.compile(r"(?:[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*\.)?[a-z_][a-z0-9_]*")
# Options that a report needs even if other options are invalid.
KEPT = (
    "--root",
    "--started-at",
    "--deadline",
    "--bundle-sha256",
    "--log-prefix",
    "--bucket-owner",
    "--pointer",
    "--bundle",
)
# Options without a value.
FLAGS = ("--required", "--best-effort")
LEVELS = {"required": True, "best-effort": False}
# Seconds after the launch in which a node must join Slurm. For ParallelCluster 3.16 this is the default of
# HeadNodeBootstrapTimeout and ComputeNodeBootstrapTimeout; its configuration can set another value.
PARALLELCLUSTER_SECONDS = 2100
PCS_SECONDS = 1800
BOOTSTRAP_TIMEOUT = re.compile(rb"^ *(?:Compute|Head)NodeBootstrapTimeout: *0*([1-9][0-9]{0,5})\b", re.MULTILINE)
# Seconds reserved for the rest of the bootstrap, which follows the hook.
AFTER_SECONDS = 120
# The configuration is on a share of the head node, which may not answer.
CONFIGURATION_SECONDS = 10
# A run that begins with less time left than this is not part of the bootstrap, so the time since the launch is ignored.
MIN_SECONDS = 240


class OptionsError(Exception):
    """Options or variables are wrong; the message is one sentence."""


@dataclasses.dataclass(frozen=True)
class RoleRequest:
    """A role named in ``--roles``; ``required`` is None if its level is not given."""

    name: str
    required: bool | None


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of docs/boot_hook.md. ``started_at`` and ``deadline_at`` are seconds of /proc/uptime."""

    root: Path
    source: str
    sha256: str
    roles: tuple[RoleRequest, ...]
    required: bool | None
    phase: str
    node_type: str | None
    on_failure: str
    wait_for: tuple[Path, ...]
    wait_seconds: int
    log_prefix: str
    vars_file: Path | None
    vars_source: str
    started_at: float
    deadline_at: float
    bucket_owner: str = ""

    def path(self, absolute: str) -> Path:
        """Return an absolute path of the node below the root of this run."""
        return self.root / absolute.lstrip("/")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionsError(f"{message}; docs/boot_hook.md has the options")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="run-node", add_help=False, allow_abbrev=False)
    for name in ("--bundle", "--sha256", "--pointer", "--public-key", "--version-floor", "--vars"):
        parser.add_argument(name, default="")
    parser.add_argument("--roles", default="")
    parser.add_argument("--deadline", type=int)
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--required", action="store_const", const=True, dest="required")
    level.add_argument("--best-effort", action="store_const", const=False, dest="required")
    parser.add_argument("--phase", choices=PHASES, default="boot")
    parser.add_argument("--node-type", choices=NODE_TYPES)
    parser.add_argument("--on-failure", choices=POLICIES, default="drain")
    parser.add_argument("--wait-for", action="append", default=[], type=Path)
    parser.add_argument("--wait-seconds", type=int, default=300)
    parser.add_argument("--log-prefix", default="")
    parser.add_argument("--bucket-owner", default="")
    parser.add_argument("--root", type=Path, default=Path("/"))
    parser.add_argument("--vars-file", type=Path)
    parser.add_argument("--bundle-sha256", default="")
    parser.add_argument("--started-at", type=float, required=True)
    return parser


def parse_roles(text: str) -> tuple[RoleRequest, ...]:
    """Parse ``nvme_raid0,nvidia_gds:best-effort,site.own.motd:required``. Raises OptionsError with every error."""
    requests, problems = [], []
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, _colon, level = word.partition(":")
        if not ROLE_NAME.fullmatch(name) or (level and level not in LEVELS):
            problems.append(repr(word))
        requests.append(RoleRequest(name, LEVELS.get(level)))
    if problems:
        raise OptionsError(
            f"--roles takes role names separated by commas, each optionally followed by :required or :best-effort, "
            f"not {', '.join(problems)}"
        )
    names = [request.name for request in requests]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise OptionsError(f"--roles names {', '.join(doubles)} more than once: name each role once")
    return tuple(requests)


def bootstrap_left(root: Path, started_at: float) -> float:
    """Return the default seconds until the deadline, for a run that began ``started_at`` seconds after the launch."""
    parallelcluster = root / "opt/parallelcluster"
    limit = PARALLELCLUSTER_SECONDS if parallelcluster.is_dir() else PCS_SECONDS
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["cat", "--", str(parallelcluster / "shared/cluster-config.yaml")]
        text = subprocess.run(command, capture_output=True, timeout=CONFIGURATION_SECONDS, check=False).stdout
        limit = min(map(int, BOOTSTRAP_TIMEOUT.findall(text)), default=limit)
    used = started_at if started_at < limit - MIN_SECONDS else 0.0
    return max(limit - used - AFTER_SECONDS, MIN_SECONDS - AFTER_SECONDS)


def parse_options(words: Sequence[str]) -> Options:
    """Parse the user's options and those that the hook adds. Raises OptionsError."""
    args = _parser().parse_args([word if value is None else f"{word}={value}" for word, value in _pairs(words)])
    seconds = args.deadline
    return Options(
        root=args.root,
        source=args.pointer or args.bundle,
        sha256=args.bundle_sha256,
        roles=parse_roles(args.roles),
        required=args.required,
        phase=args.phase,
        node_type=args.node_type,
        on_failure=args.on_failure,
        wait_for=tuple(args.wait_for),
        wait_seconds=args.wait_seconds,
        log_prefix=args.log_prefix,
        vars_file=args.vars_file,
        # The query of a presigned address is a secret.
        vars_source="the text of --vars" if args.vars.lstrip().startswith("{") else args.vars.partition("?")[0],
        started_at=args.started_at,
        deadline_at=args.started_at + (bootstrap_left(args.root, args.started_at) if seconds is None else seconds),
        bucket_owner=args.bucket_owner,
    )


def _pairs(words: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return (option, value) pairs, value None for a flag; a value may look like an option."""
    pairs: list[tuple[str, str | None]] = []
    remaining = iter(words)
    for word in remaining:
        pairs.append((word, None if word in FLAGS else next(remaining, None)))
    return pairs


def fallback_options(words: Sequence[str]) -> Options:
    """Return the options that the report about invalid options needs: root, times, and the policy if it is valid."""
    values = {name: value for name, value in _pairs(words) if value}
    kept = [word for name in KEPT if name in values for word in (name, values[name])]
    policy = values.get("--on-failure", "drain")
    return parse_options([*kept, "--on-failure", policy if policy in POLICIES else "drain"])


def read_words(path: Path) -> list[str]:
    """Return the words of an options file, each terminated by NUL."""
    return path.read_bytes().decode("utf-8", "replace").split("\0")[:-1]


def read_vars(path: Path | None, source: str) -> dict[str, Any]:
    """Return the variables of a JSON or YAML file. Raises OptionsError with the place of the first error."""
    text = path.read_text(encoding="utf-8", errors="replace") if path else ""
    if not text.strip():
        return {}
    try:
        variables = json.loads(text)
    except (ValueError, RecursionError) as exc:
        if text.lstrip().startswith("{"):
            raise OptionsError(f"the variables of {source} are not JSON: {exc}") from None
        variables = _read_yaml(text, source)
    if not isinstance(variables, dict):
        raise OptionsError(
            f"the variables of {source} must be a mapping of names to values, found {type(variables).__name__}"
        )
    invalid = sorted(repr(name) for name in variables if not (isinstance(name, str) and name.isidentifier()))
    if invalid:
        raise OptionsError(f"the variables of {source} have invalid names: {', '.join(invalid)}")
    return variables


def _read_yaml(text: str, source: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise OptionsError(f"the variables of {source} are nested too deep to be read") from None
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = getattr(exc, "problem", None) or str(exc).splitlines()[0]
        raise OptionsError(f"the variables of {source} are neither JSON nor YAML{place}: {reason}") from None
