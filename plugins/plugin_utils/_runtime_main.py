# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the command: this file is ``__main__.py`` of ``mlcluster.pyz``.

Python compiles the sources of an archive at each start, two thirds of the CPU time of a short command. So the first
start of the installed archive as root keeps a copy with compiled modules for that Python, and later starts import from
there. If anything about the copy is not as root left it, the archive itself is used.

It has to report to a Python older than 3.9 that it is too old, so nothing here needs a newer one than 3.6.
"""

import contextlib
import os
import stat
import sys

OLDEST = (3, 9)
INSTALLED = "/usr/local/lib/mlcluster/mlcluster.pyz"


def end(code: int, text: str) -> None:
    """End with a line on standard error."""
    # A closed or full standard error takes no line; the exit code remains.
    with contextlib.suppress(OSError):
        os.write(2, f"mlcluster{text}\n".encode("utf-8", "replace"))
    sys.exit(code)


def belongs_to_root(state: os.stat_result) -> bool:
    """Return whether only root can have created or changed it."""
    return state.st_uid == 0 and not state.st_mode & 0o022


def compiled_copy(archive: str) -> str:
    """Return the path of the archive's compiled copy, which root's first start creates; empty without one.

    Its name changes with the archive and with the format of compiled modules.
    """
    from importlib.util import MAGIC_NUMBER

    state = os.stat(archive)
    folder = os.path.join(os.path.dirname(archive), "__pycache__")
    begin = f"mlcluster-{state.st_ino}-{state.st_size}-{state.st_mtime_ns}-"
    path = os.path.join(folder, f"{begin}{MAGIC_NUMBER.hex()}.pyz")
    if not os.path.lexists(path):
        if os.geteuid() or sys.dont_write_bytecode or not belongs_to_root(state):
            return ""
        compile_archive(archive, folder, path, begin)
    of_folder, of_file = os.lstat(folder), os.lstat(path)
    kinds = stat.S_ISDIR(of_folder.st_mode) and stat.S_ISREG(of_file.st_mode)
    return path if kinds and belongs_to_root(of_folder) and belongs_to_root(of_file) else ""


def compile_archive(archive: str, folder: str, path: str, begin: str) -> None:
    """Write the compiled copy, and remove those of earlier archives. Raises OSError."""
    import importlib.util
    import io
    import marshal
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data)
            if name.endswith(".py"):
                code = compile(data, f"{path}/{name}", "exec", dont_inherit=True)
                # PEP 552: a compiled module that ignores dates, since its source never changes.
                head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(data)
                target.writestr(f"{name}c", head + marshal.dumps(code))
    os.makedirs(folder, mode=0o755, exist_ok=True)
    # Two concurrent first starts write a copy each, and the later one remains.
    fresh = f"{path}.{os.getpid()}"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fchmod(handle, 0o644)
            os.fsync(handle)
        os.rename(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
    for name in os.listdir(folder):
        if name.startswith("mlcluster-") and not name.startswith(begin):
            os.unlink(os.path.join(folder, name))


def hold_signals() -> None:
    """Block signals until the job has its handlers; the imports take a while."""
    import signal

    names = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGXCPU")
    signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in names])


def command():  # type: ignore[no-untyped-def]
    """Return the function for the command; the verb of every training rank loads no modules of other verbs."""
    if sys.argv[1:2] == ["job-exec"]:
        from mlcluster._node.cli import job_exec

        return job_exec.main
    from mlcluster._node.cli import main

    # Here, because this import finds a damaged archive.
    main.load(sys.argv[1:])
    return main.main


def start() -> None:
    """Run the command, and end with its exit code."""
    if sys.version_info[:2] < OLDEST:
        end(3, " needs Python 3.9 or newer and was started with {}.{}".format(*sys.version_info[:2]))
    if sys.argv[1:2] in (["job"], ["job-node"]):
        hold_signals()
    archive, copy = sys.path[0], ""
    if os.path.realpath(archive) == INSTALLED:
        # The copy only saves time.
        with contextlib.suppress(Exception):
            copy = compiled_copy(INSTALLED)
    damage = None
    for place in filter(None, (copy, archive)):
        sys.path[0] = place
        try:
            from mlcluster import __version__

            run = command()
        except Exception as error:
            damage = error
            for name in [name for name in sys.modules if name.partition(".")[0] == "mlcluster"]:
                del sys.modules[name]
        else:
            sys.exit(run(version=__version__))
    # Python itself would end with 1, which is the verdict "broken".
    end(2, f": {sys.argv[0]} is damaged or was replaced just now ({damage}): run the role that wrote it again")


if __name__ == "__main__":
    start()
