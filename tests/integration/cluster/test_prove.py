# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook prove_on_aws against an account of moto: no instance stays, whichever process is killed and when.

Stand-ins replace the steps that need a node. They request the account's aliases and end with a given status.
"""

from __future__ import annotations

import base64
import http.server
import json
import threading

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._prove import plan

from tests.integration.cluster.conftest import REGION
from tests.integration.cluster.policies import check_changes, check_policy

pytestmark = pytest.mark.timeout(1800)

RUN = "prove-test"
TYPE = "c5d.large"
TAGS = plan.tags(RUN)
# Resources of others: each has one of the two tags, or those of another run.
FOREIGN = (
    {"mlcluster:made-by": "prove_on_aws", "mlcluster:prove": "prove-other"},
    {"mlcluster:prove": RUN},
    {"mlcluster:made-by": "somebody", "mlcluster:prove": RUN},
)
# IAM requires these for tags in a call, and for a volume that outlives its instance.
UNASKED = ("ec2:CreateTags", "ec2:DeleteVolume")
# Called by the steps only.
STEP = "iam:ListAccountAliases"
NODE = """
- hosts: prove-node
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  tasks:
    - amazon.aws.aws_caller_info:
        region: "%s"
    - ansible.builtin.copy:
        content: "{{ report | to_json }}\n"
        dest: "{{ mlcluster_verdict_report }}"
        mode: "0600"
      vars:
        report:
          schema: mlcluster.report/1
          host: prove-node
          time: "{{ now(utc=true, fmt='%%Y-%%m-%%dT%%H:%%M:%%SZ') }}"
          results: [{id: storage.mount, status: %s, message: /data of 10.1.2.3}]
    - ansible.builtin.assert:
        that: '%s'
"""


class Prices(http.server.BaseHTTPRequestHandler):
    """A price list, which moto lacks: it has a price or none."""

    dollars = ""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        size = {"unit": "Hrs", "pricePerUnit": {"USD": self.dollars}}
        product = json.dumps({"terms": {"OnDemand": {"term": {"priceDimensions": {"size": size}}}}})
        body = json.dumps({"FormatVersion": "aws_v1", "PriceList": [product] if self.dollars else []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def prices(aws_account, monkeypatch):
    """Yield ``prices(dollars)``, which sets the price in the list."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Prices) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        aws_account.more["AWS_ENDPOINT_URL_PRICING"] = f"http://127.0.0.1:{server.server_port}"
        yield lambda dollars: monkeypatch.setattr(Prices, "dollars", dollars)
        server.shutdown()
        thread.join()


