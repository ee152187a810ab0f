#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs inside the new root while the image is built, after all packages are installed.
set -eu
systemctl enable systemd-networkd.service ssh.service
# These units cost time on an emulated CPU, and no test needs them.
systemctl mask systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
    e2scrub_all.timer e2scrub_reap.service nvmf-autoconnect.service nvmefc-boot-connections.service \
    mdcheck_start.timer mdcheck_continue.timer getty@tty1.service grub-common.service systemd-binfmt.service \
    modprobe@drm.service modprobe@efi_pstore.service systemd-pstore.service sys-fs-fuse-connections.mount \
    proc-sys-fs-binfmt_misc.automount
mkdir -p /etc/systemd/system-generators
ln -s /dev/null /etc/systemd/system-generators/systemd-ssh-generator
grub-mkimage -O i386-pc -o /boot/grub/core.img -c /boot/grub/early.cfg -p '(hd0,msdos1)/boot/grub' \
    biosdisk part_msdos ext2 linux normal configfile echo
printf '# written by the image build: no arrays are known\nHOMEHOST <system>\nMAILADDR root\n' > /etc/mdadm/mdadm.conf
rm -rf /var/lib/apt/lists/* /var/log/*.log /var/log/apt /etc/resolv.conf
: > /etc/machine-id
