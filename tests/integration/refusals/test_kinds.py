# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of a wrong type: the message has each one's name, its value and the expected type."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types

from tests.rig import controller


def test_check_nodes_reports_all_type_errors_first(run_playbook):
    given = {
        "check_nodes_buckets": "s3://corpus/tokens",
        "check_nodes_formats": {"html": True},
        "check_nodes_image": ["one", "two"],
        "check_nodes_accept_undeterminable": "perhaps",
        "node_health_expectations": ["/fsx"],
    }
    # Variables of single nodes are checked, too. A template that cannot be evaluated is not a type error.
    nodes = {
        "n1": {"check_nodes_options": "seconds=5"},
        "n4": {"check_nodes_options": {"second": 5, "seconds": "soon", "expected_efa": "4", "mounts": "/fsx"}},
        "n2": {"check_nodes_timings": 7, "check_nodes_cluster": ["a"]},
        "n3": {"check_nodes_cluster": "{{ no }}"},
    }
    status, output = run_playbook("playbooks/check_nodes.yml", {"compute": nodes}, **given)
    assert status == 2, output
    for sentence in (
        "no node was checked: node_health_expectations is '['/fsx']', a list; use a dictionary",
        "check_nodes_options is 'seconds=5', a string; use a dictionary with expected_efa, instance_type, mounts, ",
        "check_nodes_buckets is 's3://corpus/tokens', a string; use a list",
        "check_nodes_formats is '{'html': True}', a dictionary; use a list of strings",
        "check_nodes_image is '['one', 'two']', a list; use a string",
        "check_nodes_accept_undeterminable is 'perhaps', a string; use true or false",
        "check_nodes_cluster is '['a']', a list; use a string",
        "check_nodes_options has the key 'second', which does not exist; those that do are expected_efa, ",
        "check_nodes_options.seconds is 'soon', a string; use an integer",
        "check_nodes_options.mounts is '/fsx', a string; use a list of strings",
    ):
        assert sentence in output, output
    assert "expected_efa is" not in output
    assert "Check the node" not in output and "check_nodes_timings" not in output.partition("fatal")[2]


def test_upgrade_nodes_reports_type_errors_before_slurm_runs(run_playbook):
    given = {
        "upgrade_nodes_method": "roles",
        "upgrade_nodes_roles": "efa_nccl",
        "upgrade_nodes_drain_minutes": "two",
        "upgrade_nodes_poll_seconds": 0,
        "upgrade_nodes_proof": {"argv": ["true"]},
    }
    groups = {"head": {"h1": {}}, "compute": {"n1": {}}}
    status, output = run_playbook("playbooks/upgrade_nodes.yml", groups, **given)
    assert status == 2, output
    for sentence in (
        "n1 was not upgraded: upgrade_nodes_roles is 'efa_nccl', a string; use a list of strings",
        "upgrade_nodes_drain_minutes is 'two', a string; use an integer",
        "upgrade_nodes_poll_seconds is '0'; use an integer, 1 at least",
        "upgrade_nodes_proof is '{'argv': ['true']}', a dictionary; use a list of strings",
    ):
        assert sentence in output, output
    assert "Ask Slurm" not in output


def test_upgrade_nodes_rejects_empty_batch(run_playbook):
    given = {"upgrade_nodes_method": "roles", "upgrade_nodes_batches": [1, 0]}
    status, output = run_playbook("playbooks/upgrade_nodes.yml", {"head": {"h1": {}}, "compute": {"n1": {}}}, **given)
    assert status == 2, output
    assert "nothing was upgraded: upgrade_nodes_batches is '[1, 0]'; use numbers of nodes" in output


def test_build_bundle_reports_type_errors_before_build(run_playbook):
    given = {
        "build_bundle_targets": "debian-py3.12",
        "build_bundle_artifacts": {"enroot": True},
        "build_bundle_compiled": "perhaps",
        "build_bundle_bucket": ["my-bucket"],
    }
    status, output = run_playbook("playbooks/build_bundle.yml", {}, **given)
    assert status == 2, output
    for sentence in (
        "nothing was built: build_bundle_targets is 'debian-py3.12', a string; use a list of strings",
        "build_bundle_artifacts is '{'enroot': True}', a dictionary; use a list of strings",
        "build_bundle_compiled is 'perhaps', a string; use true or false",
        "build_bundle_bucket is '['my-bucket']', a list; use a string",
    ):
        assert sentence in output, output
    assert "Build it" not in output


def test_build_bundle_has_type_of_each_variable():
    variables = yaml.safe_load((controller.ROOT / "playbooks/vars/build_bundle.yml").read_text(encoding="utf-8"))
    names = list(variables)
    assert list(variables["build_bundle_spec"]) == names[: names.index("build_bundle_spec")]
    wrong = argument_types.problems(
        {name: value for name, value in variables.items() if name in variables["build_bundle_spec"]},
        variables["build_bundle_spec"],
    )
    assert list(wrong) == []


