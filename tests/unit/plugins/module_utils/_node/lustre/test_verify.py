# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on the file systems of a node."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import look as lustre
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import (
    parse_config,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import (
    CommandResult,
)

from tests.unit.fakes.fake_lustre_host import KERNEL, LustreHost

DNS = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"
TUNED = {"osc.*OST*.max_rpcs_in_flight": 32}


@pytest.fixture
def judge(host):
    """judge(mounts, probe, packages, options) returns the verdicts by id, as lines."""

    def run(systems, probe=True, packages=("lustre-*",), **options):
        config = parse_config({"file_systems": systems, **options})
        facts = lustre.look(host, config, lustre.Request(probe=probe, packages=packages))
        json.dumps(facts)
        return {result.id: result.line() for result in verify(facts)}

    return run


def test_good_node_passes(host, judge):
    lines = judge([{"path": host.mount("fsx"), "mount_name": "abcdefgh"}], packages=("linux-*",))
    assert lines["lustre.client"] == f"PASS lustre.client: found {KERNEL} has lustre 2.15.6"
    assert {name: line[:4] for name, line in lines.items()} == {
        "lustre.client": "PASS",
        "lustre.next_kernel": "n/a ",
        "lustre.held": "PASS",
        "lustre.mounted": "PASS",
        "lustre.write_read": "PASS",
        "lustre.directories": "n/a ",
        "lustre.tuning": "n/a ",
        "lustre.module_options": "n/a ",
    }


def test_node_without_lustre_is_not_applicable(host, judge):
    assert list(judge([])) == ["lustre.mounted"]
    assert judge([])["lustre.mounted"].startswith("n/a ")


@pytest.mark.parametrize(
    ("kind", "autofs", "words"),
    [
        ("hangs", False, "the file system gives no answer: stat --file-system"),
        ("lustre", True, "systemd's automount was triggered, and nothing was mounted"),
        ("tmpfs", False, "is mounted there and reports the type tmpfs"),
    ],
)
def test_other_mounts_fail_by_name(host, judge, kind, autofs, words):
    path = host.mount("fsx", kind)
    if autofs:
        host.autofs.add(path)
    lines = judge([{"path": path}])
    assert lines["lustre.mounted"].startswith(f"FAIL lustre.mounted ({path}): ")
    assert words in lines["lustre.mounted"]
    assert "lustre.write_read" not in lines


def test_empty_mount_point_fails(host, judge, tmp_path):
    assert "nothing is mounted there" in judge([{"path": str(tmp_path / "fsx")}])["lustre.mounted"]


def test_other_file_system_is_reported(host, judge):
    lines = judge([{"path": host.mount("fsx"), "mount_name": "other"}])
    assert "another file system is mounted there: 10.0.1.7@tcp:/abcdefgh" in lines["lustre.mounted"]


def test_shared_name_without_server_is_no_pass(host, judge):
    path = host.mount("fsx")
    host.source[path] = "10.0.1.7@tcp:/fsx"
    lines = judge([{"path": path, "mount_name": "fsx"}])
    assert lines["lustre.mounted"].startswith("????") and "may be any file system" in lines["lustre.mounted"]
    host.options = "ro,flock"
    assert judge([{"path": path, "mount_name": "fsx"}])["lustre.mounted"].startswith("FAIL")


def test_unproved_file_system_is_not_written_to(host, judge):
    path = host.mount("fsx")
    lines = judge([{"path": path, "mount_name": "other"}], directories=[{"path": f"{path}/a"}])
    assert "lustre.write_read" not in lines and os.listdir(path) == []
    assert "is not proved to be its Lustre file system" in lines["lustre.directories"]


@pytest.mark.parametrize(
    ("source", "address", "start", "words"),
    [
        ("10.0.1.7@tcp:/fsx", "10.0.1.7", "PASS", "found 10.0.1.7@tcp:/fsx"),
        ("10.0.1.7:/fsx", "10.0.1.7", "PASS", "found 10.0.1.7:/fsx"),
        ("10.0.1.9@tcp:/fsx", "10.0.1.7", "FAIL", "the file system of another server is mounted there: 10.0.1.9@tcp"),
        ("10.0.1.70@tcp:/fsx", "10.0.1.7", "FAIL", f"expected {DNS}, 10.0.1.7, found 10.0.1.70@tcp:/fsx"),
        ("10.0.1.8@tcp,10.0.1.9@tcp:/fsx", "10.0.1.7", "FAIL", "another server"),
        (
            "10.0.1.7@tcp:10.0.1.9@tcp:/fsx",
            "10.0.1.7",
            "????",
            "10.0.1.9 in 10.0.1.7@tcp:10.0.1.9@tcp:/fsx is no address",
        ),
        ("fd00::1@tcp:/fsx", "10.0.1.7", "????", "is no address of"),
        ("10.0.1.7@tcp:/fsx", "", "????", "DNS did not answer: getent ahostsv4"),
        ("10.0.1.9@tcp:/fsx", "", "????", f"whether 10.0.1.9@tcp:/fsx is {DNS} is unknown"),
        (f"{DNS}@tcp:/fsx", "", "PASS", f"found {DNS}@tcp:/fsx"),
    ],
)
def test_server_must_be_that_of_dns_name(host, judge, source, address, start, words):
    path = host.mount("fsx")
    host.source[path], host.address = source, address
    line = judge([{"path": path, "mount_name": "fsx", "dns_name": DNS}])["lustre.mounted"]
    assert line.startswith(f"{start} lustre.mounted ({path}): ") and words in line


def test_dns_is_asked_only_for_mounted_name(host, judge):
    path = host.mount("fsx")
    judge([{"path": path, "mount_name": "abcdefgh"}])
    host.source[path] = f"{DNS}@tcp:/abcdefgh"
    judge([{"path": path, "mount_name": "abcdefgh", "dns_name": DNS}])
    host.mounts[path] = "tmpfs"
    judge([{"path": path, "mount_name": "abcdefgh", "dns_name": f"other-{DNS}"}])
    assert not [argv for argv in host.ran if argv[0] == "getent"]


@pytest.mark.parametrize("change", [{"addresses": []}, {"dns_problem": "no answer within 30 seconds"}])
def test_mount_without_answer_of_dns_is_no_pass(good, change):
    good["mounts"][0].update({"addresses": ["10.0.1.8"], **change})
    (one,) = found(good, "lustre.mounted")
    assert one.status == "undeterminable" and "DNS did not answer" in one.reason


def test_other_server_isolates_node(good):
    good["mounts"][0]["addresses"] = ["10.0.1.8"]
    (one,) = found(good, "lustre.mounted")
    assert (one.status, one.severity, one.found) == ("fail", "isolate", "10.0.1.7@tcp:/abcdefgh")
    assert one.scope.device == good["mounts"][0]["path"] and DNS in one.hint


def test_kernel_of_next_boot_without_client_fails(host, judge):
    host.files["/lib/modules/6.8.0-1030-aws/modules.dep"] = ""
    lines = judge([{"path": host.mount("fsx")}])
    assert "the kernel of the next boot 6.8.0-1030-aws has no module lustre" in lines["lustre.next_kernel"]
    assert lines["lustre.client"].startswith("PASS")


def test_missing_or_unheld_client_fails(host, judge):
    path = host.mount("fsx")
    assert "lustre-client-modules-x is not held" in judge([{"path": path}])["lustre.held"]
    host.broken = {"lfs": "", "lctl": ""}
    assert "lfs and lctl are not installed" in judge([{"path": path}])["lustre.client"]


def test_kernels_without_modinfo_are_undeterminable(host, judge):
    host.broken["modinfo"] = ""
    assert judge([{"path": host.mount("fsx")}])["lustre.client"].startswith("????")


def test_rejected_write_is_reported(host, judge, monkeypatch):
    def refused(_self, _path, _size=0):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LustreHost, "write_probe", refused)
    assert "root may not write there" in judge([{"path": host.mount("fsx")}])["lustre.write_read"]


