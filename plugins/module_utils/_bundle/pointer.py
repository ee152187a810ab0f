# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pointer by which nodes find the bundle of a release.

It is one file, so that a signature cannot be paired with the text of another release. The first line is the signature
of all lines after it, in base64::

    MEUCIQ…
    mlcluster.pointer/1
    version 1.4.0
    floor 1.3.0
    issued 2026-11-28T00:00:00Z
    bundle debian-py3.12 s3://my-bucket/mlcluster/bundles/….tar.gz 6f577ef6…

Each line after the schema is a name and its values, separated by one blank. The line ``floor`` is optional.

The signature is ECDSA with P-256 and SHA-256: ``openssl dgst -sha256 -verify`` of every supported node proves it
(OpenSSL 3.0 on Ubuntu 22.04 and 24.04, Amazon Linux 2023 and RHEL 9, also in FIPS mode), its public key is one line of
124 characters in the arguments of the hook, and AWS KMS can make it (key type ECC_NIST_P256, ECDSA_SHA_256).
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import subprocess
import tempfile
import typing as t
from pathlib import Path

from .archive import SHA256, BundleError, write_file

SCHEMA = "mlcluster.pointer/1"
# The form that the hook accepts. No leading zeros: 1.02.0 and 1.2.0 would be two names of one version.
VERSION = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")
TARGET = re.compile(r"[a-z]+-py3\.\d+")
URL = re.compile(r"(s3|https)://[^\s/]+/\S+")
OPENSSL_SECONDS = 30


def number(version: str) -> tuple[int, int, int]:
    """Return (1, 2, 3) for "1.2.3". Raises BundleError for anything else."""
    found = VERSION.fullmatch(version)
    if not found:
        raise BundleError(f"{version!r} is not a version: use three numbers, such as 1.2.3")
    return int(found[1]), int(found[2]), int(found[3])


def problems(version: str, floor: str, bundles: t.Mapping[str, t.Mapping[str, str]], issued: str) -> list[str]:
    """Return the option errors of a pointer, one sentence each; empty for a valid one."""
    found = []
    for what, text in (("version", version), ("floor", floor)):
        if text and not VERSION.fullmatch(text):
            found.append(f"{what} is {text!r}: use three numbers, such as 1.2.3")
    if not found and floor and number(floor) > number(version):
        found.append(f"the floor {floor} is above version {version}, so every node would refuse it: lower the floor")
    if not re.fullmatch(r"\S*", issued):
        found.append(f"issued is {issued!r}: use one word, such as 2026-11-28T00:00:00Z")
    if not bundles:
        found.append("there is no bundle in it: add at least one")
    for name, entry in bundles.items():
        if not TARGET.fullmatch(name):
            found.append(f"{name!r} is not a target: use family and Python, such as debian-py3.12")
        if not URL.fullmatch(str(entry.get("url", ""))):
            found.append(f"the address of {name} is {entry.get('url')!r}: use an s3:// or https:// one")
        if not SHA256.fullmatch(str(entry.get("sha256", ""))):
            found.append(f"the sha256 of {name} is {entry.get('sha256')!r}: use 64 hexadecimal digits, small letters")
    return found


def content(version: str, floor: str, bundles: t.Mapping[str, t.Mapping[str, str]], issued: str) -> dict[str, t.Any]:
    """Return the pointer as a dictionary. Raises BundleError that lists every option error."""
    wrong = problems(version, floor, bundles, issued)
    if wrong:
        raise BundleError("; ".join(wrong))
    pointer: dict[str, t.Any] = {"schema": SCHEMA, "version": version}
    if floor:
        pointer["floor"] = floor
    pointer["issued"] = issued
    pointer["bundles"] = {name: {"url": entry["url"], "sha256": entry["sha256"]} for name, entry in bundles.items()}
    return pointer


def to_text(pointer: t.Mapping[str, t.Any]) -> str:
    """Return the text that is signed: the lines of a pointer."""
    lines = [
        pointer["schema"],
        *(f"{name} {pointer[name]}" for name in ("version", "floor", "issued") if name in pointer),
    ]
    lines += [f"bundle {name} {entry['url']} {entry['sha256']}" for name, entry in pointer["bundles"].items()]
    return "".join(f"{line}\n" for line in lines)


