#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The first disk has a filesystem that is mounted and in fstab.
mkfs.ext4 -q -F -E nodiscard -L busy "$1"
mkdir -p /mnt/busy
echo 'LABEL=busy /mnt/busy ext4 defaults,nofail 0 2' >> /etc/fstab
udevadm settle
mount /mnt/busy
echo "in use" > /mnt/busy/note.txt
