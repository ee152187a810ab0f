# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask libcufile itself, in a separate process that may hang or crash without harm.

``ask`` returns an outcome: {state, step, err, cu_err, reason, version, io, seconds, table}. state is ok (all
steps succeeded), refused (libcufile returned an error), hang, crash, corrupt (the data that was read differs), or
unusable (libcufile was not called: no library, a missing symbol, or no file could be made). table is the result of
``parse_table`` for libcufile's log.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import typing as t

from ..system.files import discard_directory, open_new, write_new
from ..system.versions import version_key
from . import probe_child as gds_child
from .parse import error_text, parse_table
from .probe_child import PREFIX

# Time limit for the end of a killed process; one in an uninterruptible sleep is left behind.
KILL_SECONDS = 5
LOG_LIMIT = 4 << 20
# A full filesystem proves nothing about the path.
FULL = (errno.ENOSPC, errno.EDQUOT)
CREATED = '{"step": "create", "err": 0}\n'
ENDS = ('{"step": "done"}\n', '{"step": "stopped"}\n')
# libcufile up to 1.16 reads these variables, and they override the file. Later versions ignore the first variable, so
# both the file and the environment are set.
VARIABLES = {
    "allow_compat_mode": "CUFILE_ALLOW_COMPAT_MODE",
    "force_compat_mode": "CUFILE_FORCE_COMPAT_MODE",
    "use_pci_p2pdma": "CUFILE_USE_PCIP2PDMA",
}
# With these settings libcufile uses the CPU even while compat mode is forbidden. Source of the first two: NVIDIA's
# gds-diag (MagnumIO); of posix_gds_min_kb (transfers up to that size): cuFile API reference, "compatibility mode".
POSIX_ANYWAY = ("gds_fallback_io", "posix_io_mode", "vanilla_posix_io_mode")
POSIX_UP_TO = "posix_gds_min_kb"


class Ended(t.NamedTuple):
    """Result of a bounded process: its status (negative for a signal, None if it was stopped), and its output."""

    rc: int | None
    output: str
    seconds: float


def run_bounded(
    argv: t.Sequence[str], seconds: float, environment: dict[str, str], keep: tuple[int, ...] = ()
) -> Ended:
    """Run argv for at most ``seconds``; does not wait longer, not even for a process that cannot be killed.

    Standard output and error go to a nameless file, so that a process that is left behind blocks no reader.
    """
    begin = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=keep,
            start_new_session=True,
        )
        rc: int | None
        try:
            rc = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            rc = None
        except BaseException:
            _kill(process)
            raise
        if rc is None:
            _kill(process)
        output.seek(0)
        text = output.read(LOG_LIMIT).decode("utf-8", "replace")
    return Ended(rc, text, time.monotonic() - begin)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=KILL_SECONDS)


def environment(extra: dict[str, str]) -> dict[str, str]:
    """Return this process's environment without any setting of cuFile, in the C locale, with ``extra`` added."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUFILE_")}
    return {**kept, "LC_ALL": "C", "LANGUAGE": "C", **extra}


def probe_config(settings: dict[str, t.Any], changes: dict[str, bool], directory: str) -> dict[str, t.Any]:
    """Return the node's settings with these properties changed and the log (level INFO) in ``directory``.

    use_pci_p2pdma is also set in the other sections that have it (GDS 1.16 and newer). If compat mode is
    forbidden, so is every other setting that goes through the CPU.
    """
    config = json.loads(json.dumps(settings))
    for section in ("properties", "logging"):
        if not isinstance(config.get(section), dict):
            config[section] = {}
    config["properties"].update(changes)
    config["logging"].update(dir=directory, level="INFO")
    for switched in p2pdma_sections(config) if "use_pci_p2pdma" in changes else ():
        switched["use_pci_p2pdma"] = changes["use_pci_p2pdma"]
    if changes.get("allow_compat_mode") is False:
        config["properties"].update({name: False for name in POSIX_ANYWAY if name in config["properties"]})
        for filesystem in _sections(config, "fs"):
            if POSIX_UP_TO in filesystem:
                filesystem[POSIX_UP_TO] = 0
    return t.cast(dict[str, t.Any], config)


def p2pdma_sections(config: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the sections besides properties that have their own switch for P2PDMA."""
    return [section for above in ("block", "fs") for section in _sections(config, above) if "use_pci_p2pdma" in section]


def _sections(config: dict[str, t.Any], above: str) -> list[dict[str, t.Any]]:
    below = config.get(above)
    return [part for part in below.values() if isinstance(part, dict)] if isinstance(below, dict) else []


