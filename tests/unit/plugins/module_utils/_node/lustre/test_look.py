# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look, its verdicts, and the verbs, on the node of lustre_host."""

from __future__ import annotations

import functools
import json
import os
import pathlib

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import lustre as lustre_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import hsm as lustre_hsm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import look as lustre
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import tuning as lustre_tuning
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import (
    CONFIG_PATH,
    config_text,
    parse_config,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import parallel as health_bounded
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import (
    CommandError,
    CommandResult,
    NodeError,
)

from tests.unit.fakes.fake_lustre_host import KERNEL, LustreHost

TUNED = {"osc.*OST*.max_rpcs_in_flight": 32}


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(health_bounded, "STATE_DIRECTORY", str(tmp_path / "state"))
    made = LustreHost(tmp_path)
    made.parameters["osc.*OST*.max_rpcs_in_flight"] = {"osc.a": "8", "osc.b": "32"}
    return made


@pytest.fixture
def judge(host):
    """judge(mounts, wishes, options) gives the verdicts by id, as lines."""

    def run(systems, probe=True, packages=("lustre-*",), **options):
        config = parse_config({"file_systems": systems, **options})
        facts = lustre.look(host, config, lustre.Wishes(probe=probe, packages=packages))
        json.dumps(facts)
        return {result.id: result.line() for result in verify(facts)}

    return run


def test_a_good_node_passes(host, judge):
    told = judge([{"path": host.mount("fsx"), "mount_name": "abcdefgh"}], packages=("linux-*",))
    assert told["lustre.client"] == f"PASS lustre.client: found {KERNEL} has lustre 2.15.6"
    assert {name: line[:4] for name, line in told.items()} == {
        "lustre.client": "PASS",
        "lustre.next_kernel": "n/a ",
        "lustre.held": "PASS",
        "lustre.mounted": "PASS",
        "lustre.write_read": "PASS",
        "lustre.directories": "n/a ",
        "lustre.tuning": "n/a ",
        "lustre.module_options": "n/a ",
    }


def test_a_node_without_lustre_is_none_of_ours(host, judge):
    assert list(judge([])) == ["lustre.mounted"]
    assert judge([])["lustre.mounted"].startswith("n/a ")


def test_what_is_mounted_or_in_fstab_is_adopted(host, judge):
    path = host.mount("fsx")
    host.files["/etc/fstab"] = "fs-1.example.com@tcp:/abc /fsx9 lustre _netdev,noauto,x-systemd.automount 0 0\n"
    config = lustre.with_adopted(host, parse_config({}))
    assert sorted(system.path for system in config.file_systems) == sorted([path, "/fsx9"])


@pytest.mark.parametrize(
    ("kind", "autofs", "says"),
    [
        ("hangs", False, "the file system gives no answer: stat --file-system"),
        ("lustre", True, "the automount was touched and nothing came"),
        ("tmpfs", False, "is mounted there and says that it is tmpfs"),
    ],
)
def test_what_is_no_lustre_fails_by_name(host, judge, kind, autofs, says):
    path = host.mount("fsx", kind)
    if autofs:
        host.autofs.add(path)
    told = judge([{"path": path}])
    assert told["lustre.mounted"].startswith(f"FAIL lustre.mounted ({path}): ")
    assert says in told["lustre.mounted"]
    assert "lustre.write_read" not in told


def test_an_empty_mount_point_fails(host, judge, tmp_path):
    assert "nothing is mounted there" in judge([{"path": str(tmp_path / "fsx")}])["lustre.mounted"]


def test_another_file_system_is_told(host, judge):
    told = judge([{"path": host.mount("fsx"), "mount_name": "other"}])
    assert "another file system is mounted there: 10.0.1.7@tcp:/abcdefgh" in told["lustre.mounted"]


def test_a_kernel_of_the_next_boot_without_a_client_fails(host, judge):
    host.files["/lib/modules/6.8.0-1030-aws/modules.dep"] = ""
    told = judge([{"path": host.mount("fsx")}])
    assert "the kernel of the next boot 6.8.0-1030-aws has no module lustre" in told["lustre.next_kernel"]
    assert told["lustre.client"].startswith("PASS")


def test_a_client_that_is_missing_or_not_held_fails(host, judge):
    path = host.mount("fsx")
    assert "lustre-client-modules-x is not held" in judge([{"path": path}])["lustre.held"]
    host.broken = {"lfs": "", "lctl": ""}
    assert "lfs and lctl is not installed" in judge([{"path": path}])["lustre.client"]


def test_nothing_is_said_of_kernels_without_modinfo(host, judge):
    host.broken["modinfo"] = ""
    assert judge([{"path": host.mount("fsx")}])["lustre.client"].startswith("????")


def test_a_write_that_is_refused_is_told(host, judge, monkeypatch):
    def refused(_self, _path, _size=0):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LustreHost, "write_probe", refused)
    assert "root may not write there" in judge([{"path": host.mount("fsx")}])["lustre.write_read"]


