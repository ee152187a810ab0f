# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pointer: its content, and a signature that nodes can verify."""

from __future__ import annotations

import base64
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import pointer
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle.archive import BundleError

SUM = "0a" * 32
BUNDLES = {
    "debian-py3.10": {"url": "s3://bucket/a.tar.gz", "sha256": SUM},
    "amazon-py3.11": {"url": "https://host/b.tar.gz?x=1", "sha256": SUM, "size": 3},
}


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """A signing key."""
    path = tmp_path_factory.mktemp("key") / "key.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path)], check=True)
    return path


TWICE = f"mlcluster.pointer/1\nbundle debian-py3.10 s3://b/a {SUM}\nbundle debian-py3.10 s3://b/b {SUM}\n"


def pointer_of(version="1.2.3", floor="", issued="now"):
    """A pointer."""
    return pointer.content(version, floor, BUNDLES, issued)


def test_content_of_pointer():
    assert pointer_of(floor="1.0.0") == {
        "schema": "mlcluster.pointer/1",
        "version": "1.2.3",
        "bundles": {
            "debian-py3.10": {"url": "s3://bucket/a.tar.gz", "sha256": SUM},
            "amazon-py3.11": {"url": "https://host/b.tar.gz?x=1", "sha256": SUM},
        },
        "floor": "1.0.0",
        "issued": "now",
    }
    assert "floor" not in pointer_of()


def test_text_of_pointer_round_trips():
    text = pointer.to_text(pointer_of(floor="1.0.0"))
    assert text.splitlines() == [
        "mlcluster.pointer/1",
        "version 1.2.3",
        "floor 1.0.0",
        "issued now",
        f"bundle debian-py3.10 s3://bucket/a.tar.gz {SUM}",
        f"bundle amazon-py3.11 https://host/b.tar.gz?x=1 {SUM}",
    ]
    assert pointer.from_text(text) == pointer_of(floor="1.0.0")
    assert pointer.from_text(pointer.to_text(pointer_of())) == pointer_of()


@pytest.mark.parametrize("text", ["", "{}", "mlcluster.pointer/9\n", "mlcluster.pointer/1\nbundle a b\n", TWICE])
def test_other_text_parses_to_empty(text):
    assert pointer.from_text(text) == {}


def test_all_option_errors_are_reported_at_once():
    bad = {"debian": {"url": "http://x/y", "sha256": SUM.upper()}, "debian-py3.11": {}}
    with pytest.raises(BundleError) as caught:
        pointer.content("1.2", "soon", bad, "now\nfloor 9.9.9")
    text = str(caught.value)
    for words in (
        "version is '1.2'",
        "issued is 'now\\nfloor 9.9.9'",
        "floor is 'soon'",
        "'debian' is not a target",
        "'http://x/y'",
        SUM.upper(),
        "None",
    ):
        assert words in text


def test_floor_above_version_is_rejected():
    with pytest.raises(BundleError, match=r"the floor 1\.10\.0 is above version 1\.9\.0"):
        pointer_of("1.9.0", "1.10.0")


def test_pointer_without_bundle_is_rejected():
    with pytest.raises(BundleError, match="there is no bundle in it"):
        pointer.content("1.0.0", "", {}, "")


def test_versions_are_numbers():
    assert pointer.number("1.10.0") > pointer.number("1.9.9")
    for text in ("1.2.3rc1", "1.02.3", "1234567890.0.0", "\u0661.0.0"):
        with pytest.raises(BundleError, match="use three numbers"):
            pointer.number(text)


def test_openssl_verifies_with_one_line_public_key(key, tmp_path):
    path = tmp_path / "pointer"
    assert pointer.write(pointer_of(), path, key, check=False)
    first, text = path.read_text().split("\n", 1)
    line = pointer.public_key(key)
    assert len(line) == 124
    (tmp_path / "public.pem").write_text(f"-----BEGIN PUBLIC KEY-----\n{line}\n-----END PUBLIC KEY-----\n")
    (tmp_path / "signature").write_bytes(base64.b64decode(first))
    (tmp_path / "text").write_text(text)
    command = ["openssl", "dgst", "-sha256", "-verify", "public.pem", "-signature", "signature", "text"]
    assert subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout == b"Verified OK\n"
    (tmp_path / "text").write_text(text.replace("1.2.3", "1.2.4"))
    assert subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode != 0


def test_equal_pointer_is_kept_and_other_is_rewritten(key, tmp_path):
    path = tmp_path / "pointer"
    assert pointer.write(pointer_of(issued="monday"), path, key, check=True)
    assert not path.exists()
    assert pointer.write(pointer_of(issued="monday"), path, key, check=False)
    assert not pointer.write(pointer_of(issued="tuesday"), path, key, check=False)
    assert pointer.from_text(pointer.read(path)[1])["issued"] == "monday"
    assert pointer.write(pointer_of("1.2.4"), path, key, check=False)
    good = path.read_bytes()
    for damaged in (good.replace(b"1.2.4", b"1.2.5"), b"A" + good, b"\xff" + good, good[:40], b"no pointer"):
        path.write_bytes(damaged)
        assert pointer.write(pointer_of("1.2.4"), path, key, check=False)
    assert not pointer.write(pointer_of("1.2.4"), path, key, check=False)


def test_key_of_other_type_is_rejected(tmp_path):
    path = tmp_path / "other.pem"
    subprocess.run(["openssl", "ecparam", "-name", "secp384r1", "-genkey", "-noout", "-out", str(path)], check=True)
    with pytest.raises(BundleError, match="is not an EC key on P-256"):
        pointer.write(pointer_of(), tmp_path / "p", path, check=True)


def test_invalid_key_is_reported(tmp_path):
    (tmp_path / "key").write_text("nothing")
    with pytest.raises(BundleError, match=r"Reading the key .*/key failed: openssl reported .*EC key on P-256 in PEM"):
        pointer.write(pointer_of(), tmp_path / "p", tmp_path / "key", check=False)


def test_missing_openssl_is_reported(key, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BundleError, match="install the package openssl"):
        pointer.sign(b"x", key)
