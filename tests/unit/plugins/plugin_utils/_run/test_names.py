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
    assert names.useless_tags({"--tags": ["all"], "--skip-tags": ["x"]}) == names.useless_tags({}) == []
    assert names.useless_tags({"--tags": ["b", "a"]}) == [
        "--tags a,b: this playbook has no tags, so nothing would run; run it without --tags"
    ]
    for skipped in (["all"], ["x", "untagged"]):
        (sentence,) = names.useless_tags({"--tags": ["all"], "--skip-tags": skipped})
        assert sentence == (
            f"--skip-tags {','.join(sorted(skipped))}: this playbook has no tags, so nothing would run; run it without "
            "--skip-tags"
        )
    assert names.useless_tags({"--skip-tags": ["tagged", "always"]}) == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"--tags": ["all"], "--skip-tags": ["efa_nccl", "never"]},
        {"--tags": ["always", "efa_nccl_verify"]},
        {"--tags": ["tagged"], "--skip-tags": ["untagged"]},
        {"--tags": ["boot"], "--skip-tags": ["efa_nccl"]},
    ],
)
def test_tags_that_select_a_role_are_not_idle(given):
    given = {"--tags": ["all"], "--skip-tags": [], **given}
    assert names.idle_tags(given, ["efa_nccl", "nvme_raid0"]) == []


@pytest.mark.parametrize(
    ("tags", "skipped"),
    [("always", ""), ("untagged", ""), ("never", ""), ("nvme_raid0", "nvme_raid0"), ("all", "tagged"), ("boot", "all")],
)
def test_tags_that_select_no_role_are_idle(tags, skipped):
    (sentence,) = names.idle_tags({"--tags": [tags], "--skip-tags": [skipped] if skipped else []}, ["nvme_raid0"])
    options = f"--tags {tags}" + (f" --skip-tags {skipped}" if skipped else "")
    assert sentence == (
        f"{options}: no role would run; use the tag of a role (nvme_raid0), or run it without these options"
    )


def test_role_of_controller_has_its_parts_and_no_phases():
    assert names.idle_tags({"--tags": ["cluster_verify"]}, ["cluster"]) == []
    assert names.idle_tags({"--tags": ["all"], "--skip-tags": ["cluster_install"]}, ["cluster"]) == []
    for given in ({"--tags": ["boot"]}, {"--tags": ["all"], "--skip-tags": ["cluster"]}):
        assert len(names.idle_tags(given, ["cluster"])) == 1


def find(node, key):
    """Return the values of a key anywhere in parsed YAML."""
    found = [node[key]] if isinstance(node, dict) and key in node else []
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return found + [value for part in parts for value in find(part, key)]


PLAYBOOKS = sorted(CHECKOUT.glob("playbooks/*.yml"))


@pytest.fixture(params=PLAYBOOKS, ids=lambda path: path.stem)
def playbook(request):
    """Return the name of a playbook, its plays and the options of its only run_names."""
    plays = yaml.safe_load(request.param.read_text(encoding="utf-8"))
    (options,) = find(plays, "mlcluster.aws.run_names")
    return request.param.stem, plays, options


def test_every_playbook_is_tested():
    assert len(PLAYBOOKS) >= 17


def test_playbook_knows_whether_it_has_tags(playbook):
    name, plays, options = playbook
    own = {tag for tags in find(plays, "tags") if isinstance(tags, list) for tag in tags} - {"always"}
    # The tags of these are in the tasks of the roles.
    assert options.get("has_tags", True) is (bool(own) or name in ("create_cluster", "configure_node"))


def test_playbook_checks_names_in_its_first_tasks(playbook):
    name, plays, _options = playbook
    # The first play of preflight contacts nodes only to look.
    tasks = plays[1 if name == "preflight" else 0]["tasks"][:2]
    (task,) = [task for task in tasks if "mlcluster.aws.run_names" in task]
    assert task["tags"] == ["always"]