def ask(
    library: str,
    settings: dict[str, t.Any],
    changes: dict[str, bool],
    directory: str | None = None,
    seconds: float = 30,
    cuda: str | None = "libcuda.so.1",
) -> dict[str, t.Any]:
    """Open libcufile's driver; with a directory also register a temporary file there and move a block.

    settings are the node's cufile.json, changes the properties to change (allow_compat_mode, ...). The temporary file
    is always removed, even if the child process hangs or crashes, or if this process is ended.
    """
    private = ""
    try:
        private = tempfile.mkdtemp(prefix="mlcluster-gds-")
        file = os.path.join(directory, PREFIX + secrets.token_hex(8)) if directory else None
        return _ask(library, settings, changes, file, seconds, cuda, private)
    except OSError as exc:
        what = exc.filename or "a process"
        return _outcome("unusable", "start", reason=f"the probe could not be set up: {what}: {exc.strerror}")
    finally:
        discard_directory(private)


def remove_bounded(path: str) -> None:
    """Remove a file, without waiting for a filesystem that does not answer."""
    run_bounded(["rm", "-f", "--", path], KILL_SECONDS, environment({}))


def child_source() -> str:
    """Return the source of the program that calls libcufile, from a directory or a zip archive."""
    return inspect.getsource(gds_child)


def _ask(
    library: str,
    settings: dict[str, t.Any],
    changes: dict[str, bool],
    file: str | None,
    seconds: float,
    cuda: str | None,
    private: str,
) -> dict[str, t.Any]:
    config, log, steps = (os.path.join(private, name) for name in ("cufile.json", "cufile.log", "steps"))
    write_new(config, json.dumps(probe_config(settings, changes, private)).encode())
    extra = {VARIABLES[name]: str(value).lower() for name, value in changes.items()}
    extra.update(CUFILE_ENV_PATH_JSON=config, CUFILE_LOGFILE_PATH=log, CUFILE_LOGGING_LEVEL="INFO")
    out = open_new(steps)
    try:
        request = {
            "library": library,
            "cuda": cuda,
            "file": file,
            "out": out,
            "private": private,
            "parent": os.getpid(),
            # The child also has its own time limit, in case this process has ended and cannot stop it.
            "seconds": seconds + KILL_SECONDS,
        }
        argv = [sys.executable, "-I", "-c", child_source(), json.dumps(request)]
        with _interruptible():
            ended = run_bounded(argv, seconds, environment(extra), (out,))
    finally:
        os.close(out)
        if file and CREATED in _read(steps) and not _read(steps).endswith(ENDS):
            # The child removes it, unless it was stopped or crashed.
            remove_bounded(file)
    return read_outcome(ended, _read(steps), _read(log))


@contextlib.contextmanager
def _interruptible() -> t.Iterator[None]:
    """Let a termination signal unwind the stack, so that files are removed on the way out."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:
        # Only the main thread may set signal handlers.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(LOG_LIMIT)
    except OSError:
        return ""


def _outcome(state: str, step: str | None, **fields: t.Any) -> dict[str, t.Any]:
    blank = {"err": None, "cu_err": None, "reason": "", "version": None, "io": False, "seconds": 0.0}
    return {"state": state, "step": step, **blank, "table": parse_table(""), **fields}


def read_outcome(ended: Ended, steps: str, log: str) -> dict[str, t.Any]:
    """Judge how the child ended, from the steps it reported and from libcufile's log. Pure."""
    lines = [json.loads(line) for line in steps.splitlines() if line.startswith("{") and line.endswith("}")]
    done = {line["step"]: line for line in lines if "step" in line}
    begun = [line["begin"] for line in lines if "begin" in line]
    number = done.get("load", {}).get("version") or 0
    common: dict[str, t.Any] = {
        # cuFileGetVersion: 1000 * major + 10 * minor.
        "version": f"{number // 1000}.{number % 1000 // 10}" if number else None,
        "io": "compare" in done,
        "seconds": round(ended.seconds, 3),
        "table": parse_table(log),
    }
    step = begun[-1] if begun else "start"
    if ended.rc is None:
        return _outcome("hang", step, reason=f"no answer from {step} within {ended.seconds:.0f} seconds", **common)
    if ended.rc < 0:
        # Real-time signals have no name.
        known = {number.value: number.name for number in signal.Signals}
        name = known.get(-ended.rc, f"signal {-ended.rc}")
        return _outcome("crash", step, reason=f"{step} ended the process with {name}", **common)
    if ended.rc != 0 or not ("done" in done or "stopped" in done):
        last = (ended.output.strip().splitlines() or ["no message"])[-1]
        return _outcome("crash", step, reason=f"{step} ended the process with status {ended.rc}: {last}", **common)
    return _answered(done, begun, common)


