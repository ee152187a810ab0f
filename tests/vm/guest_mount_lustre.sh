#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# mount.lustre SOURCE PATH -o OPTIONS: stands in for the mount helper of Lustre. It mounts an overlay whose files are on
# the disk that /etc/lustre-server names. Freezing that disk's file system simulates a server that stalls. While
# /run/lustre-hangs exists, the helper hangs, as with a server that does not answer.
set -eu
echo "$*" >>/run/lustre-mounts
while [ -e /run/lustre-hangs ]; do sleep 1; done
mkdir -p /run/lustre-server
mountpoint -q /run/lustre-server || mount "$(cat /etc/lustre-server)" /run/lustre-server
cd /run/lustre-server
mkdir -p lower upper work
exec mount -i -t overlay "$1" "$2" -o lowerdir=lower,upperdir=upper,workdir=work
