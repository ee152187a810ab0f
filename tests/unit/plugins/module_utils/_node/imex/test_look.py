# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import look as imex_look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult

from tests.unit.fakes.fake_imex_host import CONFIG, NODES, SITE, TYPE, FakeImexHost
from tests.unit.fakes.fake_training_host import RECORDED_XML

OPTIONS = config.Options(instance_type=TYPE)


def look(host, options=OPTIONS):
    return imex_look.look(host, options)


def test_node_of_ultraserver():
    facts = look(FakeImexHost())
    assert (facts["type"], facts["ultraserver"], facts["major"], facts["record"]) == (TYPE, True, 234, None)
    assert facts["unit"] == {
        "problem": None, "load": "loaded", "active": "inactive", "enabled": "enabled", "config": CONFIG
    }  # fmt: skip
    assert facts["config"] == {"path": CONFIG, "text": SITE, "shared": None}
    assert facts["nodes"] == {"path": NODES, "text": "0.0.0.0\n0.0.0.0\n", "shared": None}


def test_other_node_is_not_looked_at():
    host = FakeImexHost()
    facts = look(host, config.Options(instance_type="p5.48xlarge"))
    assert facts == {"type": "p5.48xlarge", "ultraserver": False} and host.ran == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, ""),
        ("", "cannot be read as mlcluster.imex/1"),
        ("{", "cannot be read as mlcluster.imex/1"),
        ('{"schema": "mlcluster.imex/2", "state": "ready"}', "cannot be read as mlcluster.imex/1"),
        ('{"schema": "mlcluster.imex/1", "state": "Unknown Error"}', "has an unknown state: 'Unknown Error'"),
        ('{"schema": "mlcluster.imex/1"}', "has an unknown state: 'None'"),
        ('{"schema": "mlcluster.imex/1", "state": "ready"}', ""),
        ('{"schema": "mlcluster.imex/1", "state": "failed", "blame": "own"}', ""),
        (
            '{"schema": "mlcluster.imex/1", "state": "failed", "blame": "N/A"}',
            "does not name the cause of a failure: 'N/A'",
        ),
        ('{"schema": "mlcluster.imex/1", "state": "failed"}', "does not name the cause of a failure: 'None'"),
    ],
)
def test_record_that_cannot_be_read_is_problem(text, problem):
    host = FakeImexHost()
    if text is not None:
        host.files[config.RECORD] = text
    facts = look(host)
    assert (facts["record"] is not None) == (text is not None and not problem)
    assert facts["record_problem"] == (f"{config.RECORD} {problem}" if problem else "")


def test_record_without_permission_is_problem():
    host = FakeImexHost()
    host.exists = lambda path: path == config.RECORD
    assert look(host)["record_problem"] == f"{config.RECORD} cannot be read as mlcluster.imex/1"


@pytest.mark.parametrize(
    ("devices", "ultraserver"),
    [
        ("Character devices:\n  1 mem\n", False),
        ("Character devices:\n234 nvidia-caps-imex-channels\n", None),
        (None, None),
    ],
)
@pytest.mark.parametrize("kind", [None, "p9.48xlarge"])
def test_unknown_type_is_reported_by_driver(devices, ultraserver, kind):
    host = FakeImexHost()
    host.files.pop("/proc/devices")
    if devices is not None:
        host.files["/proc/devices"] = devices
    assert look(host, config.Options(instance_type=kind)) == {"type": kind, "ultraserver": ultraserver}
    assert host.ran == ([] if ultraserver is False else ["nvidia-smi -q -x"])


@pytest.mark.parametrize(("text", "ultraserver"), [(RECORDED_XML, False), (RECORDED_XML[:-40], None), ("no XML", None)])
def test_unknown_type_without_fabric_is_none(text, ultraserver):
    host = FakeImexHost()
    host.smi = text
    assert look(host, config.Options(instance_type="p9.48xlarge"))["ultraserver"] is ultraserver


@pytest.mark.parametrize("kind", ["p6e-gb300r.36xlarge", "p7e-gb400.36xlarge", "u-p6e-gb300x72"])
def test_name_of_ultraserver_that_is_not_listed(kind):
    host = FakeImexHost()
    host.files["/proc/devices"] = "Character devices:\n  1 mem\n"
    assert look(host, config.Options(instance_type=kind))["ultraserver"] is None


def test_files_of_unit_and_of_its_configuration():
    host = FakeImexHost()
    host.unit["ExecStart"] = host.unit["ExecStart"].replace(CONFIG, "/opt/imex/config.cfg")
    host.files["/opt/imex/config.cfg"] = "IMEX_NODE_CONFIG_FILE=/opt/imex/nodes.cfg\n"
    host.files["/proc/self/mountinfo"] += "40 22 0:9 / /opt/imex rw - nfs4 head:/x rw\n"
    facts = look(host)
    assert facts["config"]["path"] == "/opt/imex/config.cfg"
    assert facts["nodes"] == {"path": "/opt/imex/nodes.cfg", "text": None, "shared": "NFS"}


