# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rejected settings of a cluster."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import config as _cluster_config
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import lint as _cluster_lint
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import problems as _cluster_problems

from tests.unit.plugins.plugin_utils._cluster.test_config import HOOK, queue_of, rendered, settings


def problem_of(**changes):
    (problem,) = _cluster_problems.problems(settings(**changes))
    return problem


def test_invalid_hook_args_are_rejected_early():
    hook = {**HOOK, "args": ["--on-failur", "drain", "--required", "--deadline"]}
    first, second = _cluster_problems.problems(settings(hook=hook))
    assert first.startswith("hook: args has '--on-failur'; it may have --required, --best-effort, --vars, ")
    assert second == "hook: args has --deadline without a value; add one"


def test_hook_options_match_script():
    script = (Path(__file__).resolve().parents[5] / "hooks/on_node_configured.sh").read_text(encoding="utf-8")
    taken = set(re.findall(r"\[([a-z0-9-]+)\]='?", script.partition("takes=(")[2].partition("\n)")[0]))
    ours = {name.replace("_", "-") for name in _cluster_problems.HOOK_OPTIONS}
    assert taken == ours | {name.removeprefix("--") for name in _cluster_problems.HOOK_ARGS}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "1st"}, "cluster_name is '1st'; use letters, digits and hyphens"),
        ({"region": "Jakarta"}, "cluster_region is 'Jakarta'; use a region such as us-east-1"),
        ({"queues": []}, "cluster_queues is empty; a cluster needs at least one queue"),
        ({"queues": [queue_of(), queue_of()]}, "queue 'gpus' is used twice; use another value for one of them"),
        ({"queues": [queue_of(nodes=3)]}, "queue 'gpus' has the key 'nodes', which does not exist"),
        ({"queues": [queue_of(count=None)]}, "queue 'gpus' lacks 'count'; set it"),
        ({"queues": [queue_of(name="GPU")]}, "a queue's name is small letters"),
        ({"queues": [queue_of(capacity="block")]}, "capacity is 'block'; use ondemand, spot or capacity-block"),
        ({"queues": [queue_of(capacity="capacity-block")]}, "a capacity block needs its reservation"),
        ({"queues": [queue_of(reservation="cr-xxx")]}, "reservation is 'cr-xxx'; use cr- with 17 digits"),
        ({"queues": [queue_of(minimum=81)]}, "minimum 81 is more than count 80; lower it"),
        ({"queues": [queue_of(root_gib="big")]}, "root_gib is 'big'; use an integer"),
        ({"queues": [queue_of(root_throughput=1000)]}, "root_throughput 1000 needs root_iops of 4000 or more"),
        ({"s3": [{"bucket": "a", "rw": True}]}, "s3 has the key 'rw', which does not exist"),
        ({"hook": {**HOOK, "sha256": "abc"}}, "hook: sha256 is 'abc'; use 64 digits 0-9 and a-f"),
        ({"hook": {"script": HOOK["script"]}}, "hook: bundle and sha256 are needed"),
        ({"hook": {**HOOK, "script": "https://x/y.sh"}}, "hook: script is 'https://x/y.sh'; use s3://BUCKET/KEY"),
        (
            {"hook": {"script": HOOK["script"], "pointer": "s3://tools/p"}},
            "hook: a pointer needs public_key, and neither bundle nor sha256",
        ),
    ],
)
def test_invalid_settings_are_rejected(changes, sentence):
    assert sentence in problem_of(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gib": 5000}, "gib is 5000; PERSISTENT_2 has 1200 or a multiple of 2400"),
        ({"throughput": 300}, "throughput is 300; PERSISTENT_2 has 125, 250, 500 or 1000 MB/s for each TiB"),
        ({"mount": "fsx"}, "mount is 'fsx'; use an absolute path"),
        ({"id": "fs-1"}, "id is 'fs-1'; use fs- with 17 letters and digits"),
        ({"id": "fs-0123456789abcdef3", "gib": 1200}, "exists already, so only name, mount and id apply"),
        ({"by_cluster": True, "efa": True}, "ParallelCluster creates none with EFA; remove by_cluster"),
        ({"gib": None}, "lacks 'gib'; set it"),
        ({"deployment": "PERSISTENT"}, "deployment is PERSISTENT; use one of PERSISTENT_2, PERSISTENT_1"),
        ({"deployment": "PERSISTENT_1"}, "throughput is 125; PERSISTENT_1 has 50, 100 or 200 MB/s for each TiB"),
        ({"deployment": "PERSISTENT_1", "throughput": 200, "efa": True}, "only PERSISTENT_2 has EFA"),
        (
            {"gib": 7200, "throughput": 1000, "efa": True},
            "with EFA and 1000 MB/s for each TiB it is a multiple of 4800: use 9600, or another throughput",
        ),
        ({"gib": 4800, "throughput": 500, "efa": True}, "a multiple of 9600: use 9600"),
        ({"gib": 9600, "throughput": 250, "efa": True}, "a multiple of 19200: use 19200"),
        ({"gib": 40800, "throughput": 125, "efa": True}, "a multiple of 38400: use 76800"),
    ],
)
def test_invalid_filesystems_are_rejected(changes, sentence):
    filesystem = {"name": "data", "mount": "/fsx", "gib": 1200, "throughput": 125, **changes}
    found = _cluster_problems.problems(settings(filesystems=[filesystem]))
    assert [problem for problem in found if sentence in problem]


