# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The release that a plugin was built for, read without loading it."""

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
def test_version_numbers(number, version):
    assert slurm_version_text(number) == version
    assert read_spank_plugin(spank_plugin(number, "0.24.0")) == SpankPlugin(version, "0.24.0")


def test_plugin_that_hides_its_own_version():
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
        (b"\x7fELF\x01\x01" + bytes(60), "no 64-bit little-endian"),
        (b"\x7fELF\x02\x02" + bytes(60), "no 64-bit little-endian"),
        (b"\x7fELF\x02\x01" + bytes(90), "symbol table is damaged"),
        (b"\x7fELF\x02\x01", "symbol table is damaged"),
        (spank_plugin(symbol="something_else"), "no symbol plugin_version"),
    ],
)
def test_what_is_no_plugin(data, words):
    with pytest.raises(ElfError, match=words):
        read_spank_plugin(data)


def test_no_cut_makes_it_fail_in_another_way():
    whole = spank_plugin()
    for length in range(len(whole)):
        with pytest.raises(ElfError):
            read_spank_plugin(whole[:length])


def test_sections_that_point_anywhere_are_damage():
    whole = bytearray(spank_plugin())
    whole[0x28:0x30] = (1 << 60).to_bytes(8, "little")
    with pytest.raises(ElfError, match="damaged"):
        read_spank_plugin(bytes(whole))
