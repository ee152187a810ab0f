# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let every Python of a host read a mount table in which stand-ins have the types of the real file systems.

No container and no virtual node can mount Lustre; by its source a mount counts as Lustre or NFS here.
"""

from __future__ import annotations

import os

TABLE = "/proc/self/mountinfo"
_open = os.open


def typed(line):
    """Return a line of the mount table, with the type that its source stands for."""
    left, separator, right = line.partition(" - ")
    fields = right.split(" ")
    if len(fields) > 1 and "@tcp:/" in fields[1]:
        fields[0] = "lustre"
    elif len(fields) > 1 and ":/" in fields[1]:
        fields[0] = "nfs4"
    return left + separator + " ".join(fields)


def stand_in(path, flags, *arguments, **more):
    """Open a path like os.open, with another mount table."""
    handle = _open(path, flags, *arguments, **more)
    if path != TABLE:
        return handle
    with open(handle, encoding="utf-8", errors="surrogateescape") as table:
        text = "".join(map(typed, table))
    made = os.memfd_create("mountinfo")
    os.write(made, text.encode("utf-8", "surrogateescape"))
    os.lseek(made, 0, os.SEEK_SET)
    return made


os.open = stand_in
