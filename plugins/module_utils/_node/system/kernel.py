# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernels of this machine and their modules."""

from __future__ import annotations

import typing as t

from .host import Host
from .versions import version_key


def kernel_modules(host: Host, name: str = "nvidia-fs") -> dict[str, t.Any]:
    """Return whether a kernel module exists for the running kernel and for the newest one, which boots next.

    {running, next: kernel releases or None, installed: {release: version of the module, or None without it}}
    """
    kernels = kernel_releases(host)
    installed: dict[str, str | None] = {}
    if host.which("modinfo"):
        for release in kernels["installed"]:
            completed = host.run(["modinfo", "-k", release, "-F", "vermagic", name], timeout=20, check=False)
            version = host.run(["modinfo", "-k", release, "-F", "version", name], timeout=20, check=False)
            found = completed.rc == 0 and bool(completed.stdout.strip())
            installed[release] = (version.stdout.strip() or "unknown") if found else None
    return {**kernels, "installed": installed}


def kernel_releases(host: Host) -> dict[str, t.Any]:
    """Return {running, next: the newest, which boots next, or None; installed: releases with modules}.

    A kernel whose installation did not end has no list of modules, and boots nevertheless if its image exists.
    """
    running = (host.read_text("/proc/sys/kernel/osrelease") or "").strip() or None
    names = host.listdir("/lib/modules")
    releases = [name for name in names if host.exists(f"/lib/modules/{name}/modules.dep")]
    bootable = [name for name in names if name in releases or host.exists(f"/boot/vmlinuz-{name}")]
    newest = max(bootable, key=lambda text: (version_key(text.replace("-", ".")), text), default=None)
    return {"running": running, "next": newest, "installed": releases}
