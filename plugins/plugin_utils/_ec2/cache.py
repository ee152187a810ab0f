# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache entries: the trimmed records as one JSON string, under a key made of the request.

One string, because cache plugins process every nested value of a structure one by one, which for thousands of hosts
is slower than asking EC2 again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.fetch import Answer

# Raise it whenever the shape of a record changes: entries of older versions must not be read.
FORMAT = 2

# Environment variables that determine account and endpoint, without secrets. HOME is included, because users have
# different profiles.
ENVIRONMENT = (
    "AWS_CONFIG_FILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_SSM",
    "AWS_ENDPOINT_URL_STS",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ROLE_ARN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "HOME",
)


class DamagedError(ValueError):
    """A damaged cache entry; the message states what is wrong."""


def key(base: str, inputs: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Return the name of a cache entry: ``base`` and a digest of ``inputs`` (JSON-able), the environment and FORMAT."""
    identity = {
        "format": FORMAT,
        "asked": dict(inputs),
        "environment": {name: environment.get(name, "") for name in ENVIRONMENT},
        "files": _files(environment),
    }
    text = json.dumps(identity, sort_keys=True)
    return f"{base}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _files(environment: Mapping[str, str]) -> list[list[int]]:
    """Return size and time of the AWS CLI's files: changed files may mean another account."""
    found = []
    for name, default in (("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")):
        path = environment.get(name) or os.path.join(environment.get("HOME", ""), ".aws", default)
        try:
            status = os.stat(os.path.expanduser(path))
        except (OSError, ValueError):
            found.append([0, 0])
        else:
            found.append([status.st_size, status.st_mtime_ns])
    return found


def access_key_digest(environment: Mapping[str, str], profile: str | None) -> str:
    """Return a digest of the access key in the environment, empty without one or if a profile takes precedence."""
    access_key = "" if profile else environment.get("AWS_ACCESS_KEY_ID", "")
    return hashlib.sha256(access_key.encode()).hexdigest()[:16] if access_key else ""


def open_to_all(connection: str | None) -> str | None:
    """Return the directory of the option ``cache_connection`` if it is world-writable, otherwise None.

    Ansible connects to the cached addresses, and a user who knows the key could put an entry there first.
    """
    path = os.path.expanduser(os.path.expandvars(connection or ""))
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    return path if stat.S_ISDIR(mode) and mode & stat.S_IWOTH else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def pack(answer: Answer, identity: str) -> dict[str, Any]:
    """Return the string to store; ``identity`` comes from ``access_key_digest``."""
    content = {
        "records": answer.records,
        "warnings": answer.warnings,
        "regions": answer.regions,
        "account": answer.account,
    }
    text = json.dumps(content, separators=(",", ":"))
    return {"format": FORMAT, "identity": identity, "sha256": _digest(text), "answer": text}


def unpack(stored: Any, identity: str) -> Answer | None:
    """Return the stored answer, None if there is none or it is of another account. Raises DamagedError.

    An entry is only read if it was made with the same access key in the environment, or if both have no key; this
    separates accounts. Without a key, the name of the entry identifies the account.
    """
    if stored is None:
        return None
    if not isinstance(stored, Mapping) or not isinstance(stored.get("answer"), str):
        raise DamagedError("it is not an entry of this plugin")
    if stored.get("format") != FORMAT:
        return None
    if stored.get("identity") != identity:
        return None
    if stored.get("sha256") != _digest(stored["answer"]):
        raise DamagedError("it has been changed since it was written")
    try:
        content = json.loads(stored["answer"])
        return Answer(
            records=content["records"],
            warnings=content["warnings"],
            regions=content["regions"],
            account=content["account"],
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise DamagedError(f"it holds no answer: {exc!r}") from exc
