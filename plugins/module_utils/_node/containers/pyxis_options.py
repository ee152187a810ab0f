# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the Pyxis plugin and the versions that support them.

With an unsupported option the plugin does not start, and neither does any step of any user. So options are checked
against the version of the plugin that will read them.
"""

from __future__ import annotations

import re
import typing as t

from ..system.versions import at_least, version_key

# Option: type, first version that supports it. From the history of config.c of NVIDIA/pyxis.
OPTIONS: dict[str, tuple[str, str]] = {
    "runtime_path": ("path", "0.8.0"),
    "execute_entrypoint": ("bool", "0.8.0"),
    "container_scope": ("scope", "0.9.0"),
    "sbatch_support": ("bool", "0.12.0"),
    "use_enroot_load": ("bool", "0.21.0"),
    "importer": ("path", "0.21.0"),
    "use_squashfuse": ("bool", "0.22.0"),
}

# A plugin without a reported version counts as the oldest that ParallelCluster has shipped since 3.11.
OLDEST_ASSUMED = "0.12.0"

_PATH = re.compile(r"/[A-Za-z0-9._/+-]*")
_BOOLEANS = {"1": "1", "true": "1", "yes": "1", "y": "1", "0": "0", "false": "0", "no": "0", "n": "0"}


def option_problems(options: t.Mapping[str, t.Any], version: str | None) -> list[str]:
    """Return one sentence for each option that this version would reject; None is an unknown version."""
    problems = []
    for name, value in sorted(options.items()):
        if name not in OPTIONS:
            problems.append(f"{name} is not an option of Pyxis: it has {', '.join(OPTIONS)}")
            continue
        kind, since = OPTIONS[name]
        if not at_least(version_key(version or OLDEST_ASSUMED), version_key(since)):
            found = f"version {version}" if version else "a plugin that does not report its version"
            problems.append(
                f"the option {name} needs Pyxis {since} and {found} would refuse to start with it, and with it every "
                "job: leave it out or install a newer Pyxis"
            )
        if _word(kind, value) is None:
            problems.append(f"{name} is {value!r}: it must be {_KINDS[kind]}")
    return problems


def option_words(options: t.Mapping[str, t.Any]) -> list[str]:
    """Return the options as on the line of the plugin; ValueError for those that option_problems reports."""
    words = []
    for name in OPTIONS:
        if name in options:
            word = _word(OPTIONS[name][0], options[name])
            if word is None:
                raise ValueError(f"{name} is {options[name]!r}: it must be {_KINDS[OPTIONS[name][0]]}")
            words.append(f"{name}={word}")
    return words


def parse_words(words: t.Iterable[str]) -> dict[str, str]:
    """Return the options on a line of the plugin by name; a word without '=' has an empty value."""
    return {name: value for name, _sign, value in (word.partition("=") for word in words)}


_KINDS = {
    "bool": "true or false",
    "scope": "global or job",
    "path": "an absolute path of letters, digits, '.', '_', '-', '+' and '/'",
}


def _word(kind: str, value: t.Any) -> str | None:
    text = str(value).lower() if isinstance(value, bool) or kind == "bool" else str(value)
    if kind == "bool":
        return _BOOLEANS.get(text)
    if kind == "scope":
        return text if text in ("global", "job") else None
    return text if _PATH.fullmatch(text) and ".." not in text.split("/") else None
