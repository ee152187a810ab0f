# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.release import __version__ as core_version
from ansible.utils.display import Display
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS, Domain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import replace_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result as verdict
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.options import role_options
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import Variables
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import iam, names, preflight

PROBES = ("ssh", "sudo", "python")
# Roles whose nodes download an artifact: its name, the condition, the variables of version and checksum, and the one
# that keeps an older one.
DOWNLOADS = {
    "efa_nccl": (
        "aws-efa-installer",
        "efa_nccl_installer_enabled",
        "efa_nccl_installer_version",
        "efa_nccl_installer_sha256",
        "efa_nccl_existing",
    ),
}

display = Display()


class ActionModule(ActionBase):
    """Judge the results of controller and nodes on the controller, and report them."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        answer: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "hosts": {"type": "list", "elements": "str", "required": True},
                "groups": {"type": "list", "elements": "str", "required": True},
                "own_variables": {"type": "list", "elements": "str", "default": []},
                "playbooks": {"type": "list", "elements": "str", "default": []},
                "region": {"type": "str"},
                "report": {"type": "path"},
            }
        )
        unknown = sorted(set(given["playbooks"]) - set(iam.playbooks()))
        if unknown:
            raise AnsibleActionFail(
                f"preflight_playbooks has {', '.join(unknown)}: those that ask AWS are {', '.join(iam.playbooks())}"
            )
        self._hostvars, self._groups = task_vars["hostvars"], task_vars["groups"]
        hosts = [host for host in given["hosts"] if host in self._groups["all"]]
        raw = {host: self._hostvars.raw_get(host) for host in hosts}
        results = self._controller(given["playbooks"])
        types = {host: preflight.table_type(raw[host]) for host in hosts}
        results += preflight.inventory(hosts, given["groups"], self._groups, types, given["playbooks"])
        results += preflight.spelling(
            names.misnamed_groups(given["groups"], self._groups),
            names.unknown_variables(
                {host: list(raw[host]) for host in hosts}, names.known_variables(), given["own_variables"]
            ),
        )
        results += self._variables(raw)
        results += self._artifacts(raw)
        results += self._aws(given["playbooks"], given["region"])
        results += preflight.nodes({host: self._probes(raw[host]) for host in hosts})
        return self._report(answer, results, given)

    def _report(
        self, answer: dict[str, Any], results: Sequence[verdict.Result], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        for entry in results:
            display.display(entry.line())
        report = verdict.Report(
            host=socket.gethostname() or "controller",
            time=Host().now(),
            versions={"ansible-core": core_version},
            results=tuple(results),
        )
        if given["report"] and not self._task.check_mode:
            try:
                replace_file(Path(given["report"]), (json.dumps(report.to_dict(), indent=1) + "\n").encode(), 0o600)
            except OSError as exc:
                raise AnsibleActionFail(f"the report cannot be written to {given['report']}: {exc.strerror}") from exc
        bad = [entry for entry in results if entry.status in (verdict.FAIL, verdict.UNDETERMINABLE)]
        answer.update(
            changed=False,
            results=[entry.to_dict() for entry in results],
            lines=[entry.line() for entry in results],
            problems=[entry.line() for entry in bad],
            status=verdict.overall(results),
            exit_code=verdict.exit_code(results),
        )
        return answer

    def _controller(self, playbooks: Sequence[str]) -> list[verdict.Result]:
        wanted = yaml.safe_load((names.COLLECTION / "meta" / "runtime.yml").read_text(encoding="utf-8"))
        oldest = str(wanted["requires_ansible"]).removeprefix(">=")
        # The inventory of EC2 and all playbooks that use AWS need these.
        libraries = ["boto3", "botocore", "jmespath"] if playbooks or self._from_ec2() else []
        found = {name: importlib.util.find_spec(name) is not None for name in libraries}
        return preflight.controller(core_version, oldest, _collections(), found)

    def _from_ec2(self) -> bool:
        return any("ec2_instance_id" in self._hostvars.raw_get(host) for host in self._groups["all"])

    def _variables(self, raw: Mapping[str, Mapping[str, Any]]) -> list[verdict.Result]:
        """Check the options of every role that a host has, each set of variables once."""
        problems: dict[str, list[str]] = {}
        judged: dict[tuple[str, str], list[str]] = {}
        roles = set()
        for host, given in raw.items():
            for domain in DOMAINS.values():
                role = domain.role
                if not _takes(domain, given):
                    continue
                roles.add(role)
                own = {name: given[name] for name in sorted(given) if name.startswith(f"{role}_")}
                key = (domain.key, repr(own))
                # A template may have another value for each host.
                if key not in judged or "{{" in key[1]:
                    judged[key] = role_options(domain, self._of_role(role, given))[1]
                for text in judged[key]:
                    problems.setdefault(text, []).append(host)
        return preflight.variables(problems, sorted(roles))

    def _of_role(self, role: str, given: Mapping[str, Any]) -> Variables:
        def template(value: Any, variables: Mapping[str, Any]) -> Any:
            return self._templar.copy_with_new_env(available_variables=variables).template(value)

        return Variables(role, given, template)

    def _artifacts(self, raw: Mapping[str, Mapping[str, Any]]) -> list[verdict.Result]:
        """Check the checksum of each download that any node would make, each set of variables once."""
        wanted: dict[str, set[bool | None]] = {}
        locks = _artifacts.read_lock(_artifacts.collection_lock())
        for role, (name, switch, version, checksum, existing) in DOWNLOADS.items():
            seen = set()
            for given in raw.values():
                if not _has_role(role, given):
                    continue
                variables = self._of_role(role, given)
                lock = variables.get(f"{role}_lock_file")
                fetches = preflight.fetches_efa(
                    given.get("preflight_efa"), str(variables.get(version)), variables.get(existing) == "keep"
                )
                key = (variables.get(switch), variables.get(version), variables.get(checksum), lock, fetches)
                if key in seen or not key[0] or fetches is False:
                    continue
                seen.add(key)
                every = (_artifacts.read_lock(lock) if lock else []) + locks
                known = key[2] or _artifacts.find(name, version=key[1], locks=every)["sha256"]
                wanted.setdefault(f"{name} {key[1]}", set()).add(True if known else None if fetches is None else False)
        return preflight.artifacts(wanted)

    def _aws(self, playbooks: Sequence[str], region: str | None) -> list[verdict.Result]:
        if not playbooks:
            why = "no playbook that asks AWS was named in preflight_playbooks"
            return [verdict.not_applicable("preflight.credentials", why), *preflight.rights({}, {})]
        try:
            import botocore.session
        except ImportError:
            return [
                verdict.undeterminable("preflight.credentials", "no_botocore", hint="install boto3"),
                *preflight.rights({}, {}, "botocore is not installed", "install boto3"),
            ]
        session = botocore.session.Session()
        try:
            caller = iam.identity(session, region)
        except iam.UnreachableError as exc:
            return [
                verdict.undeterminable("preflight.credentials", str(exc)),
                *preflight.rights({}, {}, "AWS did not answer", "make AWS answer first"),
            ]
        except iam.RightsError as exc:
            return [
                verdict.failed("preflight.credentials", str(exc)),
                *preflight.rights({}, {}, "without credentials AWS cannot be queried", "log in first"),
            ]
        who = [
            verdict.passed("preflight.credentials", caller["Arn"], message=f"AWS knows the caller as {caller['Arn']}")
        ]
        policies = {playbook: iam.policy(playbook) for playbook in playbooks}
        if caller["Arn"].endswith(":root"):
            everything = {playbook: dict.fromkeys(every, "allowed") for playbook, (every, _free) in policies.items()}
            return who + preflight.rights(everything, {})
        try:
            decisions = {
                playbook: iam.simulate(session, caller["Arn"], every) for playbook, (every, _free) in policies.items()
            }
        except iam.RightsError as exc:
            return who + preflight.rights({}, {}, str(exc))
        return who + preflight.rights(decisions, {playbook: free for playbook, (_every, free) in policies.items()})

    def _probes(self, given: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        found = {step: given.get(f"preflight_{step}") for step in PROBES}
        # Skipped tasks count as not started.
        return {step: task for step, task in found.items() if isinstance(task, Mapping) and not task.get("skipped")}


def _has_role(role: str, given: Mapping[str, Any]) -> bool:
    """Return whether site.yml applies a role to a host with these variables."""
    return any(_takes(domain, given) for domain in DOMAINS.values() if domain.role == role)


def _takes(domain: Domain, given: Mapping[str, Any]) -> bool:
    """Return whether site.yml applies a role, or a part of one, to a host with these variables."""
    return bool(set(domain.groups) & set(given.get("group_names") or ()))


def _collections() -> dict[str, tuple[str | None, str]]:
    """Return the required collections with the installed and the oldest supported version."""
    from ansible.utils.collection_loader._collection_finder import _get_collection_metadata

    manifest = names.COLLECTION / "MANIFEST.json"
    if manifest.is_file():
        wanted = json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["dependencies"]
    else:
        wanted = yaml.safe_load((names.COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["dependencies"]
    found = {}
    for name, spec in wanted.items():
        try:
            _get_collection_metadata(name)
            spot = importlib.util.find_spec(f"ansible_collections.{name}")
            version = _version(Path(next(iter(spot.submodule_search_locations or ())))) if spot else None
        except (ValueError, ImportError, StopIteration):
            version = None
        found[name] = (version, str(spec).removeprefix(">="))
    return found


def _version(folder: Path) -> str | None:
    """Return the version of an installed collection from its manifest."""
    try:
        return str(json.loads((folder / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]["version"])
    except (OSError, ValueError, KeyError):
        return None
