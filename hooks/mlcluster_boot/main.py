# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configure the node from an unpacked bundle; on_node_configured.sh starts this program.

Exit codes: 0 configured, or failed under a policy that keeps the node (``--on-failure continue|drain``); with
``terminate`` 1 a required role failed, 2 no verdict (deadline, no Python, stopped), 3 wrong options or variables.
It never reboots the node.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

BUNDLE = Path(__file__).resolve().parents[2]
COLLECTIONS = BUNDLE / "collections"
if COLLECTIONS.is_dir():
    # In a bundle; in a checkout the collection is on the path already.
    sys.path.insert(0, str(COLLECTIONS))

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import discard_directory
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.package_locks import held_lock

from . import unchanged
from .node import Node, Role, choose_roles, look, lost_gpus
from .options import Options, OptionsError, fallback_options, parse_options, read_vars, read_words
from .play import MARKER, Outcome, RunError, run_playbook
from .status import OVER, SHIP_SECONDS, Report, prune
from .waits import (
    Wait,
    end_leftovers,
    pause_update_timers,
    poll,
    repair_dpkg,
    wait_for_cloud_init,
    wait_for_dlami,
    wait_for_paths,
)

PLAYBOOK = "ansible_collections/mlcluster/aws/playbooks/configure_node.yml"
ROLES = "ansible_collections/mlcluster/aws/roles"
REPORTS = "/var/log/mlcluster/runs"
STATE = "/var/lib/mlcluster"
# The request of the last run that configured the node.
RECORD = "configured.json"
# Bound of the wait for DLAMI's unit, in seconds; the other waits have --wait-seconds.
DLAMI_SECONDS = 120
# Part of the deadline that is reserved for the report and for copying the log to S3.
RESERVE_SECONDS = 5
# A runner that still runs this long after the deadline hangs, and the interpreter ends itself.
GRACE_SECONDS = SHIP_SECONDS + 30

UNKNOWN_TYPE = (
    "neither the metadata service nor the firmware gave the instance type, so a loss of all its disks or GPUs was not "
    "looked for"
)


class NoVerdictError(Exception):
    """The run failed; the message is one sentence, ``code`` the exit code."""

    def __init__(self, text: str, code: int = 2) -> None:
        super().__init__(text)
        self.code = code


class StopError(BaseException):
    """A signal stops the run. It is not an Exception, which logging and the waits for commands would swallow."""


def playbook_command(folder: Path) -> Path:
    """Write ``folder/ansible-playbook``, which runs the code of the bundle with this Python; return the folder.

    ansible-runner finds the program by its name, and the one of the system has another version.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    text = (
        # Without ``site``, Python loads neither the node's packages nor their start-up code. A short run leaves little
        # garbage, and Python's default number of collections costs a seventh of the run.
        f"#!{sys.executable} -ISB\nimport gc\nimport sys\n\ngc.set_threshold(100_000)\nsys.path[:] = {sys.path!r}\n"
        "from ansible.cli.playbook import main\n\nsys.exit(main(['ansible-playbook', *sys.argv[1:]]))\n"
    )
    program = folder / "ansible-playbook"
    if not program.is_file() or program.read_text(encoding="utf-8") != text:
        Host().write_text(str(program), text, 0o755)
    # The node's own ansible.cfg is for its users.
    if not (folder / "ansible.cfg").is_file():
        Host().write_text(str(folder / "ansible.cfg"), "")
    return folder


def environment(folder: Path, state: Path) -> dict[str, str]:
    """Return the environment of ansible-playbook."""
    return {
        "HOME": os.environ.get("HOME", "/root"),
        # ansible-core demands UTF-8, and a boot has no locale.
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_HOME": str(state / "ansible"),
        "ANSIBLE_REMOTE_TMP": str(state / "ansible" / "tmp"),
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false",
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_GATHERING": "explicit",
        # The inventory is a host list on the command line, which one of seven default plugins reads: load only that.
        "ANSIBLE_INVENTORY_ENABLED": "ansible.builtin.host_list",
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
    }


def bundled_variables() -> dict[str, Any]:
    """Return the variables by which roles find the artifacts of this bundle; empty without artifacts."""
    path = BUNDLE / "artifacts" / "vars.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def extra_variables(roles: Sequence[Role], given: Mapping[str, Any], node: Node) -> dict[str, Any]:
    """Return the variables of the play: those of the user, overridden by those that the hook sets."""
    return {
        **bundled_variables(),
        # Roles compare the hardware with that of the type. Whether EFA is attached, the type does not show.
        "ec2_instance_type": node.instance_type,
        "ec2_efa_attached": 0,
        **given,
        # A reboot in the middle of the bootstrap is a failed bootstrap.
        **{f"{role.name.rpartition('.')[2]}_reboot_allowed": False for role in roles},
        "configure_node_roles": [
            {"name": role.full_name, "key": role.name, "required": role.required} for role in roles
        ],
        "configure_node_kind": node.kind,
    }


def wait_for_node(report: Report, host: Host) -> None:
    """Wait for everything that must end before the roles. Raises NoVerdictError for a missing ``--wait-for``."""
    options = report.options

    def bound(seconds: float) -> float:
        return max(1.0, min(seconds, report.left() - RESERVE_SECONDS))

    marker = f"{MARKER}={options.path(REPORTS)}/"
    steps = (
        lambda: end_leftovers(marker, bound(options.wait_seconds)),
        lambda: wait_for_cloud_init(host, bound(options.wait_seconds)),
        lambda: wait_for_dlami(host, bound(DLAMI_SECONDS)),
        lambda: poll("package locks", lambda: held_lock(options.root), bound(options.wait_seconds)),
    )
    for step in steps:
        _note(report, step())
    for private in options.path(REPORTS).glob("*/runner-*"):
        # Files of a killed run: its variables and environment, credentials included.
        discard_directory(private)
    problem = repair_dpkg(options.root, host, bound(options.wait_seconds))
    if problem:
        report.warn(problem)
    shared = wait_for_paths(options.root, options.wait_for, bound(options.wait_seconds))
    if shared is not None and shared.obstacle:
        raise NoVerdictError(f"{shared.obstacle} after {shared.seconds:.0f} s: check that the head node has written it")
    _note(report, shared)


def _note(report: Report, wait: Wait | None) -> None:
    if wait is None or not (wait.obstacle or wait.seconds >= 0.1):
        return
    entry = {"what": wait.what, "seconds": wait.seconds, "obstacle": wait.obstacle}
    report.update(waits=[*report.document["waits"], entry])
    if wait.obstacle:
        report.warn(f"waited {wait.seconds:.0f} s for {wait.what} and continue without: {wait.obstacle}")
    else:
        report.info(f"waited {wait.seconds:.1f} s for {wait.what}")


def available_roles() -> list[str]:
    """Return the names of the collection's roles in this bundle; roles without main serve only other roles."""
    return sorted(path.parents[1].name for path in (COLLECTIONS / ROLES).glob("*/tasks/main.yml"))


