# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a submission and all problems with them, before sbatch is called.

Pure, except for the existence of files, which is passed in as a function.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import typing as t

from ..system.host import NodeError
from . import parse as slurm_parse

# Short options of sbatch and their long names (sbatch's manual page).
SHORT = {"A": "account", "C": "constraint", "D": "chdir", "G": "gpus", "J": "job-name", "L": "licenses",
         "M": "clusters", "N": "nodes", "a": "array", "b": "begin", "c": "cpus-per-task", "d": "dependency",
         "e": "error", "i": "input", "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "t": "time",
         "w": "nodelist", "x": "exclude"}  # fmt: skip
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
_DEPENDENCY = re.compile(
    r"singleton|(?:after|afterany|afterburstbuffer|aftercorr|afternotok|afterok)(?::\d+(?:_(?:\d+|\*))?(?:\+\d+)?)+"
)
# NAME or NAME@SERVER, with a number behind a colon. NAME@SERVER is the whole name of a remote license (licenses.html).
_LICENSE = re.compile(r"(?P<name>[^:,;|]+)(?::(?P<count>\d+))?")
_FEATURE = re.compile(r"[A-Za-z][\w.-]*")
# Options with numbers, and a number that is too large for Slurm, which has 64 bits (slurm.h, NO_VAL64).
_COUNTED = ("nodes", "time", "gres", "gpus-per-node", "gpus-per-task", "ntasks-per-node", "array", "dependency",
            "licenses")  # fmt: skip
_HUGE = re.compile(r"\d{20}")
# Options with which sbatch does not submit, or does not submit a script.
FORBIDDEN = frozenset({"wrap", "wait", "test-only", "parsable", "help", "usage", "version", "quiet", "verbose"})

Options = t.Mapping[str, t.Optional[str]]


