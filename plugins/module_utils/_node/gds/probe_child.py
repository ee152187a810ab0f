# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Program that calls libcufile: it may hang or crash, so it runs as a separate process.

Its source is passed to a Python interpreter as text (it imports nothing of this collection); the only argument is a
JSON request. Each step is written as a line of JSON to the file descriptor "out" before and after it happens, so that
the parent knows the last step of a process that did not end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import sys
import threading
import time
import typing as t

OPAQUE_FD = 1
BLOCK = 1 << 20
PREFIX = ".mlcluster-gds-probe."
# No probe takes that long: an older file was left when the machine went down during a probe.
STALE_SECONDS = 3600
DIRECT = getattr(os, "O_DIRECT", 0)
REQUIRED = ("cuFileDriverOpen", "cuFileHandleRegister", "cuFileHandleDeregister", "cuFileRead", "cuFileWrite")


class Status(ctypes.Structure):
    """CUfileError_t: the library's own code and CUDA's."""

    _fields_ = [("err", ctypes.c_int), ("cu_err", ctypes.c_int)]


class HandleUnion(ctypes.Union):
    """The file descriptor, or a pointer that Linux does not use."""

    _fields_ = [("fd", ctypes.c_int), ("handle", ctypes.c_void_p)]


class Descriptor(ctypes.Structure):
    """CUfileDescr_t."""

    _fields_ = [("type", ctypes.c_int), ("handle", HandleUnion), ("fs_ops", ctypes.c_void_p)]


class StopError(Exception):
    """The run ends after a step whose result is reported."""


def report(out: int, **fields: t.Any) -> None:
    """Write one line to the parent, at once."""
    os.write(out, (json.dumps(fields) + "\n").encode())


def watch(request: dict[str, t.Any]) -> None:
    """End this process when its time is over or its parent is gone, and remove its files.

    Runs as a thread: a call that hangs inside libcufile does not hold Python's lock.
    """
    deadline = time.monotonic() + request["seconds"]
    while time.monotonic() < deadline and os.getppid() == request["parent"]:
        time.sleep(0.2)
    shutil.rmtree(request["private"], ignore_errors=True)
    try:
        # Last, since a filesystem that does not answer blocks this thread too.
        if request.get("file"):
            os.unlink(request["file"])
    finally:
        os._exit(124)


def sweep(directory: str) -> None:
    """Remove files that a probe of this user left when the machine went down.

    Errors are ignored: files of other nodes' probes on a shared filesystem come and go.
    """
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    info = entry.stat(follow_symlinks=False)
                    if info.st_uid == os.geteuid() and time.time() - info.st_mtime > STALE_SECONDS:
                        os.unlink(entry.path)


