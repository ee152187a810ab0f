# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the options of the inventory plugin, and group them by their use."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Callable

from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import connection as _ec2_connection
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import enrich as _ec2_enrich
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import names as _ec2_names
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import select as _ec2_select
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import session as _ec2_session
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import trim as _ec2_trim
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import variables as _ec2_variables
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.fetch import Question
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.record import EXTRAS, FIELDS

TAG_KEYS = {
    "cluster": "parallelcluster:cluster-name",
    "node_type": "parallelcluster:node-type",
    "queue": "parallelcluster:queue-name",
    "compute_resource": "parallelcluster:compute-resource-name",
}
# All keys that a record can have, with every enrichment and the full record.
KNOWN_FIELDS = frozenset(
    [*FIELDS, *EXTRAS, "efa_attached", "instance"]
    + [key for enrichment in _ec2_enrich.ENRICHMENTS.values() for key in enrichment.keys]
)
# Options of amazon.aws.aws_ec2 that have another name or form here.
FOREIGN_OPTIONS = {
    **dict.fromkeys(
        ("access_key", "aws_access_key", "aws_access_key_id", "secret_key", "aws_secret_key", "aws_secret_access_key")
        + ("session_token", "aws_session_token", "aws_security_token", "security_token"),
        "keys come from the environment, a profile, single sign-on or the instance's role",
    ),
    "boto_profile": "use profile",
    "allow_duplicated_hosts": "names that are not unique always get the instance id appended",
    "aws_ca_bundle": "set AWS_CA_BUNDLE in the environment",
    "aws_config": "use max_attempts, retry_mode, connect_timeout and read_timeout",
    "aws_profile": "use profile",
    "aws_endpoint_url": "use endpoint_url",
    "debug_botocore_endpoint_logs": "set AWS_ENDPOINT_URL, or look at CloudTrail",
    "exclude_filters": "use exclude, a JMESPath expression",
    "hostvars_suffix": "use variables, which renames each variable, or hostvars_prefix",
    "iam_role_arn": "use assume_role_arn",
    "include_extra_api_calls": "use enrich",
    "include_filters": "use filters with several values, or include, a JMESPath expression",
    "strict_permissions": "use strict_regions; a region that is denied is a warning otherwise",
    "use_contrib_script_compatible_ec2_tag_keys": "use compose or keyed_groups over ec2_tags",
    "use_contrib_script_compatible_sanitization": "names of groups have every unusable character replaced by _",
    "use_ssm_inventory": "use enrich: [ssm]",
    "validate_certs": "certificates are always checked; set AWS_CA_BUNDLE for an authority of your own",
}


class OptionError(ValueError):
    """An unusable option; the message names it and states what to use instead."""


@dataclass(frozen=True)
class Settings:
    """All options of the plugin."""

    access: _ec2_session.Access
    question: Question
    connection: _ec2_connection.Connection
    hostnames: list[_ec2_names.Preference]
    variables: dict[str, str]
    include: Any
    exclude: Any
    hardware_cache_seconds: int
    filters: list[dict[str, Any]]

    def cache_inputs(self, path: str) -> dict[str, Any]:
        """Return the options that determine the answer, for the cache key; JSON-able."""
        question, access = self.question, self.access
        return {
            "path": path,
            "profile": access.profile,
            "profiles": access.profiles,
            "roles": access.roles,
            "region": access.region,
            "endpoint_url": access.endpoint_url,
            "regions": question.regions,
            "filters": self.filters,
            "tag_keys": question.tag_keys,
            "default_node_type": question.default_node_type,
            "enrich": question.enrich,
            "hardware": question.hardware,
            "full_record": question.full_record,
            "slurm_table_prefix": question.slurm_table_prefix,
            "extras": question.extras,
            "unread": question.unread,
            "tags": question.tags,
            "strict_regions": question.strict_regions,
        }


def flat(value: Any) -> list[str]:
    """Return a list of strings from None, a string or a list that may hold lists, as templates make them."""
    if value is None or value == "":
        return []
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in flat(part)]
    return [text(value)]


def _entries(value: Any) -> list[Any]:
    """Return the entries of ``hostnames``: strings and mappings, with nested lists flattened."""
    if isinstance(value, (list, tuple)):
        return [entry for part in value for entry in _entries(part)]
    return [] if value in (None, "") else [value]


def text(value: Any) -> str:
    """Return a plain str, without ansible-core's tags on strings from files."""
    return "".join(str(value))


def _some(value: Any) -> str | None:
    return text(value) if value not in (None, "") else None


def _clusters(given: Any, is_given: bool) -> list[str]:
    """Return the names of clusters; empty only if the option was left out.

    An empty value, as of ``-e cluster=`` or of a template with an empty default, must not mean every instance.
    """
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    names = flat(values)
    if is_given and (not names or len(names) < len(values) or not all(name.strip() for name in names)):
        raise OptionError("cluster_name: is empty; name a cluster, or leave the option out to select by filters alone")
    return names


def _positive(option: str, value: int, minimum: int = 1) -> int:
    if value < minimum:
        raise OptionError(f"{option}: {value} is too small; use {minimum} or more")
    return value


