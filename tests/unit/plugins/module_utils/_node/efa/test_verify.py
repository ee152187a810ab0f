# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.verify import uses_efa, verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.fakes import fake_training_host as training_host
from tests.unit.fakes.fake_training_host import PLUGIN, TrainingHost, good_node, hanging, missing
from tests.unit.plugins.module_utils._node.efa.test_look import judge, look, statuses


def test_driver_of_another_version_than_loaded_one():
    host = good_node()
    host.files["/sys/module/efa/version"] = "2.10.0g\n"
    result = judge(host)["efa.driver"]
    assert (result.status, result.severity, result.expected, result.found) == ("fail", "reboot", "2.17.2g", "2.10.0g")


def test_driver_not_built_for_this_kernel():
    host = good_node()
    host.commands["modinfo efa"] = CommandResult(1, "", "modinfo: ERROR: Module efa not found.")
    assert "dkms status" in judge(host)["efa.driver"].hint


def test_driver_not_loaded_and_driver_of_another_name():
    host = good_node()
    del host.files["/sys/module/efa/version"]
    assert judge(host)["efa.driver"].message == "the module efa is not loaded"
    host = good_node()
    host.links["/sys/class/infiniband/rdmap16s27/device/driver"] = "/sys/bus/pci/drivers/vfio-pci"
    assert "vfio-pci" in judge(host)["efa.driver"].message


def test_driver_of_kernel_tree_has_no_version():
    host = good_node()
    host.commands["modinfo efa"] = "filename: /lib/modules/6.8/kernel/efa.ko\n"
    host.files["/sys/module/efa/version"] = ""
    assert judge(host)["efa.driver"].found == "in the kernel tree, without a version of its own"


@pytest.mark.parametrize(
    ("answer", "status", "word"),
    [
        (CommandResult(1, "", "fi_getinfo: -61 (No data available)"), "fail", "No data available"),
        (hanging("fi_info -p efa", 60), "undeterminable", "no answer within 60 seconds"),
        ("", "fail", "lists no reliable endpoint"),
        (training_host.fi_info([f"rdmap{n}s27" for n in range(16, 47)]), "fail", "without rdmap47s27"),
        (training_host.fi_info([f"rdmap{n}s27" for n in range(16, 48)], ["efa"]), "pass", ""),
        (training_host.fi_info([f"rdmap{n}s27" for n in range(15, 47)]), "fail", "without rdmap47s27"),
        (
            CommandResult(139, training_host.fi_info([f"rdmap{n}s27" for n in range(16, 48)]), "Segmentation fault"),
            "undeterminable",
            "ended with status 139",
        ),
    ],
)
def test_provider(answer, status, word):
    host = good_node()
    host.commands["/opt/amazon/efa/bin/fi_info -p efa"] = answer
    result = judge(host)["efa.provider"]
    assert result.status == status
    assert word in result.line()


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 40)), min_size=1, max_size=6))
def test_list_of_fi_info_with_pieces_cut_out_passes_only_whole(cuts):
    lines = training_host.fi_info([f"rdmap{number}s27" for number in range(16, 20)], ["efa"]).splitlines()
    for start, length in cuts:
        place = start % max(len(lines), 1)
        del lines[place : place + length]
    host = good_node(4)
    host.commands["/opt/amazon/efa/bin/fi_info -p efa"] = "\n".join(lines)
    if judge(host, expected_devices=4)["efa.provider"].status == "pass":
        assert all(f"    domain: rdmap{number}s27-rdm" in lines for number in range(16, 20))


def test_fi_info_of_distribution_is_used_where_there_is_no_other():
    host = good_node(1, "p5.4xlarge")
    del host.files["/opt/amazon/efa/bin/fi_info"]
    host.programs.add("fi_info")
    host.commands["/usr/bin/fi_info --version"] = "fi_info: 1.17.0\nlibfabric: 1.17.0\n"
    host.commands["/usr/bin/fi_info -p efa"] = training_host.fi_info(["rdmap16s27"], ["EFA-fe80::1"])
    assert look(host)["libfabric"] == {
        "program": "/usr/bin/fi_info",
        "version": "1.17.0",
        "domains": ["rdmap16s27"],
        "fabrics": ["EFA-fe80::1"],
        "problem": None,
    }


@pytest.mark.parametrize(
    ("answer", "status", "word"),
    [
        ({"error": "libfabric.so.1: cannot open shared object file"}, "fail", "libfabric.so.1: cannot open"),
        ({"loads": True, "symbols": []}, "fail", "offers no NCCL network interface"),
        (hanging("env", 20), "undeterminable", "no answer within 20 seconds"),
        (missing("env"), "undeterminable", "could not be tried"),
    ],
)
def test_plugin_that_does_not_work(answer, status, word):
    host = good_node()
    host.loads[PLUGIN] = answer
    result = judge(host)["efa.plugin"]
    assert (result.status, word in result.line()) == (status, True)


