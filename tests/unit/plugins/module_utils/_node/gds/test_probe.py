# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process that calls libcufile, with a real shared object in its place that answers, hangs or crashes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import probe as gds_probe
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.probe import ask

from tests.rig.slurm.processes import wait_for
from tests.unit.fakes.fake_gds_host import FIXTURES

FORBIDDEN = {"allow_compat_mode": False, "force_compat_mode": False}
COMPILER = shutil.which("cc") or shutil.which("gcc")

# The folder of the tests may be accessible to its owner only.
SYSTEM_PYTHON = "/usr/bin/python3"

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler to make the library that answers")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Compile the stand-ins for libcufile (complete, and without cuFileRead) and libcuda."""
    place = tmp_path_factory.mktemp("cufile")

    def compiled(name, source, *flags):
        target = place / name
        argv = [COMPILER, "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", str(target), str(FIXTURES / source)]
        subprocess.run(argv, check=True, capture_output=True)
        return str(target)

    return {
        "cufile": compiled("libcufile.so.0", "fake_cufile.c"),
        "other": compiled("libother.so.0", "fake_cufile.c", "-DWITHOUT_READ"),
        "cuda": compiled("libcuda.so.1", "fake_cuda.c"),
    }


@pytest.fixture
def probe(built, tmp_path, monkeypatch):
    """probe(steps, seconds=, settings=, changes=, library=) asks on tmp_path/mount, and leaves nothing there."""
    mount = tmp_path / "mount"
    mount.mkdir()
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(gds_probe.tempfile, "tempdir", str(private))

    def run(seconds=600, settings=None, changes=None, library=None, file=True, **steps):
        for name, value in steps.items():
            monkeypatch.setenv(f"FAKE_{name.upper()}", str(value))
        where = str(mount) if file else None
        path = built["cufile"] if library is None else library
        wanted = FORBIDDEN if changes is None else changes
        answer = ask(path, settings or {}, wanted, where, seconds=seconds, cuda=built["cuda"])
        assert list(mount.iterdir()) == []
        assert list(private.iterdir()) == []
        return answer

    return run


def begun(place, step):
    """Return whether the process that works in a folder below place has begun a step."""
    return any(f'"begin": "{step}"' in path.read_text() for path in place.glob("mlcluster-gds-*/steps"))


def brief(answer):
    return answer["state"], answer["step"], answer["err"]


@needs_compiler
def test_block_goes_through_gpu_memory_and_back(probe):
    answer = probe()
    assert (answer["state"], answer["io"], answer["version"]) == ("ok", True, "1.15")
    assert answer["reason"] == ""


@needs_compiler
def test_driver_alone(probe):
    answer = probe(file=False)
    assert (brief(answer), answer["io"]) == (("ok", "open", 0), False)


@needs_compiler
@pytest.mark.parametrize(
    ("step", "code", "words"),
    [
        ("open", 5001, "cuFileDriverOpen gave 5001 (driver not initialized)"),
        ("open", 5004, "cuFileDriverOpen gave 5004 (driver version mismatch)"),
        ("register", 5008, "cuFileHandleRegister gave 5008 (I/O not supported on this file)"),
        ("register", 5027, "cuFileHandleRegister gave 5027 (file handle not registered)"),
        ("write", 5010, "cuFileWrite gave 5010 (nvidia-fs driver error)"),
        ("read", 5036, "cuFileRead gave 5036 (GPU memory pinning failed)"),
    ],
)
def test_refusal_has_its_code(probe, step, code, words):
    answer = probe(**{f"cufile_{step}": code})
    assert brief(answer) == ("refused", step, code)
    assert answer["reason"] == words


@needs_compiler
def test_refusal_includes_error_of_log(probe):
    answer = probe(cufile_open=5001, cufile_log=FIXTURES / "libcufile-1.15-h200-compat-forbidden.log")
    assert answer["reason"] == ("cuFileDriverOpen gave 5001 (driver not initialized): nvidia-fs.ko driver not loaded")
    assert answer["table"]["signs"] == ["nvidia_fs_module"]


@needs_compiler
def test_table_of_log(probe):
    answer = probe(file=False, cufile_log=FIXTURES / "libcufile-1.15-h200-compat-allowed.log")
    assert answer["table"]["versions"]["GDS release version"] == "1.15.1.6"


