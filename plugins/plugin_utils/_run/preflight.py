# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks before a run: controller, inventory, variables, artifacts, and connections to nodes. Pure.

Each function returns verdicts (``mlcluster.result/1``) with what was tried, what was found and what to do next.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.parse import parse_marker
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.versions import at_least, version_key
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import (
    Result,
    Scope,
    failed,
    first_of,
    not_applicable,
    passed,
    undeterminable,
)

# Maximum number of host names in a message.
MAX_HOSTS = 5
OLDEST_PYTHON = (3, 9)
_PYTHON = re.compile(r"Python (\d+)\.(\d+)")
# The path that the play prints before it starts the program there.
_STARTED = re.compile(r"^/\S+", re.MULTILINE)


def hosts_text(hosts: Sequence[str]) -> str:
    """Return host names, only the first ones of many."""
    return first_of(hosts, MAX_HOSTS)


def nodes_text(count: int) -> str:
    """Format a number of nodes: 1 node, 2 nodes."""
    return "1 node" if count == 1 else f"{count} nodes"


def controller(
    core: str, oldest_core: str, collections: Mapping[str, tuple[str | None, str]], libraries: Mapping[str, bool]
) -> list[Result]:
    """Check ansible-core, collections (name to version found, or None, and oldest supported) and Python libraries."""
    found = []
    if version_key(core) < version_key(oldest_core):
        text = f"ansible-core {core} runs here and {oldest_core} is the oldest supported version"
        found.append(failed("preflight.controller", text, hint="install a newer ansible-core"))
    for name, (version, oldest) in sorted(collections.items()):
        if version is None or version_key(version) < version_key(oldest):
            what = "is not installed" if version is None else f"is {version}"
            text = f"the collection {name} {what} and {oldest} or newer is needed"
            hint = f"run ansible-galaxy collection install '{name}:>={oldest}'"
            found.append(failed("preflight.controller", text, hint=hint))
    for name in sorted(name for name, present in libraries.items() if not present):
        text = f"the Python that runs Ansible cannot import {name}"
        found.append(failed("preflight.controller", text, hint=f"install {name} beside ansible-core"))
    text = f"ansible-core {core}, {len(collections)} collections, {', '.join(sorted(libraries)) or 'no library needed'}"
    return found or [passed("preflight.controller", core, message=text)]


def table_type(given: Mapping[str, Any]) -> str | None:
    """Return the instance type of a host if its hardware has to be in the collection's table, else None.

    If EC2 itself reports neither accelerators nor EFA, as for most head nodes, no check needs the table.
    """
    hardware = given.get("ec2_accelerators")
    if isinstance(hardware, Mapping) and hardware.get("source") == "api":
        counted = [hardware.get("count"), hardware.get("efa_attached")]
        if hardware.get("kind", "") is None and counted == [0, 0]:
            return None
    name = given.get("ec2_instance_type")
    return str(name) if name else None


# Playbooks that run on the controller alone.
NEED_NO_NODE = frozenset(
    {"build_bundle", "create_cluster", "create_network", "destroy_network", "prove_on_aws", "stage_data"}
)


def inventory(
    hosts: Sequence[str],
    wanted: Sequence[str],
    groups: Mapping[str, Sequence[str]],
    types: Mapping[str, str | None],
    playbooks: Sequence[str] = (),
) -> list[Result]:
    """Check that the playbooks find hosts and that their instance types are known. ``types`` is of every host.

    Before a cluster exists, ``playbooks`` that make it need no node: their inventory has only the controller.
    """
    present = sorted(set(groups) - {"all", "ungrouped"})
    alone = bool(playbooks) and NEED_NO_NODE.issuperset(playbooks)
    if not hosts and alone and not present and list(groups.get("all", ())) == ["localhost"]:
        return [
            not_applicable(
                "preflight.inventory", f"only localhost is listed, which runs {', '.join(sorted(playbooks))}"
            )
        ]
    if not hosts:
        text = (
            f"none of the groups {', '.join(wanted)} has a host; the inventory has {', '.join(present) or 'no groups'}"
        )
        return [failed("preflight.inventory", text, hint="check it with ansible-inventory --graph")]
    unknown_types = sorted({name for name in types.values() if name and instance_types.lookup(name) is None})
    if unknown_types:
        text = f"nothing is known about the instance type {', '.join(unknown_types)}"
        hint = "the expected hardware of such a node is unknown; see 'An instance type' in CONTRIBUTING.md"
        return [undeterminable("preflight.inventory", "unknown_type", message=text, hint=hint)]
    counted = ", ".join(f"{group} {len(groups[group])}" for group in wanted if groups.get(group))
    return [passed("preflight.inventory", len(hosts), message=f"{nodes_text(len(hosts))}: {counted}")]


