# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import config, parse, plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.job import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.look import look

from tests.unit.fakes.fake_imex_host import ADDRESSES, CONFIG, NODES, TYPE, FakeImexHost

OPTIONS = config.Options(instance_type=TYPE)
JOB = Job(7, 0, "n1", True, ADDRESSES)


def facts(host=None, prologs=None, switch=None):
    return {**look(host or FakeImexHost(), OPTIONS), "prologs": prologs or {}, "switch": switch}


def done(host, job=JOB):
    """Return the node as a plan leaves it."""
    made = plan.make_plan(OPTIONS, job, facts(host))
    for file in made.files:
        host.files[file.path] = file.text
    host.unit["ActiveState"] = "active"
    host.device = (234, 0, 0o666)
    record = {"schema": config.SCHEMA, "state": "ready", "job_id": job.job_id, "restarts": job.restarts}
    host.files[config.RECORD] = json.dumps(record)
    return made


def test_fresh_node_gets_everything():
    made = done(host := FakeImexHost())
    assert made.differences() == [
        "list of nodes", "configuration", "unit nvidia-imex.service", config.CHANNEL, "the domain"
    ]  # fmt: skip
    assert host.files[NODES] == "10.0.0.1\n10.0.0.2\n10.0.0.3\n"
    assert parse.settings(host.files[CONFIG])["SERVER_PORT"] == str(config.FIRST_PORT + 7)


def test_same_job_again_is_only_waited_for():
    done(host := FakeImexHost())
    assert plan.make_plan(OPTIONS, JOB, facts(host)).differences() == ["the domain"]


def test_stopped_daemon_is_started_with_present_files():
    done(host := FakeImexHost())
    host.unit["ActiveState"] = "failed"
    assert plan.make_plan(OPTIONS, JOB, facts(host)).differences() == ["unit nvidia-imex.service", "the domain"]


@pytest.mark.parametrize(
    "job",
    [Job(8, 0, "n1", True, ADDRESSES), Job(7, 1, "n1", True, ADDRESSES), Job(7, 0, "n1", True, {"n1": "10.0.0.1"})],
)
def test_other_job_start_or_list_restarts_daemon(job):
    done(host := FakeImexHost())
    assert "unit nvidia-imex.service" in plan.make_plan(OPTIONS, job, facts(host)).differences()


@pytest.mark.parametrize("record", ["", '{"schema": "mlcluster.imex/1", "state": "ready", "job_id": 8199}'])
def test_daemon_with_files_of_another_job_is_restarted(record):
    done(host := FakeImexHost())
    # Ports come round again: job 8199 has that of job 7, and here its nodes too.
    host.files[config.RECORD] = record
    assert plan.make_plan(OPTIONS, JOB, facts(host)).differences() == ["unit nvidia-imex.service", "the domain"]


def test_every_node_of_job_has_same_files():
    made = [plan.make_plan(OPTIONS, Job(7, 0, name, True, ADDRESSES), facts()).files for name in ADDRESSES]
    assert made[0] == made[1] == made[2]


def test_site_settings_are_kept():
    host = FakeImexHost()
    host.files[CONFIG] = "LOG_LEVEL=2\nIMEX_CMD_PORT=50099\n"
    text = done(host).files[1].text
    assert parse.settings(text) == {
        "LOG_LEVEL": "2", "IMEX_CMD_PORT": "50099", "SERVER_PORT": "21007", "IMEX_CMD_ENABLED": "1"
    }  # fmt: skip


@pytest.mark.parametrize(("major", "mode"), [(235, 0o666), (234, 0o600)])
def test_wrong_channel_is_made_again(major, mode):
    done(host := FakeImexHost())
    host.device = (major, 0, mode)
    assert plan.make_plan(OPTIONS, JOB, facts(host)).differences() == [config.CHANNEL, "the domain"]


def test_channels_of_slurm_are_left_unchanged():
    made = plan.make_plan(OPTIONS, JOB, facts(switch="switch/nvidia_imex"))
    assert config.CHANNEL not in made.differences()
    assert made.notes == ("Slurm makes the channels itself (switch/nvidia_imex)",)


def test_nodes_of_other_blocks_are_noted():
    made = plan.make_plan(OPTIONS, Job(7, 0, "n1", True, ADDRESSES, ("n4", "n5")), facts())
    assert made.notes == ("2 nodes of the job are in other blocks, and not in this domain",)


@pytest.mark.parametrize(("nodes", "noted"), [(18, False), (19, True)])
def test_job_on_more_nodes_than_ultraserver_has_is_noted(nodes, noted):
    members = {f"n{number}": f"10.0.0.{number}" for number in range(1, nodes + 1)}
    made = plan.make_plan(OPTIONS, Job(7, 0, "n1", True, members), facts())
    assert any("19 nodes are more than an UltraServer has (18)" in note for note in made.notes) is noted


@pytest.mark.parametrize(
    ("options", "job", "reason"),
    [
        (config.Options("none", instance_type=TYPE), JOB, "slurm_jobs_imex is none"),
        (OPTIONS, Job(7, 0, "n1", False, ADDRESSES), "job 7 shares its nodes"),
        (config.Options("none", instance_type=TYPE), Job(7, 0, "n1", False, ADDRESSES), "slurm_jobs_imex is none"),
    ],
)
def test_job_without_domain(options, job, reason):
    made = plan.make_plan(options, job, facts())
    assert (made.concerned, made.differences()) == (False, []) and reason in made.reason


