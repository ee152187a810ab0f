# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options for the connection to AWS."""

    DOCUMENTATION = r"""
requirements:
  - boto3
options:
  profile:
    description:
      - Name of the profile in the AWS configuration files; it takes precedence over keys in the environment.
      - Without it E(AWS_PROFILE) is used, as by every AWS SDK.
      - Keys are not options; they come from the standard chain of environment, files, single sign-on, and
        instance role.
    type: str
  profiles:
    description:
      - Several profiles instead of O(profile); the hosts of all of them are in the inventory. All are used for
        O(regions), or for the region of the first.
      - A profile that does not exist or has no credentials is a warning, unless O(strict_regions) is set.
      - Not with O(assume_role_arn), and not with the connection V(ssm), which uses one profile for all hosts.
    type: list
    elements: str
    default: []
  region:
    description:
      - Region to ask when O(regions) is empty, and the one whose STS endpoint is used.
      - When empty too, the region of the profile, then that of the instance that Ansible runs on.
    type: str
    env:
      - name: AWS_REGION
      - name: AWS_DEFAULT_REGION
  assume_role_arn:
    description:
      - Roles to assume; with several, the hosts of all of them are in the inventory.
      - A denied role among several is a warning, unless O(strict_regions) is set.
      - Every call is made with a role, including the listing of regions.
    type: list
    elements: str
    default: []
  assume_role_external_id:
    description: The external id that the roles require.
    type: str
  assume_role_session_name:
    description: The session name that AWS CloudTrail shows.
    type: str
    default: mlcluster-ec2-nodes
  endpoint_url:
    description:
      - Endpoint for every service, for test set-ups and interface endpoints.
      - E(AWS_ENDPOINT_URL), and its variants for single services, work without this option.
    type: str
  max_attempts:
    description: How often a call is tried, with growing pauses, before its region counts as failed.
    type: int
    default: 5
  retry_mode:
    description: How botocore retries; V(adaptive) also slows down when AWS throttles.
    type: str
    choices: [standard, adaptive]
    default: standard
  connect_timeout:
    description: Seconds to wait for a connection.
    type: int
    default: 5
  read_timeout:
    description: Seconds to wait for an answer.
    type: int
    default: 20
notes:
  - Certificates, proxies and FIPS endpoints are configured as for every AWS SDK, as by E(AWS_CA_BUNDLE),
    E(HTTPS_PROXY) and E(AWS_USE_FIPS_ENDPOINT).
"""
