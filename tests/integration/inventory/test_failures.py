# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of a region, a page or an enrichment, and their messages."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
import yaml

from tests.integration.inventory.conftest import OURS, ROOT
from tests.rig.ec2 import Endpoint, Fault, Fleet, Region, Role, Scenario, load

HOME = Region("us-east-1", (Fleet(count=2),))
BOTH = ["us-east-1", "eu-west-1"]
ROLES = (
    Role("arn:aws:iam::111122223333:role/main", "111122223333"),
    Role("arn:aws:iam::444455556666:role/other", "444455556666"),
)


def far(*faults, **more):
    return Region("eu-west-1", (Fleet(count=3),), faults, **more)


def failing(code, **more):
    return Fault("DescribeInstances", code, **more)


FAILURES = {
    "denied": (far(failing("UnauthorizedOperation")), "UnauthorizedOperation"),
    "amazon_aws_1518_not_enabled": (far(opt_in="not-opted-in"), "AuthFailure"),
    "not_subscribed": (far(failing("OptInRequired")), "OptInRequired"),
    "throttled_for_ever": (far(failing("RequestLimitExceeded")), "RequestLimitExceeded"),
    "unreachable": (far(failing("drop")), "ConnectionClosedError"),
    "broken_answer": (far(failing("cut")), "DescribeInstances failed in eu-west-1"),
    "server_error": (far(failing("InternalError")), "InternalError"),
}


@pytest.mark.parametrize(("region", "reason"), FAILURES.values(), ids=FAILURES)
def test_failed_region_does_not_affect_others(play, inventory, region, reason):
    endpoint = play(HOME, region)
    listed = inventory(endpoint, regions=BOTH)
    assert set(listed.hosts) == {host.id for host in endpoint.hosts()}
    assert listed.stderr.count("WARNING") == 1
    for word in ("eu-west-1", "DescribeInstances", reason):
        assert word in listed.stderr
    # The message does not contain the whole error page.
    assert len(listed.stderr) < 600
    assert "Traceback" not in listed.stderr


@pytest.mark.parametrize(("region", "reason"), FAILURES.values(), ids=FAILURES)
def test_failed_region_is_error_with_strict_regions(play, inventory, region, reason):
    listed = inventory(play(HOME, region), regions=BOTH, strict_regions=True)
    assert listed.hosts == {}
    assert "strict_regions" in listed.stderr and "eu-west-1" in listed.stderr and reason in listed.stderr


def test_each_failed_region_is_reported_with_its_reason(inventory):
    with Endpoint(load("trouble")) as endpoint:
        listed = inventory(endpoint, regions=["all"], max_attempts=2)
        expected = {host.id for region in ("us-east-1", "us-east-2") for host in endpoint.hosts(region)}
    assert set(listed.hosts) == expected
    failed = set(re.findall(r"failed in ([a-z]+-[a-z]+-\d)", listed.stderr))
    assert failed == {"eu-west-1", "eu-north-1", "ap-south-1", "us-west-2", "sa-east-1"}


def test_failed_inventory_can_end_command(play, inventory):
    endpoint = play(HOME, far(failing("UnauthorizedOperation")))
    path = inventory.file(inventory.options(endpoint, regions=BOTH, strict_regions=True))
    listed = inventory.command(endpoint, path, "--list", ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="true")
    assert listed.status != 0 and "eu-west-1" in listed.stderr


def test_failed_middle_page_fails_its_region(play, inventory):
    endpoint = play(
        HOME, Region("eu-west-1", (Fleet(count=25, interfaces=1),), (failing("InternalError", page=1),)), page_size=10
    )
    listed = inventory(endpoint, regions=BOTH)
    assert {host["ec2_region"] for host in listed.hosts.values()} == {"us-east-1"}
    assert "eu-west-1" in listed.stderr and "InternalError" in listed.stderr


def test_no_answering_region_is_error(play, inventory):
    listed = inventory(play(far(failing("UnauthorizedOperation"))), regions=["eu-west-1"])
    assert listed.hosts == {} and "no region answered" in listed.stderr and "UnauthorizedOperation" in listed.stderr


def test_temporary_throttling_is_retried(play, inventory):
    endpoint = play(Region("us-east-1", (Fleet(count=2),), (failing("RequestLimitExceeded", times=2),)))
    listed = inventory(endpoint, max_attempts=5)
    assert len(listed.hosts) == 2 and listed.stderr == ""
    assert endpoint.count("DescribeInstances") == 3


@pytest.mark.parametrize("mode", ["standard", "adaptive"])
def test_dropped_connection_is_retried(play, inventory, mode):
    endpoint = play(Region("us-east-1", (Fleet(count=2),), (failing("drop", times=1),)))
    assert len(inventory(endpoint, max_attempts=3, retry_mode=mode).hosts) == 2


