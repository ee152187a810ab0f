#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A ParallelCluster node after its first boot: the boot script has made one LVM volume of all disks.
# $1 is the mount point in the cluster's configuration; all disks follow.
mount_dir=$1
mkdir -p /etc/parallelcluster
cat > /etc/parallelcluster/cfnconfig << CONFIG
stack_name=demo
cfn_node_type=ComputeFleet
cfn_scheduler=slurm
cfn_ephemeral_dir=$mount_dir
CONFIG

cat > /usr/local/sbin/setup-ephemeral-drives.sh << 'SCRIPT'
#!/bin/bash
# Each step runs only if its result is missing, so that the script can run at each boot.
set -u
. /etc/parallelcluster/cfnconfig
vg=vg.01
lv=lv_ephemeral
volume=/dev/$vg/$lv
mapfile -t disks < <(find -L /dev/disk/by-id -xtype l -name 'nvme-Amazon_EC2_NVMe_Instance_Storage_*' -exec realpath {} + | sort -u)
if [ "${#disks[@]}" -eq 0 ]; then echo "no instance-store disks"; exit 0; fi
if grep -q " $cfn_ephemeral_dir " /proc/mounts; then echo "$cfn_ephemeral_dir is in use already"; exit 0; fi
if [ ! -e "$volume" ]; then
    if ! lvs "$vg/$lv" > /dev/null 2>&1; then
        for disk in "${disks[@]}"; do umount "$disk" 2> /dev/null; done
        pvcreate -y "${disks[@]}" && vgcreate "$vg" "${disks[@]}" || exit 1
        lvcreate -y -i "${#disks[@]}" -I 64 -l 100%FREE -n "$lv" "$vg" || exit 1
    fi
    lvchange -ay "$vg/$lv" || exit 1
    udevadm settle
fi
blkid -o value -s TYPE "$volume" | grep -q . || mkfs.ext4 -q "$volume" || exit 1
mkdir -p "$cfn_ephemeral_dir"
mount -t ext4 -o noatime,nodiratime "$volume" "$cfn_ephemeral_dir" || exit 1
chmod 1777 "$cfn_ephemeral_dir"
SCRIPT
chmod 755 /usr/local/sbin/setup-ephemeral-drives.sh

cat > /etc/systemd/system/setup-ephemeral.service << 'UNIT'
[Unit]
Description=Set up the instance-store disks of this cluster node
After=network.target

[Service]
Type=simple
ExecStart=/usr/local/sbin/setup-ephemeral-drives.sh

[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable -q setup-ephemeral.service
systemctl start setup-ephemeral.service
until mountpoint -q "$mount_dir" || ! systemctl -q is-active setup-ephemeral.service; do sleep 0.2; done
mountpoint -q "$mount_dir"
