# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of dpkg and rpm: what is installed, held or broken."""

from __future__ import annotations

import re
import typing as t

from .ask import ask
from .host import Host, NodeError

# dpkg-query's second status letter of a package whose installation did not end: unpacked, half-configured,
# half-installed, and the two trigger states (dpkg-query(1), db:Status-Abbrev).
_UNFINISHED = "UFHWt"


def parse_dpkg(text: str) -> dict[str, dict[str, t.Any]]:
    """Parse lines "name TAB version TAB status" of dpkg-query into {name: {version, installed, held, broken}}.

    status is db:Status-Abbrev; packages without a version or with only configuration files are left out.
    """
    packages: dict[str, dict[str, t.Any]] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 3 or not fields[0]:
            continue
        name, version, status = fields[0], fields[1], f"{fields[2]:3}"
        entry = {
            "version": re.sub(r"^\d+:", "", version),
            "installed": status[1] == "i",
            "held": status[0] == "h",
            "broken": status[1] in _UNFINISHED or status[2] == "R",
        }
        before = packages.get(name)
        if before and before["installed"] and entry["installed"]:
            # Of two architectures an upgrade replaces the one that is not held, so both have to be held.
            entry["held"] = entry["held"] and before["held"]
        # A package may be there for several architectures: an installed one counts, and a broken one is never hidden.
        if (entry["installed"] or entry["broken"]) and not (before and before["broken"]):
            packages[name] = entry
    return packages


def parse_rpm(text: str, locked: t.Collection[str] = ()) -> dict[str, dict[str, t.Any]]:
    """Parse lines "name TAB version-release" of rpm into the format of ``parse_dpkg``; locked names are held."""
    packages = {}
    for line in text.splitlines():
        name, _tab, version = line.partition("\t")
        if name and version:
            packages[name] = {"version": version, "installed": True, "held": name in locked, "broken": False}
    return packages


def parse_versionlock(text: str) -> set[str]:
    """Return package names in dnf's versionlock.list (name-epoch:version-release.arch) or dnf5's versionlock.toml."""
    names = set(re.findall(r'^[ \t]*name[ \t]*=[ \t]*"([^"\n]+)"', text, re.MULTILINE))
    for line in text.splitlines():
        matched = re.fullmatch(r"(?!!)([A-Za-z0-9][\w.+-]*?)-\d+:\S+", line.strip())
        if matched:
            names.add(matched.group(1))
    return names


def locked_names(host: Host) -> set[str]:
    """Return the packages that dnf does not replace. dnf 4 reads its list only if the plugin versionlock is enabled."""
    settings = host.read_text("/etc/dnf/plugins/versionlock.conf") or ""
    enabled = re.search(r"^[ \t]*enabled[ \t]*[=:][ \t]*(1|true|yes|on)[ \t]*$", settings, re.MULTILINE | re.IGNORECASE)
    paths = ["/etc/dnf/plugins/versionlock.list"] if enabled else []
    return parse_versionlock("\n".join(host.read_text(path) or "" for path in [*paths, "/etc/dnf/versionlock.toml"]))


def installed_packages(host: Host) -> tuple[dict[str, dict[str, t.Any]] | None, str | None]:
    """Return all packages and the name of the queried manager; None, None if neither dpkg nor rpm lists any.

    A system with dpkg may have rpm too, and the other way round; the database of the second one is empty.
    """
    if host.which("dpkg-query"):
        output, problem = ask(
            host, ["dpkg-query", "-W", "-f", "${Package}\\t${Version}\\t${db:Status-Abbrev}\\n"], timeout=60
        )
        found = parse_dpkg(output)
        if problem or found:
            return (found, "dpkg") if not problem else (None, None)
    if host.which("rpm"):
        output, problem = ask(host, ["rpm", "-qa", "--qf", "%{NAME}\\t%{VERSION}-%{RELEASE}\\n"], timeout=60)
        found = parse_rpm(output, locked_names(host))
        return (found, "rpm") if found and not problem else (None, None)
    return None, None


def package_versions(host: Host, names: t.Iterable[str]) -> dict[str, str | None]:
    """Return the installed version of each package, without the epoch; None if it is not installed, or only partially.

    Raises ``NodeError`` if the package manager does not answer.
    """
    installed = {name: entry["version"] for name, entry in _all_packages(host).items() if entry["installed"]}
    return {name: installed.get(name) for name in names}


def _all_packages(host: Host) -> dict[str, dict[str, t.Any]]:
    packages, manager = installed_packages(host)
    if manager is None and any(map(host.which, ("dpkg-query", "rpm"))):
        raise NodeError(
            "queried dpkg-query or rpm for all packages and got no answer: check that 'dpkg-query -W' or 'rpm -qa' "
            "ends, then run again"
        )
    return packages or {}


def package_manager(host: Host) -> str | None:
    """Return this machine's package manager, ``apt`` or ``dnf``; None if it has neither."""
    if host.which("apt-get"):
        return "apt"
    return "dnf" if host.which("dnf") or host.which("dnf5") else None
