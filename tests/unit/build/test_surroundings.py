# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.build import suite, surroundings

# A Slurm job, a shell with an AWS profile and a proxy, make, a virtual environment, git's own hooks.
CALLER = {
    "ANSIBLE_STRATEGY": "free",
    "AWS_PROFILE": "mine",
    "BASH_ENV": "/nonexistent",
    "FORCE_COLOR": "1",
    "GIT_DIR": "/nonexistent",
    "LANGUAGE": "tr",
    "LC_ALL": "tr_TR.UTF-8",
    "MAKEFLAGS": "-n",
    "PIP_TARGET": "/nonexistent",
    "RETRY": "1",
    "PYTHONWARNINGS": "error",
    "SLURM_JOB_ID": "7",
    "TERM": "xterm",
    "TZ": "Asia/Kathmandu",
}
# It prints the environment of a program that a test starts.
CHILD = (
    "umask; trap 'echo heard' HUP INT; kill -HUP $$; kill -INT $$; read -r line || echo silence; "
    "command -p env | command -p sed 's/=.*//' | command -p sort | command -p tr '\\n' ' '"
)
HERE = {"ANSIBLE_STDOUT_CALLBACK", "LC_ALL", "NO_PROXY", "TZ", "no_proxy"}


def test_only_places_packages_and_processors_are_handed_on():
    given = {**CALLER, "HOME": "/home/me", "PIP_INDEX_URL": "https://mirror.example", "OPENBLAS_CORETYPE": "x"}
    found = surroundings.variables(given)
    assert set(found) == {"HOME", "PIP_INDEX_URL", "OPENBLAS_CORETYPE", *HERE}
    assert (found["HOME"], found["LC_ALL"], found["TZ"]) == ("/home/me", "C.UTF-8", "UTC")
    assert surroundings.variables(found) == found


def test_files_of_tests_have_plain_names():
    assert surroundings.variables({"TMPDIR": "/mnt/large/me-1"})["TMPDIR"] == "/mnt/large/me-1"
    assert "TMPDIR" not in surroundings.variables({"TMPDIR": "/mnt/my files"})


def test_folder_of_temporary_files_is_looked_up_again(tmp_path):
    (tmp_path / "my files").mkdir()
    program = (
        "import tempfile\nbefore = tempfile.gettempdir()\nfrom tests.build import surroundings\n"
        "surroundings.settle()\nprint(before != tempfile.gettempdir(), ' ' in tempfile.gettempdir())"
    )
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "my files")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=suite.CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True False\n", "")


def test_proxy_is_for_other_machines():
    found = surroundings.variables({"https_proxy": "http://proxy:3128", "no_proxy": "mirror.example,localhost"})
    assert found["https_proxy"] == "http://proxy:3128"
    assert found["no_proxy"] == found["NO_PROXY"] == "127.0.0.1,localhost,mirror.example"


@pytest.mark.parametrize("how", ["the first conftest", "a session"])
def test_tests_find_same_environment_for_every_caller(tmp_path, how):
    """The caller's variables, umask, deaf ears and closed standard input reach no program that a test starts."""
    if how == "a session":
        settings = f"suite.COMMAND = 'sh', '-c', {CHILD!r}\nsuite.CHECKOUT = suite.LOGS = Path({str(tmp_path)!r})"
        session = "run = suite.Run('unit', []); run.process.wait(); sys.stdout.write(run.log.read_text())"
        program = f"import sys\nfrom pathlib import Path\nfrom tests.build import suite\n{settings}\n{session}"
    else:
        program = f"import subprocess\nfrom tests import conftest\nsubprocess.run(['sh', '-c', {CHILD!r}])"
    deaf = 'umask 077; trap "" HUP INT; exec "$0" -c "$1" <&-'
    command = ["sh", "-c", deaf, sys.executable, program]
    environment = {**CALLER, "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=suite.CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == "", done
    umask, *words = re.sub(r"^unit: started.*\n", "", done.stdout).split()
    names = set(words) - {"heard", "silence", "PWD", "OLDPWD", "SHLVL", "_"}
    assert umask == "0022" and words.count("silence") == 1
    if how == "a session":
        # A suite under nohup ignores SIGHUP on purpose: tests restore it themselves.
        assert names == {"PATH", "HOME", "ANSIBLE_CONFIG", "PYTHONUNBUFFERED", "RETRY", *HERE}
    else:
        assert words.count("heard") == 2 and names == {"PATH", "HOME", *HERE}


def test_ignored_signal_stays_ignored_here_only():
    program = (
        "import os, signal, subprocess\nfrom tests.build import surroundings\nsurroundings.settle()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\nprint(subprocess.run(['sh', '-c', 'kill -HUP $$']).returncode)"
    )
    deaf = ["sh", "-c", 'trap "" HUP; exec "$0" -c "$1"', sys.executable, program]
    done = subprocess.run(deaf, cwd=suite.CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{-signal.SIGHUP}\n", "")