PEER = """peer:
    - primary nid: {0}@tcp
      Multi-Rail: True
      peer ni:
        - nid: {0}@tcp
          statistics:
              send_count: {1}
        - nid: {0}@efa
          statistics:
              send_count: {2}
"""


@pytest.fixture
def over_efa(host, monkeypatch):
    """over_efa(counts) makes a file system whose one server is 10.0.1.7; a pair of counts, TCP and EFA, each look."""
    host.nets = "net:\n    - net type: efa\n      local NI(s):\n        - nid: 1@efa\n          status: up\n"
    host.parameters["osc.abcdefgh-OST*-osc-ffff9b3c.ost_conn_uuid"] = {"osc.a": "10.0.1.7@tcp"}

    def make(*counts, server="10.0.1.7"):
        due = iter(counts)

        def answer(_self, argv):
            other = PEER.format("10.0.2.9", 500, 500)
            return CommandResult(0, host.nets if argv[1] == "net" else other + PEER.format(server, *next(due)), "")

        monkeypatch.setattr(LustreHost, "_lnetctl", answer)
        return [{"path": host.mount("fsx"), "efa": True}]

    return make


@pytest.mark.parametrize(
    ("counts", "start", "words"),
    [
        ([(4, 10), (4, 90)], "PASS", "80 messages over 1 interfaces of EFA to 1 servers"),
        ([(4, 10), (80, 10)], "FAIL", "LNet has sent nothing to its servers over EFA"),
        ([(4, 10), (4, 10)], "FAIL", "LNet has sent nothing to its servers over EFA"),
    ],
)
def test_messages_to_own_servers_prove_use_of_efa(over_efa, judge, counts, start, words):
    line = judge(over_efa(*counts))["lustre.network"]
    assert line.startswith(start) and words in line