def test_plugin_that_works_is_preferred_to_newer_place():
    host = good_node()
    old = "/opt/aws-ofi-nccl/install/lib/libnccl-net.so"
    host.files[old] = "aws-ofi-nccl 1.7.4-aws\0"
    host.loads[PLUGIN] = {"error": "broken"}
    host.loads[old] = {"loads": True, "symbols": ["ncclNetPlugin_v6"]}
    facts = look(host)
    assert [plugin["place"] for plugin in facts["plugins"]] == [
        "/opt/amazon/ofi-nccl/lib",
        "/opt/aws-ofi-nccl/install/lib",
    ]
    assert (facts["plugin"]["net"], facts["plugin"]["version"]) == (old, "1.7.4-aws")
    assert (judge(host)["efa.plugin"].status, judge(host)["efa.plugin"].found) == ("undeterminable", "1.7.4-aws")
    host.commands["ldconfig -p"] = training_host.ldconfig(old)
    del host.files["/etc/nccl.conf"]
    assert judge(host)["efa.plugin"].found == f"1.7.4-aws, ncclNetPlugin_v6, opened as {old}"


def test_plugin_that_linker_does_not_know_is_no_pass():
    host = good_node()
    host.commands["ldconfig -p"] = training_host.ldconfig("/lib/libc.so.6")
    result = judge(host)["efa.plugin"]
    assert (result.status, result.found) == ("undeterminable", "1.16.1")
    assert "does not find it by name" in result.line()
    assert "put /opt/amazon/ofi-nccl/lib into a file of /etc/ld.so.conf.d" in result.hint


@pytest.mark.parametrize("answer", [hanging("ldconfig -p", 30), CommandResult(1, "", "ldconfig: no cache"), ""])
def test_library_is_not_missing_without_linker(answer):
    host = good_node()
    host.commands["ldconfig -p"] = answer
    found = judge(host)
    names = ("efa.nccl", "efa.gdrcopy", "efa.nvshmem", "efa.plugin", "versions.nccl")
    assert {found[name].status for name in names} == {"undeterminable"}
    assert "whether the library is installed is not known: ldconfig -p" in found["efa.nccl"].reason
    assert "whether NCCL finds it by name is not known: ldconfig -p" in found["efa.plugin"].reason


def test_opened_plugin_is_unknown_without_linker():
    host = good_node()
    facts = look(host)
    facts["nccl_net"]["path"], facts["linker_problem"] = None, "ldconfig -p: no answer within 30 seconds"
    found = next(one for one in verify(facts) if one.id == "efa.plugin")
    assert found.status == "undeterminable" and "which library NCCL opens" in found.reason


def test_neuron_machines_need_no_plugin():
    host = good_node(16, "trn2.48xlarge")
    found = statuses(host)
    assert (found["efa.devices"], found["efa.plugin"], found["efa.fabric_manager"]) == (
        "pass",
        "not_applicable",
        "not_applicable",
    )


def test_neuron_devices_are_part_of_look():
    host = good_node(16, "trn2.48xlarge")
    host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    host.files["/opt/aws/neuron/bin/neuron-ls"] = ""
    devices = ", ".join(f'{{"neuron_device": {number}, "memory_size": 103079215104}}' for number in range(16))
    host.commands["/opt/aws/neuron/bin/neuron-ls --json-output"] = f"[{devices}]"
    found = statuses(host)
    assert [found[f"neuron.{name}"] for name in ("driver", "count", "memory")] == ["pass"] * 3
    assert look(good_node())["neuron"] is None


@pytest.mark.parametrize(
    ("answer", "status"),
    [({"loads": True}, "pass"), ({"error": "broken"}, "fail"), (hanging("env", 20), "undeterminable")],
)
def test_libraries_that_are_installed_besides(answer, status):
    host = good_node()
    shmem = "/usr/lib/x86_64-linux-gnu/nvshmem/13/libnvshmem_host.so.3"
    host.files.update(
        {shmem: "", shmem.replace("/13/", "/12/"): "", "/sys/module/gdrdrv/version": "2.5\n", "/dev/gdrdrv": ""}
    )
    host.commands["ldconfig -p"] = training_host.ldconfig("/lib/libgdrapi.so.2", "/lib/libnccl.so.2")
    host.loads = {**host.loads, shmem: answer, "libgdrapi.so.2": answer, "libnccl.so.2": answer}
    found = judge(host)
    assert [found[f"efa.{name}"].status for name in ("nccl", "gdrcopy", "nvshmem")] == [status] * 3
    assert found["efa.nvshmem"].scope.device == shmem


