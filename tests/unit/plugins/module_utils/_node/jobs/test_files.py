# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of the role: scripts of jobs, and those with which Slurm asks for a node's health."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import checks, files

from tests.rig.slurm.processes import wait_for
from tests.rig.slurm.scripts import Role

NAMES = ("prolog", "epilog", "task_prolog", "health_check")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """written(**checks) gives the text of each script; the same settings are rendered once."""
    known = {}

    def render(**given):
        key = json.dumps(given, sort_keys=True)
        if key not in known:
            folder = tmp_path_factory.mktemp("checks")
            assert checks.problems(given) == []
            entries = files.check_files(checks.wanted(given))
            assert [(entry.name, entry.mode) for entry in entries] == [(name, "0755") for name in NAMES]
            # The lock of the node itself is left alone.
            known[key] = {entry.name: entry.text.replace("/run/mlcluster", f"{folder}/run") for entry in entries}
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


@pytest.mark.parametrize("name", ["prolog", "epilog", "health_check"])
def test_lock_of_script_is_for_root_alone(written, name):
    text = written()[name].replace("/usr/local/bin/mlcluster", "/bin/true")
    (path,) = set(re.findall(r"(?<=<)/\S+\.lock", text))
    Path(path).unlink(missing_ok=True)
    subprocess.run(["sh", "-c", f"umask 022; {text}"], check=False)
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


@pytest.mark.parametrize("given", SETTINGS)
def test_every_script_is_sound_shell(written, tmp_path, given):
    for name, text in written(**given).items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
        assert (done.returncode, text.startswith("#!/bin/sh\n")) == (0, True), f"{name}: {done.stdout}"


