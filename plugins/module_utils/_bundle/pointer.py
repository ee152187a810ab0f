# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pointer by which nodes find the bundle of a release, and its signature.

The signature is ECDSA with P-256 and SHA-256: ``openssl dgst -sha256 -verify`` of every supported node proves it
(OpenSSL 3.0 on Ubuntu 22.04 and 24.04, Amazon Linux 2023 and RHEL 9, also in FIPS mode), its public key is one line of
124 characters in the arguments of the hook, and AWS KMS can make it (key type ECC_NIST_P256, ECDSA_SHA_256).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import typing as t
from pathlib import Path

from .archive import SHA256, BundleError, write_file
from .manifest import to_json

SCHEMA = "mlcluster.pointer/1"
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
TARGET = re.compile(r"[a-z]+-py3\.\d+")
URL = re.compile(r"(s3|https)://[^\s/]+/\S+")
OPENSSL_SECONDS = 30


def number(version: str) -> tuple[int, int, int]:
    """(1, 2, 3) of "1.2.3". Raises BundleError for anything else."""
    found = VERSION.fullmatch(version)
    if not found:
        raise BundleError(f"{version!r} is no version: give three numbers, such as 1.2.3")
    return int(found[1]), int(found[2]), int(found[3])


def problems(version: str, floor: str, bundles: t.Mapping[str, t.Mapping[str, str]]) -> list[str]:
    """Everything that is wrong with what a pointer is to say."""
    found = []
    for what, text in (("version", version), ("floor", floor)):
        if text and not VERSION.fullmatch(text):
            found.append(f"{what} is {text!r}: give three numbers, such as 1.2.3")
    if not found and floor and number(floor) > number(version):
        found.append(f"the floor {floor} is above version {version}, so every node would refuse it: lower the floor")
    if not bundles:
        found.append("there is no bundle in it: give at least one")
    for name, entry in bundles.items():
        if not TARGET.fullmatch(name):
            found.append(f"{name!r} is no target: give family and Python, such as debian-py3.12")
        if not URL.fullmatch(str(entry.get("url", ""))):
            found.append(f"the address of {name} is {entry.get('url')!r}: give an s3:// or https:// one")
        if not SHA256.fullmatch(str(entry.get("sha256", ""))):
            found.append(f"the sha256 of {name} is {entry.get('sha256')!r}: give 64 hexadecimal digits, small letters")
    return found


def content(version: str, floor: str, bundles: t.Mapping[str, t.Mapping[str, str]], issued: str) -> dict[str, t.Any]:
    """The pointer as a dictionary. Raises BundleError with all that is wrong.

    ``url`` and ``sha256`` at the top are those of the first bundle, for a reader that knows but one.
    """
    wrong = problems(version, floor, bundles)
    if wrong:
        raise BundleError("; ".join(wrong))
    first = next(iter(bundles.values()))
    told: dict[str, t.Any] = {"schema": SCHEMA, "version": version, "url": first["url"], "sha256": first["sha256"]}
    told["bundles"] = {name: {"url": entry["url"], "sha256": entry["sha256"]} for name, entry in bundles.items()}
    if floor:
        told["floor"] = floor
    return {**told, "issued": issued}


def same(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> bool:
    """Whether two pointers name the same, whenever they were issued."""
    return {**old, "issued": ""} == {**new, "issued": ""}


def read(path: Path) -> dict[str, t.Any]:
    """A pointer that lies there, empty where there is none that is understood."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) and told.get("schema") == SCHEMA else {}


def _openssl(words: t.Sequence[str], what: str) -> bytes:
    try:
        done = subprocess.run(
            ["openssl", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=OPENSSL_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise BundleError(f"{what} needs openssl, which is not there: install the package openssl") from None
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise BundleError(f"{what} failed ({exc}): see whether openssl works here") from exc
    if done.returncode:
        said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()] or ["no words"]
        raise BundleError(f"{what} failed: openssl said {said[0]!r}; see whether the key is an EC key on P-256 in PEM")
    return done.stdout


def public_key(private_key: Path) -> str:
    """The public half of a key as one line of base64, as ``--public-key`` of the hook takes it. Raises BundleError."""
    pem = _openssl(["pkey", "-in", str(private_key), "-pubout"], f"Reading the key {private_key}").decode()
    return "".join(line for line in pem.split() if re.fullmatch(r"[A-Za-z0-9+/=]{20,}", line))


def check_key(private_key: Path) -> None:
    """Refuse a key that nodes could not use. Raises BundleError."""
    told = _openssl(["pkey", "-in", str(private_key), "-pubout", "-text", "-noout"], f"Reading the key {private_key}")
    if b"prime256v1" not in told:
        raise BundleError(
            f"{private_key} is no EC key on P-256, which is what every node can prove: make one with openssl ecparam "
            "-name prime256v1 -genkey -noout"
        )


def sign(data: bytes, private_key: Path) -> bytes:
    """The signature of ``data``. Raises BundleError."""
    check_key(private_key)
    with tempfile.TemporaryDirectory(prefix="mlcluster-pointer-") as folder:
        path = Path(folder) / "pointer"
        path.write_bytes(data)
        return _openssl(["dgst", "-sha256", "-sign", str(private_key), str(path)], f"Signing with {private_key}")


def verifies(pointer: Path, signature: Path, private_key: Path) -> bool:
    """Whether ``signature`` is that of the key's owner for the file ``pointer``."""
    if not (pointer.is_file() and signature.is_file()):
        return False
    with tempfile.TemporaryDirectory(prefix="mlcluster-pointer-") as folder:
        public = Path(folder) / "public.pem"
        public.write_bytes(_openssl(["pkey", "-in", str(private_key), "-pubout"], f"Reading the key {private_key}"))
        try:
            words = ["dgst", "-sha256", "-verify", str(public), "-signature", str(signature), str(pointer)]
            return _openssl(words, "Proving the signature") != b""
        except BundleError:
            return False


def write(told: t.Mapping[str, t.Any], dest: Path, private_key: Path, check: bool) -> bool:
    """Write pointer and signature unless they are good already; returns whether they were not. Raises BundleError."""
    check_key(private_key)
    signature = dest.with_name(f"{dest.name}.sig")
    if same(read(dest), told) and verifies(dest, signature, private_key):
        return False
    if not check:
        data = to_json(told)
        signed = sign(data, private_key)
        write_file(dest, data)
        write_file(signature, signed)
    return True
