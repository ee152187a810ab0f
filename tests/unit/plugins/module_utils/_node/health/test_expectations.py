# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.look import Options, look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import expectations as health_expect
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import light as health_light
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.s3 import Bucket

from tests.unit.fakes.fake_training_host import TrainingHost, eight_gpus, good_node, missing, unit

SITE = {
    "versions": {"driver": ">=580.95", "kernel": "6.8.0-*"},
    "mounts": ["/fsx", "/home"],
    "thresholds": {"root_free_percent": 10},
    "buckets": ["s3://corpus/tokens"],
    "types": {
        "p5*": {"gpus": 8, "versions": {"kernel": "6.8.0-1030-aws"}, "thresholds": {"gpu_celsius": 85}},
        "p5.48xlarge": {"efa": 32, "mounts": ["/fsx"]},
        "trn1*": {"gpus": 0},
    },
}


def test_type_overrides_site_for_all_nodes():
    assert health_expect.problems(SITE) == []
    found = health_expect.resolve(SITE, "p5.48xlarge")
    assert found.versions == {"driver": ">=580.95", "kernel": "6.8.0-1030-aws"}
    assert found.thresholds == {"root_free_percent": 10, "gpu_celsius": 85}
    assert (found.gpus, found.efa, found.disks, found.mounts) == (8, 32, None, ("/fsx",))
    assert found.buckets == (Bucket("corpus", "tokens"),)
    other = health_expect.resolve(SITE, "m7i.large")
    assert (other.gpus, other.mounts, other.versions["kernel"]) == (None, ("/fsx", "/home"), "6.8.0-*")
    # Merging for one node has not changed the site's data.
    assert SITE["versions"]["kernel"] == "6.8.0-*"


def test_documentation_example_is_valid():
    text = (Path(__file__).parents[6] / "docs" / "health.md").read_text(encoding="utf-8")
    (block,) = (
        found for found in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "node_health_expectations" in found
    )
    example = yaml.safe_load(block)["node_health_expectations"]
    assert health_expect.problems(example) == []
    assert set(example) == {*health_expect.KEYS, "types"} - {"efa", "gpus", "disks", "mig"}
    found = health_expect.resolve(example, "p5.48xlarge")
    assert (found.gpus, found.disks, found.efa, found.thresholds["gpu_celsius"]) == (8, 8, 32, 85)
    assert health_expect.resolve(example, "g6.xlarge").mounts == ()
    assert (found.mig, health_expect.resolve(example, "p4d.24xlarge").mig) == (False, True)


def test_empty_expectations_have_no_verdicts():
    nothing = health_expect.resolve({}, None)
    assert nothing == health_expect.Expectations()
    assert health_expect.check_devices(TrainingHost(), nothing) == []
    host = TrainingHost()
    assert health_expect.check_services(host, nothing) == [] and host.calls == []


def test_resolved_types_pass():
    """A node whose type was not known once is drained for this check."""
    found = health_expect.resolve({"types": {"g6*": {"gpus": 8}}}, "p5.48xlarge")
    (one,) = health_expect.check_devices(TrainingHost(), found)
    assert (one.id, one.status, one.found) == ("expect.type", "pass", "p5.48xlarge")
    assert health_expect.dropped(health_expect.resolve({"types": {"*": {}}}, None)) == []


DROPPED = {
    *(f"expect.{name}" for name in ("gpus", "disks", "mount", "devices", "type", "service", "version", "held")),
    *(f"s3.{right}" for right in ("list", "read", "write")),
}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, set()),
        ({"gpus": 0}, {"gpus", "devices"}),
        ({"disks": 0}, {"disks", "devices"}),
        ({"mounts": ["/fsx"]}, {"mount", "devices"}),
        ({"types": {"p5*": {}}}, {"type", "devices"}),
        ({"services": ["chronyd"]}, {"service"}),
        ({"versions": {"driver": "1"}}, {"version"}),
        ({"held": ["nvidia-*"]}, {"held"}),
        # The look at all places has the name of the first right.
        ({"buckets": [{"url": "s3://data/in", "rights": ["write"]}]}, {"s3.list", "s3.write"}),
    ],
)
def test_check_without_expectation_is_dropped(given, kept):
    found = health_expect.dropped(health_expect.resolve(given, "p5.48xlarge"))
    assert {one.id for one in found} == DROPPED - {name if "." in name else f"expect.{name}" for name in kept}
    assert {one.status for one in found} == {"not_applicable"}