def test_daemons_of_containers_too():
    host = FakeImexHost()
    host.files["/proc/12/cmdline"] = "/usr/bin/nvidia-imex\0-c\0/imexd/imexd.cfg\0"
    host.files["/proc/13/cmdline"] = "nvidia-imex\0"
    host.files["/proc/14/cmdline"] = "nvidia-imex-ctl\0-N\0"
    host.files["/proc/15/cmdline"] = "vi\0/etc/nvidia-imex\0x\0"
    assert imex_look.daemons(host)[:2] == [{"pid": 12, "config": "/imexd/imexd.cfg"}, {"pid": 13, "config": None}]


def test_program_of_user_is_no_daemon():
    host = FakeImexHost()
    host.files["/proc/31/cmdline"] = "/tmp/nvidia-imex\0-c\0/tmp/x\0"
    host.uids["/proc/31"] = 1000
    assert imex_look.daemons(host) == []


def test_file_named_like_daemon_is_no_daemon():
    host = FakeImexHost()
    host.files["/proc/15/cmdline"] = "less\0/var/log/nvidia-imex.log\0"
    assert imex_look.daemons(host) == []


def test_systemd_that_does_not_answer_is_problem():
    host = FakeImexHost()
    host.unit = {}
    assert imex_look.look_unit(host, "nvidia-imex")["problem"] == "systemctl shows no unit nvidia-imex.service"


@pytest.mark.parametrize(("text", "problem"), [("", "ended with status 255"), ("nonsense", "no table as documented")])
def test_domain_that_is_not_known_has_its_reason(text, problem):
    host = FakeImexHost()
    host.tables = [text]
    domain, reason = imex_look.look_domain(host, CONFIG)
    assert domain is None and problem.replace("no table", "not print a table") in reason


def test_programs_that_slurm_runs_as_prolog():
    host = FakeImexHost()
    host.slurm["show config"] = (
        "Prolog[0] = /opt/slurm/prolog.d/*\nProlog[1] = /etc/p\nSwitchType = switch/nvidia_imex\n"
    )
    host.files.update({"/opt/slurm/prolog.d/90_a": "a", "/opt/slurm/prolog.d/91_b": "b", "/etc/p": "p"})
    found = imex_look.look_slurm(host, Slurm(host))
    assert found["prologs"] == {"/opt/slurm/prolog.d/90_a": "a", "/opt/slurm/prolog.d/91_b": "b", "/etc/p": "p"}
    assert found["switch"] == "switch/nvidia_imex"


def test_prologs_by_any_pattern():
    host = FakeImexHost()
    host.slurm["show config"] = "Prolog = /opt/p.d/[0-9]*.sh\n"
    host.files.update({"/opt/p.d/90_a.sh": "a", "/opt/p.d/README": "b"})
    assert imex_look.look_slurm(host, Slurm(host))["prologs"] == {"/opt/p.d/90_a.sh": "a"}


def test_slurm_without_answer_gives_nothing():
    host = FakeImexHost()
    del host.slurm["show config"]
    found = imex_look.look_slurm(host, Slurm(host))
    assert (found["prologs"], found["switch"]) == ({}, None)
    assert "show config ended with status 1" in found["slurm_problem"]


def test_daemon_is_one_of_first_two_words():
    host = FakeImexHost()
    host.files["/proc/16/cmdline"] = "/bin/sh\0/usr/bin/nvidia-imex\0-c"
    host.files["/proc/17/cmdline"] = "less\0-N\0/usr/bin/nvidia-imex\0"
    host.files["/proc/18/cmdline"] = "nvidia-imex\0-c\0/a\0/b\0"
    host.files["/proc/self/cmdline"] = "nvidia-imex\0"
    assert imex_look.daemons(host) == [{"pid": 16, "config": None}, {"pid": 18, "config": "/a"}]
    host.stat = lambda path: None
    assert imex_look.daemons(host) == []


def test_state_of_this_node():
    host = FakeImexHost()
    assert imex_look.look_status(host, CONFIG) == "READY"
    host.programs.pop("nvidia-imex-ctl")
    host._answer = lambda line: CommandResult(255, "READY", "no answer")
    assert imex_look.look_status(host, CONFIG) is None


def test_silent_systemd_has_its_own_reason():
    host = FakeImexHost()
    host._answer = lambda line: CommandResult(1, "", "Failed to connect to bus")
    found = imex_look.look_unit(host, "nvidia-imex")
    assert "Failed to connect to bus" in found["problem"] and found["load"] is None


def test_missing_prolog_is_empty():
    host = FakeImexHost()
    host.slurm["show config"] = "Prolog = /etc/gone\n"
    host.files["/etc/other"] = "x"
    assert imex_look.look_slurm(host, Slurm(host))["prologs"] == {"/etc/gone": ""}


def test_file_without_mount_table_is_not_shared():
    host = FakeImexHost()
    host.files.pop("/proc/self/mountinfo")
    assert look(host)["config"] == {"path": CONFIG, "text": SITE, "shared": None}
    host.files["/proc/self/mountinfo"] = "22 1 0:9 / /data rw - nfs4 head:/x rw\n"
    assert look(host)["config"]["shared"] is None
