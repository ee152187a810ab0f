# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that a push run is measured on: podman containers that boot systemd and answer to a real sshd."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.build import containers

RELEASE = "debian12"
RECORDED = Path(__file__).resolve().parents[1] / "unit" / "fixtures" / "gds"
# With what the roles install from Debian, so that no run measures the mirror of Debian's packages.
PACKAGES = ("openssh-server", "mdadm", "e2fsprogs", "xfsprogs", "fio", "munge", "slurmctld", "slurmd", "slurm-client")
# Directory of Slurm on the first node: only role slurm_jobs gets it. Others must not find it, such as enroot_pyxis,
# which would download software. The other nodes have none.
SLURM = "/srv/slurm"
SLURM_CONF = """ClusterName=bench
SlurmctldHost={name}
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName={name} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
TAKE_SLURM_AWAY = r"""
set -e
mkdir -p "$0/bin"
for name in scontrol sbatch srun squeue sinfo scancel sacct sacctmgr slurmctld slurmd; do
  program=$(command -v "$name")
  # Debian's are alternatives.
  mv "$(readlink --canonicalize "$program")" "$0/bin/$name"
  rm --force "$program"
done
"""
START_SLURM = r"""
set -e
cat >/etc/slurm/slurm.conf
echo CgroupPlugin=cgroup/v1 >/etc/slurm/cgroup.conf
mkdir -p /var/spool/slurmctld /var/spool/slurmd /var/log/slurm
chown slurm: /var/spool/slurmctld /var/log/slurm
systemctl restart munge
"$0/bin/slurmctld"
"$0/bin/slurmd"
for try in $(seq 600); do
  [ "$("$0/bin/sinfo" -h -t idle -o %D)" = 1 ] && exit 0
  sleep 0.2
done
"$0/bin/sinfo"
exit 1
"""
# Each of these holds instances of inotify, of which a kernel gives all containers of a user 128 by default: with them
# the 26th node does not boot.
MASKED = (
    "slurmctld.service",
    "slurmd.service",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-logind.service",
)
SSH_SECONDS = 120


def image() -> str:
    """Return the name of the containers' image with sshd in it, built when it is not there."""
    base = containers.ensure_image(RELEASE)
    key = hashlib.sha256(" ".join((base, *PACKAGES, *MASKED, TAKE_SLURM_AWAY)).encode()).hexdigest()[:12]
    name = f"{containers.IMAGE_PREFIX}{RELEASE}:ssh-{key}"
    with containers.locked("image-bench"):
        age = containers.image_age(name)
        if age is not None and age < containers.IMAGE_SECONDS:
            return name
        builder = f"{containers.PREFIX}bench-build-{RELEASE}"
        containers.up(builder)
        try:
            # As the test hosts find their packages: Debian's lists are in the image.
            install = [
                "exec",
                "--env",
                "DEBIAN_FRONTEND=noninteractive",
                builder,
                "apt-get",
                "install",
                "--yes",
                *PACKAGES,
            ]
            containers.require_success(containers.podman(*install), f"Installing {', '.join(PACKAGES)}")
            away = ["exec", builder, "bash", "-c", TAKE_SLURM_AWAY, SLURM]
            containers.require_success(containers.podman(*away), "Taking Slurm off the search path")
            mask = ["exec", builder, "systemctl", "mask", "--now", *MASKED]
            containers.require_success(containers.podman(*mask), f"Masking {', '.join(MASKED)}")
            containers.require_success(containers.podman("stop", builder), f"Stopping {builder}")
            containers.require_success(containers.podman("commit", "--quiet", builder, name), f"Keeping {name}")
        finally:
            containers.down([builder])
    return name


