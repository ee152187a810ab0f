#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_job
short_description: Submit a batch job to Slurm, follow it to its end, and report how it ended
version_added: 0.1.0
description:
  - Checks a submission before C(sbatch) is called, and reports all problems at once.
  - The script can list its requirements in comments before its first command, one per line, as C(# Needs program
    /path), or C(directory), C(file) or C(image). They are checked below the directory of the script and on shared file
    systems; local disks of the nodes cannot be checked.
  - Polls the job within fractions of a second. A restart of the controller, or a job that it has forgotten, does not
    count as the end. The end then comes from the accounting, or from the exit status that the script wrote, see
    O(exit_file).
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._slurm
attributes:
  check_mode:
    description: Does every check and C(sbatch --test-only), and submits, cancels and requeues nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  state:
    description:
      - V(completed) submits O(script), or uses O(job_id), and waits for the end; fails unless the job succeeds.
      - V(submitted) submits and does not wait.
      - V(cancelled) cancels O(job_id) and waits until it is over.
      - V(requeued) puts O(job_id) back into the queue.
    type: str
    choices: [completed, submitted, cancelled, requeued]
    default: completed
  script:
    description: Absolute path of the batch script on the node. O(options) override its C(#SBATCH) lines.
    type: path
  arguments:
    description: Arguments of the script.
    type: list
    elements: str
    default: []
  options:
    description:
      - Options of C(sbatch) by their long names, without dashes; an underscore is a dash. A list is joined by commas,
        and V(true) sets an option without a value.
      - They never pass through a shell.
      - Without C(chdir), here or in the script, the job runs in the directory of the script.
    type: dict
    default: {}
  job_id:
    description: An existing job, or the number of an array, instead of O(script).
    type: int
  unique:
    description:
      - If a job of this user with the same name and the same O(key) is queued or running, use that one with a warning
        and submit nothing.
      - If two submit at the same moment, the later one cancels its own job and uses that of the other.
      - The key is kept in the job's comment.
    type: bool
    default: false
  key:
    description: Key that identifies equal jobs. The default is a digest of the script, the options and the arguments.
    type: str
  exit_file:
    description:
      - File to which the script writes its exit status when it ends, with C(%j), C(%A) and C(%a) as in the output's
        name, for clusters without accounting. Must have one of them, so that no other job's status is read.
      - A link, or a file of another user than the job's, is ignored.
    type: path
  timeout:
    description: Seconds to wait for the end. The job continues after it, unless O(cancel_on_timeout).
    type: int
    default: 3600
  cancel_on_timeout:
    description: Cancel the job when O(timeout) has passed.
    type: bool
    default: false
  poll:
    description: Seconds between two looks, from 0.1 to 60.
    type: float
    default: 0.5
  tail_bytes:
    description: Number of bytes from the end of the output and of the error output to return, at most 65536 each.
    type: int
    default: 4096
  fail_on_error:
    description: Whether a failed job fails the task. RV(job) always has the end state.
    type: bool
    default: true
notes:
  - Run it as the user of the job, on a node that may submit.
seealso:
  - module: mlcluster.aws.slurm_info
"""

EXAMPLES = r"""
- name: Run a job on two nodes and wait for its end
  mlcluster.aws.slurm_job:
    script: /fsx/jobs/node_smoke.sbatch
    options:
      nodes: 2
      partition: gpu
      output: /fsx/jobs/logs/%x-%j.out
    timeout: 600
  register: smoke

- name: Start a training unless it already runs
  mlcluster.aws.slurm_job:
    state: submitted
    script: /fsx/jobs/train.sbatch
    options:
      job_name: llama
      exclusive: true
    unique: true
  register: training

- name: Submit the evaluation after the training
  mlcluster.aws.slurm_job:
    state: submitted
    script: /fsx/jobs/evaluate.sbatch
    options:
      dependency: afterok:{{ training.job.job_id }}

- name: Cancel the training
  mlcluster.aws.slurm_job:
    state: cancelled
    job_id: "{{ training.job.job_id }}"
"""

RETURN = r"""
job:
  description:
    - The last known state of the job. For an array it is the state of its worst task.
    - C(source) is the source of the end state, C(scontrol), C(sacct) or C(exit_file); C(none) with the state C(LOST) if
      it is unknown, which is not a success. The state is C(UNKNOWN) if C(sbatch) has accepted the job and the
      controller did not answer after that; use C(job_id) to follow it.
  returned: when there is a job
  type: dict
  sample:
    job_id: 7
    state: FAILED
    ok: false
    exit_code: 3
    signal: 0
    reason: NonZeroExitCode
    nodes: n[1-2]
    elapsed_seconds: 12
    restarts: 0
    stdout: /fsx/jobs/logs/7.out
    stdout_tail: "no such file\n"
    stderr: /fsx/jobs/logs/7.out
    stderr_tail: ""
    source: scontrol
    tasks: []
existing:
  description: Whether C(job) already existed, by O(unique).
  returned: when it was
  type: bool
  sample: true
problems:
  description: Problems of the submission, one sentence each.
  returned: when something is
  type: list
  elements: str
  sample: ["100 nodes were requested and partition main gives at most 80: request fewer"]
forecast:
  description: Output of C(sbatch --test-only).
  returned: in check mode, for a submission
  type: str
  sample: "sbatch: Job 13 to start at 2026-11-28T10:25:22 using 1 processors on nodes n2 in partition main"
argv:
  description: The arguments of C(sbatch).
  returned: for a submission
  type: list
  elements: str
  sample: [--nodes=2, --chdir=/fsx/jobs, /fsx/jobs/node_smoke.sbatch]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import job as slurm_job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import outcome as slurm_result
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import request as slurm_request
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

ARGUMENTS: dict[str, t.Any] = {
    "state": {
        "type": "str",
        "choices": ["completed", "submitted", "cancelled", "requeued"],
        "default": "completed",
    },
    "script": {"type": "path"},
    "arguments": {"type": "list", "elements": "str", "default": []},
    "options": {"type": "dict", "default": {}},
    "job_id": {"type": "int"},
    "unique": {"type": "bool", "default": False},
    "key": {"type": "str", "no_log": False},
    "exit_file": {"type": "path"},
    "timeout": {"type": "int", "default": 3600},
    "cancel_on_timeout": {"type": "bool", "default": False},
    "poll": {"type": "float", "default": 0.5},
    "tail_bytes": {"type": "int", "default": 4096},
    "fail_on_error": {"type": "bool", "default": True},
    "prefix": {"type": "path"},
    "conf": {"type": "path"},
}
CANCEL_SECONDS = 120


def parameter_errors(params: t.Mapping[str, t.Any]) -> list[str]:
    """Return the errors in the parameters, one sentence each."""
    problems = []
    if params["state"] in ("cancelled", "requeued") and params["job_id"] is None:
        problems.append(f"state is {params['state']} and job_id is missing: name the job")
    if params["script"] is not None and not params["script"].startswith("/"):
        problems.append(f"script is {params['script']}: use its absolute path")
    if params["exit_file"] and not any(mark in params["exit_file"] for mark in ("%j", "%A")):
        problems.append(f"exit_file is {params['exit_file']}: put %j in it, so that no other job's status is read")
    if not 0.1 <= params["poll"] <= 60:
        problems.append(f"poll is {params['poll']:g}: use 0.1 to 60 seconds")
    if not 0 <= params["tail_bytes"] <= 65536:
        problems.append(f"tail_bytes is {params['tail_bytes']}: use 0 to 65536")
    if params["timeout"] < 0:
        problems.append(f"timeout is {params['timeout']}: use the seconds to wait, 0 to look once")
    return problems


class Run:
    """One execution of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.slurm = Slurm(Host(), self.params["prefix"], self.params["conf"])
        self.result: dict[str, t.Any] = {"changed": False}

    def follower(self, job_id: int) -> slurm_job.Follower:
        """Return a follower of the job, which reads the exit file if one is set."""
        return slurm_job.Follower(self.slurm, job_id, self.params["exit_file"])

    def submit(self) -> t.Optional[int]:
        """Submit and return the number of the job; None in check mode. Raises NodeError."""
        requested = slurm_job.Request(
            script=self.params["script"],
            options=slurm_request.parse_options(self.params["options"]),
            arguments=tuple(self.params["arguments"]),
            unique=self.params["unique"],
            key=self.params["key"],
            exit_file=self.params["exit_file"],
        )
        request, text = slurm_job.prepare(self.slurm, requested)
        self.result["argv"] = slurm_request.argv(request.script, request.options, request.arguments)
        if request.unique and text is not None:
            running = slurm_job.find(self.slurm, request)
            if running is not None:
                return self.use(running, request, "nothing was submitted")
        problems = slurm_job.problems(self.slurm, request, text)
        if problems:
            raise slurm_request.RequestError(problems)
        if self.module.check_mode:
            self.result.update(forecast=slurm_job.test_only(self.slurm, request), changed=True)
            return None
        number = slurm_job.submit(self.slurm, request)
        # The job exists from here on, even if later looks fail.
        self.result.update(job=slurm_job.submitted_job(number), changed=True)
        older = slurm_job.cancel_duplicate(self.slurm, request, number) if request.unique else None
        return number if older is None else self.use(older, request, f"job {number} was cancelled")

    def use(self, job_id: int, request: slurm_job.Request, done: str) -> int:
        """Follow an existing job instead of submitting one; return its number."""
        self.result.update(job=slurm_job.submitted_job(job_id), existing=True)
        self.module.warn(slurm_job.duplicate_message(job_id, request, done))
        return job_id

    def complete(self, job_id: int) -> None:
        """Wait for the end and add the job to the result; fail the module unless it succeeded."""
        follower = self.follower(job_id)
        timeout = self.params["timeout"]
        over = follower.wait(timeout, self.params["poll"])
        if not over and self.params["cancel_on_timeout"] and slurm_job.cancel(self.slurm, job_id):
            self.result["changed"] = True
            follower.wait(CANCEL_SECONDS, self.params["poll"])
        job = slurm_job.report(self.slurm, follower, self.params["tail_bytes"])
        self.result["job"] = job
        if over and (job["ok"] or not self.params["fail_on_error"]):
            return
        if over:
            self.module.fail_json(
                msg=slurm_result.sentence(job, job["stderr_tail"] or job["stdout_tail"]), **self.result
            )
        then = "it was cancelled" if self.params["cancel_on_timeout"] else "it continues, and job_id follows it further"
        self.module.fail_json(
            msg=f"waited {timeout} seconds for the end of job {job_id} and it is {job['state']}: {then}", **self.result
        )

    def look(self, job_id: int, timeout: float = 0) -> None:
        """Add the job to the result, after waiting up to ``timeout`` seconds for its end."""
        follower = self.follower(job_id)
        follower.wait(timeout, self.params["poll"])
        self.result["job"] = slurm_job.report(self.slurm, follower, self.params["tail_bytes"])

    def glance(self, job_id: int) -> None:
        """Add the current job to the result; after a change, a missing answer of the controller is only a warning."""
        try:
            self.look(job_id)
        except NodeError as exc:
            if not self.result["changed"]:
                raise
            self.result.setdefault("job", slurm_job.submitted_job(job_id))
            self.module.warn(str(exc))

    def main(self) -> None:
        """Reach the requested state and exit with the result. Raises NodeError."""
        state, job_id = self.params["state"], self.params["job_id"]
        if state in ("completed", "submitted") and job_id is None:
            job_id = self.submit()
        if state == "requeued":
            if not self.module.check_mode:
                slurm_job.requeue(self.slurm, job_id)
            self.result["changed"] = True
        if state == "cancelled":
            self.cancel(job_id)
        elif job_id is not None and state == "completed" and not self.module.check_mode:
            self.complete(job_id)
        elif job_id is not None:
            self.glance(job_id)
        self.module.exit_json(**self.result)

    def cancel(self, job_id: int) -> None:
        """Cancel the job, and wait up to CANCEL_SECONDS for its end. Raises NodeError."""
        if self.module.check_mode:
            self.look(job_id)
            self.result["changed"] = self.result["job"]["state"] not in slurm_result.ENDED
            return
        self.result["changed"] = slurm_job.cancel(self.slurm, job_id)
        self.look(job_id, CANCEL_SECONDS)


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        mutually_exclusive=[("script", "job_id")],
        required_one_of=[("script", "job_id")],
    )
    problems = parameter_errors(module.params)
    if problems:
        module.fail_json(msg=str(slurm_request.RequestError(problems)), problems=problems)
    run = Run(module)
    try:
        run.main()
    except slurm_request.RequestError as exc:
        module.fail_json(msg=str(exc), problems=exc.problems, **run.result)
    except NodeError as exc:
        module.fail_json(msg=str(exc), **run.result)


if __name__ == "__main__":
    main()