@pytest.fixture
def prove(prices, aws_account, play, tmp_path):
    """Return ``prove(*options, good=…, status=…, **variables)``: it runs the playbook with stand-ins for the steps."""
    ec2 = aws_account.client("ec2", REGION)
    images = ec2.describe_images(Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"]
    image = next(one["ImageId"] for one in images if one.get("Platform") != "windows")

    def run(*options, good="true", status="pass", **variables):
        playbook = tmp_path / "node.yml"
        playbook.write_text(NODE % (REGION, status, good), encoding="utf-8")
        steps = dict.fromkeys(("node", "site", "verify", "reboot", "uninstall"), str(playbook))
        given = {
            "type": TYPE, "image": image, "region": REGION, "ssh_cidr": "10.9.0.7/32", "run": RUN, "confirm": TYPE,
            "max_dollars_an_hour": 0.2, "folder": str(tmp_path / "runs"), "playbooks": steps, **variables,
        }  # fmt: skip
        named = {f"prove_on_aws_{name}": value for name, value in given.items() if value is not None}
        return play("prove_on_aws", *options, **named)

    return run


@pytest.fixture
def sweep(play, tmp_path):
    """Return ``sweep(run, **variables)``, which sweeps where the run was started."""

    def start(run=RUN, **variables):
        given = {"sweep": run, "region": REGION, "folder": str(tmp_path / "runs"), **variables}
        return play("prove_on_aws", **{f"prove_on_aws_{name}": value for name, value in given.items()})

    return start


def tagged(tags):
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def specification(kind, tags):
    return [{"ResourceType": kind, "Tags": tagged(tags)}]


def make_volume(ec2, tags):
    """Create an unattached volume, from a snapshot, as moto omits an empty SnapshotId and AWS does not."""
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    snapshot = ec2.describe_snapshots()["Snapshots"][0]["SnapshotId"]
    made = ec2.create_volume(
        AvailabilityZone=zone, Size=1, SnapshotId=snapshot, TagSpecifications=specification("volume", tags)
    )
    return made["VolumeId"]


@pytest.fixture
def foreign(aws_account):
    """Create resources of other owners, and check that they are unchanged after the test."""
    ec2 = aws_account.client("ec2", REGION)
    image = ec2.describe_images()["Images"][0]["ImageId"]
    for number, tags in enumerate(FOREIGN):
        ec2.run_instances(
            ImageId=image, MinCount=1, MaxCount=1, InstanceType=TYPE, TagSpecifications=specification("instance", tags)
        )
        make_volume(ec2, tags)
        ec2.create_key_pair(KeyName=f"theirs-{number}", TagSpecifications=specification("key-pair", tags))
        ec2.create_security_group(
            GroupName=f"theirs-{number}", Description="x", TagSpecifications=specification("security-group", tags)
        )
    return there(aws_account)


def there(account):
    """Return the names of all resources in the account that could cost money or open access."""
    ec2 = account.client("ec2", REGION)
    instances = [one for entry in ec2.describe_instances()["Reservations"] for one in entry["Instances"]]
    return {
        "instances": {one["InstanceId"] for one in instances if one["State"]["Name"] != "terminated"},
        "volumes": {one["VolumeId"] for one in ec2.describe_volumes()["Volumes"]},
        "keys": {one["KeyName"] for one in ec2.describe_key_pairs()["KeyPairs"]},
        "groups": {one["GroupId"] for one in ec2.describe_security_groups()["SecurityGroups"]},
    }


def evidence(tmp_path):
    text = (tmp_path / "runs" / RUN / "evidence.json").read_text(encoding="utf-8")
    return json.loads(text), text


def test_run_passes_every_step_and_leaves_nothing(aws_account, prove, foreign, tmp_path):
    aws_account.forget()
    done = prove()
    assert done.status == 0, done.output
    assert there(aws_account) == foreign
    document, text = evidence(tmp_path)
    assert {step["state"] for step in document["steps"]} == {"passed"}
    assert document["steps"][1]["verdicts"] == [{"id": "storage.mount", "status": "pass"}]
    assert (document["type"], document["schema"]) == (TYPE, "mlcluster.evidence/1")
    assert not [word for word in ("10.1.2.3", "i-", "ami-", "123456789012") if word in text]
    assert not (tmp_path / "runs" / RUN / "key").exists()
    check_policy("prove_on_aws", aws_account.operations() - {STEP}, UNASKED)
    own = plan.PROJECT
    check_changes("prove_on_aws", aws_account.changes(), own, tag=plan.PROJECT_TAG, example=own)


def test_without_consent_only_price_and_plan_are_shown(aws_account, prove, foreign):
    refused = prove(confirm=None)
    assert refused.status == 2
    assert "add -e prove_on_aws_confirm=c5d.large" in refused.output, refused.output
    assert "at most 0.20 dollars an hour by your limit, 0.40 for all of its 120 minutes" in refused.output
    assert there(aws_account) == foreign


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        pytest.param({"type": None}, "prove_on_aws_type is not given", marks=pytest.mark.slow),
        pytest.param({"type": "c5d.huge"}, f"{REGION} offers no c5d.huge", marks=pytest.mark.slow),
        pytest.param({"image": "ami-00000000000000000"}, f"{REGION} has no image ami-0000000", marks=pytest.mark.slow),
        pytest.param({"max_dollars_an_hour": None}, "the price of c5d.large is unknown", marks=pytest.mark.slow),
    ],
    ids=["no type", "unknown type", "no image", "no price"],
)
def test_impossible_request_is_rejected_in_one_sentence(aws_account, prove, variables, sentence):
    before = there(aws_account)
    refused = prove(**variables)
    assert refused.status == 2
    assert f"nothing was launched: {sentence}" in refused.output, refused.output
    assert there(aws_account) == before


@pytest.mark.slow
def test_failed_site_still_ends_instance(aws_account, prove, foreign, tmp_path):
    failed = prove(good='"/site.jsonl" not in mlcluster_verdict_report')
    assert failed.status == 2
    assert "not everything was proved" in failed.output and "site.log has the reason" in failed.output
    assert there(aws_account) == foreign
    states = {step["name"]: step["state"] for step in evidence(tmp_path)[0]["steps"]}
    assert (states["wait"], states["site"], states["verify"]) == ("passed", "failed", "not run")