def configure(report: Report) -> tuple[str, int]:
    """Look, wait, run the play; return (message, 0) if the node is configured. Raises NoVerdictError.

    A node with fewer GPUs than its type is configured too, for its diagnosis, and fails.
    """
    options = report.options
    node = look(options.root, options.node_type)
    ended = _configure(report, node)
    lost = lost_gpus(node) if options.phase == "boot" else ""
    if lost and node.gpus is not None:
        raise NoVerdictError(lost, 1)
    if lost:
        report.warn(lost)
    return ended


def _configure(report: Report, node: Node) -> tuple[str, int]:
    options = report.options
    given = read_vars(options.vars_file, options.vars_source)
    roles = choose_roles(node, options.roles, options.required, available_roles(), given)
    report.update(
        node={
            "kind": node.kind,
            "kind_source": node.source,
            "instance_id": node.instance_id,
            "instance_type": node.instance_type,
            "queue": node.queue,
            "groups": list(node.groups),
        }
    )
    report.info(f"a {node.kind} node ({node.source}); roles: {', '.join(role.name for role in roles) or 'none'}")
    if not node.instance_type:
        report.warn(UNKNOWN_TYPE)
    if not roles:
        return "configured: no role has anything to do on this node", 0
    state = options.path(STATE)
    state.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    variables = extra_variables(roles, given, node)
    key = unchanged.request_key(options.sha256, roles, variables)
    # A killed run leaves no record. If there is one, no processes of a killed run are left.
    found = unchanged.look(state / RECORD, key, roles, variables) if _is_quick(options) else None
    if found is not None:
        report.update(roles=found)
        return f"configured: {len(found)} roles, nothing to do, {time.monotonic() - started:.0f} s", 0
    unchanged.forget(state / RECORD)
    host = Host()
    with pause_update_timers(host, state / "quiet.json", report.warn):
        wait_for_node(report, host)
        return _play(report, node, roles, given)


def _is_quick(options: Options) -> bool:
    """Return whether the facts may replace the play: not in an image, and not while paths are missing."""
    return options.phase == "boot" and all(path.exists() for path in options.wait_for)


def _play(report: Report, node: Node, roles: Sequence[Role], given: Mapping[str, Any]) -> tuple[str, int]:
    options = report.options
    programs = playbook_command(BUNDLE / "programs")
    os.environ.update(environment(programs, options.path(STATE)))
    timeout = int(report.left() - RESERVE_SECONDS)
    if timeout < 1:
        raise NoVerdictError("the deadline was over before the first role began: see waits in the status file")
    report.update(state="running", stage="roles")
    try:
        outcome = run_playbook(
            COLLECTIONS / PLAYBOOK,
            inventories=["localhost,"],
            report_dir=options.path(REPORTS),
            project_dir=COLLECTIONS / PLAYBOOK.rpartition("/")[0],
            extra_vars=extra_variables(roles, given, node),
            arguments=["--tags", options.phase] if options.phase == "build" else [],
            timeout=timeout,
            programs=programs,
            watch=functools.partial(report.roles, roles),
        )
    except RunError as exc:
        raise NoVerdictError(str(exc)) from exc
    report.roles(roles, outcome.status)
    report.update(run=str(outcome.log_file))
    ended = verdict(report, outcome)
    failed = any(entry["state"] == "failed" for entry in report.document["roles"])
    if options.phase == "boot" and not failed:
        key = unchanged.request_key(options.sha256, roles, extra_variables(roles, given, node))
        unchanged.remember(options.path(STATE) / RECORD, key, roles, outcome.options)
    return ended


