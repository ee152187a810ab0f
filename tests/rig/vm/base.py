# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshot that every guest starts from: a machine that has booted without NVMe disks."""

from __future__ import annotations

import time
from pathlib import Path

from . import accel, cache, image, plan, qemu
from .command import RigError, progress, run
from .node import Node

SNAPSHOT = "base"
# Enough for 16 disks of the largest size that a test fills; the files in it are sparse.
HARDWARE_GB = 64
BOOTS = 3
# Bad clocks were up to five times too fast. Waiting for ssh makes a clock look slow, never fast.
CLOCK_TOLERANCE = 1.05
# Nearly every remote Python program imports these: the snapshot has their files in memory.
WARM_UP = "python3 -c 'import json, subprocess, tempfile, zipfile, shutil, platform, ast, locale, signal'"


def key(image_folder: Path, accelerator: str) -> str:
    """Return the cache key of the base snapshot that the current inputs make."""
    here = Path(__file__).parent
    return cache.key_of(
        {
            "image": image_folder.name,
            "qemu": qemu.version(),
            "machine": qemu.argv(qemu.Machine(accelerator, qemu.INSTANCE_TYPE, 0)),
            "builder": cache.source_digest(here / "base.py"),
        }
    )


def make_disks(folder: Path, image_folder: Path) -> None:
    """Make the disks of a new machine: an overlay of the image, and an empty disk for the NVMe disks' contents."""
    root = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image_folder / "root.img")]
    run([*root, str(folder / "root.qcow2")], "making the root disk")
    raw = folder / "hw.raw"
    with open(raw, "wb") as disk:
        disk.truncate(HARDWARE_GB << 30)
    options = "lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0"
    mkfs = ["mkfs.ext4", "-q", "-F", "-L", "HW", "-m", "0", "-J", "size=16", "-E", options, str(raw)]
    run(mkfs, "making the hardware disk")
    run(["qemu-img", "convert", "-O", "qcow2", str(raw), str(folder / "hw.qcow2")], "converting the hardware disk")
    raw.unlink()
    host_key = (image_folder / "host_key.pub").read_text(encoding="utf-8").split()[:2]
    cache.write_private(folder / "known_hosts", f"{image.HOSTNAME} {' '.join(host_key)}\n")


def clock_problem(uptime: float, elapsed: float) -> str:
    """Return why a guest's clock is unusable, or an empty string.

    ``uptime`` is the guest's time since boot and ``elapsed`` the host's time since power-on, both in seconds. An
    emulated guest on a busy host may calibrate its time-stamp counter wrongly at boot. The error stays as long as the
    guest runs, also from a snapshot. A correct clock is never ahead of the host's.
    """
    if uptime <= elapsed * CLOCK_TOLERANCE:
        return ""
    return f"the guest counted {uptime:.0f} s in {elapsed:.0f} s"


def _boot(node: Node, accelerator: str) -> str:
    """Boot the node and take the snapshot, or return the problem of its clock. Raises RigError if it does not boot."""
    started = time.monotonic()
    try:
        node.power_on(accelerator, qemu.INSTANCE_TYPE)
        node.wait_ssh()
        progress(f"first boot: ssh after {time.monotonic() - started:.0f} s")
        settled = node.run("systemctl is-system-running --wait", check=False, timeout=300).out.strip()
        if settled != "running":
            failed = node.run("systemctl --failed --no-legend --plain", check=False).out
            raise RigError(f"the guest's first boot ended as {settled!r}, not as running: {failed}")
        node.run(f"{WARM_UP}; sync")
        uptime = float(node.run("cat /proc/uptime").out.split()[0])
        problem = clock_problem(uptime, time.monotonic() - started)
        node.close_ssh()
        if not problem:
            node.save_snapshot(SNAPSHOT)
        return problem
    finally:
        node.power_cut()


def ensure() -> tuple[Path, str]:
    """Return the folder of the base snapshot and the accelerator it was made with; build what is missing."""
    image_folder = image.ensure()
    accelerator = accel.choose(image_folder / "vmlinuz")

    def build(folder: Path) -> None:
        progress("booting the guest once to take the base snapshot (one to two minutes when emulated)")
        for boot in range(1, BOOTS + 1):
            make_disks(folder, image_folder)
            (folder / "plan.raw").write_bytes(plan.image(()))
            problem = _boot(Node(folder), accelerator)
            if not problem:
                break
            progress(f"boot {boot} of at most {BOOTS} is not kept: {problem}")
        else:
            raise RigError(f"{problem}, in {BOOTS} boots: try again when this machine is less busy")
        for name in ("plan.raw", "state.json", "ssh_config", "qemu.err", "console.log"):
            (folder / name).unlink(missing_ok=True)

    return cache.ensure("bases", key(image_folder, accelerator), build), accelerator
