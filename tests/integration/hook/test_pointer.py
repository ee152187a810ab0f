# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook and the signed pointer: releases and rollbacks without a change of the cluster."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest

from plugins.module_utils._bundle import pointer
from tests.integration.hook.conftest import BUCKET, Node, build_bundle
from tests.integration.hook.faults import error, times

PYTHON = f"py3.{sys.version_info[1]}"


class Releases:
    """A pointer on disk, signed with the key; ``words`` are the options of a node that follows it."""

    def __init__(self, folder: Path, key: Path, bundle: tuple[Path, str]) -> None:
        self.path, self.key, self.bundle = folder / "pointer", key, bundle
        self.words = ["--pointer", str(self.path), "--public-key", pointer.public_key(key), "--roles", "mark"]

    def move(
        self, version: str, floor: str = "", family: str = "debian", bundle: tuple[Path, str] | None = None
    ) -> None:
        """Write a signed pointer to a version."""
        path, sha = bundle or self.bundle
        contents = {"schema": pointer.SCHEMA, "version": version, "issued": "2026-11-28T00:00:00Z"}
        contents |= {"floor": floor} if floor else {}
        contents["bundles"] = {f"{family}-{PYTHON}": {"url": str(path), "sha256": sha}}
        self.sign(pointer.to_text(contents))

    def sign(self, text: str) -> None:
        """Write a text with its signature."""
        self.path.write_bytes(base64.b64encode(pointer.sign(text.encode(), self.key)) + b"\n" + text.encode())


@pytest.fixture
def releases(tmp_path, key, bundle) -> Releases:
    return Releases(tmp_path, key, bundle)


def state(ran) -> tuple[str, str]:
    """Return state and message of a run."""
    return ran.status["state"], ran.status["message"]


def unpacked(node: Node) -> list[str]:
    """Return the names of the unpacked bundles."""
    return sorted(path.name for path in (node.root / "opt/mlcluster/bundles").iterdir())


def test_moved_pointer_releases_and_rolls_back(node: Node, releases, bundle, tmp_path):
    other = tmp_path / "other.tar.gz"
    sha = build_bundle(other, version="2.0.0")
    releases.move("1.2.3")
    assert node.run(*releases.words).status["bundle"]["version"] == "1.2.3"
    releases.move("2.0.0", bundle=(other, sha))
    ran = node.run(*releases.words)
    assert state(ran)[0] == "configured" and ran.status["bundle"]["version"] == "2.0.0", ran.out
    releases.move("1.2.3")
    ran = node.run(*releases.words)
    assert ran.status["bundle"] == {"source": str(releases.path), "sha256": bundle[1], "version": "1.2.3"}
    assert unpacked(node) == sorted([sha, bundle[1]])
    # Of the older bundles, the one that was used last is kept.
    newest = tmp_path / "newest.tar.gz"
    newest_sha = build_bundle(newest, version="3.0.0")
    releases.move("3.0.0", bundle=(newest, newest_sha))
    assert node.run(*releases.words).status["bundle"]["version"] == "3.0.0"
    assert unpacked(node) == sorted([bundle[1], newest_sha])


def test_floor_is_remembered_and_may_be_pinned(node: Node, releases):
    releases.move("1.3.0", floor="1.3.0")
    assert state(node.run(*releases.words))[0] == "configured"
    releases.move("1.2.9")
    ran = node.run(*releases.words)
    assert state(ran)[0] == "drained" and "pointer names version 1.2.9 and the floor is 1.3.0" in state(ran)[1]
    releases.move("1.10.0")
    assert state(node.run(*releases.words, "--version-floor", "1.9.0"))[0] == "configured"
    assert not node.marker.exists()
    ran = node.run(*releases.words, "--version-floor", "1.11.0")
    assert "pointer names version 1.10.0 and the floor is 1.11.0" in state(ran)[1]


@pytest.mark.parametrize("damage", [b"1.x\xff\n", b"", b"1\0.3\n", b"1" * 999, None])
def test_damaged_floor_is_reported(node: Node, releases, damage):
    floor = node.root / "var/lib/mlcluster/version_floor"
    floor.parent.mkdir(parents=True)
    if damage is None:
        floor.mkdir()
    else:
        floor.write_bytes(damage)
    releases.move("1.2.9")
    ran = node.run(*releases.words)
    assert (
        state(ran)[0] == "drained"
        and "mlcluster/version_floor is not a version such as 1.2.3: correct it" in state(ran)[1]
    )