@pytest.mark.parametrize(
    "sizes",
    [
        {"gib": 9600, "throughput": 1000, "efa": True},
        {"gib": 38400, "throughput": 125, "efa": True},
        {"gib": 7200, "throughput": 1000},
        {"gib": 2400, "throughput": 200, "deployment": "PERSISTENT_1"},
    ],
)
def test_sizes_of_fsx_are_accepted(sizes):
    filesystem = {"name": "data", "mount": "/fsx", **sizes}
    assert [one for one in _cluster_problems.problems(settings(filesystems=[filesystem])) if "data" in one] == []


def test_parallelcluster_makes_one_filesystem_at_most():
    two = [
        {"name": name, "mount": f"/{name}", "by_cluster": True, "gib": 1200, "throughput": 125} for name in ("a", "b")
    ]
    assert problem_of(filesystems=two).startswith(
        "ParallelCluster creates at most one file system, and a, b have by_cluster"
    )


TRAPS = (
    None, "", 0, 1, -1, 123, 1e3, float("nan"), 10**400, True, False, [], {}, ["a"], [7], [None], {"a": 1},
    datetime.date(2026, 1, 31), "no", "80", "{{ 7 * 7 }}", "$(id)", "a\nb", "Ünicode", b"bytes",
)  # fmt: skip


FILESYSTEM = {
    "name": "data", "mount": "/fsx", "gib": 1200, "throughput": 125, "associations": [{"path": "/a", "s3": "s3://a-b/c"}],
}  # fmt: skip


def every_place():
    """Return functions that put a value somewhere into valid variables."""
    for key in ("name", "region", "queues", "filesystems", "hook", "s3", "tags", "policies", "extra", "key_name"):
        yield key, lambda value, key=key: {key: value}
    for key in ("name", "instance_type", *_cluster_problems.QUEUE_DEFAULTS):
        yield f"queue {key}", lambda value, key=key: {"queues": [queue_of(**{key: value})]}
    for key in ("name", "mount", *_cluster_problems.FILESYSTEM_DEFAULTS):
        yield (
            f"filesystem {key}",
            lambda value, key=key: {"filesystems": [{**FILESYSTEM, "by_cluster": True, key: value}]},
        )
    for key in ("path", "s3", "export"):
        link = FILESYSTEM["associations"][0]
        yield (
            f"link {key}",
            lambda value, key=key, link=link: {
                "filesystems": [{**FILESYSTEM, "by_cluster": True, "associations": [{**link, key: value}]}]
            },
        )
    for key in (*HOOK, "args", "pointer"):
        yield f"hook {key}", lambda value, key=key: {"hook": {**HOOK, key: value}}
    for key in ("bucket", "prefix", "write"):
        yield f"right {key}", lambda value, key=key: {"s3": [{"bucket": "data-1", key: value}]}
    yield "tag", lambda value: {"tags": {"a": value}}


@pytest.mark.parametrize("put", [pytest.param(put, id=name) for name, put in every_place()])
def test_value_of_wrong_type_is_reported_without_traceback(put):
    for trap in TRAPS:
        given = settings(**put(trap))
        found = _cluster_problems.problems(given)
        assert all(sentence and len(sentence.splitlines()) == 1 for sentence in found)
        if not found:
            config = _cluster_config.render(given, _cluster_config.NETWORK, {})
            _cluster_config.totals(given)
            assert _cluster_lint.review(config)["problems"] is not None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": False}, "name is 'False'; use a string"),
        ({"smt": "no"}, "smt is 'no'; use true or false"),
        ({"vcpus": "96"}, "vcpus is '96'; use an integer"),
        ({"policies": "arn:aws:iam::aws:policy/A"}, "use a list of strings"),
    ],
)
def test_unexpected_yaml_values_are_reported(changes, sentence):
    assert any(sentence in problem for problem in _cluster_problems.problems(settings(queues=[queue_of(**changes)])))


def test_null_counts_as_not_set():
    nothing = {key: None for key in _cluster_problems.QUEUE_DEFAULTS if key != "count"}
    assert rendered(queues=[queue_of(**nothing)]) == rendered(queues=[queue_of()])


def test_all_problems_at_once():
    assert len(_cluster_problems.problems(settings(name="", region="", queues=[queue_of(count=-1, capacity="x")]))) == 4


def test_all_placeholders_are_reported_with_path():
    network = {"head_subnet": "subnet-00000000000000000", "groups": ["sg-0123456789abcdef0", "sg-0b7e2d41f86c93a50"]}
    given = settings(
        hook={**HOOK, "sha256": "0" * 64},
        head_ssh_cidr="203.0.113.0/24",
        ami="ami-0123456789abcdef0",
        policies=["arn:aws:iam::123456789012:policy/Mine", "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"],
        queues=[queue_of(reservation="arn:aws:resource-groups:ap-southeast-3:111122223333:group/YOUR-GROUP")],
        filesystems=[{"name": "data", "mount": "/fsx", "id": "fs-0123456789abcdef0"}],
        tags={"Note": "cr-0123456789abcdef0"},
    )
    assert _cluster_problems.problems(given) == []
    places = [sentence.split(" is ")[0] for sentence in _cluster_problems.placeholders(given, network)]
    assert sorted(places) == [
        "cluster_ami", "cluster_filesystems.data.id", "cluster_hook.sha256", "cluster_policies.0",
        "cluster_queues.gpus.reservation", "cluster_ssh_cidrs", "cluster_subnets.groups.0",
        "cluster_subnets.head_subnet",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value", ["cr-0e4b1c9a72d35f806", "10.0.0.0/8", "", "2001:db8::/32", "arn:aws:iam::aws:policy/P", "f" * 63]
)
def test_own_values_are_no_placeholders(value):
    assert _cluster_problems.placeholders({"any": [value, 7, None, {"key": value}]}, {}) == []