def test_tags_of_tasks_are_those_of_playbooks():
    site = yaml.safe_load((CHECKOUT / "playbooks/site.yml").read_text(encoding="utf-8"))
    included = [set(tags) for tags in find(site, "tags") if isinstance(tags, list)]
    for role in names.ROLES:
        text = (CHECKOUT / f"roles/{role}/tasks/main.yml").read_text(encoding="utf-8")
        (tags,) = names.task_tags(role)
        assert tags in included and all(tags == set(task["tags"]) for task in yaml.safe_load(text)), role
    steps = yaml.safe_load((CHECKOUT / "roles/cluster/tasks/main.yml").read_text(encoding="utf-8"))
    assert {tag for step in steps for tag in step["tags"]} == set().union(*names.task_tags("cluster"))


def test_playbook_declares_the_variables_that_it_reads(playbook):
    name, _plays, options = playbook
    assert options.get("prefix") == name and "mlcluster_own_variables" in options["own_variables"]
    first = name.split("_", 1)[0]
    texts = "".join(
        path.read_text(encoding="utf-8")
        for path in (
            CHECKOUT / f"playbooks/{name}.yml",
            *CHECKOUT.glob(f"playbooks/vars/{name}.yml"),
            *CHECKOUT.glob(f"playbooks/tasks/{'bundle' if name == 'build_bundle' else first}_*.yml"),
        )
    )
    declared = options.get("variables", [])
    if isinstance(declared, str):
        variables = yaml.safe_load((CHECKOUT / f"playbooks/vars/{name}.yml").read_text(encoding="utf-8"))
        declared = list(variables[declared.split()[1].partition(".")[0]])
    bare = ("target", "head", "follow", "follow_seconds", "plan", "mlcluster_verdict_report")
    read = set(re.findall(rf"(?<![.\w])({name}_\w+|{'|'.join(bare)}) (?:\| default\(|is (?:not )?defined)", texts))
    assigned = set(re.findall(rf"^ *(?:register: |(?=\w+:))({name}_\w+)\b", texts, re.MULTILINE))
    assert read - assigned - {"run_validation_head"} <= set(declared)
    # The roles read it, not the playbook.
    assert all(len(re.findall(rf"\b{one}\b", texts)) > 1 for one in declared if one != "configure_node_kind")


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


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("nvme_raid0_mount_pont", "did you mean nvme_raid0_mount_point?"),
        ("nvme_raid0_zzz", "ansible-doc -t role mlcluster.aws.nvme_raid0 lists what it reads."),
        ("upgrade_nodes_metod", "did you mean upgrade_nodes_method?"),
        ("upgrade_nodes_quite_else", "this playbook reads upgrade_nodes_method."),
        ("traget", "did you mean target?"),
        ("mlcluster_own_variable", "did you mean mlcluster_own_variables?"),
    ],
)
def test_unknown_variable_of_command_line_is_rejected(given, hint):
    names_given = [given, "upgrade_nodes_method", "target", "nvme_raid0_layout", "my_own"]
    (sentence,) = names.rejected_variables(names_given, KNOWN, ["upgrade_nodes_method", "target"], "upgrade_nodes")
    assert sentence == (
        f"-e {given}: nothing reads that variable; {hint} Correct it, or add a name of your own to "
        "mlcluster_own_variables"
    )
    assert names.rejected_variables([given], KNOWN, ["upgrade_nodes_method", "target"], "upgrade_nodes", [given]) == []


def test_variables_without_prefix_of_playbook_are_the_users():
    given = ["upgrade_nodes_metod", "cluster_owner", "my_target_group", "mlcluster_own_variables", "ansible_user"]
    assert names.rejected_variables(given, KNOWN, ["target"], "check_nodes") == []
    (sentence,) = names.rejected_variables(["check_nodes_x"], KNOWN, ["target"], "check_nodes")
    assert "this playbook reads none of that prefix" in sentence


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
