# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the names in plugins/module_utils/_data/cufile_keys.py with the string tables of libcufile itself.

    pip download --no-deps nvidia-cufile==1.20.0.107 nvidia-cufile-cu12==1.11.1.6 ...
    python3 -m tests.data_tables.check_cufile_keys nvidia_cufile*.whl

Each wheel is one release. A name of the table has to be in every release from its ``since`` to its ``until``, and in
none before or after. Limits and defaults are not in string tables: the header of the table names their source.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from plugins.module_utils._data.cufile_keys import KEYS

# Of a longer name the compiler may write the end by instructions.
_WHOLE = 48
_NAME = re.compile(rb"(?<=\0)[a-z]+(?:\.[A-Za-z0-9_]+){1,2}")


def release(name: str) -> str:
    """Return 1.15 for nvidia_cufile-1.15.1.6-py3-none-….whl. Raises ValueError for another name."""
    matched = re.match(r"nvidia_cufile(?:_cu\d+)?-(\d+\.\d+)\.", name)
    if not matched:
        raise ValueError(f"{name} is not a wheel of nvidia-cufile: use files such as nvidia_cufile-1.15.1.6-….whl")
    return matched.group(1)


def names(wheel: Path) -> set[str]:
    """Return every dotted name at the start of a string in the libraries of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if re.search(r"/libcufile\.so[.\d]*$", name)]
        return {word.decode() for name in libraries for word in _NAME.findall(b"\0" + archive.read(name) + b"\0")}


def order(version: str) -> tuple[int, ...]:
    """Return a release as a key for sorting."""
    return tuple(int(part) for part in version.split("."))


def differences(keys: Iterable[Mapping[str, object]], tables: Mapping[str, set[str]]) -> list[str]:
    """Return a sentence for each name that a release has against the table, or lacks against it."""
    return [
        f"{key['name']} {'is' if _has(table, str(key['name'])) else 'is not'} in libcufile {version}, and the table "
        f"has since {key['since']}, until {key['until'] or 'now'}"
        for version, table in sorted(tables.items(), key=lambda item: order(item[0]))
        for key in keys
        if _has(table, str(key["name"])) is not _is_due(key, version)
    ]


def _has(table: set[str], name: str) -> bool:
    return name in table or any(len(word) >= _WHOLE and word[:_WHOLE] == name[:_WHOLE] for word in table)


def _is_due(key: Mapping[str, object], version: str) -> bool:
    until = key["until"]
    return order(str(key["since"])) <= order(version) and (until is None or order(version) <= order(str(until)))


def main(arguments: list[str]) -> int:
    """Print what differs; 1 where anything does, 2 where the files are none that can be read."""
    try:
        tables = {release(Path(name).name): names(Path(name)) for name in arguments}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 2
    if not tables:
        print("ERROR: no wheel was given: pip download --no-deps nvidia-cufile fetches them", file=sys.stderr)
        return 2
    found = differences(KEYS, tables)
    print("\n".join(found) or f"{len(KEYS)} names agree with libcufile {', '.join(sorted(tables, key=order))}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
