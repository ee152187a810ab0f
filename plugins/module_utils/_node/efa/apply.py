# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps that only plans of the role efa_nccl have, one function each. The plan has decided what to do.

The files of the installer and of nccl-tests were downloaded before, into a directory that only root may enter. A file
with a wrong sha256 or signature is neither unpacked nor run. Each function raises ``NodeError``; with ``check`` it
reports its change and changes nothing.
"""

from __future__ import annotations

import re
import typing as t

from ..system.distribution import read_distribution
from ..system.host import CommandError, CommandResult, Host, NodeError
from ..system.job_steps import jobs_problem, running_steps
from ..system.packages import installed_packages
from ..system.role_file import path_of
from . import files
from .config import parse_config
from .look import STACK_PACKAGES, select_packages
from .role import hold_patterns

Arguments = t.Mapping[str, t.Any]
Outcome = dict[str, t.Any]

# needrestart would restart services, slurmd among them, after every package.
_QUIET = ("DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1")
_UNPACK_SECONDS = 600
_BUILD_SECONDS = 3600
_PACKAGE_SECONDS = 600
_RESTART_SECONDS = 180
# How long apt waits for its lock.
_LOCK_SECONDS = 300
# Limits for the output of a failed program in a message.
_MAX_CHARACTERS = 300
_MAX_LINES = 5
# gpg reports a valid signature, with exit status 0, even if the key is revoked or expired.
_BAD_SIGNATURE = re.compile(r"^\[GNUPG:\] (?:BADSIG|ERRSIG|EXPSIG|EXPKEYSIG|REVKEYSIG|KEYREVOKED)\b", re.MULTILINE)
_INSIDE = "aws-efa-installer"


def require_idle(host: Host, arguments: Arguments, check: bool = False) -> Outcome:
    """Raise ``NodeError`` if Slurm jobs run: some may have started since the facts were read."""
    problem = jobs_problem(running_steps(host), arguments["change"], arguments["option"])
    if problem:
        raise NodeError(problem)
    return {"changed": False}


def install(host: Host, arguments: Arguments, check: bool = False) -> Outcome:
    """Verify, unpack and run the installer; if it fails, the next run of the role repairs the installation."""
    if check:
        return {"changed": True}
    version, work = arguments["version"], arguments["work"]
    fresh = f"{work}/fresh"
    _require_sum(host, arguments, "compare it with AWS's list")
    # Files of an earlier run must not be mixed with this installer's.
    host.run(["rm", "-rf", "--", fresh])
    host.make_directory(fresh, 0, 0, 0o700)
    if arguments["key"]:
        problem = signature_problem(
            host, f"{fresh}/gnupg", arguments["archive"], arguments["key"], arguments["fingerprint"]
        )
        if problem:
            raise NodeError(
                f"EFA installer {version} was not installed, since {arguments['signature_origin']} is not a valid "
                f"signature by the key {arguments['fingerprint']} of {arguments['key_origin']}; {problem}: do not use "
                "the file, and compare the fingerprint with the EC2 User Guide"
            )
    host.run(["tar", "-xf", arguments["archive"], "-C", fresh, "--no-same-owner"], timeout=_UNPACK_SECONDS)
    if not host.exists(f"{fresh}/{_INSIDE}/efa_installer.sh"):
        raise NodeError(
            f"{arguments['origin']} has no {_INSIDE}/efa_installer.sh in it, and nothing was installed: use the "
            "installer's own archive and its sha256"
        )
    _free_packages(host, arguments)
    # If the run is interrupted after this line, the next run finds the file and repairs the installation.
    host.write_text(files.INTENT, files.intent_text(version, arguments["step"]))
    _run_installer(host, arguments, f"{fresh}/{_INSIDE}")
    host.remove(files.INTENT)
    host.run(["rm", "-rf", "--", work])
    return {"changed": True}


def build_tests(host: Host, arguments: Arguments, check: bool = False) -> Outcome:
    """Build nccl-tests for several nodes and install the programs."""
    if check:
        return {"changed": True}
    version, work, top = arguments["version"], arguments["work"], arguments["tests_dir"]
    _require_sum(host, arguments, "compare it with the release")
    source = f"{work}/nccl-tests-{version}"
    host.run(["rm", "-rf", "--", source])
    host.run(["tar", "-xf", arguments["archive"], "-C", work, "--no-same-owner"], timeout=_UNPACK_SECONDS)
    command = ["make", "--directory", source, "--jobs=8", *arguments["make"]]
    try:
        completed = host.run(command, timeout=_BUILD_SECONDS, check=False)
        failure = f"make ended with status {completed.rc}: {last_lines(completed)}" if completed.rc else ""
    except CommandError as exc:
        failure = f"make: {exc.problem}: {last_lines(exc)}"
    if failure:
        raise NodeError(
            f"nccl-tests {version} were not built, {failure}; it needs make, a compiler, CUDA in efa_nccl_cuda_home, "
            "Open MPI in efa_nccl_mpi_home and the headers of NCCL"
        )
    host.make_mount_point(f"{top}/build")
    # A running program cannot be overwritten: the old file is removed first.
    copied = ["cp", "--recursive", "--remove-destination", "--preserve=mode", f"{source}/build/.", f"{top}/build/"]
    host.run(copied, timeout=_UNPACK_SECONDS)
    host.write_text(arguments["marker"], arguments["marker_text"])
    host.run(["rm", "-rf", "--", work])
    return {"changed": True}


def restart(host: Host, arguments: Arguments, check: bool = False) -> Outcome:
    """Restart services one after the other while no job runs."""
    restarted = []
    for unit in arguments["units"]:
        if running_steps(host) != 0:
            break
        if not check:
            host.run(["systemctl", "restart", unit], timeout=_RESTART_SECONDS)
        restarted.append(unit)
    return {"changed": bool(restarted), "restarted": restarted}


def remove(host: Host, arguments: Arguments, check: bool = False) -> Outcome:
    """Remove the role's files and holds; ``arguments`` are its options. The software stays."""
    config, family = parse_config(arguments), read_distribution(host)["family"]
    own = [*files.own_paths(config, family), path_of("efa_nccl")]
    gone = [path for path in own if host.stat(path) is not None]
    # A site may have its own /etc/nccl.conf, which is kept.
    if "Written by mlcluster.aws" not in (host.read_text(files.NCCL_CONF) or ""):
        gone = [path for path in gone if path != files.NCCL_CONF]
    packages, manager = installed_packages(host)
    present = select_packages(packages, [*STACK_PACKAGES, *hold_patterns(config, family)])
    held = [name for name, entry in sorted((packages or {}).items()) if entry["held"] and present.get(name)]
    if not check:
        for path in gone:
            host.remove(path)
        if files.LINKER in gone:
            host.run(["ldconfig"])
        if set(gone) & set(files.unit_paths(config)):
            # The services are not restarted: their old limits last until their next start.
            host.run(["systemctl", "daemon-reload"])
        _remove_holds(host, held, manager == "dpkg")
    return {"changed": bool(gone or held), "removed": gone, "unheld": held}