def _access(get: Callable[[str], Any]) -> _ec2_session.Access:
    roles = tuple(flat(get("assume_role_arn")))
    for role in roles:
        if not _ec2_session.ROLE.fullmatch(role):
            raise OptionError(f"assume_role_arn: '{role}' is not the ARN of a role")
    profiles = tuple(dict.fromkeys(flat(get("profiles"))))
    for other, given in (("profile", _some(get("profile"))), ("assume_role_arn", roles)):
        if profiles and given:
            raise OptionError(f"profiles: several profiles and {other} cannot be used together; leave one out")
    region = _some(get("region"))
    if region:
        _ec2_session.check_region(region)
    return _ec2_session.Access(
        # A list of one is treated as that profile, which the connection supports.
        profile=profiles[0] if len(profiles) == 1 else _some(get("profile")),
        profiles=profiles if len(profiles) > 1 else (),
        region=region,
        roles=roles,
        external_id=_some(get("assume_role_external_id")),
        session_name=text(get("assume_role_session_name")),
        endpoint_url=_some(get("endpoint_url")),
        max_attempts=_positive("max_attempts", get("max_attempts")),
        retry_mode=text(get("retry_mode")),
        connect_timeout=_positive("connect_timeout", get("connect_timeout")),
        read_timeout=_positive("read_timeout", get("read_timeout")),
    )


def _tag_keys(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise OptionError(f"tag_keys: must map {', '.join(TAG_KEYS)} to tags, found {type(given).__name__}")
    unknown = sorted(set(map(str, given)) - set(TAG_KEYS))
    if unknown:
        raise OptionError(f"tag_keys: {', '.join(unknown)} is not known; use {', '.join(TAG_KEYS)}")
    return {**TAG_KEYS, **{text(name): text(key) for name, key in given.items()}}


def _enrich(given: Any) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(flat(given)))
    for name in names:
        if name not in _ec2_enrich.ENRICHMENTS:
            raise OptionError(f"enrich: '{name}' is not known; use {', '.join(_ec2_enrich.ENRICHMENTS)}")
    return names


def _connection(get: Callable[[str], Any], access: _ec2_session.Access) -> _ec2_connection.Connection:
    port = get("bastion_port")
    return _ec2_connection.check(
        _ec2_connection.Connection(
            kind=text(get("connection")),
            address=text(get("address")),
            bastion_user=_some(get("bastion_user")),
            bastion_host=_some(get("bastion_host")),
            bastion_port=None if port is None else int(port),
            ssm_bucket=_some(get("ssm_bucket")),
            ssm_plugin=text(get("ssm_connection_plugin")),
            profile=access.profile,
            profiles=access.profiles,
            roles=access.roles,
        )
    )


def _default_fields(enrich: tuple[str, ...], full_record: bool) -> list[str]:
    """Return the fields whose variables are set by default."""
    keys = [*FIELDS, *(key for name in enrich for key in _ec2_enrich.ENRICHMENTS[name].keys)]
    return [*keys, "instance"] if full_record else keys


def read(get: Callable[[str], Any], given: Container[str] = ("cluster_name",)) -> Settings:
    """Return the settings, from the function that returns the value of an option. Raises OptionError.

    ``given`` are the options that the file names, whatever their value.
    """
    try:
        access = _access(get)
        tag_keys = _tag_keys(get("tag_keys"))
        filters = _ec2_select.filters(
            get("filters") or {},
            _clusters(get("cluster_name"), "cluster_name" in given),
            tag_keys["cluster"],
            flat(get("states")),
        )
        regions = flat(get("regions"))
        for region in regions:
            if region != "all":
                _ec2_session.check_region(region)
        enrich, full_record = _enrich(get("enrich")), bool(get("full_record"))
        usual = _default_fields(enrich, full_record)
        variables = _ec2_variables.choose(
            get("variables"), _ec2_variables.prefix(text(get("hostvars_prefix") or "")), usual, {*usual, *EXTRAS}
        )
        hostnames = _ec2_names.check(_entries(get("hostnames")))
        include = _ec2_select.expression("include", get("include"), KNOWN_FIELDS)
        exclude = _ec2_select.expression("exclude", get("exclude"), KNOWN_FIELDS)
        seen = {*variables, *_ec2_names.fields(hostnames)}
        seen.update(name for one in (include, exclude) if one for name in _ec2_select.root_names(one.parsed))
        question = Question(
            regions=regions,
            requests=_ec2_select.requests(filters),
            tag_keys=tag_keys,
            default_node_type=_some(get("default_node_type")),
            enrich=enrich,
            hardware=text(get("hardware")),
            full_record=full_record,
            extras=tuple(sorted(seen & EXTRAS.keys())),
            unread=tuple(sorted(_ec2_trim.LONELY.keys() - seen)),
            tags=None if "tags" in seen else tuple(sorted({*tag_keys.values(), *_ec2_names.tags(hostnames)})),
            strict_regions=bool(get("strict_regions")),
            slurm_table_prefix=text(get("slurm_table_prefix")),
        )
        return Settings(
            access=access,
            question=question,
            connection=_connection(get, access),
            hostnames=hostnames,
            variables=variables,
            include=include,
            exclude=exclude,
            hardware_cache_seconds=_positive("hardware_cache_timeout", get("hardware_cache_timeout"), 0),
            filters=filters,
        )
    except OptionError:
        raise
    except (
        _ec2_select.SelectionError,
        _ec2_names.NamingError,
        _ec2_variables.VariablesError,
        _ec2_connection.ConnectionOptionError,
        _ec2_session.AccessError,
    ) as exc:
        raise OptionError(str(exc)) from exc
