# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Artifacts that roles may download: the collection's table, completed by checksums of artifacts.lock.yml."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

import yaml
from ansible_collections.mlcluster.aws.plugins.plugin_utils._data.artifacts import ARTIFACTS, PUBLISHED

LOCK_NAME = "artifacts.lock.yml"


class ArtifactError(Exception):
    """There is no such artifact; the message states the request, the known artifacts and what to do."""


def collection_lock() -> Path:
    """Return the path that ``make lock-artifacts`` writes, at the top of the checkout or installed collection."""
    return Path(__file__).resolve().parents[2] / LOCK_NAME


def read_lock(path: Union[str, Path]) -> list[dict[str, Any]]:
    """Return the entries of a lock, empty if there is no file. Raises ArtifactError for an invalid file."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return [dict(entry) for entry in content["artifacts"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as exc:
        raise ArtifactError(f"{path} is not a lock of artifacts ({exc}); make it with make lock-artifacts") from exc


def find(
    name: str,
    platform: str = "any",
    version: Optional[str] = None,
    locks: Sequence[dict[str, Any]] = (),
    table: Sequence[dict[str, Any]] = ARTIFACTS,
) -> dict[str, Any]:
    """Return one artifact: name, platform, version, url, sha256, sha256_source, signature_url, key_url, fingerprint.

    Without ``version`` it is that of the table. Another version has the same URL with that version in it, and a
    checksum only from its publisher or a lock. Unknown values are empty strings. Raises ArtifactError.
    """
    rows = [row for row in table if row["name"] == name and row["platform"] in ("any", platform)]
    if not rows:
        known = sorted({f"{row['name']} for {row['platform']}" for row in table})
        raise ArtifactError(f"no artifact {name} for {platform}; there are {', '.join(known)}")
    wanted = version or rows[0]["version"]
    row = next((row for row in rows if row["version"] == wanted), {**rows[0], "sha256": "", "sha256_source": ""})
    key = (name, row["platform"], wanted)
    locked = [entry for entry in locks if (entry.get("name"), entry.get("platform"), entry.get("version")) == key]
    published = PUBLISHED.get(name, {"source": "", "sha256": {}})
    sources = (
        (row["sha256"], row["sha256_source"]),
        (published["sha256"].get(wanted, ""), published["source"]),
        (str(locked[0].get("sha256", "")) if locked else "", LOCK_NAME),
    )
    sha256, source = next((pair for pair in sources if pair[0]), ("", ""))
    signature = row["signature"] or {"url": "", "key_url": "", "fingerprint": ""}
    return {
        "name": name,
        "platform": row["platform"],
        "version": wanted,
        "url": row["url"].format(version=wanted),
        "sha256": sha256,
        "sha256_source": source,
        "signature_url": signature["url"].format(version=wanted),
        "key_url": signature["key_url"],
        "fingerprint": signature["fingerprint"],
    }
