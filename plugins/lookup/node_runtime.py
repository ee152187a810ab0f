# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: node_runtime
short_description: Build the node runtime and return its path
version_added: 0.1.0
author:
  - mlcluster.aws contributors (@mlcluster)
description:
  - Packs the node-side code of this collection into the one file C(mlcluster.pyz).
  - The file is in the cache directory of the user who runs Ansible.
  - The same collection always gives the same bytes, so a task that copies the file again reports no change.
notes:
  - The file is kept below E(XDG_CACHE_HOME), by default in C(~/.cache/mlcluster/runtime).
  - Builds not used for a week are removed.
"""

EXAMPLES = r"""
- name: Install the node runtime
  ansible.builtin.copy:
    src: "{{ lookup('mlcluster.aws.node_runtime').path }}"
    dest: /usr/local/lib/mlcluster/mlcluster.pyz
    owner: root
    group: root
    mode: "0755"
"""

RETURN = r"""
_raw:
  description: One dictionary that describes the built file.
  type: list
  elements: dict
  contains:
    path:
      description: Absolute path of the file on the controller.
      type: str
      sample: /home/me/.cache/mlcluster/runtime/mlcluster-0.1.0-0a1b2c3d4e5f6071.pyz
    sha256:
      description: The SHA-256 checksum of the file, in hexadecimal.
      type: str
      sample: 0a1b2c3d4e5f60710a1b2c3d4e5f60710a1b2c3d4e5f60710a1b2c3d4e5f6071
    version:
      description: The version of the collection it was built from, which C(mlcluster version) prints.
      type: str
      sample: 0.1.0
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime


class LookupModule(LookupBase):
    """The lookup ``mlcluster.aws.node_runtime``."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, str]]:
        """Return one dictionary; there is only one runtime, so terms and options are rejected."""
        if terms or kwargs:
            raise AnsibleLookupError(
                "mlcluster.aws.node_runtime was called with terms or options, and has none; call it without arguments"
            )
        try:
            return [_runtime.build()]
        except _runtime.RuntimeBuildError as exc:
            raise AnsibleLookupError(str(exc)) from None
