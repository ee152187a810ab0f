# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Complete and incomplete squashfs images."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.squashfs import incomplete
from ansible_collections.mlcluster.aws.tests.unit.fakes.fake_squashfs import image

CONTENT = bytes(range(256)) * 40


def judged(data: bytes) -> str | None:
    return incomplete(lambda offset, count: data[offset : offset + count], len(data))


def changed(offset: int, data: bytes) -> bytes:
    whole = image(CONTENT)
    return whole[:offset] + data + whole[offset + len(data) :]


@pytest.mark.parametrize("padded", [True, False])
def test_complete_images_are_accepted(padded):
    assert judged(image(CONTENT, padded)) is None
    assert judged(image(CONTENT, padded) + b"more") is None


def test_missing_file_is_reported():
    assert incomplete(lambda offset, count: b"", None) == "it is missing"


@pytest.mark.parametrize("left", [4, 95])
def test_truncated_superblock_is_reported(left):
    assert judged(image()[:left]) == f"it ends after {left} bytes"


@pytest.mark.parametrize("left", [96, 4096, 96 + len(CONTENT) + 13])
def test_truncated_image_is_reported(left):
    assert judged(image(CONTENT)[:left]) == f"it has {left} of {96 + len(CONTENT) + 14} bytes"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "has no squashfs header"),
        (b"<html>" * 100, "has no squashfs header"),
        (bytes(8192), "has no squashfs header"),
        (changed(28, b"\3\0"), "is invalid"),
        (changed(12, b"\0\0\0\0"), "is invalid"),
        (changed(22, b"\77\0"), "is invalid"),
        (changed(26, b"\0\0"), "names no table of ids"),
        (changed(48, bytes(8)), "names no table of ids"),
        (changed(48, b"\xff" * 8), "names no table of ids"),
        (changed(96 + len(CONTENT), bytes(14)), "its end was never written"),
    ],
)
def test_damaged_image_is_reported(data, words):
    assert words in judged(data)
