# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The manifest of a bundle, and its CycloneDX bill of materials."""

from __future__ import annotations

import datetime
import json
import typing as t
import urllib.parse
import uuid

from .archive import Target

SCHEMA = "mlcluster.bundle/1"
# CycloneDX 1.5, https://cyclonedx.org/docs/1.5/json/
CYCLONEDX = "1.5"
PURLS = {"python": "pkg:pypi/", "collection": "pkg:generic/ansible-collection/", "artifact": "pkg:generic/"}


def utc(epoch: int) -> str:
    """Format seconds since 1970 as 2026-01-31T12:00:00Z."""
    return f"{datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def manifest(
    version: str,
    commit: str,
    target: Target,
    epoch: int,
    components: t.Sequence[t.Mapping[str, str]],
    compiled: str = "",
) -> dict[str, t.Any]:
    """Return MANIFEST.json as a dictionary; ``components`` have name, version, sha256, license and kind.

    ``compiled`` is the release of the Python that made the byte code; empty if there is none.
    """
    return {
        "schema": SCHEMA,
        "version": version,
        "commit": commit,
        "os_family": target.family,
        "python": target.python,
        "created": utc(epoch),
        "compiled": compiled,
        "components": sorted(
            (dict(entry) for entry in components),
            key=lambda entry: (entry["kind"], entry["name"], entry.get("file", "")),
        ),
    }


def to_json(data: t.Any) -> bytes:
    """Return ``data`` as JSON bytes; equal data give equal bytes."""
    return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()


def cyclonedx(contents: t.Mapping[str, t.Any], file: str, sha256: str) -> dict[str, t.Any]:
    """Return the bill of materials of the archive ``file`` with this checksum, from its manifest."""
    components = [
        {
            "type": "file" if entry["kind"] == "artifact" else "library",
            "bom-ref": f"{entry['kind']}/{entry.get('file') or entry['name']}@{entry['version']}",
            "name": entry["name"],
            "version": entry["version"],
            "purl": f"{PURLS[entry['kind']]}{urllib.parse.quote(entry['name'])}@{urllib.parse.quote(entry['version'])}",
            "hashes": [{"alg": "SHA-256", "content": entry["sha256"]}],
            "licenses": [{"license": {"name": entry["license"]}}],
        }
        for entry in contents["components"]
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": CYCLONEDX,
        # Derived from the checksum, so that equal archives get equal numbers.
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"urn:sha256:{sha256}").urn,
        "version": 1,
        "metadata": {
            "timestamp": contents["created"],
            "component": {
                "type": "application",
                "bom-ref": file,
                "name": "mlcluster-bundle",
                "version": contents["version"],
                "hashes": [{"alg": "SHA-256", "content": sha256}],
            },
        },
        "components": components,
    }
