# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real programs that do not end, print endlessly, or do not read their input."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import command
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.ask import ask
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, Host

from tests.rig.slurm.processes import wait_for

HOST = Host()


def test_command_that_does_not_end_is_ended(monkeypatch, tmp_path):
    real, printed = command._exchange, tmp_path / "printed"
    # Its time limit begins after its first output.
    monkeypatch.setattr(command, "_exchange", lambda *given: wait_for("it", printed.exists) and real(*given))
    with pytest.raises(CommandError) as failed:
        HOST.run(["sh", "-c", f"echo begun; : >{printed}; exec sleep 60"], timeout=1)
    assert "no answer within 1 seconds: begun" in str(failed.value)
    assert (failed.value.rc, failed.value.stdout) == (None, "begun\n")


def test_command_that_cannot_be_killed_is_left_behind(monkeypatch):
    # Like a program that sleeps in the kernel without interruption: the signal has no effect.
    began = []

    def kill(process):
        began.append(process)

    monkeypatch.setattr(subprocess.Popen, "kill", kill)
    monkeypatch.setattr(command, "KILL_SECONDS", 0.2)
    with pytest.raises(CommandError, match=r"no answer within 0\.2 seconds"):
        HOST.run(["sleep", "60"], timeout=0.2)
    monkeypatch.undo()
    (process,) = began
    assert process.poll() is None
    process.kill()
    process.wait()


@pytest.fixture
def little(monkeypatch):
    """Lower the limit of the output."""
    monkeypatch.setattr(command, "OUTPUT_LIMIT", 100_000)
    return 100_000


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(("check", "status"), [(True, 0), (False, 0), (False, 1)])
def test_command_with_too_much_output_is_rejected(little, stream, check, status):
    """The omitted output might contradict the rest."""
    prints = f"echo begins; head -c {little} /dev/zero | tr '\\0' x; echo ends"
    with pytest.raises(CommandError) as failed:
        HOST.run(["sh", "-c", f"{{ {prints}; }} >&{1 if stream == 'stdout' else 2}; exit {status}"], check=check)
    assert (failed.value.rc, failed.value.problem) == (None, "no answer within 0 MiB of output")
    kept = getattr(failed.value, stream)
    assert kept.startswith("begins\nxxx") and kept.endswith("xxxends\n")
    assert f"\n[... {little + 12 - 2 * command.ENDS} bytes left out ...]\n" in kept
    assert len(kept) < 2 * command.ENDS + 100
    # The caller gets the reason and no text.
    assert ask(HOST, ["sh", "-c", prints])[0] == ""


def test_output_up_to_limit_is_kept_completely(little):
    assert len(HOST.run(["head", "-c", str(little), "/dev/zero"]).stdout) == little


def test_command_that_prints_without_end_fills_no_memory(little, monkeypatch):
    most = []
    real = command.Output.add
    monkeypatch.setattr(
        command.Output, "add", lambda output, piece: (real(output, piece), most.append(len(output._kept)))[0]
    )
    with pytest.raises(CommandError, match="no answer within 0 MiB of output: y"):
        HOST.run(["sh", "-c", f"yes | head -c {100 * little}"])
    with pytest.raises(CommandError, match="no answer within 1 seconds"):
        HOST.run(["yes"], timeout=1)
    assert max(most) <= little


def test_failure_is_sentence_with_any_output():
    with pytest.raises(CommandError) as failed:
        HOST.run(["sh", "-c", "seq 100000 >&2; exit 1"])
    assert failed.value.stderr.endswith("\n99999\n100000\n") and len(failed.value.stderr) > 500_000
    assert str(failed.value).endswith("\n99999\n100000") and len(str(failed.value)) < 2 * command.ENDS + 200


@pytest.mark.parametrize(
    ("argv", "answer"), [(["cat"], "x" * 1_000_000), (["true"], ""), (["sh", "-c", "exec <&-"], "")]
)
def test_input_of_command_does_not_block(argv, answer):
    """The program reads everything while it prints, or nothing."""
    assert HOST.run(argv, stdin="x" * 1_000_000).stdout == answer


def test_line_ends_of_command_are_those_of_python():
    assert HOST.run(["printf", r"a\r\nb\rc\n"]).stdout == "a\nb\nc\n"
