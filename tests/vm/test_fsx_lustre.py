# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real mount units, automounts and boots; Lustre itself is a mount helper and programs that answer as its own do.

The programs, and the mount table that Python reads, are those of the scenario fsx_lustre: by its source a mount counts
as Lustre.
"""

from __future__ import annotations

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
# As ParallelCluster writes it.
AUTOMOUNT = f"{SOURCE} /fsx lustre defaults,noatime,flock,user_xattr,_netdev,noauto,x-systemd.automount 0 0"
FURNISH = """
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


def furnish(node: Guest) -> Guest:
    """A node with a Lustre client, and a disk in the place of its server."""
    for name in ("lustre_standin.py", "lustre_mounts.py"):
        node.copy_to(FILES / name, f"/root/{name}")
    node.copy_to(HERE / "guest_mount_lustre.sh", "/root/guest_mount_lustre.sh")
    node.script(FURNISH, node.instance_store()[0])
    return node


def apply(node: Guest, **settings: object) -> Run:
    return helpers.play(node, playbook=HERE / "playbooks" / "reboot.yml", **SETTINGS, **settings)


def good(done: Run) -> Run:
    assert done.rc == 0, (done.errors, [step.result.get("msg") for step in done.steps if step.result.get("failed")])
    return done


def tuned(node: Guest) -> set[str]:
    return {row.rpartition("=")[2] for row in node.run(["lctl", "get_param", PARAMETER]).out.splitlines()}


def started(node: Guest, unit: str, stamp: str) -> int:
    """Microseconds after the kernel's start."""
    return int(node.run(["systemctl", "show", f"--property={stamp}Monotonic", "--value", unit]).out)


def test_what_role_mounts_is_mounted_and_tuned_again_by_boot(guest: GuestFactory) -> None:
    """fstab's own mount unit is started by the boot, and the tuning after it; a run after it finds nothing to do."""
    node = furnish(guest(disks=1))
    wanted = {
        "fsx_lustre_file_systems": [{"path": "/fsx", **NAMES}],
        "fsx_lustre_directories": [{"path": "/fsx/logs"}],
    }
    said = good(apply(node, **wanted)).said
    assert "PASS lustre.mounted (/fsx)" in said and "PASS lustre.write_read (/fsx)" in said
    (line,) = [row for row in node.run("cat /etc/fstab").out.splitlines() if " lustre " in row]
    assert line.split()[:4] == [SOURCE, "/fsx", "lustre", "noatime,flock,_netdev,nofail,x-mlcluster"]
    # What marks the line is none of the file system's business.
    (asked,) = node.run("cat /run/lustre-mounts").out.splitlines()
    assert "flock" in asked and "x-mlcluster" not in asked
    assert tuned(node) == {"32"}

    node.run("echo kept > /fsx/logs/file; sync")
    node.reboot()
    assert helpers.settle(node) == "running"
    assert node.run(["cat", "/fsx/logs/file"]).out == "kept\n"
    assert tuned(node) == {"32"}
    assert started(node, "fsx.mount", "ActiveEnterTimestamp") <= started(node, UNIT, "ExecMainStartTimestamp")
    assert good(apply(node, **wanted)).changed == 0


def test_automount_is_no_mount_until_something_comes(guest: GuestFactory) -> None:
    """ParallelCluster's line: touched it mounts; with a silent server it is told; a server that stalls is told too."""
    node = furnish(guest(disks=1))
    node.script('echo "$1" >>/etc/fstab; mkdir /fsx; systemctl daemon-reload; systemctl start fsx.automount', AUTOMOUNT)
    assert node.run("findmnt --noheadings --output FSTYPE /fsx").out.split() == ["autofs"]
    # With the same names as the line, which stays ParallelCluster's all the same.
    wanted = {"fsx_lustre_file_systems": [{"path": "/fsx", **NAMES}]}
    hasty = {**wanted, "fsx_lustre_timeout": 20}
    said = good(apply(node, **wanted)).said
    assert "PASS lustre.mounted (/fsx)" in said and "PASS lustre.write_read (/fsx)" in said
    assert AUTOMOUNT in node.run("cat /etc/fstab").out.splitlines()

    # The unit mounts by itself what a boot has not mounted yet.
    node.run(f"umount /fsx && rm -f /run/lustre/parameters.json && systemctl restart {UNIT}")
    assert tuned(node) == {"32"}

    node.run("fsfreeze --freeze /run/lustre-server")
    try:
        stalled = apply(node, **hasty).refusal
    finally:
        node.run("fsfreeze --unfreeze /run/lustre-server")
    assert "lustre.write_read (/fsx): no answer within " in stalled, stalled

    # The probe that was cut off closes its file when it can.
    node.run("timeout 500 sh -c 'until umount /fsx; do sleep 0.2; done' && touch /run/lustre-hangs")
    try:
        silent = apply(node, **hasty).refusal
    finally:
        node.run("rm /run/lustre-hangs")
    assert "FAIL lustre.mounted (/fsx): the automount was touched and nothing came" in silent, silent
    assert "no answer within 20 seconds" in silent
