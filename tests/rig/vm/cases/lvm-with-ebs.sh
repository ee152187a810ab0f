#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A volume group over an EBS volume ($1) and all instance-store disks (the rest), with one mounted volume.
pvcreate -q -y "$@"
vgcreate -q mixed "$@"
lvcreate -q -y -n all -l 100%FREE mixed
udevadm settle
mkfs.ext4 -q -E nodiscard /dev/mixed/all
mkdir -p /mnt/mixed
mount /dev/mixed/all /mnt/mixed
