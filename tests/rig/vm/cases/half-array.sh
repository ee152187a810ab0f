#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# An array over all disks, without a filesystem.
count=$#
mdadm --create /dev/md/data --run --level=0 --homehost=any --name=data --raid-devices="$count" --force "$@"
udevadm settle
