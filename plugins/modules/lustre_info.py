#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lustre_info
short_description: Read facts and verdicts about Lustre on a node
version_added: 0.1.0
description:
  - Returns all facts that a role decides on, with verdicts - client, mounts, directories and tuning.
  - A mount point of systemd's automount is not a mount. It is touched, and the file system itself is read, in
    a process with a time limit.
  - Reports whether the running kernel and the next one have the module lustre.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._lustre
attributes:
  check_mode:
    description: Can run in check mode and returns the same, without O(probe).
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  probe:
    description:
      - Also write 1 MiB into a nameless file on each mounted file system, read it back and compare.
      - Leaves no file. It is skipped in check mode.
    type: bool
    default: false
  packages:
    description: Names of packages to report on. C(*) matches any characters.
    type: list
    elements: str
    default: []
  files:
    description: Files to report on in RV(files) and RV(paths).
    type: list
    elements: path
    default: []
seealso:
  - module: mlcluster.aws.lustre_directories
  - module: mlcluster.aws.fsx_lustre
"""

EXAMPLES = r"""
- name: Read the facts
  mlcluster.aws.lustre_info:
    probe: true
  register: lustre

- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ lustre.problems }}"
"""

RETURN = r"""
mounts:
  description: >-
    Each file system, with C(path), C(state), C(source), C(fstype), C(options), C(answer), C(why), C(efa),
    C(dns_name), C(line) (the owner of its line in fstab - own, other, none) and C(fstab_options). C(addresses) are
    those of its DNS name, if its source has others, and C(dns_problem) why there are none. C(servers) are its data
    servers if data has to use EFA, each with C(nid), C(nets) by which LNet knows it and C(sent), the messages by net
    during the probe; C(servers_problem) is why they are unknown.
  returned: success
  type: list
  elements: dict
  sample: [{"path": "/fsx", "state": "lustre", "source": "10.0.1.7@tcp:/abcdefgh", "answer": "lustre"}]