@pytest.mark.parametrize(
    ("gone", "word"), [("/sys/module/gdrdrv/version", "is not loaded"), ("/dev/gdrdrv", "no device node")]
)
def test_gdrcopy_without_its_module(gone, word):
    host = good_node()
    host.files.update({"/sys/module/gdrdrv/version": "2.5\n", "/dev/gdrdrv": ""})
    host.commands["ldconfig -p"] = training_host.ldconfig("/lib/libgdrapi.so.2")
    host.loads["libgdrapi.so.2"] = {"loads": True}
    del host.files[gone]
    result = judge(host)["efa.gdrcopy"]
    assert (result.status, word in result.message) == ("fail", True)


def test_limits_of_logins_and_of_running_units():
    host = good_node()
    host.files["/etc/security/limits.d/99-low.conf"] = "* soft memlock 64\n"
    host.files["/proc/4711/limits"] = training_host.limits("8388608")
    found = judge(host)
    assert "soft 64 KiB in /etc/security/limits.d/99-low.conf" in found["efa.limits login"].message
    unit = found["efa.limits slurmd.service"]
    assert (unit.status, unit.found, unit.unit) == ("fail", 8388608, "bytes")
    assert unit.hint.startswith("restart the unit")
    host.commands["systemctl show"] = training_host.unit("slurmd.service", MainPID="4711", LimitMEMLOCK="8388608")
    assert "LimitMEMLOCK=infinity" in judge(host)["efa.limits slurmd.service"].hint


def test_user_limits_override_wildcard_limits():
    host = good_node()
    host.files["/etc/security/limits.d/90-ml.conf"] = (
        "@ml hard memlock unlimited\nroot - memlock 1\nhelen soft memlock 1\nhelen - memlock -1\n"
    )
    assert judge(host)["efa.limits login"].status == "pass"
    host.files["/etc/security/limits.d/00-old.conf"] = "ubuntu soft memlock 64\nubuntu hard memlock 128\n"
    result = judge(host)["efa.limits login"]
    assert (result.status, result.found) == ("undeterminable", {"ubuntu": 64})
    assert "logins of ubuntu have lower limits of their own" in result.line()


def test_unreadable_file_of_limits_is_named():
    host = good_node()
    host.links["/etc/security/limits.d/99-site.conf"] = "/root/limits.conf"
    found = judge(host)["efa.limits login"]
    assert (found.status, found.hint) == ("undeterminable", "run as root")
    assert found.reason.startswith("/etc/security/limits.d/99-site.conf cannot be read")


def test_missing_limit_is_not_unlimited():
    host = good_node()
    del host.files["/etc/security/limits.d/01_efa.conf"]
    assert "soft not set and hard not set" in judge(host)["efa.limits login"].message


def test_daemon_without_its_unit_and_one_that_cannot_be_read():
    host = good_node()
    host.commands["systemctl show"] = CommandResult(1, "", "System has not been booted with systemd")
    assert judge(host)["efa.limits slurmd.service"].status == "pass"
    del host.files["/proc/4711/limits"]
    assert judge(host)["efa.limits slurmd.service"].status == "undeterminable"


@pytest.mark.parametrize(("scope", "status"), [("0\n", "pass"), ("1\n", "fail"), (None, "not_applicable")])
def test_ptrace(scope, status):
    host = good_node()
    if scope is None:
        del host.files["/proc/sys/kernel/yama/ptrace_scope"]
    else:
        host.files["/proc/sys/kernel/yama/ptrace_scope"] = scope
    assert judge(host)["efa.ptrace"].status == status


@pytest.mark.parametrize(
    ("fields", "version", "status", "word"),
    [
        ({"LoadState": "not-found"}, training_host.DRIVER, "fail", "not installed"),
        ({"ActiveState": "failed"}, training_host.DRIVER, "fail", "not running"),
        ({}, "580.82.07", "fail", "not of the driver's version"),
        ({}, "", "undeterminable", "version is not known"),
    ],
)
def test_fabric_manager(fields, version, status, word):
    host = good_node()
    host.commands["systemctl show"] = training_host.unit("nvidia-fabricmanager.service", **fields)
    host.commands["nv-fabricmanager --version"] = f"Fabric Manager version is : {version}\n"
    result = judge(host)["efa.fabric_manager"]
    assert (result.status, word in result.line()) == (status, True)


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("systemctl show", "efa.fabric_manager"),
        ("nv-fabricmanager --version", "efa.fabric_manager"),
        ("/opt/amazon/efa/bin/fi_info --version", "versions.libfabric"),
        ("/opt/amazon/efa/bin/fi_info -p efa", "efa.provider"),
    ],
)
@pytest.mark.parametrize("rc", [1, 255, -9])
def test_good_text_beside_error_status_is_no_proof(command, check, rc):
    host = good_node()
    assert judge(host)[check].status == "pass"
    host.commands[command] = CommandResult(rc, host.commands[command], "killed")
    assert judge(host)[check].status == "undeterminable"