@needs_compiler
@pytest.mark.parametrize("step", ["open", "register", "write", "read"])
def test_hang_is_reported_with_its_step(probe, tmp_path, monkeypatch, step):
    class Impatient(subprocess.Popen):
        """End the time limit as soon as the step has begun, independent of the machine's speed."""

        def wait(self, timeout=None):
            if timeout == 77:
                wait_for(step, lambda: begun(tmp_path / "private", step))
                raise subprocess.TimeoutExpired(self.args, timeout)
            return super().wait(timeout)

    monkeypatch.setattr(gds_probe.subprocess, "Popen", Impatient)
    answer = probe(seconds=77, **{f"cufile_{step}": "hang"})
    assert brief(answer) == ("hang", step, None)
    assert answer["reason"].startswith(f"no answer from {step} within ")


@needs_compiler
def test_hang_ends(probe):
    answer = probe(seconds=1, cufile_open="hang")
    assert (answer["state"], answer["reason"].split(" within ")[1]) == ("hang", "1 seconds")


@needs_compiler
@pytest.mark.parametrize("step", ["open", "register", "write", "read"])
def test_crash_is_reported(probe, step):
    answer = probe(**{f"cufile_{step}": "crash"})
    assert brief(answer) == ("crash", step, None)
    assert answer["reason"] == f"{step} ended the process with SIGSEGV"


@needs_compiler
def test_library_that_ends_process(probe):
    answer = probe(cufile_register="exit")
    assert brief(answer) == ("crash", "register", None)
    assert answer["reason"] == "register ended the process with status 7: noise on standard output"


@needs_compiler
def test_library_that_lacks_function(probe, built):
    answer = probe(library=built["other"])
    assert brief(answer) == ("unusable", "load", None)
    assert answer["reason"] == "libcufile lacks cuFileRead: it is of a release that is not known"


@needs_compiler
def test_invalid_library_is_unusable(probe, tmp_path):
    text = tmp_path / "libcufile.so.0"
    text.write_text("not ELF")
    for library in (str(text), str(tmp_path / "missing.so")):
        answer = probe(library=library)
        assert brief(answer) == ("unusable", "load", None)
        assert answer["reason"].startswith("libcufile cannot be loaded: ")


@needs_compiler
def test_no_gpu_memory_proves_nothing(probe):
    answer = probe(cuda_alloc=2)
    assert (answer["state"], answer["step"]) == ("unusable", "buffer")
    assert answer["reason"] == "no GPU memory could be had: cuMemAlloc gave the CUDA error 2"


@needs_compiler
def test_flipped_bit_is_found(probe):
    answer = probe(cufile_read=1)
    assert answer["state"] == "corrupt"
    assert "differ from the data written" in answer["reason"]


@needs_compiler
def test_code_of_cuda_comes_along(probe):
    answer = probe(cufile_open=5011, cufile_cuda_error=35)
    assert (brief(answer), answer["cu_err"]) == (("refused", "open", 5011), 35)


@needs_compiler
def test_compat_mode_is_forbidden_by_file_that_libcufile_reads(probe):
    steps = {"cufile_register_strict": 5008}
    assert probe(**steps)["state"] == "refused"
    assert probe(changes={}, settings={"properties": {"allow_compat_mode": True}}, **steps)["state"] == "ok"


@needs_compiler
def test_p2pdma_is_switched_in_file(probe):
    steps = {"cufile_register_strict": 5008, "cufile_register_strict_p2pdma": 0}
    assert probe(changes={**FORBIDDEN, "use_pci_p2pdma": True}, **steps)["state"] == "ok"
    assert probe(changes={**FORBIDDEN, "use_pci_p2pdma": False}, **steps)["state"] == "refused"


def test_unwritable_directory_is_unusable(tmp_path):
    answer = ask("/none", {}, FORBIDDEN, str(tmp_path / "missing"))
    assert (answer["state"], answer["step"]) == ("unusable", "create")
    assert answer["reason"].startswith(f"no temporary file could be made: {tmp_path}/missing/")
    assert answer["reason"].endswith(": No such file or directory")


def test_process_that_cannot_be_started(tmp_path, monkeypatch):
    monkeypatch.setattr(gds_probe.sys, "executable", "/nowhere/python3")
    answer = ask("/none", {}, FORBIDDEN, str(tmp_path))
    assert (answer["state"], answer["step"]) == ("unusable", "start")
    assert answer["reason"] == "the probe could not be set up: /nowhere/python3: No such file or directory"


