#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Adds to every initramfs the modules and programs that ec2-disks needs before root is mounted.
[ "${1:-}" = prereqs ] && { echo; exit 0; }
# shellcheck source=/dev/null
. /usr/share/initramfs-tools/hook-functions
manual_add_modules nvmet nvme-loop nvme-fabrics configfs virtio_pci virtio_blk virtio_net virtio_rng ext4 \
    dm_mod xfs
copy_exec /usr/bin/truncate /bin
