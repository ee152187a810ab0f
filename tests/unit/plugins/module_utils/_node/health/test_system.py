# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.host import EnrootHost
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import system
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import config_text, parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.drain import is_proof
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import passed

from tests.unit.fakes import fake_training_host as scene
from tests.unit.fakes.fake_training_host import TrainingHost

CLOCK = "timedatectl show"
UNITS = "systemctl show"
LUSTRE = "60 1 0:50 / /fsx rw,noatime shared:1 - lustre 10.0.1.5@tcp:/abcd rw\n"
NFS = "61 1 0:51 / /home rw shared:2 - nfs4 10.0.1.6:/home rw\n"
LOCAL = "62 1 259:0 / / rw shared:3 - ext4 /dev/nvme0n1p1 rw\n"


def host(**commands):
    made = TrainingHost()
    made.commands.update(commands)
    return made


def with_answers(answers):
    made = TrainingHost()
    made.commands.update(answers)
    return made


def only(results):
    (result,) = results
    return result


def unit(name, active="active", file_state="enabled", load="loaded", names=""):
    return f"Id={name}\nNames={names or name}\nLoadState={load}\nActiveState={active}\nUnitFileState={file_state}\n"


def units(*blocks):
    """The answer about all services: these blocks, and that the others do not exist."""
    named = "".join(blocks)
    rest = [unit(name, "inactive", "", "not-found") for name in system.SERVICES if name not in named]
    return "\n".join([*blocks, *rest])


def services(*blocks):
    return system.check_services(with_answers({UNITS: units(*blocks)}))


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("yes\n", "pass"),
        ("no\n", "fail"),
        ("\n", "undeterminable"),
        ("Failed to query server\n", "undeterminable"),
        (CommandError(["timedatectl"], None, "", "", "the program is not installed"), "undeterminable"),
        (CommandResult(1, "", "Failed to connect to bus"), "undeterminable"),
    ],
)
def test_clock_status(output, status):
    assert only(system.check_clock(with_answers({CLOCK: output}))).status == status


def test_unreadable_clock_reports_reason():
    (one,) = system.check_clock(with_answers({CLOCK: CommandResult(1, "", "Failed to connect to bus")}))
    assert "Failed to connect to bus" in one.reason


@pytest.mark.parametrize(("output", "shown"), [("", "no output"), ("maybe\n", "maybe")])
def test_answer_on_clock_other_than_yes_or_no_is_shown(output, shown):
    (one,) = system.check_clock(with_answers({CLOCK: output}))
    assert one.reason == f"timedatectl reports neither yes nor no: {shown}"


def test_enabled_service_has_to_run():
    output = [
        unit("slurmd.service", "failed"),
        unit("munge.service"),
        unit("docker.service", "inactive", "disabled"),
        unit("slurmctld.service", "activating"),
    ]
    found = {result.scope.device: result for result in services(*output)}
    assert {name: result.status for name, result in found.items()} == {
        "munge.service": "pass",
        "slurmd.service": "fail",
        "slurmctld.service": "undeterminable",
    }
    assert (found["slurmd.service"].severity, found["slurmd.service"].found) == ("reset", "failed")


@pytest.mark.parametrize(
    "block",
    [
        unit("slurmd.service", "inactive", "", "not-found"),
        unit("slurmd.service", "inactive", "masked", "masked"),
        unit("slurmd.service", "failed", "disabled"),
        unit("slurmd.service", "failed", "static"),
    ],
)
def test_no_enabled_service_is_not_applicable(block):
    assert only(services(block)).status == "not_applicable"


@pytest.mark.parametrize(
    ("block", "status"),
    [
        (unit("slurmd.service", "inactive", "enabled", "bad-setting"), "fail"),
        (unit("slurmd.service", "failed", "", "error"), "fail"),
        (unit("slurmd.service", "inactive", "disabled", "bad-setting"), "undeterminable"),
        (unit("slurmd.service", "failed", "enabled-runtime"), "fail"),
        (unit("slurmd.service", "active", "enabled-runtime"), "pass"),
        (unit("slurmd.service", "failed", "enabled-somehow"), "undeterminable"),
        (unit("slurmd.service", "failed", ""), "undeterminable"),
        (unit("slurmd.service", "failed", "enabled", "stub"), "undeterminable"),
    ],
)
def test_service_in_odd_state_is_judged(block, status):
    one = only(services(block))
    assert (one.status, one.scope.device) == (status, "slurmd.service")