def test_server_that_is_no_peer_is_undeterminable(over_efa, judge):
    line = judge(over_efa((0, 0), (0, 50), server="10.0.1.8"))["lustre.network"]
    assert line.startswith("????") and "LNet lists no peer 10.0.1.7@tcp" in line


@pytest.mark.parametrize("program", ["lfs", "lctl"])
def test_unknown_servers_are_undeterminable(over_efa, host, judge, program):
    systems = over_efa((0, 0), (0, 50))
    host.broken[program] = "no such device"
    line = judge(systems)["lustre.network"]
    assert line.startswith("????") and "the servers of this file system are unknown" in line


def test_too_few_interfaces_of_efa_fail(host, judge):
    lines = judge([{"path": host.mount("fsx"), "efa": True}], efa_interfaces=8)
    assert lines["lustre.network"].startswith("FAIL")
    assert "0 interfaces of LNet are up on EFA" in lines["lustre.network"]


def test_missing_directories_are_named(host, judge):
    path = host.mount("fsx")
    lines = judge([{"path": path}], directories=[{"path": f"{path}/a"}])
    start = f"FAIL lustre.directories: 1 of 1 are missing: {path}/a. run the role"
    assert lines["lustre.directories"].startswith(start)
    os.mkdir(f"{path}/a")
    assert judge([{"path": path}], directories=[{"path": f"{path}/a"}])["lustre.directories"].startswith("PASS")


def test_refused_and_unknown_directories_do_not_pass(good):
    rows = [{"path": f"/fsx/{state}", "state": state, "why": f"it is {state}"} for state in ("refused", "unknown")]
    good["directories"] = rows
    found = [(one.status, one.scope.device) for one in verify(good) if one.id == "lustre.directories"]
    assert found == [("fail", "/fsx/refused"), ("undeterminable", "/fsx/unknown")]


