#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_pyxis_info
short_description: Read facts and verdicts about Enroot, Pyxis and their Slurm
version_added: 0.1.0
description:
  - Reads all facts about containers on a node. M(mlcluster.aws.node_plan) returns what the role would do there.
  - The Slurm version that a plugin was built for is read from its symbol table, without loading it.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._enroot
attributes:
  check_mode:
    description: Returns the same, since the module changes nothing; it starts no container.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  probe:
    description: Whether to start a container with O(smoke_image).
    type: str
    choices: [never, always]
    default: never
  candidate:
    description: A plugin that is not installed yet, to check in RV(candidate).
    type: path
  jobs:
    description: Whether to query Slurm's controller for the jobs that have the node, for C(busy) in RV(slurm).
    type: bool
    default: false
notes:
  - Needs root to start containers as other users.
seealso:
  - module: mlcluster.aws.pyxis_plugstack
  - module: mlcluster.aws.enroot_image
"""

EXAMPLES = r"""
- name: Read the facts
  mlcluster.aws.enroot_pyxis_info:
  register: containers

- name: Prove that two ordinary users can start a container
  mlcluster.aws.enroot_pyxis_info:
    smoke_image: /fsx/images/smoke.sqsh
    smoke_users: [alice, bob]
    probe: always
"""

RETURN = r"""
slurm:
  description: The Slurm of the node with C(version), C(prefix), C(conf_dir), C(plugstack) and C(steps), the
    number of job steps that run now; with O(jobs) also C(busy), why slurmd must not be restarted now, empty when no job
    has the node; null without Slurm.
  returned: always
  type: dict
  sample: {"version": "23.11.10", "prefix": "/opt/slurm", "conf_dir": "/opt/slurm/etc", "steps": 0}
enroot:
  description: Enroot with C(path), C(version), C(good) and C(caps).
  returned: on a node with Slurm
  type: dict
  sample: {"path": "/usr/bin/enroot", "version": "4.1.2", "good": true, "caps": true}
plugins:
  description: Every Pyxis plugin found, with the Slurm it was built for and whether this Slurm loads it.
  returned: on a node with Slurm
  type: list
  elements: dict
  sample: [{"path": "/usr/local/lib/slurm/spank_pyxis.so", "slurm_version": "23.11.10", "fits": true, "listed": true}]
plugstack:
  description: All lines that Slurm reads from C(plugstack.conf) and what it includes, with C(problems).
  returned: on a node with Slurm
  type: dict
  sample: {"path": "/opt/slurm/etc/plugstack.conf", "problems": []}
candidate:
  description: The plugin O(candidate), with C(fits) and the C(problem) where this Slurm would not load it; null without
    one.
  returned: on a node with Slurm
  type: dict
  sample: {"path": "/root/spank_pyxis.so", "slurm_version": "23.02.7", "fits": false}
nvidia:
  description: Whether the NVIDIA driver is loaded, and C(nvidia-container-cli) with its version.
  returned: on a node with Slurm
  type: dict
  sample: {"driver": true, "tool": "/usr/bin/nvidia-container-cli", "version": "1.17.8"}
docker:
  description: Docker with C(path), C(version), whether its default directory is C(used), and the number of
    C(containers) that run; null unless O(docker) is true.
  returned: on a node with Slurm
  type: dict
  sample: {"path": "/usr/bin/dockerd", "version": "28.3.3", "used": false, "containers": 0}
place:
  description: Directory for images, with C(path), C(kind), C(fstype) and C(warning); null if no directory is suitable.
  returned: on a node with Slurm
  type: dict
  sample: {"path": "/data/containers", "kind": "volume", "fstype": "ext4", "warning": ""}
refusals:
  description: Why nothing may be done on this node, each with what to do.
  returned: always
  type: list
  elements: str
  sample: []
writes_plugstack:
  description: Whether this node is the one that writes C(plugstack.conf).
  returned: always
  type: bool
  sample: true
unit_enabled:
  description: Whether C(mlcluster-containers.service) is enabled.
  returned: always
  type: bool
  sample: true
removable:
  description: Links to hooks of O(hooks) and folders that the removal of the role deletes; a site's own are left out.
  returned: always
  type: list
  elements: str
  sample: [/etc/enroot/hooks.d/50-slurm-pmi.sh, /usr/local/lib/mlcluster/pyxis, /etc/mlcluster/enroot]
results:
  description: Verdicts in the shape C(mlcluster.result/1).
  returned: always
  type: list
  elements: dict
  sample: [{"id": "pyxis.plugin", "status": "pass"}]
lines:
  description: The verdicts as text, one line each.
  returned: always
  type: list
  elements: str
  sample: ["PASS pyxis.loaded: found srun --help has --container-image once"]
problems:
  description: The RV(lines) that are neither a pass nor not applicable.
  returned: always
  type: list
  elements: str
  sample: []
"""

import dataclasses
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import (
    ARGUMENT_SPEC,
    parse_config,
    problems,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.files import removable, unit_enabled
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.host import EnrootHost as Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.look import survey
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plan import manages_plugstack, refusals
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.slurm import busy, check_plugin
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import answer

OWN_SPEC: dict[str, dict[str, t.Any]] = {
    "probe": {"type": "str", "choices": ["never", "always"], "default": "never"},
    "candidate": {"type": "path"},
    "jobs": {"type": "bool", "default": False},
}


def main() -> None:
    module = AnsibleModule(argument_spec={**ARGUMENT_SPEC, **OWN_SPEC}, supports_check_mode=True)
    host = Host()
    try:
        config = parse_config(module.params)
        found = problems(config)
        if found:
            module.fail_json(msg="; ".join(found))
        facts = survey(host, config)
        refused = refusals(facts, config)
        probe = module.params["probe"] == "always" and not module.check_mode
        results = verify(host, facts, refused, config, probe)
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    candidate = module.params["candidate"]
    looked: dict[str, t.Any] = {"slurm": facts["slurm"]}
    if facts["slurm"] and module.params["jobs"]:
        looked["slurm"] = {**facts["slurm"], "busy": busy(host, facts["slurm"])}
    if facts["slurm"]:
        looked.update(
            enroot=facts["enroot"],
            plugins=facts["plugins"],
            candidate=check_plugin(host, candidate, facts["slurm"]["version"]) if candidate else None,
            plugstack=facts["stack"].as_dict(),
            nvidia=facts["nvidia"],
            docker={key: value for key, value in facts["docker"].items() if key != "daemon"}
            if facts["docker"]
            else None,
            place=dataclasses.asdict(facts["place"]) if facts["place"] else None,
        )
    module.exit_json(
        changed=False,
        **looked,
        refusals=refused,
        writes_plugstack=facts["slurm"] is not None and manages_plugstack(config, facts["slurm"]),
        unit_enabled=unit_enabled(host),
        removable=removable(host, config.hooks),
        **answer(results),
    )


if __name__ == "__main__":
    main()