def test_unsigned_pointer_is_not_used(node: Node, releases, tmp_path):
    releases.move("1.2.3")
    signed = releases.path.read_bytes()
    releases.path.write_bytes(signed.replace(b"1.2.3", b"9.2.3"))
    ran = node.run(*releases.words)
    assert state(ran)[0] == "drained" and "is not one of the pinned key" in state(ran)[1]
    assert not list((node.root / "opt/mlcluster/bundles").iterdir())
    releases.path.write_bytes(signed)
    assert state(node.run(*releases.words))[0] == "configured"


def test_pointer_without_checksum_is_not_followed(node: Node, releases, bundle):
    # The checksum is a path component below the bundles' directory, and this path exists.
    releases.move("1.2.3", bundle=(bundle[0], "../bundles"))
    ran = node.run(*releases.words)
    assert state(ran)[0] == "drained" and "has no bundle for debian with this node's Python" in state(ran)[1]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("mlcluster.other/1\nversion 1.2.3\n", "names version none that this hook reads and the floor is 0"),
        ("mlcluster.pointer/1\n", "names version none that this hook reads and the floor is 0"),
        ("mlcluster.pointer/1\nversion 1.2.3\n", "has no bundle for debian with this node's Python"),
        ("mlcluster.pointer/1\nversion 0.1\nversion 1.2.3\n", "names version 0.1 1.2.3 and the floor is 0"),
        ("mlcluster.pointer/1\nversion soon\n", "names version soon and the floor is 0"),
        # A remembered floor like this would reject all later pointers.
        ("mlcluster.pointer/1\nversion 1.2.3\nfloor 1.2.2 b\n", "names version 1.2.3 and the floor is 1.2.2 b"),
    ],
)
def test_signed_text_that_is_not_pointer_is_not_followed(node: Node, releases, text, sentence):
    releases.sign(text)
    ran = node.run(*releases.words)
    assert state(ran)[0] == "drained" and sentence in state(ran)[1]


def test_node_of_other_family_gets_list_of_bundles(node: Node, releases):
    (node.root / "etc").mkdir()
    (node.root / "etc/os-release").write_text('ID="amzn"\nID_LIKE="fedora"\n')
    releases.move("1.2.3")
    ran = node.run(*releases.words)
    reason = f"has no bundle for amazon with this node's Python (3.{sys.version_info[1]}), but for debian-{PYTHON}"
    assert reason in state(ran)[1]
    releases.move("1.2.3", family="amazon")
    assert state(node.run(*releases.words))[0] == "configured"


def without(node: Node, folder: Path, **programs: str) -> str:
    """Return a PATH with the node's programs, of which scripts replace some."""
    folder.mkdir()
    for program in node.programs.iterdir():
        (folder / program.name).symlink_to(program)
    for name, text in programs.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_last_line_without_newline_counts(node: Node, releases, bundle, tmp_path):
    # Comes after the Python that has a bundle.
    path = without(node, tmp_path / "bin", **{"python3.19": "echo 19"})
    releases.sign(f"{pointer.SCHEMA}\nversion 1.2.3\nbundle debian-{PYTHON} {bundle[0]} {bundle[1]}")
    assert state(node.run(*releases.words, PATH=path))[0] == "configured"


def test_hanging_or_noisy_python_is_skipped(node: Node, releases, tmp_path):
    # The time limit of the hanging Python, and of no other, is shorter than on a node.
    bound = f'[ "$2" != python3 ] || set -- 1 "$2"; exec {node.programs}/timeout "$@"'
    noisy = f'echo noise; printf more; exec "{sys.executable}" "$@"'
    programs = {"timeout": bound, "python3": "exec sleep 600", f"python3.{sys.version_info[1]}": noisy}
    releases.move("1.2.3")
    assert state(node.run(*releases.words, PATH=without(node, tmp_path / "bin", **programs)))[0] == "configured"


def test_presigned_pointer_is_followed_and_stays_secret(node: Node, releases, stored, proxy, moto):
    releases.move("1.2.3")
    stored.upload_file(str(releases.path), BUCKET, "pointer")
    url = stored.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "pointer"}).replace(moto, proxy.url)
    ran = node.run("--pointer", url, *releases.words[2:])
    assert state(ran)[0] == "configured" and len(proxy.requests) == 1
    proxy.faults = [times(9, error(404, "NoSuchKey"))]
    wrong = node.run("--pointer", url, *releases.words[2:])
    assert state(wrong)[1].startswith(f"could not get {proxy.url}/{BUCKET}/pointer: curl: (22)")
    reported = (
        ran.out + ran.log + json.dumps(ran.status) + wrong.out + wrong.log + json.dumps(wrong.status) + node.reason()
    )
    assert "Signature" not in reported
