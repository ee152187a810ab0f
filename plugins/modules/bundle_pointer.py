#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_pointer
short_description: Write and sign the pointer by which nodes find the bundle of a release
version_added: 0.1.0
description:
  - Writes a small text file that names a version and its bundles. Its first line is the signature of the other lines.
  - The boot hook reads it with C(--pointer) and the public key with C(--public-key), so that a release needs no change
    of the cluster. To return to an older version, publish the pointer of that version again.
  - A pointer with the same content and the same signing key is not changed.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Can run in check mode; reports whether it would write the file, and writes nothing.
    support: full
  diff_mode:
    description: Shows the content of the pointer before and after.
    support: full
options:
  dest:
    description: The file to write.
    type: path
    required: true
  version:
    description: The version that nodes are to run, three numbers.
    type: str
    required: true
  floor:
    description:
      - The lowest version that nodes may run from now on. A node records the highest floor that it has read, and
        rejects a pointer below it, with any signature.
      - Empty keeps the floor that nodes have recorded.
    type: str
    default: ""
  bundles:
    description: By target, such as C(debian-py3.12), a dictionary with C(url) (s3 or https) and C(sha256).
    type: dict
    required: true
  private_key:
    description:
      - The file with the signing key in PEM, an EC key on P-256.
      - Only C(openssl) reads it; it never leaves this machine.
    type: path
    required: true
  issued:
    description: Creation time to write into the pointer. Empty uses the current time.
    type: str
    default: ""
notes:
  - Needs C(openssl).
seealso:
  - module: mlcluster.aws.node_bundle
"""

EXAMPLES = r"""
- name: Point nodes to version 1.4.0 and never below 1.3.0
  mlcluster.aws.bundle_pointer:
    dest: dist/bundles/pointer
    version: 1.4.0
    floor: 1.3.0
    private_key: ~/keys/mlcluster-release.pem
    bundles:
      debian-py3.12:
        url: s3://my-bucket/mlcluster/mlcluster-bundle-1.4.0-debian-py3.12.tar.gz
        sha256: 6f577ef66cd750a685bb23e68e93cafcfa1190b66039c91edeb01763350291b7
"""

RETURN = r"""
pointer:
  description: The content of the pointer.
  type: dict
  returned: success
  sample: {schema: mlcluster.pointer/1, version: 1.4.0}
public_key:
  description: The public key in one line, for C(--public-key) of the hook.
  type: str
  returned: success
  sample: MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE...
"""

import datetime
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import pointer
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle.archive import BundleError


def main() -> None:
    spec = {
        "dest": {"type": "path", "required": True},
        "version": {"type": "str", "required": True},
        "floor": {"type": "str", "default": ""},
        "bundles": {"type": "dict", "required": True},
        "private_key": {"type": "path", "required": True, "no_log": False},
        "issued": {"type": "str", "default": ""},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    dest, key = Path(module.params["dest"]), Path(module.params["private_key"])
    now = datetime.datetime.now(datetime.timezone.utc)
    issued = module.params["issued"] or f"{now:%Y-%m-%dT%H:%M:%SZ}"
    try:
        content = pointer.content(module.params["version"], module.params["floor"], module.params["bundles"], issued)
        before = pointer.read(dest)[1]
        changed = pointer.write(content, dest, key, module.check_mode)
        public = pointer.public_key(key)
    except BundleError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=changed,
        pointer=content if changed else pointer.from_text(before),
        public_key=public,
        diff={"before": before, "after": pointer.to_text(content) if changed else before},
    )


if __name__ == "__main__":
    main()
