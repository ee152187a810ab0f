# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept between runs: the trimmed records as one JSON text, under a key that names what was asked.

One text, because cache plugins handle every nested value of a structure one by one, which for thousands of hosts
costs more than asking EC2 again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.fetch import Answer

# Raise it whenever a record changes its shape: what an older version has cached must not be read.
FORMAT = 2

# Settings of the environment that decide whom and where is asked. The secret ones are not among them. HOME is, for
# the profile of one user is not that of another.
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
    """An entry that is not what was stored; the text says what is wrong with it."""


def key(base: str, asked: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """The name of a cache entry: ``base`` and a digest of ``asked`` (JSON-able), the environment and FORMAT."""
    identity = {
        "format": FORMAT,
        "asked": dict(asked),
        "environment": {name: environment.get(name, "") for name in ENVIRONMENT},
        "files": _files(environment),
    }
    text = json.dumps(identity, sort_keys=True)
    return f"{base}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _files(environment: Mapping[str, str]) -> list[list[int]]:
    """Return size and time of the AWS CLI's files: with another content a profile may be of another account."""
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


def who(environment: Mapping[str, str], profile: str | None) -> str:
    """A digest of the access key in the environment, empty without one or when a profile goes before it."""
    access_key = "" if profile else environment.get("AWS_ACCESS_KEY_ID", "")
    return hashlib.sha256(access_key.encode()).hexdigest()[:16] if access_key else ""


def open_to_all(connection: str | None) -> str | None:
    """The directory that the option ``cache_connection`` names if anybody may write to it, otherwise None.

    What is cached decides which addresses Ansible connects to, and one who knows the key can put an entry there first.
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
    """What the cache plugin stores; ``identity`` comes from ``who``."""
    content = {
        "records": answer.records,
        "warnings": answer.warnings,
        "regions": answer.regions,
        "account": answer.account,
    }
    text = json.dumps(content, separators=(",", ":"))
    return {"format": FORMAT, "identity": identity, "sha256": _digest(text), "answer": text}


def unpack(stored: Any, identity: str) -> Answer | None:
    """The answer that was stored, None when there is none or it is another's. Raises DamagedError.

    With an access key in the environment only an entry made with the same key is read, without one only an entry made
    without one, which is what tells two accounts apart. Whose the latter is the key of the entry says.
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
