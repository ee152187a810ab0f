#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_store
short_description: Turn EC2 instance-store disks into one mounted, verified volume
version_added: 0.1.0
description:
  - Looks, plans, and carries out the plan in one transaction, from array to filesystem, mount and directories.
  - Never changes a disk that is not instance store. A disk with any content that this collection did not create is
    changed only with both O(existing=replace) and O(safe_mode=false).
  - An interrupted run is continued by the next one, from the intent that it left in C(/var/lib/mlcluster).
  - The same code runs at every boot as C(mlcluster storage-boot).
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._storage
attributes:
  check_mode:
    description: Returns the plan and changes nothing.
    support: full
  diff_mode:
    description: >-
      Shows the volumes before and after, the destroyed data, and the actions. An array or a logical volume that does
      not run cannot be inspected, and is listed as such.
    support: full
notes:
  - Needs root, mdadm for more than one disk, and the mkfs program of the filesystem.
  - Does not write fstab; the volumes in RV(plan) have the line in C(fstab), in the terms of M(ansible.posix.mount).
seealso:
  - module: mlcluster.aws.instance_store_info
  - module: mlcluster.aws.md_array
"""

EXAMPLES = r"""
- name: Build one ext4 volume over all disks on /data
  mlcluster.aws.instance_store:
    directories:
      - path: scratch
        mode: "1777"

- name: Build one XFS filesystem per disk for PCI peer-to-peer
  mlcluster.aws.instance_store:
    layout: per_disk
    fstype: xfs
    mount_point: /local

- name: Replace ParallelCluster's volume and destroy its data
  mlcluster.aws.instance_store:
    existing: replace
    safe_mode: false
"""

RETURN = r"""
actions:
  description: Actions that were taken, or in check mode would be, in order.
  returned: always
  type: list
  elements: dict
  sample: [{"action": "mount", "target": "/data", "device": "/dev/md127"}]
plan:
  description: The plan, as in M(mlcluster.aws.instance_store_info).
  returned: always
  type: dict
  sample: {"situation": "fresh", "state": "intact", "owner": "ours", "refusals": []}
disks:
  description: The disks considered, as in M(mlcluster.aws.instance_store_info).
  returned: always
  type: list
  elements: dict
  sample: [{"path": "/dev/nvme1n1", "owner": "none", "usable": true, "reasons": []}]
local_storage:
  description: The content of C(/var/lib/mlcluster/local_storage.json) after the run.
  returned: always
  type: dict
  sample: {"state": "intact", "path": "/data"}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.apply import describe
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import ARGUMENT_SPEC, parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.converge import (
    RefusedError,
    converge,
    dry_run,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import RECORD_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError


def volume_lines(volumes: t.Sequence[t.Mapping[str, t.Any]], mounted_only: bool) -> str:
    """Return the volumes as text for a diff, one line each."""
    listed = [volume for volume in volumes if volume["mounted"] or not mounted_only]
    return "".join(
        f"{v['path']}: {v['fstype']} {v['fs_uuid']}, {v['layout']} of {len(v['serials'])} disks, owner {v['owner']}\n"
        for v in listed
    )


def difference(plan: t.Any, actions: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Return before and after for diff mode: the volumes, the destroyed data, and every action."""
    after = volume_lines(plan.volumes, mounted_only=not actions)
    return {
        "before_header": "local storage before",
        "after_header": "local storage after",
        "before": volume_lines(plan.volumes, mounted_only=True)
        + "".join(f"destroyed: {text}\n" for text in plan.losses),
        "after": after + "".join(f"- {describe(action)}\n" for action in actions),
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    host = Host()
    try:
        config = parse_config(module.params)
        if module.check_mode:
            plan = dry_run(host, config)
            actions = plan.actions
        else:
            applied = converge(host, config)
            plan, actions = applied.plan, applied.done
    except RefusedError as exc:
        module.fail_json(msg=str(exc), plan=exc.plan.as_dict(), disks=[claim.as_dict() for claim in exc.plan.claims])
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=bool(actions),
        actions=actions,
        plan=plan.as_dict(),
        disks=[claim.as_dict() for claim in plan.claims],
        local_storage=host.read_json(RECORD_PATH),
        diff=difference(plan, actions),
    )


if __name__ == "__main__":
    main()