def test_counters_prove_the_way_over_efa(host, judge, monkeypatch):
    path = host.mount("fsx")
    form = "net:\n    - net type: efa\n      local NI(s):\n        - nid: 1@efa\n          status: up\n"
    counted = iter([10, 10, 10, 90])

    def nets(_self, _argv):
        return CommandResult(0, f"{form}          statistics:\n              send_count: {next(counted)}\n", "")

    monkeypatch.setattr(LustreHost, "_lnetctl", nets)
    systems = [{"path": path, "efa": True}]
    assert "LNet has sent nothing over EFA" in judge(systems)["lustre.network"]
    assert "80 messages over 1 interfaces of EFA" in judge(systems)["lustre.network"]


def test_too_few_interfaces_of_efa_fail(host, judge):
    told = judge([{"path": host.mount("fsx"), "efa": True}], efa_interfaces=8)
    assert told["lustre.network"].startswith("FAIL")
    assert "0 interfaces of LNet are up on EFA" in told["lustre.network"]


@pytest.mark.parametrize(
    ("known", "count"), [("p5en.48xlarge", 8), ("p4d.24xlarge", 2), ("g6.16xlarge", 1), ("x9.large", 1), (None, 1)]
)
def test_interfaces_of_efa_go_by_the_type(known, count):
    assert lustre.efa_interfaces(known) == count


def test_missing_directories_are_named(host, judge):
    path = host.mount("fsx")
    told = judge([{"path": path}], directories=[{"path": f"{path}/a"}])
    assert told["lustre.directories"].startswith(f"FAIL lustre.directories: 1 of 1 are missing: {path}/a. run the role")
    os.mkdir(f"{path}/a")
    assert judge([{"path": path}], directories=[{"path": f"{path}/a"}])["lustre.directories"].startswith("PASS")


def test_tuning_that_differs_on_one_target_fails(host, judge):
    told = judge([{"path": host.mount("fsx")}], tuning=TUNED)
    assert "osc.*OST*.max_rpcs_in_flight is 32 and 8 instead of 32" in told["lustre.tuning"]


def test_tuning_that_lustre_does_not_have_proves_nothing(host, judge):
    told = judge([{"path": host.mount("fsx")}], tuning={"llite.*.none": 1})
    assert told["lustre.tuning"].startswith("????")


def test_loaded_modules_with_other_options_need_a_boot(host, judge):
    host.files["/sys/module/ksocklnd/parameters/credits"] = "256\n"
    told = judge([{"path": host.mount("fsx")}], module_options={"ksocklnd.credits": 2560})
    assert "ksocklnd.credits is 256 instead of 2560" in told["lustre.module_options"]
    assert "they count from the next boot" in told["lustre.module_options"]


def test_home_on_openzfs_is_looked_at(host, judge):
    home = host.mount("home", "nfs")
    assert judge([], nfs_mounts=[home])["nfs.mounted"].startswith("PASS")
    host.mounts[home] = "ext2/ext3"
    assert "says that it is ext2/ext3" in judge([], nfs_mounts=[home])["nfs.mounted"]


def test_tune_sets_what_differs_and_then_nothing(host, caplog):
    host.files[CONFIG_PATH] = config_text(
        parse_config({"file_systems": [{"path": host.mount("fsx")}], "tuning": TUNED})
    )
    args = cli.build_parser("1").parse_args(["lustre-tune"])
    assert lustre_cli.tune_verb(args, host) == 0
    assert host.parameters["osc.*OST*.max_rpcs_in_flight"] == {"osc.a": "32", "osc.b": "32"}
    before = len([argv for argv in host.ran if argv[:2] == ["lctl", "set_param"]])
    assert lustre_cli.tune_verb(args, host) == 0
    assert len([argv for argv in host.ran if argv[:2] == ["lctl", "set_param"]]) == before == 1


def test_tune_says_what_it_could_not_do(host, caplog):
    args = cli.build_parser("1").parse_args(["lustre-tune"])
    assert lustre_cli.tune_verb(args, host) == 2
    assert "run the role fsx_lustre on this node first" in caplog.text
    path = host.mount("fsx")
    host.files[CONFIG_PATH] = config_text(parse_config({"file_systems": [{"path": path}], "tuning": TUNED}))
    host.autofs.add(path)
    assert lustre_cli.tune_verb(args, host) == 2
    assert f"no file system of Lustre is mounted ({path} is trigger)" in caplog.text
    host.files[CONFIG_PATH] = "[]"
    assert lustre_cli.tune_verb(args, host) == 2


