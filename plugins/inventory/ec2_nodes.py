# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: ec2_nodes
short_description: EC2 nodes of training clusters, with their groups and hardware
version_added: 0.1.0
author:
  - mlcluster.aws contributors (@mlcluster)
description:
  - Finds the running EC2 instances of one or more training clusters, and describes the role (head, compute or
    login node, cluster, queue), hardware (GPU or Neuron devices, EFA, instance store) and connection of each.
  - Groups are made without any configuration. They are C(head), C(compute), C(login), C(cluster_NAME), C(queue_NAME),
    C(compute_resource_NAME), C(type_TYPE), C(az_ID), C(gpu), C(neuron), C(efa), C(instance_store), and on request
    C(impaired), C(retiring) and C(topology_NETWORK_NODE); instances of an UltraServer are in C(ultraserver_BLOCK).
    Invalid characters of a group name become C(_).
  - A host is in C(efa) when it has an EFA interface attached, and in C(retiring) when EC2 has scheduled to stop or
    retire it.
  - A region that fails is reported and the others remain. A page that fails makes its region fail.
  - Text from the API is never evaluated as a template.
  - The file must be called C(ec2_nodes.yml), C(SOMETHING.ec2_nodes.yml), or the same with C(yaml).
extends_documentation_fragment:
  - constructed
  - inventory_cache
  - mlcluster.aws._ec2
notes:
  - A run never fails because of its cache. A damaged cache, or one in a world-writable directory, is a warning.
  - Every option may use extra vars, as in C(cluster_name={{ cluster }}) with C(-e cluster=train).
  - The permission ec2:DescribeInstances is enough. ec2:DescribeInstanceTypes gives exact hardware facts; the calls of
    O(enrich) need ec2:DescribeInstanceStatus, ec2:DescribeInstanceTopology, ec2:DescribeCapacityReservations,
    ssm:DescribeInstanceInformation and dynamodb:Scan.
