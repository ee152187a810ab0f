# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Slurm release of a plugin, read without loading it."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.pyxis_elf import (
    ElfError,
    SpankPlugin,
    read_spank_plugin,
    slurm_release,
    slurm_version_text,
)
from ansible_collections.mlcluster.aws.tests.unit.fakes.fake_rooted_host import spank_plugin


@pytest.mark.parametrize(
    ("number", "version"), [(0x160508, "22.05.8"), (0x170B0A, "23.11.10"), (0x180B05, "24.11.5"), (0x190B04, "25.11.4")]
)
def test_version_number_is_decoded(number, version):
    assert slurm_version_text(number) == version
    assert read_spank_plugin(spank_plugin(number, "0.24.0")) == SpankPlugin(version, "0.24.0")


def test_plugin_without_own_version_is_read():
    assert read_spank_plugin(spank_plugin(pyxis="")).pyxis_version is None


@pytest.mark.parametrize(
    ("version", "release"), [("23.11.10", "23.11"), ("24.11", "24.11"), ("23", None), ("", None), (None, None)]
)
def test_only_release_is_compared(version, release):
    assert slurm_release(version) == release


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not an ELF file"),
        (b"#!/bin/sh\n", "not an ELF file"),
        (b"\x7fELF\x01\x01" + bytes(60), "not a 64-bit little-endian"),
        (b"\x7fELF\x02\x02" + bytes(60), "not a 64-bit little-endian"),
        (b"\x7fELF\x02\x01" + bytes(90), "symbol table is damaged"),
        (b"\x7fELF\x02\x01", "symbol table is damaged"),
        (spank_plugin(symbol="something_else"), "no symbol plugin_version"),
    ],
)
def test_other_files_are_rejected(data, words):
    with pytest.raises(ElfError, match=words):
        read_spank_plugin(data)


def test_truncated_plugin_raises_only_elf_error():
    whole = spank_plugin()
    for length in range(len(whole)):
        with pytest.raises(ElfError):
            read_spank_plugin(whole[:length])


def test_bad_section_offsets_are_damage():
    whole = bytearray(spank_plugin())
    whole[0x28:0x30] = (1 << 60).to_bytes(8, "little")
    with pytest.raises(ElfError, match="damaged"):
        read_spank_plugin(bytes(whole))
