# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find misspelt tags, variables and groups. Pure, except that it reads the roles' files."""

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
# Ansible's own tags, and tags of several roles.
COMMON_TAGS = ("all", "always", "never", "tagged", "untagged", "build", "boot")
# Similarity from which a name counts as misspelt (difflib's ratio).
ALIKE = 0.75
# Maximum number of host names in a message.
MAX_HOSTS = 3


def known_tags() -> list[str]:
    """Return every tag of the collection's own playbooks."""
    parts = ("", "_install", "_configure", "_verify")
    return [*COMMON_TAGS, *(role + part for role in ROLES for part in parts)]


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


def useless_tags(given: Mapping[str, Sequence[str]], known: Collection[str]) -> list[str]:
    """Return a sentence for each option that leaves no task of a playbook without tags, whatever tags are ``known``."""
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


def known_variables() -> dict[str, frozenset[str]]:
    """Return the variables of each role, from all entry points of its argument specs. Raises OSError."""
    found = {}
    for role in ROLES:
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
            role = next((role for role in known if name.startswith(f"{role}_")), None)
            if role and name not in known[role] and not any(fnmatch.fnmatchcase(name, pattern) for pattern in own):
                where.setdefault(name, []).append(host)
    return [_variable_text(name, sorted(where[name]), known) for name in sorted(where)]


def _variable_text(name: str, hosts: Sequence[str], known: Mapping[str, Collection[str]]) -> str:
    role = next(role for role in known if name.startswith(f"{role}_"))
    hint = _suggestion(name, known[role]) or f"; ansible-doc -t role mlcluster.aws.{role} lists what it reads."
    return (
        f"no role reads the variable {name} (of {first_of(hosts, MAX_HOSTS)}){hint} Correct it, or add a name of your "
        "own to mlcluster_own_variables"
    )
