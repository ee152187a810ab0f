#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_follow
short_description: Follow several Slurm jobs to their ends, with a line whenever one of them changes
version_added: 0.1.0
description:
  - Looks at the jobs with M(mlcluster.aws.slurm_job), and shows a line when one starts, moves, starts again or ends,
    and one every minute of the job that is waited for.
  - A controller or a machine that does not answer meanwhile is no end.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._slurm
attributes:
  check_mode:
    description: Follows nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  jobs:
    description: The jobs, in the order in which their ends are waited for.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: What the lines call the job.
        type: str
        required: true
      job_id:
        description: Its number.
        type: int
        required: true
      exit_file:
        description: Where its script writes its exit status, see O(mlcluster.aws.slurm_job#module:exit_file).
        type: path
  timeout:
    description: How many seconds to wait for the end of each, from when those before it have ended.
    type: int
    default: 3600
  cancel_on_timeout:
    description: Cancel a job when O(timeout) has passed.
    type: bool
    default: false
  fail_on_error:
    description: Whether a job that ends without success, or whose end was not seen, fails the task.
    type: bool
    default: true
  every:
    description: How many seconds one look takes at most, 1 to 300; the end of a job is seen at once.
    type: int
    default: 10
notes:
  - The lines come from the controller while the task runs; they are no part of its result.
seealso:
  - module: mlcluster.aws.slurm_job
"""

EXAMPLES = r"""
- name: Submit two
  mlcluster.aws.slurm_job:
    state: submitted
    script: "/fsx/jobs/{{ item }}.sbatch"
  loop: [small, large]
  register: submitted

- name: Wait for both
  mlcluster.aws.slurm_follow:
    jobs: >-
      [{% for one in submitted.results %}{'name': '{{ one.item }}', 'job_id': {{ one.job.job_id }}},{% endfor %}]
    timeout: 86400
"""

RETURN = r"""
jobs:
  description:
    - An entry for each job, in their order. C(job) is what M(mlcluster.aws.slurm_job) returns, null where nothing was
      seen of it; C(failed) says that its end was not seen, and C(msg) why.
  returned: always
  type: list
  elements: dict
  sample:
    - name: small
      job_id: 7
      job: {job_id: 7, state: COMPLETED, ok: true, exit_code: 0}
      failed: false
      msg: null
"""
