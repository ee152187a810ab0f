#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: Gather facts like ansible.builtin.setup, faster on a node that configures itself
version_added: 0.1.0
description:
  - Runs M(ansible.builtin.setup). Over a local connection, with the Python that Ansible itself runs on and without
    become, that happens in the process of the task - nothing is packed, sent, unpacked and compiled, which takes
    several times as long as the gathering.
  - On other connections the module runs as usual.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
  facts:
    description: Sets the facts of M(ansible.builtin.setup).
    support: full
options:
  gather_subset:
    description: As of M(ansible.builtin.setup).
    type: list
    elements: str
    default: [min]
seealso:
  - module: ansible.builtin.setup
"""

EXAMPLES = r"""
- name: Gather the facts that the roles need
  mlcluster.aws.node_facts:
    gather_subset: [min]
"""

RETURN = r"""
ansible_facts:
  description: The facts.
  returned: success
  type: dict
  sample: {ansible_distribution: Ubuntu, ansible_distribution_major_version: "24", ansible_pkg_mgr: apt}
"""
