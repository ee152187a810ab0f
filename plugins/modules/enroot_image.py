#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_image
short_description: Import a container image as a squashfs file, named after its digest
version_added: 0.1.0
description:
  - Imports an image once into a directory that all nodes share, as C(NAME-DIGEST.sqsh), and makes C(NAME.sqsh) a link
    to it.
  - The file appears complete or not at all. If many nodes run the module at once, one imports and the others wait.
  - If a tag has moved, a new file is made. The old one is kept for the jobs that use it, until O(keep) removes it.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Reads the digest and returns what would be done.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  source:
    description:
      - V(docker://[USER@][REGISTRY#]IMAGE[:TAG][@DIGEST]) for a registry, V(dockerd://IMAGE[:TAG]) for the Docker of
        this node, or the absolute path of a C(.sqsh) file.
      - Credentials for a registry are those of Enroot's own file C(.credentials), not of this module.
    type: str
    required: true
  directory:
    description: Existing directory for the files.
    type: path
    required: true
  name:
    description: Prefix of the file names. The default is derived from the source.
    type: str
    default: ""
  state:
    description: V(absent) removes every version and the link.
    type: str
    choices: [present, absent]
    default: present
  digest:
    description: The digest that the source must have, C(sha256:...). Any other digest is rejected.
    type: str
    default: ""
  needed_mib:
    description: The space for the file, in MiB. Determined automatically for Docker's images and for files.
    type: int
    default: 0
  min_free_mib:
    description: The space that must stay free in addition, in MiB.
    type: int
    default: 1024
  keep:
    description: How many older versions to keep. By default all are kept.
    type: int
  timeout:
    description: Time limit of an import, and of waiting for another node's, in seconds.
    type: int
    default: 3600
  mode:
    description: Mode of the file, octal, in quotes.
    type: str
    default: "0644"
notes:
  - Importing from a registry needs Enroot 4, which imports by digest.
seealso:
  - module: mlcluster.aws.enroot_pyxis_info
"""

EXAMPLES = r"""
- name: Import PyTorch from NGC for all nodes
  mlcluster.aws.enroot_image:
    source: docker://nvcr.io#nvidia/pytorch:25.10-py3
    directory: /fsx/images
    keep: 1
  run_once: true

- name: Import an image that was built on the head node
  mlcluster.aws.enroot_image:
    source: dockerd://training:latest
    directory: /fsx/images
    name: training
"""

RETURN = r"""
path:
  description: The file of this version.
  returned: when O(state=present)
  type: str
  sample: /fsx/images/training-5f70bf18a0860070.sqsh
link:
  description: The link that leads to the newest version.
  returned: when O(state=present)
  type: str
  sample: /fsx/images/training.sqsh
digest:
  description: The digest of the source.
  returned: when O(state=present)
  type: str
  sample: sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef
actions:
  description: The actions done, or in check mode planned, of V(import), V(link) and V(prune).
  returned: always
  type: list
  elements: str
  sample: [import, link]
pruned:
  description: The files that were removed, or in check mode would be.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.host import EnrootHost as Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.image import (
    ImageRequest,
    ensure,
    forget,
    problems,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

SPEC = {
    "source": {"type": "str", "required": True},
    "directory": {"type": "path", "required": True},
    "name": {"type": "str", "default": ""},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "digest": {"type": "str", "default": ""},
    "needed_mib": {"type": "int", "default": 0},
    "min_free_mib": {"type": "int", "default": 1024},
    "keep": {"type": "int"},
    "timeout": {"type": "int", "default": 3600},
    "mode": {"type": "str", "default": "0644"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    try:
        mode = int(params["mode"], 8)
    except ValueError:
        module.fail_json(msg=f"mode is {params['mode']!r}: use octal digits in quotes, such as '0644'")
    if mode & ~0o755:
        module.fail_json(msg=f"mode is {params['mode']}: other users could change the image, so set '0644' or '0755'")
    request = ImageRequest(
        source=params["source"],
        directory=params["directory"],
        name=params["name"],
        digest=params["digest"],
        needed=params["needed_mib"] << 20,
        min_free=params["min_free_mib"] << 20,
        keep=params["keep"],
        seconds=params["timeout"],
        mode=mode,
    )
    found = problems(request)
    if found:
        module.fail_json(msg="; ".join(found))
    try:
        done = (ensure if params["state"] == "present" else forget)(Host(), request, dry=module.check_mode)
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=bool(done["actions"]), **done)


if __name__ == "__main__":
    main()
