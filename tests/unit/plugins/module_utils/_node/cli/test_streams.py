# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Standard streams that are closed, full, or have lost their reader."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import streams


def test_text_is_written():
    below = io.StringIO()
    output = streams.Output(below)
    assert (output.write("ab"), output.lost(), below.getvalue()) == (2, None, "ab")


def test_full_disk_stops_writing_and_is_reported():
    with open("/dev/full", "w", encoding="utf-8") as full:
        output = streams.Output(full)
        assert output.write("a line\n") == 7
        output.flush()
        assert output.write("more\n") == 5
        assert output.lost() == "No space left on device"


def test_closed_pipe_is_not_a_loss():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        output = streams.Output(pipe)
        output.write("a line\n")
        output.flush()
        assert output.lost() is None


def test_path_is_written_with_original_bytes(tmp_path):
    with open(tmp_path / "out", "w", encoding="utf-8") as file:
        streams.Output(file).write("/fsx/\udcff\n")
    assert (tmp_path / "out").read_bytes() == b"/fsx/\xff\n"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_stream_number_is_not_reused(closed, tmp_path):
    """A child closes its streams, opens them again, opens a file, prints: the file has to stay empty."""
    source = os.path.abspath(streams.__file__)
    code = (
        "import importlib.util, os, sys\n"
        f"for number in {closed!r}: os.close(number)\n"
        f"for number, name in enumerate(('stdin', 'stdout', 'stderr')):\n"
        f"    if number in {closed!r}: setattr(sys, name, None)\n"
        f"spec = importlib.util.spec_from_file_location('streams', {source!r})\n"
        "streams = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(streams)\n"
        "streams.open_missing()\n"
        f"number = os.open({str(tmp_path / 'file')!r}, os.O_WRONLY | os.O_CREAT, 0o600)\n"
        "print('output', flush=True)\n"
        "print('error', file=sys.stderr, flush=True)\n"
        "os._exit(0 if number > 2 else 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "file").read_text()) == (0, ""), done.stderr
    assert (done.stdout, done.stderr) == ("" if 1 in closed else "output\n", "" if 2 in closed else "error\n")
