#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_bundle
short_description: Build the archive from which nodes configure themselves
version_added: 0.1.0
description:
  - Packs this collection, ansible-core, ansible-runner and their dependencies into one archive, ready to run without
    pip, for one operating system family and one Python.
  - The same input produces the same bytes. Its checksum and a CycloneDX bill of materials are written to the same
    directory.
  - Of ansible.posix and community.general only the plugins that roles and playbooks name are included, with their
    imports. Without cryptography a node cannot read variables that are encrypted with a vault.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Can run in check mode, where it builds in memory and writes no archive; it still fills its cache.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  target:
    description: Family (debian, redhat, amazon) and Python of the nodes, such as V(debian-py3.12).
    type: str
    required: true
  collection:
    description: The directory of this collection, a checkout or an installed one.
    type: path
    required: true
  dest:
    description: The directory to write into.
    type: path
    required: true
  requirements:
    description: The directory with the locks of the Python packages. The default is C(requirements) of O(collection).
    type: path
  collections_paths:
    description:
      - Search path of ansible.posix and community.general, as in C(ANSIBLE_COLLECTIONS_PATH).
      - Empty fetches the versions that O(collections_lock) pins, so that every machine builds the same.
    type: list
    elements: path
    default: []
  collections_lock:
    description: The lock in O(requirements) for the wheel with the other collections.
    type: str
    default: collections.txt
  artifacts:
    description: Files that roles would otherwise download on the node. Each is checked again.
    type: list
    elements: dict
    default: []
    suboptions:
      file:
        description: The file on this machine; it keeps its name.
        type: path
        required: true
      entry:
        description: Its entry from the lookup P(mlcluster.aws.artifact#lookup).
        type: dict
        required: true
      signature:
        description: Files with which the role verifies it, such as C(FILE.sig) and the publisher's key.
        type: list
        elements: path
        default: []
  cache:
    description: Directory for fetched packages.
    type: path
    required: true
  pip:
    description: The command to fetch packages with. Empty uses pip of the Python that runs this module.
    type: list
    elements: str
    default: []
  compiled:
    description:
      - Include byte code of the modules that a node loads first, so that its first run is as fast as later ones. It
        needs a Python of the target's version; without one nothing is compiled here, and nodes compile the modules.
      - RV(manifest) names the release of that Python. Another release may produce other bytes.
    type: bool
    default: true
  source_date_epoch:
    description:
      - The date of all files, in seconds since 1970.
      - The default is C(SOURCE_DATE_EPOCH) of the environment, otherwise the date of the commit, otherwise 0.
    type: int
seealso:
  - module: mlcluster.aws.bundle_pointer
  - plugin: mlcluster.aws.artifact
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Build the bundle for Ubuntu 24.04
  mlcluster.aws.node_bundle:
    target: debian-py3.12
    collection: .
    dest: dist/bundles
    cache: ~/.cache/mlcluster/bundle
  register: bundle

- name: Show the size
  ansible.builtin.debug:
    msg: "{{ bundle.file }}: {{ bundle.size | human_readable }}, sha256 {{ bundle.sha256 }}"
"""

RETURN = r"""
path:
  description: The archive.
  type: str
  returned: success
  sample: dist/bundles/mlcluster-bundle-0.1.0-debian-py3.12.tar.gz
file:
  description: Its name.
  type: str
  returned: success
  sample: mlcluster-bundle-0.1.0-debian-py3.12.tar.gz
target:
  description: The target of the build.
  type: str
  returned: success
  sample: debian-py3.12
version:
  description: The version of the collection in it.
  type: str
  returned: success
  sample: 0.1.0
sha256:
  description: Its checksum.
  type: str
  returned: success
  sample: 6f577ef66cd750a685bb23e68e93cafcfa1190b66039c91edeb01763350291b7
size:
  description: Its size in bytes.
  type: int
  returned: success
  sample: 4219925
unpacked:
  description: The size of all its files in bytes.
  type: int
  returned: success
  sample: 16535607
manifest:
  description: Its C(MANIFEST.json), schema C(mlcluster.bundle/1).
  type: dict
  returned: success
  sample: {schema: mlcluster.bundle/1, os_family: debian, python: "3.12", compiled: 3.12.8}
sbom:
  description: The bill of materials.
  type: str
  returned: success
  sample: dist/bundles/mlcluster-bundle-0.1.0-debian-py3.12.cdx.json
"""

import os
import sys
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import build
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle.archive import BundleError, parse_target


def request(params: dict, environment: dict) -> build.Request:
    """Return the request of the module's parameters. Raises BundleError."""
    collection = Path(params["collection"]).resolve()
    commit, date = build.checkout(collection)
    given = environment.get("SOURCE_DATE_EPOCH", "")
    if params["source_date_epoch"] is None and given and not given.isdigit():
        raise BundleError(f"SOURCE_DATE_EPOCH is {given!r}: use whole seconds since 1970, or unset it")
    epoch = params["source_date_epoch"]
    return build.Request(
        collection=collection,
        requirements=Path(params["requirements"] or collection / "requirements"),
        others=[Path(path) for path in params["collections_paths"]],
        others_lock=params["collections_lock"],
        artifacts=[
            build.Artifact(Path(entry["file"]), entry["entry"], [Path(path) for path in entry["signature"]])
            for entry in params["artifacts"]
        ],
        cache=Path(params["cache"]),
        pip=params["pip"] or [sys.executable, "-m", "pip"],
        commit=commit,
        epoch=epoch if epoch is not None else int(given) if given else date,
        compiled=params["compiled"],
    )


def main() -> None:
    artifact = {
        "file": {"type": "path", "required": True},
        "entry": {"type": "dict", "required": True},
        "signature": {"type": "list", "elements": "path", "default": []},
    }
    spec = {
        "target": {"type": "str", "required": True},
        "collection": {"type": "path", "required": True},
        "dest": {"type": "path", "required": True},
        "requirements": {"type": "path"},
        "collections_paths": {"type": "list", "elements": "path", "default": []},
        "collections_lock": {"type": "str", "default": "collections.txt"},
        "artifacts": {"type": "list", "elements": "dict", "default": [], "options": artifact},
        "cache": {"type": "path", "required": True},
        "pip": {"type": "list", "elements": "str", "default": []},
        "compiled": {"type": "bool", "default": True},
        "source_date_epoch": {"type": "int"},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    dest = Path(module.params["dest"])
    try:
        target = parse_target(module.params["target"])
        built = build.build(request(module.params, dict(os.environ)), target)
        changed = build.write(built, dest, module.check_mode)
    except BundleError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=changed,
        path=str(dest / built.file),
        file=built.file,
        target=target.name,
        version=built.manifest["version"],
        sha256=built.sha256,
        size=len(built.data),
        unpacked=built.unpacked,
        manifest=built.manifest,
        sbom=str(dest / build.sbom_name(built.file)),
    )


if __name__ == "__main__":
    main()