def test_a_small_machine_needs_no_tuning(host):
    host.files[CONFIG_PATH] = config_text(parse_config({}))
    assert lustre_cli.tune_verb(cli.build_parser("1").parse_args(["lustre-tune"]), host) == 0
    assert host.ran == []


def test_info_prints_its_verdicts(host, capsys):
    host.files[CONFIG_PATH] = config_text(parse_config({"file_systems": [{"path": host.mount("fsx")}]}))
    assert lustre_cli.show(cli.build_parser("1").parse_args(["lustre-info"]), host) == 0
    assert "PASS lustre.write_read" in capsys.readouterr().out


def test_info_judges_one_id_alone(host, capsys, caplog):
    systems = [{"path": host.mount("fsx"), "efa": True}]
    host.files[CONFIG_PATH] = config_text(parse_config({"file_systems": systems, "efa_interfaces": 2}))
    parser = cli.build_parser("1")
    assert lustre_cli.show(parser.parse_args(["lustre-info", "--only", "lustre.mounted"]), host) == 0
    assert "PASS lustre.mounted" in capsys.readouterr().out
    # The number of interfaces is that of the site, also at boot.
    assert lustre_cli.show(parser.parse_args(["lustre-info", "--only", "lustre.network"]), host) == 1
    assert "expected 2" in capsys.readouterr().out
    assert lustre_cli.show(parser.parse_args(["lustre-info", "--only", "lustre.nothing"]), host) == 2
    assert "the id lustre.nothing and found only lustre.client, " in caplog.text


@pytest.fixture
def tree(host, tmp_path):
    """Files in the states released, local, changed here, lost, and one behind a link."""
    top = tmp_path / "tree"
    (top / "sub").mkdir(parents=True)
    flags = {"a": 0x0D, "sub/b": 0x0D, "local": 0x09, "dirty": 0x0B, "new": 0, "lost": 0x4D}
    for name, value in flags.items():
        (top / name).write_text(name, encoding="utf-8")
        host.hsm[str(top / name)] = value
    (top / "link").symlink_to(tmp_path)
    return str(top)


def test_states_are_counted(host, tree):
    counts = lustre_hsm.count(host, tree)
    assert {key: counts[key] for key in ("files", "released", "local", "archived", "dirty", "lost")} == {
        "files": 6,
        "released": 3,
        "local": 3,
        "archived": 3,
        "dirty": 1,
        "lost": 1,
    }
    assert counts["exported"] is False


def test_hydrate_brings_what_is_released(host, tree):
    told = []
    tally = lustre_hsm.run(host, "hydrate", tree, parallel=2, progress=lambda one: told.append(one.done))
    assert (tally.files, tally.done, tally.already, tally.passed_over, tally.waiting) == (6, 2, 3, 1, 0)
    assert told[0] == 0
    assert told[-1] == 2
    assert lustre_hsm.run(host, "hydrate", tree).done == 0


def test_release_leaves_what_s3_does_not_have(host, tree):
    tally = lustre_hsm.run(host, "release", tree)
    assert (tally.done, tally.already, tally.passed_over) == (1, 3, 2)
    assert host.hsm[f"{tree}/dirty"] == 0x0B
    assert host.hsm[f"{tree}/new"] == 0


def test_archive_takes_what_is_new_or_changed(host, tree):
    tally = lustre_hsm.run(host, "archive", tree)
    assert (tally.done, tally.already, tally.passed_over) == (2, 3, 1)


def test_what_s3_has_lost_is_never_told_to_be_archived(host, tree):
    """Of one that is here as well the copy is asked for again; Lustre's refusal is told."""
    host.hsm[f"{tree}/local"] = 0x49
    host.broken[f"{tree}/local"] = ""
    tally = lustre_hsm.run(host, "archive", tree)
    assert (tally.already, tally.passed_over, len(tally.failures)) == (2, 1, 1)
    assert tally.failures[0].startswith(f"{tree}/local: ")


@pytest.mark.parametrize("when", ["hsm_state", "hsm_archive", "sleep"])
def test_files_that_go_meanwhile_stop_nothing(host, tree, monkeypatch, when):
    """Retention takes an old checkpoint away while the newer ones are sent to S3."""

    def gone(paths):
        return CommandResult(2, "", "No such file or directory") if not all(map(os.path.lexists, paths)) else None

    def remove():
        pathlib.Path(tree, "new").unlink(missing_ok=True)

    state, archive = host.hsm_state, host.hsm_archive

    def hsm_state(paths):
        if when == "hsm_state":
            remove()
        return gone(paths) or state(paths)

    def hsm_archive(paths):
        if when == "hsm_archive":
            remove()
        late = [path for path in paths if when == "sleep" and path.endswith("/new")]
        return gone(paths) or archive([path for path in paths if path not in late])

    monkeypatch.setattr(host, "hsm_state", hsm_state)
    monkeypatch.setattr(host, "hsm_archive", hsm_archive)
    monkeypatch.setattr(host, "sleep", lambda seconds: remove())
    tally = lustre_hsm.run(host, "archive", tree)
    assert (tally.files, tally.done, tally.already, tally.waiting, tally.failures) == (5, 1, 3, 0, [])


