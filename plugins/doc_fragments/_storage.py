# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The options that instance_store and instance_store_info share."""

    DOCUMENTATION = r"""
options:
  layout:
    description:
      - V(raid0) makes one filesystem over all instance-store disks (one disk gets it directly, without md).
      - V(per_disk) makes one filesystem on each disk, below O(mount_point) as C(disk0), C(disk1), in the order of the
        serial numbers.
      - V(none) keeps the disks unchanged.
    type: str
    choices: [raid0, per_disk, none]
    default: raid0
  mount_point:
    description: Absolute path for the volume.
    type: str
    default: /data
  fstype:
    description: The filesystem to make.
    type: str
    choices: [ext4, xfs]
    default: ext4
  chunk_kib:
    description: Chunk size of the array in KiB, a power of two.
    type: int
    default: 512
  array_name:
    description: Name of the array, the last part of its link C(/dev/md/NAME).
    type: str
    default: mlcluster
  label:
    description: Filesystem label; with O(layout=per_disk) a number is appended.
    type: str
    default: mlcluster
  mount_options:
    description:
      - Mount options, one an entry. Must have V(nofail); must not have V(discard).
      - The default is V(noatime), V(nofail) and V(x-systemd.device-timeout=15s), with V(data=ordered) on ext4.
    type: list
    elements: str
  existing:
    description:
      - Action for disks that have been set up by other means.
      - V(adopt) uses the volume of ParallelCluster or of a Deep Learning AMI and rejects everything else.
      - V(replace) destroys what is there, if O(safe_mode) is false as well.
      - V(fail) rejects them.
    type: str
    choices: [adopt, replace, fail]
    default: adopt
  safe_mode:
    description: While true, no data is ever destroyed, for any value of O(existing).
    type: bool
    default: true
  devices:
    description: Restrict the work to these disks, named by any path. Each must be an instance-store disk.
    type: list
    elements: str
  expected_disks:
    description: Required number of instance-store disks. The default is that of the instance type, if known.
    type: int
  owner:
    description: Owner of the top directory of the volume.
    type: str
    default: root
  group:
    description: Group of the top directory of the volume.
    type: str
    default: root
  mode:
    description: Mode of the top directory of the volume, octal, in quotes.
    type: str
    default: "0755"
  users:
    description: Users who get a directory of mode 0700 in each directory that has C(per_user).
    type: list
    elements: str
    default: []
  directories:
    description: Directories to keep below the mount point.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path below the mount point.
        type: str
        required: true
      owner:
        description: Owner.
        type: str
        default: root
      group:
        description: Group.
        type: str
        default: root
      mode:
        description: Mode, octal, in quotes. World-writable only together with the sticky bit.
        type: str
        default: "0755"
      purpose:
        description: Purpose of the directory, for readers of the configuration.
        type: str
        default: ""
      per_user:
        description: Make a directory of mode 0700 inside it for each of O(users).
        type: bool
        default: false
  size_tolerance_percent:
    description: By how many percent the filesystem may be smaller than its disks together.
    type: int
    default: 10
  update_initramfs:
    description: Rebuild the initramfs when the mdadm configuration changes. Not needed, since mounts go by UUID.
    type: bool
    default: false
"""