def test_tuning_different_on_one_target_fails(host, judge):
    lines = judge([{"path": host.mount("fsx")}], tuning=TUNED)
    assert "osc.*OST*.max_rpcs_in_flight is 32 and 8 instead of 32" in lines["lustre.tuning"]


def test_unknown_parameter_is_undeterminable(host, judge):
    lines = judge([{"path": host.mount("fsx")}], tuning={"llite.*.none": 1})
    assert lines["lustre.tuning"].startswith("????")


def test_loaded_modules_with_other_options_need_reboot(host, judge):
    host.files["/sys/module/ksocklnd/parameters/credits"] = "256\n"
    lines = judge([{"path": host.mount("fsx")}], module_options={"ksocklnd.credits": 2560})
    assert "ksocklnd.credits is 256 instead of 2560" in lines["lustre.module_options"]
    assert "they apply from the next boot" in lines["lustre.module_options"]


def test_nfs_home_is_checked(host, judge):
    home = host.mount("home", "nfs")
    assert judge([], nfs_mounts=[home])["nfs.mounted"].startswith("PASS")
    host.mounts[home] = "ext2/ext3"
    assert "reports the type ext2/ext3" in judge([], nfs_mounts=[home])["nfs.mounted"]


@pytest.fixture
def good(host, tmp_path):
    """Facts of a node with a tuned Lustre and an NFS mount; all verdicts pass."""
    host.parameters["osc.*OST*.max_rpcs_in_flight"] = {"osc.a": "32", "osc.b": "32"}
    host.files["/sys/module/ptlrpc/parameters/ptlrpcd_per_cpt_max"] = "32\n"
    config = parse_config(
        {
            "file_systems": [{"path": host.mount("fsx"), "mount_name": "abcdefgh", "dns_name": DNS}],
            "nfs_mounts": [host.mount("home", "nfs4")],
            "tuning": TUNED,
            "module_options": {"ptlrpc.ptlrpcd_per_cpt_max": 32},
        }
    )
    return lustre.look(host, config, lustre.Request(probe=True, packages=("linux-*",)))


def states(facts):
    return {one.id: one.status for one in verify(facts)}


@pytest.mark.parametrize(
    ("kind", "change", "check", "status"),
    [
        ("mounts", {"options": "ro,flock"}, "lustre.mounted", "fail"),
        ("mounts", {"options": "ro,flock", "fstab_options": "ro,_netdev"}, "lustre.mounted", "pass"),
        ("mounts", {"options": "rw", "fstab_options": "ro,_netdev"}, "lustre.mounted", "pass"),
        ("mounts", {"options": ""}, "lustre.mounted", "undeterminable"),
        ("mounts", {"options": "nosuid"}, "lustre.mounted", "undeterminable"),
        ("mounts", {"fstype": "lustre_lite"}, "lustre.mounted", "undeterminable"),
        ("mounts", {"answer": None}, "lustre.mounted", "undeterminable"),
        ("mounts", {"source": "10.0.1.7@tcp:/", "mount_name": ""}, "lustre.mounted", "undeterminable"),
        ("mounts", {"source": "abcdefgh", "mount_name": ""}, "lustre.mounted", "undeterminable"),
        ("mounts", {"source": ":/abcdefgh", "mount_name": ""}, "lustre.mounted", "undeterminable"),
        ("mounts", {"source": None, "mount_name": ""}, "lustre.mounted", "undeterminable"),
        ("nfs_mounts", {"source": "127.0.0.1:/"}, "nfs.mounted", "pass"),
        ("nfs_mounts", {"source": ":/"}, "nfs.mounted", "undeterminable"),
        ("nfs_mounts", {"source": "server"}, "nfs.mounted", "undeterminable"),
        ("nfs_mounts", {"fstype": "autofs"}, "nfs.mounted", "undeterminable"),
        ("nfs_mounts", {"answer": "tmpfs"}, "nfs.mounted", "undeterminable"),
        ("tuning", {"found": []}, "lustre.tuning", "undeterminable"),
        ("tuning", {"found": ["8", "32"]}, "lustre.tuning", "undeterminable"),
        ("tuning", {"differs": None}, "lustre.tuning", "undeterminable"),
        ("module_options", {"loaded": "yes"}, "lustre.module_options", "undeterminable"),
        ("module_options", {"found": None}, "lustre.module_options", "undeterminable"),
    ],
)
def test_missing_or_unknown_evidence_does_not_pass(good, kind, change, check, status):
    assert states(good)[check] == "pass"
    good[kind][0].update(change)
    assert states(good)[check] == status


