# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sources and checksums of downloaded files."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.downloads import artifact, downloads
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

BASE = "https://example.com/v4.1.2"
CAPS = {"name": "enroot-caps", "url": f"{BASE}/enroot%2Bcaps_4.1.2-1_amd64.deb", "sha256": "a" * 64}
PLAIN = {"name": "enroot", "url": f"{BASE}/enroot_4.1.2-1_amd64.deb", "sha256": ""}
SUM = {"enroot_4.1.2-1_amd64.deb": "b" * 64}


def test_default_source_is_publisher():
    answer = downloads([CAPS, PLAIN], checksums=SUM)
    assert (answer["problems"], answer["source"]) == ([], "upstream")
    assert [(file["url"], file["sha256"]) for file in answer["files"]] == [
        (CAPS["url"], "a" * 64),
        (PLAIN["url"], "b" * 64),
    ]
    assert answer["files"][0]["file"] == "enroot+caps_4.1.2-1_amd64.deb"


def test_mirror_url_encodes_plus_and_uses_own_file_name():
    (file,) = downloads([CAPS], mirror="https://mirror/x/")["files"]
    assert file["url"] == "https://mirror/x/enroot%2Bcaps_4.1.2-1_amd64.deb"
    names = {"enroot+caps_4.1.2-1_amd64.deb": "enroot-caps_4.1.2-1_amd64.deb"}
    (file,) = downloads([CAPS], mirror="https://mirror/x", names=names)["files"]
    assert file["url"] == "https://mirror/x/enroot-caps_4.1.2-1_amd64.deb"


def test_s3_url_keeps_file_name():
    (file,) = downloads([CAPS], mirror="s3://bucket/x/")["files"]
    assert file["url"] == "s3://bucket/x/enroot+caps_4.1.2-1_amd64.deb"


def test_unpublished_file_needs_mirror_or_folder():
    own = {"name": "pyxis", "file": "spank_pyxis-24.11.so", "sha256": "c" * 64}
    (file,) = downloads([own], mirror="https://mirror")["files"]
    assert (file["url"], file["sha256"]) == ("https://mirror/spank_pyxis-24.11.so", "c" * 64)
    assert downloads([own], folder="/srv")["files"][0]["url"] == "/srv/spank_pyxis-24.11.so"
    assert "spank_pyxis-24.11.so is not published" in downloads([own])["problems"][0]


def test_mirror_precedes_local_folder():
    (file,) = downloads([CAPS], folder="/srv/files")["files"]
    assert file["url"] == "/srv/files/enroot+caps_4.1.2-1_amd64.deb"
    assert downloads([CAPS], mirror="http://m", folder="/srv/files")["source"] == "mirror"
    assert downloads([CAPS], "local", mirror="http://m", folder="/srv/files")["source"] == "local"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "the checksum of enroot_4.1.2-1_amd64.deb is unknown, so it is not installed: run make lock-artifacts"),
        ({"source": "preinstalled", "checksums": SUM}, "the node lacks the software in enroot_4.1.2-1_amd64.deb and"),
        ({"mirror": "ftp://host/x", "checksums": SUM}, "set the http, https or s3 address of the folder with enroot_"),
        ({"mirror": "s3:///x", "checksums": SUM}, "set the http, https or s3 address of the folder with enroot_"),
        ({"source": "mirror", "checksums": SUM}, "enroot_pyxis_mirror_url is ''"),
        ({"source": "local", "checksums": SUM}, "enroot_pyxis_local_files is empty"),
    ],
)
def test_missing_checksum_or_source_is_reported(arguments, words):
    (problem,) = downloads([PLAIN], **arguments)["problems"]
    assert words in problem


def test_empty_request_has_no_problem():
    assert downloads([], "preinstalled") == {"files": [], "problems": [], "source": "preinstalled"}


TABLE = [
    {
        "name": "enroot",
        "platform": "deb-amd64",
        "url": f"{BASE}/enroot_{{version}}-1_amd64.deb",
        "sums": {"4.1.2": "a"},
    },
    {"name": "pyxis", "platform": "any", "url": "https://example.com/v{version}.tar.gz", "sums": {}},
]


def test_artifact_has_checksum_of_its_version_only():
    assert artifact(TABLE, "enroot", "deb-amd64", "4.1.2") == {
        "name": "enroot",
        "url": f"{BASE}/enroot_4.1.2-1_amd64.deb",
        "sha256": "a",
    }
    assert artifact(TABLE, "enroot", "deb-amd64", "9.9.9")["sha256"] == ""
    assert artifact(TABLE, "pyxis", "rpm-x86_64", "0.24.0")["url"] == "https://example.com/v0.24.0.tar.gz"


def test_artifact_for_unknown_platform_is_rejected():
    with pytest.raises(NodeError, match="looked for enroot for deb-arm64 and found none to download"):
        artifact(TABLE, "enroot", "deb-arm64", "4.1.2")