options:
  plugin:
    description: Marks the file as one for this plugin.
    type: str
    required: true
    choices: [mlcluster.aws.ec2_nodes]
  regions:
    description:
      - Regions to query. If the list is empty, only O(region) is queried.
      - V(all) queries every region that is enabled for the account.
    type: list
    elements: str
    default: []
  cluster_name:
    description:
      - Only nodes of these clusters, by the cluster tag of O(tag_keys).
      - ParallelCluster sets that tag itself.
      - An empty name is an error, because it would select every instance of the region.
    type: list
    elements: str
    default: []
  filters:
    description:
      - Filters of the EC2 call DescribeInstances, names to values; a list of values matches any of them.
      - All filters have to match. More values than one call may have are split over several calls.
    type: dict
    default: {}
  states:
    description: Instances in these states. A filter C(instance-state-name) in O(filters) takes precedence.
    type: list
    elements: str
    choices: [pending, running, shutting-down, terminated, stopping, stopped]
    default: [running]
  include:
    description:
      - JMESPath expression over the variables of an instance without their prefix; only hosts for which it is true.
      - It sees the same facts as all other options, including those of O(enrich).
    type: str
  exclude:
    description: JMESPath expression like O(include); hosts for which it is true are left out.
    type: str
  strict_regions:
    description: Fail when a region fails, instead of a warning.
    type: bool
    default: false
  hostnames:
    description:
      - Preferences for the name of a host; the first that the instance has is used.
      - V(instance_id), V(private_dns), V(private_ip), V(public_dns), V(public_ip), V(ipv6_address),
        V(slurm_node_name) (needs O(enrich=slurm_names)), C(tag:KEY), or C(literal:TEXT) for the same text on all.
      - >-
        A dictionary adds a prefix, as C({name: private_ip, prefix: "tag:Project", separator: "-"}); the
        separator is C(_) by default, and an instance without the prefix gets only the name.
      - Hosts that would share a name, or have the name of a group, get C(-) and their instance id appended.
      - In tags everything but letters, digits, C(.), C(_) and C(-) becomes C(_).
    type: list
    elements: raw
    default: [instance_id]
  hostvars_prefix:
    description:
      - Prefix of the names of host variables. It must end with C(_), or be empty.
      - With an empty prefix, the variable C(tags) has to be renamed or dropped with O(variables), since Ansible
        reserves that name.
    type: str
    default: ec2_
  variables:
    description:
      - Which host variables are set, by their names without the prefix. With ten thousand hosts, most of the time
        of C(ansible-inventory --list) goes into unused variables.
      - A list has all variables to set, as V([instance_type, tags]).
      - >-
        A dictionary changes the defaults. V(true) adds one, V(false) leaves one out, and a string is its full name, as
        C({security_groups: true, launch_time: false, private_ip_address: node_ip}).
      - Besides the defaults there are V(ipv6_address), V(architecture), V(block_devices), V(instance_profile),
        V(key_name), V(platform_details), V(public_dns_name), V(root_device_name) and V(security_groups).
      - V(instance_id) and the variables of O(connection) are always set.
    type: raw
  full_record:
    description: Also set C(ec2_instance), the whole answer of EC2 for the instance. This is large and slow.
    type: bool
    default: false
  enrich:
    description:
      - Additional facts, one call each in a region (paged). A failed call is reported; nothing else is lost.
      - V(health) sets C(ec2_health) (status checks and scheduled events).
      - V(topology) sets C(ec2_network_nodes) (widest first) and C(ec2_topology_path), which sorts neighbours together.
      - V(capacity) sets C(ec2_capacity) (type, state and end of the capacity reservation or capacity block).
      - V(ssm) sets C(ec2_ssm_ping_status).
      - V(slurm_names) sets C(ec2_slurm_node_name) from the table that ParallelCluster keeps in DynamoDB.
    type: list
    elements: str
    choices: [health, topology, capacity, ssm, slurm_names]
    default: []
  hardware:
    description:
      - The source of C(ec2_accelerators). V(api) calls DescribeInstanceTypes and falls back to the collection's own
        table; C(ec2_accelerators.source) names the source. V(table) makes no call.
    type: str
    choices: [api, table]
    default: api
  hardware_cache_timeout:
    description:
      - Seconds that facts of instance types are kept below E(XDG_CACHE_HOME), by default C(~/.cache), apart from
        the inventory's own cache. V(0) keeps none.
    type: int
    default: 2592000
  tag_keys:
    description:
      - Tags with the role of a node, for clusters that ParallelCluster did not create.
      - Keys are C(cluster), C(node_type), C(queue) and C(compute_resource).
      - Known values of the tag C(node_type) are HeadNode, Compute, LoginNode, head, controller, worker and login.
    type: dict
    default: {}
  default_node_type:
    description: The type of an instance without a known node-type tag.
    type: str
    choices: [head, compute, login]
  connection:
    description:
      - How Ansible reaches the nodes. C(ansible_host) is always set.
      - V(ssh) connects directly, V(ssh_bastion) through the head node of the same cluster, and V(ssm) with AWS Systems
        Manager.
    type: str
    choices: [ssh, ssh_bastion, ssm]
    default: ssh
  address:
    description: The address to use with O(connection=ssh); the private one if an instance does not have it.
    type: str
    choices: [private_ip, public_ip, private_dns]
    default: private_ip
  bastion_user:
    description: User for the login to the bastion, if it is not ssh's default.
    type: str
  bastion_host:
    description: A bastion to use instead of the head nodes.
    type: str
  bastion_port:
    description: Port of ssh on the bastion.
    type: int
  ssm_bucket:
    description: S3 bucket through which O(connection=ssm) moves files.
    type: str
  ssm_connection_plugin:
    description: Connection plugin for O(connection=ssm).
    type: str
    default: amazon.aws.aws_ssm
  slurm_table_prefix:
    description: Prefix of ParallelCluster's DynamoDB table, before the name of the cluster.
    type: str
    default: parallelcluster-slurm-
