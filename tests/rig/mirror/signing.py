# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A signing key for tests, in a separate GnuPG home."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


class Key:
    """A key pair below ``home``, a folder with a short path, as gpg-agent's socket is in it."""

    def __init__(self, home: Path, owner: str, expired: bool = False) -> None:
        """Make the key; an ``expired`` key was valid for a day years ago, the date of all its signatures."""
        self.home = home
        self._clock = ("--faked-system-time", "20200102T000000") if expired else ()
        home.mkdir(mode=0o700, parents=True)
        lasts = "1d" if expired else "never"
        self._gpg(*self._clock, "--passphrase", "", "--quick-gen-key", owner, "ed25519", "sign", lasts)
        listed = self._gpg("--with-colons", "--list-keys").decode()
        self.fingerprint = re.findall(r"^fpr:+([0-9A-F]{40}):", listed, re.MULTILINE)[0]

    def _gpg(self, *arguments: str) -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--no-tty", "--pinentry-mode", "loopback", *arguments]
        done = subprocess.run(command, capture_output=True, timeout=600, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def validity(self) -> str:
        """Return the validity of the key: e expired, r revoked, u ultimate (GnuPG, doc/DETAILS)."""
        listed = self._gpg("--with-colons", "--list-keys").decode()
        return re.findall(r"^pub:(.)", listed, re.MULTILINE)[0]

    def public(self) -> bytes:
        """Return the public key in ASCII armour."""
        return self._gpg("--armor", "--export", self.fingerprint)

    def sign(self, path: Path) -> bytes:
        """Return a detached signature of the file."""
        return self._gpg(*self._clock, "--passphrase", "", "--output", "-", "--detach-sign", str(path))

    def revoke(self) -> None:
        """Revoke the key with the certificate that gpg made for it; later exports contain the revocation."""
        certificate = self.home / "openpgp-revocs.d" / f"{self.fingerprint}.rev"
        # A colon prevents its use by accident (GnuPG manual, --generate-revocation).
        certificate.write_text(certificate.read_text(encoding="utf-8").replace(":-----", "-----"), encoding="utf-8")
        self._gpg("--import", str(certificate))

    def close(self) -> None:
        """End the agent that gpg has started."""
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "gpg-agent"], check=False, timeout=600)
