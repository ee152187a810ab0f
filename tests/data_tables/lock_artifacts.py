# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Download the files that roles install, check them, and pin them in artifacts.lock.yml.

All or nothing: unless every artifact was downloaded whole and passed its checks, the lock stays as it is.
Exit codes: 0 locked or already locked, 1 an artifact failed a check, 2 one could not be downloaded, 3 usage.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import http.client
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

import yaml

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "artifacts.lock.yml"
TIMEOUT = 30
CHUNK = 1 << 20
PROGRESS_SECONDS = 10
MAX_BYTES = 2 << 30
HEADER = """\
---
# Made by `make lock-artifacts`: what the roles may install, each with the checksum that was checked.
# trust: pinned (the checksum came with the collection), signature (the publisher's key signed it),
# first-download (verified by the encrypted connection alone: compare with another source).
"""


class CheckError(Exception):
    """An artifact is not what it should be; one sentence."""


class UnreachableError(Exception):
    """An artifact could not be downloaded whole; one sentence."""


class Entry(NamedTuple):
    """One line of the lock."""

    name: str
    platform: str
    version: str
    url: str
    sha256: str
    size: int
    trust: str


def label(artifact: dict[str, Any]) -> str:
    """Return the name of an artifact in messages."""
    platform = "" if artifact["platform"] == "any" else f" ({artifact['platform']})"
    return f"{artifact['name']} {artifact['version']}{platform}"


def scheme(address: str) -> str:
    """``http``, ``https``, ... of an address."""
    return urllib.parse.urlsplit(address).scheme


def download(address: str, target: Path, what: str) -> tuple[str, int]:
    """Fetch ``address`` into ``target``; returns sha256 and size. Raises UnreachableError unless all of it came."""
    digest, size, shown = hashlib.sha256(), 0, time.monotonic()
    if scheme(address) not in ("http", "https"):
        raise CheckError(f"{what}: {address} is not an http or https address; correct the table")
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer, target.open("wb") as handle:  # noqa: S310
            if scheme(address) == "https" != scheme(answer.geturl()):
                raise CheckError(f"{what}: {address} leads to the unencrypted {answer.geturl()}; nothing was fetched")
            wanted = int(answer.headers.get("Content-Length") or -1)
            while chunk := answer.read(CHUNK):
                handle.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                if size > MAX_BYTES:
                    raise UnreachableError(
                        f"{what}: {address} is larger than {MAX_BYTES} bytes; nothing was kept of it"
                    )
                if time.monotonic() - shown > PROGRESS_SECONDS:
                    shown = time.monotonic()
                    print(f"{what}: {size >> 20} MiB of {wanted >> 20 if wanted > 0 else '?'} so far", flush=True)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as exc:
        reason = getattr(exc, "reason", None) or exc
        raise UnreachableError(
            f"{what}: {address} could not be downloaded ({reason}); run this on a connected machine"
        ) from exc
    if wanted >= 0 and size != wanted:
        raise UnreachableError(f"{what}: {address} broke off after {size} of {wanted} bytes; run it again")
    return digest.hexdigest(), size