def test_unresolved_types_are_reported():
    found = health_expect.resolve({"types": {"*": {"gpus": 8}}}, None)
    (one,) = health_expect.check_devices(TrainingHost(), found)
    assert (one.id, one.status, "* of the expectations" in one.reason) == ("expect.type", "undeterminable", True)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "the expectations are []: use a dictionary of versions, "),
        ({"schema": "x/1"}, "the expectations are of 'x/1': this version reads mlcluster.expectations/1"),
        ({"driver": "580"}, "driver is not known: choose from versions, efa, gpus"),
        ({"versions": {"driver": 580.95}}, "versions.driver is 580.95: use a version in quotes"),
        ({"versions": {"driver": ">= new"}}, "versions.driver is '>= new': use a version in quotes"),
        ({"versions": ["580"]}, "versions is ['580']: use a dictionary such as driver"),
        ({"versions": {"drivr": "580"}}, "versions.'drivr' is not known: choose from kernel, os, driver"),
        ({"versions": {"package": "580"}}, "versions.'package' is not known: choose from kernel, os, driver"),
        ({"versions": {"package nvidia-*": "580"}}, "versions.'package nvidia-*' is not known: choose from kernel"),
        ({"versions": {580: "580"}}, "versions.580 is not known: choose from kernel, os, driver"),
        ({"efa": -1}, "efa is -1: use 0 to 1000"),
        ({"gpus": True}, "gpus is True: use 0 to 1000"),
        ({"mounts": "/fsx"}, "mounts is '/fsx': use a list of non-empty strings"),
        ({"mounts": ["fsx"]}, "mounts has 'fsx': use absolute paths"),
        ({"services": [""]}, "services is ['']: use a list of non-empty strings"),
        ({"allowed_xids": ["13"]}, "allowed_xids is ['13']: use a list of numbers"),
        ({"mig": "yes"}, "mig is 'yes': use true or false"),
        ({"mig": 1}, "mig is 1: use true or false"),
        ({"thresholds": {"heat": 3}}, "thresholds.heat is not known: choose from scratch_free_percent"),
        ({"thresholds": {"root_free_percent": 101}}, "thresholds.root_free_percent is 101: use 0 to 100"),
        ({"thresholds": []}, "thresholds is []: use a dictionary of scratch_free_percent"),
        ({"types": ["p5"]}, "types is ['p5']: use a dictionary of instance types"),
        ({"types": {"p5*": 8}}, "types.p5* is 8: use a dictionary of versions"),
        ({"types": {5: {}}}, "types has 5: use instance types"),
        ({"types": {"p5*": {"gpu": 8}}}, "types.p5*.gpu is not known: choose from versions"),
        ({"types": {"p5*": {"types": {}}}}, "types.p5*.types is not known: choose from versions"),
        ({"buckets": "s3://a"}, "buckets is 's3://a': use a list of s3://BUCKET/PREFIX"),
        ({"buckets": ["http://abc"]}, "buckets[0].url is 'http://abc': use s3://BUCKET"),
        ({"buckets": [{"url": "s3://abc/d", "right": ["list"]}]}, "buckets[0] is {'url': 's3://abc/d'"),
        ({"buckets": [{"url": "s3://abc/d", "rights": ["all"]}]}, "buckets[0].rights is ['all']: use a list of list"),
        ({"buckets": [{"url": "s3://abc", "rights": ["write"]}]}, "buckets[0] has the right write: use a prefix"),
        # The AWS CLI would put the content of the file in the place of the name.
        ({"buckets": [{"url": "s3://abc", "key": "file:///x"}]}, "buckets[0] has the key 'file:///x': use one that"),
        ({"buckets": [{"url": "s3://abc", "key": "-x"}]}, "buckets[0] has the key '-x': use one that begins neither"),
        ({"buckets": ["s3://abc/http://x"]}, "buckets[0] has the prefix 'http://x': use one that begins neither"),
        ({"buckets": [{"url": "s3://abc", "key": ""}]}, "buckets[0].key is '': use the whole name"),
    ],
)
def test_invalid_expectation_gives_one_sentence(given, sentence):
    (problem,) = health_expect.problems(given)
    assert problem.startswith(sentence), problem


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ({"gpus": 0, "disks": 0, "efa": 0}, True),
        ({"gpus": 1000, "disks": 1000, "efa": 1000}, True),
        ({"gpus": 1001}, False),
        ({"disks": 1001}, False),
        ({"allowed_xids": [1, 999]}, True),
        ({"allowed_xids": [0]}, False),
        ({"allowed_xids": [1000]}, False),
        ({"allowed_xids": [True]}, False),
        ({"thresholds": {"root_free_percent": 0, "scratch_free_percent": 0, "gpu_celsius": 1}}, True),
        ({"thresholds": {"root_free_percent": 100, "scratch_free_percent": 100, "gpu_celsius": 200}}, True),
        ({"thresholds": {"root_free_percent": -0.5}}, False),
        ({"thresholds": {"scratch_free_percent": 100.5}}, False),
        ({"thresholds": {"scratch_free_percent": -0.5}}, False),
        ({"thresholds": {"gpu_celsius": 0.5}}, False),
        ({"thresholds": {"gpu_celsius": 200.5}}, False),
        ({"thresholds": {"gpu_celsius": True}}, False),
        ({"thresholds": {"gpu_celsius": float("nan")}}, False),
        ({"versions": {"driver": ""}}, False),
        ({"versions": {"driver": ">="}}, False),
        ({"versions": {"driver": "new"}}, True),
        ({"mounts": ["/a\0b"]}, False),
        ({"types": {"": {}}}, False),
        ({"schema": "mlcluster.expectations/1"}, True),
    ],
)
def test_limits_of_expectations(given, right):
    assert len(health_expect.problems(given)) == (0 if right else 1)