def test_unread_parameter_does_not_pass(good):
    good["tuning_wanted"] = 2
    assert states(good)["lustre.tuning"] == "undeterminable"


@pytest.mark.parametrize("version", ["N/A", "unknown"])
def test_module_without_version_does_not_pass(good, version):
    good["kernel"]["installed"] = {KERNEL: version}
    found = {one.id: one for one in verify(good)}["lustre.client"]
    assert found.status == "undeterminable" and f"of the running kernel reads '{version}'" in found.message


def found(facts, check):
    """Return the verdicts of one id."""
    return [one for one in verify(facts) if one.id == check]


@pytest.mark.parametrize(
    ("change", "check", "status", "words"),
    [
        ({"kernel": {"running": None}}, "lustre.client", "undeterminable", "the running kernel is unknown"),
        ({"kernel": {"next": None}}, "lustre.next_kernel", "undeterminable", "the kernel of the next boot is"),
        ({"kernel": {"next": KERNEL}}, "lustre.next_kernel", "not_applicable", "the next boot has the running kernel"),
        ({"kernel": {"installed": {}}}, "lustre.client", "fail", f"the running kernel {KERNEL} has no module lustre"),
        ({"tools": {"modinfo": None}}, "lustre.client", "undeterminable", "modinfo is not installed, so the modules"),
        ({"tools": {"lctl": None}}, "lustre.client", "fail", "lctl is not installed"),
        ({"package_manager": ""}, "lustre.held", "undeterminable", "no package manager answered"),
        ({"package_manager": None}, "lustre.held", "undeterminable", "no package manager answered"),
        ({"packages": []}, "lustre.held", "not_applicable", "none of the packages to hold is installed"),
        ({"unheld_packages": ["a", "b"]}, "lustre.held", "fail", "an upgrade may separate kernel and client: a, b is"),
        ({"tuning": []}, "lustre.tuning", "undeterminable", "no Lustre file system is mounted, so there are no"),
        ({"tuning_wanted": 0}, "lustre.tuning", "not_applicable", "a machine of this size needs no values other"),
        ({"module_options": []}, "lustre.module_options", "not_applicable", "a machine of this size needs no options"),
        ({"packages_requested": False}, "lustre.held", "not_applicable", "only the role fsx_lustre knows which"),
        ({"tuning_wanted": 0, "tune": False}, "lustre.tuning", "not_applicable", "fsx_lustre_tune is off"),
        (
            {"tuning_wanted": 0, "machine": {"memory_kib": None, "cpus": None}},
            "lustre.tuning",
            "undeterminable",
            "memory_kib and cpus of this machine are unknown",
        ),
        (
            {"module_options": [], "machine": {"cpus": None}},
            "lustre.module_options",
            "undeterminable",
            "cpus of this machine are unknown",
        ),
    ],
)  # fmt: skip
def test_verdict_on_facts_of_look(good, change, check, status, words):
    for name, value in change.items():
        good[name] = {**good[name], **value} if isinstance(value, dict) else value
    (one,) = found(good, check)
    assert one.status == status and (one.message or one.reason).startswith(words)


@pytest.mark.parametrize(
    ("release", "severity"), [({"running": "6.9", "next": "6.9"}, "isolate"), ({"next": "6.9"}, "monitor")]
)
def test_kernel_without_client_has_severity_by_boot(good, release, severity):
    good["kernel"].update(release)
    (one,) = [one for one in verify(good) if one.status == "fail"]
    assert one.severity == severity