def create(path: str) -> int:
    """Create a file for direct I/O. It has a name, since cuFile rejects O_TMPFILE and finds the mount by name."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags | DIRECT, 0o600)
    except FileExistsError:
        raise
    except OSError:
        # Some filesystems create the file and then refuse direct I/O.
        with contextlib.suppress(OSError):
            os.unlink(path)
        return os.open(path, flags, 0o600)


def load(request: dict[str, t.Any]) -> t.Any:
    """Return libcufile with the types of its functions. Raises StopError for an unknown library."""
    out = request["out"]
    report(out, begin="load")
    try:
        library = ctypes.CDLL(request["library"], use_errno=True)
    except OSError as error:
        report(out, step="load", problem=str(error))
        raise StopError from None
    absent = [name for name in REQUIRED if not hasattr(library, name)]
    version = ctypes.c_int(0)
    if hasattr(library, "cuFileGetVersion"):
        library.cuFileGetVersion.restype = Status
        library.cuFileGetVersion(ctypes.byref(version))
    report(out, step="load", absent=absent, version=version.value)
    if absent:
        raise StopError
    for name in ("cuFileDriverOpen", "cuFileHandleRegister", "cuFileBufRegister"):
        if hasattr(library, name):
            getattr(library, name).restype = Status
    for name in ("cuFileRead", "cuFileWrite"):
        function = getattr(library, name)
        function.restype = ctypes.c_ssize_t
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_longlong, ctypes.c_longlong]
    library.cuFileHandleDeregister.argtypes = [ctypes.c_void_p]
    library.cuFileHandleDeregister.restype = None
    return library


def report_status(out: int, step: str, status: Status) -> None:
    """Report a status. Raises StopError if it is an error."""
    report(out, step=step, err=status.err, cu_err=status.cu_err)
    if status.err != 0:
        raise StopError


def gpu_buffer(out: int, name: str) -> tuple[t.Any, t.Any] | None:
    """Return (libcuda, address of a buffer on the first GPU), or None with the reason reported."""
    try:
        cuda = ctypes.CDLL(name)
        functions = [getattr(cuda, function) for function in ("cuInit", "cuDeviceGet", "cuMemAlloc_v2")]
    except (OSError, AttributeError) as error:
        report(out, step="buffer", problem=str(error))
        return None
    device, context, address = ctypes.c_int(0), ctypes.c_void_p(), ctypes.c_ulonglong(0)
    calls = (
        ("cuInit", lambda: functions[0](0)),
        ("cuDeviceGet", lambda: functions[1](ctypes.byref(device), 0)),
        ("cuDevicePrimaryCtxRetain", lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)),
        ("cuCtxSetCurrent", lambda: cuda.cuCtxSetCurrent(context)),
        ("cuMemAlloc", lambda: functions[2](ctypes.byref(address), ctypes.c_size_t(BLOCK))),
    )
    for label, call in calls:
        code = call()
        if code != 0:
            report(out, step="buffer", problem="%s gave the CUDA error %d" % (label, code))
            return None
    return cuda, address


def write_and_read(request: dict[str, t.Any], library: t.Any, handle: t.Any) -> None:
    """Write a block of random bytes from GPU memory into the file, read it back into GPU memory, and compare."""
    out = request["out"]
    report(out, begin="buffer")
    found = gpu_buffer(out, request["cuda"])
    if found is None:
        raise StopError
    cuda, address = found
    report(out, step="buffer", err=0)
    sent = os.urandom(BLOCK)
    back = ctypes.create_string_buffer(BLOCK)
    size = ctypes.c_size_t(BLOCK)
    for step, function in (("write", library.cuFileWrite), ("read", library.cuFileRead)):
        report(out, begin=step)
        source = sent if step == "write" else bytes(BLOCK)
        code = cuda.cuMemcpyHtoD_v2(address, source, size)
        ctypes.set_errno(0)
        moved = function(handle, ctypes.c_void_p(address.value), BLOCK, 0, 0) if code == 0 else -1
        error = ctypes.get_errno() if moved == -1 else 0
        report(out, step=step, err=0 if moved == BLOCK else max(-moved, 1), cu_err=code, moved=moved, errno=error)
        if moved != BLOCK:
            raise StopError
    code = cuda.cuMemcpyDtoH_v2(back, address, size)
    if code != 0:
        report(out, step="buffer", problem="cuMemcpyDtoH gave the CUDA error %d" % code)
        raise StopError
    report(out, step="compare", err=0, same=back.raw == sent)


def make_file(request: dict[str, t.Any]) -> int | None:
    """Return a handle of the file to register, if one is requested."""
    if not request.get("file"):
        return None
    report(request["out"], begin="create")
    try:
        sweep(os.path.dirname(request["file"]))
        handle = create(request["file"])
    except OSError as error:
        report(request["out"], step="create", problem=f"{error.filename}: {error.strerror}")
        raise StopError from None
    report(request["out"], step="create", err=0)
    return handle


def run(request: dict[str, t.Any]) -> None:
    """Open the driver, then register the file if there is one, then move a block through GPU memory if asked."""
    out = request["out"]
    handle_of_file = make_file(request)
    library = load(request)
    report(out, begin="open")
    report_status(out, "open", library.cuFileDriverOpen())
    if handle_of_file is None:
        return
    descriptor = Descriptor(type=OPAQUE_FD, fs_ops=None)
    descriptor.handle.fd = handle_of_file
    handle = ctypes.c_void_p()
    report(out, begin="register")
    report_status(out, "register", library.cuFileHandleRegister(ctypes.byref(handle), ctypes.byref(descriptor)))
    if request.get("cuda"):
        write_and_read(request, library, handle)
    library.cuFileHandleDeregister(handle)


def main() -> None:
    """Run the program; end without the library's exit handlers, which may hang too."""
    request = json.loads(sys.argv[1])
    threading.Thread(target=watch, args=(request,), daemon=True).start()
    try:
        run(request)
    except StopError:
        report(request["out"], step="stopped")
    else:
        report(request["out"], step="done")
    if request.get("file"):
        with contextlib.suppress(OSError):
            os.unlink(request["file"])
    os._exit(0)


if __name__ == "__main__":
    main()