@needs_compiler
@pytest.mark.parametrize(
    ("status", "state", "words"),
    [
        (-errno.EIO, "refused", "cuFileWrite: Input/output error"),
        (-errno.ENOSPC, "unusable", "the file could not be written: No space left on device"),
        (1, "refused", "cuFileWrite: moved 4096 of 1048576 bytes"),
    ],
)
def test_failed_write_reports_system_error(probe, status, state, words):
    answer = probe(cufile_write=status)
    assert (answer["state"], answer["step"], answer["reason"]) == (state, "write", words)


START = """
import sys
sys.path[:0] = {path!r}
from tests.unit.plugins.inventory import finder
finder.install()
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.probe import ask
ask({library!r}, {{}}, {{}}, {mount!r}, seconds=600, cuda={cuda!r})
"""


@needs_compiler
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_probe_leaves_nothing(built, tmp_path, number):
    mount = tmp_path / "mount"
    mount.mkdir()
    root = str(Path(__file__).resolve().parents[6])
    text = START.format(path=[root], library=built["cufile"], mount=str(mount), cuda=built["cuda"])
    environment = {**os.environ, "FAKE_CUFILE_REGISTER": "hang", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", text], env=environment, stderr=subprocess.DEVNULL)

    try:
        wait_for("the step", lambda: begun(tmp_path, "register"))
        assert len(list(mount.iterdir())) == 1
        process.send_signal(number)
        process.wait()
        wait_for("all to be gone", lambda: [path.name for path in tmp_path.iterdir()] == ["mount"])
        wait_for("the file to be gone", lambda: not list(mount.iterdir()))
    finally:
        process.kill()
        process.wait()


def test_no_room_for_settings_is_answer(monkeypatch):
    def full(**more):
        raise OSError(28, "No space left on device", "/tmp/x")

    monkeypatch.setattr(gds_probe.tempfile, "mkdtemp", full)
    answer = ask("/none", {}, FORBIDDEN)
    assert (answer["state"], "/tmp/x: No space left on device" in answer["reason"]) == ("unusable", True)
    assert (answer["io"], answer["seconds"], answer["version"], answer["err"]) == (False, 0.0, None, None)


def test_signal_without_name_is_reported():
    answer = gds_probe.read_outcome(gds_probe.Ended(-50, "", 1.0), "", "")
    assert answer["reason"] == "start ended the process with signal 50"


def test_other_cpu_settings_are_forbidden_too():
    settings = {
        "properties": {"gds_fallback_io": True, "vanilla_posix_io_mode": True},
        "fs": {"lustre": {"posix_gds_min_kb": 1024, "use_pci_p2pdma": True}, "weka": {}, "odd": 3},
    }
    config = gds_probe.probe_config(settings, FORBIDDEN, "/private")
    assert config["properties"] == {**FORBIDDEN, "gds_fallback_io": False, "vanilla_posix_io_mode": False}
    assert config["fs"] == {"lustre": {"posix_gds_min_kb": 0, "use_pci_p2pdma": True}, "weka": {}, "odd": 3}
    assert gds_probe.probe_config(settings, {}, "/private")["fs"] == settings["fs"]


def test_node_settings_are_kept_and_only_ours_change():
    settings = {
        "properties": {"allow_compat_mode": True, "rdma_dev_addr_list": ["10.0.0.1"]},
        "denylist": {"mounts": ["/secret"]},
        "block": {"nvme": {"use_pci_p2pdma": True}, "raid": {"use_pci_p2pdma": False}, "odd": 3},
        "logging": "odd",
    }
    before = json.dumps(settings)
    config = gds_probe.probe_config(settings, {"allow_compat_mode": False, "use_pci_p2pdma": False}, "/private")
    assert config["properties"] == {
        "allow_compat_mode": False,
        "rdma_dev_addr_list": ["10.0.0.1"],
        "use_pci_p2pdma": False,
    }
    assert config["block"] == {"nvme": {"use_pci_p2pdma": False}, "raid": {"use_pci_p2pdma": False}, "odd": 3}
    assert (config["denylist"], config["logging"]) == (
        {"mounts": ["/secret"]},
        {"dir": "/private", "level": "INFO"},
    )
    assert json.dumps(settings) == before


def test_environment_of_caller_is_filtered(monkeypatch):
    monkeypatch.setenv("CUFILE_ALLOW_COMPAT_MODE", "true")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = gds_probe.environment({"CUFILE_LOGGING_LEVEL": "INFO"})
    assert "CUFILE_ALLOW_COMPAT_MODE" not in found
    assert (found["CUDA_VISIBLE_DEVICES"], found["CUFILE_LOGGING_LEVEL"], found["LC_ALL"]) == ("1", "INFO", "C")


def test_program_is_read_out_of_archive_too(tmp_path):
    source = Path(gds_probe.__file__).parents[1]
    archive = tmp_path / "runtime.zip"
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("mlcluster/__init__.py", "")
        for path in source.rglob("*.py"):
            target.write(path, f"mlcluster/_node/{path.relative_to(source).as_posix()}")
    text = "from mlcluster._node.gds import probe; print(probe.child_source())"
    environment = {"PYTHONPATH": str(archive), "PATH": os.defpath}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == (source / "gds" / "probe_child.py").read_text(encoding="utf-8") + "\n"


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists(SYSTEM_PYTHON), reason="needs root, and a Python for all")
def test_ordinary_user_gets_same_answer(built):
    place = Path(tempfile.mkdtemp(prefix="mlcluster-test-", dir="/tmp"))
    try:
        place.chmod(0o1777)
        source = Path(gds_probe.__file__).parents[1]
        shutil.copytree(source, place / "mlcluster" / "_node", ignore=shutil.ignore_patterns("__pycache__"))
        (place / "mlcluster" / "__init__.py").touch()
        libraries = [shutil.copy(built[name], place) for name in ("cufile", "cuda")]
        text = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from mlcluster._node.gds.probe import ask\n"
            "answer = ask(sys.argv[2], {}, {}, sys.argv[1], cuda=sys.argv[3])\n"
            "print(answer['state'], ask(sys.argv[2], {}, {}, '/root')['state'])\n"
        )
        argv = [SYSTEM_PYTHON, "-c", text, str(place), *libraries]
        unprivileged = {"user": 65534, "group": 65534, "extra_groups": []}
        done = subprocess.run(argv, **unprivileged, capture_output=True, text=True, cwd="/", check=False)
        assert (done.stdout, done.stderr) == ("ok unusable\n", "")
        assert not list(place.glob(".mlcluster*"))
    finally:
        shutil.rmtree(place)