def test_invalid_value_is_shown_in_part():
    (problem,) = health_expect.problems({"mounts": "/" * 70})
    assert problem.startswith(f"mounts is '{'/' * 59}: use")


def test_all_problems_are_reported_together():
    given = {"driver": "580", "efa": -1, "types": {"p5*": {"gpu": 8, "disks": "8"}}}
    assert len(health_expect.problems(given)) == 4


@pytest.mark.parametrize(
    ("wanted", "have", "status"),
    [
        ("580.95.05", "580.95.05", "pass"),
        ("580.95.05", "580.95.06", "fail"),
        ("580.*", "580.95.06", "pass"),
        (">=580.95", "580.95.05", "pass"),
        (">= 580.95", "570.172.08", "fail"),
        (">=580.95", "570.172.08", "fail"),
        (">=580.95", "unknown", "undeterminable"),
        ("580.95.05", None, "fail"),
    ],
)
def test_version_is_compared_with_expectation(wanted, have, status):
    expect = health_expect.resolve({"versions": {"driver": wanted}}, "p5.48xlarge")
    (one,) = health_expect.judge_versions(expect, {"driver": have} if have else {})
    assert (one.id, one.status, one.scope.device, one.expected) == ("expect.version", status, "driver", wanted)


def test_unreadable_version_is_undeterminable():
    expect = health_expect.resolve({"versions": {"efa_driver": "3.*", "package zsh": ">=5"}}, None)
    assert health_expect.packages(expect) == ("zsh",)
    found = health_expect.judge_versions(expect, {}, ["efa_driver"])
    assert [(one.scope.device, one.status) for one in found] == [
        ("efa_driver", "undeterminable"),
        ("package zsh", "fail"),
    ]


def test_expected_packages_have_to_be_held():
    expect = health_expect.resolve({"held": ["linux-*", "nvidia-*"]}, None)
    both = ["linux-aws", "linux-image-aws", "zsh"]
    found = health_expect.judge_held(expect, both, both[:2], True)
    assert [(one.status, one.found) for one in found] == [("pass", "linux-aws, linux-image-aws"), ("fail", None)]
    assert found[1].message == "no such package is installed"
    assert {one.status for one in health_expect.judge_held(expect, both, both, False)} == {"undeterminable"}


def test_one_held_package_of_a_pattern_is_not_enough():
    expect = health_expect.resolve({"held": ["nvidia-*"]}, None)
    names = [f"nvidia-{number:02}" for number in range(12)]
    (one,) = health_expect.judge_held(expect, names, names[:1], True)
    assert (one.status, one.expected, one.found) == ("fail", 12, 1)
    assert one.message.endswith(
        "of nvidia-01, nvidia-02, nvidia-03, nvidia-04, nvidia-05, nvidia-06, nvidia-07, nvidia-08 and 3 more"
    )


@pytest.mark.parametrize(("number", "rest"), [(8, ""), (9, " and 1 more")])
def test_eight_packages_without_hold_are_named(number, rest):
    names = [f"nvidia-{at}" for at in range(number)]
    (one,) = health_expect.judge_held(health_expect.resolve({"held": ["nvidia-*"]}, None), names, [], True)
    assert one.message.endswith(f"of {', '.join(names[:8])}{rest}")


@pytest.mark.parametrize(("there", "severity"), [(7, "isolate"), (9, "monitor")])
def test_other_number_of_gpus_fails(there, severity):
    host = TrainingHost()
    for number in range(there):
        host.files[f"/proc/driver/nvidia/gpus/{number}/information"] = ""
    (one,) = health_expect.check_devices(host, health_expect.resolve({"gpus": 8}, None))
    assert (one.status, one.severity, one.expected, one.found, one.unit) == ("fail", severity, 8, there, "gpus")


