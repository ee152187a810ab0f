# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check buckets and uploads before any is changed, and build our part of a bucket's policy."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

BUCKET_KEYS = ("name", "kms_key", "versioning")
UPLOAD_KEYS = ("source", "bucket", "prefix", "delete", "sample")
# Amazon S3 User Guide, general purpose bucket naming rules.
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# Schemas of mlcluster_data, by the names of their files.
MANIFESTS = {"manifest.json": "mlcluster.dataset/1", "inputs.json": "mlcluster.inputs/1"}
OWN_SID = "TlsOnly"
# A manifest has its schema at its beginning or end, depending on the order of keys; larger files are not manifests.
MAX_BYTES = 256 << 20


def _string_errors(
    subject: str, entry: Mapping[str, Any], required: Sequence[str], known: Sequence[str]
) -> Iterator[str]:
    for key in sorted(set(map(str, entry)) - set(known)):
        yield f"{subject} has the key '{key}', which does not exist; those that do are {', '.join(known)}"
    for key in required:
        if not isinstance(entry.get(key), str) or not entry[key]:
            yield f"{subject}: {key} is {entry.get(key)!r}; use a string"


def _bucket_name(subject: str, name: Any) -> Iterator[str]:
    if isinstance(name, str) and name and not BUCKET.fullmatch(name):
        yield f"{subject} has the bucket '{name}'; a name is 3 to 63 small letters, digits, dots and hyphens"


def _start(upload: Mapping[str, Any]) -> str:
    prefix = str(upload.get("prefix") or "").strip("/")
    return f"{prefix}/" if prefix else ""


def _is_true(value: Any) -> bool:
    return value is True or str(value).strip().lower() in ("true", "yes", "on", "1", "y", "t")


def problems(buckets: Sequence[Mapping[str, Any]], uploads: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return all problems of cluster_buckets and cluster_uploads, a sentence each."""
    errors = []
    for number, bucket in enumerate(buckets, 1):
        subject = f"bucket {number} of cluster_buckets"
        errors += [*_string_errors(subject, bucket, ("name",), BUCKET_KEYS), *_bucket_name(subject, bucket.get("name"))]
    for number, upload in enumerate(uploads, 1):
        subject = f"upload {number} of cluster_uploads"
        errors += [
            *_string_errors(subject, upload, ("source", "bucket"), UPLOAD_KEYS),
            *_bucket_name(subject, upload.get("bucket")),
        ]
        if not isinstance(upload.get("prefix") or "", str):
            errors.append(f"{subject}: prefix is {upload['prefix']!r}; use a string")
        sample = upload.get("sample") or []
        if not isinstance(sample, list) or not all(isinstance(name, str) for name in sample):
            errors.append(f"{subject}: sample is {sample!r}; use a list of paths below source")
    for deleting in uploads:
        for other in uploads:
            within = deleting.get("bucket") == other.get("bucket") and _start(other).startswith(_start(deleting))
            if deleting is not other and within and _is_true(deleting.get("delete")):
                errors.append(
                    f"the upload of {deleting.get('source')} has delete and would remove the files that the upload of "
                    f"{other.get('source')} puts into s3://{other.get('bucket')}/{_start(other)}; use another prefix"
                )
    return [" ".join(sentence.split()) for sentence in errors]


def _schema(path: str) -> str:
    try:
        if os.path.getsize(path) > MAX_BYTES:
            return ""
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return ""
    return str(content.get("schema")) if isinstance(content, dict) else ""


def manifests(upload: Mapping[str, Any]) -> list[str]:
    """Return the manifests of mlcluster_data beside the files of the sample, as paths below the source."""
    folders = dict.fromkeys(os.path.dirname(name) for name in upload.get("sample") or [])
    paths = [os.path.join(folder, name) for folder in folders for name in MANIFESTS]
    source = os.path.expanduser(str(upload["source"]))
    return [path for path in paths if _schema(os.path.join(source, path)) == MANIFESTS[os.path.basename(path)]]


def plan(buckets: Sequence[Mapping[str, Any]], uploads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return ``problems``; without any, ``uploads`` with all keys, whose ``sample`` includes the manifests, and
    ``judged``: number of the upload, and folder of its sample, for each folder with a manifest."""
    wrong = problems(buckets, uploads)
    result, judged = [], []
    for number, upload in enumerate(uploads if not wrong else []):
        found = manifests(upload)
        sample = list(dict.fromkeys([*(upload.get("sample") or []), *found]))
        result.append({"prefix": "", "delete": False, **upload, "sample": sample})
        judged += [[number, folder] for folder in dict.fromkeys(os.path.dirname(path) for path in found)]
    return {"problems": wrong, "uploads": result, "judged": judged}


def policy(existing: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return our policy of a bucket with the existing statements of others (JSON text, "" for none)."""
    statement = json.loads(existing).get("Statement", []) if existing else []
    statements = [statement] if isinstance(statement, dict) else statement
    kept = [entry for entry in statements if entry.get("Sid") != OWN_SID]
    return {**own, "Statement": [*kept, *own["Statement"]]}
