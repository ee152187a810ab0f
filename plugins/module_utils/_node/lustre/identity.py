# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the Lustre that is mounted at a path is the wanted file system. Pure: facts of ``look.mount_facts`` in."""

from __future__ import annotations

import typing as t

from ..verdict.result import Result, Scope, failed, undeterminable
from .parse import IPV4, servers

CHECK = "lustre.mounted"
# Every file system of the type SCRATCH_1 has this name; those of other types are unique in a region (Amazon FSx API
# reference, LustreFileSystemConfiguration, MountName).
SHARED_NAME = "fsx"


def identify(mount: t.Mapping[str, t.Any]) -> Result | None:
    """Return why the mount is not, or not provably, the wanted file system; None if it is, or if only a path is given.

    A name alone proves nothing if all file systems of a type share it: then the servers must be those of the DNS name.
    """
    name, dns, source = mount["mount_name"], mount["dns_name"], mount["source"]
    scope = Scope(device=mount["path"])
    if name and not str(source).endswith(f":/{name}"):
        what = f"another file system is mounted there: {source}"
        return failed(CHECK, what, severity="isolate", scope=scope, expected=name)
    if dns:
        return _server(mount, scope)
    if name == SHARED_NAME:
        why = f"{source} may be any file system, since all of the type SCRATCH_1 are named {SHARED_NAME}"
        return undeterminable(CHECK, why, scope=scope, hint="set its id, or its dns_name, in fsx_lustre_file_systems")
    return None


def _server(mount: t.Mapping[str, t.Any], scope: Scope) -> Result | None:
    name, addresses, source = mount["dns_name"], mount["addresses"], mount["source"]
    data_servers = servers(source)
    invalid = [server for server in data_servers if server != name and server not in addresses]
    if not data_servers:
        return undeterminable(CHECK, f"{source} names no server to compare with {name}", scope=scope)
    if not invalid:
        return None
    hint = f"compare with 'getent ahostsv4 {name}' and the primary network interface of the file system"
    fields: dict[str, t.Any] = {"scope": scope, "hint": hint}
    if mount["dns_problem"] or not addresses:
        why = mount["dns_problem"] or "it has no address"
        return undeterminable(
            CHECK, f"whether {source} is {name} is unknown, since DNS did not answer: {why}", **fields
        )
    if invalid == data_servers and all(IPV4.fullmatch(server) for server in data_servers):
        expected = f"{name}, {', '.join(addresses)}"
        what = f"the file system of another server is mounted there: {source}"
        return failed(CHECK, what, severity="isolate", expected=expected, found=source, **fields)
    why = f"{', '.join(invalid)} in {source} is no address of {name}, which has {', '.join(addresses)}"
    return undeterminable(CHECK, why, **fields)


def proved_paths(mounts: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the mount points at which the wanted file system answers, and may be changed."""
    return [mount["path"] for mount in mounts if mount["state"] == "lustre" and identify(mount) is None]