def test_fabric_manager_is_not_judged_for_one_gpu_or_no_driver():
    assert judge(good_node(1, "p5.4xlarge"))["efa.fabric_manager"].status == "not_applicable"
    host = good_node()
    del host.files["/proc/driver/nvidia/version"]
    assert judge(host)["efa.fabric_manager"].status == "undeterminable"
    host = TrainingHost()
    host.files["/proc/driver/nvidia-nvswitch/devices/0000:a0:00.0"] = ""
    assert look(host)["family"]["nvswitch"] is True


@pytest.mark.parametrize(
    ("output", "status", "word"),
    [
        ('{"10.0.0.2": "answered"}', "pass", "answers on TCP port 49152"),
        ('{"10.0.0.2": "silent: timed out"}', "fail", "security group"),
        ('{"10.0.0.2": "silent: no answer in time"}', "fail", "no answer in time"),
        ("{}", "undeterminable", "its name was not resolved in time"),
        ('{"10.0.0.2": "name: unknown"}', "undeterminable", "could not be queried"),
        ("nonsense", "undeterminable", "did not end well"),
        ("[1]", "undeterminable", "did not end well"),
        (hanging("python", 20), "undeterminable", "did not end well"),
    ],
)
def test_peers(output, status, word):
    host = good_node()
    host.commands[sys.executable] = output
    result = judge(host, peers=("10.0.0.2",))["efa.peers 10.0.0.2"]
    assert (result.status, word in result.line()) == (status, True)


def test_peer_without_name_is_not_this_node():
    host = good_node()
    result = judge(host, peers=(" ",))["efa.peers  "]
    assert (result.status, "it is empty" in result.line()) == ("undeterminable", True)
    assert not any("socket" in call for call in host.calls)


def test_ports_that_are_down():
    host = good_node()
    host.files["/sys/class/infiniband/rdmap20s27/ports/1/state"] = "1: DOWN\n"
    result = judge(host)["efa.devices"]
    assert (result.status, result.severity, result.message) == ("fail", "reset", "ports are not active: rdmap20s27")


@pytest.mark.parametrize("state", [None, "", "garbage\n", "4: INACTIVE\n"])
def test_port_of_unknown_state_is_undeterminable(state):
    host = good_node()
    host.files["/sys/class/infiniband/rdmap20s27/ports/1/state"] = state
    result = judge(host)["efa.devices"]
    assert result.status == "undeterminable"
    assert result.message.startswith("rdmap20s27 the state of its port ")


def test_device_of_unknown_driver_is_undeterminable():
    host = good_node()
    del host.links["/sys/class/infiniband/rdmap20s27/device/driver"]
    result = judge(host)["efa.driver"]
    assert (result.status, result.reason) == ("undeterminable", "the driver of rdmap20s27 cannot be read")


@pytest.mark.parametrize("variables", [{"HOME": "/home/ann"}, {"NCCL_CONF_FILE": "/home/ann/.nccl.conf"}])
def test_configuration_of_user_goes_before_machine(variables):
    host = good_node()
    host.files["/home/ann/.nccl.conf"] = "NCCL_NET=Socket\n"
    host.variable = variables.get
    assert "NCCL_NET=Socket in /home/ann/.nccl.conf takes" in judge(host)["efa.plugin"].message


FOREIGN = "/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so"
DEFAULT = PLUGIN.replace("-ofi.so", ".so")
TUNER = "/opt/amazon/ofi-nccl/lib/libnccl-tuner-ofi.so"


def opened(conf, *linker, variables=()):
    """Return the verdict on the plugin with these lines of nccl.conf, libraries of the linker, and variables."""
    host = good_node()
    host.files["/etc/nccl.conf"] = conf
    host.files[FOREIGN] = ""
    host.files[DEFAULT] = ""
    host.links[DEFAULT] = PLUGIN
    host.commands["ldconfig -p"] = training_host.ldconfig(*linker)
    host.variable = dict(variables).get
    return judge(host)["efa.plugin"]


@pytest.mark.parametrize(
    ("conf", "linker", "variables"),
    [
        ("NCCL_NET_PLUGIN=ofi\n", [PLUGIN], {}),
        (f"# NCCL_NET_PLUGIN=none\nNCCL_NET_PLUGIN={PLUGIN}\n", [PLUGIN], {}),
        ("NCCL_NET_PLUGIN=ofi\nNCCL_NET_PLUGIN=none\n", [PLUGIN], {}),
        ("NCCL_NET=OFI\nFI_PROVIDER=efa\n", [DEFAULT], {}),
        ("", [PLUGIN, DEFAULT], {}),
        ("", [DEFAULT, FOREIGN], {}),
        ("", [FOREIGN, PLUGIN], {"NCCL_NET_PLUGIN": "ofi"}),
        ("NCCL_NET_PLUGIN=none\n", [PLUGIN], {"NCCL_NET_PLUGIN": "ofi"}),
    ],
)
def test_plugin_that_nccl_opens_passes(conf, linker, variables):
    found = opened(conf, *linker, variables=variables)
    assert found.status == "pass" and "opened as" in found.found