def _start(name: str, kept: str, public_key: str) -> str:
    """Boot one node; its address."""
    run = ["--runtime", "runc", "run", "--detach", "--replace", "--pull=never", "--name", name, "--hostname", name]
    containers.require_success(
        containers.podman(*run, "--systemd=always", *containers.limits(), kept), f"Starting {name}"
    )
    containers.boot(name)
    install = [
        "exec",
        "--interactive",
        name,
        "install",
        "-D",
        "--mode=0600",
        "/dev/stdin",
        "/root/.ssh/authorized_keys",
    ]
    subprocess.run(["podman", *install], input=public_key, text=True, check=True)
    settings = json.loads(containers.require_success(containers.podman("inspect", name), f"Looking at {name}"))[0]
    return str(settings["NetworkSettings"]["Networks"]["podman"]["IPAddress"])


def _show_driver(name: str) -> None:
    """Give a node the recorded files of an H100's driver below /proc."""
    container = json.loads(containers.require_success(containers.podman("inspect", name), f"Looking at {name}"))[0]
    enter = ["nsenter", "--target", str(container["State"]["Pid"]), "--mount"]
    subprocess.run([*enter, "mount", "-t", "tmpfs", "tmpfs", "/proc/driver"], check=True)
    for file in ("version", "params"):
        text = (RECORDED / f"nvidia-{file}-h100.txt").read_text(encoding="utf-8")
        write = ["exec", "--interactive", name, "install", "-D", "/dev/stdin", f"/proc/driver/nvidia/{file}"]
        subprocess.run(["podman", *write], input=text, text=True, check=True)


def _start_slurm(name: str) -> None:
    """Let a node be a cluster of one, which is idle."""
    start = ["podman", "exec", "--interactive", name, "bash", "-c", START_SLURM, SLURM]
    done = subprocess.run(start, input=SLURM_CONF.format(name=name), text=True, capture_output=True, check=False)
    if done.returncode:
        raise containers.ContainerError(f"The Slurm of {name} did not start: {done.stdout[-500:]}{done.stderr[-500:]}")


def _known_host(address: str) -> str:
    """Return the node's host keys as ssh wants them, once its sshd answers."""
    deadline = time.monotonic() + SSH_SECONDS
    while time.monotonic() < deadline:
        scan = subprocess.run(["ssh-keyscan", "-T", "5", address], capture_output=True, text=True, check=False)
        if scan.stdout.strip():
            return scan.stdout
        time.sleep(0.2)
    raise containers.ContainerError(f"The sshd of {address} gave no host key within {SSH_SECONDS} s.")


def _inventory(addresses: Sequence[str], folder: Path) -> dict[str, Any]:
    """The first node is the head node and has Slurm, all others are compute nodes; the last has a GPU's driver."""
    names = [f"node{number}" for number in range(1, len(addresses) + 1)]
    hosts = {
        name: {
            "ansible_host": address,
            "ansible_user": "root",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(folder / "key"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={folder / 'known_hosts'}",
            # Otherwise a node of the group efa without a device would be undeterminable.
            "efa_nccl_expected_devices": 0,
        }
        for name, address in zip(names, addresses)
    }
    groups = {"instance_store": names, "efa": names, "head": names[:1], "compute": names[1:], "gpu": names[-1:]}
    return {
        "all": {
            "hosts": hosts,
            "children": {group: {"hosts": {name: {} for name in some}} for group, some in groups.items()},
        }
    }


@contextmanager
def nodes(count: int) -> Iterator[Path]:
    """The inventory file of ``count`` fresh nodes, which are gone afterwards. Raises ContainerError."""
    kept = image()
    names = [f"{containers.PREFIX}bench{number}-{RELEASE}" for number in range(1, count + 1)]
    with containers.locked("bench-push"), tempfile.TemporaryDirectory(prefix="mlcluster-bench-") as scratch:
        folder = Path(scratch)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
        public_key = (folder / "key.pub").read_text(encoding="utf-8")
        try:
            addresses = [_start(name, kept, public_key) for name in names]
            _show_driver(names[-1])
            _start_slurm(names[0])
            known = "".join(_known_host(address) for address in addresses)
            (folder / "known_hosts").write_text(known, encoding="utf-8")
            inventory = folder / "inventory.json"
            inventory.write_text(json.dumps(_inventory(addresses, folder)), encoding="utf-8")
            yield inventory
        finally:
            containers.down(names)