@pytest.mark.slow
def test_successful_steps_without_verdicts_prove_nothing(aws_account, prove, foreign, tmp_path):
    failed = prove(status="not_applicable")
    assert failed.status == 2
    assert "not everything was proved: site has no passing verdict; verify has" in failed.output, failed.output
    assert there(aws_account) == foreign
    states = {step["name"]: step["state"] for step in evidence(tmp_path)[0]["steps"]}
    assert (states["wait"], states["site"], states["verify_after_start"]) == ("passed", "failed", "failed")


@pytest.mark.slow
def test_instance_ends_itself_without_its_controller(aws_account, prove):
    aws_account.kill_at(f"controller {STEP}")
    assert prove().status == -9
    ec2 = aws_account.client("ec2", REGION)
    (instance,) = there(aws_account)["instances"]
    asked = {"InstanceId": instance, "Attribute": "instanceInitiatedShutdownBehavior"}
    assert ec2.describe_instance_attribute(**asked)["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    data = ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"]["Value"]
    text = base64.b64decode(data).decode()
    assert text.startswith("#cloud-config") and "Persistent=true" in text


@pytest.mark.slow
def test_failed_termination_names_running_instance(aws_account, prove, sweep, foreign):
    aws_account.kill_at("ec2:TerminateInstances")
    failed = prove(good="false")
    assert failed.status == 2
    assert f"not everything of {RUN} was removed, and its instance may still run" in failed.output, failed.output
    assert (
        f"-e prove_on_aws_sweep={RUN} -e prove_on_aws_region={REGION}; before that the run had failed" in failed.output
    )
    aws_account.kill_at("")
    assert sweep().status == 0
    assert there(aws_account) == foreign


# The operations at which the controller is killed, in the order of a run: before each, and after it.
OPERATIONS = (
    "ec2:ImportKeyPair", "ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress", "ec2:RunInstances",
    STEP, "ec2:StopInstances", "ec2:StartInstances", "ec2:TerminateInstances", "ec2:DeleteKeyPair",
    "ec2:DeleteSecurityGroup",
)  # fmt: skip
LAUNCHED = "after ec2:RunInstances"
DEATHS = [f"{moment}{operation}" for operation in OPERATIONS for moment in ("", "after ")]
QUICK = (LAUNCHED,)


def die(aws_account, prove, death):
    """Run the playbook, whose controller is killed there."""
    aws_account.kill_at(f"controller {death}")
    assert prove().status == -9
    aws_account.kill_at("")


def age_record(tmp_path):
    """Set the request of the launch to some minutes ago; before, a sweep waits for the instance to be listed."""
    path = tmp_path / "runs" / RUN / "launched.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**found, "requested": found["requested"] - 301}), encoding="utf-8")


@pytest.mark.parametrize("death", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in DEATHS])
def test_sweep_removes_what_killed_controller_left(aws_account, prove, sweep, foreign, tmp_path, death):
    die(aws_account, prove, death)
    operation = death.removeprefix("after ")
    done = OPERATIONS[: OPERATIONS.index(operation) + (death != operation)]
    left = there(aws_account)
    assert (left == foreign) is (done in ((), OPERATIONS))
    is_there = "ec2:RunInstances" in done and "ec2:TerminateInstances" not in done
    assert len(left["instances"] - foreign["instances"]) == is_there
    if death == "ec2:RunInstances":
        age_record(tmp_path)
    swept = sweep()
    assert swept.status == 0, swept.output
    assert f"nothing of {RUN} is left; other runs that have something: prove-other" in swept.output
    assert there(aws_account) == foreign
    assert not (tmp_path / "runs" / RUN / "launched.json").exists()


@pytest.mark.slow
def test_new_run_is_rejected_until_the_sweep(aws_account, prove, sweep, foreign):
    die(aws_account, prove, LAUNCHED)
    left = there(aws_account)
    again = prove()
    assert again.status == 2 and f"{RUN} has the record of an earlier run" in again.output, again.output
    other = prove(run="prove-next", confirm=None)
    assert f"not swept, so its instance may still run: add -e prove_on_aws_sweep={RUN}" in other.output, other.output
    listed = sweep("list")
    assert f"/{RUN}/launched.json" in listed.output, listed.output
    assert there(aws_account) == left
    assert sweep().status == 0
    assert there(aws_account) == foreign
    assert prove().status == 0
    assert there(aws_account) == foreign


