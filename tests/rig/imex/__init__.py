# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for the daemon of NVIDIA IMEX, and the programs that it is called by."""

from __future__ import annotations

from pathlib import Path

PROGRAMS = ("nvidia-imex", "nvidia-imex-ctl", "systemctl")


def install(folder: Path) -> None:
    """Write the programs into a folder: one file under each name, for the stand-in goes by the name of its call."""
    text = Path(__file__).with_name("imex_stand_in.py").read_text(encoding="utf-8")
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/usr/bin/python3\n{text}", encoding="utf-8")
        (folder / name).chmod(0o755)
