# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS, Domain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.look import look_all
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.release import system_facts
from ansible_collections.mlcluster.aws.plugins.plugin_utils._here import is_here
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.hardware import (
    VARIABLES,
    known_hardware,
    missing_hardware,
)
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.judgement import judge
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.options import (
    checksum,
    role_options,
    system_problems,
)
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import Variables
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import journal

MODULE = "mlcluster.aws.node_plan"
# The fact with the answers of this run: {role: {"sum": ..., "answer": ...}}. An answer is JSON text: Ansible walks
# through all facts for every task.
KEPT = "mlcluster_plan"
RETURNED = ("plan", "results", "lines", "problems", "shown", "details")
# Tags that all roles have, and those of Ansible that take all tasks in.
COMMON = {"all", "tagged", "build", "boot"}
# The tags of a role that leave its verification out.
CHANGING = ("{}_install", "{}_configure", "build")

display = Display()


def run_id() -> str:
    """What tells one run of Ansible from another: the directory that it makes for itself alone."""
    return str(constants.DEFAULT_LOCAL_TMP)


def verifies(role: str, tags: Sequence[str]) -> bool:
    """Whether the tags of this run ask for the verification of a role."""
    return bool(set(tags) - {tag.format(role) for tag in CHANGING})


def is_asked(role: str, tags: Sequence[str], skipped: Sequence[str]) -> bool:
    """Whether the tags of this run leave any task of a role."""
    own = [tag for tag in tags if tag in COMMON or tag == role or tag.startswith(f"{role}_")]
    return bool(own) and role not in skipped