@pytest.mark.parametrize("given", SETTINGS)
def test_every_command_of_script_is_one_that_runtime_knows(written, tmp_path, given):
    """With a stand-in for the runtime, which is known to take these options."""

    stand_in = tmp_path / "mlcluster"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" END | tee -a {tmp_path}/calls\n', encoding="utf-8")
    stand_in.chmod(0o755)
    for name in ("prolog", "epilog", "health_check"):
        (tmp_path / "calls").write_text("", encoding="utf-8")
        subprocess.run(
            ["sh", "-c", written(**given)[name].replace("/usr/local/bin/mlcluster", str(stand_in))], check=True
        )
        calls = (tmp_path / "calls").read_text(encoding="utf-8").split("END\n")[:-1]
        verbs = [cli.build_parser("0").parse_args(call.splitlines()).verb for call in calls]
        scratch = ["scratch"] if given.get("scratch", True) else []
        label = ["job-label"] if given.get("labels", True) else []
        expected = {
            "prolog": ["health", *scratch, *label, "imex"],
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
def test_prolog_by_exit_code_and_missing_output(written, tmp_path, gate, health, make, expected):
    stand_in = tmp_path / "mlcluster"
    stand_in.write_text(f"#!/bin/sh\nif [ $1 = health ]; then {health}; fi\nexit {make}\n", encoding="utf-8")
    stand_in.chmod(0o755)
    given = SETTINGS[0] if gate == "open" else SETTINGS[1]
    text = written(**given)["prolog"].replace("/usr/local/bin/mlcluster", str(stand_in))
    assert subprocess.run(["sh", "-c", text], check=False).returncode == expected


@pytest.mark.parametrize(
    ("mode", "gate", "imex", "expected"),
    [
        ("required", "open", "echo PASS; exit 0", 0),
        ("required", "open", "echo FAIL; exit 1", 1),
        ("required", "open", "echo '????'; exit 1", 1),
        # No word: no runtime that could judge, which an open gate lets through.
        ("required", "open", "exit 127", 0),
        ("required", "open", "exit 3", 1),
        ("required", "closed", "exit 127", 1),
        ("required", "closed", "echo FAIL; exit 1", 1),
        ("best_effort", "open", "echo FAIL; exit 1", 0),
        ("best_effort", "closed", "echo FAIL; exit 1", 0),
        ("none", "open", "echo FAIL; exit 1", 0),
    ],
)
def test_prolog_keeps_job_away_without_its_domain(tmp_path, mode, gate, imex, expected):
    stand_in = tmp_path / "mlcluster"
    stand_in.write_text(f"#!/bin/sh\n[ $1 != imex ] || {{ {imex}; }}\necho PASS\n", encoding="utf-8")
    stand_in.chmod(0o755)
    prolog = files.check_files(checks.wanted({"gate": gate, "command": str(stand_in)}, imex=mode))[0]
    text = prolog.text.replace("/run/mlcluster", f"{tmp_path}/run")
    assert subprocess.run(["sh", "-c", text], check=False).returncode == expected
    assert ("imex up --mode" in text) is (mode != "none")


@pytest.mark.parametrize(
    ("mode", "record", "called"), [("required", True, True), ("required", False, False), ("none", True, False)]
)
def test_epilog_takes_domain_away_where_there_is_one(tmp_path, mode, record, called):
    stand_in, run = tmp_path / "mlcluster", tmp_path / "run"
    stand_in.write_text(f"#!/bin/sh\necho $1 $2 >> {tmp_path}/calls\n", encoding="utf-8")
    stand_in.chmod(0o755)
    run.mkdir()
    if record:
        (run / "imex.json").touch()
    epilog = files.check_files(checks.wanted({"command": str(stand_in)}, imex=mode))[1]
    subprocess.run(["sh", "-c", epilog.text.replace("/run/mlcluster", str(run))], check=True)
    assert ("imex down" in (tmp_path / "calls").read_text()) is called


def test_prolog_does_not_trust_damaged_runtime(written, tmp_path):
    """A shell runs an empty file as a script that does nothing, and Python ends with 1 where it finds no program."""
    runtime = tmp_path / "mlcluster"
    runtime.touch(mode=0o755)
    texts = [written(**given)["prolog"].replace("/usr/local/bin/mlcluster", str(runtime)) for given in SETTINGS[:2]]
    for content in ("", "#!/usr/bin/env python3\nPK\x03\x04\0\0"):
        runtime.write_text(content, encoding="utf-8")
        assert [subprocess.run(["sh", "-c", text], check=False).returncode for text in texts] == [0, 1]


def test_epilog_and_health_check_never_fail(written):
    for name in ("epilog", "health_check"):
        text = written()[name].replace("/usr/local/bin/mlcluster", "/bin/false")
        assert subprocess.run(["sh", "-c", text], check=False).returncode == 0


def test_health_checks_never_pile_up_behind_hanging_one(written, tmp_path):
    """Slurm starts one at each interval. A hanging process of an earlier one stays, and the next check works again."""
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


def test_task_gets_tmpdir_only_where_directory_is_its_users(written, tmp_path):
    text = written()["task_prolog"].replace("base=/scratch/jobs", f"base={tmp_path}/volume/jobs")
    own = tmp_path / "volume/jobs/job-7/tmp"
    command = ["env", "-i", "SLURM_JOB_ID=7", "sh", "-c", text]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    own.mkdir(parents=True)
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == f"export TMPDIR={own}\nexport MLCLUSTER_SCRATCH={own}\n"


@pytest.mark.parametrize("kind", ["missing", "of another user"])
def test_first_task_of_node_is_warned_without_its_directory(written, tmp_path, kind):
    """The Prolog has a limit, and a job must not get /tmp without notice. Slurm prints the line into its output."""
    text = written()["task_prolog"].replace("base=/scratch/jobs", f"base={tmp_path}/volume/jobs")
    (tmp_path / "volume").mkdir()
    if kind != "missing":
        if os.geteuid():
            pytest.skip("only root gives directories away")
        (tmp_path / "volume/jobs/job-7/tmp").mkdir(parents=True)
        os.chown(tmp_path / "volume/jobs/job-7/tmp", 4242, 4242)
    for task, lines in (("0", 1), ("1", 0)):
        words = ["env", "-i", "SLURM_JOB_ID=7", "SLURMD_NODENAME=n1", f"SLURM_LOCALID={task}", "sh", "-c", text]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        assert len(output) == lines
        for line in output:
            assert line.startswith(
                f"print mlcluster: node n1 has no directory for job 7 in {tmp_path}/volume/jobs, so "
            )


def test_where_things_are_unless_it_is_reported(written):
    texts = written()
    assert (
        "/usr/local/bin/mlcluster health --profile prolog --scratch /scratch/jobs --fail-open --drain"
        in texts["prolog"]
    )
    assert "--undrain" in texts["health_check"]
    assert "--undrain" not in texts["prolog"]
    assert "--xid-since '2026-01-31 12:00:00'" in written(**SETTINGS[-1])["prolog"]


def test_slurm_of_role_is_passed_to_each_command():
    wanted = checks.wanted({}, "/nvme", None, "/etc/slurm/slurm.conf")
    (prolog, *_others) = files.check_files(wanted)
    assert "--scratch /nvme/jobs --slurm-conf /etc/slurm/slurm.conf" in prolog.text


@pytest.mark.parametrize("word", ["a b", "$(id)", "`id`", "'; id; '", 'a"b', "-x"])
def test_word_of_settings_stays_one_word(word):
    (prolog, *_others) = files.check_files(checks.wanted({"health_options": [word]}))
    line = prolog.text.partition("output=$(")[2].rpartition(" --fail-open")[0]
    assert shlex.split(line)[-1] == word


def test_mark_records_build_options():
    mark = files.mark("ior", "/fsx/tools/ior-4.0.0", "/opt/mpi", "/usr/local/cuda", "4.0.0")
    assert mark.path == "/fsx/tools/ior-4.0.0/.mlcluster.json"
    assert json.loads(mark.text) == {"cuda_home": "/usr/local/cuda", "mpi_home": "/opt/mpi", "version": "4.0.0"}


@pytest.mark.parametrize("containers", [0, 1])
def test_file_for_slurm_conf_has_what_is_due(containers):
    wanted = checks.wanted({"interval": "60"})
    entry = files.slurm_file(wanted, {"SLURM_CONF": "/x/slurm.conf"}, checks.slurm_state(wanted, {}, containers))
    names = [line.partition("=")[0] for line in entry.text.splitlines()[1:]]
    task = [] if containers else ["TaskProlog"]
    hooks = ["Prolog", "Epilog", *task, "HealthCheckProgram"]
    assert names == [*hooks, "HealthCheckInterval", "HealthCheckNodeState"]
    assert "HealthCheckInterval=60\n" in entry.text
    assert entry.path == "/x/mlcluster_checks.conf"


def test_scripts_have_line_by_which_they_are_known_again():
    jobs = files.job_files(Role(jobs=[{"name": "x", "kind": "node_smoke"}]).jobs)
    assert [(entry.name, entry.mode) for entry in jobs] == [("x.json", "0644"), ("x.sbatch", "0755")]
    assert all(files.JOB_MARK in entry.text for entry in jobs)
    assert all(files.CHECK_MARK in entry.text for entry in files.check_files(checks.wanted({})))


@pytest.mark.parametrize(
    ("value", "word"),
    [("a-b_c@d%e+f=g:h.i/j", "a-b_c@d%e+f=g:h.i/j"), (5, "5"), ("", "''"), ("a b", "'a b'"), ("~", "'~'"),
     ("a'b", "'a'\"'\"'b'"), ("[x]", "'[x]'"), ("a\nb", "'a\nb'")],
)  # fmt: skip
def test_value_is_one_word_of_shell(value, word):
    assert files.quote(value) == word


@pytest.mark.parametrize("value", [None, [], {}, (), set(), "a\0b"])
def test_value_that_is_not_one_word_is_rejected(value):
    with pytest.raises(ValueError, match="word of a shell"):
        files.quote(value)


@pytest.mark.parametrize(
    ("mode", "words"), [("required", ""), ("best_effort", " --imex best_effort"), ("none", " --imex none")]
)
def test_health_check_knows_whether_jobs_need_their_domain(mode, words):
    made = {one.name: one.text for one in files.check_files(checks.wanted({}, imex=mode))}
    for name in ("prolog", "health_check"):
        (command,) = re.findall(r"mlcluster health [^)\n]*", made[name])
        assert (words in command) and ("--imex" in command) is bool(words)
        call = command.partition(" ")[2].replace(">/dev/null 9<&-", "").replace("8<&-", "").split()
        assert cli.build_parser("0").parse_args(call).imex == mode
