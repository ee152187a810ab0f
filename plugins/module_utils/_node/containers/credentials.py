# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Registry credentials without secrets: each names the command that prints the password when an image is fetched.

Enroot reads .credentials like a netrc file and lets a shell evaluate a password that begins with ``$`` (its function
common::evalnetrc). An ECR token is valid for twelve hours, so ECR needs a command.
"""

from __future__ import annotations

import re
import shlex
import typing as t

from ..system.host import CommandError, Host, NodeError

# Read by users who have no configuration of their own; see CONFIG_PATH_VALUE.
DIRECTORY = "/etc/mlcluster/enroot"
PATH = f"{DIRECTORY}/.credentials"
CONFIG_PATH_VALUE = f"$(test -e ${{HOME}}/.config/enroot && echo ${{HOME}}/.config/enroot || echo {DIRECTORY})"

OPTIONS: dict[str, dict[str, t.Any]] = {
    "machine": {"type": "str", "required": True},
    "login": {"type": "str", "default": ""},
    "command": {"type": "list", "elements": "str", "default": []},
}

# Amazon ECR User Guide, private registry authentication: ACCOUNT.dkr.ecr.REGION.amazonaws.com, user name AWS.
_ECR = re.compile(r"\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_MACHINE = re.compile(r"[A-Za-z0-9.-]+")
_LOGIN = re.compile(r"[A-Za-z0-9$._@-]+")


def problems(entries: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return one sentence for each entry that cannot be written or would contain a secret."""
    found = []
    for entry in entries:
        machine = str(entry.get("machine", ""))
        unknown = sorted(set(entry) - set(OPTIONS))
        if unknown:
            found.append(
                f"credentials for {machine or 'a registry'} have the unknown keys {', '.join(unknown)}: use "
                "machine, login and command; the command prints the password, so that no secret is on a disk"
            )
        if not _MACHINE.fullmatch(machine):
            found.append(f"credentials have the machine {machine!r}: use the host name of a registry")
        elif not _ECR.fullmatch(machine) and not (entry.get("login") and entry.get("command")):
            found.append(
                f"credentials for {machine} need login and command: set both, since only those for ECR have defaults"
            )
        if entry.get("login") and not _LOGIN.fullmatch(str(entry["login"])):
            found.append(
                f"credentials for {machine} have a login with characters that are not accepted: use letters, "
                f"digits, '$', '.', '_', '@' and '-'"
            )
        if any(re.search(r"[\r\n\0]", str(word)) for word in entry.get("command") or []):
            found.append(f"the command for {machine} has more than one line: use one line")
    return found


def text(entries: t.Sequence[t.Mapping[str, t.Any]]) -> str | None:
    """Return the content of the file; None without entries."""
    return "".join(f"{_line(entry)}\n" for entry in entries) or None


def password_of(host: Host, entries: t.Sequence[t.Mapping[str, t.Any]], server: str) -> tuple[str, str] | None:
    """Run the command of a registry and return (login, password); None if no command is known.

    server is a host name or an address. Raises NodeError when the command fails.
    """
    machine = re.sub(r"^[a-z]+://", "", server.strip()).partition("/")[0]
    known = [entry for entry in entries if entry["machine"] == machine]
    if not known and not _ECR.fullmatch(machine):
        return None
    login, command = _login_and_command(known[0] if known else {"machine": machine})
    try:
        password = host.run(command, timeout=60).stdout
    except CommandError as exc:
        # Its output is not quoted: it may be the password.
        why = f"it ended with {exc.rc}" if exc.rc is not None else "it is missing or gave no answer in time"
        words = " ".join(exc.stderr.split())
        raise NodeError(
            f"queried {command[0]} for the password of {machine} and {why}{f' ({words})' if words else ''}: check "
            "that this node has permission to get it"
        ) from None
    if not password.strip():
        raise NodeError(
            f"queried {command[0]} for the password of {machine} and it printed nothing: run it on this node"
        )
    return login, password.strip()


def _login_and_command(entry: t.Mapping[str, t.Any]) -> tuple[str, list[str]]:
    ecr = _ECR.fullmatch(entry["machine"])
    region = ecr.group(1) if ecr else ""
    command = entry.get("command") or ["aws", "ecr", "get-login-password", "--region", region]
    return str(entry.get("login") or "AWS"), [str(word) for word in command]


def _line(entry: t.Mapping[str, t.Any]) -> str:
    login, command = _login_and_command(entry)
    words = " ".join(map(shlex.quote, command))
    return f"machine {entry['machine']} login {login} password $({words})"
