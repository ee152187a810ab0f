# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest

from tests.rig.vm import cache, image


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_key_follows_contents(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_debs_of_other_versions_are_stale() -> None:
    listed = "bash\t5.2-1\nlibc6:amd64\t2:2.41-12\n"
    files = ["bash_5.2-1_amd64.deb", "bash_5.1-9_amd64.deb", "libc6_2%3a2.41-12_amd64.deb", "zsh_1_amd64.deb"]
    assert image.stale_debs(files, listed) == ["bash_5.1-9_amd64.deb", "zsh_1_amd64.deb"]