@pytest.mark.parametrize(
    ("conf", "linker", "variables", "words"),
    [
        ("", [PLUGIN], {}, "NCCL opens libnccl-net.so, its default name, and the dynamic linker knows no library"),
        ("", [FOREIGN, DEFAULT, PLUGIN], {}, f"NCCL opens {FOREIGN}, the first that the dynamic linker knows"),
        ("NCCL_NET_PLUGIN=none\n", [PLUGIN, DEFAULT], {}, "NCCL_NET_PLUGIN=none in /etc/nccl.conf keeps NCCL from"),
        ("NCCL_NET_PLUGIN=sharp\n", [PLUGIN, DEFAULT], {}, "NCCL opens sharp or libnccl-net-sharp.so, by NCCL_NET"),
        ("NCCL_NET_PLUGIN = ofi\n", [PLUGIN], {}, "NCCL opens libnccl-net.so, its default name"),
        ("NCCL_NET_PLUGIN=\nNCCL_NET_PLUGIN=ofi\n", [PLUGIN], {}, "NCCL opens libnccl-net.so, its default name"),
        ("NCCL_NET_PLUGIN=ofi\n", [PLUGIN], {"NCCL_NET_PLUGIN": ""}, "NCCL opens libnccl-net.so, its default name"),
        ("NCCL_NET=Socket\n", [DEFAULT], {}, "NCCL_NET=Socket in /etc/nccl.conf takes NCCL off EFA"),
        ("FI_PROVIDER=tcp\n", [DEFAULT], {}, "FI_PROVIDER=tcp in /etc/nccl.conf takes NCCL off EFA"),
        ("", [DEFAULT], {"NCCL_NET": "IB"}, "NCCL_NET=IB in the environment takes NCCL off EFA"),
        ("NCCL_NET_PLUGIN=ofi\n", [PLUGIN], {"NCCL_NET_PLUGIN": FOREIGN}, "in the environment, which is not the OFI"),
    ],
)
def test_plugin_that_nccl_never_opens_fails(conf, linker, variables, words):
    found = opened(conf, *linker, variables=variables)
    assert found.status == "fail" and words in found.message


@pytest.mark.parametrize(
    ("tuner", "status", "words"),
    [
        ({"error": "libcudart.so.13: cannot open shared object file"}, "fail", "libcudart.so.13: cannot open"),
        (training_host.hanging("python3", 20), "undeterminable", "could not be tried: no answer within 20 seconds"),
    ],
)
def test_tuner_beside_plugin_has_to_load(tuner, status, words):
    host = good_node()
    host.loads[TUNER] = tuner
    found = judge(host)["efa.plugin"]
    assert found.status == status and words in (found.message or found.reason)


@pytest.mark.parametrize(("value", "status"), [("mine", "fail"), ("none", "pass"), ("ofi", "pass")])
def test_tuner_that_is_named_has_to_load(value, status):
    host = good_node()
    host.files["/etc/nccl.conf"] += f"NCCL_TUNER_PLUGIN={value}\n"
    host.loads["libnccl-tuner-ofi.so"] = {"loads": True}
    found = judge(host)["efa.plugin"]
    assert found.status == status
    assert value != "mine" or "NCCL_TUNER_PLUGIN=mine in /etc/nccl.conf does not load" in found.message


def test_setting_of_yama_that_cannot_be_read_is_undeterminable():
    host = good_node()
    host.files["/proc/sys/kernel/yama/ptrace_scope"] = ""
    assert judge(host)["efa.ptrace"].status == "undeterminable"


def test_driver_of_which_nothing_can_be_read_is_undeterminable():
    host = good_node()
    del host.files["/sys/module/efa/version"]
    host.files["/sys/module/efa/refcnt"] = "1"
    host.commands["modinfo efa"] = hanging("modinfo efa", 30)
    assert judge(host)["efa.driver"].status == "undeterminable"


@pytest.mark.parametrize(("expected", "uses"), [(32, True), (0, False), (None, None)])
def test_machine_without_devices_uses_efa_by_its_type(expected, uses):
    assert uses_efa({"devices": [], "pci_devices": [], "expected_devices": expected}) is uses


@pytest.fixture
def facts():
    return look(good_node())


def judged(facts):
    return {one.id: one for one in verify(facts)}


