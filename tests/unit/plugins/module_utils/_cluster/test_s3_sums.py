# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import hashlib
import io

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import s3_sums
from hypothesis import given
from hypothesis import strategies as st

# The check value of CRC-64/NVME in the specification.
CHECK = 0xAE8B14860A799888


def test_crc64_has_check_value_of_specification():
    assert s3_sums._slow_crc64(b"123456789") == CHECK


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_crc64_can_be_continued(first, second):
    assert s3_sums._slow_crc64(second, s3_sums._slow_crc64(first)) == s3_sums._slow_crc64(first + second)


def test_awscrt_is_used_if_installed(monkeypatch):
    import sys
    import types

    module = types.ModuleType("awscrt.checksums")
    module.crc64nvme = lambda data, before=0: 42
    monkeypatch.setitem(sys.modules, "awscrt", types.ModuleType("awscrt"))
    monkeypatch.setitem(sys.modules, "awscrt.checksums", module)
    assert s3_sums.crc64_of()(b"") == 42


@given(st.binary(max_size=40), st.integers(1, 16))
def test_sha256_is_computed_of_parts(data, step):
    parts = [data[start : start + step] for start in range(0, len(data), step)] or [b""]
    digests = [hashlib.sha256(part).digest() for part in parts]
    found = s3_sums.sums(io.BytesIO(data), "sha256", step)
    assert found.parts == [base64.b64encode(digest).decode() for digest in digests]
    assert (found.size, found.field, found.algorithm) == (len(data), "ChecksumSHA256", "SHA256")
    if len(parts) == 1:
        assert (found.whole, found.kind) == (found.parts[0], "FULL_OBJECT")
    else:
        whole = base64.b64encode(hashlib.sha256(b"".join(digests)).digest()).decode()
        assert (found.whole, found.kind) == (f"{whole}-{len(parts)}", "COMPOSITE")


@given(st.binary(max_size=40), st.integers(1, 16), st.integers(1, 16))
def test_crc64_does_not_depend_on_parts(data, one, other):
    first, second = (s3_sums.sums(io.BytesIO(data), "crc64nvme", step) for step in (one, other))
    assert first.whole == second.whole
    assert (first.kind, first.field) == ("FULL_OBJECT", "ChecksumCRC64NVME")


@pytest.mark.parametrize(
    ("size", "mib"), [(0, 32), (32 * 10000 << 20, 32), ((32 * 10000 << 20) + 1, 64), (5 << 40, 1024)]
)
def test_number_of_parts_is_limited(size, mib):
    assert s3_sums.part_bytes(size, 32) == mib << 20
