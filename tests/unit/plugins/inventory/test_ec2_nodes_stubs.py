# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that the fake endpoint cannot make, from botocore's own stubs: messages and remaining hosts."""

from __future__ import annotations

import botocore.exceptions
import botocore.stub
import pytest
from ansible.errors import AnsibleParserError
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import session as _ec2_session

EAST, WEST = "us-east-1", "us-west-2"
URL = "https://ec2.us-east-1.amazonaws.com/"
DENIED = (
    "User: arn:aws:sts::111122223333:assumed-role/reader/me is not authorized to perform: ec2:DescribeInstances "
    "because no identity-based policy allows the ec2:DescribeInstances action"
)


def instance(number, state="running", **more):
    return {
        "InstanceId": f"i-{number:017x}",
        "InstanceType": "p5.48xlarge",
        "State": {"Code": 16, "Name": state},
        **more,
    }


def page(*instances, token=None):
    answer = {"Reservations": [{"OwnerId": "111122223333", "Instances": list(instances)}]}
    return {**answer, "NextToken": token} if token else answer


@pytest.fixture
def stub(environment):
    """Return a function that sets the answers of a region's client in order; stub.fail makes it raise."""
    stubs = {}
    real = _ec2_session.Aws.client
    environment.setenv("AWS_ACCESS_KEY_ID", "AKIASTUB")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")

    def client(self, service, region, credentials):
        made = real(self, service, region, credentials)
        if (region, service) in stubs:
            stubs[region, service](made)
        return made

    def prepare(region, *steps, service="ec2"):
        def apply(made):
            stubber = botocore.stub.Stubber(made)
            for operation, answer in steps:
                if isinstance(answer, tuple):
                    stubber.add_client_error(operation, answer[0], answer[1], http_status_code=answer[2])
                else:
                    stubber.add_response(operation, answer)
            stubber.activate()

        stubs[region, service] = apply

    def fail(region, error, service="ec2"):
        def raise_it(**_arguments):
            raise error

        stubs[region, service] = lambda made: made.meta.events.register("before-send", raise_it)

    environment.setattr(_ec2_session.Aws, "client", client)
    prepare.fail = fail
    return prepare


API = {
    "denied": ("UnauthorizedOperation", DENIED, 403, "because no identity-based policy allows"),
    "throttled": ("RequestLimitExceeded", "Request limit exceeded.", 503, "RequestLimitExceeded: Request limit"),
    "throttled_otherwise": ("Throttling", "Rate exceeded", 400, "Throttling: Rate exceeded"),
    "expired_token": ("ExpiredToken", "The provided token has expired.", 400, "expired. (log in again"),
    "expired_request": ("RequestExpired", "Request has expired.", 400, "check the clock"),
    "bad_credentials": ("AuthFailure", "AWS was not able to validate the keys", 401, "the keys may be wrong"),
    "bad_signature": ("SignatureDoesNotMatch", "The request signature we calculated does not match", 403, "signature"),
    "blocked_account": ("Blocked", "This account is currently blocked.", 403, "Blocked: This account"),
    "not_opted_in": ("OptInRequired", "You are not subscribed to this service.", 401, "not enabled for this account"),
    "broken_service": ("Unavailable", "The service is unavailable. Please try again shortly.", 503, "Unavailable"),
}


@pytest.mark.parametrize(("name", "message", "status", "words"), API.values(), ids=API)
def test_api_error_is_one_sentence_and_other_region_stays(stub, load, warnings, name, message, status, words):
    stub(EAST, ("describe_instances", (name, message, status)))
    stub(WEST, ("describe_instances", page(instance(1))))
    inventory = load(regions=[EAST, WEST], hardware="table")
    assert [inventory.vars(host)["ec2_region"] for host in inventory.hosts] == [WEST]
    (warning,) = warnings
    assert warning.startswith(f"mlcluster.aws.ec2_nodes: DescribeInstances failed in us-east-1: {name}: ")
    assert words in warning and "\n" not in warning


@pytest.mark.parametrize(("name", "message", "status", "words"), API.values(), ids=API)
def test_api_error_in_all_regions_is_one_sentence(stub, load, name, message, status, words):
    stub(EAST, ("describe_instances", (name, message, status)))
    with pytest.raises(AnsibleParserError) as caught:
        load(regions=EAST)
    assert words in str(caught.value) and "no region answered" in str(caught.value)


def test_encoded_part_of_denial_is_left_out(stub, load):
    message = "You are not authorized to perform this operation. Encoded authorization failure message: " + "x" * 2000
    stub(EAST, ("describe_instances", ("UnauthorizedOperation", message, 403)))
    with pytest.raises(AnsibleParserError, match=r"not authorized to perform this operation\.; no region") as caught:
        load(regions=EAST)
    assert "xxx" not in str(caught.value)


