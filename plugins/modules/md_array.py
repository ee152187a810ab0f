#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: md_array
short_description: Create or assemble an md RAID 0 array of EC2 instance-store disks
version_added: 0.1.0
description:
  - Creates, assembles or removes a bare array; creates no filesystem and mounts nothing.
  - M(mlcluster.aws.instance_store) creates the complete volume, with filesystem and mount, by the same code.
  - EBS volumes and the root disk cannot be chosen, with any value of O(devices).
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Returns the plan and changes nothing.
    support: full
  diff_mode:
    description: Shows the array before and after.
    support: full
options:
  state:
    description:
      - V(present) ensures that the array exists and runs.
      - V(absent) stops it and erases its superblocks, which destroys its data and needs O(safe_mode=false).
    type: str
    choices: [present, absent]
    default: present
  name:
    description: Name of the array, the last part of its link C(/dev/md/NAME).
    type: str
    default: mlcluster
  devices:
    description: The member disks, by any path. The default is every instance-store disk.
    type: list
    elements: str
  chunk_kib:
    description: Chunk size in KiB, a power of two.
    type: int
    default: 512
  safe_mode:
    description: While true, a disk with any content is rejected.
    type: bool
    default: true
notes:
  - Needs root and mdadm.
seealso:
  - module: mlcluster.aws.instance_store
"""

EXAMPLES = r"""
- name: Build one array over all instance-store disks
  mlcluster.aws.md_array:
    name: scratch

- name: Remove the array with all its data
  mlcluster.aws.md_array:
    name: scratch
    state: absent
    safe_mode: false
"""

RETURN = r"""
actions:
  description: Actions that were taken, or in check mode would be, in order.
  returned: always
  type: list
  elements: dict
  sample: [{"action": "create_array", "name": "scratch", "chunk_kib": 512, "devices": ["/dev/nvme1n1", "/dev/nvme2n1"]}]
uuid:
  description: UUID of the array as 32 hex digits, null without an array.
  returned: always
  type: str
  sample: 820c601f8bb032481cd68a8da3b1d073
device:
  description: Its device, null without an array or if it does not run yet.
  returned: always
  type: str
  sample: /dev/md127
before:
  description: The array of the disks before the run, null without one.
  returned: always
  type: dict
  sample: {"path": "/dev/md127", "level": "raid0", "chunk_kib": 512, "members": ["nvme1n1", "nvme2n1"]}
after:
  description: The same after the run; in check mode as before.
  returned: always
  type: dict
  sample: {"path": "/dev/md127", "level": "raid0", "chunk_kib": 512, "members": ["nvme1n1", "nvme2n1"]}
"""

import json
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.apply import (
    ACTIONS,
    describe,
    require_programs,
    run_action,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import StorageConfig, parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.converge import (
    context_for,
    look,
    note_stores,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.plan_array import ArrayPlan, plan_array
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import LOCK_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError


def look_and_plan(host: Host, config: StorageConfig, state: str) -> ArrayPlan:
    """Look at the disks and return the facts and the plan."""
    facts = look(host, config)
    return plan_array(facts, config, state, context_for(facts).array_uuid)


def shown(found: t.Mapping[str, t.Any] | None) -> str:
    """Return the array as text for a diff."""
    keys = ("path", "uuid", "level", "chunk_kib", "members")
    return json.dumps({key: found[key] for key in keys}, indent=2) + "\n" if found else ""


def main() -> None:
    spec = {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "name": {"type": "str", "default": "mlcluster"},
        "devices": {"type": "list", "elements": "str"},
        "chunk_kib": {"type": "int", "default": 512},
        "safe_mode": {"type": "bool", "default": True},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    host, state = Host(), module.params["state"]
    raw = {"array_name": module.params["name"], **{k: module.params[k] for k in ("devices", "chunk_kib", "safe_mode")}}
    try:
        config = parse_config(raw)
        with host.locked(LOCK_PATH, 300):
            plan = look_and_plan(host, config, state)
            if plan.refusals:
                module.fail_json(msg="; ".join(plan.refusals), actions=[], before=plan.found)
            after = plan.found
            if plan.actions and not module.check_mode:
                require_programs(host, plan.actions)
                note_stores(host, at_boot=False)
                for action in plan.actions:
                    run_action(host, action, ACTIONS)
                after = look_and_plan(host, config, state).found
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    lost = "".join(f"destroyed: {text}\n" for text in plan.losses)
    steps = "".join(f"- {describe(action)}\n" for action in plan.actions)
    module.exit_json(
        changed=bool(plan.actions),
        actions=plan.actions,
        uuid=after["uuid"] if after else None,
        device=after["path"] if after else None,
        before=plan.found,
        after=after,
        diff={"before": shown(plan.found) + lost, "after": steps if module.check_mode else shown(after)},
    )


if __name__ == "__main__":
    main()
