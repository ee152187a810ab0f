#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# An array of another machine, assembled under the number that such arrays get, and mounted.
count=$#
mdadm --create /dev/md127 --run --level=0 --homehost=elsewhere --name=theirs --raid-devices="$count" --force "$@"
mkfs.ext4 -q -E nodiscard -L theirs /dev/md127
mount /dev/md127 /mnt
echo "made elsewhere" > /mnt/note.txt
udevadm settle
