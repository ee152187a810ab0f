#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_verb
short_description: Run a verb of the node runtime that submits jobs, and show what it prints while it runs
version_added: 0.1.0
description:
  - Starts the verb on the node and shows each line that it prints, while it runs. The verb continues if the connection
    is lost, and ends ten minutes after the last look of the play. Its submitted jobs are kept.
  - The task fails if the exit status of the verb is not 0, with its error output.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: The verb runs with C(--dry-run), checks everything and submits nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  verb:
    description: The verb and its arguments. It must accept C(--dry-run) and C(--outcome).
    type: list
    elements: str
  runtime:
    description: Absolute path of the runtime, C(mlcluster.pyz).
    type: path
    default: /usr/local/lib/mlcluster/mlcluster.pyz
  python:
    description: The Python, 3.9 or newer, that starts it.
    type: path
    default: /usr/bin/python3
  stdin:
    description: Standard input of the verb.
    type: str
    default: ""
  interval:
    description: Maximum seconds of one look, 1 to 300; a new line is shown at once.
    type: int
    default: 10
  directory:
    description: Working directory of the verb; the action passes it to the module, a task does not set it.
    type: path
  offset:
    description: Length of the known output; set like O(directory).
    type: int
    default: 0
  forget:
    description: Remove O(directory); set like that.
    type: bool
    default: false
notes:
  - The lines come from the controller while the task runs.
seealso:
  - module: mlcluster.aws.slurm_job
"""

EXAMPLES = r"""
- name: Prove two nodes
  mlcluster.aws.node_verb:
    runtime: /fsx/mlcluster/jobs/mlcluster.pyz
    verb: [validate, --nodes=2, node_smoke]
  register: validation

- name: Show where the verdict is
  ansible.builtin.debug:
    var: validation.outcome.file
"""

RETURN = r"""
rc:
  description: Its exit status; null if it ended without one, such as after a kill.
  returned: always
  type: int
  sample: 0
outcome:
  description: The outcome that it reported; empty without a report.
  returned: always
  type: dict
  sample: {changed: true, file: /fsx/mlcluster/jobs/results/validation-7.json}
"""

import json
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import detached

OUTCOME = "outcome"
ARGUMENTS: dict[str, t.Any] = {
    "verb": {"type": "list", "elements": "str"},
    "runtime": {"type": "path", "default": "/usr/local/lib/mlcluster/mlcluster.pyz"},
    "python": {"type": "path", "default": "/usr/bin/python3"},
    "stdin": {"type": "str", "default": ""},
    "interval": {"type": "int", "default": 10},
    "directory": {"type": "path"},
    "offset": {"type": "int", "default": 0},
    "forget": {"type": "bool", "default": False},
}


def begin(module: AnsibleModule) -> dict[str, t.Any]:
    """Start the verb and return its directory; fail the module if that is not possible."""
    runtime, python = module.params["runtime"], module.params["python"]
    for path, what in ((runtime, "the node runtime"), (python, "Python")):
        if not os.path.isfile(path):
            module.fail_json(
                msg=f"looked for {what} in {path} and found none: apply the role slurm_jobs to this node, or name it"
            )
    options = ["--dry-run"] if module.check_mode else []
    directory = detached.begin(
        lambda place: [
            python, runtime, *module.params["verb"][:1], *options, f"--outcome={place}/{OUTCOME}",
            *module.params["verb"][1:],
        ],
        [python, runtime, "detached"],
        module.params["stdin"],
    )  # fmt: skip
    return {"directory": directory}


def read(directory: str, offset: int, seconds: float) -> dict[str, t.Any]:
    """Return output, exit status and outcome of a started verb."""
    seen = detached.read(directory, offset, seconds)
    outcome: t.Any = {}
    if seen.over:
        try:
            with open(os.path.join(directory, OUTCOME), encoding="utf-8") as stream:
                outcome = json.load(stream)
        except (OSError, ValueError):
            outcome = {}
    return {
        "text": seen.text,
        "offset": seen.offset,
        "over": seen.over,
        "rc": seen.rc,
        "errors": seen.errors,
        "outcome": outcome,
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    directory = module.params["directory"]
    if directory is None:
        if not module.params["verb"]:
            module.fail_json(msg="verb is missing: use the verb and its arguments")
        module.exit_json(changed=False, **begin(module))
    if not detached.is_ours(directory):
        module.fail_json(msg=f"{directory} is not a directory of a verb that was started: leave directory out")
    if module.params["forget"]:
        detached.forget(directory)
        module.exit_json(changed=False)
    try:
        module.exit_json(changed=False, **read(directory, module.params["offset"], module.params["interval"]))
    except OSError as exc:
        module.fail_json(msg=f"{directory} could not be read ({exc.strerror}): run the task again")


if __name__ == "__main__":
    main()