def test_amazon_aws_2574_zero_hosts_report_account_and_filters(play, inventory):
    listed = inventory(play(Region("us-east-1"), Region("eu-west-1")), regions=BOTH, cluster_name="gone")
    assert listed.status == 0 and listed.hosts == {}
    for word in ("us-east-1", "eu-west-1", "111122223333", "parallelcluster:cluster-name", "gone", "running"):
        assert word in listed.stderr


def test_zero_hosts_after_exclusion_report_it(play, inventory):
    listed = inventory(play(HOME), include="cluster_name")
    assert listed.hosts == {} and "include and exclude leave none of the 2 instances" in listed.stderr


def test_no_credentials_is_one_sentence(play, inventory):
    endpoint = play(HOME)
    environment = {name: value for name, value in endpoint.environment().items() if "KEY" not in name}
    path = inventory.file(inventory.options(endpoint))
    listed = inventory.read(path, **environment, AWS_EC2_METADATA_DISABLED="true")
    assert "no AWS credentials were found" in listed.stderr and "Traceback" not in listed.stderr
    assert endpoint.count() == 0


def test_no_region_is_one_sentence(play, inventory):
    endpoint = play(HOME)
    inventory.environment = {}
    path = inventory.file(inventory.options(endpoint))
    listed = inventory.read(path, **{**endpoint.environment(), "AWS_EC2_METADATA_DISABLED": "true"})
    assert "no region is known" in listed.stderr and "regions" in listed.stderr and "Traceback" not in listed.stderr


def test_amazon_aws_127_unknown_profile_is_named(play, inventory):
    listed = inventory(play(HOME), profile="absent")
    assert "the AWS profile 'absent' does not exist" in listed.stderr and "Traceback" not in listed.stderr


def test_denied_credentials_are_one_sentence(play, inventory):
    endpoint = play(HOME)
    path = inventory.file(inventory.options(endpoint))
    listed = inventory.read(path, **endpoint.environment(key="AKIANOBODY"))
    assert "AuthFailure" in listed.stderr and "us-east-1" in listed.stderr and "Traceback" not in listed.stderr


def test_unreachable_endpoint_is_one_sentence(inventory):
    # Bound without a listener, so that no other program can take the port.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        path = inventory.file(inventory.options(None, endpoint_url=url))
        listed = inventory.read(path, AWS_ACCESS_KEY_ID="AKIARIGMAIN", AWS_SECRET_ACCESS_KEY="not-a-secret")
    assert listed.hosts == {} and "EndpointConnectionError" in listed.stderr and "us-east-1" in listed.stderr
    assert "Traceback" not in listed.stderr


def test_amazon_aws_566_role_asks_for_regions(play, inventory):
    region = Region("us-east-1", (Fleet(account="444455556666"),), (Fault("DescribeRegions", account="111122223333"),))
    endpoint = play(region, roles=ROLES)
    listed = inventory(endpoint, regions=["all"], assume_role_arn=ROLES[1].arn)
    assert listed.only()["ec2_account_id"] == "444455556666"
    assert [call.account for call in endpoint.calls if call.operation == "DescribeRegions"] == ["444455556666"]


def test_amazon_aws_1908_two_roles_give_hosts_of_both_accounts(play, inventory):
    endpoint = play(Fleet(count=2), Fleet(count=3, account="444455556666"), roles=ROLES)
    listed = inventory(endpoint, assume_role_arn=[role.arn for role in ROLES])
    accounts = [host["ec2_account_id"] for host in listed.hosts.values()]
    assert (accounts.count("111122223333"), accounts.count("444455556666")) == (2, 3)