@pytest.mark.parametrize(
    ("path", "value", "check", "words"),
    [
        (("installer", "state"), "fine", "efa.installer", "the state of the installation reads 'fine'"),
        (("installer", "version"), "N/A", "efa.installer", "the installer's version reads 'N/A'"),
        (("devices", 3, "state"), "0: ACTIVE", "efa.devices", "the state of its port reads '0: ACTIVE'"),
        (("modules", "efa", "available"), None, "efa.driver", "the answer of modinfo for the module efa is missing"),
        (("modules", "efa", "loaded"), "yes", "efa.driver", "whether the module efa is loaded reads 'yes'"),
        (("modules", "efa", "version"), None, "efa.driver", "/sys/module/efa/version reads '2.17.2g'"),
        (("modules", "efa", "loaded_version"), None, "efa.driver", "/sys/module/efa/version is missing"),
        (("modules", "efa", "loaded_version"), "N/A", "efa.driver", "/sys/module/efa/version reads 'N/A'"),
        (("plugin", "loads"), "yes", "efa.plugin", "whether the plugin loads reads 'yes'"),
        (("plugin", "interfaces"), ["v10"], "efa.plugin", "the interfaces of the plugin reads"),
        (("plugin", "interfaces"), ["ncclNetPlugin_v10", "x"], "efa.plugin", "the interfaces of the plugin reads"),
        (("plugin", "on_linker_path"), None, "efa.plugin", "whether the dynamic linker knows the plugin is missing"),
        (("plugin", "version"), None, "efa.plugin", "the plugin's version is missing"),
        (("fabric_manager", "exists"), "yes", "efa.fabric_manager", "whether the unit is there reads 'yes'"),
        (("fabric_manager", "active"), "yes", "efa.fabric_manager", "whether the unit is active reads 'yes'"),
        (("family", "nvswitch"), "yes", "efa.fabric_manager", "whether this machine has NVSwitches reads 'yes'"),
        (("nccl", "loads"), "yes", "efa.nccl", "whether the library loads reads 'yes'"),
    ],
)
def test_evidence_that_is_unknown_is_no_pass(facts, path, value, check, words):
    assert judged(facts)[check].status == "pass"
    place = facts
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    found = judged(facts)[check]
    assert found.status == "undeterminable" and words in f"{found.message} {found.reason}"


def test_deferred_port_is_active(facts):
    facts["devices"][0]["state"] = "5: ACTIVE_DEFER"
    assert judged(facts)["efa.devices"].status == "pass"


@pytest.mark.parametrize(
    ("loaded", "node", "status"),
    [(True, True, "pass"), (True, False, "fail"), (False, True, "fail"), ("yes", True, "fail"), (True, "yes", "fail")],
)
def test_gdrcopy_takes_its_module_and_device(facts, loaded, node, status):
    facts["gdrcopy"] = {"path": "/x", "loads": True, "error": None, "version": None, "device_node": node}
    facts["modules"]["gdrdrv"]["loaded"] = loaded
    assert judged(facts)["efa.gdrcopy"].status == status


def test_machine_without_nvswitch_needs_no_fabric_manager(facts):
    facts["family"]["nvswitch"] = False
    assert judged(facts)["efa.fabric_manager"].status == "not_applicable"


def test_libfabric_that_offers_what_sysfs_does_not_show(facts):
    facts["devices"] = []
    found = judged(facts)["efa.provider"]
    assert (found.status, found.found) == ("undeterminable", len(facts["libfabric"]["domains"]))
    assert found.reason == "libfabric offers EFA, and sysfs shows no device to compare it with"


def changed(facts, *changes):
    """Return the verdicts by id after changes: (dotted path, value) each."""
    for path, value in changes:
        *parents, last = path.split(".")
        place = facts
        for part in parents:
            place = place[part]
        place[last] = value
    return judged(facts)


def test_module_with_unreadable_version_is_undeterminable(facts):
    found = changed(facts, ("modules.efa.version", "N/A"), ("modules.efa.loaded_version", "N/A"))["efa.driver"]
    assert (found.status, found.reason) == ("undeterminable", "unread")


@pytest.mark.parametrize(
    ("changes", "check", "severity", "words"),
    [
        ([("modules.efa.available", False)], "efa.driver", "reset", "the running kernel has no module efa"),
        ([("modules.efa.loaded", False)], "efa.driver", "reset", "the module efa is not loaded"),
        ([("modules.efa.loaded_version", "2.1")], "efa.driver", "reboot", "is not the installed one"),
        ([("libfabric.domains", [])], "efa.provider", "reset", "fi_info lists no reliable endpoint"),
        ([("libfabric.domains", ["rdmap16s27"])], "efa.provider", "reset", "does not offer all devices"),
        ([("fabric_manager.exists", False)], "efa.fabric_manager", "reset", "is not installed"),
        ([("fabric_manager.active", False)], "efa.fabric_manager", "reset", "is not running"),
        ([("fabric_manager.version", "1.2")], "efa.fabric_manager", "reset", "is not of the driver's version"),
    ],
)
def test_severity_and_hint_of_failure(facts, changes, check, severity, words):
    found = changed(facts, *changes)[check]
    assert (found.status, found.severity) == ("fail", severity) and words in found.message


