# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import io
import struct
import tarfile
from pathlib import Path

import pytest

from tests.rig.vm import cache, image
from tests.rig.vm.command import RigError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_boot_area_is_a_boot_sector_with_one_partition_and_grub_behind_it() -> None:
    area = image.boot_area(b"\xeb" * 512, b"core", 1000)
    assert len(area) == 512 + 4
    assert area[:440] == b"\xeb" * 440
    assert area[510:512] == b"\x55\xaa"
    active, _chs, kind, _chs_end, first, sectors = struct.unpack("<B3sB3sII", area[446:462])
    assert (active, kind, first, sectors) == (0x80, 0x83, image.FIRST_SECTOR, 1000)
    assert area[462:510] == bytes(48)
    assert area[512:] == b"core"


def test_boot_area_refuses_a_core_that_would_reach_into_the_partition() -> None:
    room = (image.FIRST_SECTOR - 1) * image.SECTOR
    assert len(image.boot_area(b"", b"x" * room, 1)) == image.FIRST_SECTOR * image.SECTOR
    with pytest.raises(RigError, match="more than fit"):
        image.boot_area(b"", b"x" * (room + 1), 1)


def test_overlay_tar_is_stable_and_owned_by_root() -> None:
    files = image.overlay("ssh-ed25519 AAAA test\n")
    data = image.overlay_tar(files)
    assert data == image.overlay_tar(dict(reversed(list(files.items()))))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert {member.uid for member in members.values()} == {0}
        assert members["root/.ssh"].mode == 0o700
        assert members["root/.ssh/authorized_keys"].mode == 0o600
        premount = members["etc/initramfs-tools/scripts/init-premount/ec2-disks"]
        assert premount.mode == 0o755
        found = archive.extractfile(premount)
        assert found is not None and found.read() == (image.GUEST_FILES / "ec2-disks.sh").read_bytes()
        names = [member.name for member in archive.getmembers()]
        assert all(str(Path(name).parent) in (".", *names[:at]) for at, name in enumerate(names))


def test_the_key_follows_the_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cache.root() / "ssh"
    folder.mkdir()
    (folder / "id_ed25519").write_text("private")
    (folder / "id_ed25519.pub").write_text("ssh-ed25519 AAAA one\n")
    first = image.key()
    assert image.key() == first
    monkeypatch.setattr(image, "PACKAGES", (*image.PACKAGES, "fio"))
    second = image.key()
    (folder / "id_ed25519.pub").write_text("ssh-ed25519 AAAA two\n")
    assert len({first, second, image.key()}) == 3


def test_hooks_keep_a_path_with_spaces_in_one_word(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    lines = image.hooks(folder, tmp_path / "debs")
    named = [line for line in lines if "a b" in line]
    assert len(named) >= 5
    assert all(f"'{folder}'" in line for line in named)


def test_debs_of_other_versions_are_stale() -> None:
    listed = "bash\t5.2-1\nlibc6:amd64\t2:2.41-12\n"
    files = ["bash_5.2-1_amd64.deb", "bash_5.1-9_amd64.deb", "libc6_2%3a2.41-12_amd64.deb", "zsh_1_amd64.deb"]
    assert image.stale_debs(files, listed) == ["bash_5.1-9_amd64.deb", "zsh_1_amd64.deb"]
