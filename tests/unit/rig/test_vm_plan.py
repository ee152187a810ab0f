# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rig.vm import plan
from tests.rig.vm.command import RigError

layouts = st.builds(
    plan.make,
    disks=st.sampled_from(plan.DISK_COUNTS),
    ebs=st.sampled_from(plan.EBS_COUNTS),
    disk_mb=st.integers(64, 1048576),
    ebs_mb=st.just(512),
    generation=st.integers(1, 40),
)


@given(layouts)
def test_a_plan_has_what_ec2_shows(disks: plan.Plan) -> None:
    serials = [disk.serial for disk in disks]
    assert len(set(serials)) == len(serials)
    assert len({disk.file for disk in disks}) == len(disks)
    for disk in disks:
        assert len(disk.serial) == 20
        assert disk.serial.startswith("AWS" if disk.is_instance_store else "vol0")
        assert disk.model == (plan.INSTANCE_STORE if disk.is_instance_store else plan.EBS)


@given(layouts)
def test_the_plan_disk_brings_the_plan_back(disks: plan.Plan) -> None:
    image = plan.image(disks)
    assert len(image) == plan.PLAN_BYTES
    assert b"\0" not in image
    assert plan.load(image.decode()) == disks


@given(layouts, st.integers(0, 1000))
def test_reshuffled_has_the_same_disks_in_another_order(disks: plan.Plan, seed: int) -> None:
    order = plan.reshuffled(disks, seed)
    assert sorted(order) == sorted(disks)
    assert plan.reshuffled(disks, seed) == order
    assert order != disks or len(disks) < 2


def test_a_new_generation_changes_instance_store_only() -> None:
    before = plan.make(4, 2, 1024, 512, generation=1)
    after = plan.make(4, 2, 1024, 512, generation=2)
    assert before[:2] == after[:2]
    assert not {disk.serial for disk in before[2:]} & {disk.serial for disk in after[2:]}
    assert not {disk.file for disk in before[2:]} & {disk.file for disk in after[2:]}


def test_without_takes_the_disk_of_that_slot() -> None:
    disks = plan.make(4, 1, 1024, 512)
    left = plan.without(plan.reshuffled(disks, 3), 2)
    assert sorted(disk.slot for disk in left if disk.is_instance_store) == [0, 1, 3]
    assert sum(not disk.is_instance_store for disk in left) == 1


def test_without_says_which_disks_there_are() -> None:
    disks = plan.without(plan.make(3, 1, 1024, 512), 1)
    with pytest.raises(RigError, match=r"no instance-store disk number 1: the guest has 0, 2\."):
        plan.without(disks, 1)
    with pytest.raises(RigError, match="the guest has none"):
        plan.without(plan.make(0, 1, 1024, 512), 0)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ((5, 1, 1024, 512), "5 instance-store disks were asked for: choose one of 0, 1, 2, 3, 4, 8, 16"),
        ((4, 3, 1024, 512), "3 EBS volumes were asked for: choose one of 1, 2"),
        ((4, 1, 1, 512), "disks of 1 MiB"),
    ],
)
def test_impossible_layouts_are_refused(layout: tuple[int, int, int, int], words: str) -> None:
    with pytest.raises(RigError, match=words):
        plan.make(*layout)


@pytest.mark.parametrize("line", ["a|b|c", "a|b|c|x", "words"])
def test_a_damaged_plan_is_refused(line: str) -> None:
    with pytest.raises(RigError, match="which is not file"):
        plan.load(f"{line}\n")


def test_a_foreign_backing_file_is_refused() -> None:
    with pytest.raises(RigError, match="did not make"):
        assert plan.Disk("disk0", plan.EBS, "vol0", 1).slot
