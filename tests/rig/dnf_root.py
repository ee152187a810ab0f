# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A root file system with dnf and rpm: an overlay in memory over this machine's root.

It has an empty rpm database, one repository, and the os-release of Amazon Linux 2023; apt and dpkg are missing.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

RPMS = Path(__file__).with_name("mirror") / "rpms.sh"
# The upper layer has to be on another file system. The last program keeps the mounts until its input ends.
ENTER = """
set -eu
over=$1/over shared=$1/shared
mkdir "$over" "$shared"
mount -t tmpfs none "$over"
mkdir "$over/up" "$over/work" "$over/root"
mount -t overlay none "$over/root" -o "lowerdir=/,upperdir=$over/up,workdir=$over/work"
for name in proc dev sys; do mount --rbind "/$name" "$over/root/$name"; done
mount --bind "$shared" "$over/root$shared"
cd "$over/root"
rm -rf etc/os-release usr/bin/apt-get usr/bin/dpkg-query var/lib/rpm var/cache/dnf var/lib/dnf
mkdir -p etc/yum.repos.d etc/dnf/vars etc/rpm
echo 2023 > etc/dnf/vars/releasever
echo 'Amazon Linux release 2023.9 (Amazon Linux)' > etc/system-release
printf 'NAME="Amazon Linux"\\nVERSION="2023"\\nID="amzn"\\nID_LIKE="fedora"\\nVERSION_ID="2023"\\n' > etc/os-release
mkdir -p var/lib/rpm
echo '%_dbpath /var/lib/rpm' > etc/rpm/macros
printf '[offered]\\nname=offered\\nbaseurl=%s/rpms\\ngpgcheck=0\\n' "$2" > etc/yum.repos.d/offered.repo
sed -i 's/^enabled.*/enabled = false/' etc/dnf/plugins/local.conf
exec chroot . sh -c 'echo ready; exec cat'
"""


class DnfRoot:
    """The root file system; ``shared`` is a folder that it shares with this machine, by the same path."""

    def __init__(self, folder: Path, address: str) -> None:
        """Make the root in an empty folder; dnf reads ``shared`` at ``address``, http:// or file://."""
        self.shared = folder / "shared"
        argv = ["unshare", "--mount", "--propagation=private", "sh", "-c", ENTER, "sh", str(folder), address]
        self._keeper = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            self.close()
            raise RuntimeError("the root of dnf could not be laid over this machine's: its errors are above")

    def close(self) -> None:
        """Remove the root."""
        self._keeper.communicate()

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs ``argv`` in the root."""
        return ["nsenter", f"--target={self._keeper.pid}", "--mount", "--root", "--wd", "--", *argv]

    def run(self, *argv: str) -> str:
        """Run a command in the root, which has to succeed, and return its output."""
        done = subprocess.run(self.command(argv), capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def offer(self, *rpms: str) -> None:
        """Make packages NAME-VERSION-RELEASE in ``shared``/rpms, the repository."""
        self.run("sh", str(RPMS), str(self.shared / "rpms"), *rpms)
