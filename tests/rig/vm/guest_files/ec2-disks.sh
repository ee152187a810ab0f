#!/bin/sh
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Simulates EC2's NVMe disks inside the guest: makes the NVMe controllers equal to a plan.
# A plan is lines of file|model|serial|size_mb; the order of the lines is the order of the names.
#
#   ec2-disks boot     the plan is read from the virtio disk "plan" (initramfs, before root is mounted)
#   ec2-disks apply    the plan is read from standard input (running guest)
#   ec2-disks detach   unplugs every controller and keeps its contents
#   ec2-disks busy     prints what uses a controller; prints nothing when all can be unplugged safely
#   ec2-disks list M   prints the device paths of the controllers whose model is M
#
# Runs under busybox in the initramfs and under dash later, so it is plain POSIX sh.
[ "${1:-}" = prereqs ] && { echo; exit 0; }

CONFIGFS=/sys/kernel/config
TARGET=$CONFIGFS/nvmet
PORT=$TARGET/ports/1
BACKING=/run/ec2-rig
HOST_ID=5f1d2c3b-0000-4000-8000-00000000ec20

progress() { echo "ec2-disks: $*"; }
fail() { progress "$*" >&2; exit 1; }

trimmed() { read -r trimmed_text < "$1" && echo "$trimmed_text"; }

virtio_disk() {
    tries=0
    while [ "$tries" -lt 100 ]; do
        for entry in /sys/block/vd*; do
            [ "$(cat "$entry/serial" 2>/dev/null)" = "$1" ] && [ -b "/dev/${entry##*/}" ] &&
                { echo "/dev/${entry##*/}"; return 0; }
        done
        tries=$((tries + 1))
        sleep 0.1
    done
    return 1
}

# The backing filesystem is mounted only while files are made or removed. Afterwards the NVMe target's references keep
# it alive, and the software under test sees no mount that EC2 would not have.
open_backing() {
    disk=$(virtio_disk hw) || fail "the virtio disk hw, which holds the contents of the NVMe disks, is missing."
    mkdir -p "$BACKING"
    mount -t ext4 -o noatime,noinit_itable "$disk" "$BACKING" || fail "cannot mount $disk on $BACKING."
}
close_backing() { umount -l "$BACKING"; rmdir "$BACKING" 2>/dev/null; }

open_target() {
    modprobe nvme-loop || fail "the kernel has no nvme-loop module."
    grep -q " $CONFIGFS configfs " /proc/mounts || mount -t configfs none "$CONFIGFS"
    [ -d "$PORT" ] && return 0
    mkdir "$PORT"
    echo loop > "$PORT/addr_trtype"
}

controller_of() {
    for entry in /sys/class/nvme/nvme*; do
        [ -e "$entry/serial" ] && [ "$(trimmed "$entry/serial")" = "$1" ] && { echo "$entry"; return 0; }
    done
    return 1
}

unplug() {
    if controller=$(controller_of "$1"); then
        echo 1 > "$controller/delete_controller"
        # The name is free for another controller only after the last user has closed this one.
        tries=0
        while [ -e "$controller" ] && [ "$tries" -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
    fi
    subsystem=$TARGET/subsystems/nqn.2026-01.ec2.rig:$1
    [ -d "$subsystem" ] || return 0
    rm -f "$PORT/subsystems/${subsystem##*/}"
    echo 0 > "$subsystem/namespaces/1/enable"
    rmdir "$subsystem/namespaces/1" "$subsystem"
}

plug() {
    file=$1 model=$2 serial=$3
    subsystem=$TARGET/subsystems/nqn.2026-01.ec2.rig:$serial
    [ -d "$subsystem" ] && return 0
    mkdir "$subsystem" || return 1
    echo 1 > "$subsystem/attr_allow_any_host"
    echo "$model" > "$subsystem/attr_model"
    echo "$serial" > "$subsystem/attr_serial"
    mkdir "$subsystem/namespaces/1"
    echo "$BACKING/$file" > "$subsystem/namespaces/1/device_path"
    echo 1 > "$subsystem/namespaces/1/enable"
    ln -s "$subsystem" "$PORT/subsystems/${subsystem##*/}"
    printf '%s' "transport=loop,nqn=${subsystem##*/},nr_io_queues=1,hostid=$HOST_ID" \
        ",hostnqn=nqn.2014-08.org.nvmexpress:uuid:$HOST_ID" > /dev/nvme-fabrics
}

# Pattern matching and no loop of programs: on an emulated CPU, each start of a program takes noticeable time.
names_file() { case "
$plan" in *"
$1|"*) return 0 ;; esac; return 1; }
names_serial() { case $plan in *"|$1|"*) return 0 ;; esac; return 1; }

plugged() {
    for entry in "$TARGET"/subsystems/*:*; do [ -d "$entry" ] && echo "${entry##*:}"; done
}

apply() {
    plan=$(grep '|')
    open_target
    for serial in $(plugged); do names_serial "$serial" || unplug "$serial"; done
    open_backing
    for path in "$BACKING"/*; do
        [ -f "$path" ] && { names_file "${path##*/}" || rm -f "$path"; }
    done
    count=0
    broken=
    while IFS='|' read -r file model serial size_mb; do
        [ -n "$size_mb" ] || continue
        [ -e "$BACKING/$file" ] || truncate -s "${size_mb}M" "$BACKING/$file"
        plug "$file" "$model" "$serial" || broken="$broken $serial"
        count=$((count + 1))
    done << PLAN
$plan
PLAN
    close_backing
    [ -z "$broken" ] || fail "could not plug in$broken."
    progress "$count NVMe controllers in the plan."
}

busy() {
    grep -h -o '^/dev/nvme[^ ]*' /proc/mounts /proc/swaps
    for entry in /sys/block/nvme*n*/holders/* /sys/block/nvme*n*/nvme*p*/holders/*; do
        [ -e "$entry" ] && echo "$entry"
    done
    return 0
}

list() {
    for entry in /sys/block/nvme*n*; do
        [ -e "$entry/device/model" ] && [ "$(trimmed "$entry/device/model")" = "$1" ] && echo "/dev/${entry##*/}"
    done
    return 0
}

case ${1:-boot} in
    # init-premount runs its scripts without arguments.
    boot)
        disk=$(virtio_disk plan) || { progress "no plan disk, no NVMe controllers"; exit 0; }
        apply < "$disk"
        ;;
    apply) apply && udevadm settle ;;
    detach) for serial in $(plugged); do unplug "$serial"; done; udevadm settle ;;
    busy) busy ;;
    list) list "$2" ;;
    *) fail "unknown verb $1: boot, apply, detach, busy and list exist." ;;
esac
