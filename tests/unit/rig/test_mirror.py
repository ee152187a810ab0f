# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ctypes
import http.client
import subprocess
import threading

import pytest

from tests.rig.mirror import plugin, server, tree


@pytest.fixture(scope="module")
def mirror(tmp_path_factory):
    """The folder that the maker has filled."""
    folder = tmp_path_factory.mktemp("mirror")
    tree.make(folder)
    return folder


@pytest.fixture
def served(tmp_path):
    """A folder that is being served, with the server."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "file").write_bytes(b"0123456789" * 1000)
    running = server.Mirror(folder, log=tmp_path / "log")
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def test_plugin_with_missing_library_does_not_load(tmp_path):
    path = tmp_path / "libnccl-net-ofi.so"
    path.write_bytes(plugin.compile_plugin("1.22.0", loadable=False))
    with pytest.raises(OSError, match=r"libmlcluster-nowhere\.so\.1"):
        ctypes.CDLL(str(path))


def signed_by(mirror, name: str, tmp_path) -> str:
    """Return gpg's status lines for the signature, with the key of the mirror alone in its keyring."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--no-autostart"]
    subprocess.run([*gpg, "--import", str(mirror / "aws-efa-installer.key")], check=True, capture_output=True)
    verify = [*gpg, "--status-fd", "1", "--verify", str(mirror / f"{name}.sig"), str(mirror / name)]
    return subprocess.run(verify, capture_output=True, text=True, check=False).stdout


def test_forged_archive_has_foreign_signature(mirror, tmp_path):
    status = signed_by(mirror, "forged/aws-efa-installer-1.51.0.tar.gz", tmp_path)
    assert "NO_PUBKEY" in status
    assert "VALIDSIG" not in status


def ask(served, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", served.server_port)
    connection.request("GET", path)
    return connection.getresponse()


def test_truncated_file_promises_more_than_it_gives(served):
    answer = ask(served, "/truncated/file")
    assert answer.headers["Content-Length"] == "10000"
    with pytest.raises(http.client.IncompleteRead):
        answer.read()


@pytest.mark.parametrize("path", ["/nothing", "/../secret", "/%2e%2e/secret", "/"])
def test_nothing_else_is_served(served, path):
    (served.folder.parent / "secret").write_text("x")
    assert ask(served, path).status == 404
    assert served.log.read_text() == f"GET {path} 404\n"
