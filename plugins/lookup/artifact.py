# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: artifact
short_description: Where a file that a role downloads comes from, and its checksum
version_added: 0.1.0
author:
  - mlcluster.aws contributors (@mlcluster)
description:
  - Looks an artifact up in the table of the collection.
  - Where the table has no checksum, that of C(artifacts.lock.yml) is taken, which C(make lock-artifacts) writes on a
    connected machine. With neither, RV(_raw[].sha256) is empty and the role has to refuse.
options:
  _terms:
    description: Names of artifacts, such as V(aws-efa-installer).
    required: true
  platform:
    description: Which build of them, such as V(deb-amd64). Artifacts for every platform are always found.
    type: str
    default: any
  version:
    description: The version; not set, that of the table.
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
      description: Which build it is, V(any) where there is one for all.
      type: str
      sample: any
    version:
      description: The version.
      type: str
      sample: 1.51.0
    url:
      description: Where the publisher has it.
      type: str
      sample: https://efa-installer.amazonaws.com/aws-efa-installer-1.51.0.tar.gz
    sha256:
      description: The checksum in hexadecimal, empty where none is known.
      type: str
      sample: 2df4201e046833c7dc8160907bee7f52b76ff80ed147376a2d0ed8a0dd66b2db
    sha256_source:
      description: Where the checksum was read, empty where none is known.
      type: str
      sample: artifacts.lock.yml
    signature_url:
      description: The detached signature, empty where the publisher gives none.
      type: str
      sample: https://efa-installer.amazonaws.com/aws-efa-installer-1.51.0.tar.gz.sig
    key_url:
      description: The signing key, empty where the publisher gives none.
      type: str
      sample: https://efa-installer.amazonaws.com/aws-efa-installer.key
    fingerprint:
      description: The fingerprint that the publisher gives for the key, without spaces.
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
