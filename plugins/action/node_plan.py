# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
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
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime
from ansible_collections.mlcluster.aws.plugins.plugin_utils._here import is_here
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.hardware import (
    KIND,
    VARIABLES,
    missing,
)
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.judgement import judge
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.module_error import module_error
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.options import (
    checksum,
    is_wanted,
    role_options,
    system_problems,
)
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import Variables
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import journal

MODULE = "mlcluster.aws.node_plan"
# Prefix of the facts with the answers of this run, followed by the key of a role: {"sum": ..., "answer": ...}, empty
# once it was used. An answer is JSON text, because Ansible walks through all facts for every task.
FACT_PREFIX = "mlcluster_plan_"
RETURNED = ("plan", "results", "lines", "problems", "info", "details")
# Tags of all roles, and Ansible's tags for all tasks.
COMMON = {"all", "tagged", "build", "boot"}
# The tags of a role without its verification.
CHANGING = ("{}_install", "{}_configure", "build")

display = Display()


def run_id() -> str:
    """Return an identifier of this run of Ansible: its own temporary directory."""
    return str(constants.DEFAULT_LOCAL_TMP)


def verifies(role: str, tags: Sequence[str]) -> bool:
    """Return whether the tags of this run include the verification of a role."""
    return bool(set(tags) - {tag.format(role) for tag in CHANGING})


def is_selected(role: str, tags: Sequence[str], skipped: Sequence[str]) -> bool:
    """Return whether the tags of this run include any task of a role."""
    own = [tag for tag in tags if tag in COMMON or tag == role or tag.startswith(f"{role}_")]
    return bool(own) and role not in skipped