def _answered(done: dict[str, dict[str, t.Any]], begun: list[str], common: dict[str, t.Any]) -> dict[str, t.Any]:
    load = done.get("load", {})
    if done.get("create", {}).get("problem"):
        reason = f"no temporary file could be made: {done['create']['problem']}"
        return _outcome("unusable", "create", reason=reason, **common)
    if load.get("problem"):
        return _outcome("unusable", "load", reason=f"libcufile cannot be loaded: {load['problem']}", **common)
    if load.get("absent"):
        reason = f"libcufile lacks {', '.join(load['absent'])}: it is of a release that is not known"
        return _outcome("unusable", "load", reason=reason, **common)
    for name in ("open", "register", "write", "read"):
        answer = done.get(name, {})
        if answer.get("errno") in FULL:
            return _outcome("unusable", name, reason=f"the file could not be written: {_strerror(answer)}", **common)
        if answer.get("err"):
            fields = {"err": answer["err"], "cu_err": answer.get("cu_err"), **common}
            return _outcome("refused", name, reason=_refusal(name, answer, common["table"]), **fields)
    if done.get("buffer", {}).get("problem"):
        reason = f"no GPU memory could be had: {done['buffer']['problem']}"
        return _outcome("unusable", "buffer", reason=reason, **common)
    if done.get("compare", {}).get("same") is False:
        reason = "the data read back through GPU memory differ from the data written"
        return _outcome("corrupt", "compare", reason=reason, **common)
    lost = _lost(done, begun)
    if lost:
        return _outcome("crash", lost, reason=f"the answer of {lost} is not in what the process reported", **common)
    return _outcome("ok", begun[-1] if begun else "open", err=0, cu_err=0, **common)


def _lost(done: dict[str, dict[str, t.Any]], begun: list[str]) -> str | None:
    """Return the step that did not answer, or that failed while the process continued; None if there is none."""
    implied = [after for first, after in (("create", "register"), ("read", "compare")) if first in begun]
    for name in ("load", "open", *begun, *implied):
        good = done.get(name, {}).get("absent") == [] if name == "load" else done.get(name, {}).get("err") == 0
        if not good:
            return name
    return None if "done" in done else "done"


def _strerror(answer: dict[str, t.Any]) -> str:
    return os.strerror(answer["errno"]) if answer.get("errno") else f"the CUDA error {answer.get('cu_err')}"


def _refusal(step: str, answer: dict[str, t.Any], table: dict[str, t.Any]) -> str:
    if step in ("write", "read") and answer["err"] == 1:
        # The result is as that of pwrite: -1 with the system's error; another wrong count is an incomplete transfer.
        moved = answer["moved"]
        how = _strerror(answer) if moved == -1 else f"moved {moved} of {gds_child.BLOCK} bytes"
        return f"cuFile{step.capitalize()}: {how}"
    what = {
        "open": "cuFileDriverOpen",
        "register": "cuFileHandleRegister",
        "write": "cuFileWrite",
        "read": "cuFileRead",
    }
    error = f": {table['errors'][0]}" if table["errors"] else ""
    return f"{what[step]} gave {error_text(answer['err'])}{error}"


def gdscheck(path: str, seconds: float = 30) -> dict[str, t.Any]:
    """Return the table that gdscheck prints: {state: ok, hang or crash, reason, table}."""
    try:
        ended = run_bounded([path, "-p"], seconds, environment({}))
    except OSError as exc:
        return {"state": "crash", "reason": f"{path} could not be started: {exc.strerror}", "table": parse_table("")}
    table = parse_table(ended.output)
    if ended.rc is None:
        return {"state": "hang", "reason": f"{path} -p: no answer within {seconds:g} seconds", "table": table}
    if not table["drivers"]:
        last = (ended.output.strip().splitlines() or ["no message"])[-1]
        return {"state": "crash", "reason": f"{path} -p: status {ended.rc}: {last}", "table": table}
    return {"state": "ok", "reason": "", "table": table}


def library_version(outcome: dict[str, t.Any] | None, named: str | None) -> str | None:
    """Return the most exact known version: from libcufile's log, otherwise from its file name, otherwise its answer."""
    candidates = [named]
    if outcome:
        candidates = [outcome["table"]["versions"].get("GDS release version"), named, outcome["version"]]
    return next((text for text in candidates if text and version_key(text)), None)