@pytest.mark.parametrize("action", ["state", "archive", "release", "hydrate"])
def test_of_a_link_nothing_is_told_to_be_done(host, tree, caplog, action):
    args = cli.build_parser("1").parse_args(["lustre-data", action, f"{tree}/link"])
    assert lustre_cli.data_verb(args, host) == 2
    assert "is a link to " in caplog.text


def test_one_refusal_does_not_stop_the_others_and_is_told(host, tree):
    host.broken[f"{tree}/a"] = ""
    tally = lustre_hsm.run(host, "hydrate", tree)
    assert (tally.done, tally.waiting, len(tally.failures)) == (1, 0, 1)
    assert tally.failures[0].startswith(f"{tree}/a: ")


def test_what_does_not_come_is_waiting_after_the_time_is_over(host, tree, monkeypatch):
    monkeypatch.setattr(LustreHost, "hsm_restore", lambda self, paths: self._each(paths, lambda flags: flags))
    tally = lustre_hsm.run(host, "hydrate", tree, timeout=10)
    assert (tally.done, tally.waiting) == (0, 2)
    assert host.clock >= 10


def test_a_coordinator_that_hangs_is_left_at_the_time_limit(host, tree, monkeypatch):
    """Each question takes its whole limit; one by one over a tree of many files that would go on for days."""
    limits = []

    def hangs(argv, timeout=120, check=True, stdin=None):
        if argv[1] != "hsm_restore":
            return LustreHost.run(host, argv, timeout, check, stdin)
        limits.append(timeout)
        host.clock += timeout
        raise CommandError(argv, None, "", "", f"no answer within {timeout:g} seconds")

    monkeypatch.setattr(host, "run", hangs)
    monkeypatch.setattr(lustre_hsm, "BATCH", 1)
    tally = lustre_hsm.run(host, "hydrate", tree, parallel=1, timeout=150)
    assert limits == [120, 30]
    assert (tally.done, tally.waiting, tally.failures) == (0, 2, [])


def test_a_file_system_whose_servers_are_away_is_said_and_not_read(host, tree, monkeypatch):
    host.mounts[tree] = "hangs"
    monkeypatch.setattr(os, "scandir", lambda path: pytest.fail("it would wait for ever"))
    for look in (lustre_hsm.count, functools.partial(lustre_hsm.run, action="hydrate")):
        with pytest.raises(NodeError, match="no answer within 5 seconds: look with 'dmesg' whether its servers answer"):
            look(host=host, path=tree)


def test_what_is_no_lustre_or_not_there_is_refused(host, tree, monkeypatch):
    with pytest.raises(NodeError, match="could not be read"):
        lustre_hsm.run(host, "hydrate", f"{tree}/nothing")
    with pytest.raises(NodeError, match="must be one of hydrate, release, archive"):
        lustre_hsm.run(host, "delete", tree)
    host.broken["lfs"] = "not a Lustre file system"
    with pytest.raises(NodeError, match="not a Lustre file system"):
        lustre_hsm.count(host, tree)


def test_the_verb_prints_counts_and_its_status_fits(host, tree, capsys, caplog):
    def run(*words):
        return lustre_cli.data_verb(cli.build_parser("1").parse_args(["lustre-data", *words]), host)

    assert run("hydrate", tree, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["done"], told["problem"]) == (2, "1 of 6 files were passed over, since their copy in S3 is lost")
    assert run("state", tree) == 0
    assert "released 1" in capsys.readouterr().out
    assert run("hydrate", f"{tree}/a") == 0
    assert run("state", f"{tree}/nothing", "--json") == 2
    assert "could not be read" in json.loads(capsys.readouterr().out.splitlines()[-1])["problem"]


def test_what_is_left_is_told_in_one_sentence():
    tally = lustre_hsm.Tally(files=9, waiting=2, passed_over=3, failures=["/fsx/a: denied", "/fsx/b: denied"])
    assert lustre_cli.tally_problem("release", tally, 60) == (
        "2 files were not done within 60 seconds: run it again, it goes on there; "
        "3 of 9 files were passed over, since S3 does not have them as they are: archive them first; "
        "2 files were refused, the first: /fsx/a: denied"
    )


def test_apply_tells_what_was_not_set(host):
    host.broken["lctl"] = "denied"
    rows = [{"name": "osc.a", "wanted": "1", "differs": True}]
    (sentence,) = lustre_tuning.apply(host, rows, 5)
    assert sentence.startswith("osc.a was not set to 1: lctl set_param osc.a=1 ended with status 1: denied")
