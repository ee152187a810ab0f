#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: prove_evidence
short_description: Write the evidence of a proof on AWS
version_added: 0.1.0
description:
  - Writes a file in the schema C(mlcluster.evidence/1) on the controller - instance type, image, kernel, versions, the
    verdicts of each step and times. It contains only an allow-list of fields, without ids, addresses or account
    numbers.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Writes no file.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  path:
    description: The file to write.
    type: path
    required: true
  reports:
    description:
      - A folder with a file C(STEP.jsonl) in C(mlcluster.report/1) of each step that has verdicts, and C(facts.json).
      - A report from before O(started) is ignored.
    type: path
    required: true
  type:
    description: The instance type.
    type: str
    required: true
  image:
    description: The name of the image.
    type: str
    required: true
  started:
    description: Start time of the run, in UTC.
    type: str
    required: true
  steps:
    description: The steps that were planned, each with its C(name).
    type: list
    elements: dict
    required: true
  done:
    description:
      - The steps that ran, each with C(name), C(passed) and C(seconds).
      - A step passes in the file only if its verdicts do not contradict that; C(site) and C(verify) need at least one
        pass.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Write the evidence
  mlcluster.aws.prove_evidence:
    path: mlcluster-report/prove/prove-1/evidence.json
    reports: mlcluster-report/prove/prove-1
    type: c5d.large
    image: a private image
    started: "2026-01-31T12:00:00Z"
    steps: [{name: site}, {name: verify}]
    done: [{name: site, passed: true, seconds: 239}]
"""

RETURN = r"""
evidence:
  description: The written content.
  returned: success
  type: dict
  sample: {"schema": "mlcluster.evidence/1", "type": "c5d.large"}
unproved:
  description: A sentence for each step that is not proved.
  returned: success
  type: list
  elements: str
  sample: ["verify has no passing verdict"]
"""