@pytest.mark.slow
def test_build_bundle_rejects_unusable_values(run_playbook):
    given = {"build_bundle_targets": [], "build_bundle_bucket": "s3://my-bucket/"}
    status, output = run_playbook("playbooks/build_bundle.yml", {}, **given)
    assert status == 2, output
    assert "nothing was built: build_bundle_targets is empty; name one at least, such as debian-py3.12" in output
    assert "build_bundle_bucket is 's3://my-bucket/'; use the name of a bucket and nothing else" in output
    status, output = run_playbook("playbooks/build_bundle.yml", {}, build_bundle_release="0.1.0")
    assert status == 2 and "build_bundle_release moves the pointer of a bucket; set build_bundle_bucket too" in output


CLUSTER = {"cluster_name": "train", "cluster_region": "us-east-1"}


@pytest.mark.parametrize(
    "playbook",
    [
        "create_network",
        pytest.param("create_cluster", marks=pytest.mark.slow),
        pytest.param("destroy_network", marks=pytest.mark.slow),
    ],
)
def test_cluster_playbooks_report_type_errors_before_aws_calls(run_playbook, playbook):
    given = {"cluster_ssh_cidrs": "10.9.0.0/16", "cluster_grafana_port": "8443", "cluster_keep": "key"}
    status, output = run_playbook(f"playbooks/{playbook}.yml", {}, **CLUSTER, **given)
    assert status == 2, output
    assert "cluster_ssh_cidrs is '10.9.0.0/16', a string; use a list of strings" in output
    # A number from -e KEY=VALUE is a string of digits, which is accepted.
    assert "cluster_grafana_port is" not in output and "NoCredentials" not in output


@pytest.mark.slow
def test_stage_data_reports_type_errors(run_playbook):
    given = {"cluster_buckets": ["name=corpus"], "cluster_uploads": [], "cluster_sample_command": "check"}
    status, output = run_playbook("playbooks/stage_data.yml", {}, **CLUSTER, **given)
    assert status == 2, output
    assert "cluster_buckets is '['name=corpus']', a list; use a list of dictionaries" in output
    assert "cluster_sample_command is 'check', a string; use a list of strings" in output


def test_run_validation_reports_type_errors_before_slurm_runs(run_playbook):
    given = {"slurm_jobs_run": "node_smoke", "slurm_jobs_build_versions": "fio=3.36", "slurm_jobs_run_nodes": 10}
    status, output = run_playbook("playbooks/run_validation.yml", {"head": {"h1": {}}, "compute": {"n1": {}}}, **given)
    assert status == 2, output
    assert "slurm_jobs_run is 'node_smoke', a string; use a list of strings" in output
    assert "slurm_jobs_build_versions is 'fio=3.36', a string; use a dictionary" in output
    assert "slurm_jobs_run_nodes is" not in output and "See the cluster" not in output


@pytest.mark.slow
def test_node_packages_of_wrong_type_are_rejected(run_playbook):
    given = {"slurm_jobs_node_packages": "fio"}
    status, output = run_playbook("site.yml", {"compute": {"n1": {}}}, "--tags", "slurm_jobs_install", **given)
    assert status == 2 and "slurm_jobs_node_packages is 'fio', a string; use a list of strings" in output, output


@pytest.mark.slow
def test_host_pattern_of_wrong_type_is_rejected(run_playbook):
    status, output = run_playbook("playbooks/check_nodes.yml", {"compute": {"n1": {}}}, target={"compute": ["n1"]})
    assert (
        status == 2
        and "no node was checked: the inventory has no host in {'compute': ['n1']}; its groups are compute; check -i"
        in output
    )
    given = {"upgrade_nodes_method": "roles", "head": ["h1"]}
    status, output = run_playbook("playbooks/upgrade_nodes.yml", {"head": {"h1": {}}, "compute": {"n1": {}}}, **given)
    assert status == 2 and "use an inventory that has hosts in ['h1'] and compute" in output, output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "given", "sentence"),
    [
        ("efa_nccl", {"efa_nccl_environment": "NCCL_DEBUG=INFO"}, "is 'NCCL_DEBUG=INFO', a string; use a dictionary"),
        ("enroot_pyxis", {"enroot_pyxis_conf": "A=b"}, "conf is 'A=b', a string; use a dictionary"),
        ("fsx_lustre", {"fsx_lustre_classes": "a=b"}, "classes is 'a=b', a string; use a dictionary"),
        ("enroot_pyxis", {"enroot_pyxis_checksums": "pyxis=0"}, "enroot_pyxis_checksums is 'pyxis=0', a string; use a"),
    ],
)
def test_role_rejects_string_that_argument_spec_accepts(run_playbook, role, given, sentence):
    status, output = run_playbook("site.yml", {"efa": {"n1": {}}, "compute": {"n1": {}}}, "--tags", role, **given)
    assert status == 2 and sentence in output, output
    assert "has no attribute" not in output
