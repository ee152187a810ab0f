# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scripts with which Slurm asks for a node's health and gives jobs their directories, as the role renders them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli

from tests.rig.slurm import scripts
from tests.rig.slurm.processes import wait_for
from tests.rig.slurm.scripts import Role

CHECKOUT = Path(__file__).parents[3]
NAMES = ("prolog", "epilog", "task_prolog", "health_check")


def play(folder, wanted, *more, facts=None, **variables):
    """Run node_checks.yml with these slurm_jobs_checks on a node with these facts; the process that ended."""
    role = {"name": "mlcluster.aws.slurm_jobs", "tasks_from": "node_checks"}
    tasks = [{"ansible.builtin.set_fact": {**facts, "cacheable": True}}] if facts else []
    tasks.append({"ansible.builtin.include_role": role})
    written = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    (folder / "play.json").write_text(json.dumps([{**written, "vars": {"slurm_jobs_checks": wanted, **variables}}]))
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / ".collections"),
        "ANSIBLE_HOME": str(folder / "home"),
    }
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "-c", "local", *more]
    return subprocess.run(
        [*command, "-e", f"ansible_python_interpreter={sys.executable}", str(folder / "play.json")],
        env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """written(**checks) gives the text of each script; the same settings are rendered once."""
    known = {}

    def render(**checks):
        key = json.dumps(checks, sort_keys=True)
        if key not in known:
            folder = tmp_path_factory.mktemp("checks")
            paths = {name: str(folder / name) for name in NAMES}
            done = play(folder, {**paths, **checks})
            assert done.returncode == 0, done.stdout + done.stderr
            assert [oct(Path(path).stat().st_mode & 0o777) for path in paths.values()] == 4 * ["0o755"]
            # The lock of the node itself is left alone.
            texts = {name: Path(path).read_text(encoding="utf-8") for name, path in paths.items()}
            known[key] = {name: text.replace("/run/mlcluster", f"{folder}/run") for name, text in texts.items()}
        return known[key]

    return render


SETTINGS = [
    {},
    {"gate": "closed", "drain": False, "undrain": False},
    {"scratch": False},
    {"labels": False},
    {
        "scratch_base": "/local/jobs",
        "slurm_prefix": "/opt/slurm",
        "slurm_conf": "/opt/slurm/etc/slurm.conf",
        "health_options": ["--instance-type", "p5.48xlarge", "--xid-since", "2026-01-31 12:00:00"],
    },
]


@pytest.mark.parametrize("checks", SETTINGS)
def test_every_script_is_sound_shell(written, tmp_path, checks):
    for name, text in written(**checks).items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
        assert (done.returncode, text.startswith("#!/bin/sh\n")) == (0, True), f"{name}: {done.stdout}"


@pytest.mark.parametrize("checks", SETTINGS)
def test_every_command_of_a_script_is_one_that_the_runtime_knows(written, tmp_path, checks):
    """With a stand-in for the runtime, which is known to take these options."""

    stand_in = tmp_path / "mlcluster"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" END | tee -a {tmp_path}/calls\n', encoding="utf-8")
    stand_in.chmod(0o755)
    for name in ("prolog", "epilog", "health_check"):
        (tmp_path / "calls").write_text("", encoding="utf-8")
        subprocess.run(
            ["sh", "-c", written(**checks)[name].replace("/usr/local/bin/mlcluster", str(stand_in))], check=True
        )
        calls = (tmp_path / "calls").read_text(encoding="utf-8").split("END\n")[:-1]
        verbs = [cli.build_parser("0").parse_args(call.splitlines()).verb for call in calls]
        scratch = ["scratch"] if checks.get("scratch", True) else []
        label = ["job-label"] if checks.get("labels", True) else []
        expected = {
            "prolog": ["health", *scratch, *label],
            "epilog": [*label, *scratch],
            "health_check": ["health", *scratch],
        }
        assert verbs == expected[name]


@pytest.mark.parametrize(
    ("gate", "health", "make", "expected"),
    [
        ("open", "echo PASS; exit 0", 0, 0),
        ("open", "echo FAIL; exit 1", 0, 1),
        ("open", "exit 1", 0, 0),
        ("open", "echo '????'; exit 2", 0, 0),
        ("open", "exit 127", 0, 0),
        ("open", "echo PASS; exit 0", 2, 0),
        ("closed", "echo PASS; exit 0", 0, 0),
        ("closed", "exit 0", 0, 1),
        ("closed", "echo FAIL; exit 1", 0, 1),
        ("closed", "exit 1", 0, 1),
        ("closed", "echo '????'; exit 2", 0, 1),
        ("closed", "exit 127", 0, 1),
        ("closed", "echo PASS; exit 0", 2, 1),
    ],
)
def test_what_a_prolog_makes_of_exit_codes_and_of_no_word(written, tmp_path, gate, health, make, expected):
    stand_in = tmp_path / "mlcluster"
    stand_in.write_text(f"#!/bin/sh\nif [ $1 = health ]; then {health}; fi\nexit {make}\n", encoding="utf-8")
    stand_in.chmod(0o755)
    checks = SETTINGS[0] if gate == "open" else SETTINGS[1]
    text = written(**checks)["prolog"].replace("/usr/local/bin/mlcluster", str(stand_in))
    assert subprocess.run(["sh", "-c", text], check=False).returncode == expected


def test_a_prolog_takes_a_runtime_that_a_crash_left_empty_or_cut_for_what_it_is(written, tmp_path):
    """A shell runs an empty file as a script that does nothing, and Python ends with 1 where it finds no program."""
    runtime = tmp_path / "mlcluster"
    runtime.touch(mode=0o755)
    texts = [written(**checks)["prolog"].replace("/usr/local/bin/mlcluster", str(runtime)) for checks in SETTINGS[:2]]
    for content in ("", "#!/usr/bin/env python3\nPK\x03\x04\0\0"):
        runtime.write_text(content, encoding="utf-8")
        assert [subprocess.run(["sh", "-c", text], check=False).returncode for text in texts] == [0, 1]


def test_an_epilog_and_a_health_check_never_fail(written):
    for name in ("epilog", "health_check"):
        text = written()[name].replace("/usr/local/bin/mlcluster", "/bin/false")
        assert subprocess.run(["sh", "-c", text], check=False).returncode == 0


def test_health_checks_never_pile_up_and_one_that_hangs_holds_nobody_up(written, tmp_path):
    """Slurm starts one at each interval. What an earlier one left hanging goes on, and the next one works again."""
    stand_in = tmp_path / "mlcluster"
    stand_in.write_text(
        f"#!/bin/sh\necho $1 >> {tmp_path}/calls\n[ $1 = health ] || exit 0\n"
        f"(until [ -e {tmp_path}/free ]; do sleep 0.05; done) &\n"
        f"until [ -e {tmp_path}/go ]; do sleep 0.05; done\n",
        encoding="utf-8",
    )
    stand_in.chmod(0o755)
    command = ["sh", "-c", written()["health_check"].replace("/usr/local/bin/mlcluster", str(stand_in))]
    calls = tmp_path / "calls"
    first = subprocess.Popen(command)
    try:
        wait_for("the first check", calls.exists)
        assert subprocess.run(command, check=True).returncode == 0
        assert calls.read_text() == "health\n"
        (tmp_path / "go").touch()
        assert first.wait() == 0
        assert subprocess.run(command, check=True).returncode == 0
        assert calls.read_text() == "health\nscratch\nhealth\nscratch\n"
    finally:
        (tmp_path / "go").touch()
        (tmp_path / "free").touch()
        first.wait()


def test_a_task_gets_tmpdir_only_where_the_directory_is_its_users(written, tmp_path):
    text = written()["task_prolog"].replace("base=/scratch/jobs", f"base={tmp_path}")
    own = tmp_path / "job-7/tmp"
    command = ["env", "-i", "SLURM_JOB_ID=7", "sh", "-c", text]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    own.mkdir(parents=True)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"export TMPDIR={own}\nexport MLCLUSTER_SCRATCH={own}\n"


def test_where_things_are_unless_it_is_said(written):
    texts = written()
    assert (
        "/usr/local/bin/mlcluster health --profile prolog --scratch /scratch/jobs --fail-open --drain"
        in texts["prolog"]
    )
    assert "--undrain" in texts["health_check"]
    assert "--undrain" not in texts["prolog"]
    assert "--xid-since '2026-01-31 12:00:00'" in written(**SETTINGS[-1])["prolog"]


def test_the_volume_of_the_node_and_the_slurm_of_the_role_are_taken(tmp_path):
    wanted = {name: str(tmp_path / name) for name in NAMES}
    facts = {"mlcluster_local_storage": {"path": "/nvme"}}
    more = {"facts": facts, "slurm_jobs_slurm_conf": "/etc/slurm/slurm.conf"}
    done = play(tmp_path, wanted, **more)
    assert done.returncode == 0, done.stdout
    text = (tmp_path / "prolog").read_text(encoding="utf-8")
    assert "--scratch /nvme/jobs --slurm-conf /etc/slurm/slurm.conf" in text
    again = play(tmp_path, wanted, **more)
    assert "changed=0" in again.stdout


def test_check_mode_writes_nothing(tmp_path):
    done = play(tmp_path, {name: str(tmp_path / name) for name in NAMES}, "--check", "--diff")
    assert (done.returncode, "changed=1" in done.stdout) == (0, True), done.stdout
    assert not (tmp_path / "prolog").exists()


def test_settings_that_cannot_be_meant_are_refused_all_at_once(tmp_path):
    done = play(tmp_path, {"gates": "open", "gate": "ajar", "prolog": "prolog", "scratch_base": "/a b"})
    assert done.returncode != 0
    for part in (
        "slurm_jobs_checks has gates, which is not known: it knows command",
        "slurm_jobs_checks.gate is ajar: give open or closed",
        "slurm_jobs_checks.prolog is not an absolute path of plain characters",
        "slurm_jobs_checks.scratch_base is not an absolute path of plain characters",
    ):
        assert part in " ".join(done.stdout.split())


SCRIPTS = "/etc/mlcluster/slurm"
FOLDER = "/opt/slurm/etc/scripts/prolog.d"


@pytest.mark.parametrize(
    ("settings", "containers", "checks", "due", "taken", "in_use"),
    [
        ({"Prolog": None}, 0, {}, ["Prolog", "Epilog", "TaskProlog", "HealthCheckProgram"], [], []),
        ({"Prolog": f"{SCRIPTS}/prolog", "Epilog": f"{SCRIPTS}/epilog"}, 0, {},
         ["Prolog", "Epilog", "TaskProlog", "HealthCheckProgram"], [], ["Epilog", "Prolog"]),
        ({"Prolog": "/site/prolog", "TaskProlog": f"{SCRIPTS}/task_prolog"}, 0, {},
         ["Prolog", "Epilog", "TaskProlog", "HealthCheckProgram"], ["/site/prolog"], ["TaskProlog"]),
        # No step would start in a container, whose own the site's may be made for.
        ({"TaskProlog": "/site/task_prolog"}, 1, {}, ["Prolog", "Epilog", "HealthCheckProgram"], [], []),
        ({"Prolog": f"/site/a,{FOLDER}/*"}, 0, {"prolog": f"{FOLDER}/50_mlcluster"},
         ["Epilog", "TaskProlog", "HealthCheckProgram"], [], []),
    ],
)  # fmt: skip
def test_what_slurm_is_told_and_what_it_runs_already(settings, containers, checks, due, taken, in_use):
    role = Role(checks=checks)
    look = {"settings": settings, "container_options": containers}
    role.variables.update(scripts._load("vars/node_checks.yml"), __slurm_jobs_look=look)
    role.variables["__slurm_jobs_checks"] = role.value("__slurm_jobs_checks_wanted")
    assert role.value("__slurm_jobs_checks_problems") == []
    assert list(role.value("__slurm_jobs_checks_due")) == due
    assert role.value("__slurm_jobs_checks_taken") == taken
    assert role.value("__slurm_jobs_checks_in_use") == in_use
    (conf,) = role.value("__slurm_jobs_checks_slurm_files")
    lines = conf["text"].splitlines()[1:]
    assert [line.partition("=")[0] for line in lines] == [*due, "HealthCheckInterval", "HealthCheckNodeState"]
    assert conf["path"] == "/etc/slurm/mlcluster_checks.conf"
