# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find misspelt tags, variables and groups, and tags that select nothing. Pure, except that it reads role files."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import first_of

COLLECTION = Path(__file__).parents[3]
# Roles that configure nodes: their variables have unique prefixes. The prefix cluster_ of the role cluster is also
# common in users' own names.
ROLES = ("nvme_raid0", "efa_nccl", "nvidia_gds", "enroot_pyxis", "fsx_lustre", "slurm_jobs")
# The role of the controller, which create_cluster and others apply.
OTHER_ROLES = ("cluster",)
PARTS = ("_install", "_configure", "_verify")
# Tags of every role that configures nodes.
PHASES = ("build", "boot")
# Ansible's own tags, and tags of several roles.
COMMON_TAGS = ("all", "always", "never", "tagged", "untagged", *PHASES)
# Similarity from which a name counts as misspelt (difflib's ratio).
ALIKE = 0.75
# The same for a name without a prefix of ours, which may be a name of the user's own.
VERY_ALIKE = 0.8
# Maximum number of host names in a message.
MAX_HOSTS = 3
OWN_VARIABLES = "mlcluster_own_variables"
CORRECT_IT = f"Correct it, or add a name of your own to {OWN_VARIABLES}"


def known_tags(roles: Iterable[str] = ROLES) -> list[str]:
    """Return every tag of the collection's own playbooks."""
    return [*COMMON_TAGS, *(role + part for role in roles for part in ("", *PARTS))]


def task_tags(role: str) -> list[frozenset[str]]:
    """Return the tags of each task by which a playbook applies a role."""
    if role in ROLES:
        return [frozenset({role, *(role + part for part in PARTS), *PHASES})]
    return [frozenset({role, role + part}) for part in PARTS]


def idle_tags(given: Mapping[str, Sequence[str]], roles: Sequence[str]) -> list[str]:
    """Return a sentence if the tags, although they are known, select no task of any of ``roles``."""
    chosen, skipped = set(given.get("--tags") or ("all",)), set(given.get("--skip-tags", ()))
    whole = {"all", "tagged"}
    if any((chosen & (whole | tags)) and not skipped & (whole | tags) for role in roles for tags in task_tags(role)):
        return []
    options = " ".join(f"{option} {','.join(tags)}" for option, tags in given.items() if tags)
    return [
        f"{options}: no role would run; use the tag of a role ({', '.join(roles)}), or run it without these options"
    ]


def tag_problems(given: Mapping[str, Sequence[str]], known: Collection[str]) -> list[str]:
    """Return a sentence for each tag that no task has; ``given`` maps an option (``--tags``) to its tags.

    The list of all tags follows if a given tag resembles none of them.
    """
    found = []
    for option, tags in given.items():
        for tag in dict.fromkeys(tags):
            if tag not in known:
                found.append(f"{option} {tag}: no task has that tag{_suggestion(tag, known)}")
    if not all(text.endswith("?") for text in found):
        found[-1] += f"; the tags are {', '.join(known)}"
    return found


