#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Another owner's stopped array: its superblocks and its filesystem are still on the disks.
count=$#
mdadm --create /dev/md/old --run --level=0 --name=old --raid-devices="$count" --force "$@"
mkfs.xfs -q -f -K -L old /dev/md/old
mkdir -p /mnt/old
mount /dev/md/old /mnt/old
echo "a result that somebody may still want" > /mnt/old/result.txt
umount /mnt/old
rmdir /mnt/old
mdadm --stop /dev/md/old
udevadm settle