def test_devices_are_counted_against_bus_and_type(facts):
    good = judged(facts)["efa.devices"]
    assert (good.expected, good.found, good.unit, good.source) == (32, 32, "devices", facts["expected_source"])
    facts["devices"] = facts["devices"][:31]
    lost = judged(facts)["efa.devices"]
    assert (lost.status, lost.severity, lost.expected, lost.found) == ("fail", "reboot", 32, 31)
    facts["pci_devices"] = list(facts["pci_devices"])[:31]
    fewer = judged(facts)["efa.devices"]
    assert (fewer.status, fewer.severity) == ("fail", "isolate")
    assert fewer.message == "fewer EFA devices than the instance type allows"
    more = changed(facts, ("expected_devices", 30))["efa.devices"]
    assert (more.status, "more EFA devices than expected" in more.reason) == ("undeterminable", True)
    assert changed(facts, ("expected_devices", None))["efa.devices"].status == "undeterminable"
    assert changed(facts, ("expected_devices", 31))["efa.devices"].status == "pass"


def test_provider_offers_each_device_of_kernel(facts):
    good = judged(facts)["efa.provider"]
    assert (good.expected, good.found, good.unit) == (32, 32, "RDM domains")
    assert good.source == "libfabric 2.1.0amzn4"
    assert changed(facts, ("libfabric.version", None))["efa.provider"].source == "libfabric of unknown version"
    missing_program = changed(facts, ("libfabric.program", None))["efa.provider"]
    assert (missing_program.status, missing_program.reason) == ("undeterminable", "fi_info is not installed")


@pytest.mark.parametrize("expected", [None, 0])
@pytest.mark.parametrize("check", ["efa.devices", "efa.driver", "efa.provider", "efa.limits", "efa.ptrace"])
def test_machine_without_device_is_judged_by_its_type(facts, check, expected):
    found = changed(facts, ("devices", []), ("pci_devices", {}), ("expected_devices", expected))[check]
    assert found.status == ("undeterminable" if expected is None else "not_applicable")


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ([("installer.state", "absent")], "fail", "the EFA software is not installed"),
        ([("installer.state", "absent"), ("devices", []), ("pci_devices", {}), ("expected_devices", 0)],
         "not_applicable", "no EFA device calls for it"),
        ([("installer.state", "undeterminable"), ("installer.reasons", ["dpkg hangs"])], "undeterminable",
         "dpkg hangs"),
        ([("installer.state", "undeterminable"), ("installer.version", None), ("devices", []), ("pci_devices", {}),
          ("expected_devices", 0)], "not_applicable", "is unknown, and no EFA device needs it"),
        ([("installer.state", "undeterminable"), ("installer.version", "1.43.0"), ("devices", []), ("pci_devices", {}),
          ("expected_devices", 0), ("installer.reasons", ["dpkg hangs"])], "undeterminable", "dpkg hangs"),
        ([("installer.state", "interrupted"), ("installer.reasons", ["efa half-installed"])], "fail",
         "an installation did not end: efa half-installed"),
        ([("installer.differences", [{"name": "efa", "installed": "1", "version": "2"}])], "fail",
         "packages of another installer: efa 1 instead of 2"),
    ],
)  # fmt: skip
def test_installation_that_is_not_whole(facts, changes, status, words):
    found = changed(facts, *changes)["efa.installer"]
    assert found.status == status and words in (found.message or found.reason)


@pytest.mark.parametrize(
    ("chips", "driver", "expected", "status"),
    [
        ({"kind": "gpu", "name": "H100", "count": 8}, None, 32, "fail"),
        (None, "580.1", 32, "fail"),
        (None, None, 32, "not_applicable"),
        ({"kind": "gpu", "name": "H100", "count": 8}, "580.1", 0, "not_applicable"),
        ({"kind": "neuron", "name": "Trainium2", "count": 16}, "580.1", 32, "not_applicable"),
    ],
)
def test_plugin_is_called_for_by_efa_and_gpus(facts, chips, driver, expected, status):
    changes = [("plugin", None), ("family.accelerators", chips), ("nvidia_driver", driver)]
    if not expected:
        changes += [("devices", []), ("pci_devices", {}), ("expected_devices", 0)]
    assert changed(facts, *changes)["efa.plugin"].status == status


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ([("family.nvswitch", None)], "undeterminable"),
        ([("family.nvswitch", None), ("nvidia_driver", None)], "not_applicable"),
        ([("family.nvswitch", False), ("nvidia_driver", None)], "not_applicable"),
        ([("nvidia_driver", None)], "undeterminable"),
        ([("fabric_manager.version", None)], "undeterminable"),
    ],
)
def test_fabric_manager_of_machine_that_is_not_known(facts, changes, status):
    assert changed(facts, *changes)["efa.fabric_manager"].status == status


@pytest.mark.parametrize(
    ("soft", "hard", "status", "words"),
    [
        ("unlimited", "unlimited", "pass", ""),
        ("unlimited", 64, "fail", "a login may not lock all memory: hard 64 KiB in /x"),
        (64, "unlimited", "fail", "a login may not lock all memory: soft 64 KiB in /x"),
        (None, None, "fail", "a login may not lock all memory: soft not set and hard not set"),
    ],
)
def test_login_needs_both_limits(facts, soft, hard, status, words):
    limit = {"soft": soft, "hard": hard, "soft_file": "/x", "hard_file": "/x"}
    facts["limits"] = {"login": limit, "others": {}, "unread": []}
    found = next(one for one in verify(facts) if one.id == "efa.limits" and one.scope.device == "login")
    assert (found.status, found.message or "", found.expected) == (status, words, "unlimited")