def test_services_that_systemctl_leaves_out_are_named():
    found = system.check_services(with_answers({UNITS: unit("chrony.service", names="chrony.service chronyd.service")}))
    assert [one.status for one in found] == ["pass", "undeterminable"]
    assert "slurmd.service" in found[1].reason and "chronyd" not in found[1].reason


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (CommandResult(1, "", "no bus"), "no bus"),
        ("", "systemctl lists no unit: no output"),
        ("Running in chroot, ignoring command\n", "systemctl lists no unit: Running in chroot, ignoring command"),
    ],
)
def test_systemctl_without_units_is_undeterminable(output, reason):
    one = only(system.check_services(with_answers({UNITS: output})))
    assert one.status == "undeterminable" and one.reason.endswith(reason)


@pytest.mark.parametrize(
    ("bytes_free", "inodes_free", "status"), [(50, 50, "pass"), (4.9, 50, "fail"), (50, 0, "fail")]
)
def test_root_needs_space_and_inodes(monkeypatch, bytes_free, inodes_free, status):
    free = {"bytes": bytes_free, "inodes": inodes_free}
    monkeypatch.setattr(system.scratch, "free_percent", lambda where: free if where == "/" else None)
    assert only(system.check_root(TrainingHost())).status == status


def test_each_network_file_system_has_to_answer():
    made = with_answers(
        {
            "stat --file-system --format=%T %b -- /fsx": "lustre 1000\n",
            "stat --file-system --format=%T %b -- /home": CommandError(["stat"], None, "", "", "no answer within 20 s"),
        }
    )
    made.files["/proc/self/mountinfo"] = LUSTRE + NFS + LOCAL
    found = {result.scope.device: result for result in system.check_mounts(made)}
    assert {path: result.status for path, result in found.items()} == {"/fsx": "pass", "/home": "fail"}
    assert found["/fsx"].found == "lustre from 10.0.1.5@tcp:/abcd"
    assert (found["/home"].severity, "no answer within 20 s" in found["/home"].message) == ("isolate", True)


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ("rw,user_id=1000,group_id=1000", "not_applicable"),
        ("rw,user_id=1000,group_id=1000,default_permissions,allow_other", "fail"),
        ("rw,user_id=0,group_id=0", "fail"),
    ],
)
def test_private_fuse_mount_is_not_applicable(monkeypatch, options, status):
    monkeypatch.setattr(TrainingHost, "own_uid", lambda host: 0)
    made = with_answers({"stat --file-system": CommandResult(1, "", "stat: cannot read: Permission denied")})
    made.files["/proc/self/mountinfo"] = f"63 1 0:52 / /home/u/s3 rw - fuse.mount-s3 mountpoint-s3 {options}\n"
    assert only(system.check_mounts(made)).status == status


def test_no_network_file_system_is_not_applicable():
    made = TrainingHost()
    made.files["/proc/self/mountinfo"] = LOCAL
    assert only(system.check_mounts(made)).status == "not_applicable"


LOCAL_TABLE = "# <file system> <mount point>\nUUID=1 / ext4 defaults 0 1\n\ntmpfs /tmp tmpfs rw 0 0\n"


@pytest.mark.parametrize(
    ("table", "mounts", "proved"),
    [
        (LOCAL_TABLE, "", True),
        ("", "", True),
        (None, "", False),
        (LOCAL_TABLE + "10.0.1.5@tcp:/abcd /fsx lustre defaults,noauto 0 0\n", "", False),
        (LOCAL_TABLE + "head:/home /home nfs\n", "", False),
        (LOCAL_TABLE + "/dev/sdz /x auto rw 0 0\n", "", False),
        (LOCAL_TABLE, "64 1 0:53 / /home rw - autofs auto.home rw\n", False),
        (LOCAL_TABLE, "64 1 0:53 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n", True),
    ],
)
def test_table_of_file_systems_proves_that_none_is_expected(table, mounts, proved):
    made = TrainingHost()
    made.files["/proc/self/mountinfo"] = LOCAL + mounts
    if table is not None:
        made.files["/etc/fstab"] = table
    found = only(system.check_mounts(made))
    assert (found.status, is_proof(found)) == ("not_applicable", proved)