CONNECTION = {
    "endpoint_down": botocore.exceptions.EndpointConnectionError(endpoint_url=URL),
    "no_route": botocore.exceptions.ConnectTimeoutError(endpoint_url=URL),
    "never_answers": botocore.exceptions.ReadTimeoutError(endpoint_url=URL),
    "untrusted": botocore.exceptions.SSLError(endpoint_url=URL, error="certificate verify failed"),
    "proxy": botocore.exceptions.ProxyConnectionError(proxy_url="http://proxy:3128"),
    "sso": botocore.exceptions.UnauthorizedSSOTokenError(),
    "no_sso_token": botocore.exceptions.SSOTokenLoadError(error_msg="Token for lab does not exist"),
    "process": botocore.exceptions.CredentialRetrievalError(provider="custom-process", error_msg="exit 1"),
    "half_keys": botocore.exceptions.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
    "keys_gone": botocore.exceptions.NoCredentialsError(),
    "metadata": botocore.exceptions.MetadataRetrievalError(error_msg="no answer"),
}


@pytest.mark.parametrize("error", CONNECTION.values(), ids=CONNECTION)
def test_network_error_is_one_sentence_and_other_region_stays(stub, load, warnings, error):
    stub.fail(EAST, error)
    stub(WEST, ("describe_instances", page(instance(1))))
    inventory = load(regions=[EAST, WEST], hardware="table", max_attempts=1)
    assert [inventory.vars(host)["ec2_region"] for host in inventory.hosts] == [WEST]
    (warning,) = warnings
    assert f"DescribeInstances failed in us-east-1: {type(error).__name__}: " in warning and "\n" not in warning


def test_repeated_page_token_fails_region(stub, load, warnings):
    stub(EAST, *[("describe_instances", page(instance(number), token="same")) for number in range(5)])
    stub(WEST, ("describe_instances", page(instance(9))))
    inventory = load(regions=[EAST, WEST], hardware="table")
    assert [inventory.vars(host)["ec2_region"] for host in inventory.hosts] == [WEST]
    assert len(warnings) == 1 and "PaginationError" in warnings[0] and "us-east-1" in warnings[0]


def test_instance_on_two_pages_is_one_host_in_later_state(stub, load):
    first = page(instance(1), instance(2), token="next")
    stub(EAST, ("describe_instances", first), ("describe_instances", page(instance(2, "stopping"), instance(3))))
    inventory = load(regions=EAST, hardware="table", states=["running", "stopping"])
    assert len(inventory.hosts) == 3
    assert [inventory.vars(host)["ec2_state"] for host in inventory.hosts] == ["running", "stopping", "running"]


def test_instance_without_details_is_host(stub, load, warnings):
    bare = {"InstanceId": "i-1", "InstanceType": "p5.48xlarge"}
    stub(EAST, ("describe_instances", {"Reservations": [{"Instances": [bare]}, {}]}))
    inventory = load(regions=EAST, hardware="table", hostnames=["tag:Name", "private_dns", "private_ip"])
    values = inventory.vars("i-1")
    assert (values["ansible_host"], values["ec2_tags"], values["ec2_state"]) == ("i-1", {}, None)
    assert inventory.group("gpu") == ["i-1"] and warnings == []


def test_terminated_instance_does_not_affect_others_health(stub, load, warnings):
    statuses = {"InstanceStatuses": [{"InstanceId": instance(1)["InstanceId"], "InstanceStatus": {"Status": "ok"}}]}
    missing = ("InvalidInstanceID.NotFound", "The instance ID 'i-2' does not exist", 400)
    stub(
        EAST,
        ("describe_instances", page(instance(1), instance(2))),
        ("describe_instance_status", missing),
        ("describe_instance_status", statuses),
    )
    inventory = load(regions=EAST, hardware="table", enrich=["health"])
    first, second = (inventory.vars(host)["ec2_health"] for host in inventory.hosts)
    assert first["instance"] == "ok" and second is None and warnings == []


def test_unreadable_table_does_not_affect_other_cluster(stub, load, warnings):
    def tagged(number, cluster):
        keys = {"parallelcluster:cluster-name": cluster, "parallelcluster:node-type": "Compute"}
        return instance(number, Tags=[{"Key": key, "Value": value} for key, value in keys.items()])

    names = {"Items": [{"Id": {"S": "q-dy-b-1"}, "InstanceId": {"S": tagged(2, "b")["InstanceId"]}}]}
    stub(EAST, ("describe_instances", page(tagged(1, "a"), tagged(2, "b"))))
    stub(EAST, ("scan", ("ResourceNotFoundException", "no such table", 400)), ("scan", names), service="dynamodb")
    inventory = load(regions=EAST, hardware="table", enrich=["slurm_names"])
    assert [inventory.vars(host)["ec2_slurm_node_name"] for host in inventory.hosts] == [None, "q-dy-b-1"]
    (warning,) = warnings
    assert "slurm_names is missing for 1 hosts of us-east-1: Scan failed: ResourceNotFoundException" in warning


def test_two_roles_of_one_account_list_each_host_once(stub, load):
    role = {
        "Credentials": {
            "AccessKeyId": "AKIAROLE00000000",
            "SecretAccessKey": "s",
            "SessionToken": "t",
            "Expiration": "2030-01-01T00:00:00Z",
        }
    }
    stub(EAST, ("assume_role", role), ("assume_role", role), service="sts")
    stub(EAST, ("describe_instances", page(instance(1))))
    roles = [f"arn:aws:iam::111122223333:role/{name}" for name in ("one", "two")]
    assert load(regions=EAST, hardware="table", assume_role_arn=roles).hosts == [instance(1)["InstanceId"]]
