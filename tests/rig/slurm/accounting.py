# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounting of a cluster: a private database and slurmdbd."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from .processes import RigError, tail, wait_for
from .spec import Ports, slurmdbd_conf


def database_argv(root: Path, ports: Ports) -> list[str]:
    """Return the command line of the database, whose sockets and files are in the cluster's directory."""
    return [
        "mariadbd",
        "--no-defaults",
        "--user=root",
        f"--datadir={root}/database",
        f"--socket={root}/run/database",
        f"--pid-file={root}/run/mariadbd.pid",
        f"--port={ports.database}",
        "--bind-address=127.0.0.1",
        "--innodb-buffer-pool-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-lock-wait-timeout=900",
        "--skip-name-resolve",
    ]


def install(root: Path) -> None:
    """Make an empty database. Raises RigError."""
    if not shutil.which("mariadb-install-db"):
        raise RigError("accounting needs mariadb-install-db, which is not installed: run `make setup`")
    done = subprocess.run(
        ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={root}/database", "--skip-test-db"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RigError(f"mariadb-install-db failed: {done.stderr.strip() or done.stdout.strip()}")


def prepare(root: Path, ports: Ports, over: Callable[[], str]) -> None:
    """Wait for the database, make slurmdbd's account in it and write slurmdbd.conf. Raises RigError.

    ``over`` returns the reason if the database has ended, and an empty string otherwise.
    """
    client = ["mariadb", "--no-defaults", f"--socket={root}/run/database"]

    def answers() -> bool:
        return subprocess.run([*client, "-e", "select 1"], capture_output=True, check=False).returncode == 0

    try:
        wait_for("the database of the accounting to answer", answers, poll=0.1, over=over)
    except RigError as exc:
        raise RigError(f"{exc}; its log ends: {tail(root / 'log/mariadbd.log')}") from exc
    password = secrets.token_hex(16)
    statements = f"""
        create database slurm_acct_db;
        create user slurm@'127.0.0.1' identified by '{password}';
        grant all on slurm_acct_db.* to slurm@'127.0.0.1';
    """
    done = subprocess.run(client, input=statements, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RigError(f"the accounting's database could not be made: {done.stderr.strip()}")
    path = root / "etc/slurmdbd.conf"
    path.touch(mode=0o600)
    path.write_text(slurmdbd_conf(root, ports, password), encoding="utf-8")