def spelling(groups: Sequence[str], unread: Sequence[str]) -> list[Result]:
    """Check groups and variables that nothing reads, as ``names`` finds them."""
    found = [failed("preflight.names", text, hint="rename the group") for text in groups]
    found += [failed("preflight.names", text) for text in unread]
    message = "every name with a role's prefix is a variable of that role"
    return found or [passed("preflight.names", 0, message=message)]


def variables(problems: Mapping[str, Sequence[str]], roles: Sequence[str]) -> list[Result]:
    """Check the options of roles; ``problems`` maps a sentence to the hosts that it is about."""
    if problems:
        return [failed("preflight.variables", f"{text} ({hosts_text(hosts)})") for text, hosts in problems.items()]
    if not roles:
        return [not_applicable("preflight.variables", "no host has a role whose options can be checked here")]
    return [passed("preflight.variables", list(roles), message=f"the options of {', '.join(roles)} are valid")]


def fetches_efa(task: Any, wanted: str, keeps: bool) -> bool | None:
    """Return whether a node downloads the EFA installer, by the task that read its ``efa_installed_packages``.

    ``keeps``: whether an older EFA is kept. None if the node gave no answer and may keep its own. A download for the
    repair of a damaged installation is not foreseen.
    """
    if not isinstance(task, Mapping) or task.get("skipped") or task.get("unreachable") or "rc" not in task:
        return None if keeps else True
    found = version_key(parse_marker(str(task.get("stdout") or ""))["version"])
    if task["rc"] != 0 or not found:
        return True
    return not (keeps or at_least(found, version_key(wanted)))


def artifacts(wanted: Mapping[str, Collection[bool | None]]) -> list[Result]:
    """Check the artifacts that nodes would download.

    ``wanted`` maps "NAME VERSION" to whether its sha256 is known; None if it is not and the download is not certain.
    """
    if not wanted:
        return [not_applicable("preflight.artifacts", "no node downloads an artifact with these variables")]
    hint = "run make lock-artifacts on a connected machine, or set the sha256 in the role's variable"
    unknown = sorted(name for name, states in wanted.items() if False in states)
    if unknown:
        text = f"the sha256 of {', '.join(unknown)} is unknown, so nodes reject the download"
        return [failed("preflight.artifacts", text, hint=hint)]
    unsure = sorted(name for name, states in wanted.items() if None in states)
    if unsure:
        text = (
            f"the sha256 of {', '.join(unsure)} is unknown, and a node that gave no answer downloads it unless it "
            "keeps an older one"
        )
        return [undeterminable("preflight.artifacts", "no_answer", message=text, hint=hint)]
    known = sorted(wanted)
    return [passed("preflight.artifacts", known, message=f"the sha256 of {', '.join(known)} is known")]


_SUCCESS = {"ssh": "a shell answered", "sudo": "the user becomes root", "python": "Python 3.9 or newer is there"}


def nodes(probes: Mapping[str, Mapping[str, Any]]) -> list[Result]:
    """Check the connections: ``probes`` maps each node to its tasks ``ssh``, ``sudo`` and ``python``.

    A task that was not begun is absent: the one before it has failed and reports the reason.
    """
    found: list[Result] = []
    steps = (
        ("ssh", "preflight.ssh", _ssh),
        ("sudo", "preflight.sudo", _sudo),
        ("python", "preflight.python", _python),
    )
    for step, check, problem_in in steps:
        good: list[str] = []
        bad: dict[tuple[str, str], list[str]] = {}
        for host, tasks in sorted(probes.items()):
            if step in tasks:
                problem = problem_in(tasks[step])
                if problem is None:
                    good.append(host)
                else:
                    bad.setdefault(problem, []).append(host)
        for (text, hint), hosts in sorted(bad.items(), key=lambda pair: -len(pair[1])):
            message = f"{nodes_text(len(hosts))} ({hosts_text(hosts)}): {text}"
            found.append(failed(check, message, hint=hint, scope=Scope(node=hosts[0])))
        skipped = len(probes) - len(good) - sum(map(len, bad.values()))
        if not probes:
            found.append(not_applicable(check, "there is no node"))
        elif skipped:
            text = f"{nodes_text(skipped)} not checked, since the step before failed"
            found.append(undeterminable(check, "not_asked", message=text))
        elif not bad:
            found.append(passed(check, len(good), message=f"{nodes_text(len(good))}: {_SUCCESS[step]}"))
    return found


