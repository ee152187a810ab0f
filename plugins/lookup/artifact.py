# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: artifact
short_description: Look up the address and checksum of a file that a role downloads
version_added: 0.1.0
author:
  - mlcluster.aws contributors (@mlcluster)
description:
  - Looks up an artifact in the table of the collection.
  - If the table has no checksum, the one in C(artifacts.lock.yml) is used, which C(make lock-artifacts) writes on a
    connected machine. Without either, RV(_raw[].sha256) is empty, and the role has to reject the download.
options:
  _terms:
    description: Names of artifacts, such as V(aws-efa-installer).
    required: true
  platform:
    description: Platform of the build, such as V(deb-amd64). Artifacts that serve every platform are always found.
    type: str
    default: any
  version:
    description: The version. The default is the one in the table.
    type: str
  lock_file:
    description: A lock to read besides the one at the top of the collection, on the controller.
    type: path
"""

EXAMPLES = r"""
- name: Download the EFA installer
  ansible.builtin.get_url:
    url: "{{ artifact.url }}"
    checksum: "sha256:{{ artifact.sha256 }}"
    dest: /var/cache/aws-efa-installer.tar.gz
    mode: "0600"
  vars:
    artifact: "{{ lookup('mlcluster.aws.artifact', 'aws-efa-installer') }}"
"""

RETURN = r"""
_raw:
  description: One dictionary for each name.
  type: list
  elements: dict
  contains:
    name:
      description: The name.
      type: str
      sample: aws-efa-installer
    platform:
      description: Platform of the build; V(any) if it serves every platform.
      type: str
      sample: any
    version:
      description: The version.
      type: str
      sample: 1.51.0
    url:
      description: Address of the file at its publisher.
      type: str
      sample: https://efa-installer.amazonaws.com/aws-efa-installer-1.51.0.tar.gz
    sha256:
      description: The checksum in hexadecimal, empty if it is unknown.
      type: str
      sample: 2df4201e046833c7dc8160907bee7f52b76ff80ed147376a2d0ed8a0dd66b2db
    sha256_source:
      description: Source of the checksum, empty if it is unknown.
      type: str
      sample: artifacts.lock.yml
    signature_url:
      description: Address of the detached signature, empty if the publisher has none.
      type: str
      sample: https://efa-installer.amazonaws.com/aws-efa-installer-1.51.0.tar.gz.sig
    key_url:
      description: Address of the signing key, empty if the publisher has none.
      type: str
      sample: https://efa-installer.amazonaws.com/aws-efa-installer.key
    fingerprint:
      description: The fingerprint that the publisher states for the key, without spaces.
      type: str
      sample: 4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts


class LookupModule(LookupBase):
    """The lookup ``mlcluster.aws.artifact``."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return one dictionary for each name in ``terms``."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            locks = _artifacts.read_lock(_artifacts.collection_lock())
            if self.get_option("lock_file"):
                locks = _artifacts.read_lock(self.get_option("lock_file")) + locks
            platform, version = self.get_option("platform"), self.get_option("version")
            return [_artifacts.find(name, platform, version, locks) for name in terms]
        except _artifacts.ArtifactError as exc:
            raise AnsibleLookupError(str(exc)) from None
