# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two raw recordings for tests/gpu/run, by ctypes: libcufile's log, and an all-reduce of NCCL on one GPU.

Usage: one_gpu.py cufile LOG | nccl
Exit status 0: done; 1: a library is missing or returned an error, with a message; 3: usage.
"""

from __future__ import annotations

import ctypes
import os
import sys

COUNT = 1 << 20
# ncclDataType_t and ncclRedOp_t of nccl.h.
FLOAT32, SUM = 7, 0
TO_DEVICE, TO_HOST = 1, 2


class OneGpuError(Exception):
    """An error that prevents a recording, with its reason."""


class Status(ctypes.Structure):
    """CUfileError_t."""

    _fields_ = [("err", ctypes.c_int), ("cu_err", ctypes.c_int)]


def load(*names: str) -> ctypes.CDLL:
    """Return the first of these libraries that can be loaded."""
    problems = []
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            problems.append(str(error))
    raise OneGpuError(f"{names[0]} cannot be loaded: {'; '.join(problems)}")


def cufile(log: str) -> None:
    """Open libcufile's driver with the node's settings; it writes a log, which is kept if it hangs."""
    os.environ.update(CUFILE_LOGFILE_PATH=log, CUFILE_LOGGING_LEVEL="INFO")
    library = load("libcufile.so.0", "/usr/local/cuda/lib64/libcufile.so.0")
    library.cuFileDriverOpen.restype = Status
    status = library.cuFileDriverOpen()
    if status.err:
        raise OneGpuError(f"cuFileDriverOpen gave {status.err}, CUDA {status.cu_err}")


def nccl() -> None:
    """Sum a GPU's numbers over one rank and compare the result; NCCL logs by NCCL_DEBUG."""
    library = load("libnccl.so.2")
    cuda = load("libcudart.so.13", "libcudart.so.12", "/usr/local/cuda/lib64/libcudart.so")

    def call(name: str, *arguments: object) -> None:
        owner = library if name.startswith("nccl") else cuda
        code = getattr(owner, name)(*arguments)
        if code:
            raise OneGpuError(f"{name} gave the error {code}")

    sent = (ctypes.c_float * COUNT)(*(float(number % 1000) for number in range(COUNT)))
    got = (ctypes.c_float * COUNT)()
    size = ctypes.c_size_t(ctypes.sizeof(sent))
    source, target, communicator = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cudaMalloc", ctypes.byref(source), size)
    call("cudaMalloc", ctypes.byref(target), size)
    call("cudaMemcpy", source, sent, size, TO_DEVICE)
    call("ncclCommInitAll", ctypes.byref(communicator), 1, (ctypes.c_int * 1)(0))
    call("ncclAllReduce", source, target, ctypes.c_size_t(COUNT), FLOAT32, SUM, communicator, None)
    call("cudaDeviceSynchronize")
    call("cudaMemcpy", got, target, size, TO_HOST)
    call("ncclCommDestroy", communicator)
    if bytes(got) != bytes(sent):
        raise OneGpuError("the sum over one rank differs from what went in")
    sys.stdout.write(f"all_reduce of {COUNT} floats over one rank: equal\n")


def main() -> int:
    """Run the requested recording."""
    words = sys.argv[1:]
    if (words[:1], len(words)) not in ((["cufile"], 2), (["nccl"], 1)):
        sys.stderr.write("usage: one_gpu.py cufile LOG | nccl\n")
        return 3
    try:
        cufile(words[1]) if words[0] == "cufile" else nccl()
    except OneGpuError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
