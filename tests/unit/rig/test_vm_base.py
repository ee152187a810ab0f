# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.rig.vm import base


@pytest.mark.parametrize("uptime, elapsed", [(40.0, 55.0), (55.0, 55.0), (10.0, 120.0)])
def test_clock_behind_ours_is_kept(uptime: float, elapsed: float):
    assert base.clock_problem(uptime, elapsed) == ""


def test_clock_ahead_is_not_kept():
    assert base.clock_problem(300.0, 60.0) == "the guest counted 300 s in 60 s"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """The rig without a machine: each boot gives the next of these problems."""
    problems: list[str] = []
    boots: list[str] = []

    def boot(node, accelerator):
        boots.append(accelerator)
        return problems.pop(0)

    monkeypatch.setattr(base.image, "ensure", lambda: tmp_path)
    monkeypatch.setattr(base.accel, "choose", str)
    monkeypatch.setattr(base, "key", lambda image, accelerator: "key")
    monkeypatch.setattr(base, "make_disks", lambda folder, image: None)
    monkeypatch.setattr(base, "_boot", boot)

    def ensure(kind, key, build):
        build(tmp_path)
        return tmp_path

    monkeypatch.setattr(base.cache, "ensure", ensure)
    return problems, boots


def test_boot_with_wrong_clock_is_repeated(machine):
    problems, boots = machine
    problems += ["the guest counted 300 s in 60 s", ""]
    base.ensure()
    assert len(boots) == 2


def test_repeatedly_wrong_clock_is_error(machine):
    problems, boots = machine
    problems += ["the guest counted 300 s in 60 s"] * base.BOOTS
    with pytest.raises(base.RigError, match=r"counted 300 s in 60 s, in 3 boots: try again when this machine"):
        base.ensure()
    assert len(boots) == base.BOOTS