@pytest.mark.slow
def test_sweep_names_instance_whose_tags_were_removed(aws_account, prove, sweep, foreign):
    die(aws_account, prove, LAUNCHED)
    ec2 = aws_account.client("ec2", REGION)
    (instance,) = there(aws_account)["instances"] - foreign["instances"]
    ec2.delete_tags(Resources=[instance], Tags=[{"Key": plan.RUN_TAG}])
    lost = sweep()
    assert lost.status == 2 and f"kept {instance}, which {RUN} launched, since the tags" in lost.output, lost.output
    assert instance in there(aws_account)["instances"]
    ec2.terminate_instances(InstanceIds=[instance])
    assert sweep().status == 0
    assert there(aws_account) == foreign


@pytest.mark.slow
def test_sweep_removes_tagged_volumes_that_stayed(aws_account, sweep, foreign, tmp_path):
    ec2 = aws_account.client("ec2", REGION)
    own, copied = make_volume(ec2, TAGS), make_volume(ec2, TAGS)
    record(tmp_path, {"instances": ["i-0123456789abcdef0"], "volumes": [own]})
    swept = sweep()
    assert swept.status == 0 and f"kept, since the run did not make them: {copied}" in swept.output, swept.output
    assert there(aws_account)["volumes"] == foreign["volumes"] | {copied}


def record(tmp_path, launched):
    folder = tmp_path / "runs" / RUN
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "launched.json").write_text(json.dumps(launched), encoding="utf-8")


def launch_tagged(ec2, count):
    """Launch instances with the tags of the run, as "Launch more like this" of EC2 does; return their ids."""
    image = ec2.describe_images()["Images"][0]["ImageId"]
    made = ec2.run_instances(
        ImageId=image,
        MinCount=count,
        MaxCount=count,
        InstanceType=TYPE,
        TagSpecifications=specification("instance", TAGS),
    )
    return [one["InstanceId"] for one in made["Instances"]]


def test_sweep_keeps_copies_of_the_instance(aws_account, sweep, foreign, tmp_path):
    own, copy = launch_tagged(aws_account.client("ec2", REGION), 2)
    before = there(aws_account)
    lost = sweep()
    assert lost.status == 2, lost.output
    assert f"kept {own}, {copy}: " in lost.output or f"kept {copy}, {own}: " in lost.output, lost.output
    assert there(aws_account) == before
    record(tmp_path, {"instances": [own]})
    swept = sweep()
    assert swept.status == 0 and f"kept, since the run did not make them: {copy}" in swept.output, swept.output
    # The volume of an instance goes with it.
    assert there(aws_account)["instances"] == before["instances"] - {own}


@pytest.mark.slow
def test_sweep_without_record_ends_the_given_instance(aws_account, sweep, foreign):
    own, _copy = launch_tagged(aws_account.client("ec2", REGION), 2)
    before = there(aws_account)
    assert sweep(instance=own).status == 0
    # The volume of an instance goes with it.
    assert there(aws_account)["instances"] == before["instances"] - {own}


@pytest.mark.slow
@pytest.mark.parametrize("death", [LAUNCHED, STEP])
def test_run_keeps_a_copy_of_its_instance(aws_account, prove, sweep, foreign, death):
    """The controller dies, and a copy is launched before the sweep."""
    die(aws_account, prove, death)
    ec2 = aws_account.client("ec2", REGION)
    (copy,) = launch_tagged(ec2, 1)
    swept = sweep()
    assert swept.status == 0 and f"did not make them: {copy}, {RUN}, sg-" in swept.output, swept.output
    left = there(aws_account)
    assert left["instances"] == foreign["instances"] | {copy} and RUN in left["keys"]
    ec2.terminate_instances(InstanceIds=[copy])
    assert sweep().status == 0
    assert there(aws_account) == foreign


def test_sweep_rejects_invalid_run_name(sweep, foreign, aws_account):
    refused = sweep("*")
    assert refused.status == 2 and "nothing was removed: prove_on_aws_sweep is '*'" in refused.output
    listed = sweep("list")
    assert (listed.status, "prove-other" in listed.output) == (0, True), listed.output
    assert there(aws_account) == foreign
