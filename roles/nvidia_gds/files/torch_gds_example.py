#!/usr/bin/env python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write a tensor from GPU memory to a file and read it back, through torch.cuda.gds (PyTorch 2.7 or newer).

Usage: torch_gds_example.py DIRECTORY [MIB]
Exit status 0: equal; 1: different; 2: could not be run, with the reason in one sentence; 3: usage.

It works in compatibility mode too, and its figures do not show which path was used; mlcluster gds --active DIRECTORY
does.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import typing as t


class UnavailableError(Exception):
    """The test cannot run here; the message is the reason in one sentence."""


def load_torch() -> tuple[t.Any, t.Any]:
    """Return the modules torch and torch.cuda.gds of a PyTorch that can use a GPU here."""
    try:
        import torch
        from torch.cuda import gds
    except ImportError as error:
        raise UnavailableError(
            f"PyTorch with torch.cuda.gds is not installed ({error}): install 2.7 or newer"
        ) from None
    if not torch.cuda.is_available():
        raise UnavailableError(
            f"PyTorch {torch.__version__} finds no GPU with CUDA: install a build with CUDA, and check nvidia-smi"
        )
    return torch, gds


def copy(torch: t.Any, gds: t.Any, name: str, mib: int) -> tuple[bool, list[float]]:
    """Return (whether the data read equals the data written, the seconds of the write and of the read)."""
    source = torch.randint(0, 256, (mib << 20,), dtype=torch.uint8, device="cuda")
    target = torch.zeros_like(source)
    storages = [source.untyped_storage(), target.untyped_storage()]
    # Registered buffers are used directly; others are copied through a buffer of libcufile.
    for storage in storages:
        gds.gds_register_buffer(storage)
    file = gds.GdsFile(name, os.O_CREAT | os.O_RDWR)
    seconds = []
    for step, storage in zip((file.save_storage, file.load_storage), storages):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step(storage, offset=0)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    file.deregister_handle()
    for storage in storages:
        gds.gds_deregister_buffer(storage)
    return bool(torch.equal(source, target)), seconds


def main(directory: str, mib: int) -> int:
    """Print the result as one line and return the exit status."""
    try:
        torch, gds = load_torch()
        handle, name = tempfile.mkstemp(prefix=".torch-gds-", dir=directory)
        os.close(handle)
        try:
            is_equal, seconds = copy(torch, gds, name, mib)
        finally:
            os.unlink(name)
    except (UnavailableError, OSError, RuntimeError) as error:
        # PyTorch reports an error of libcufile as a RuntimeError.
        sys.stderr.write(f"{' '.join(str(error).split())}\n")
        return 2
    write, read = (mib / 1024 / one for one in seconds)
    print(f"write {write:.2f} GiB/s, read {read:.2f} GiB/s, {'equal' if is_equal else 'DIFFERENT'}")
    return 0 if is_equal else 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not all(word.isdecimal() and int(word) for word in sys.argv[2:]):
        sys.stderr.write("usage: torch_gds_example.py DIRECTORY [MIB]\n")
        sys.exit(3)
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 256))