@pytest.mark.parametrize(
    ("name", "text", "proved"),
    [
        ("fsx.mount", "[Mount]\nWhat=10.0.1.5@tcp:/abcd\nWhere=/fsx\nType=lustre\n", False),
        ("home.mount", "[Mount]\nWhat=head:/home\nWhere=/home\n", False),
        ("snap-core20-2105.mount", "[Mount]\nWhat=/var/lib/snapd/x.snap\nType = squashfs\n", True),
        ("tmp.mount", None, True),
        ("fsx.service", "[Service]\nType=simple\n", True),
    ],
)
def test_unit_of_a_network_mount_is_no_proof_of_none(name, text, proved):
    made = TrainingHost()
    made.files.update({"/proc/self/mountinfo": LOCAL, "/etc/fstab": LOCAL_TABLE})
    if text is None:
        # A masked unit.
        made.links[f"/etc/systemd/system/{name}"] = "/dev/null"
    else:
        made.files[f"/etc/systemd/system/{name}"] = text
    assert is_proof(only(system.check_mounts(made))) is proved


def test_containers_are_judged_where_role_ran(monkeypatch):
    class Bare(EnrootHost):
        def exists(self, path):
            return False

    assert only(system.check_containers(Bare())).status == "not_applicable"

    class Damaged(Bare):
        def exists(self, path):
            return True

        def read_json(self, path):
            return {"schema": "other"}

    assert only(system.check_containers(Damaged())).status == "undeterminable"


def test_lustre_is_judged_where_role_ran():
    made = TrainingHost()
    assert only(system.check_lustre(made)).status == "not_applicable"
    made.files[system.LUSTRE_CONFIG] = "{"
    assert "run the role fsx_lustre again" in only(system.check_lustre(made)).reason
    made.files[system.LUSTRE_CONFIG] = config_text(parse_config({"file_systems": [{"path": "/fsx"}]}))
    made.files["/proc/self/mountinfo"] = LOCAL
    found = {one.id: one.status for one in system.check_lustre(made)}
    assert found["lustre.mounted"] == "fail" and "lustre.write_read" not in found


def diag(*results):
    return "progress\n" + json.dumps({"context": {}, "results": list(results)})


def of_diag(output):
    made = with_answers({"/usr/bin/pcluster-diag run": output})
    made.programs.add("pcluster-diag")
    return system.check_pcluster_diag(made)


@pytest.mark.parametrize(
    ("status", "judged"),
    [
        ("PASSED", "pass"),
        ("FAILURE", "fail"),
        ("WARNING", "fail"),
        ("CHECK_ERROR", "undeterminable"),
        ("SKIPPED_NOT_APPLICABLE", "not_applicable"),
        ("SKIPPED_BY_USER", "undeterminable"),
        ("ALL_GOOD", "undeterminable"),
        (None, "undeterminable"),
    ],
)
def test_pcluster_diag_status_is_mapped(status, judged):
    error = {"code": "E1", "message": "kefalnd is missing"}
    kind = "infos" if status == "PASSED" else "errors"
    entry = {"check_id": "LustreFilesystem", "status": status, kind: [error], "warnings": None}
    result = only(of_diag(diag(entry)))
    assert (result.id, result.status) == ("pcluster.lustre_filesystem", judged)
    assert "E1: kefalnd is missing" in (result.message or result.reason or result.found)


@pytest.mark.parametrize("errors", [[{"code": "E1", "message": "x"}], [7], {"code": "E1"}, "x"])
def test_pcluster_check_that_passed_with_errors_is_no_pass(errors):
    one = only(of_diag(diag({"check_id": "IMDS", "status": "PASSED", "errors": errors})))
    assert (one.status, "it passed, and lists errors" in one.reason) == ("undeterminable", True)


@pytest.mark.parametrize("first", ["FAILURE", "PASSED"])
def test_pcluster_check_with_two_statuses_is_no_pass(first):
    other = "PASSED" if first == "FAILURE" else "FAILURE"
    text = f'{{"results": [{{"check_id": "IMDS", "status": "{first}", "status": "{other}"}}]}}'
    assert only(of_diag(text)).status == "undeterminable"