def verdict(report: Report, outcome: Outcome) -> tuple[str, int]:
    """Return (message, 0) if the play configured the node. Raises NoVerdictError otherwise."""
    entries = report.document["roles"]
    failed = [entry for entry in entries if entry["state"] == "failed"]
    reasons = "; ".join(f"{entry['role']}: {' '.join(entry['message'].split())[:300]}" for entry in failed)
    if outcome.state == "successful":
        if unknown := [entry["role"] for entry in entries if entry["state"] not in OVER]:
            raise NoVerdictError(f"the play ended without recording {', '.join(unknown)}: see {outcome.log_file}")
        if failed:
            report.warn(f"best effort was not enough for {reasons}")
        changed = sum(entry["changed"] for entry in entries)
        return (
            f"configured: {len(entries) - len(failed)} roles, {changed} changes, {outcome.status['elapsed']:.0f} s",
            0,
        )
    if outcome.state == "timeout":
        running = ", ".join(entry["role"] for entry in entries if entry["state"] in ("running", "interrupted"))
        limit = report.document["deadline_seconds"]
        raise NoVerdictError(
            f"the deadline of {limit} s came while {running or 'the play'} was running: see {outcome.log_file}"
        )
    if outcome.state == "canceled":
        raise NoVerdictError(f"the run was asked to stop; the next run continues where it stopped: {outcome.log_file}")
    if not failed:
        message = outcome.status["failures"][-1]["message"] if outcome.status["failures"] else "no error output"
        last = " ".join(" ".join(message.splitlines()[-2:]).split())
        reasons = f"the play ended as {outcome.state}: {last[:300]}"
    raise NoVerdictError(reasons, 1 if outcome.exit_code == 1 else 2)


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[None]:
    """Turn SIGTERM before and after the play into StopError; the play handles its own signals.

    A second SIGTERM (a process group and timeout(1) both send one) must not interrupt the cleanup or the report. Nor
    must a first one after the end of the run.
    """

    def stop(number: int, _frame: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        raise StopError(f"the run was asked to stop ({signal.Signals(number).name})")

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _ignore_hangup(_number: int, _frame: object) -> None:
    """Ignore SIGHUP: a closing terminal also signals the hook, which then stops this process with SIGTERM."""


def run(words: Sequence[str]) -> int:
    """Run and report once; return the exit code of the hook."""
    try:
        options = parse_options(words)
    except OptionsError as exc:
        return Report(fallback_options(words)).finish("failed", str(exc), 3)
    report = Report(options)
    faulthandler.dump_traceback_later(report.left() + GRACE_SECONDS, exit=True)
    try:
        return _reported(report)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _reported(report: Report) -> int:
    options = report.options
    report.document["bundle"]["version"] = _version()
    report.update()
    try:
        with _stop_on_signals():
            message, code = configure(report)
            with contextlib.suppress(OSError):
                prune(options.path("/opt/mlcluster/bundles"), options.sha256)
    except OptionsError as exc:
        return report.finish("failed", str(exc), 3)
    except NoVerdictError as exc:
        return report.finish("failed", str(exc), exc.code)
    except StopError as exc:
        return report.finish("failed", str(exc), 2)
    except Exception as exc:
        report.logger.exception("the run could not continue")
        return report.finish("failed", f"the run could not continue ({type(exc).__name__}: {exc})", 2)
    return report.finish("configured", message, code)


def _version() -> str:
    try:
        components = json.loads((BUNDLE / "MANIFEST.json").read_text(encoding="utf-8"))["components"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    found = [item for item in components or [] if isinstance(item, dict) and item.get("name") == "mlcluster.aws"]
    return str(found[0].get("version", "")) if found else ""


def _detach_stdio() -> None:
    """Replace an output that cannot be flushed (closed pipe, full disk), which would end Python with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line: --options-file FILE, which is removed once the run has been reported."""
    parser = argparse.ArgumentParser(prog="run-node", description=__doc__)
    parser.add_argument("--options-file", type=Path, required=True, help="the options of the hook")
    args = parser.parse_args(argv)
    # A handler instead of SIG_IGN, which child processes would inherit.
    signal.signal(signal.SIGHUP, _ignore_hangup)
    code = run(read_words(args.options_file))
    # Removed: this shows the hook that the run has been reported.
    args.options_file.unlink()
    _detach_stdio()
    return code


if __name__ == "__main__":
    sys.exit(main())