STEPS: t.Mapping[str, t.Callable[[Host, Arguments, bool], Outcome]] = {
    "idle": require_idle,
    "installer": install,
    "tests": build_tests,
    "restart": restart,
    "remove": remove,
}


def signature_problem(host: Host, home: str, archive: str, key: str, fingerprint: str) -> str:
    """Return gpg's output if ``archive``.sig is not a valid signature by that key; empty if it is valid.

    ``key`` is the file of the key. ``home`` is created, for a separate keyring.
    """
    host.make_directory(home, 0, 0, 0o700)
    gpg = ["gpg", "--homedir", home, "--batch", "--no-tty", "--no-autostart"]
    imported = host.run([*gpg, "--import", key], check=False)
    completed = host.run([*gpg, "--status-fd", "1", "--verify", f"{archive}.sig", archive], check=False)
    if completed.rc == 0 and is_signed_by(completed.stdout, fingerprint):
        return ""
    errors = (imported if imported.rc else completed).stderr
    words = [line[len("gpg:") :].strip() for line in errors.splitlines() if line.startswith("gpg:")]
    return f"gpg reported {' / '.join(words) or 'nothing'}"


def is_signed_by(status: str, fingerprint: str) -> bool:
    """Return whether gpg's status lines confirm a signature by that key, without any error about it.

    The first field is the key that signed, which may be a subkey; the last is its primary key (GnuPG, doc/DETAILS).
    """
    valid = rf"^\[GNUPG:\] VALIDSIG (?:{fingerprint} .*|.* {fingerprint})$"
    return bool(re.search(valid, status, re.MULTILINE)) and not _BAD_SIGNATURE.search(status)


