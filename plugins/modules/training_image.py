#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: training_image
short_description: Decide the content of the training image
version_added: 0.1.0
description:
  - Returns the content of the image that the role enroot_pyxis builds with C(tasks_from=image), and fails if a part has
    no version or no checksum.
  - Runs on the controller only, without a query to a node.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  base:
    description: The base image, by its digest, with Ubuntu 24.04 and the CUDA toolkit.
    type: str
    required: true
  name:
    description: Name of the image.
    type: str
    default: training
  directory:
    description: Directory that all nodes share, for the C(.sqsh) files.
    type: str
    default: /fsx/images
  push:
    description: Repository to push the image to; empty does not push it.
    type: str
    default: ""
  build_arguments:
    description: Arguments for docker build by name. Do not use them for secrets.
    type: dict
    default: {}
  requirements:
    description: >-
      File on the controller with the Python packages, versions and checksums; empty uses that of the collection.
    type: str
    default: ""
  efa_version:
    description: Version of the EFA installer; empty uses that of the collection.
    type: str
    default: ""
  source:
    description: Source of the EFA installer.
    type: str
    choices: [auto, preinstalled, mirror, local, upstream]
    default: auto
  mirror_url:
    description: Folder with it, as http, https or s3 address.
    type: str
    default: ""
  local_files:
    description: Folder with it on the controller.
    type: str
    default: ""
  checksums:
    description: Your own checksums by the publisher's file name.
    type: dict
    default: {}
  file_names:
    description: Names in the mirror or folder, by the publisher's, if they differ.
    type: dict
    default: {}
  credentials:
    description: Registries and the commands that print their passwords, as in enroot_pyxis_credentials.
    type: list
    elements: dict
    default: []
seealso:
  - module: mlcluster.aws.enroot_image
"""

EXAMPLES = r"""
- name: Decide the name of the image
  mlcluster.aws.training_image:
    base: nvcr.io/nvidia/cuda:13.1.2-devel-ubuntu24.04@sha256:...
  register: image
"""

RETURN = r"""
tag:
  description: Name and tag of the image. The tag is a hash of its content.
  returned: success
  type: str
  sample: training:5f70bf18a0860070
remote:
  description: The same in the repository to push to, empty without one.
  returned: success
  type: str
  sample: 123456789012.dkr.ecr.eu-west-2.amazonaws.com/training:5f70bf18a0860070
versions:
  description: Version by component.
  returned: success
  type: dict
  sample: {"efa": "1.51.0", "pytorch": "2.15.0"}
registries:
  description: Registries whose passwords a command prints.
  returned: success
  type: list
  elements: str
  sample: ["123456789012.dkr.ecr.eu-west-2.amazonaws.com"]
requirements:
  description: Text of the pip requirements file.
  returned: success
  type: str
  sample: "torch==2.15.0 --hash=sha256:..."
files:
  description: Files to fetch, each with C(name), C(file), C(url) and C(sha256).
  returned: success
  type: list
  elements: dict
  sample: []
archive:
  description: File name of the EFA installer among them.
  returned: success
  type: str
  sample: aws-efa-installer-1.51.0.tar.gz
efa_arguments:
  description: Arguments of the EFA installer.
  returned: success
  type: list
  elements: str
  sample: ["-y", "--skip-kmod"]
build_arguments:
  description: Arguments of C(docker build).
  returned: success
  type: list
  elements: str
  sample: ["--build-arg", "PIP_INDEX_URL=https://mirror/simple"]
"""
