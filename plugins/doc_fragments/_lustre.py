# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The options that lustre_info and lustre_directories share."""

    DOCUMENTATION = r"""
options:
  file_systems:
    description: The file systems of Lustre. None adopts those of the mount table and of C(/etc/fstab).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Its mount point, now or later. Not C(/data), which is the local NVMe volume.
        type: str
        required: true
      dns_name:
        description: Its DNS name in FSx; empty if it is mounted by other means.
        type: str
        default: ""
      mount_name:
        description: Its mount name in FSx. With it, another file system at the path fails.
        type: str
        default: ""
      efa:
        description: Whether data has to go over EFA.
        type: bool
        default: false
  nfs_mounts:
    description: Paths that have to have NFS mounted, such as C(/home) of FSx for OpenZFS.
    type: list
    elements: str
    default: []
  directories:
    description: Directories that have to exist, each below one of O(file_systems).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
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
        default: "2775"
      acl:
        description: Entries of its access control list, such as V(group:ml:rwx) or V(default:group:ml:rwx).
        type: list
        elements: str
        default: []
      stripe:
        description: Components of the layout of new files in it; an empty list keeps the file system's default.
        type: list
        elements: dict
        default: []
        suboptions:
          end:
            description: Where the component ends, such as V(100M); empty for the last one.
            type: str
            default: ""
          count:
            description: Number of OSTs, V(-1) for all.
            type: int
            required: true
          size:
            description: Size of a stripe on one OST, such as V(16M); empty for the default.
            type: str
            default: ""
      purpose:
        description: Purpose of the directory, for readers of the settings.
        type: str
        default: ""
  tune:
    description: Whether the client's parameters are set and checked.
    type: bool
    default: true
  tuning:
    description: Parameters of C(lctl) that replace or extend the defaults with a source; null removes one.
    type: dict
    default: {}
  module_options:
    description: Options of kernel modules, named C(module.option), in the same way.
    type: dict
    default: {}
  efa_interfaces:
    description:
      - Number of EFA interfaces that LNet must have up if O(file_systems[].efa) is true.
      - With 0, the number that the set-up of AWS configures for the instance type.
    type: int
    default: 0
  timeout:
    description: Seconds after which a mount without an answer counts as silent, at most 300.
    type: int
    default: 30
"""