def last_lines(ended: CommandResult | CommandError) -> str:
    """Return the last lines of both streams, cut to a limit: the reason may be on either."""
    lines = ended.stderr.splitlines()[-_MAX_LINES:] + ended.stdout.splitlines()[-_MAX_LINES:]
    cut = [line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 3]}..." for line in lines]
    return " / ".join(cut) or "no error output"


def _require_sum(host: Host, arguments: Arguments, advice: str) -> None:
    found, expected = host.sha256(arguments["archive"]), arguments["sha256"]
    if not expected or found != expected:
        source = f" (from {arguments['sha256_source']})" if arguments.get("sha256_source") else ""
        raise NodeError(
            f"{arguments['origin']} was not taken and nothing was installed: its sha256 is {found or 'not readable'}, "
            f"expected was {expected or 'none'}{source}: {advice} and fetch the file again"
        )


def _free_packages(host: Host, arguments: Arguments) -> None:
    """Finish pending work of dpkg, refresh apt's lists, and release the holds of the installer's own packages."""
    if arguments["is_dpkg"] and arguments["step"] == "repair":
        # Errors are ignored: the installer repairs unfinished packages.
        host.run(["env", *_QUIET, "dpkg", "--configure", "--pending"], timeout=_PACKAGE_SECONDS, check=False)
    if arguments["is_dpkg"]:
        # A failure is ignored: the installer reports packages that it cannot find.
        host.run(
            ["apt-get", "update", "-o", f"DPkg::Lock::Timeout={_LOCK_SECONDS}"], timeout=_PACKAGE_SECONDS, check=False
        )
    _remove_holds(host, arguments["unhold"], arguments["is_dpkg"])


def _remove_holds(host: Host, names: t.Iterable[str], is_dpkg: bool) -> None:
    """Remove the holds of packages."""
    tool = ["apt-mark", "unhold"] if is_dpkg else ["dnf", "-q", "versionlock", "delete"]
    for name in names:
        host.run([*tool, name], timeout=_PACKAGE_SECONDS)


def _run_installer(host: Host, arguments: Arguments, folder: str) -> None:
    seconds = arguments["timeout"]
    # apt reads this file in addition to its own configuration.
    apt = f"{arguments['work']}/apt.conf"
    host.write_text(apt, f'DPkg::Lock::Timeout "{_LOCK_SECONDS}";\n')
    key = [f"EFA_INSTALLER_KEY={arguments['key']}"] if arguments["key"] else []
    # At its time limit, timeout(1) also ends the children, such as dpkg.
    limit = ["timeout", "--kill-after=30", str(seconds)]
    command = [
        "env",
        f"--chdir={folder}",
        *_QUIET,
        f"APT_CONFIG={apt}",
        *key,
        *limit,
        "./efa_installer.sh",
        *arguments["arguments"],
    ]
    started = host.monotonic()
    try:
        completed = host.run(command, timeout=seconds + 60, check=False)
        rc, words = str(completed.rc), last_lines(completed)
        is_late = completed.rc in (124, 137, -9) and host.monotonic() - started >= seconds
    except CommandError as exc:
        rc, words, is_late = "none", last_lines(exc), "no answer" in exc.problem
    if rc == "0":
        return
    after = f" after {seconds} seconds, which efa_nccl_installer_timeout allows" if is_late else ""
    raise NodeError(
        f"EFA installer {arguments['version']} ended with status {rc}{after}: {words}; correct that and run the role "
        "again, which repairs the installation"
    )
