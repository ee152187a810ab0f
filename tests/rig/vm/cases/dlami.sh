#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A Deep Learning AMI after its first boot: the LVM volume of ParallelCluster on another mount point, made by a oneshot
# unit that stays active.
mount_dir=/opt/dlami/nvme
mkdir -p /opt/aws/dlami/bin
cat > /opt/aws/dlami/bin/nvme_ephemeral_drives.sh << 'SCRIPT'
#!/bin/bash
# Each step runs only if its result is missing, so that the script can run at each boot.
set -u
mount_dir=/opt/dlami/nvme
volume=/dev/vg.01/lv_ephemeral
disks=()
for entry in /sys/block/nvme*n*; do
    read -r model < "$entry/device/model"
    [ "$model" = "Amazon EC2 NVMe Instance Storage" ] && disks+=("/dev/${entry##*/}")
done
[ "${#disks[@]}" -gt 0 ] || { echo "no instance-store disks"; exit 0; }
mountpoint -q "$mount_dir" && exit 0
if ! lvs vg.01/lv_ephemeral > /dev/null 2>&1; then
    pvcreate -y "${disks[@]}" || exit 1
    vgcreate vg.01 "${disks[@]}" || exit 1
    lvcreate -y -n lv_ephemeral -i "${#disks[@]}" -I 64 -l 100%FREE vg.01 || exit 1
fi
vgchange -ay vg.01 || exit 1
udevadm settle
blkid "$volume" > /dev/null || mkfs.ext4 -q "$volume" || exit 1
mkdir -p "$mount_dir"
mount -o noatime,nodiratime "$volume" "$mount_dir" || exit 1
chmod 1777 "$mount_dir"
SCRIPT
chmod 755 /opt/aws/dlami/bin/nvme_ephemeral_drives.sh
cat > /etc/systemd/system/dlami-nvme.service << 'UNIT'
[Unit]
Description=Mount the instance-store disks of this image
After=local-fs.target

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=300
ExecStart=/opt/aws/dlami/bin/nvme_ephemeral_drives.sh

[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable -q --now dlami-nvme.service
mountpoint -q "$mount_dir"
