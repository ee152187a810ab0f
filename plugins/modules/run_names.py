#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_names
short_description: Find misspelled tags and variables, and tags that select nothing
version_added: 0.1.0
description:
  - Fails a run of a playbook of this collection if C(--tags) or C(--skip-tags) name a tag that no task has, or if no
    role would run, as with C(--tags always). Ansible would do nothing and report success. In a playbook that imports
    one, a tag that looks misspelled is a warning.
  - Fails such a run also if a variable of the command line (C(-e)) begins like one of a role or of the playbook and is
    none of them, or is very similar to one that the playbook reads. The message has the most similar name. In a
    playbook that imports one, this is a warning.
  - Warns about variables of the inventory whose name begins like a role's and that the role does not read.
  - Runs on the controller only, without a query to a node.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  own_variables:
    description: Names or patterns of the site's own variables that begin like one of a role or a playbook.
    type: list
    elements: str
    default: []
  wanted_groups:
    description: Groups that the playbook works on. A missing group is a warning if another one has a similar name.
    type: list
    elements: str
    default: []
  has_tags:
    description:
      - Whether tasks of the playbook have tags.
      - Without them, C(--tags) other than C(all) and C(untagged) would select nothing, and C(--skip-tags all) or
        C(untagged) would leave out everything. Both are rejected.
    type: bool
    default: true
  roles:
    description:
      - Roles that the playbook applies, with or without C(mlcluster.aws.) in front. Their tags are the known ones.
      - A role of another collection may have any tag, so that an unknown tag is a warning.
    type: list
    elements: str
    default: [nvme_raid0, efa_nccl, nvidia_gds, enroot_pyxis, fsx_lustre, slurm_jobs]
  variables:
    description: Variables that the playbook itself reads from its user.
    type: list
    elements: str
    default: []
  prefix:
    description: Prefix of the playbook's variables, without the underscore behind it. Empty means none.
    type: str
    default: ""
seealso:
  - module: ansible.builtin.assert
"""

EXAMPLES = r"""
- name: Reject misspelled names
  mlcluster.aws.run_names:
    own_variables: [nvme_raid0_site_*]
    wanted_groups: [head, compute]
  run_once: true

- name: Reject tags and misspelled names in a playbook without tags
  mlcluster.aws.run_names:
    has_tags: false
    own_variables: "{{ mlcluster_own_variables | default([]) }}"
    prefix: upgrade_nodes
    variables: [upgrade_nodes_method, target]
  run_once: true
  tags: [always]
"""

RETURN = r"""
unknown:
  description: A sentence for each name that is unknown.
  returned: success
  type: list
  elements: str
  sample: ["no role reads the variable nvme_raid0_mount_pont (of p5-1); did you mean nvme_raid0_mount_point?"]
"""
