# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Misspelt and correct tags, variables and groups."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import names

from tests.unit.checkout import CHECKOUT

KNOWN = {"nvme_raid0": {"nvme_raid0_mount_point", "nvme_raid0_layout"}, "efa_nccl": {"efa_nccl_hold"}}


def test_unknown_tag_is_named_with_nearest_and_all_tags():
    tags = {"--tags": ["nvme_riad0", "efa_nccl"], "--skip-tags": ["boot", "entirely_else"]}
    first, second = names.tag_problems(tags, names.known_tags())
    assert first == "--tags nvme_riad0: no task has that tag; did you mean nvme_raid0?"
    assert second.startswith("--skip-tags entirely_else: no task has that tag; the tags are all, always")
    assert names.tag_problems({"--tags": ["all", "nvme_raid0_verify"], "--skip-tags": []}, names.known_tags()) == []


def test_tags_of_playbook_without_tags_are_useless():
    assert names.useless_tags({"--tags": ["all"], "--skip-tags": ["x"]}, []) == names.useless_tags({}, []) == []
    assert names.useless_tags({"--tags": ["b", "a"]}, ["a"]) == [
        "--tags a,b: this playbook has no tags, so nothing would run; run it without --tags"
    ]
    for skipped in (["all"], ["x", "untagged"]):
        (sentence,) = names.useless_tags({"--tags": ["all"], "--skip-tags": skipped}, [])
        assert sentence == (
            f"--skip-tags {','.join(sorted(skipped))}: this playbook has no tags, so nothing would run; run it without "
            "--skip-tags"
        )
    assert names.useless_tags({"--skip-tags": ["tagged", "always"]}, []) == []


def test_playbook_without_tags_of_its_own_rejects_them():
    def find(node, key):
        if isinstance(node, dict):
            yield from ([node[key]] if key in node else [])
            node = list(node.values())
        for part in node if isinstance(node, list) else []:
            yield from find(part, key)

    for path in CHECKOUT.glob("playbooks/*.yml"):
        plays = yaml.safe_load(path.read_text(encoding="utf-8"))
        for options in find(plays, "mlcluster.aws.run_names"):
            own = {tag for tags in find(plays, "tags") if isinstance(tags, list) for tag in tags}
            assert options.get("has_tags", True) is bool(own - {"always"}), path.name


def test_foreign_playbook_has_only_misspelt_tags_reported():
    tags = {"--tags": ["my_own", "nvme_riad0"]}
    assert names.similar_tags(tags, names.known_tags()) == [
        "--tags nvme_riad0: mlcluster.aws has no such tag; did you mean nvme_raid0?"
    ]


def test_every_tag_of_collection_is_known():
    found = set()
    files = [*CHECKOUT.glob("playbooks/**/*.yml"), *CHECKOUT.glob("roles/*/tasks/*.yml")]
    assert len(files) > 50

    def collect(node):
        if isinstance(node, dict):
            tags = node.get("tags") or []
            found.update([tags] if isinstance(tags, str) else tags)
            node = list(node.values())
        if isinstance(node, list):
            for part in node:
                collect(part)

    for path in files:
        collect(yaml.safe_load(path.read_text(encoding="utf-8")))
    found = {tag for tag in found if "{" not in tag and not tag.startswith(("cluster", "plan"))}
    assert {"nvme_raid0", "build"} <= found
    assert found <= set(names.known_tags())


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("nvme_raid0_mount_pont", "did you mean nvme_raid0_mount_point?"),
        ("nvme_raid0_zzz", "ansible-doc -t role mlcluster.aws.nvme_raid0 lists what it reads."),
    ],
)
def test_unknown_variable_with_role_prefix_is_reported_once(variable, hint):
    hosts = {f"n{at}": [variable, "nvme_raid0_layout", "ansible_host"] for at in range(5)}
    (sentence,) = names.unknown_variables(hosts, KNOWN)
    assert sentence.startswith(f"no role reads the variable {variable} (of n0, n1, n2 and 2 more); {hint}")
    assert sentence.endswith("Correct it, or add a name of your own to mlcluster_own_variables")


def test_own_names_are_ignored():
    hosts = {"n1": ["nvme_raid0_site_a", "efa_nccl_mine", "efanccl_x", "cluster_name", "mlcluster_own_variables"]}
    assert names.unknown_variables(hosts, KNOWN, ["nvme_raid0_site_*", "efa_nccl_mine"]) == []


def test_every_variable_of_collection_is_known():
    known = names.known_variables()
    assert set(known) == set(names.ROLES) and all(len(found) > 5 for found in known.values())
    wanted = re.compile(rf"\b(?:{'|'.join(names.ROLES)})_[a-z0-9_]+(?=:| *=|\b *\}}\}})")
    texts = [
        *CHECKOUT.glob("inventories/**/*.yml"),
        *CHECKOUT.glob("playbooks/**/*.yml"),
        *CHECKOUT.glob("docs/**/*.md"),
    ]
    given = {name for path in texts for name in wanted.findall(path.read_text(encoding="utf-8"))}
    assert len(given) > 20
    everything = frozenset().union(*known.values()) | set(names.known_tags())
    assert given - everything == set()


def test_misspelt_group_is_reported():
    assert names.misnamed_groups(["efa", "instance_store", "login"], ["instance_stores", "efa", "web"]) == [
        "the inventory has no group instance_store, but one called instance_stores, whose hosts are skipped"
    ]
    assert names.misnamed_groups(["head", "login"], ["head", "ungrouped"]) == []
