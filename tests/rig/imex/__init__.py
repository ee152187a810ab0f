# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for NVIDIA's IMEX daemon and for the programs that start and query it."""

from __future__ import annotations

from pathlib import Path

PROGRAMS = ("nvidia-imex", "nvidia-imex-ctl", "systemctl")


def install(folder: Path) -> None:
    """Write the programs into a folder: the same file by several names, as the stand-in acts by its own name."""
    text = Path(__file__).with_name("imex_stand_in.py").read_text(encoding="utf-8")
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/usr/bin/python3\n{text}", encoding="utf-8")
        (folder / name).chmod(0o755)
