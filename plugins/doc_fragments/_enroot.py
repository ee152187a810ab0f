# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The options for containers, shared by the module and the configuration file of the node."""

    DOCUMENTATION = r"""
options:
  slurm_prefix:
    description: Where Slurm is installed. Empty looks for C(/opt/slurm), then for the command C(srun).
    type: str
    default: ""
  slurm_conf_dir:
    description: The directory of C(slurm.conf). Empty looks for it.
    type: str
    default: ""
  plugin_options:
    description:
      - Options of the Pyxis plugin by name, such as C(container_scope).
      - An option unknown to the plugin's version is rejected, since it would stop every job.
    type: dict
    default: {}
  plugstack_mode:
    description:
      - V(required) makes jobs fail when Pyxis cannot start, V(optional) lets them run without it.
      - V(required) is written only once a container has been started with this version of plugin and Slurm.
    type: str
    choices: [optional, required]
    default: optional
  plugstack_include:
    description:
      - How C(plugstack.conf) includes the line, by V(glob) or by the V(file)'s name.
      - V(auto) uses V(file) on a configless cluster, whose nodes do not get the files of a pattern.
    type: str
    choices: [auto, glob, file]
    default: auto
  manage_plugstack:
    description:
      - Whether this node writes C(plugstack.conf). V(auto) does if Slurm's files are on a disk of the node itself,
        so that in a cluster that shares them only the head node does.
    type: str
    choices: [auto, always, never]
    default: auto
  duplicates:
    description: Whether a second line that lists Pyxis is only reported or turned into a comment.
    type: str
    choices: [report, remove]
    default: report
  local_dir:
    description: The local disk for images. Empty looks for the volume of M(mlcluster.aws.instance_store), then for the
      usual mount points of local disks.
    type: str
    default: ""
  local_subdirectory:
    description: The directory below it where all users may add files.
    type: str
    default: containers
  fallback_dir:
    description: Where images go when no local disk is found. Empty allows none.
    type: str
    default: /var/lib/mlcluster-containers
  conf:
    description: Settings of C(enroot.conf) over the defaults; null leaves a default out.
    type: dict
    default: {}
  conf_owner:
    description: V(dropin) adds a file to C(enroot.conf.d), V(role) replaces C(enroot.conf).
    type: str
    choices: [dropin, role]
    default: dropin
  hooks:
    description: Hooks to enable of those that Enroot ships.
    type: list
    elements: str
    default: []
  runtime_min_mib:
    description: The space in MiB that has to be free below C(/run).
    type: int
    default: 256
  max_user_namespaces:
    description: The minimum limit of user namespaces.
    type: int
    default: 65536
  caps:
    description: Whether ordinary users have to be able to import images.
    type: bool
    default: true
  credentials:
    description: Registries and the commands that print their passwords. There is no option for a secret.
    type: list
    elements: dict
    default: []
    suboptions:
      machine:
        description: Host name of the registry.
        type: str
        required: true
      login:
        description: User name. Not needed for ECR.
        type: str
        default: ""
      command:
        description: The command that prints the password, one word an entry. Not needed for ECR.
        type: list
        elements: str
        default: []
  docker:
    description: Whether Docker is wanted, for building images.
    type: bool
    default: false
  docker_data_root:
    description: Where Docker keeps its images. V(auto) uses the local volume unless that would hide existing images,
      empty keeps the directory.
    type: str
    default: auto
  docker_daemon:
    description: Settings to merge into C(daemon.json).
    type: dict
    default: {}
  toolkit_version:
    description: The required version of C(nvidia-container-cli) on a node with GPUs. Empty accepts any.
    type: str
    default: ""
  smoke_image:
    description: A squashfs image to try containers with.
    type: str
    default: ""
  smoke_users:
    description: Ordinary users to try it as.
    type: list
    elements: str
    default: []
  smoke_seconds:
    description: How long a container may take to start.
    type: int
    default: 120
"""
