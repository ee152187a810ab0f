# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The options that lustre_info and lustre_directories share; one spec stands behind both."""

    DOCUMENTATION = r"""
options:
  file_systems:
    description: The file systems of Lustre. None adopts those of the mount table and of C(/etc/fstab).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where it is, or will be, mounted. Not C(/data), which means the local NVMe volume.
        type: str
        required: true
      dns_name:
        description: The name that FSx gives it; empty where somebody else mounts it.
        type: str
        default: ""
      mount_name:
        description: The mount name that FSx gives it. With it, another file system at the path fails.
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
    description: Directories that have to be there, each below one of O(file_systems).
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
        description: Components of the layout of what is made in it; none leaves the file system's default.
        type: list
        elements: dict
        default: []
        suboptions:
          end:
            description: Where the component ends, such as V(100M); empty for the last, which has the rest.
            type: str
            default: ""
          count:
            description: Over how many OSTs it goes, V(-1) for all.
            type: int
            required: true
          size:
            description: How much goes to one OST at a time, such as V(16M); empty for the default.
            type: str
            default: ""
      purpose:
        description: What the directory is for, for the reader of the settings.
        type: str
        default: ""
  tune:
    description: Whether the client's parameters matter at all.
    type: bool
    default: true
  tuning:
    description: Parameters of C(lctl) in place of, or besides, the sourced ones; null takes one away.
    type: dict
    default: {}
  module_options:
    description: Options of kernel modules, named C(module.option), in the same way.
    type: dict
    default: {}
  efa_interfaces:
    description:
      - How many interfaces of EFA LNet must have up where O(file_systems[].efa) is wanted.
      - With 0, as many as the set-up of AWS gives the instance type.
    type: int
    default: 0
  timeout:
    description: Seconds after which a mount that gives no answer counts as silent, at most 300.
    type: int
    default: 30
"""
