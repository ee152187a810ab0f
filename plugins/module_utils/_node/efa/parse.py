# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parsers of output and files of the EFA stack and the system: fi_info, marker, packages, limits, units.

Every parser accepts any text and never raises; it skips unknown lines.
"""

from __future__ import annotations

import re
import typing as t

UNLIMITED = "unlimited"

# Packages of the EFA installer, by the names in its own list of installed packages (1.17, 1.22, 1.40) and by
# `dpkg -l` of a ParallelCluster image of 2025 (libnccl-ofi). rdma-core is left out: distributions ship it too.
OWN_PACKAGE = re.compile(r"efa(?:-[a-z0-9-]+)?|libfabric1?-aws(?:-.+)?|openmpi\d*-aws|(?:libnccl-ofi|aws-ofi-nccl)")

# No two adjacent parts can match blanks, so the pattern cannot backtrack on a line that does not match.
_FIELD = re.compile(r"\s*([a-z_]+(?: [a-z_]+)*)\s*:\s?(.*)")
_PLUGIN_VERSION = re.compile(r"aws-ofi-nccl[ -]v?(git-[0-9a-f]{6,40}|\d+\.\d+(?:\.\d+)?(?:-aws)?)")


def parse_fi_info(text: str) -> list[dict[str, str]]:
    """Return the endpoints that ``fi_info`` lists: provider, fabric, domain, version, type, protocol, as text.

    libfabric 1.x and 2.x print the same fields; 2.x lists the fabric efa-direct beside efa over the same domain.
    """
    found: list[dict[str, str]] = []
    for line in text.splitlines():
        matched = _FIELD.fullmatch(line)
        if not matched:
            continue
        name, value = matched.group(1), matched.group(2).strip()
        if name == "provider":
            found.append({"provider": value})
        elif found:
            found[-1].setdefault(name, value)
    return found


def rdm_domains(endpoints: t.Iterable[t.Mapping[str, str]]) -> list[str]:
    """Return the device names behind the reliable endpoints of the provider efa itself, each once, sorted.

    A utility provider layered over the datagram endpoint (efa;ofi_rxd of distribution builds) is not counted.
    """
    names = {
        re.sub(r"-rdm\Z", "", entry.get("domain", ""))
        for entry in endpoints
        if entry.get("provider") == "efa" and entry.get("type") == "FI_EP_RDM"
    }
    return sorted(names - {""})


def parse_libfabric_version(text: str) -> str | None:
    """Return the version in ``fi_info --version``: 1.22.0amzn5.0, 2.1.0amzn4."""
    matched = re.search(r"^libfabric:\s*(\S+)", text, re.MULTILINE)
    return matched.group(1) if matched else None


def _split_package(word: str) -> dict[str, str] | None:
    """Return a package of the marker: name_version_arch of a .deb, or name-version-release.arch of an .rpm."""
    if word.count("_") >= 2 and not word.endswith((".x86_64", ".noarch", ".aarch64")):
        name, version = word.split("_")[:2]
        return {"name": name, "version": version}
    parts = word.rsplit(".", 1)[0].rsplit("-", 2)
    return {"name": parts[0], "version": f"{parts[1]}-{parts[2]}"} if len(parts) == 3 else None


def parse_marker(text: str) -> dict[str, t.Any]:
    """Parse /opt/amazon/efa_installed_packages: version (None: no such line), packages [{name, version}]."""
    version = re.search(r"^#\s*EFA installer version:\s*(\d\S*)\s*$", text, re.MULTILINE)
    words = [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]
    packages = [package for package in map(_split_package, words) if package]
    return {"version": version.group(1) if version else None, "packages": packages}


def parse_limit(word: str) -> int | str | None:
    """Return a memlock value of limits.conf (KiB); None if invalid. -1, infinity and unlimited are valid."""
    if word in (UNLIMITED, "infinity", "-1", "18446744073709551615"):
        return UNLIMITED
    return int(word) if word.isascii() and word.isdigit() and len(word) < 20 else None


def login_memlock(files: t.Mapping[str, str], user: str = "*") -> dict[str, t.Any]:
    """Return the limits that pam_limits sets for a login: {"soft", "hard", "soft_file", "hard_file"}.

    A limit is in KiB, "unlimited", or None if it is unset; its file is the path that sets it. files maps paths to
    texts, in the order in which pam_limits reads them; the last line for a domain wins.
    """
    found: dict[str, t.Any] = {"soft": None, "hard": None, "soft_file": None, "hard_file": None}
    for path, text in files.items():
        for line in text.splitlines():
            fields = line.partition("#")[0].split()
            if len(fields) != 4 or fields[0] != user or fields[2] != "memlock":
                continue
            value = parse_limit(fields[3])
            for kind in ("soft", "hard"):
                if value is not None and fields[1] in (kind, "-"):
                    found[kind], found[f"{kind}_file"] = value, path
    return found


def own_memlock(files: t.Mapping[str, str]) -> dict[str, dict[str, t.Any]]:
    """Return {user or group: the result of ``login_memlock``} for those whose own limit is not unlimited.

    A limit of a user or a group (named with @ or %) overrides the general one.
    """
    lines = [line.partition("#")[0].split() for text in files.values() for line in text.splitlines()]
    names = {fields[0] for fields in lines if len(fields) == 4 and fields[2] == "memlock"} - {"*", "root"}
    own = {name: login_memlock(files, name) for name in sorted(names)}
    return {
        name: limit
        for name, limit in own.items()
        if any(limit[kind] not in (None, UNLIMITED) for kind in ("soft", "hard"))
    }


def process_memlock(text: str) -> dict[str, t.Any] | None:
    """Return max locked memory of /proc/PID/limits: {"soft", "hard"} in bytes or "unlimited"; None if missing."""
    matched = re.search(r"^Max locked memory\s+(unlimited|\d{1,20})\s+(unlimited|\d{1,20})\b", text, re.MULTILINE)
    if not matched:
        return None
    soft, hard = (word if word == UNLIMITED else int(word) for word in matched.groups())
    return {"soft": soft, "hard": hard}


def parse_modinfo(text: str) -> dict[str, str]:
    """Return the first value of each field of ``modinfo``."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip():
            fields.setdefault(name.strip(), value.strip())
    return fields


def parse_fabric_manager_version(text: str) -> str | None:
    """Return the version in ``nv-fabricmanager --version``: "Fabric Manager version is : 580.159.03"."""
    matched = re.search(r"Fabric Manager version is\s*:\s*(\d[\d.]*)", text)
    return matched.group(1) if matched else None


def parse_mpi_version(text: str) -> str | None:
    """Return the version in ``mpirun --version``: "mpirun (Open MPI) 4.1.7"."""
    matched = re.search(r"\(Open MPI\)\s+(\d\S*)", text)
    return matched.group(1) if matched else None


def plugin_version(text: str) -> str | None:
    """Return the version in the plugin's own text, which it logs as "NET/OFI Initializing aws-ofi-nccl 1.16.1"."""
    matched = _PLUGIN_VERSION.search(text)
    return matched.group(1) if matched else None


def parse_meminfo_pages(text: str) -> dict[str, int | None]:
    """Return huge pages of /proc/meminfo: total, free (pages) and size_kib."""
    fields = dict(re.findall(r"^(HugePages_Total|HugePages_Free|Hugepagesize):\s+(\d{1,18})", text, re.MULTILINE))
    wanted = (("total", "HugePages_Total"), ("free", "HugePages_Free"), ("size_kib", "Hugepagesize"))
    return {name: int(fields[key]) if key in fields else None for name, key in wanted}