"""

EXAMPLES = r"""
# A ParallelCluster: only its name is needed. Try it with
# ansible-inventory -i train.ec2_nodes.yml --graph -e cluster=train
plugin: mlcluster.aws.ec2_nodes
cluster_name: "{{ cluster }}"
connection: ssh_bastion
bastion_user: ubuntu
---
# Plain EC2 instances selected by your own tags, without those of another team.
plugin: mlcluster.aws.ec2_nodes
regions: [us-east-1, us-west-2]
filters:
  tag:Project: llm
exclude: tags.Owner == 'somebody-else'
tag_keys:
  cluster: Cluster
  node_type: Role
default_node_type: compute
---
# Nodes by their Slurm names, with health and network topology, kept for ten minutes.
plugin: mlcluster.aws.ec2_nodes
cluster_name: train
hostnames: [slurm_node_name, private_dns]
enrich: [slurm_names, health, topology]
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/ansible-inventory
cache_timeout: 600
keyed_groups:
  - key: ec2_tags['CostCenter'] | default('none')
    prefix: cost
"""

import copy
import difflib
import gc
import os
from typing import Any

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.module_utils.parsing.convert_bool import BOOLEANS
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import cache as _ec2_cache
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import connection as _ec2_connection
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import expression as _ec2_expression
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import fetch as _ec2_fetch
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import groups as _ec2_groups
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import hardware as _ec2_hardware
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import names as _ec2_names
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import options as _ec2_options
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import select as _ec2_select
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import session as _ec2_session
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import share as _ec2_share

try:
    # Since 2.19, ansible-core evaluates only strings marked as templates; before, all but those marked as unsafe.
    from ansible.template import trust_as_template
except ImportError:
    from ansible.utils.unsafe_proxy import wrap_var as _inert

    # Before 2.19, templating may turn non-strings into strings.
    _SAME_AS_CORE: tuple[type, ...] = (str,)
    # Before 2.19, ``omit`` has to be passed to each template.
    _OMIT: dict[str, Any] = {"omit": f"__omit_{os.urandom(8).hex()}__"}
else:
    del trust_as_template
    _SAME_AS_CORE = (object,)
    _OMIT = {}

    def _inert(value: Any) -> Any:
        return value


# Evaluated for each host, unlike the other options.
HOST_OPTIONS = ("compose", "groups", "keyed_groups", "plugin")
SUFFIXES = ("ec2_nodes.yml", "ec2_nodes.yaml")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """The inventory plugin ``mlcluster.aws.ec2_nodes``."""

    NAME = "mlcluster.aws.ec2_nodes"

    def __init__(self) -> None:
        super().__init__()
        self._expression_inputs: dict[str, _ec2_expression.ExpressionInputs] = {}
        self._results: dict[tuple[Any, ...], Any] = {}
        self._plugin_variables: set[str] = set()
        self._option_names: frozenset[str] = frozenset()
        self._in_keyed_groups = False

    def verify_file(self, path: str) -> bool:
        """Return whether the file is for this plugin, by its name; warn about a misnamed one."""
        if not super().verify_file(path):
            return False
        if path.endswith(SUFFIXES):
            return True
        if os.path.isfile(path) and path.endswith((".yml", ".yaml")):
            with open(path, "rb") as handle:
                named = f"plugin: {self.NAME}".encode() in handle.read(4096)
            if named:
                self.display.warning(
                    f"{path} is for the plugin {self.NAME} but its name does not end with ec2_nodes.yml; rename it"
                )
        return False

    def set_options(self, task_keys: Any = None, var_options: Any = None, direct: Any = None) -> None:
        """Read the options with extra vars applied."""
        if direct:
            self._check_names(direct)
            self.templar.available_variables = {**_OMIT, **(self._vars or {})}
            templated: dict[str, Any] = {}
            for name, value in direct.items():
                templated.update({name: value} if name in HOST_OPTIONS else self._templated(name, value))
            direct = templated
            self._option_names = frozenset(templated)
            self._check_switches(direct)
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        if self.get_option("cache"):
            self.load_cache_plugin()

    def _check_names(self, options: Any) -> None:
        """Raise AnsibleParserError for unknown options: a file with a misspelt cluster_name would select everything."""
        known = {
            alias
            for name, definition in self.option_definitions.items()
            for alias in (name, *definition.get("aliases", ()))
        }
        errors = []
        for name in sorted({str(name) for name in options} - known):
            close = difflib.get_close_matches(name, known, 1)
            foreign_hint = _ec2_options.FOREIGN_OPTIONS.get(name)
            hint = foreign_hint or (f"did you mean {close[0]}?" if close else "")
            errors.append(f"{name} ({hint})" if hint else name)
        if errors:
            where = f"see ansible-doc -t inventory {self.NAME}"
            raise AnsibleParserError(f"{self.NAME}: no such option: {', '.join(errors)}; {where}")

    def _check_switches(self, options: dict[str, Any]) -> None:
        """Raise AnsibleParserError for a switch that is not a boolean, which ansible-core reads as off."""
        for name, value in options.items():
            is_switch = self.option_definitions.get(name, {}).get("type") in ("bool", "boolean")
            switch_text = value.strip().lower() if isinstance(value, str) else value
            if is_switch and value is not None and switch_text not in BOOLEANS:
                raise AnsibleParserError(f"{self.NAME}: {name} is '{value}'; use true or false")

    def load_cache_plugin(self) -> None:
        """Load the cache plugin; if that fails, warn and continue without a cache, which only saves time."""
        directory = _ec2_cache.open_to_all(self.get_option("cache_connection"))
        problem = f"any user may write to {directory}; set cache_connection to a directory of your own"
        # If a concurrent run creates the directory between check and creation, the first try fails.
        for _try in range(2 if directory is None else 0):
            try:
                super().load_cache_plugin()
            except AnsibleError as exc:
                problem = _one_line(exc)
            else:
                return
        self._warn(f"the cache is not used: {problem}")
        self.set_option("cache", False)

    def update_cache_if_changed(self) -> None:
        """Write the cache entry; an error is only a warning, since the next run asks again."""
        if not self.get_option("cache"):
            return
        try:
            super().update_cache_if_changed()
        except Exception as exc:
            self._warn(f"the answer could not be kept in the cache: {_one_line(exc)}")

    def _templated(self, name: str, value: Any) -> dict[str, Any]:
        """Return the option as a dictionary, empty if the template omits it."""
        try:
            result = self.templar.template({name: value})
            return {key: found for key, found in result.items() if found not in _OMIT.values()}
        except AnsibleError as exc:
            raise AnsibleParserError(f"option {name} cannot be evaluated: {exc.message}") from None

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Fill the inventory. Raises AnsibleParserError with one sentence."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        collecting = gc.isenabled()
        # All objects made here stay alive, so garbage collection finds nothing and costs a tenth of the time; freezing
        # excludes them for the rest of the run. Objects frozen by an earlier inventory may be garbage by now.
        gc.disable()
        gc.unfreeze()
        try:
            self._fill(path, cache)
        finally:
            gc.freeze()
            if collecting:
                gc.enable()

    def _fill(self, path: str, cache: bool) -> None:
        try:
            settings = _ec2_options.read(self.get_option, self._option_names)
            self._check_expressions()
            answer = self._answer(path, settings, cache)
            records = _ec2_select.keep(answer.records, settings.include, settings.exclude)
        except (
            _ec2_options.OptionError,
            _ec2_select.SelectionError,
            _ec2_session.AccessError,
            _ec2_fetch.FetchError,
        ) as exc:
            raise AnsibleParserError(f"{self.NAME}: {exc}") from None
        missing_setting = _ec2_connection.missing_setting(settings.connection)
        for warning in (*answer.warnings, *([missing_setting] if missing_setting else ())):
            self._warn(warning)
        if not records:
            self._warn_empty(settings, answer)
        heads = self._heads(answer.records, records, settings)
        # _populate releases every record when its host is made: ten thousand of both would need much memory.
        answer.records = []
        self._populate(records, heads, settings)

    def _warn(self, text: str) -> None:
        self.display.warning(f"{self.NAME}: {text}")

    def _report(self, text: str) -> None:
        # Not on stdout, which programs parse.
        self.display.display(f"{self.NAME}: {text}", stderr=True)

    def _warn_empty(self, settings: _ec2_options.Settings, answer: _ec2_fetch.Answer) -> None:
        searched = f"{', '.join(answer.regions)} of account {answer.account or 'unknown'}"
        filters_text = "; ".join(f"{entry['Name']} = {', '.join(entry['Values'][:5])}" for entry in settings.filters)
        if answer.records:
            self._warn(f"include and exclude leave none of the {len(answer.records)} instances with {filters_text}")
        else:
            self._warn(f"no instance in {searched} has {filters_text}")

    def _answer(self, path: str, settings: _ec2_options.Settings, may_read: bool) -> _ec2_fetch.Answer:
        if not self.get_option("cache"):
            return self._ask(settings)
        key = _ec2_cache.key(self.get_cache_key(path), settings.cache_inputs(path), os.environ)
        identity = _ec2_cache.access_key_digest(
            os.environ, settings.access.profile or " ".join(settings.access.profiles)
        )
        answer = self._cached(key, identity) if may_read else None
        if answer is None:
            answer = self._ask(settings)
            if answer.complete and self.get_option("cache"):
                self._cache[key] = _ec2_cache.pack(answer, identity)
        return answer

    def _cached(self, key: str, identity: str) -> _ec2_fetch.Answer | None:
        try:
            return _ec2_cache.unpack(self._cache.get(key), identity)
        except _ec2_cache.DamagedError as exc:
            self._warn(f"the entry of the cache is not used, since {exc}; it is replaced")
        except (AttributeError, LookupError, TypeError, ValueError) as exc:
            self._warn(f"the entry of the cache is not used, since it is broken ({_one_line(exc)}); it is replaced")
        except Exception as exc:
            # If the entry is not JSON, the cache plugin itself has reported and removed it.
            if not isinstance(exc.__context__, ValueError):
                self._warn(f"the cache is not used, since its entry cannot be read: {_one_line(exc)}")
                self.set_option("cache", False)
        return None

    def _ask(self, settings: _ec2_options.Settings) -> _ec2_fetch.Answer:
        hardware_cache = _ec2_hardware.LongCache(
            _ec2_hardware.LongCache.default_path(), settings.hardware_cache_seconds
        )
        answer = _ec2_fetch.ask(settings.access, settings.question, hardware_cache, self._report)
        # The service models of botocore form cycles and would stay for the rest of the run.
        gc.collect()
        return answer

    def _populate(
        self,
        records: list[dict[str, Any]],
        heads: dict[tuple[Any, ...], dict[str, Any]],
        settings: _ec2_options.Settings,
    ) -> None:
        """Add the hosts to the inventory, and remove the records from the list."""
        add_host, add_child = self.inventory.add_host, self.inventory.add_child
        set_variable = self.inventory.set_variable
        members = [self._groups_of(record) for record in records]
        names, clashes = self._names(records, settings)
        if clashes:
            self._warn(
                f"{len(clashes)} names are not unique or not usable and got the instance id appended, "
                f"as {', '.join(clashes[:3])}"
            )
        fields = [(variable, field) for field, variable in settings.variables.items() if field != "accelerators"]
        hardware = settings.variables.get("accelerators")
        inherited = self._share_hardware(records, hardware) if hardware else {}
        compose, strict, others = self.get_option("compose"), self.get_option("strict"), self._user_variables()
        facts = []
        strings = _ec2_share.StringPool()
        common = [variable for variable, field in fields if field not in _ec2_share.UNIQUE]
        records.reverse()
        for name, groups in zip(names, members):
            record = records.pop()
            add_host(name)
            for group in groups:
                add_child(group, name)
            variables = {variable: record[field] for variable, field in fields}
            head = heads.get(_ec2_connection.cluster_key(record)) if heads else None
            variables.update(_ec2_connection.variables(record, head, settings.connection))
            variables = _inert(variables)
            for variable, value in variables.items():
                set_variable(name, variable, strings.pooled(value))
            stored = self.inventory.hosts[name].vars
            for variable in common:
                strings.add(stored[variable])
            hardware_facts = {hardware: record["accelerators"]} if hardware else {}
            if hardware and inherited.get(record["instance_type"]) != record["accelerators"]:
                set_variable(name, hardware, _inert(record["accelerators"]))
            facts.append(hardware_facts)
            if compose:
                variables.update(_inert(hardware_facts))
                self._plugin_variables = variables.keys() - others
                self._set_composite_vars(compose, variables, name, strict=strict)
        self._plugin_variables = set(settings.variables.values()) - others
        self._construct_groups(names, facts)

    def _names(self, records: list[dict[str, Any]], settings: _ec2_options.Settings) -> tuple[list[str], list[str]]:
        later_groups = map(self._sanitize_group_name, self.get_option("groups") or ())
        variable = settings.variables["instance_id"]
        owners = {name: host.vars[variable] for name, host in self.inventory.hosts.items() if variable in host.vars}
        return _ec2_names.assign(records, settings.hostnames, {*self.inventory.groups, *later_groups}, owners)

    def _share_hardware(self, records: list[dict[str, Any]], variable: str) -> dict[str, Any]:
        """Set the facts that most hosts of a type have on the group of the type; returns those facts by type.

        Hosts with other facts, or whose group has got other facts from another source, need a variable of their own.
        """
        inherited = {}
        for instance_type, facts in _ec2_groups.common_hardware(records).items():
            group = _ec2_groups.safe(f"type_{instance_type}")
            if variable not in self.inventory.groups[group].vars:
                self.inventory.set_variable(group, variable, _inert(facts))
            if self.inventory.groups[group].vars[variable] == facts:
                inherited[instance_type] = facts
        return inherited

    def _groups_of(self, record: dict[str, Any]) -> list[str]:
        """Return the groups of a record, created if new, with the wider topology groups above the nearest."""
        groups = _ec2_groups.of(record)
        path = _ec2_groups.network_path(record)
        for group in (*groups, *path):
            if group not in self.inventory.groups:
                self.inventory.add_group(group)
        for parent, child in zip(path, path[1:]):
            self.inventory.add_child(parent, child)
        return groups

    def _heads(
        self, all_records: list[dict[str, Any]], records: list[dict[str, Any]], settings: _ec2_options.Settings
    ) -> dict[tuple[Any, ...], dict[str, Any]]:
        options = settings.connection
        if options.kind != "ssh_bastion" or options.bastion_host:
            return {}
        heads = _ec2_connection.heads(all_records)
        without_head = sorted(
            {str(record["cluster_name"]) for record in records if _ec2_connection.cluster_key(record) not in heads}
        )
        if without_head:
            self._warn(
                f"no head node was found for {', '.join(without_head)}, so its nodes are connected to directly; "
                "set bastion_host, or let the filters match the head node"
            )
        return heads

    # The following speeds up the standard constructed options without changing their results.

    def _check_expressions(self) -> None:
        """Analyze every expression once. Raises OptionError for one that Jinja cannot parse."""
        expressions = [("compose", name, text) for name, text in (self.get_option("compose") or {}).items()]
        expressions += [("groups", name, text) for name, text in (self.get_option("groups") or {}).items()]
        for entry in self.get_option("keyed_groups") or []:
            if isinstance(entry, dict):
                expressions.append(("keyed_groups", entry.get("prefix") or "", entry.get("key")))
        for option, name, text in expressions:
            if isinstance(text, str) and text not in self._expression_inputs:
                try:
                    self._expression_inputs[text] = _ec2_expression.parse_expression(text)
                except _ec2_expression.ExpressionError as exc:
                    raise _ec2_options.OptionError(f"{option}: the expression of '{name}' is wrong: {exc}") from exc

    def _user_variables(self) -> frozenset[str]:
        """Return the variables that the user sets: they may be templates, which ansible-core handles."""
        extra = (self._vars or {}) if self.get_option("use_extra_vars") else {}
        return frozenset(self.get_option("compose") or ()) | frozenset(extra)

    def _construct_groups(self, names: list[str], facts: list[dict[str, Any]]) -> None:
        """Apply groups and keyed_groups; ``facts`` are the variables of each host that its group may have instead.

        Called after all hosts have their variables. A host that is added later could have the name of a group, and its
        variables would then be set on that group.
        """
        groups, keyed, strict = (self.get_option(name) for name in ("groups", "keyed_groups", "strict"))
        if not (groups or keyed):
            return
        extra = (self._vars or {}) if self.get_option("use_extra_vars") else {}
        for name, group_facts in zip(names, facts):
            merged = {**_inert(group_facts), **self.inventory.hosts[name].get_vars()}
            self._add_host_to_composed_groups(groups, merged, name, strict=strict, fetch_hostvars=False)
            # The template of parent_group is evaluated with the variables that its key's evaluation has set.
            self.templar.available_variables = {**merged, **extra}
            self._in_keyed_groups = True
            try:
                self._add_host_to_keyed_groups(keyed, merged, name, strict=strict, fetch_hostvars=False)
            finally:
                self._in_keyed_groups = False

    def _result_key(self, text: Any, variables: dict[str, Any]) -> tuple[Any, ...] | None:
        """Return a key that is equal for hosts with the same result of an expression; None: ask ansible-core."""
        inputs = self._expression_inputs.get(text) if isinstance(text, str) else None
        if inputs is None or inputs.inputs is None or not inputs.roots <= self._plugin_variables:
            return None
        return (text, *_ec2_expression.fingerprint(inputs, variables))

    def _compose(self, template: Any, variables: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        value = self._cached_compose(template, variables, *args, **kwargs)
        # ansible-core loses the whole inventory with a number or boolean as a key of keyed_groups (ansible#78749).
        if self._in_keyed_groups and isinstance(value, (int, float)):
            return str(value).lower()
        return value

    def _cached_compose(self, template: Any, variables: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        key = self._result_key(template, variables)
        if key is None:
            return super()._compose(template, variables, *args, **kwargs)
        path = self._expression_inputs[template].path
        if path is not None:
            value, found = _ec2_expression.lookup(path, variables)
            if found and isinstance(value, _SAME_AS_CORE):
                return value
        if key not in self._results:
            try:
                self._results[key] = (super()._compose(template, variables, *args, **kwargs), None)
            except AnsibleError as exc:
                self._results[key] = (None, exc)
        value, error = self._results[key]
        if error is not None:
            raise error
        return copy.deepcopy(value) if isinstance(value, (dict, list)) else value

    def _add_host_to_composed_groups(
        self, groups: Any, variables: dict[str, Any], host: str, strict: bool = False, fetch_hostvars: bool = True
    ) -> None:
        for name, condition in (groups or {}).items():
            key = self._result_key(condition, variables)
            group = self._sanitize_group_name(name)
            known = None if key is None else self._results.get(("group", group, *key))
            if known is None:
                before = self._is_member(host, group)
                super()._add_host_to_composed_groups(
                    {name: condition}, variables, host, strict=strict, fetch_hostvars=fetch_hostvars
                )
                if key is not None and not before:
                    self._results[("group", group, *key)] = self._is_member(host, group)
            elif known:
                self.inventory.add_group(group)
                self.inventory.add_child(group, host)

    def _is_member(self, host: str, group: str) -> bool:
        return any(member.name == group for member in self.inventory.get_host(host).get_groups())
