# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator import look as accelerator
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.neuron import neuron_wanted
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult

from tests.unit.fakes.fake_training_host import TrainingHost, firmware, hanging, missing


def look(host):
    return accelerator.look(host, accelerator.Options())


def neuron_node(instance_type="trn2.48xlarge", count=16, memory=103079215104):
    host = TrainingHost()
    firmware(host, instance_type)
    host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    host.files["/opt/aws/neuron/bin/neuron-ls"] = ""
    for number in range(count):
        host.files[f"/dev/neuron{number}"] = ""
    devices = [{"neuron_device": number, "memory_size": memory, "nc_count": 4} for number in range(count)]
    host.commands["/opt/aws/neuron/bin/neuron-ls"] = json.dumps(devices)
    return host


def test_good_neuron_node():
    facts = look(neuron_node())
    assert (facts["neuron"]["device_nodes"], facts["neuron"]["driver"], facts["smi"]) == (16, "2.24.7.0", None)
    assert {result.id: result.status for result in verify(facts)} == {
        "neuron.driver": "pass",
        "neuron.count": "pass",
        "neuron.memory": "pass",
    }


@pytest.mark.parametrize(
    ("host", "statuses"),
    [
        (neuron_node(count=15), ["pass", "fail", "pass"]),
        (neuron_node(count=17), ["pass", "undeterminable", "pass"]),
        (neuron_node(memory=1 << 30), ["pass", "pass", "fail"]),
        (neuron_node(memory=None), ["pass", "pass", "undeterminable"]),
        (neuron_node("m5.8xlarge"), ["pass", "undeterminable", "undeterminable"]),
    ],
)
def test_faulty_neuron_nodes(host, statuses):
    assert [result.status for result in verify(look(host))] == statuses


@pytest.mark.parametrize(
    "answer",
    [missing("neuron-ls"), hanging("neuron-ls", 60), CommandResult(1, "", "no driver"), "[", "[3]", "[" * 200_000],
)
def test_bad_neuron_ls_answer_proves_nothing(answer):
    host = neuron_node()
    host.commands["/opt/aws/neuron/bin/neuron-ls"] = answer
    assert [result.status for result in verify(look(host))] == ["pass", "undeterminable", "undeterminable"]


@pytest.mark.parametrize("number", [0, None])
def test_neuron_devices_without_unique_numbers_prove_nothing(number):
    host = neuron_node()
    host.commands["/opt/aws/neuron/bin/neuron-ls"] = json.dumps(
        [{"neuron_device": number, "memory_size": 1 << 40}] * 16
    )
    assert [result.status for result in verify(look(host))] == ["pass", "undeterminable", "undeterminable"]


def test_neuron_without_driver_and_without_tools():
    host = TrainingHost()
    firmware(host, "trn1.32xlarge")
    found = {result.id: result for result in verify(look(host))}
    assert (found["neuron.driver"].status, found["neuron.driver"].severity) == ("fail", "reset")
    assert found["neuron.count"].reason == "neuron-ls is not installed"


@pytest.mark.parametrize(
    ("mib", "status"),
    [(90438, "fail"), (90439, "pass"), (98304, "pass"), (108134, "pass"), (108135, "undeterminable")],
)
def test_memory_of_neuron_device_within_its_bounds(mib, status):
    host = neuron_node()
    sizes = [mib, *[98304] * 15]
    host.commands["/opt/aws/neuron/bin/neuron-ls"] = json.dumps(
        [{"neuron_device": number, "memory_size": size << 20} for number, size in enumerate(sizes)]
    )
    memory = verify(look(host))[2]
    assert (memory.id, memory.status, memory.expected) == ("neuron.memory", status, "90439 MiB or more")


def test_driver_of_neuron_passes_with_its_version():
    host = neuron_node()
    assert verify(look(host))[0].found == "2.24.7.0"
    del host.files["/sys/module/neuron/version"]
    host.files["/sys/module/neuron/refcnt"] = "0\n"
    assert verify(look(host))[0].found == "loaded, without a version"


@pytest.mark.parametrize(
    ("chips", "gpus", "driver", "wanted"),
    [
        ({"kind": "neuron"}, True, False, True),
        ({"kind": "gpu"}, False, True, False),
        (None, False, True, True),
        (None, False, False, False),
        # An image with both drivers, on GPUs of an unknown type.
        (None, True, True, False),
    ],
)
def test_driver_of_neuron_speaks_only_for_unknown_types(chips, gpus, driver, wanted):
    host = TrainingHost()
    if driver:
        host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    assert neuron_wanted(host, {"accelerators": chips} if chips else None, gpus) is wanted


def test_neuron_device_nodes_are_counted_by_their_names():
    host = neuron_node()
    host.files.update({"/dev/neuron_rdma0": "", "/dev/neuron": ""})
    assert look(host)["neuron"]["device_nodes"] == 16
