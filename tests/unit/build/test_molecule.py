# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.build import molecule

PROGRAM = """
import sys
from pathlib import Path
from tests.build import molecule
molecule.CHECKOUT = Path(sys.argv[1])
sys.exit(molecule.main(["demo"]))
"""
# Reports its start, and stays until something is written into the pipe, which never happens.
STAND_IN = '#!/bin/sh\necho "$$ $PWD $*" >started.new && mv started.new started && exec cat pipe\n'


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_signal_to_run_ends_molecule_and_its_lock(tmp_path, signal_number):
    stand_in = tmp_path / ".venv" / "bin" / "molecule"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    (tmp_path / "molecule" / "demo").mkdir(parents=True)
    (tmp_path / "molecule" / "demo" / "molecule.yml").touch()
    os.mkfifo(tmp_path / "pipe")
    started = tmp_path / "started"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=molecule.CHECKOUT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stdout=subprocess.DEVNULL,
    ) as run:
        try:
            while not started.exists():
                assert run.poll() is None
                time.sleep(0.01)
            words = started.read_text().split()
            assert words == [str(run.pid), str(tmp_path), "test", "--no-command-borders", "--scenario-name", "demo"]
            with (tmp_path / "cache" / "mlcluster" / "molecule.lock").open("w") as lock:
                with pytest.raises(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                run.send_signal(signal_number)
                assert run.wait() == -signal_number
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            run.kill()
            # A stand-in that still waits at the pipe ends.
            os.close(os.open(tmp_path / "pipe", os.O_RDWR))


def test_container_scenarios_are_those_without_virtual_node(tmp_path):
    with pytest.raises(FileNotFoundError, match="no scenario below"):
        molecule.scenarios(tmp_path)
    for name in ("default", "nvme_raid0", "nvme_raid0_vm", "shared"):
        (tmp_path / name).mkdir()
    for name in ("default", "nvme_raid0", "nvme_raid0_vm"):
        (tmp_path / name / "molecule.yml").touch()
    assert molecule.scenarios(tmp_path) == ["default", "nvme_raid0", "nvme_raid0_vm"]
    assert molecule.in_containers(molecule.scenarios(tmp_path)) == ["default", "nvme_raid0"]


def test_unknown_scenario_is_rejected(capsys):
    assert molecule.main(["no_such"]) == 2
    assert "no scenario no_such: there are default" in capsys.readouterr().err