def dearmored(key: bytes) -> bytes:
    """Return a public key as gpgv requires it: the bytes inside the ASCII armour, or the key as it is without any."""
    found = re.search(rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\s(.*?)-----END", key, re.DOTALL)
    if not found:
        return key
    # Headers of the armour end at the first empty line; the line with "=" before four characters is its checksum.
    lines = re.split(rb"\r?\n\s*\r?\n", found.group(1), maxsplit=1)[-1].split()
    try:
        return base64.b64decode(b"".join(line for line in lines if not line.startswith(b"=")))
    except ValueError:
        # gpgv then reports that there is no key.
        return b""


def check_signature(artifact: dict[str, Any], file: Path, folder: Path) -> None:
    """Check that the key with the fingerprint of the table signed ``file``. Raises CheckError, UnreachableError."""
    what, signature = label(artifact), artifact["signature"]
    if shutil.which("gpgv") is None:
        raise CheckError(f"{what}: the signature cannot be checked without gpgv; install the package gpgv")
    download(signature["key_url"], folder / "key", f"{what}, public key")
    download(signature["url"].format(version=artifact["version"]), folder / "sig", f"{what}, signature")
    (folder / "keyring").write_bytes(dearmored((folder / "key").read_bytes()))
    command = ["gpgv", "--homedir", str(folder), "--keyring", str(folder / "keyring"), "--status-fd", "1"]
    done = subprocess.run(
        [*command, str(folder / "sig"), str(file)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    valid = re.findall(r"^\[GNUPG:\] VALIDSIG (\S+) .*?(\S+)$", done.stdout, re.MULTILINE)
    # The last field of VALIDSIG is the primary key, the first the subkey that made the signature.
    if done.returncode or not any(signature["fingerprint"] in pair for pair in valid):
        reason = (done.stderr.strip().splitlines() or ["gpgv gave no reason"])[-1]
        raise CheckError(
            f"{what}: no valid signature by key {signature['fingerprint']} ({reason}); do not use the file, "
            "compare the fingerprint with the publisher's page"
        )


def check(artifact: dict[str, Any], old: Optional[Entry], folder: Path) -> Entry:
    """Download one artifact and prove it. Raises CheckError or UnreachableError."""
    what = label(artifact)
    address = artifact["url"].format(version=artifact["version"])
    pinned, signature = artifact["sha256"], artifact["signature"]
    if not (pinned or signature or scheme(address) == "https"):
        raise CheckError(f"{what}: {address} is neither encrypted nor signed nor pinned; give it an https address")
    file = folder / "artifact"
    sha256, size = download(address, file, what)
    for known, where in ((pinned, "the collection"), (old.sha256 if old else "", LOCK.name)):
        if known and sha256 != known:
            raise CheckError(
                f"{what}: {address} has sha256 {sha256}, {where} has {known}; the file was changed or damaged: "
                "ask the publisher before you accept it"
            )
    if signature:
        check_signature(artifact, file, folder)
    trust = "signature" if signature else "pinned" if pinned else "first-download"
    return Entry(artifact["name"], artifact["platform"], artifact["version"], address, sha256, size, trust)


def read_lock(path: Path) -> list[Entry]:
    """Return the entries of a lock; none if the file is missing. Raises CheckError if it cannot be read."""
    if not path.exists():
        return []
    try:
        return [Entry(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["artifacts"]]
    except (yaml.YAMLError, TypeError, KeyError, UnicodeDecodeError) as exc:
        raise CheckError(f"{path} is not a lock this tool wrote ({exc}); move it away and run it again") from exc


def write_lock(path: Path, entries: Sequence[Entry]) -> None:
    """Replace the lock atomically."""
    text = HEADER + yaml.safe_dump({"artifacts": [entry._asdict() for entry in sorted(entries)]}, sort_keys=False)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def lock(artifacts: Sequence[dict[str, Any]], path: Path) -> int:
    """Check every artifact and write the lock when all passed; returns the exit code."""
    try:
        old = read_lock(path)
    except CheckError as exc:
        print(exc, file=sys.stderr)
        return 1
    entries, code = [], 0
    for artifact in artifacts:
        key = (artifact["name"], artifact["platform"], artifact["version"])
        known = next((entry for entry in old if entry[:3] == key), None)
        with tempfile.TemporaryDirectory(prefix="mlcluster-artifact-") as folder:
            try:
                entries.append(check(artifact, known, Path(folder)))
                print(f"{label(artifact)}: sha256 {entries[-1].sha256} ({entries[-1].trust})", flush=True)
            except CheckError as exc:
                code = 1
                print(exc, file=sys.stderr)
            except UnreachableError as exc:
                code = code or 2
                print(exc, file=sys.stderr)
    if code:
        print(
            f"{path.name} was left as it is: {len(artifacts) - len(entries)} of {len(artifacts)} failed",
            file=sys.stderr,
        )
        return code
    chosen = {(artifact["name"], artifact["platform"]) for artifact in artifacts}
    write_lock(path, entries + [entry for entry in old if entry[:2] not in chosen])
    print(f"{path.name}: {len(entries)} artifacts locked")
    return 0


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line; return the exit code."""
    sys.path.insert(0, str(ROOT))
    from plugins.plugin_utils._data.artifacts import ARTIFACTS

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            self.print_usage(sys.stderr)
            self.exit(3, f"{self.prog}: {message}\n")

    names = sorted({artifact["name"] for artifact in ARTIFACTS})
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"lock only these; all of them: {', '.join(names)}")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.names) - set(names))
    if unknown:
        parser.error(f"no artifact is called {', '.join(unknown)}; there are {', '.join(names)}")
    return lock([artifact for artifact in ARTIFACTS if not args.names or artifact["name"] in args.names], LOCK)


if __name__ == "__main__":
    sys.exit(main())
