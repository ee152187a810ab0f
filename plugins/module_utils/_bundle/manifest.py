# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a bundle says of itself: its own manifest, and the same as a CycloneDX bill of materials."""

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
    """Such as 2026-01-31T12:00:00Z, of seconds since 1970."""
    return f"{datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def manifest(
    version: str,
    commit: str,
    target: Target,
    epoch: int,
    components: t.Sequence[t.Mapping[str, str]],
    compiled: str = "",
) -> dict[str, t.Any]:
    """MANIFEST.json as a dictionary; ``components`` have name, version, sha256, license and kind.

    ``compiled`` is the release of the Python that compiled what is loaded first, empty where nothing is compiled.
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
    """The bytes of a JSON file, the same for the same data."""
    return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()


def cyclonedx(told: t.Mapping[str, t.Any], file: str, sha256: str) -> dict[str, t.Any]:
    """The bill of materials of the archive ``file`` with that sum, from its manifest."""
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
        for entry in told["components"]
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": CYCLONEDX,
        # The same archive has the same number.
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"urn:sha256:{sha256}").urn,
        "version": 1,
        "metadata": {
            "timestamp": told["created"],
            "component": {
                "type": "application",
                "bom-ref": file,
                "name": "mlcluster-bundle",
                "version": told["version"],
                "hashes": [{"alg": "SHA-256", "content": sha256}],
            },
        },
        "components": components,
    }