def test_other_types_have_no_domain():
    assert "p5.48xlarge is not part of an UltraServer" in plan.no_domain_on_node_reason(
        OPTIONS, {"type": "p5.48xlarge", "ultraserver": False}
    )
    assert "this machine is not part" in plan.no_domain_on_node_reason(OPTIONS, {"type": None, "ultraserver": False})
    assert plan.no_domain_on_node_reason(OPTIONS, {"type": None, "ultraserver": None}) == ""


def test_daemon_of_dra_driver_is_left_unchanged():
    host = FakeImexHost()
    host.files["/proc/99/cmdline"] = "nvidia-imex\0-c\0/imexd/imexd.cfg\0"
    made = plan.make_plan(OPTIONS, JOB, facts(host))
    assert not made.concerned and "process 99 is an IMEX daemon with /imexd/imexd.cfg" in made.reason


def test_own_daemon_is_not_foreign():
    host = FakeImexHost()
    host.files["/proc/99/cmdline"] = f"/usr/bin/nvidia-imex\0-c\0{CONFIG}\0"
    assert plan.make_plan(OPTIONS, JOB, facts(host)).concerned


@pytest.mark.parametrize(
    ("text", "concerned"),
    [
        ("systemctl restart nvidia-imex", False),
        ("echo $IPS > /x/nodes_config.cfg", False),
        ("mlcluster health --profile prolog\nsystemctl restart nvidia-imex", False),
        ("# nvidia-imex\n/usr/local/bin/mlcluster imex up --mode required", True),
        ("echo hello", True),
    ],
)
def test_prolog_of_site_is_left_unchanged(text, concerned):
    made = plan.make_plan(OPTIONS, JOB, facts(prologs={"/opt/slurm/prolog.d/91_imex": text}))
    assert made.concerned is concerned
    assert concerned or "/opt/slurm/prolog.d/91_imex configures IMEX for jobs" in made.reason


def broken(**changes):
    host = FakeImexHost()
    host.programs.pop(changes.get("program", ""), None)
    host.unit.update(changes.get("unit", {}))
    host.files.update(changes.get("files", {}))
    if changes.get("no_config"):
        del host.files[CONFIG]
    return host


@pytest.mark.parametrize(
    ("host", "part"),
    [
        (broken(program="nvidia-imex-ctl"), "looked for nvidia-imex-ctl and did not find them"),
        (broken(unit={"LoadState": "masked"}), "the unit of the IMEX daemon is masked"),
        (broken(unit={"Id": ""}), "cannot be read: systemctl shows no unit"),
        (broken(no_config=True), f"{CONFIG} cannot be read"),
        (broken(files={"/proc/devices": "Character devices:\n"}), "/proc/devices has no nvidia-caps-imex-channels"),
        (
            broken(files={CONFIG: "BIND_INTERFACE_IP=10.9.9.9\n"}),
            "binds the daemon to 10.9.9.9, and Slurm has 10.0.0.1",
        ),
        (
            broken(files={CONFIG: "IMEX_CMD_BIND_INTERFACE_IP=127.0.0.1\n"}),
            "binds its command service to 127.0.0.1, and Slurm has 10.0.0.1",
        ),
        (
            broken(files={"/proc/self/mountinfo": "22 1 0:9 / / rw - nfs4 head:/x rw\n"}),
            f"{CONFIG} is on NFS, where jobs of other nodes would also write it",
        ),
    ],
)
def test_obstacle_is_refusal(host, part):
    made = plan.make_plan(OPTIONS, JOB, facts(host))
    assert part in "; ".join(made.refusals) and made.differences() == []


def test_unknown_prologs_are_refusal():
    made = plan.make_plan(OPTIONS, JOB, {**facts(), "slurm_problem": "no answer"})
    assert made.refusals == ("whether another Prolog makes the domains of jobs here is not known: no answer",)
    assert not made.files


@pytest.mark.parametrize(
    ("kind", "words"),
    [("p9.48xlarge", "p9.48xlarge is in no table of types"), (None, "its firmware names no instance")],
)
def test_unknown_machine_is_explained(kind, words):
    assert f"is part of an UltraServer is not known: {words}" in plan.unknown_machine({"type": kind})


@pytest.mark.parametrize("key", ["BIND_INTERFACE_IP", "IMEX_CMD_BIND_INTERFACE_IP"])
def test_daemon_may_be_bound_to_address_of_node(key):
    for value in ("10.0.0.1", ""):
        host = broken(files={CONFIG: f"{key}={value}\n"})
        assert plan.make_plan(OPTIONS, JOB, facts(host)).refusals == ()


def test_channels_of_slurm_need_no_major_number():
    made = plan.make_plan(OPTIONS, JOB, facts(broken(files={"/proc/devices": ""}), switch="switch/nvidia_imex"))
    assert made.refusals == () and config.CHANNEL not in made.differences()


def test_daemon_without_argument_has_default_file():
    host = FakeImexHost()
    host.files["/proc/99/cmdline"] = "/usr/bin/nvidia-imex\0"
    assert plan.make_plan(OPTIONS, JOB, facts(host)).concerned
    host.unit["ExecStart"] = host.unit["ExecStart"].replace(CONFIG, "/opt/config.cfg")
    host.files["/opt/config.cfg"] = host.files[CONFIG]
    assert f"process 99 is an IMEX daemon with {CONFIG}" in plan.make_plan(OPTIONS, JOB, facts(host)).reason


def test_missing_list_of_nodes_is_written():
    host = FakeImexHost()
    del host.files[NODES]
    assert "list of nodes" in plan.make_plan(OPTIONS, JOB, facts(host)).differences()


def test_channel_of_other_minor_number_is_wrong():
    assert plan.channel_is_right({"channel": (234, 0, 0o666), "major": 234})
    assert not plan.channel_is_right({"channel": (234, 1, 0o666), "major": 234})
