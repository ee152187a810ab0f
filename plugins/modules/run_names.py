#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_names
short_description: Find misspelled tags and variables
version_added: 0.1.0
description:
  - Fails a run of a playbook of this collection if C(--tags) or C(--skip-tags) name a tag that no task has; Ansible
    would do nothing. In a playbook that imports one, a tag that looks misspelled is a warning.
  - Warns about variables whose name begins like a role's and that the role does not read, with the most similar name
    that it reads.
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
    description: Names or patterns of the site's own variables that begin like a role's.
    type: list
    elements: str
    default: []
  wanted_groups:
    description: Groups that the playbook works on. A missing group is a warning if another one has a similar name.
    type: list
    elements: str
    default: []
  has_tags:
    description: Whether tasks of the playbook have tags. Without them, C(--tags) would select nothing, and is rejected.
    type: bool
    default: true
seealso:
  - module: ansible.builtin.assert
"""

EXAMPLES = r"""
- name: Reject misspelled names
  mlcluster.aws.run_names:
    own_variables: [nvme_raid0_site_*]
    wanted_groups: [head, compute]
  run_once: true
"""

RETURN = r"""
unknown:
  description: A sentence for each name that is unknown.
  returned: success
  type: list
  elements: str
  sample: ["no role reads the variable nvme_raid0_mount_pont (of p5-1); did you mean nvme_raid0_mount_point?"]
"""