def test_pcluster_report_twice_is_no_report():
    text = diag({"check_id": "IMDS", "status": "PASSED"})
    assert [one.status for one in of_diag(text)] == ["pass"]
    assert [one.status for one in of_diag(text + text)] == ["undeterminable"]
    for end in range(len(text)):
        assert "pass" not in {one.status for one in of_diag(text[:end])}


def test_pcluster_diag_report_is_read_despite_exit_status():
    output = CommandResult(1, diag({"check_id": "IMDS", "status": "FAILURE", "errors": []}), "")
    assert [(one.id, one.status) for one in of_diag(output)] == [("pcluster.imds", "fail")]


NO_REPORT = "its report is not the JSON that 3.16 writes"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", NO_REPORT),
        ("{}", NO_REPORT),
        ('{"results": 7}', NO_REPORT),
        ('{"results": [7]}', NO_REPORT),
        (diag(), "it ran no check"),
        (CommandResult(3, "", "boom"), "boom"),
    ],
)
def test_invalid_pcluster_diag_report_is_undeterminable(output, reason):
    one = only(of_diag(output))
    assert (one.id, one.status) == ("pcluster.diag", "undeterminable") and reason in one.reason


@pytest.mark.parametrize("status", ["PASSED", "SKIPPED"])
def test_failed_pcluster_diag_is_no_pass(status):
    found = of_diag(CommandResult(139, diag({"check_id": "IMDS", "status": status}), "Segmentation fault"))
    assert [one.id for one in found] == ["pcluster.imds", "pcluster.diag"]
    assert found[1].status == "undeterminable" and "ended with status 139" in found[1].reason


def test_any_pcluster_check_name_becomes_id():
    for name in ("", "42", "Ünïcode check!", None, "A-B C"):
        assert only(of_diag(diag({"check_id": name, "status": "PASSED"}))).status == "pass"


def test_missing_pcluster_diag_is_not_applicable():
    assert only(system.check_pcluster_diag(TrainingHost())).status == "not_applicable"


def test_versions_of_installed_components():
    made = scene.good_node()
    made.files["/etc/os-release"] = 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n'
    made.files["/proc/sys/kernel/osrelease"] = "6.8.0-1030-aws\n"
    found = system.versions(made, {"libnccl2": "2.28.9-1+cuda13.0", "enroot": None, "bash": "5.2"})
    assert found["kernel"] == "6.8.0-1030-aws"
    assert found["os"] == "Ubuntu 24.04.3 LTS"
    assert found["driver"] == scene.DRIVER
    assert found["efa_installer"] == "1.43.0"
    assert found["package libnccl2"] == "2.28.9-1+cuda13.0"
    assert not {"lustre", "package enroot", "package bash"} & set(found)
    assert all(isinstance(version, str) and version for version in found.values())


def test_component_without_version_is_unreadable():
    made = scene.good_node()
    # The EFA driver of the kernel's own sources has none.
    made.files.pop("/sys/module/efa/version", None)
    made.files["/sys/module/efa/refcnt"] = "0\n"
    found = system.versions(made, {}, ["zsh"])
    assert "efa_driver" in system.unreadable(made, found) and "driver" not in system.unreadable(made, found)
    assert system.versions(made, {"zsh": "5.9"}, ["zsh"])["package zsh"] == "5.9"


def test_bare_machine_has_no_versions():
    assert system.versions(TrainingHost(), {}) == {}


