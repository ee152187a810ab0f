# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python -m tests.rig.slurm.newer COMMAND ...``: runs a command with /usr of Debian's next release.

Tests then use Slurm 24.11 and Python 3.13 instead of 22.05 and 3.11. The packages come by apt from the mirror of this
machine's release. They are unpacked into .build, and not installed or configured; /etc is this machine's.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .processes import RigError

RELEASE = "trixie"
FOLDER = Path(__file__).resolve().parents[3] / ".build" / f"slurm-{RELEASE}"
PACKAGES = (
    *("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "python3", "base-files", "bash"),
    *("coreutils", "util-linux", "mount", "procps", "hostname", "sed", "grep", "mawk", "findutils", "libc-bin"),
    *("perl-base", "gzip", "dash", "debianutils", "passwd"),
)
DAEMONS = ("slurmctld", "slurmd", "slurmstepd")
# Folders of programs that the packages' configuration would have made.
MADE = ("usr/local/sbin", "usr/local/bin")


def run(argv: list[str]) -> str:
    """Return the output of a command. Raises RigError."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RigError(f"{' '.join(argv[:3])} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def mirror() -> str:
    """Return the mirror of this machine's release. Raises RigError."""
    wanted = "$(IDENTIFIER)|$(ORIGIN)|$(COMPONENT)|$(REPO_URI)|$(RELEASE)"
    for line in run(["apt-get", "indextargets", "--format", wanted]).splitlines():
        what, origin, component, uri, release = line.split("|")
        if (what, origin, component) == ("Packages", "Debian", "main") and "-" not in release:
            return uri
    raise RigError("apt has no index of Debian's main: run apt-get update")


def unpack(folder: Path = FOLDER) -> Path:
    """Return the root of the unpacked packages, which the first call downloads. Raises RigError."""
    root, done = folder / "root", folder / "done"
    if done.exists():
        return root
    apt = folder / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "sources.list").write_text(
        f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror()} {RELEASE} main\n", encoding="utf-8"
    )
    options = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": apt,
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
    }
    get = ["apt-get", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    run([*get, "update"])
    run([*get, "--yes", "--download-only", "install", *PACKAGES])
    root.mkdir(exist_ok=True)
    for package in sorted((apt / "cache/archives").glob("*.deb")):
        run(["dpkg-deb", "--extract", str(package), str(root)])
    for name in MADE:
        (root / name).mkdir(parents=True, exist_ok=True)
    for daemon in DAEMONS:
        link = root / "usr/sbin" / daemon
        link.unlink(missing_ok=True)
        link.symlink_to(f"{daemon}-wlm")
    done.touch()
    return root


def main(arguments: list[str]) -> int:
    """Run the command and return its status, 1 with a message if it cannot be run, or 3 without a command."""
    if not arguments:
        print("usage: python -m tests.rig.slurm.newer COMMAND ...", file=sys.stderr)
        return 3
    try:
        root = unpack()
    except RigError as exc:
        print(f"rig: {exc}", file=sys.stderr)
        return 1
    inside = f'mount --bind {root}/usr /usr && exec "$@"'
    return subprocess.call(["unshare", "--mount", "--propagation=private", "bash", "-c", inside, "newer", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