@pytest.mark.parametrize(
    ("row", "status", "severity", "words"),
    [
        ({"found": "8"}, "fail", "reboot", "ptlrpc.ptlrpcd_per_cpt_max is 8 instead of 32"),
        ({"found": None, "loaded": False}, "not_applicable", "none", "the modules are not loaded yet"),
        ({"found": None}, "undeterminable", "none", "the loaded modules do not show ptlrpc.ptlrpcd_per_cpt_max"),
    ],
)
def test_module_options_of_loaded_modules(good, row, status, severity, words):
    good["module_options"][0].update(row)
    (one,) = found(good, "lustre.module_options")
    assert (one.status, one.severity) == (status, severity) and (one.message or one.reason).startswith(words)


def test_module_that_is_not_loaded_yet_keeps_verdict(good):
    (row,) = good["module_options"]
    good["module_options"] = [row, {**row, "name": "ksocklnd.credits", "found": None, "loaded": False}]
    (one,) = found(good, "lustre.module_options")
    assert (one.status, one.found) == ("pass", "ptlrpc.ptlrpcd_per_cpt_max=32, ksocklnd.credits=32")


UNKNOWN_SERVERS = "the servers of this file system are unknown, and other counters count all file systems"


def server(efa, tcp=0):
    """Return a data server and the messages to it."""
    return {"nid": f"10.0.1.{efa}@tcp", "nets": ["efa", "tcp"], "sent": {"efa": efa, "tcp": tcp}}


def directory(state, number=1):
    return {"path": f"/fsx/{number}", "state": state, "why": f"why {number}"}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([directory("present")], [("pass", None, "1 directories")]),
        ([directory("refused")], [("fail", "/fsx/1", "why 1")]),
        ([directory("unknown")], [("undeterminable", "/fsx/1", "why 1")]),
        (
            [directory("missing", 1), directory("refused", 2), directory("present", 3)],
            [("fail", None, "1 of 3 are missing: /fsx/1"), ("fail", "/fsx/2", "why 2")],
        ),
        (
            [directory("missing", number) for number in range(4)],
            [("fail", None, "4 of 4 are missing: /fsx/0, /fsx/1, /fsx/2, /fsx/3")],
        ),
        (
            [directory("missing", number) for number in range(6)],
            [("fail", None, "6 of 6 are missing: /fsx/0, /fsx/1, /fsx/2, /fsx/3 and 2 more")],
        ),
    ],
)
def test_missing_and_refused_directories_fail(good, rows, expected):
    good["directories"] = rows
    verdicts = [
        (one.status, one.scope.device, one.message or one.reason or one.found)
        for one in found(good, "lustre.directories")
    ]
    assert verdicts == expected


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({}, "pass", "9 messages over 2 interfaces of EFA to 2 servers"),
        ({"net_problem": "lnetctl is not installed"}, "undeterminable", "lnetctl is not installed"),
        ({"nets": {"efa": {"nids": 2, "up": 1}}}, "fail", "1 interfaces of LNet are up on EFA, so data goes over TCP"),
        ({"nets": {}}, "fail", "0 interfaces of LNet are up on EFA"),
        ({"status": "fail"}, "undeterminable", "nothing was written, so no counter proves the use of EFA"),
        ({"servers": []}, "undeterminable", f"{UNKNOWN_SERVERS}: none is listed"),
        ({"servers_problem": "lctl failed"}, "undeterminable", f"{UNKNOWN_SERVERS}: lctl failed"),
        ({"servers": [server(9), {**server(0), "nets": None}]}, "undeterminable", UNKNOWN_SERVERS),
        ({"servers": [server(0), server(0)]}, "fail", "the file system was written to and LNet has sent nothing to"),
        ({"servers": [server(-3)]}, "fail", "the file system was written to and LNet has sent nothing to its servers"),
        ({"servers": [server(9), {**server(0), "nets": ["tcp"]}]}, "fail", "LNet knows no EFA address of 10.0.1.0@tcp"),
        ({"servers": [server(9), server(0, 2)]}, "undeterminable", "LNet has sent messages to 10.0.1.0@tcp only over"),
        ({"servers": [server(9, 2)]}, "pass", "9 messages over 2 interfaces of EFA to 1 servers"),
        ({"servers": [server(1)]}, "pass", "1 messages over 2 interfaces of EFA to 1 servers"),
    ],
)
def test_data_path_over_efa(good, change, status, words):
    (path,) = good["probes"]
    good["mounts"][0].update(efa=True, servers=[server(9), server(0)], servers_problem=None)
    good.update({"net_problem": None, "efa_wanted": 2, "nets": {"efa": {"nids": 2, "up": 2}}})
    good["probes"][path]["status"] = change.pop("status", "pass")
    if good["probes"][path]["status"] == "fail":
        good["probes"][path].update(found=None, message="no")
    for name in set(change) & {"servers", "servers_problem"}:
        good["mounts"][0][name] = change.pop(name)
    good.update(change)
    (one,) = found(good, "lustre.network")
    assert (one.status, one.scope.device) == (status, path)
    assert (one.message or one.reason or one.found).startswith(words)


