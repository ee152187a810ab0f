# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry of roles that decide on the node: how each looks, plans and judges."""

from __future__ import annotations

import dataclasses
import typing as t

from ..containers import config as containers_config
from ..containers import plan as containers_plan
from ..containers import role as containers_role
from ..efa import config as efa_config
from ..efa import plan as efa_plan
from ..efa import role as efa_role
from ..gds import config as gds_config
from ..gds import plan as gds_plan
from ..gds import role as gds_role
from ..jobs import config as jobs_config
from ..jobs import node_role as jobs_node_role
from ..jobs import plan as jobs_plan
from ..jobs import role as jobs_role
from ..lustre import config as lustre_config
from ..lustre import plan as lustre_plan
from ..lustre import role as lustre_role
from ..storage import role as storage_role
from ..storage import role_config as storage_config
from ..storage import role_plan as storage_plan
from ..system.host import Host
from ..system.plan import Plan, Report
from ..verdict.result import Result

Raw = t.Mapping[str, t.Any]


def _report_nothing(facts: t.Any, config: t.Any) -> Report:
    return Report()


@dataclasses.dataclass(frozen=True)
class Domain:
    """One role, or one of the parts that a role has for nodes of different sorts.

    part
        The name of a part of a role; all parts share its variables and its tags.
    spec
        Its options without the role's name in front, as an argument spec with defaults. no_log: not kept on the node.
    problems, parse
        The option errors as sentences; the config of the other functions from options without errors.
    look, seconds
        The facts of the node, input of the pure functions below; the time limit of the look, in seconds.
    plan, verify, report
        The actions; the verdicts; the report for users and other roles.
    groups
        Groups of the inventory whose nodes have the role in site.yml.
    read_only
        Options that replace others in a look that must be fast and read-only: check mode, ``mlcluster plan``.
    transient
        Options of a single look that are not part of the configuration: they are not kept on the node.
    """

    role: str
    groups: tuple[str, ...]
    spec: t.Mapping[str, t.Mapping[str, t.Any]]
    problems: t.Callable[[Raw], list[str]]
    parse: t.Callable[[Raw], t.Any]
    look: t.Callable[[Host, t.Any], t.Any]
    seconds: t.Callable[[t.Any], float]
    plan: t.Callable[[t.Any, t.Any], Plan]
    verify: t.Callable[[t.Any, t.Any], t.Sequence[Result]]
    report: t.Callable[[t.Any, t.Any], Report] = _report_nothing
    read_only: Raw = dataclasses.field(default_factory=dict)
    transient: t.AbstractSet[str] = frozenset()
    part: str = ""

    @property
    def key(self) -> str:
        """The name in the registry."""
        return f"{self.role}_{self.part}" if self.part else self.role


# In the order in which site.yml applies them.
DOMAINS: t.Mapping[str, Domain] = {
    domain.key: domain
    for domain in (
        Domain(
            role=storage_config.ROLE,
            groups=("instance_store",),
            spec=storage_config.ROLE_SPEC,
            problems=storage_config.problems,
            parse=storage_config.parse_config,
            look=storage_role.look,
            seconds=storage_role.seconds,
            plan=storage_plan.make_plan,
            verify=storage_role.verify,
            report=storage_role.report,
            read_only=storage_role.READ_ONLY,
        ),
        Domain(
            role=efa_plan.ROLE,
            groups=("efa",),
            spec=efa_config.ARGUMENT_SPEC,
            problems=efa_config.problems,
            parse=efa_config.parse_config,
            look=efa_role.look,
            seconds=efa_role.seconds,
            plan=efa_plan.make_plan,
            verify=efa_role.verify,
            report=efa_role.report,
            read_only=efa_role.READ_ONLY,
        ),
        Domain(
            role=gds_plan.ROLE,
            groups=("gpu",),
            spec=gds_config.ARGUMENT_SPEC,
            problems=gds_config.problems,
            parse=gds_config.parse_config,
            look=gds_role.look,
            seconds=gds_role.seconds,
            plan=gds_plan.make_plan,
            verify=gds_role.verify,
            report=gds_role.report,
            read_only=gds_role.READ_ONLY,
        ),
        Domain(
            role=lustre_plan.ROLE,
            groups=("compute", "login", "head"),
            spec=lustre_config.ROLE_SPEC,
            problems=lustre_config.role_problems,
            parse=lustre_config.parse_role,
            look=lustre_role.look,
            seconds=lustre_role.seconds,
            plan=lustre_plan.make_plan,
            verify=lustre_role.verify,
            report=lustre_role.report,
            read_only=lustre_role.READ_ONLY,
        ),
        Domain(
            role=containers_plan.ROLE,
            groups=("compute", "login", "head"),
            spec=containers_config.ROLE_SPEC,
            problems=containers_config.role_problems,
            parse=containers_config.parse_role,
            look=containers_role.look,
            seconds=containers_role.seconds,
            plan=containers_plan.make_plan,
            verify=containers_role.verify,
            read_only=containers_role.READ_ONLY,
            transient=containers_role.TRANSIENT,
        ),
        Domain(
            role=jobs_plan.ROLE,
            groups=("head",),
            spec=jobs_config.ARGUMENT_SPEC,
            problems=jobs_config.jobs_problems,
            parse=jobs_config.parse_jobs,
            look=jobs_role.look,
            seconds=jobs_role.seconds,
            plan=jobs_plan.make_plan,
            verify=jobs_role.verify,
            report=jobs_role.report,
        ),
        Domain(
            role=jobs_plan.ROLE,
            part="checks",
            # site.yml does not apply it.
            groups=(),
            spec=jobs_config.CHECKS_SPEC,
            problems=jobs_config.checks_problems,
            parse=jobs_config.parse_checks,
            look=jobs_node_role.look_checks,
            seconds=jobs_node_role.seconds,
            plan=jobs_node_role.plan_checks,
            verify=jobs_node_role.verify,
        ),
        Domain(
            role=jobs_plan.ROLE,
            part="tools",
            groups=("compute",),
            spec=jobs_config.TOOLS_SPEC,
            problems=jobs_config.tools_problems,
            parse=jobs_config.parse_tools,
            look=jobs_node_role.look_tools,
            seconds=jobs_node_role.seconds,
            plan=jobs_node_role.plan_tools,
            verify=jobs_node_role.verify,
        ),
    )
}