def test_instance_store_disks_are_counted_by_model():
    host = TrainingHost()
    models = [
        "Amazon EC2 NVMe Instance Storage  \n",
        "Amazon Elastic Block Store\n",
        "Amazon EC2 NVMe Instance Storage\n",
    ]
    for number, model in enumerate(models):
        host.files[f"/sys/class/nvme/nvme{number}/model"] = model
    (one,) = health_expect.check_devices(host, health_expect.resolve({"disks": 2}, None))
    assert (one.id, one.status, one.found) == ("expect.disks", "pass", 2)


def test_mounts_and_device_counts_are_checked():
    host = good_node()
    host.files["/proc/self/mountinfo"] = "60 1 0:50 / /fsx rw shared:1 - lustre 10.0.1.5@tcp:/abcd rw\n"
    for number in range(7):
        host.files[f"/proc/driver/nvidia/gpus/{number}/information"] = ""
    expect = health_expect.resolve({"mounts": ["/fsx", "/home"], "gpus": 8, "disks": 0}, "p5.48xlarge")
    found = {
        (one.id, one.scope.device): (one.status, one.severity) for one in health_expect.check_devices(host, expect)
    }
    assert found == {
        ("expect.gpus", None): ("fail", "isolate"),
        ("expect.disks", None): ("pass", "none"),
        ("expect.mount", "/fsx"): ("pass", "none"),
        ("expect.mount", "/home"): ("fail", "reset"),
    }


def test_automount_alone_is_undeterminable():
    host = TrainingHost()
    auto = "60 1 0:50 / /fsx rw - autofs systemd-1 rw\n"
    expect = health_expect.resolve({"mounts": ["/fsx"]}, None)
    host.files["/proc/self/mountinfo"] = auto
    (one,) = health_expect.check_devices(host, expect)
    assert (one.id, one.status, one.hint) == ("expect.mount", "undeterminable", "look with 'ls /fsx'")
    host.files["/proc/self/mountinfo"] = auto + "61 60 0:51 / /fsx rw - lustre 10.0.1.5@tcp:/abcd rw\n"
    (one,) = health_expect.check_devices(host, expect)
    assert (one.status, one.found) == ("pass", "lustre from 10.0.1.5@tcp:/abcd")


def test_services_are_found_by_any_name():
    host = TrainingHost()
    host.commands["systemctl show"] = "\n".join(
        [
            unit("chrony.service", Names="chrony.service chronyd.service"),
            unit("mount-s3.service", Names="mount-s3.service", ActiveState="failed"),
            unit("slurmd.service", Names="slurmd.service", ActiveState="reloading"),
            unit("gone.service", Names="gone.service", LoadState="not-found", ActiveState="inactive"),
        ]
    )
    expect = health_expect.resolve({"services": ["chronyd", "mount-s3.service", "slurmd", "gone", "unlisted"]}, None)
    found = {one.scope.device: (one.status, one.found) for one in health_expect.check_services(host, expect)}
    assert found == {
        "chronyd": ("pass", "active"),
        "mount-s3.service": ("fail", "failed"),
        "slurmd": ("pass", "reloading"),
        "gone": ("fail", "inactive"),
        "unlisted": ("undeterminable", None),
    }
    host.commands["systemctl show"] = missing("systemctl show")
    found = health_expect.check_services(host, expect)
    assert {one.status for one in found} == {"undeterminable"} and len(found) == 5
    assert {one.reason for one in found} == {"systemctl show: the program is not installed"}


def test_allowed_xids_are_counted_and_not_judged():
    host = good_node()
    line = "2026-01-31T11:{:02}:00+0000 ip-10-0-0-1 kernel: NVRM: Xid (PCI:0000:51:00): {}, pid=1, what\n"
    host.commands["journalctl -k"] += line.format(1, 79) + line.format(2, 79) + line.format(3, 13)
    facts = look(host, Options())
    strict, patient = (
        {one.id: one for one in health_light.judge_accelerators(facts, allowed)} for allowed in ((), (79,))
    )
    assert (strict["gpu.xid"].status, patient["gpu.xid"].status) == ("fail", "pass")
    assert strict["gpu.xid_count"].found == patient["gpu.xid_count"].found == {"79": 2, "13": 1, "total": 3}


def test_mig_has_to_match_expectation():
    host = good_node()
    for document, split in ((eight_gpus(), False), (eight_gpus().replace("_mig>Disabled<", "_mig>Enabled<"), True)):
        host.commands["nvidia-smi -q -x"] = document
        for mig in (False, True):
            verdicts = {one.id: one.status for one in health_light.judge_accelerators(look(host, Options()), (), mig)}
            assert verdicts["gpu.mig"] == ("pass" if mig == split else "fail")
            assert verdicts["gpu.nvlink"] == ("not_applicable" if mig else "pass")