def from_text(text: str) -> dict[str, t.Any]:
    """Parse the lines of a pointer; empty for any other text."""
    schema, *lines = text.splitlines() or [""]
    if schema != SCHEMA:
        return {}
    pointer: dict[str, t.Any] = {"schema": schema}
    bundles = {}
    for name, *words in (line.split(" ") for line in lines):
        if name == "bundle" and len(words) == 3 and words[0] not in bundles:
            bundles[words[0]] = {"url": words[1], "sha256": words[2]}
        elif name in ("version", "floor", "issued") and len(words) == 1:
            pointer[name] = words[0]
        else:
            return {}
    return {**pointer, "bundles": bundles}


def same(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> bool:
    """Return whether two pointers are equal apart from the time of issue."""
    return {**old, "issued": ""} == {**new, "issued": ""}


def read(path: Path) -> tuple[bytes, str]:
    """Return signature and text of the pointer file; both empty if it is missing or unreadable."""
    try:
        first, _newline, text = path.read_bytes().partition(b"\n")
        return base64.b64decode(first, validate=True), text.decode()
    except (OSError, binascii.Error, UnicodeDecodeError):
        return b"", ""


def _openssl(words: t.Sequence[str], what: str) -> bytes:
    try:
        completed = subprocess.run(
            ["openssl", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=OPENSSL_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise BundleError(f"{what} needs openssl, which is missing: install the package openssl") from None
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise BundleError(f"{what} failed ({exc}): check that openssl works here") from exc
    if completed.returncode:
        errors = [line for line in completed.stderr.decode("utf-8", "replace").splitlines() if line.strip()] or [
            "no error output"
        ]
        raise BundleError(f"{what} failed: openssl reported {errors[0]!r}; check that it is an EC key on P-256 in PEM")
    return completed.stdout


def public_key(private_key: Path) -> str:
    """Return the public key as one line of base64, the form of the hook's ``--public-key``. Raises BundleError."""
    pem = _openssl(["pkey", "-in", str(private_key), "-pubout"], f"Reading the key {private_key}").decode()
    return "".join(line for line in pem.split() if re.fullmatch(r"[A-Za-z0-9+/=]{20,}", line))


def check_key(private_key: Path) -> None:
    """Reject a key that nodes cannot use. Raises BundleError."""
    description = _openssl(
        ["pkey", "-in", str(private_key), "-pubout", "-text", "-noout"], f"Reading the key {private_key}"
    )
    if b"prime256v1" not in description:
        raise BundleError(
            f"{private_key} is not an EC key on P-256, which every node can verify: make one with openssl ecparam "
            "-name prime256v1 -genkey -noout"
        )


def sign(data: bytes, private_key: Path) -> bytes:
    """Return the signature of ``data``. Raises BundleError."""
    check_key(private_key)
    with tempfile.TemporaryDirectory(prefix="mlcluster-pointer-") as folder:
        path = Path(folder) / "pointer"
        path.write_bytes(data)
        return _openssl(["dgst", "-sha256", "-sign", str(private_key), str(path)], f"Signing with {private_key}")


def verifies(data: bytes, signature: bytes, private_key: Path) -> bool:
    """Return whether ``signature`` was made with this key over ``data``."""
    with tempfile.TemporaryDirectory(prefix="mlcluster-pointer-") as folder:
        public, signed, file = (Path(folder) / name for name in ("public.pem", "signature", "data"))
        public.write_bytes(_openssl(["pkey", "-in", str(private_key), "-pubout"], f"Reading the key {private_key}"))
        signed.write_bytes(signature)
        file.write_bytes(data)
        try:
            words = ["dgst", "-sha256", "-verify", str(public), "-signature", str(signed), str(file)]
            return _openssl(words, "Proving the signature") != b""
        except BundleError:
            return False


def write(pointer: t.Mapping[str, t.Any], dest: Path, private_key: Path, check: bool) -> bool:
    """Write and sign the pointer unless the file is already correct. Returns whether it changed. Raises BundleError."""
    check_key(private_key)
    signature, text = read(dest)
    if same(from_text(text), pointer) and verifies(text.encode(), signature, private_key):
        return False
    if not check:
        data = to_text(pointer).encode()
        write_file(dest, base64.b64encode(sign(data, private_key)) + b"\n" + data)
    return True