@pytest.mark.parametrize(
    ("running", "installed", "status"),
    [
        ("6.8.0-1030-aws", ["6.8.0-1030-aws", "6.8.0-1029-aws"], "pass"),
        ("6.8.0-1030-aws", ["6.8.0-1030-aws", "6.8.0-1040-aws"], "fail"),
        # Gone from the disk: the next boot starts what is left.
        ("6.8.0-1030-aws", ["6.8.0-1029-aws"], "fail"),
        ("6.8.0-1030-aws", [], "not_applicable"),
    ],
)
def test_next_boot_has_to_start_running_kernel(running, installed, status):
    made = TrainingHost()
    made.files["/proc/sys/kernel/osrelease"] = f"{running}\n"
    made.files.update({f"/lib/modules/{release}/modules.dep": "" for release in installed})
    assert only(system.check_kernel(made)).status == status


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("lustre 1000\n", "pass"), ("lustre 0\n", "undeterminable"), ("UNKNOWN (0xbd00bd0)\n", "undeterminable"),
        ("UNKNOWN (0xbd00bd0) 1000\n", "pass"), ("lustre 1\n", "pass"), ("", "undeterminable"),
        ("lustre\n", "undeterminable"),
        ("lustre N/A\n", "undeterminable"), ("Unknown Error\n", "undeterminable"), ("lustre -1\n", "undeterminable"),
    ],
)  # fmt: skip
def test_file_system_answer_is_type_and_size(answer, status):
    made = with_answers({"stat --file-system --format=%T %b -- /fsx": answer})
    made.files["/proc/self/mountinfo"] = LUSTRE
    assert only(system.check_mounts(made)).status == status


@pytest.mark.parametrize(("answer", "shown"), [("", "nothing"), ("x" * 120, "x" * 100)])
def test_invalid_file_system_answer_is_shown(answer, shown):
    made = with_answers({"stat --file-system --format=%T %b -- /fsx": answer})
    made.files["/proc/self/mountinfo"] = LUSTRE
    one = only(system.check_mounts(made))
    assert (one.reason, one.scope.device) == (f"its answer is not a type and a size: {shown}", "/fsx")


def test_fuse_may_have_no_size():
    made = with_answers({"stat --file-system --format=%T %b -- /home/u/s3": "fuseblk 0\n"})
    made.files["/proc/self/mountinfo"] = "63 1 0:52 / /home/u/s3 rw - fuse.mount-s3 mountpoint-s3 rw\n"
    assert only(system.check_mounts(made)).status == "pass"


def test_containers_are_judged_by_their_own_verdicts(monkeypatch):
    class Made(system.EnrootHost):
        def exists(self, path):
            return path == system.ENROOT_CONFIG

    seen, verdict = [], passed("enroot.version", "3.5.0")
    monkeypatch.setattr(system, "load_config", lambda host, path: {"path": path})
    monkeypatch.setattr(system.enroot, "survey", lambda host, config: {"looked": True})
    monkeypatch.setattr(system, "refusals", lambda facts, config: ["no"])
    monkeypatch.setattr(system, "verify_enroot", lambda *given: seen.append(given[1:]) or [verdict])
    assert system.check_containers(Made()) == [verdict]
    assert seen == [({"looked": True}, ["no"], {"path": system.ENROOT_CONFIG})]

    def broken(host, config):
        raise system.NodeError("no enroot.conf")

    monkeypatch.setattr(system.enroot, "survey", broken)
    assert only(system.check_containers(Made())).reason == "no enroot.conf"


@pytest.mark.parametrize(("free", "status", "severity"), [(5, "pass", "none"), (4.99, "fail", "reset")])
def test_root_space_at_threshold_passes(monkeypatch, free, status, severity):
    monkeypatch.setattr(system.scratch, "free_percent", lambda where: {"bytes": 90, "inodes": free})
    one = only(system.check_root(TrainingHost()))
    assert (one.status, one.severity, one.expected, one.found) == (status, severity, 5, free)


def test_severity_of_clock_and_kernel_failures():
    assert only(system.check_clock(with_answers({CLOCK: "no\n"}))).severity == "monitor"
    made = TrainingHost()
    made.files.update({"/proc/sys/kernel/osrelease": "6.8\n", "/lib/modules/6.9/modules.dep": ""})
    one = only(system.check_kernel(made))
    assert (one.severity, one.expected, one.found) == ("monitor", "6.8", "6.9")


@pytest.mark.parametrize(
    ("status", "judged", "severity"),
    [("WARNING", "fail", "monitor"), ("FAILURE", "fail", "reset"), ("SKIPPED", "not_applicable", "none")],
)
def test_pcluster_check_without_details_shows_status(status, judged, severity):
    one = only(of_diag(diag({"check_id": "IMDS", "status": status, "errors": [7], "infos": "x"})))
    assert (one.status, one.severity, one.message or one.reason) == (judged, severity, status)


def test_reloading_service_passes():
    (one,) = services(unit("slurmd.service", "reloading"))
    assert (one.status, one.found) == ("pass", "reloading")
