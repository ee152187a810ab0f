#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pyxis_plugstack
short_description: List Pyxis once in Slurm's plugstack.conf
version_added: 0.1.0
description:
  - Changes C(plugstack.conf), or a file that it includes, so that it lists Pyxis once, as wanted. Everything else in it
    is kept. An existing line is changed in place; no second one is added.
  - Every step of every job reads the file, so each change is made under a lock and atomically.
  - A plugin that this Slurm would not load is never listed as required.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Returns what would change.
    support: full
  diff_mode:
    description: Shows each file before and after.
    support: full
options:
  path:
    description: The C(plugstack.conf), beside C(slurm.conf).
    type: path
    required: true
  state:
    description: V(absent) removes Pyxis and keeps the rest.
    type: str
    choices: [present, absent]
    default: present
  plugin:
    description: Absolute path of C(spank_pyxis.so). Required unless O(state=absent).
    type: path
  keyword:
    description: The first word of the line. With V(required), a job fails if the plugin cannot start.
    type: str
    choices: [optional, required]
    default: optional
  options:
    description: Options of the plugin by name.
    type: dict
    default: {}
  include:
    description: Include the line by V(glob), C(plugstack.conf.d/*.conf), or by the V(file)'s name.
    type: str
    choices: [glob, file]
    default: glob
  duplicates:
    description: Whether a second line that lists Pyxis is only reported or turned into a comment.
    type: str
    choices: [report, remove]
    default: report
  slurm_version:
    description: The version of Slurm that will load the plugin, such as V(23.11.10). Required unless O(state=absent).
    type: str
notes:
  - Run it on the node that owns Slurm's files, which is the head node of a cluster that shares them.
seealso:
  - module: mlcluster.aws.enroot_pyxis_info
"""

EXAMPLES = r"""
- name: List Pyxis
  mlcluster.aws.pyxis_plugstack:
    path: /opt/slurm/etc/plugstack.conf
    plugin: /usr/local/lib/slurm/spank_pyxis.so
    slurm_version: 23.11.10
    options:
      container_scope: global
"""

RETURN = r"""
changes:
  description: The files that were changed, or in check mode would be.
  returned: always
  type: list
  elements: str
  sample: ["/opt/slurm/etc/plugstack.conf.d/pyxis.conf", "/opt/slurm/etc/plugstack.conf"]
problems:
  description: Problems in the files that would disturb or stop jobs, after the change.
  returned: always
  type: list
  elements: str
  sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.host import EnrootHost as Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plugstack import read_stack, shown
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plugstack_write import (
    PluginRequest,
    apply_changes,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.pyxis_options import option_problems
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.slurm import check_plugin
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

SPEC: dict[str, dict[str, t.Any]] = {
    "path": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "plugin": {"type": "path"},
    "keyword": {"type": "str", "choices": ["optional", "required"], "default": "optional"},
    "options": {"type": "dict", "default": {}},
    "include": {"type": "str", "choices": ["glob", "file"], "default": "glob"},
    "duplicates": {"type": "str", "choices": ["report", "remove"], "default": "report"},
    "slurm_version": {"type": "str"},
}


def wanted_of(host: Host, params: t.Mapping[str, t.Any], dry: bool) -> PluginRequest:
    """Return the wanted line. Raises NodeError if it would stop every job."""
    judged = check_plugin(host, params["plugin"], params["slurm_version"])
    # In check mode the plugin may not be built yet; check mode reports the build.
    if not judged["fits"] and not dry and params["keyword"] == "required":
        raise NodeError(f"{judged['problem']}: listed as required it would stop every job, so nothing was written")
    found = option_problems(params["options"], judged["pyxis_version"]) if judged["fits"] else []
    if found:
        raise NodeError("; ".join(found))
    return PluginRequest(
        params["plugin"], params["keyword"], params["options"], params["include"], params["duplicates"]
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec=SPEC,
        required_if=[("state", "present", ("plugin", "slurm_version"))],
        supports_check_mode=True,
    )
    host, params = Host(), module.params
    try:
        wanted = wanted_of(host, params, module.check_mode) if params["state"] == "present" else None
        done = apply_changes(host, params["path"], wanted, dry=module.check_mode)
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=bool(done["after"]),
        changes=list(done["after"]),
        problems=read_stack(host, params["path"]).problems,
        diff=[
            {
                "before_header": path,
                "after_header": path,
                "before": shown(done["before"][path] or ""),
                "after": shown(text or ""),
            }
            for path, text in done["after"].items()
        ],
    )


if __name__ == "__main__":
    main()
