# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detects whether KVM works on this machine, by running a stock kernel."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Optional

from . import cache, qemu
from .command import progress, spawn, wait_for

# A kernel without a root filesystem ends with this message. By then it has used all that a guest needs of KVM.
PROOF = "Unable to mount root fs"
PROBE_SECONDS = 20.0


def verdict(console: str, errors: str, ended: bool, seconds: float) -> Optional[str]:
    """Return "kvm", the reason why KVM does not work, or None while the result of the probe is open."""
    if PROOF in console:
        return "kvm"
    if "KVM internal error" in errors:
        return "the guest stopped with an internal error of KVM"
    if ended:
        return f"QEMU ended: {errors.strip().splitlines()[-1] if errors.strip() else 'no error output'}"
    if seconds >= PROBE_SECONDS:
        return f"the kernel of the probe did not boot far enough within {PROBE_SECONDS:.0f} s"
    return None


def _probe(kernel: Path) -> str:
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "this user cannot open /dev/kvm"
    with tempfile.TemporaryDirectory(prefix="mlcluster-kvm-") as name:
        folder = Path(name)
        argv = [
            qemu.PROGRAM, "-M", "q35", "-accel", "kvm", "-cpu", "qemu64", "-m", "256", "-nodefaults", "-no-user-config",
            "-display", "none", "-no-reboot", "-kernel", str(kernel), "-append", "console=ttyS0 panic=-1",
            "-serial", "file:console.log",
        ]  # fmt: skip
        with open(folder / "qemu.err", "wb") as errors:
            process = spawn(argv, cwd=folder, stderr=errors)
        started = time.monotonic()

        def look() -> Optional[str]:
            ended = process.poll() is not None
            console = folder / "console.log"
            output = console.read_text(errors="replace") if console.exists() else ""
            return verdict(output, (folder / "qemu.err").read_text(errors="replace"), ended, time.monotonic() - started)

        try:
            return wait_for("KVM to run a kernel", look, timeout=PROBE_SECONDS + 10, poll=0.2)
        finally:
            process.kill()
            process.wait()


def choose(kernel: Path) -> str:
    """Return "kvm" or "tcg" for guests with this kernel; print the reason if it is not KVM.

    The probe runs once per kernel, QEMU version and boot of the host.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    info = kernel.stat()
    key = cache.key_of({"kernel": [str(kernel), info.st_size, info.st_mtime_ns], "qemu": qemu.version(), "boot": boot})
    memo = cache.root() / "kvm.json"
    with cache.locked("kvm", "the KVM probe"):
        try:
            known = json.loads(memo.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            known = {}
        if known.get("key") != key:
            known = {"key": key, "found": _probe(kernel)}
            cache.write_private(memo, json.dumps(known))
    if known["found"] == "kvm":
        return "kvm"
    progress(f"no KVM ({known['found']}): the guest is emulated, several times slower")
    return "tcg"
