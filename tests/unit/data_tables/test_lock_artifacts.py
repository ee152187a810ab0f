# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import email.message
import hashlib
import http.server
import io
import re
import shutil
import socket
import threading

import pytest
import yaml

from plugins.plugin_utils._data.artifacts import ARTIFACTS
from tests.data_tables import lock_artifacts as tool

DATA = b"signed artifact\n"
SHA256 = hashlib.sha256(DATA).hexdigest()
# A key made for this test, and its signature of DATA.
FINGERPRINT = "4023B10EBD5174747D81DDA753DDB0B740A88F4C"
KEY = b"""-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawoNkBYJKwYBBAHaRw8BAQdARUcu0+NQJOFmGKMGXd2AmV+ZptzNtReDVuS1
h56XWR+0NG1sY2x1c3Rlci5hd3MgdGVzdCBrZXkgKHNpZ25zIG5vdGhpbmcgYnV0
IHRlc3QgZGF0YSmIkAQTFggAOBYhBEAjsQ69UXR0fYHdp1PdsLdAqI9MBQJrCg2Q
AhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJEFPdsLdAqI9MXMQBAILNcX91
ytB0xbuI2a0ILDmn5ap7dIXQ0gr0T8CqcdyuAP0ZXw1Cby003VKhZPhn99W1vu0Q
4wzXXyjJXr+xG4sBDw==
=8gQZ
-----END PGP PUBLIC KEY BLOCK-----
"""
SIGNATURE = base64.b64decode(
    "iHUEABYIAB0WIQRAI7EOvVF0dH2B3adT3bC3QKiPTAUCawoNkAAKCRBT3bC3QKiPTMppAQCkxfwjbOi3Ez0FjuzkWC0+8lVwIIY8nKuU7a3suAKo"
    "AAEAsDJiF0EjPiVHx9mJaVAzWfx7FlYHVY+Z9UIjTtS96wM="
)
needs_gpgv = pytest.mark.skipif(shutil.which("gpgv") is None, reason="gpgv is not installed")


