# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ctypes
import hashlib
import http.client
import io
import json
import subprocess
import tarfile
import threading

import pytest

from tests.rig.mirror import deb, plugin, server, signing, tree

PACKAGE = deb.Deb(
    "stand-in",
    "1.2-3",
    {"/etc/stand-in.conf": (b"a = 1\n", 0o644), "/usr/bin/stand-in": (b"#!/bin/sh\n", 0o755)},
    {"postinst": "#!/bin/sh\nexit 0\n"},
    depends="libc6",
)


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


def dpkg(option: str, path) -> str:
    return subprocess.run(["dpkg-deb", option, str(path)], capture_output=True, text=True, check=True).stdout


def test_dpkg_reads_the_package(tmp_path):
    path = tmp_path / PACKAGE.file_name
    path.write_bytes(PACKAGE.build())
    assert path.name == "stand-in_1.2-3_all.deb"
    control = dpkg("--field", path)
    assert "Package: stand-in\nVersion: 1.2-3\nArchitecture: all\n" in control
    assert "Depends: libc6\n" in control
    listed = dpkg("--contents", path).splitlines()
    assert [line.split()[-1] for line in listed if not line.startswith("d")] == [
        "./etc/stand-in.conf",
        "./usr/bin/stand-in",
    ]
    assert listed[-1].startswith("-rwxr-xr-x 0/0")


def test_the_same_package_has_the_same_bytes():
    assert PACKAGE.build() == PACKAGE.build()


def test_files_below_etc_are_configuration(tmp_path):
    path = tmp_path / "package.deb"
    path.write_bytes(PACKAGE.build())
    subprocess.run(["dpkg-deb", "--control", str(path), str(tmp_path / "control")], check=True)
    assert (tmp_path / "control" / "conffiles").read_text() == "/etc/stand-in.conf\n"
    assert (tmp_path / "control" / "postinst").stat().st_mode & 0o777 == 0o755


def test_a_plugin_can_be_opened(tmp_path):
    path = tmp_path / "libnccl-net-ofi.so"
    path.write_bytes(plugin.compile_plugin("1.22.0"))
    ctypes.CDLL(str(path))
    assert b"aws-ofi-nccl 1.22.0" in path.read_bytes()


def test_a_plugin_whose_library_is_missing_cannot(tmp_path):
    path = tmp_path / "libnccl-net-ofi.so"
    path.write_bytes(plugin.compile_plugin("1.22.0", loadable=False))
    with pytest.raises(OSError, match=r"libmlcluster-nowhere\.so\.1"):
        ctypes.CDLL(str(path))


def test_every_file_has_its_sum(mirror):
    facts = json.loads((mirror / "facts.json").read_text())
    assert {"aws-efa-installer-1.51.0.tar.gz", "libnccl2_2.28.9-1+cuda13.0_all.deb"} <= facts["sha256"].keys()
    for name, expected in facts["sha256"].items():
        assert hashlib.sha256((mirror / name).read_bytes()).hexdigest() == expected


def signed_by(mirror, name: str, tmp_path) -> str:
    """What gpg says of the signature, with the key of the mirror alone in its keyring."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--no-autostart"]
    subprocess.run([*gpg, "--import", str(mirror / "aws-efa-installer.key")], check=True, capture_output=True)
    verify = [*gpg, "--status-fd", "1", "--verify", str(mirror / f"{name}.sig"), str(mirror / name)]
    return subprocess.run(verify, capture_output=True, text=True, check=False).stdout


def test_the_publisher_signed_it(mirror, tmp_path):
    fingerprint = json.loads((mirror / "facts.json").read_text())["fingerprint"]
    assert f"VALIDSIG {fingerprint}" in signed_by(mirror, "aws-efa-installer-1.51.0.tar.gz", tmp_path)


def test_a_stranger_signed_the_forged_one(mirror, tmp_path):
    said = signed_by(mirror, "forged/aws-efa-installer-1.51.0.tar.gz", tmp_path)
    assert "NO_PUBKEY" in said
    assert "VALIDSIG" not in said


def test_the_installer_lies_where_the_real_one_does(mirror):
    with tarfile.open(mirror / "aws-efa-installer-1.51.0.tar.gz") as archive:
        script = archive.getmember("./aws-efa-installer/efa_installer.sh")
        names = archive.getnames()
    assert script.mode == 0o755
    assert "./aws-efa-installer/DEBS/libnccl-ofi_1.22.0_all.deb" in names


def test_apt_reads_the_list_of_packages(mirror):
    (entry,) = [text for text in (mirror / "Packages").read_text().split("\n\n") if "Package: libgdrapi\n" in text]
    fields = dict(line.split(": ", 1) for line in entry.splitlines())
    file = mirror / fields["Filename"]
    assert int(fields["Size"]) == file.stat().st_size
    assert fields["SHA256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_nccl_tests_need_mpi(mirror, tmp_path):
    with tarfile.open(mirror / f"v{tree.NCCL_TESTS}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / f"nccl-tests-{tree.NCCL_TESTS}"
    make = ["make", "--directory", str(source), "MPI_HOME=/opt/amazon/openmpi"]
    assert subprocess.run(make, capture_output=True, check=False).returncode != 0
    subprocess.run([*make, "MPI=1"], capture_output=True, check=True)
    built = subprocess.run([str(source / "build" / "all_reduce_perf")], capture_output=True, text=True, check=True)
    assert built.stdout == "MPI_HOME=/opt/amazon/openmpi CUDA_HOME=\n"


def test_a_key_is_named_by_its_fingerprint(tmp_path_factory):
    key = signing.Key(tmp_path_factory.mktemp("k") / "h", "somebody <somebody@example.com>")
    try:
        assert len(key.fingerprint) == 40
        assert key.public().startswith(b"-----BEGIN PGP PUBLIC KEY BLOCK-----")
    finally:
        key.close()


def ask(served, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", served.server_port)
    connection.request("GET", path)
    return connection.getresponse()


def test_a_file_is_served_whole(served):
    answer = ask(served, "/file")
    assert (answer.status, len(answer.read())) == (200, 10000)
    assert served.log.read_text() == "GET /file 200\n"


def test_a_truncated_file_promises_more_than_it_gives(served):
    answer = ask(served, "/truncated/file")
    assert answer.headers["Content-Length"] == "10000"
    with pytest.raises(http.client.IncompleteRead):
        answer.read()


@pytest.mark.parametrize("path", ["/nothing", "/../secret", "/%2e%2e/secret", "/"])
def test_nothing_else_is_served(served, path):
    (served.folder.parent / "secret").write_text("x")
    assert ask(served, path).status == 404
    assert served.log.read_text() == f"GET {path} 404\n"


def test_archives_know_no_time():
    data = deb.packed({"/a/b": (b"x", 0o600)})
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert [(member.name, member.mode, member.mtime) for member in archive] == [
            ("./a", 0o755, 0),
            ("./a/b", 0o600, 0),
        ]