def test_limits_of_others_are_named_by_their_lowest(facts):
    login = {"soft": "unlimited", "hard": "unlimited"}
    others = {"ann": {"soft": None, "hard": 8}, "bob": {"soft": 4, "hard": 8}}
    facts["limits"] = {"login": login, "others": others, "unread": []}
    found = next(one for one in verify(facts) if one.id == "efa.limits" and one.scope.device == "login")
    assert (found.status, found.found) == ("undeterminable", {"ann": 8, "bob": 4})


def test_ptrace_scope_other_than_zero_forbids_cma(facts):
    good, bad = judged(facts)["efa.ptrace"], changed(facts, ("ptrace_scope", 2))["efa.ptrace"]
    assert (good.status, good.found, good.expected) == ("pass", 0, 0)
    assert (bad.status, bad.found, bad.expected) == ("fail", 2, 0)
    assert changed(facts, ("ptrace_scope", None), ("yama", False))["efa.ptrace"].status == "not_applicable"
    assert changed(facts, ("yama", True))["efa.ptrace"].status == "undeterminable"


@pytest.mark.parametrize(
    ("problem", "why"), [(None, "nv-fabricmanager --version names none"), ("it hangs", "it hangs")]
)
def test_version_of_fabric_manager_that_is_not_known_has_reason(facts, problem, why):
    found = changed(facts, ("fabric_manager.version", None), ("fabric_manager.problem", problem))["efa.fabric_manager"]
    assert found.reason == f"the fabric manager's version is not known: {why}"


def test_machine_that_does_not_use_efa_may_leave_it(facts):
    left = {"name": "NCCL_NET", "value": "Socket", "source": "/etc/nccl.conf", "good": ["libfabric"]}
    assert changed(facts, ("efa_blocked_by", left))["efa.plugin"].status == "fail"
    found = changed(facts, ("devices", []), ("pci_devices", {}), ("expected_devices", 0))["efa.plugin"]
    assert found.status == "pass"
    assert changed(facts, ("expected_devices", None))["efa.plugin"].status == "fail"


@pytest.mark.parametrize(
    ("loads", "status"), [(True, "pass"), (False, "fail"), (None, "undeterminable"), ("yes", "undeterminable")]
)
def test_named_tuner_is_tried(facts, loads, status):
    named = {"value": "mine", "source": "/etc/nccl.conf", "loads": loads, "error": "why"}
    assert changed(facts, ("nccl_tuner", named))["efa.plugin"].status == status
    assert changed(facts, ("nccl_tuner", {**named, "value": "none"}))["efa.plugin"].status == "pass"
    assert changed(facts, ("nccl_tuner", {**named, "value": None}))["efa.plugin"].status == "pass"


def test_units_that_do_not_run_have_no_limit(facts):
    unit = {"pid": None, "running_memlock": None, "configured_memlock": None}
    facts["units"] = {"a.service": unit, "b.service": {**unit, "pid": 7}}
    found = {one.scope.device: one.status for one in verify(facts) if one.id == "efa.limits"}
    assert found == {"login": "pass", "b.service": "undeterminable"}


@pytest.mark.parametrize("answer", [hanging("systemctl", 30), CommandResult(1, "", "no bus"), ""])
def test_fabric_manager_is_not_missing_without_systemctl(answer):
    host = good_node()
    host.commands["systemctl show"] = answer
    found = judge(host)["efa.fabric_manager"]
    assert (found.status, found.severity) == ("undeterminable", "none")
    assert found.reason == "systemctl does not report nvidia-fabricmanager.service"


GPUS = {"kind": "gpu", "name": "H100", "count": 8}


@pytest.mark.parametrize(
    ("expected", "chips", "status"),
    [
        (32, None, "undeterminable"),
        (None, None, "undeterminable"),
        (0, GPUS, "undeterminable"),
        (0, None, "not_applicable"),
    ],
)
def test_library_is_needed_by_efa_or_accelerators(facts, expected, chips, status):
    changes = [("nccl.path", None), ("linker_problem", "ldconfig hangs"), ("family.accelerators", chips)]
    if not expected:
        changes += [("devices", []), ("pci_devices", {}), ("expected_devices", expected)]
    assert changed(facts, *changes)["efa.nccl"].status == status


def test_nvswitches_of_unknown_type_are_not_known(facts):
    found = changed(facts, ("family.nvswitch", None))["efa.fabric_manager"]
    assert found.reason.endswith("NVSwitches is not known: its instance type is unknown")