def useless_tags(given: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a sentence for each option that leaves no task of a playbook without tags."""
    chosen, skipped = set(given.get("--tags", ())), set(given.get("--skip-tags", ()))
    every = {"all", "untagged"}
    useless = {"--tags": chosen if not chosen & every else set(), "--skip-tags": skipped if skipped & every else set()}
    return [
        f"{option} {','.join(sorted(tags))}: this playbook has no tags, so nothing would run; run it without {option}"
        for option, tags in useless.items()
        if tags
    ]


def similar_tags(given: Mapping[str, Sequence[str]], known: Collection[str]) -> list[str]:
    """Return a warning for each tag that resembles one of ours; others belong to the importing playbook."""
    return [
        f"{option} {tag}: mlcluster.aws has no such tag{hint}"
        for option, tags in given.items()
        for tag in dict.fromkeys(tags)
        if tag not in known and (hint := _suggestion(tag, known))
    ]


def _suggestion(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, 1, ALIKE)
    return f"; did you mean {close[0]}?" if close else ""


def misnamed_groups(wanted: Iterable[str], present: Collection[str]) -> list[str]:
    """Return a warning for each missing group if the inventory has one with a similar name."""
    found = []
    for group in wanted:
        others = sorted(set(present) - set(wanted))
        close = [] if group in present else difflib.get_close_matches(group, others, 1, ALIKE)
        if close:
            found.append(f"the inventory has no group {group}, but one called {close[0]}, whose hosts are skipped")
    return found


def known_variables(roles: Iterable[str] = ROLES) -> dict[str, frozenset[str]]:
    """Return the variables of each role, from all entry points of its argument specs. Raises OSError."""
    found = {}
    for role in roles:
        text = (COLLECTION / "roles" / role / "meta" / "argument_specs.yml").read_text(encoding="utf-8")
        specs = yaml_load(text)["argument_specs"]
        found[role] = frozenset(name for spec in specs.values() for name in spec.get("options") or {})
    return found


def unknown_variables(
    hosts: Mapping[str, Collection[str]], known: Mapping[str, Collection[str]], own: Sequence[str] = ()
) -> list[str]:
    """Return a sentence for each variable with a role's prefix that no role reads.

    ``hosts`` maps each host to the names of its variables. ``own`` are names or patterns that the site uses itself.
    """
    where: dict[str, list[str]] = {}
    for host, names in hosts.items():
        for name in names:
            role = _role_of(name, known)
            if role and name not in known[role] and not _is_own(name, own):
                where.setdefault(name, []).append(host)
    return [_variable_text(name, sorted(where[name]), known) for name in sorted(where)]


def rejected_variables(
    given: Iterable[str],
    known: Mapping[str, Collection[str]],
    variables: Collection[str] = (),
    prefix: str = "",
    own: Sequence[str] = (),
) -> list[str]:
    """Return a sentence for each variable of the command line (``-e``) that nothing reads.

    These begin with the name of a role in ``known`` or with ``prefix``, the name of the playbook, or are very similar
    to one of ``variables``, which the playbook reads. ``own`` are names or patterns that the site uses itself.
    """
    readable = {name for names in known.values() for name in names} | set(variables) | {OWN_VARIABLES}
    found = []
    for name in sorted(set(given) - readable):
        hint = None if _is_own(name, own) else _hint(name, known, variables, prefix)
        if hint:
            found.append(f"-e {name}: nothing reads that variable; {hint} {CORRECT_IT}")
    return found


def _hint(name: str, known: Mapping[str, Collection[str]], variables: Collection[str], prefix: str) -> str | None:
    """Return which name is meant or where the names are listed; None for a name of the user."""
    role = _role_of(name, known)
    ours = bool(role or (prefix and name.startswith(f"{prefix}_")))
    candidates = sorted([*(known[role] if role else ()), *variables, OWN_VARIABLES])
    close = difflib.get_close_matches(name, candidates, 1, ALIKE if ours else VERY_ALIKE)
    if close:
        return f"did you mean {close[0]}?"
    if role:
        return _where_listed(role)
    if ours:
        listed = sorted(entry for entry in variables if entry.startswith(f"{prefix}_"))
        return f"this playbook reads {', '.join(listed) or 'none of that prefix'}."
    return None


def _role_of(name: str, known: Iterable[str]) -> str | None:
    return next((role for role in known if name.startswith(f"{role}_")), None)


def _is_own(name: str, own: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in own)


def _where_listed(role: str) -> str:
    return f"ansible-doc -t role mlcluster.aws.{role} lists what it reads."


def _variable_text(name: str, hosts: Sequence[str], known: Mapping[str, Collection[str]]) -> str:
    role = next(role for role in known if name.startswith(f"{role}_"))
    hint = _suggestion(name, known[role]) or f"; {_where_listed(role)}"
    return f"no role reads the variable {name} (of {first_of(hosts, MAX_HOSTS)}){hint} {CORRECT_IT}"