def reported_options(domain: Domain, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without secret ones."""
    return {name: value for name, value in options.items() if not domain.spec[name].get("no_log")}


def _archive() -> str:
    """Return the code of the looks for the module. Raises AnsibleActionFail."""
    try:
        return _runtime.run_archive(run_id())
    except _runtime.RuntimeBuildError as exc:
        raise AnsibleActionFail(str(exc)) from exc


class ActionModule(ActionBase):
    """Build the options of roles from their variables, look at the node unless that is done, and judge."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "role": {"type": "str"},
                "roles": {"type": "list", "elements": "str"},
                "groups": {"type": "list", "elements": "str"},
                "look_again": {"type": "bool", "default": False},
                "verify": {"type": "bool", "default": False},
                "validate": {"type": "bool", "default": False},
                "removal": {"type": "str"},
                "required": {"type": "bool"},
                "report_idle": {"type": "bool", "default": False},
                "earlier_problems": {"type": "list", "elements": "str", "default": []},
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
        if given["removal"] is not None:
            return {**result, **self._before_removal(DOMAINS[given["role"]].role, given["removal"])}
        return {**result, **self._for_role(DOMAINS[given["role"]], given)}

    def _look_first(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Look at the node for all roles with valid options; the others report their problems when they run."""
        tags, skipped = self._tags(), self._vars.get("ansible_skip_tags") or []
        groups = set(given["groups"] or ())
        keys = [key for key, domain in DOMAINS.items() if groups & set(domain.groups)]
        # A role without a plan may change what later roles see.
        keys += itertools.takewhile(DOMAINS.__contains__, given["roles"] or ())
        # A play of site.yml may leave out a part of a role; its answer is not used then.
        keys = [key for key in keys if is_wanted(DOMAINS[key], self._vars, self._variables(DOMAINS[key].role))]
        to_query = {}
        for key in keys:
            domain = DOMAINS[key]
            if not is_selected(domain.role, tags, skipped):
                continue
            options, problems = role_options(domain, self._variables(domain.role))
            if not problems:
                to_query[key] = options
        looked = self._query_node(to_query) if to_query else {}
        facts = self._facts(looked, to_query) if to_query else {}
        check = bool(self._task.check_mode)
        self._record_results(
            *(
                {"role": key, "begun": False, "check": check, "verified": verifies(DOMAINS[key].role, tags)}
                for key in to_query
            )
        )
        reported = {key: reported_options(DOMAINS[key], options) for key, options in to_query.items()}
        result = {
            "changed": False,
            "queried": bool(to_query),
            "wanted": keys,
            "options": reported,
            "ansible_facts": facts,
        }
        if not given["report_idle"]:
            return result
        idle = self._report_idle(to_query, looked)
        # A reported answer was used.
        facts.update({FACT_PREFIX + key: {} for key in idle})
        return {**result, "idle": list(idle), "msg": "\n".join(itertools.chain(*idle.values()))}

    def _report_idle(
        self, options_by_role: Mapping[str, Mapping[str, Any]], looked: Mapping[str, Any]
    ) -> dict[str, list[str]]:
        """Report the roles with nothing to do; return the printed lines of each."""
        found: dict[str, list[str]] = {}
        if not options_by_role or system_problems(self._name, looked["system"]):
            return found
        check = bool(self._task.check_mode)
        for key, options in options_by_role.items():
            answer = self._with_inventory(DOMAINS[key].role, looked["roles"][key], options)
            if not answer["plan"]["empty"]:
                if check:
                    continue
                # This role changes the node; the roles after it look again.
                break
            # A role with a problem reports it itself, since it may fail.
            if not judge(answer, required=True, is_final=True, is_check=check).problems:
                found[key], _failure = self._report(DOMAINS[key], answer, prefix=f"{self._name}: {key}")
        return found

    def _report(
        self,
        domain: Domain,
        answer: Mapping[str, Any],
        prefix: str,
        required: bool = True,
        verify: bool = False,
        earlier_problems: Sequence[str] = (),
    ) -> tuple[list[str], str | None]:
        """Judge the answer of a role and keep the result for the verdict; return the printed lines and the failure."""
        empty, check, is_verified = answer["plan"]["empty"], bool(self._task.check_mode), self._verifies(domain)
        recorded = {"role": domain.key, "differs": not empty, "required": required, "check": check}
        if empty and not verify and not is_verified:
            self._record_results({**recorded, "verified": False})
            return [], None
        judgement = judge(answer, required, empty or verify, check, earlier_problems)
        self._record_results(
            {
                **recorded,
                "final": (empty or verify) and not (check and not empty),
                "concerned": answer["plan"]["concerned"],
                "reason": self._reason(answer["plan"], check),
                "problems": judgement.problems,
                "results": answer["results"],
                "failure": judgement.failure,
                "verified": is_verified,
            }
        )
        lines = [f"{prefix}: {line}" for line in judgement.lines]
        for line in lines:
            display.display(line)
        return lines, judgement.failure

    def _verifies(self, domain: Domain) -> bool:
        return verifies(domain.role, self._tags())

    def _before_removal(self, role: str, what: str) -> dict[str, Any]:
        """Reject a removal without consent; the removal changes the node, so drop all answers."""
        consent = f"{role}_remove_confirmed"
        if not boolean(self._variables(role).get(consent, False), strict=False):
            raise AnsibleActionFail(
                f"nothing was done, since {consent} is not true: set it to confirm. This run {what}"
            )
        return {"changed": False, "queried": False, "ansible_facts": self._cleared_facts()}

    def _for_role(self, domain: Domain, given: Mapping[str, Any]) -> dict[str, Any]:
        role, variables, key = domain.role, self._variables(domain.role), domain.key
        problems = system_problems(self._name, self._node_facts())
        options: dict[str, Any] = {}
        if not problems:
            options, problems = role_options(domain, variables)
        if problems:
            self._record_results({"role": key, "final": True, "problems": problems, "failure": problems[0]})
            raise AnsibleActionFail("; ".join(problems))
        if given["validate"]:
            return {"changed": False, "queried": False}
        answer = None if given["look_again"] else self._stored_answer(key, options)
        facts: dict[str, Any] = {}
        queried = answer is None
        if answer is None:
            facts = self._facts(self._query_node({key: options}), {key: options})
            answer = json.loads(facts[FACT_PREFIX + key]["answer"])
        # Used once: tasks between this one and the next for the role may change the node.
        facts[FACT_PREFIX + key] = {}
        answer = self._with_inventory(role, answer, options)
        if given["look_again"] or not (answer["plan"]["empty"] or self._task.check_mode):
            # Once a role acts, even if it fails, the answers of other roles are out of date.
            facts.update(self._cleared_facts())
        required = given["required"]
        if required is None:
            name = f"{role}_required"
            required = boolean(variables[name], strict=False) if name in variables else True
        outcome = {
            **{name: answer[name] for name in RETURNED},
            "changed": False,
            "queried": queried,
            "options": {key: reported_options(domain, options)},
            "ansible_facts": {**answer["facts"], **facts},
        }
        lines, failure = self._report(domain, answer, self._name, required, given["verify"], given["earlier_problems"])
        if failure is not None:
            # Ansible prints the whole result of a failed task.
            self._mark_failed(key)
            short = {"failed": True, "msg": f"{self._name}: {failure}", "queried": queried, "changed": False}
            return {**short, "problems": answer["problems"]}
        # For readers of the result instead of the terminal.
        outcome["msg"] = "\n".join(lines)
        return outcome

    def _with_inventory(self, role: str, answer: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer, with a failure for all that the node must have and the role did not find."""
        known = {name: self._vars.get(name) for name in ("group_names", "groups")}
        for name in (*VARIABLES, KIND):
            # A role does not report errors in the site's own variables.
            with contextlib.suppress(AnsibleError):
                known[name] = self._templar.template(self._vars.get(name))
        found = missing(role, answer, options, known)
        if not found:
            return answer
        sentences = [entry.line() for entry in found]
        return {
            **answer,
            "results": [*answer["results"], *(entry.to_dict() for entry in found)],
            "lines": [*answer["lines"], *sentences],
            "problems": [*answer["problems"], *sentences],
        }

    @staticmethod
    def _reason(plan: Mapping[str, Any], check: bool) -> str:
        if not plan["concerned"]:
            return str(plan["reason"])
        return f"would change {', '.join(plan['differences'])}" if check and plan["differences"] else ""

    def _record_results(self, *entries: Mapping[str, Any]) -> None:
        """Keep the results for the verdict at the end of the run."""
        journal.add((journal.Entry(host=self._name, **entry) for entry in entries), journal.path())

    def _tags(self) -> Sequence[str]:
        return self._vars.get("ansible_run_tags") or ["all"]

    def _variables(self, role: str) -> Variables:
        def template(value: Any, variables: Mapping[str, Any]) -> Any:
            # A default of the role may refer to another variable.
            return self._templar.copy_with_new_env(available_variables=variables).template(value)

        return Variables(role, self._vars, template)

    def _node_facts(self) -> Mapping[str, Any]:
        facts: Any = self._vars.get("ansible_facts") or {}
        # The value may be a template of the play.
        return self._templar.template(facts) if isinstance(facts, str) else facts

    def _cleared_facts(self) -> dict[str, Any]:
        """Return the facts that drop all answers of this run."""
        known = self._node_facts()
        return {FACT_PREFIX + key: {} for key in DOMAINS if known.get(FACT_PREFIX + key)}

    def _failure_mark(self, key: str) -> Path:
        """Return the path of a file of this run that marks a failure: Ansible drops the facts of a failed task."""
        digest = hashlib.sha256(f"{self._name}\0{key}".encode()).hexdigest()
        return Path(run_id()) / f"mlcluster-plan-{digest}.failed"

    def _mark_failed(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self._failure_mark(key).touch(mode=0o600)

    def _stored_answer(self, key: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        if self._failure_mark(key).exists():
            # Look again after a failure, since it may be repaired.
            return None
        kept = self._node_facts().get(FACT_PREFIX + key) or {}
        return dict(json.loads(kept["answer"])) if kept.get("sum") == self._answer_key(key, options) else None

    def _answer_key(self, key: str, options: Mapping[str, Any]) -> str:
        """Return the key of this node's answer: with run_once, Ansible sets its facts on every host."""
        return checksum(key, options, f"{run_id()} {self._name}", bool(self._task.check_mode))

    def _query_node(self, options_by_role: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the module's answer from the node. Raises AnsibleActionFail."""
        if is_here(self._connection, self._task, self._vars):
            return {
                "roles": look_all(Host(), options_by_role, read_only=bool(self._task.check_mode)),
                "system": system_facts(Host()),
                "python": list(sys.version_info[:2]),
            }
        answer: dict[str, Any] = self._execute_module(
            module_name=MODULE, module_args={"roles": options_by_role, "runtime": _archive()}, task_vars=self._vars
        )
        if answer.get("failed") or "roles" not in answer:
            raise AnsibleActionFail(f"{self._name}: the look at the node failed: {module_error(answer)}", result=answer)
        version = dict(zip(("major", "minor"), answer["python"]))
        problems = system_problems(self._name, {**answer["system"], "python": {"version": version}})
        if problems:
            raise AnsibleActionFail("; ".join(problems))
        return answer

    def _facts(self, answer: Mapping[str, Any], options_by_role: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the facts to set: answers by role, facts of roles about the node, and missing system facts."""
        fresh = {
            FACT_PREFIX + key: {
                "sum": self._answer_key(key, options_by_role[key]),
                "answer": json.dumps(answer["roles"][key]),
            }
            for key in options_by_role
        }
        known = self._node_facts()
        system = {name: value for name, value in answer["system"].items() if name not in known}
        stated = {name: value for key in options_by_role for name, value in answer["roles"][key]["facts"].items()}
        return {**system, **stated, **fresh}
