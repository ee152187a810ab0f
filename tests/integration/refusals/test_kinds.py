# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of a kind that nothing can come of: each is told by its name, with what was given and what is wanted."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types as _kinds

from tests.rig import controller


def test_check_nodes_tells_all_of_them_at_once_and_looks_at_no_node(said):
    given = {
        "check_nodes_buckets": "s3://corpus/tokens",
        "check_nodes_formats": {"html": True},
        "check_nodes_image": ["one", "two"],
        "check_nodes_accept_undeterminable": "perhaps",
        "node_health_expectations": ["/fsx"],
    }
    # What one node's own variables say is told too, and an expression that cannot be read is not taken for a kind.
    nodes = {
        "n1": {"check_nodes_options": "seconds=5"},
        "n4": {"check_nodes_options": {"second": 5, "seconds": "soon", "expected_efa": "4", "mounts": "/fsx"}},
        "n2": {"check_nodes_timings": 7, "check_nodes_cluster": ["a"]},
        "n3": {"check_nodes_cluster": "{{ no }}"},
    }
    status, words = said("playbooks/check_nodes.yml", {"compute": nodes}, **given)
    assert status == 2, words
    for sentence in (
        "no node was checked: node_health_expectations is '['/fsx']', a list; give a mapping",
        "check_nodes_options is 'seconds=5', a text; give a mapping with expected_efa, instance_type, mounts, ",
        "check_nodes_buckets is 's3://corpus/tokens', a text; give a list",
        "check_nodes_formats is '{'html': True}', a mapping; give a list of texts",
        "check_nodes_image is '['one', 'two']', a list; give a text",
        "check_nodes_accept_undeterminable is 'perhaps', a text; give true or false",
        "check_nodes_cluster is '['a']', a list; give a text",
        "check_nodes_options has the key 'second', which does not exist; those that do are expected_efa, ",
        "check_nodes_options.seconds is 'soon', a text; give a whole number",
        "check_nodes_options.mounts is '/fsx', a text; give a list of texts",
    ):
        assert sentence in words, words
    assert "expected_efa is" not in words
    assert "Check the node" not in words and "check_nodes_timings" not in words.partition("fatal")[2]


def test_upgrade_nodes_tells_them_before_slurm_is_asked(said):
    given = {
        "upgrade_nodes_how": "roles",
        "upgrade_nodes_roles": "efa_nccl",
        "upgrade_nodes_drain_minutes": "two",
        "upgrade_nodes_poll_seconds": 0,
        "upgrade_nodes_proof": {"argv": ["true"]},
    }
    groups = {"head": {"h1": {}}, "compute": {"n1": {}}}
    status, words = said("playbooks/upgrade_nodes.yml", groups, **given)
    assert status == 2, words
    for sentence in (
        "n1 was not upgraded: upgrade_nodes_roles is 'efa_nccl', a text; give a list of texts",
        "upgrade_nodes_drain_minutes is 'two', a text; give a whole number",
        "upgrade_nodes_poll_seconds is '0'; give a whole number, 1 at least",
        "upgrade_nodes_proof is '{'argv': ['true']}', a mapping; give a list of texts",
    ):
        assert sentence in words, words
    assert "Ask Slurm" not in words


def test_upgrade_nodes_wants_batches_of_some_size(said):
    given = {"upgrade_nodes_how": "roles", "upgrade_nodes_batches": [1, 0]}
    status, words = said("playbooks/upgrade_nodes.yml", {"head": {"h1": {}}, "compute": {"n1": {}}}, **given)
    assert status == 2, words
    assert "nothing was upgraded: upgrade_nodes_batches is '[1, 0]'; give numbers of nodes" in words


def test_build_bundle_tells_them_before_anything_is_built(said):
    given = {
        "build_bundle_targets": "debian-py3.12",
        "build_bundle_artifacts": {"enroot": True},
        "build_bundle_compiled": "perhaps",
        "build_bundle_bucket": ["my-bucket"],
    }
    status, words = said("playbooks/build_bundle.yml", {}, **given)
    assert status == 2, words
    for sentence in (
        "nothing was built: build_bundle_targets is 'debian-py3.12', a text; give a list of texts",
        "build_bundle_artifacts is '{'enroot': True}', a mapping; give a list of texts",
        "build_bundle_compiled is 'perhaps', a text; give true or false",
        "build_bundle_bucket is '['my-bucket']', a list; give a text",
    ):
        assert sentence in words, words
    assert "Build it" not in words


def test_build_bundle_judges_every_variable_that_can_be_set():
    told = yaml.safe_load((controller.ROOT / "playbooks/vars/build_bundle.yml").read_text(encoding="utf-8"))
    names = list(told)
    assert list(told["build_bundle_spec"]) == names[: names.index("build_bundle_spec")]
    wrong = _kinds.problems(
        {name: value for name, value in told.items() if name in told["build_bundle_spec"]}, told["build_bundle_spec"]
    )
    assert list(wrong) == []


