# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that call AWS from the controller."""

    DOCUMENTATION = r"""
requirements:
  - boto3
options:
  region:
    description: The region, as C(ap-southeast-3).
    type: str
    required: true
  profile:
    description:
      - Name of the profile in the AWS configuration files; without it E(AWS_PROFILE) and the standard chain are used.
    type: str
  endpoint_url:
    description: Endpoint for every service, for test set-ups and interface endpoints.
    type: str
notes:
  - Runs where the AWS credentials are, which is the controller.
"""