def _task_output(task: Mapping[str, Any]) -> str:
    """Return the message of a failed task on one line."""
    parts = [str(task.get(key) or "").strip() for key in ("msg", "stderr", "module_stderr", "stdout")]
    return " ".join(" ".join(part for part in parts if part).split())[:300] or "no reason was given"


def _ssh(task: Mapping[str, Any]) -> tuple[str, str] | None:
    if not task.get("unreachable") and not task.get("failed") and task.get("rc") == 0:
        return None
    message = _task_output(task)
    return f"no shell answered ({_without_addresses(message)})", _ssh_hint(message)


def _ssh_hint(message: str) -> str:
    lower = message.lower()
    if "permission denied" in lower:
        return "check ansible_user and ansible_ssh_private_key_file: the node runs and rejects the key"
    if "host key" in lower or "identification has changed" in lower:
        return "remove the old key with ssh-keygen -R if the node was replaced, or accept the new one"
    if "could not resolve" in lower or "name or service not known" in lower:
        return "set an address in ansible_host, or connection and address in the inventory plugin's file"
    return "check that the node runs, that its security group allows port 22 from here, and the option connection"


def _without_addresses(message: str) -> str:
    """Replace addresses, so that one cause is one line for all nodes."""
    return re.sub(r"\b\d{1,3}(\.\d{1,3}){3}\b", "its address", message)


def _sudo(task: Mapping[str, Any]) -> tuple[str, str] | None:
    output = str(task.get("stdout") or "").split()
    if not task.get("failed") and task.get("rc") == 0 and output[-1:] == ["0"]:
        return None
    message = _task_output(task)
    return (
        f"the user does not become root ({_without_addresses(message)})",
        "let the user run sudo without a password, or pass --ask-become-pass",
    )


def _python(task: Mapping[str, Any]) -> tuple[str, str] | None:
    # Python before 3.4 prints its version on stderr.
    matched = _PYTHON.search(f"{task.get('stdout') or ''} {task.get('stderr') or ''}")
    started = _STARTED.search(str(task.get("stdout") or ""))
    if matched is None and started:
        return (
            f"{started.group()} does not start",
            "repair it, or name another Python in ansible_python_interpreter, such as /usr/bin/python3",
        )
    if matched is None:
        return (
            "no Python was found",
            "install Python 3.9 or newer on the node, or name one in ansible_python_interpreter",
        )
    version = (int(matched.group(1)), int(matched.group(2)))
    if version < OLDEST_PYTHON:
        return (
            f"its newest Python is {version[0]}.{version[1]} and roles need 3.9 or newer",
            "install a newer one and name it in ansible_python_interpreter",
        )
    return None


_SIMULATE = "allow iam:SimulatePrincipalPolicy to this user, or compare the user's policies with docs/iam"


def rights(
    decisions: Mapping[str, Mapping[str, str]],
    unbound: Mapping[str, Iterable[str]],
    why: str | None = None,
    hint: str = _SIMULATE,
) -> list[Result]:
    """Check IAM's decision on the actions of each playbook: allowed, conditional, implicitDeny or explicitDeny.

    ``unbound`` are the actions of a playbook that its policy allows for every resource ("*"), so that the decision is
    final; the others depend on names of the site. ``why`` is the reason if IAM gave no answer, ``hint`` what to do.
    """
    check = "preflight.rights"
    if why is not None:
        return [undeterminable(check, "not_simulated", message=why, hint=hint)]
    found = []
    for playbook, answers in sorted(decisions.items()):
        denied = sorted(
            action
            for action, decision in answers.items()
            if decision == "explicitDeny" or (decision == "implicitDeny" and action in set(unbound.get(playbook, ())))
        )
        unsure = sorted(
            action for action, decision in answers.items() if decision != "allowed" and action not in denied
        )
        hint = f"allow what docs/iam/{playbook}.json lists"
        if denied:
            text = f"{playbook}.yml is denied {', '.join(denied)}"
            found.append(failed(check, text, hint=hint))
        elif unsure:
            text = f"{playbook}.yml: whether {', '.join(unsure)} is allowed depends on names or conditions of policies"
            found.append(undeterminable(check, "by_name", message=text, hint=hint))
        elif answers:
            found.append(
                passed(check, sorted(answers), message=f"{playbook}.yml: all {len(answers)} actions are allowed")
            )
        else:
            found.append(
                undeterminable(check, "no_answer", message=f"IAM gave no answer for {playbook}.yml", hint=hint)
            )
    return found or [not_applicable(check, "no playbook that asks AWS was named in preflight_playbooks")]