def test_termination_unwinds_with_status_of_shell():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, gds_probe._interruptible():
        signal.raise_signal(signal.SIGTERM)
    assert (ended.value.code, signal.getsignal(signal.SIGTERM)) == (143, before)


def test_interrupted_wait_kills_process(monkeypatch):
    started = []

    class Interrupted(subprocess.Popen):
        def wait(self, timeout=None):
            if timeout == 77:
                started.append(self)
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(gds_probe.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        gds_probe.run_bounded(["sleep", "600"], 77, gds_probe.environment({}))
    try:
        assert started[0].returncode == -signal.SIGKILL
    finally:
        started[0].kill()


def test_answer_outside_main_thread():
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, "/none", {}, FORBIDDEN, None, 60, None).result()
    assert (answer["state"], answer["step"]) == ("unusable", "load")


def test_hang_without_file_removes_nothing(monkeypatch):
    monkeypatch.setattr(gds_probe, "run_bounded", lambda *given: gds_probe.Ended(None, "", 1.0))
    monkeypatch.setattr(gds_probe, "remove_bounded", lambda path: pytest.fail(f"{path} is not ours"))
    answer = ask("/none", {}, FORBIDDEN)
    assert (answer["state"], answer["io"], answer["seconds"], answer["version"]) == ("hang", False, 1.0, None)


def test_left_child_with_output_does_not_block():
    ended = gds_probe.run_bounded(["sh", "-c", "sleep 3600 & echo $!"], 600, dict(os.environ))
    os.kill(int(ended.output), signal.SIGKILL)
    assert ended.rc == 0


def test_process_over_its_time_is_killed(monkeypatch):
    kill, ended_with = gds_probe._kill, []

    def recorded(process):
        kill(process)
        ended_with.append(process.returncode)

    monkeypatch.setattr(gds_probe, "_kill", recorded)
    ended = gds_probe.run_bounded(["sleep", "600"], 0, gds_probe.environment({}))
    assert (ended.rc, ended_with) == (None, [-9])