def test_two_profiles_give_hosts_of_both_accounts(play, inventory):
    endpoint = play(Fleet(count=2), Fleet(count=3, account="444455556666"))
    keys = inventory.folder / "credentials"
    sections = (("one", "AKIARIGMAIN"), ("two", "AKIARIGOTHER"))
    keys.write_text(
        "".join(f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = x\n" for name, key in sections),
        encoding="utf-8",
    )
    inventory.environment = {"AWS_REGION": "us-east-1"}
    path = inventory.file(inventory.options(endpoint, profiles=["one", "gone", "two"]))
    listed = inventory.read(path, AWS_SHARED_CREDENTIALS_FILE=str(keys))
    accounts = [host["ec2_account_id"] for host in listed.hosts.values()]
    assert (accounts.count("111122223333"), accounts.count("444455556666")) == (2, 3)
    assert "the AWS profile 'gone' does not exist" in listed.stderr and "its hosts are missing" in listed.stderr


def test_external_id_and_session_name_are_passed_on(inventory):
    role = Role("arn:aws:iam::444455556666:role/guarded", "444455556666", external_id="secret-word")
    with Endpoint(Scenario((Region("us-east-1", (Fleet(account="444455556666"),)),), roles=(role,))) as endpoint:
        options = {"assume_role_arn": role.arn, "assume_role_session_name": "nightly"}
        refused = inventory(endpoint, **options)
        assert refused.hosts == {} and role.arn in refused.stderr and "AccessDenied" in refused.stderr
        assert len(inventory(endpoint, **options, assume_role_external_id="secret-word").hosts) == 1
        asked = [call.parameters for call in endpoint.calls if call.operation == "AssumeRole"]
    assert {one["RoleSessionName"] for one in asked} == {"nightly"}


ENRICHMENTS = {
    "health": ("DescribeInstanceStatus", "ec2_health"),
    "topology": ("DescribeInstanceTopology", "ec2_network_nodes"),
    "capacity": ("DescribeCapacityReservations", "ec2_capacity"),
    "ssm": ("DescribeInstanceInformation", "ec2_ssm_ping_status"),
    "slurm_names": ("Scan", "ec2_slurm_node_name"),
}


@pytest.mark.parametrize("name", ENRICHMENTS)
def test_failed_enrichment_affects_nothing_else(play, inventory, cluster, name):
    operation, variable = ENRICHMENTS[name]
    code = "UnauthorizedOperation" if operation.startswith("DescribeC") else "AccessDeniedException"
    endpoint = play(Region("us-east-1", cluster, (Fault(operation, code),)))
    listed = inventory(endpoint, enrich=list(ENRICHMENTS))
    assert set(listed.hosts) == {host.id for host in endpoint.hosts()}
    assert all(not host[variable] for host in listed.hosts.values())
    assert listed.stderr.count("WARNING") == 1
    for word in (name, operation, "us-east-1", code):
        assert word in listed.stderr
    others = {kept for _operation, kept in ENRICHMENTS.values()} - {variable, "ec2_capacity"}
    for kept in others:
        assert any(host[kept] for host in listed.hosts.values()), kept


def test_types_come_from_table_when_call_is_denied(play, inventory, cluster):
    endpoint = play(Region("us-east-1", cluster, (Fault("DescribeInstanceTypes"),)))
    listed = inventory(endpoint)
    assert "DescribeInstanceTypes failed in us-east-1" in listed.stderr
    gpus = [host["ec2_accelerators"] for host in listed.hosts.values() if host["ec2_instance_type"] == "p5.48xlarge"]
    assert {(one["kind"], one["count"], one["source"]) for one in gpus} == {("gpu", 8, "table")}
    assert len(listed.groups["gpu"]) == 3


def test_slow_region_does_not_delay_others(play, inventory):
    # The delay is long enough for a busy machine to read the other region.
    endpoint = play(HOME, far(latency_ms=600_000))
    endpoint.prepare()
    listed = inventory(endpoint, regions=BOTH, read_timeout=10)
    assert {host["ec2_region"] for host in listed.hosts.values()} == {"us-east-1"}
    assert listed.stderr.count("WARNING") == 1 and "eu-west-1: ReadTimeoutError" in listed.stderr


def test_ctrl_c_ends_run_with_hanging_region(tmp_path):
    scenario = Scenario(regions=(HOME, far(latency_ms=120_000), Region("us-west-2", (Fleet(),), latency_ms=120_000)))
    with Endpoint(scenario) as endpoint:
        path = tmp_path / "t.ec2_nodes.yml"
        path.write_text(
            yaml.safe_dump({"plugin": OURS, "regions": [*BOTH, "us-west-2"], "read_timeout": 100}), encoding="utf-8"
        )
        environment = {**os.environ, **endpoint.environment(), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections")}
        environment["ANSIBLE_INVENTORY_ENABLED"] = OURS
        run = subprocess.Popen(
            [sys.executable, "-m", "ansible", "inventory", "-i", str(path), "--list"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            deadline = time.monotonic() + 60
            while endpoint.count("DescribeInstances") < 3 and time.monotonic() < deadline:
                assert run.poll() is None, run.communicate()
                time.sleep(0.05)
            assert endpoint.count("DescribeInstances") >= 3, "the regions were not asked within 60 s"
            run.send_signal(signal.SIGINT)
            # Far less than the delay of the regions.
            _out, err = run.communicate(timeout=60)
        finally:
            run.kill()
            run.wait()
    assert run.returncode == 99 and "interrupted" in err.lower(), err