def test_servers_with_efa_are_counted(good):
    bare = {**server(0), "nets": ["tcp"]}
    good["mounts"][0].update(efa=True, servers=[server(9), bare, server(8)], servers_problem=None)
    good.update({"net_problem": None, "efa_wanted": 2, "nets": {"efa": {"nids": 2, "up": 2}}})
    (one,) = found(good, "lustre.network")
    assert (one.status, one.expected, one.found) == ("fail", 3, 2)


def test_file_system_without_efa_has_no_network_verdict(good):
    good["mounts"][0]["efa"] = False
    assert found(good, "lustre.network") == []


@pytest.mark.parametrize(
    ("state", "why", "words"),
    [
        ("absent", None, "nothing is mounted there"),
        ("trigger", None, "systemd's automount was triggered, and nothing was mounted"),
        ("silent", "no answer in 5 s", "the file system gives no answer: no answer in 5 s"),
        ("other", "x", "127.0.0.1:/fsx is mounted there and reports the type tmpfs"),
    ],
)
@pytest.mark.parametrize(("kind", "check"), [("mounts", "lustre.mounted"), ("nfs_mounts", "nfs.mounted")])
def test_missing_mount_isolates_node(good, kind, check, state, why, words):
    good[kind][0].update(state=state, why=why, source="127.0.0.1:/fsx", answer="tmpfs")
    (one,) = found(good, check)
    assert (one.status, one.severity, one.message) == ("fail", "isolate", words)


def test_other_mount_isolates_and_read_only_mount_resets(good):
    good["mounts"][0]["mount_name"] = "other"
    (one,) = found(good, "lustre.mounted")
    assert (one.severity, one.expected) == ("isolate", "other")
    good["mounts"][0].update(mount_name="", options="ro")
    (one,) = found(good, "lustre.mounted")
    assert (one.severity, one.message) == ("reset", "it is mounted read-only, and fstab does not set that")


def test_different_parameter_precedes_unreadable_one(good):
    row = good["tuning"][0]
    row.update(problem="lctl failed")
    (one,) = found(good, "lustre.tuning")
    assert (one.status, one.reason) == ("undeterminable", "lctl failed")
    row.update(differs=True, found=["8", "32"])
    (one,) = found(good, "lustre.tuning")
    assert one.status == "fail" and one.message.endswith(f"is 8 and 32 instead of {row['wanted']}")


def test_node_with_only_nfs_has_no_verdict_on_lustre(good):
    good["mounts"] = []
    assert [one.id for one in verify(good)] == ["lustre.mounted", "nfs.mounted"]
