# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role fsx_lustre with real mount units, automounts and boots, and stand-ins for Lustre and its programs.

The programs, and the mount table that Python reads, are those of the scenario fsx_lustre, in which a mount counts as
Lustre by its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.helpers import HERE, ROOT, Run

pytestmark = pytest.mark.vm
GuestFactory = Callable[..., Guest]
FILES = ROOT / "molecule" / "fsx_lustre" / "files"
UNIT = "mlcluster-lustre.service"
SOURCE = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com@tcp:/abcdefgh"
NAMES = {"dns_name": SOURCE.partition("@")[0], "mount_name": "abcdefgh"}
PARAMETER = "osc.*OST*.max_rpcs_in_flight"
SETTINGS = {"role": "fsx_lustre", "fsx_lustre_tuning": {PARAMETER: 32}, "fsx_lustre_head_node": True}
# The line that ParallelCluster writes.
AUTOMOUNT = f"{SOURCE} /fsx lustre defaults,noatime,flock,user_xattr,_netdev,noauto,x-systemd.automount 0 0"
INSTALL = """
cd /usr/local/sbin
{ echo '#!/usr/bin/python3'; cat /root/lustre_standin.py; } >lctl
chmod 0755 lctl
for name in lfs lnetctl stat modinfo; do ln -s lctl "$name"; done
install -m 0755 /root/guest_mount_lustre.sh /sbin/mount.lustre
install -m 0644 /root/lustre_mounts.py /usr/lib/python3/dist-packages/
echo import lustre_mounts >/usr/lib/python3/dist-packages/lustre_mounts.pth
mkdir -p "/usr/lib/modules/$(uname -r)/extra"
echo stands for a module >"/usr/lib/modules/$(uname -r)/extra/lustre.ko"
mkfs.ext4 -q "$1"
echo "UUID=$(blkid -s UUID -o value "$1")" >/etc/lustre-server
"""


def with_lustre(node: Guest) -> Guest:
    """Install the stand-ins for a Lustre client; a disk is in the place of the server."""
    for name in ("lustre_standin.py", "lustre_mounts.py"):
        node.copy_to(FILES / name, f"/root/{name}")
    node.copy_to(HERE / "guest_mount_lustre.sh", "/root/guest_mount_lustre.sh")
    node.script(INSTALL, node.instance_store()[0])
    return node


def apply(node: Guest, **settings: object) -> Run:
    return helpers.play(node, playbook=HERE / "playbooks" / "reboot.yml", **SETTINGS, **settings)


def succeeded(done: Run) -> Run:
    assert done.rc == 0, (done.errors, [step.result.get("msg") for step in done.steps if step.result.get("failed")])
    return done


def tuned(node: Guest) -> set[str]:
    return {row.rpartition("=")[2] for row in node.run(["lctl", "get_param", PARAMETER]).out.splitlines()}


def started(node: Guest, unit: str, stamp: str) -> int:
    """Return a time stamp of the unit, in microseconds after the kernel's start."""
    return int(node.run(["systemctl", "show", f"--property={stamp}Monotonic", "--value", unit]).out)


def test_boot_mounts_and_tunes_file_system_of_role(guest: GuestFactory) -> None:
    """The boot starts fstab's mount unit and then the tuning; a run after the boot changes nothing."""
    node = with_lustre(guest(disks=1))
    wanted = {
        "fsx_lustre_file_systems": [{"path": "/fsx", **NAMES}],
        "fsx_lustre_directories": [{"path": "/fsx/logs"}],
    }
    output = succeeded(apply(node, **wanted)).output
    assert "PASS lustre.mounted (/fsx)" in output and "PASS lustre.write_read (/fsx)" in output
    (line,) = [row for row in node.run("cat /etc/fstab").out.splitlines() if " lustre " in row]
    assert line.split()[:4] == [SOURCE, "/fsx", "lustre", "noatime,flock,_netdev,nofail,x-mlcluster"]
    # The mark of the role's line is not passed to the file system.
    (options,) = node.run("cat /run/lustre-mounts").out.splitlines()
    assert "flock" in options and "x-mlcluster" not in options
    assert tuned(node) == {"32"}

    node.run("echo kept > /fsx/logs/file; sync")
    node.reboot()
    assert helpers.settle(node) == "running"
    assert node.run(["cat", "/fsx/logs/file"]).out == "kept\n"
    assert tuned(node) == {"32"}
    assert started(node, "fsx.mount", "ActiveEnterTimestamp") <= started(node, UNIT, "ExecMainStartTimestamp")
    assert succeeded(apply(node, **wanted)).changed == 0


def test_automount_passes_only_with_answering_server(guest: GuestFactory) -> None:
    """ParallelCluster's automount passes when its server answers; a stalled and a silent server are failures."""
    node = with_lustre(guest(disks=1))
    node.script('echo "$1" >>/etc/fstab; mkdir /fsx; systemctl daemon-reload; systemctl start fsx.automount', AUTOMOUNT)
    assert node.run("findmnt --noheadings --output FSTYPE /fsx").out.split() == ["autofs"]
    # The settings name the same file system as the line; the line stays ParallelCluster's.
    wanted = {"fsx_lustre_file_systems": [{"path": "/fsx", **NAMES}]}
    hasty = {**wanted, "fsx_lustre_timeout": 20}
    output = succeeded(apply(node, **wanted)).output
    assert "PASS lustre.mounted (/fsx)" in output and "PASS lustre.write_read (/fsx)" in output
    assert AUTOMOUNT in node.run("cat /etc/fstab").out.splitlines()

    # The unit mounts a file system that is not mounted yet.
    node.run(f"umount /fsx && rm -f /run/lustre/parameters.json && systemctl restart {UNIT}")
    assert tuned(node) == {"32"}

    node.run("fsfreeze --freeze /run/lustre-server")
    try:
        stalled = apply(node, **hasty).refusal
    finally:
        node.run("fsfreeze --unfreeze /run/lustre-server")
    # The new timeout is written first, so a second look follows, which meets the probe of the first.
    seen = r"lustre\.write_read \(/fsx\): (no answer within |python3 \(pid \d+\) of an earlier run )"
    assert re.search(seen, stalled), stalled

    # The probe that was stopped closes its file once the server answers.
    node.run("timeout 500 sh -c 'until umount /fsx; do sleep 0.2; done' && touch /run/lustre-hangs")
    try:
        silent = apply(node, **hasty).refusal
    finally:
        node.run("rm /run/lustre-hangs")
    assert "FAIL lustre.mounted (/fsx): systemd's automount was triggered, and nothing was mounted" in silent, silent
    assert "no answer within 20 seconds" in silent