@pytest.fixture
def server():
    """A local web server: ``files`` maps a path to its bytes, ``cut`` names paths that break off half-way."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            data = self.server.files.get(self.path)
            if data is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if self.path in self.server.cut else data)

        def log_message(self, *args):
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.files, running.cut = {"/a-1.0.tgz": DATA}, set()
        running.address = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def artifact(server, sha256=SHA256, **changes):
    made = {
        "name": "a",
        "platform": "any",
        "version": "1.0",
        "url": f"{server.address}/a-{{version}}.tgz",
        "sha256": sha256,
        "signature": None,
    }
    return {**made, **changes}


def signed(server, fingerprint=FINGERPRINT, key=KEY, signature=SIGNATURE):
    server.files.update({"/key": key, "/a-1.0.tgz.sig": signature})
    where = {"url": f"{server.address}/a-{{version}}.tgz.sig", "key_url": f"{server.address}/key"}
    return artifact(server, sha256="", signature={**where, "fingerprint": fingerprint})


def locked(path):
    return yaml.safe_load(path.read_text())["artifacts"]


def test_right_checksum_is_locked(server, tmp_path, capsys):
    path = tmp_path / "artifacts.lock.yml"
    assert tool.lock([artifact(server)], path) == 0
    assert locked(path) == [
        {
            "name": "a",
            "platform": "any",
            "version": "1.0",
            "url": f"{server.address}/a-1.0.tgz",
            "sha256": SHA256,
            "size": len(DATA),
            "trust": "pinned",
        }
    ]
    assert f"a 1.0: sha256 {SHA256} (pinned)" in capsys.readouterr().out
    before = path.read_bytes()
    assert tool.lock([artifact(server)], path) == 0
    assert path.read_bytes() == before


def fails(capsys, code, artifacts, path, *words):
    """The lock fails with ``code``, one sentence that has all the words, and leaves the file alone."""
    before = path.read_bytes() if path.exists() else None
    assert tool.lock(artifacts, path) == code
    sentences = capsys.readouterr().err.splitlines()
    assert len(sentences) == 2, sentences
    assert all(word in sentences[0] for word in words), sentences[0]
    assert "was left as it is" in sentences[1]
    assert (path.read_bytes() if path.exists() else None) == before


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "artifacts.lock.yml"
    entry = tool.Entry("b", "any", "2", "https://b.invalid/b", "0" * 64, 1, "pinned")
    tool.write_lock(path, [entry])
    return path


def test_wrong_checksum_changes_nothing(server, path, capsys):
    fails(capsys, 1, [artifact(server, sha256="1" * 64)], path, "a 1.0", SHA256, "1" * 64)


def test_truncated_download_changes_nothing(server, path, capsys):
    server.cut.add("/a-1.0.tgz")
    fails(capsys, 2, [artifact(server)], path, "broke off after 8 of 16 bytes")


def test_missing_file_changes_nothing(server, path, capsys):
    server.files.clear()
    fails(capsys, 2, [artifact(server)], path, "a 1.0", "Not Found")


def test_no_network_is_sentence_for_each_artifact(path, capsys):
    with socket.socket() as unheard:
        # Bound and not listening: every connection is refused.
        unheard.bind(("127.0.0.1", 0))
        server = type("Server", (), {"address": f"http://127.0.0.1:{unheard.getsockname()[1]}"})
        before = path.read_bytes()
        assert tool.lock([artifact(server), artifact(server, name="c")], path) == 2
    err = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in err] == ["a 1.0", "c 1.0", "artifacts.lock.yml was left as it is"]
    assert all("connected machine" in line for line in err[:2])
    assert path.read_bytes() == before


def test_one_failure_changes_nothing(server, path, capsys):
    before = path.read_bytes()
    assert tool.lock([artifact(server), artifact(server, name="c", sha256="1" * 64)], path) == 1
    assert "1 of 2 failed" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_lock_replaces_old_version_and_keeps_other_entries(server, path):
    assert tool.lock([artifact(server)], path) == 0
    server.files["/a-1.1.tgz"] = DATA
    assert tool.lock([artifact(server, version="1.1")], path) == 0
    assert [(entry["name"], entry["version"]) for entry in locked(path)] == [("a", "1.1"), ("b", "2")]


@needs_gpgv
def test_signature_by_right_key_is_locked(server, path):
    assert tool.lock([signed(server)], path) == 0
    assert (locked(path)[0]["sha256"], locked(path)[0]["trust"]) == (SHA256, "signature")


@needs_gpgv
def test_key_without_armour_is_accepted(server, path):
    assert tool.lock([signed(server, key=tool.dearmored(KEY))], path) == 0


@needs_gpgv
@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": "F" * 40},
        {"signature": SIGNATURE[:-1] + b"\x00"},
        {"signature": b"nonsense"},
        {"key": b"nonsense"},
        {"key": b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabcde\n-----END PGP PUBLIC KEY BLOCK-----\n"},
    ],
    ids=["another key", "damaged signature", "no signature", "no key", "damaged key"],
)
def test_signature_that_proves_nothing_changes_nothing(server, path, capsys, changes):
    fails(capsys, 1, [signed(server, **changes)], path, "no valid signature by key")


@needs_gpgv
def test_changed_signed_data_changes_nothing(server, path, capsys):
    server.files["/a-1.0.tgz"] = DATA + b"more"
    fails(capsys, 1, [signed(server)], path, "BAD signature")


def test_missing_signature_changes_nothing(server, path, capsys):
    made = signed(server)
    del server.files["/a-1.0.tgz.sig"]
    fails(capsys, 2 if shutil.which("gpgv") else 1, [made], path, "signature")


def test_signature_without_gpgv_is_not_accepted(server, path, capsys, monkeypatch):
    monkeypatch.setattr(tool.shutil, "which", lambda name: None)
    fails(capsys, 1, [signed(server)], path, "install the package gpgv")


def test_same_version_with_other_bytes_is_rejected(server, path, capsys, monkeypatch):
    monkeypatch.setattr(tool, "scheme", lambda address: "https")
    made = artifact(server, sha256="")
    assert tool.lock([made], path) == 0
    assert locked(path)[0]["trust"] == "first-download"
    capsys.readouterr()
    server.files["/a-1.0.tgz"] = b"other bytes"
    fails(capsys, 1, [made], path, "artifacts.lock.yml has", SHA256)


def test_unverifiable_unencrypted_address_is_rejected(server, path, capsys):
    fails(capsys, 1, [artifact(server, sha256="")], path, "neither encrypted nor signed nor pinned")


def test_file_address_is_rejected(server, path, capsys):
    fails(capsys, 1, [artifact(server, url="file:///etc/passwd")], path, "not an http or https address")


def test_encrypted_address_may_not_lead_to_unencrypted_one(path, capsys, monkeypatch):
    class Answer(io.BytesIO):
        headers = email.message.Message()

        def geturl(self):
            return "http://elsewhere.invalid/a"

    monkeypatch.setattr(tool.urllib.request, "urlopen", lambda address, timeout: Answer(DATA))
    server = type("Server", (), {"address": "https://a.invalid"})
    fails(capsys, 1, [artifact(server)], path, "leads to the unencrypted http://elsewhere.invalid/a")


def test_too_large_file_is_not_kept(server, path, capsys, monkeypatch):
    monkeypatch.setattr(tool, "MAX_BYTES", 4)
    fails(capsys, 2, [artifact(server)], path, "larger than 4 bytes")


@pytest.mark.parametrize(
    "text", ["[", "artifacts:\n- nonsense\n", "artifacts:\n- colour: red\n", "- 1\n", "", "\udce4"]
)
def test_unreadable_lock_is_left_unchanged(server, tmp_path, capsys, text):
    path = tmp_path / "artifacts.lock.yml"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    before = path.read_bytes()
    assert tool.lock([artifact(server)], path) == 1
    assert "is not a lock this tool wrote" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_unknown_name_is_usage_error(capsys):
    with pytest.raises(SystemExit) as stop:
        tool.main(["nosuch"])
    assert stop.value.code == 3
    assert "aws-efa-installer" in capsys.readouterr().err


def test_names_choose_what_is_locked(monkeypatch):
    chosen = []
    monkeypatch.setattr(tool, "lock", lambda artifacts, path: chosen.extend(a["name"] for a in artifacts) or 0)
    assert tool.main(["pyxis"]) == 0
    assert chosen == ["pyxis"]


@pytest.mark.parametrize("entry", ARTIFACTS, ids=[f"{a['name']} {a['platform']}" for a in ARTIFACTS])
def test_table_ships_no_checksum_without_its_source(entry):
    assert set(entry) == {"name", "platform", "version", "url", "sha256", "sha256_source", "signature", "source"}
    assert re.fullmatch(r"|[0-9a-f]{64}", entry["sha256"])
    assert bool(entry["sha256"]) == bool(entry["sha256_source"])
    assert entry["source"]
    assert entry["url"].startswith("https://")
    assert entry["version"] in entry["url"].format(version=entry["version"])
    if entry["signature"]:
        assert re.fullmatch(r"[0-9A-F]{40}", entry["signature"]["fingerprint"])
        assert entry["signature"]["url"].startswith("https://")
        assert entry["signature"]["key_url"].startswith("https://")


def test_table_names_each_artifact_once():
    keys = [(entry["name"], entry["platform"]) for entry in ARTIFACTS]
    assert len(keys) == len(set(keys))