def told_options(domain: Domain, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that nobody may read."""
    return {name: value for name, value in options.items() if not domain.spec[name].get("no_log")}


class ActionModule(ActionBase):
    """Makes the options of roles from their variables, asks the node where that is not yet done, and judges."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "role": {"type": "str"},
                "roles": {"type": "list", "elements": "str"},
                "groups": {"type": "list", "elements": "str"},
                "again": {"type": "bool", "default": False},
                "verify": {"type": "bool", "default": False},
                "validate": {"type": "bool", "default": False},
                "required": {"type": "bool"},
                "trouble": {"type": "list", "elements": "str", "default": []},
            },
            required_one_of=[["role", "roles", "groups"]],
            mutually_exclusive=[["role", "roles", "groups"]],
        )
        self._vars = task_vars
        self._name = str(task_vars["inventory_hostname"])
        if given["role"] is None:
            return {**result, **self._look_first(given)}
        if given["role"] not in DOMAINS:
            raise AnsibleActionFail(f"there is no role {given['role']} that plans: there are {', '.join(DOMAINS)}")
        return {**result, **self._for_role(DOMAINS[given["role"]], given)}

    def _look_first(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The looks of all roles whose options are sound; the others say what is wrong when it is their turn."""
        tags, skipped = self._tags(), self._vars.get("ansible_skip_tags") or []
        groups = set(given["groups"] or ())
        roles = [role for role, domain in DOMAINS.items() if groups & set(domain.groups)]
        # A role that does not look so may change what the roles behind it see.
        roles += itertools.takewhile(DOMAINS.__contains__, given["roles"] or ())
        asked = {}
        for role in roles:
            if not is_asked(role, tags, skipped):
                continue
            options, problems = role_options(DOMAINS[role], self._variables(role))
            if not problems:
                asked[role] = options
        facts = self._facts(self._ask(asked), asked) if asked else {}
        check = bool(self._task.check_mode)
        self._note(
            *({"role": role, "begun": False, "check": check, "verified": verifies(role, tags)} for role in asked)
        )
        told = {role: told_options(DOMAINS[role], options) for role, options in asked.items()}
        return {"changed": False, "asked": bool(asked), "options": told, "ansible_facts": facts}

    def _for_role(self, domain: Domain, given: Mapping[str, Any]) -> dict[str, Any]:
        role, variables = domain.role, self._variables(domain.role)
        problems = system_problems(self._name, self._node_facts())
        options: dict[str, Any] = {}
        if not problems:
            options, problems = role_options(domain, variables)
        if problems:
            self._note({"role": domain.role, "final": True, "problems": problems, "failure": problems[0]})
            raise AnsibleActionFail("; ".join(problems))
        if given["validate"]:
            return {"changed": False, "asked": False}
        kept = self._kept().get(role) or {}
        answer = None if given["again"] else self._answer_of(kept, role, options)
        facts: dict[str, Any] = {}
        asked = answer is None
        if answer is None:
            facts = self._facts(self._ask({role: options}), {role: options})
            answer = json.loads(facts[KEPT][role]["answer"])
            kept = facts[KEPT][role]
        answer = self._with_inventory(role, answer, options)
        if given["again"] or not (answer["plan"]["empty"] or self._task.check_mode):
            # Once a role acts, whether it comes to its end or not, the answers of others are those of another node.
            facts[KEPT] = {role: kept}
        required = given["required"]
        if required is None:
            name = f"{role}_required"
            required = boolean(variables[name], strict=False) if name in variables else True
        outcome = {
            **{name: answer[name] for name in RETURNED},
            "changed": False,
            "asked": asked,
            "options": {role: told_options(domain, options)},
            "ansible_facts": {**answer["facts"], **facts},
        }
        empty, check = answer["plan"]["empty"], bool(self._task.check_mode)
        note = {"role": role, "differs": not empty, "required": required, "check": check}
        if empty and not given["verify"] and not verifies(role, self._tags()):
            self._note({**note, "verified": False})
            return outcome
        judgement = judge(answer, required, empty or given["verify"], check, given["trouble"])
        self._note(
            {
                **note,
                "final": (empty or given["verify"]) and not (check and not empty),
                "concerned": answer["plan"]["concerned"],
                "reason": self._reason(answer["plan"], check),
                "problems": judgement.problems,
                "results": answer["results"],
                "failure": judgement.failure,
                "verified": verifies(role, self._tags()),
            }
        )
        lines = [f"{self._name}: {line}" for line in judgement.lines]
        for line in lines:
            display.display(line)
        # For those who read the result and not the terminal.
        outcome["msg"] = "\n".join(lines)
        if judgement.failure is not None:
            # What a task that fails returns is printed whole.
            failure = {"failed": True, "msg": f"{self._name}: {judgement.failure}", "asked": asked, "changed": False}
            return {**failure, "problems": answer["problems"]}
        return outcome

    def _with_inventory(self, role: str, answer: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, with a failure for what the inventory says of the hardware and the node does not show."""
        known = {}
        for name in VARIABLES:
            # What is wrong with a variable of the site's own is not for a role to say.
            with contextlib.suppress(AnsibleError):
                known[name] = self._templar.template(self._vars.get(name))
        found = missing_hardware(role, answer, options, known_hardware(known))
        if not found:
            return answer
        told = [entry.line() for entry in found]
        return {
            **answer,
            "results": [*answer["results"], *(entry.to_dict() for entry in found)],
            "lines": [*answer["lines"], *told],
            "problems": [*answer["problems"], *told],
        }

    @staticmethod
    def _reason(plan: Mapping[str, Any], check: bool) -> str:
        if not plan["concerned"]:
            return str(plan["reason"])
        return f"would change {', '.join(plan['differences'])}" if check and plan["differences"] else ""

    def _note(self, *entries: Mapping[str, Any]) -> None:
        """Keep what was found for the verdict at the end of the run."""
        journal.add((journal.Entry(host=self._name, **entry) for entry in entries), journal.path())

    def _tags(self) -> Sequence[str]:
        return self._vars.get("ansible_run_tags") or ["all"]

    def _variables(self, role: str) -> Variables:
        def template(value: Any, variables: Mapping[str, Any]) -> Any:
            # A default of the role may name another one.
            return self._templar.copy_with_new_env(available_variables=variables).template(value)

        return Variables(role, self._vars, template)

    def _node_facts(self) -> Mapping[str, Any]:
        facts: Any = self._vars.get("ansible_facts") or {}
        # A play may have an expression under this name.
        return self._templar.template(facts) if isinstance(facts, str) else facts

    def _kept(self) -> Mapping[str, Any]:
        return self._node_facts().get(KEPT) or {}

    def _answer_of(self, kept: Mapping[str, Any], role: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        wanted = checksum(role, options, run_id(), bool(self._task.check_mode))
        return dict(json.loads(kept["answer"])) if kept.get("sum") == wanted else None

    def _ask(self, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The answer of the module on the node. Raises AnsibleActionFail."""
        if is_here(self._connection, self._task, self._vars):
            return {
                "roles": look_all(Host(), asked, read_only=bool(self._task.check_mode)),
                "system": system_facts(Host()),
                "python": list(sys.version_info[:2]),
            }
        answer: dict[str, Any] = self._execute_module(
            module_name=MODULE, module_args={"roles": asked}, task_vars=self._vars
        )
        if answer.get("failed") or "roles" not in answer:
            words = answer.get("msg") or answer.get("module_stderr") or "no words"
            raise AnsibleActionFail(f"{self._name}: the look at the node failed: {words}", result=answer)
        version = dict(zip(("major", "minor"), answer["python"]))
        problems = system_problems(self._name, {**answer["system"], "python": {"version": version}})
        if problems:
            raise AnsibleActionFail("; ".join(problems))
        return answer

    def _facts(self, answer: Mapping[str, Any], asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The facts to set: the answers by role, what roles say about the node, and of the system what is missing."""
        check = bool(self._task.check_mode)
        fresh = {
            role: {"sum": checksum(role, asked[role], run_id(), check), "answer": json.dumps(answer["roles"][role])}
            for role in asked
        }
        known = self._node_facts()
        system = {name: value for name, value in answer["system"].items() if name not in known}
        said = {name: value for role in asked for name, value in answer["roles"][role]["facts"].items()}
        return {**system, **said, KEPT: {**self._kept(), **fresh}}