@pytest.mark.slow
def test_build_bundle_refuses_what_nothing_can_come_of(said):
    given = {"build_bundle_targets": [], "build_bundle_bucket": "s3://my-bucket/"}
    status, words = said("playbooks/build_bundle.yml", {}, **given)
    assert status == 2, words
    assert "nothing was built: build_bundle_targets is empty; name one at least, such as debian-py3.12" in words
    assert "build_bundle_bucket is 's3://my-bucket/'; give the name of a bucket and nothing else" in words
    status, words = said("playbooks/build_bundle.yml", {}, build_bundle_release="0.1.0")
    assert status == 2 and "build_bundle_release moves the pointer of a bucket; give build_bundle_bucket too" in words


CLUSTER = {"cluster_name": "train", "cluster_region": "us-east-1"}


@pytest.mark.parametrize(
    "playbook",
    [
        "create_network",
        pytest.param("create_cluster", marks=pytest.mark.slow),
        pytest.param("destroy_network", marks=pytest.mark.slow),
    ],
)
def test_playbooks_of_cluster_tell_them_before_aws_is_asked(said, playbook):
    given = {"cluster_ssh_cidrs": "10.9.0.0/16", "cluster_grafana_port": "8443", "cluster_keep": "key"}
    status, words = said(f"playbooks/{playbook}.yml", {}, **CLUSTER, **given)
    assert status == 2, words
    assert "cluster_ssh_cidrs is '10.9.0.0/16', a text; give a list of texts" in words
    # A number that -e KEY=VALUE gives is a text, and means the number.
    assert "cluster_grafana_port is" not in words and "NoCredentials" not in words


@pytest.mark.slow
def test_stage_data_tells_them(said):
    given = {"cluster_buckets": ["name=corpus"], "cluster_uploads": [], "cluster_sample_command": "check"}
    status, words = said("playbooks/stage_data.yml", {}, **CLUSTER, **given)
    assert status == 2, words
    assert "cluster_buckets is '['name=corpus']', a list; give a list of mappings" in words
    assert "cluster_sample_command is 'check', a text; give a list of texts" in words


def test_run_validation_tells_them_before_slurm_is_asked(said):
    given = {"slurm_jobs_run": "node_smoke", "slurm_jobs_build_versions": "fio=3.36", "slurm_jobs_run_nodes": 10}
    status, words = said("playbooks/run_validation.yml", {"head": {"h1": {}}, "compute": {"n1": {}}}, **given)
    assert status == 2, words
    assert "slurm_jobs_run is 'node_smoke', a text; give a list of texts" in words
    assert "slurm_jobs_build_versions is 'fio=3.36', a text; give a mapping" in words
    assert "slurm_jobs_run_nodes is" not in words and "See the cluster" not in words


@pytest.mark.slow
def test_packages_of_node_are_list(said):
    given = {"slurm_jobs_node_packages": "fio"}
    status, words = said("site.yml", {"compute": {"n1": {}}}, "--tags", "slurm_jobs_install", **given)
    assert status == 2 and "slurm_jobs_node_packages is 'fio', a text; give a list of texts" in words, words


@pytest.mark.slow
def test_hosts_are_named_by_one_pattern(said):
    status, words = said("playbooks/check_nodes.yml", {"compute": {"n1": {}}}, target={"compute": ["n1"]})
    assert (
        status == 2
        and "no node was checked: the inventory has no host in {'compute': ['n1']}; its groups are compute; check -i"
        in words
    )
    given = {"upgrade_nodes_how": "roles", "head": ["h1"]}
    status, words = said("playbooks/upgrade_nodes.yml", {"head": {"h1": {}}, "compute": {"n1": {}}}, **given)
    assert status == 2 and "use an inventory that has hosts in ['h1'] and compute" in words, words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "given", "sentence"),
    [
        ("efa_nccl", {"efa_nccl_environment": "NCCL_DEBUG=INFO"}, "is 'NCCL_DEBUG=INFO', a text; give a mapping"),
        ("enroot_pyxis", {"enroot_pyxis_conf": "A=b"}, "conf is 'A=b', a text; give a mapping"),
        ("fsx_lustre", {"fsx_lustre_classes": "a=b"}, "classes is 'a=b', a text; give a mapping"),
        ("enroot_pyxis", {"enroot_pyxis_checksums": "pyxis=0"}, "enroot_pyxis_checksums is 'pyxis=0', a text; give a"),
    ],
)
def test_role_tells_what_its_argument_spec_takes_for_mapping(said, role, given, sentence):
    status, words = said("site.yml", {"efa": {"n1": {}}, "compute": {"n1": {}}}, "--tags", role, **given)
    assert status == 2 and sentence in words, words
    assert "has no attribute" not in words