class RequestError(NodeError):
    """A rejected submission; ``problems`` has one sentence for each error."""

    def __init__(self, problems: t.Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(" ".join(f"{problem.rstrip('.')}." for problem in problems))


class NotSubmittedError(NodeError):
    """None of several jobs was submitted; the message has all reasons."""

    def __init__(self, problems: t.Sequence[str]) -> None:
        super().__init__("nothing was submitted: " + " ".join(f"{problem.rstrip('.')}." for problem in problems))


def parse_options(given: t.Mapping[str, t.Any]) -> dict[str, t.Optional[str]]:
    """Return long options of sbatch without dashes; true is an option without a value, false and null omit it.

    Raises RequestError, with all problems at once, for invalid options and for those that would not submit.
    """
    problems: list[str] = []
    options: dict[str, t.Optional[str]] = {}
    for key, value in given.items():
        name = str(key).replace("_", "-")
        if not _OPTION.fullmatch(name):
            problems.append(f"options has {key!r}: use the long name of an option of sbatch, without dashes before it")
        elif name in FORBIDDEN:
            problems.append(f"options has {key}: sbatch would not submit a script with it, so leave it out")
        elif isinstance(value, (list, tuple)):
            options[name] = ",".join(str(entry) for entry in value)
        elif isinstance(value, dict):
            problems.append(f"options has a dictionary for {key}: use a string, a number, a list, or true")
        elif value is True:
            options[name] = None
        elif value is not None and value is not False:
            options[name] = str(value)
        if "\0" in str(value) or "\n" in str(value):
            problems.append(f"options has a line end in {key}: write it on one line")
    if problems:
        raise RequestError(problems)
    return options


def directives(script: str) -> dict[str, t.Optional[str]]:
    """Return the #SBATCH options of a script by their long names; like sbatch, stop reading at the first command."""
    found: dict[str, t.Optional[str]] = {}
    for line in script.splitlines():
        text = line.strip()
        if text and not text.startswith("#"):
            break
        if not line.startswith("#SBATCH"):
            continue
        try:
            words = shlex.split(line[len("#SBATCH") :], comments=True)
        except ValueError:
            continue
        found.update(_long_options(words))
    return found


def _long_options(words: t.Sequence[str]) -> dict[str, t.Optional[str]]:
    found: dict[str, t.Optional[str]] = {}
    name: t.Optional[str] = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            found[name] = value if equals else None
            name = None if equals else name
        elif word.startswith("-") and len(word) > 1:
            name = SHORT.get(word[1], word[1])
            value = word[2:].lstrip("=")
            found[name] = value or None
            name = None if value else name
        elif name:
            found[name] = word
            name = None
    return found


def argv(script: str, options: Options, arguments: t.Sequence[str]) -> list[str]:
    """Return the arguments of ``sbatch``."""
    words = [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]
    return [*words, "--", script, *arguments] if arguments else [*words, script]


def gpus_per_node(options: Options) -> t.Optional[int]:
    """Return the requested GPUs per node; None if the options do not state them per node."""
    counts = []
    if options.get("gpus-per-node"):
        counts.append(_count(options["gpus-per-node"] or ""))
    for name in ("gres", "gpus-per-task"):
        value = options.get(name)
        if value and name == "gres":
            total = slurm_parse.gpus(value.replace("gres:", ""))[0]
            counts += [total] if total else []
        elif value and (options.get("ntasks-per-node") or "").isdecimal():
            counts.append(_count(value) * int(options["ntasks-per-node"] or 1))
    return max(counts) if counts else None


def _count(text: str) -> int:
    """Return the number of GPUs in ``[TYPE:]NUMBER`` or TYPE, several joined by commas."""
    return slurm_parse.gpus(",".join(f"gpu:{part}" for part in text.split(",")))[0]


def node_count(options: Options) -> int:
    """Return the minimum number of requested nodes (``--nodes=4`` and ``--nodes=4-8`` give 4, a suffix k is 1024)."""
    found = re.match(r"(\d+)(k?)", options.get("nodes") or "1", re.IGNORECASE)
    return int(found.group(1)) * (1024 if found.group(2) else 1) if found else 1


def chosen_partitions(options: Options, facts: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the existing partitions in which the job may run."""
    names = [name for name in (options.get("partition") or "").split(",") if name]
    return [entry for entry in facts["partitions"] if (entry["name"] in names if names else entry["default"])]


def partition_problems(options: Options, facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return problems with partitions (unknown, closed, too small), GPUs and time."""
    known = [entry["name"] for entry in facts["partitions"]]
    names = [name for name in (options.get("partition") or "").split(",") if name]
    problems = [
        f"partition {name} does not exist here: choose from {', '.join(known) or 'none'}"
        for name in names
        if name not in known
    ]
    chosen = chosen_partitions(options, facts)
    if not names and not chosen:
        problems.append(f"no partition was named and none is the default: choose from {', '.join(known) or 'none'}")
    closed = [entry for entry in chosen if entry["state"] not in ("UP", "DOWN")]
    problems += [
        f"partition {entry['name']} is {entry['state']} and takes no jobs: choose another, or have it opened"
        for entry in closed
    ]
    if chosen:
        for check in (_size_problem, _gpu_problem, _time_problem, _share_problem):
            problem = check(options, facts, chosen)
            problems += [problem] if problem else []
    return problems


def _label(chosen: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    return " or ".join(entry["name"] for entry in chosen)


def _size_problem(
    options: Options, facts: t.Mapping[str, t.Any], chosen: t.Sequence[t.Mapping[str, t.Any]]
) -> t.Optional[str]:
    wanted = node_count(options)
    maximum = max(min(entry["node_count"], entry["max_nodes"] or entry["node_count"]) for entry in chosen)
    if wanted <= maximum:
        return None
    return f"{wanted} nodes were requested and partition {_label(chosen)} gives at most {maximum}: request fewer"


def _gpu_problem(
    options: Options, facts: t.Mapping[str, t.Any], chosen: t.Sequence[t.Mapping[str, t.Any]]
) -> t.Optional[str]:
    wanted = gpus_per_node(options)
    names = {entry["name"] for entry in chosen}
    nodes = [node for node in facts["nodes"] if names & set(node["partitions"])]
    if wanted is None or not nodes:
        return None
    enough = [node for node in nodes if node["gpus"] >= wanted]
    if len(enough) >= node_count(options):
        return None
    counts = ", ".join(str(count) for count in sorted({node["gpus"] for node in nodes}))
    return (
        f"{wanted} GPUs a node were requested on {node_count(options)} nodes, and {len(enough)} nodes of partition "
        f"{_label(chosen)} have that many (there are nodes with {counts}): request what a node has"
    )


def _time_problem(
    options: Options, facts: t.Mapping[str, t.Any], chosen: t.Sequence[t.Mapping[str, t.Any]]
) -> t.Optional[str]:
    wanted = slurm_parse.duration(options.get("time"))
    limits = [entry["max_seconds"] for entry in chosen]
    if wanted is None or None in limits or wanted <= max(limits):
        return None
    # With EnforcePartLimits=NO, the default, sbatch accepts such a job and it waits forever.
    return (
        f"a time of {options['time']} was requested and partition {_label(chosen)} allows {max(limits) // 60} minutes: "
        "request less"
    )


def _share_problem(
    options: Options, facts: t.Mapping[str, t.Any], chosen: t.Sequence[t.Mapping[str, t.Any]]
) -> t.Optional[str]:
    if not {"oversubscribe", "share"} & set(options) or not all(entry.get("exclusive") for entry in chosen):
        return None
    return (
        f"nodes are to be shared and partition {_label(chosen)} gives each job whole nodes (OverSubscribe=EXCLUSIVE): "
        "choose another partition, or have that setting changed"
    )


def account_problems(options: Options, facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return problems with accounts and qualities of service that are unknown, or that the partition rejects."""
    problems = []
    account, qos = options.get("account"), options.get("qos")
    if facts["accounting"]:
        if account and account.lower() not in facts["accounts"]:
            problems.append(f"account {account} does not exist: choose from {', '.join(facts['accounts']) or 'none'}")
        if qos and qos not in facts["qos"]:
            problems.append(f"quality of service {qos} does not exist: choose from {', '.join(facts['qos']) or 'none'}")
    chosen = chosen_partitions(options, facts)
    closed = [entry for entry in chosen if account and entry["accounts"] and account not in entry["accounts"]]
    if chosen and len(closed) == len(chosen):
        allowed = ", ".join(closed[0]["accounts"])
        problems.append(f"partition {_label(closed)} does not take account {account}: it takes {allowed}")
    return problems


def other_problems(options: Options, facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return problems with missing features, too long arrays, invalid dependencies, and licenses."""
    problems = []
    features = {feature for node in facts["nodes"] for feature in node["features"]}
    missing = sorted(set(_FEATURE.findall(options.get("constraint") or "")) - features)
    if missing:
        has = ", ".join(sorted(features)) or "none"
        problems.append(f"no node has the feature {', '.join(missing)}: the nodes have {has}")
    stated = slurm_parse.number(facts["settings"].get("MaxArraySize"))
    limit = slurm_parse.ARRAY_MOST if stated is None else stated
    # Without the step of a range, which is not an index.
    ranges = re.sub(r":\d+", "", (options.get("array") or "").partition("%")[0])
    indices = [int(text) for text in re.findall(r"\d+", ranges)]
    if indices and limit == 0:
        problems.append("an array was requested and this cluster has none (MaxArraySize=0): submit single jobs")
    elif indices and max(indices) >= limit:
        problems.append(f"the array goes to index {max(indices)} and this cluster allows {limit - 1}: split it")
    dependency = options.get("dependency")
    if dependency and not all(_DEPENDENCY.fullmatch(part) for part in re.split(r"[,?]", dependency)):
        problems.append(f"dependency is {dependency}: write it as afterok:JOB, several joined by commas")
    return problems + license_problems(options, facts)


def license_problems(options: Options, facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return problems with licenses that are missing or too few; a job that needs them would wait forever."""
    problems = []
    has = facts["licenses"]
    for part in re.split(r"[,;|]", options.get("licenses") or ""):
        found = _LICENSE.fullmatch(part.strip())
        name, count = (found.group("name"), int(found.group("count") or 1)) if found else (part, 1)
        if part and name not in has:
            problems.append(f"license {name} does not exist here: choose from {', '.join(sorted(has)) or 'none'}")
        elif part and count > has[name]:
            problems.append(f"{count} of license {name} were requested and there are {has[name]}: request fewer")
    return problems


def dependencies(options: Options) -> list[int]:
    """Return the numbers of the jobs that the submission depends on."""
    parts = [part for part in re.split(r"[,?]", options.get("dependency") or "") if _DEPENDENCY.fullmatch(part)]
    found = [word for part in parts for word in part.split(":")[1:]]
    return sorted({int(word.partition("_")[0].partition("+")[0]) for word in found})


def dependency_problems(options: Options, known: t.Callable[[int], bool]) -> list[str]:
    """Return problems with unknown jobs: Slurm treats such a dependency as fulfilled, and starts the job at once."""
    return [
        f"dependency names job {job} and Slurm does not know it, so this job would not wait: choose an existing job"
        for job in dependencies(options)
        if not known(job)
    ]


def file_problems(
    script: str, options: Options, cwd: str, facts: t.Mapping[str, t.Any], exists: t.Callable[[str], bool]
) -> list[str]:
    """Return problems with missing directories for output (the job would fail without a message) and missing images."""
    problems = []
    base = posixpath.join(cwd, options.get("chdir") or "")
    if options.get("chdir") and not exists(base):
        problems.append(f"the working directory {base} does not exist: create it first")
    for name in ("output", "error"):
        value = options.get(name)
        folder = posixpath.dirname(posixpath.join(base, value)) if value else ""
        if folder and "%" not in folder and not exists(folder):
            problems.append(
                f"the directory {folder} for {name} does not exist, and the job would end without a message: create it"
            )
    image = options.get("container-image")
    if image and not facts["container_options"]:
        problems.append(
            "a container image was requested and Slurm offers no --container-image here: enable Pyxis first"
        )
    if image and image.startswith(("/", ".")) and not exists(posixpath.join(base, image)):
        problems.append(f"the container image {image} does not exist: import it first")
    return problems


def huge_problems(options: Options) -> list[str]:
    """Return problems with too large numbers; with any, no other check may run, as checks calculate with them."""
    huge = [name for name in _COUNTED if _HUGE.search(options.get(name) or "")]
    return [f"{name} has a number with more digits than Slurm can count: correct it" for name in huge]


def script_problems(script: str, text: t.Optional[str]) -> list[str]:
    """Return problems with a script that is missing or that sbatch would reject."""
    if text is None:
        return [f"the script {script} does not exist or cannot be read: render or copy it first"]
    if not text.startswith("#!"):
        return [f"the script {script} does not start with #!: sbatch takes only scripts that name their interpreter"]
    return []


def problems(
    script: str,
    text: t.Optional[str],
    given: Options,
    cwd: str,
    facts: t.Mapping[str, t.Any],
    exists: t.Callable[[str], bool],
    known: t.Callable[[int], bool],
) -> list[str]:
    """Return all problems of a submission, one sentence each; ``given`` overrides the script's #SBATCH lines.

    facts: the result of ``look.survey``. exists(path) and known(job number) return whether it exists.
    """
    options = {**directives(text or ""), **given}
    huge = huge_problems(options)
    if huge:
        return huge
    return [
        *script_problems(script, text),
        *partition_problems(options, facts),
        *account_problems(options, facts),
        *other_problems(options, facts),
        *dependency_problems(options, known),
        *file_problems(script, options, cwd, facts, exists),
    ]
