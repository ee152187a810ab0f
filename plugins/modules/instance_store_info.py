#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_store_info
short_description: Look at EC2 instance-store disks, their owners, and the plan for them
version_added: 0.1.0
description:
  - One read-only look that returns every instance-store disk with its owner, the plan that
    M(mlcluster.aws.instance_store) would carry out with the same options, and verdicts on the present state.
  - A disk is selected only by its controller model string in sysfs, so EBS volumes and the root disk cannot be chosen.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._storage
attributes:
  check_mode:
    description: Can run in check mode and give the same answer, since it changes nothing.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  probe:
    description:
      - Also write 1 MiB into a nameless file on the mounted volume, read it back and compare.
      - Nothing is left behind. It is skipped in check mode.
    type: bool
    default: false
notes:
  - Needs root to read signatures. Needs C(lsblk) and C(wipefs) of util-linux; reports a missing mdadm in RV(tools).
seealso:
  - module: mlcluster.aws.instance_store
"""

EXAMPLES = r"""
- name: Look at the node
  mlcluster.aws.instance_store_info:
  register: storage

- name: Show why disks are not usable
  ansible.builtin.debug:
    msg: "{{ storage.disks | rejectattr('usable') | map(attribute='reasons') }}"

- name: Judge the mounted volume with a write and read test
  mlcluster.aws.instance_store_info:
    mount_point: /data
    probe: true
"""

RETURN = r"""
disks:
  description: Every instance-store disk considered, in the order of the serial numbers.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: Device path.
      type: str
      sample: /dev/nvme1n1
    kname:
      description: Kernel name.
      type: str
      sample: nvme1n1
    serial:
      description: Serial number, C(AWS...).
      type: str
      sample: AWS1F23D45
    model:
      description: Controller model string.
      type: str
      sample: Amazon EC2 NVMe Instance Storage
    size:
      description: Size in bytes.
      type: int
      sample: 1900000000000
    kind:
      description: Always C(instance_store).
      type: str
      sample: instance_store
    owner:
      description: One of none, ours, parallelcluster, dlami, eks, foreign.
      type: str
      sample: none
    usable:
      description: Whether there is no finding against the use of the disk.
      type: bool
      sample: true
    blank:
      description:
        - How the disk is proved blank. V(zeros) as C(proof) means that all sampled bytes are zero, and V(never_written)
          that nothing was written since the instance started. Null means that neither is proved.
        - C(offset) is that of the first non-zero byte, C(reads) and C(bytes) are the amount that the proof has read.
        - C(written) is the number of sectors written to the disk since the start of the instance, or since the boot for
          a disk that does not count them itself. Above 16 MiB, zeros prove nothing.
        - Null for a disk with a signature, which is not sampled.
      type: dict
      sample: {"proof": "zeros", "offset": null, "reads": 55, "bytes": 1331200, "written": 0}
    reasons:
      description: Every finding against it, as parts of a sentence.
      type: list
      elements: str
      sample: ["is mounted on /scratch"]
    mounts:
      description: Mount points of anything on the disk.
      type: list
      elements: str
      sample: ["/scratch"]
    signatures:
      description: Signatures found on the disk itself.
      type: list
      elements: dict
      sample: [{"type": "linux_raid_member", "offset": "0x1000", "uuid": "11111111-2222", "label": "any:mlcluster"}]
plan:
  description: The plan of M(mlcluster.aws.instance_store).
  returned: always
  type: dict
  contains:
    situation:
      description: >-
        One of disabled, no_disks, fresh, intact, half_finished, adopted, owner_pending, rebuild, refused.
      type: str
      sample: fresh
    state:
      description: The state to be written to local_storage.json, one of none, intact, recreated, lost, foreign.
      type: str
      sample: intact
    owner:
      description: Owner of the volume.
      type: str
      sample: ours
    actions:
      description: The actions, in order. Empty if nothing differs, and with any refusal.
      type: list
      elements: dict
      sample: [{"action": "create_array", "name": "mlcluster", "chunk_kib": 512, "devices": ["/dev/nvme1n1"]}]
    losses:
      description: >-
        Data that the actions destroy. An array or a logical volume that does not run cannot be inspected, and is listed
        as such.
      type: list
      elements: str
      sample: []
    refusals:
      description: Reasons why nothing may be done, each with a solution.
      type: list
      elements: str
      sample: []
    volumes:
      description: The volumes after the plan, with C(path), C(fs_uuid), C(fstype), C(device) and C(fstab).
      type: list
      elements: dict
      sample: [{"path": "/data", "fstype": "ext4", "fs_uuid": "d6873650-a8dc-5188-8f6e-24b99406bab0"}]
results:
  description: Verdicts in the shape C(mlcluster.result/1).
  returned: always
  type: list
  elements: dict
  sample: [{"id": "storage.mounted", "status": "pass", "found": "/dev/md127 on /data (ext4)"}]
lines:
  description: The verdicts as text, one line each.
  returned: always
  type: list
  elements: str
  sample: ["PASS storage.disks: expected 4 disks, found 4 disks"]
problems:
  description: Entries of RV(lines) that are neither a pass nor not applicable.
  returned: always
  type: list
  elements: str
  sample: []
local_storage:
  description: The content of C(/var/lib/mlcluster/local_storage.json), or null.
  returned: always
  type: dict
  sample: {"state": "intact", "path": "/data"}
instance_type:
  description: EC2 instance type from the firmware tables, null on other machines.
  returned: always
  type: str
  sample: trn2.48xlarge
tools:
  description: Full path of each program used, null if it is missing.
  returned: always
  type: dict
  sample: {"mdadm": "/usr/sbin/mdadm", "mkfs.xfs": null}
units:
  description: The services known to use the disks, with C(exists), C(enabled) and C(masked).
  returned: always
  type: dict
  sample: {"dlami-nvme.service": {"exists": false, "enabled": false, "masked": false, "owner": "dlami"}}
fstab:
  description: The lines of C(/etc/fstab), parsed.
  returned: always
  type: list
  elements: dict
  sample: [{"src": "UUID=d6873650", "path": "/data", "fstype": "ext4", "opts": "noatime,nofail"}]
boot_unit_enabled:
  description: Whether C(mlcluster-storage.service) is enabled.
  returned: always
  type: bool
  sample: true
own_fstab:
  description: The lines of C(/etc/fstab) that mount the volume of the record, without those of an adopted one.
  returned: always
  type: list
  elements: dict
  sample: [{"src": "UUID=d6873650", "path": "/data", "fstype": "ext4", "opts": "noatime,nofail"}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import ARGUMENT_SPEC, parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.converge import context_for, survey
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.role_plan import own_fstab
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.verify import boot_unit_enabled, verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import answer


def main() -> None:
    own = {"probe": {"type": "bool", "default": False}}
    module = AnsibleModule(argument_spec={**ARGUMENT_SPEC, **own}, supports_check_mode=True)
    host = Host()
    try:
        config = parse_config({key: module.params[key] for key in ARGUMENT_SPEC})
        facts, plan = survey(host, config)
        probe = module.params["probe"] and not module.check_mode
        results = verify(host, facts, plan, config, context_for(facts), probe)
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=False,
        disks=[claim.as_dict() for claim in plan.claims],
        plan=plan.as_dict(),
        **answer(results),
        local_storage=facts["record"],
        instance_type=facts["instance_type"],
        tools=facts["tools"],
        units=facts["units"],
        fstab=facts["fstab"],
        boot_unit_enabled=boot_unit_enabled(host),
        own_fstab=own_fstab(facts["record"], facts["fstab"]),
    )


if __name__ == "__main__":
    main()