nfs_mounts:
  description: Each of O(nfs_mounts) in the same way.
  returned: success
  type: list
  elements: dict
  sample: [{"path": "/home", "state": "nfs", "source": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com:/fsx/home"}]
kernel:
  description: C(running) and C(next) kernel, and in C(installed) the version of the module lustre of each kernel.
  returned: success
  type: dict
  sample: {"running": "6.8.0-1021-aws", "next": "6.8.0-1024-aws", "installed": {"6.8.0-1021-aws": "2.15.6"}}
machine:
  description: C(memory_kib) and C(cpus), which determine the tuning.
  returned: success
  type: dict
  sample: {"memory_kib": 2113929216, "cpus": 192}
tools:
  description: Full path of each program used, null where it is missing.
  returned: success
  type: dict
  sample: {"lfs": "/usr/bin/lfs", "lctl": "/usr/sbin/lctl"}
version:
  description: The version of the loaded client, null where none is loaded.
  returned: success
  type: str
  sample: 2.15.6
package_manager:
  description: dpkg or rpm, null if neither could be queried.
  returned: success
  type: str
  sample: dpkg
packages_requested:
  description: Whether O(packages) lists a name.
  returned: success
  type: bool
  sample: true
packages:
  description: The installed packages of O(packages), with their versions.
  returned: success
  type: dict
  sample: {"lustre-client-modules-6.8.0-1021-aws": "2.15.6-1fsx5"}
unheld_packages:
  description: The RV(packages) that an upgrade may change.
  returned: success
  type: list
  elements: str
  sample: []
directories:
  description: >-
    Each wanted directory and its parents, with C(path), C(state) (missing, there, refused, unknown), C(differences)
    and C(why).
  returned: success
  type: list
  elements: dict
  sample: [{"path": "/fsx/logs", "state": "there", "differences": ["mode is 0755 instead of 2775"], "why": null}]
tuning:
  description: Each wanted parameter, with C(name), C(wanted), C(found), C(differs), C(source), C(problem).
  returned: success
  type: list
  elements: dict
  sample: [{"name": "mdc.*.max_rpcs_in_flight", "wanted": "64", "found": ["8"], "differs": true, "problem": null}]
tune:
  description: Whether the role tunes the client here.
  returned: success
  type: bool
  sample: true
tuning_wanted:
  description: Number of wanted parameters.
  returned: success
  type: int
  sample: 5
module_options:
  description: Each wanted option of a kernel module, with its loaded value.
  returned: success
  type: list
  elements: dict
  sample: [{"name": "ksocklnd.credits", "wanted": "2560", "loaded": true, "found": "256"}]
modprobe_text:
  description: The wanted content of the file of the module options, empty for none.
  returned: success
  type: str
  sample: "options ksocklnd credits=2560\n"
nets:
  description: The nets of LNet with C(nids), C(up), C(sent) and C(received).
  returned: success
  type: dict
  sample: {"tcp": {"nids": 1, "up": 1, "sent": 1200, "received": 1198}}
net_problem:
  description: Why RV(nets) are unknown.
  returned: success
  type: str
  sample: null
probes:
  description: The verdict of the probe of each path.
  returned: success
  type: dict
  sample: {"/fsx": {"id": "lustre.write_read", "status": "pass"}}
results:
  description: Verdicts in the shape C(mlcluster.result/1).
  returned: success
  type: list
  elements: dict
  sample: [{"id": "lustre.mounted", "status": "pass", "found": "10.0.1.7@tcp:/abcdefgh"}]
lines:
  description: The verdicts as text, one line each.
  returned: success
  type: list
  elements: str
  sample: ["PASS lustre.mounted (/fsx): found 10.0.1.7@tcp:/abcdefgh"]
problems:
  description: The RV(lines) that are neither a pass nor not applicable.
  returned: success
  type: list
  elements: str
  sample: []
fstab:
  description: The lines of C(/etc/fstab), parsed.
  returned: success
  type: list
  elements: dict
  sample: [{"src": "fs-1.fsx.us-west-2.amazonaws.com@tcp:/abcdefgh", "path": "/fsx", "fstype": "lustre"}]
efa_wanted:
  description: The number of EFA interfaces that LNet should have.
  returned: success
  type: int
  sample: 8
efa_service:
  description: Whether the service of AWS's set-up of EFA clients is enabled.
  returned: success
  type: bool
  sample: true
boot_unit_enabled:
  description: Whether C(mlcluster-lustre.service) is enabled.
  returned: success
  type: bool
  sample: true
mount_units:
  description: The systemd mount units of the file systems.
  returned: success
  type: list
  elements: str
  sample: ["fsx.mount"]
config_text:
  description: The wanted content of C(/etc/mlcluster/lustre.json).
  returned: success
  type: str
  sample: '{"schema": "mlcluster.lustre_config/1"}'
files:
  description: For each of O(files) its sha256, null where it does not exist.
  returned: success
  type: dict
  sample: {"/etc/mlcluster/lustre.json": null}
paths:
  description: For each of O(files) its mode and owner, null where it does not exist.
  returned: success
  type: dict
  sample: {"/etc/mlcluster/lustre.json": {"mode": "0644", "uid": 0, "gid": 0, "is_dir": false, "is_link": false}}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import ARGUMENT_SPEC, parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.look import Request, look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import answer


def main() -> None:
    own = {
        "probe": {"type": "bool", "default": False},
        "packages": {"type": "list", "elements": "str", "default": []},
        "files": {"type": "list", "elements": "path", "default": []},
    }
    module = AnsibleModule(argument_spec={**ARGUMENT_SPEC, **own}, supports_check_mode=True)
    params = module.params
    request = Request(
        probe=params["probe"] and not module.check_mode,
        packages=tuple(params["packages"]),
        files=tuple(params["files"]),
    )
    try:
        config = parse_config({key: params[key] for key in ARGUMENT_SPEC})
        facts = look(Host(), config, request)
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    results = verify(facts)
    module.exit_json(
        changed=False,
        **answer(results),
        **facts,
    )


if __name__ == "__main__":
    main()
