# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for ansible-runner in tests of earlier steps: it emits events and runs no Ansible.

The events have the names and keys of ansible-runner's. Each role writes a line to $MARKS.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import types


def run(*, cmdline, event_handler, **_options):
    """Emit the events of the roles in the extra variables: one changed task per role."""
    words = shlex.split(cmdline)
    with open(words[words.index("-e") + 1].lstrip("@"), encoding="utf-8") as handle:
        variables = json.load(handle)

    def send(kind, **data):
        created = datetime.datetime.now(datetime.timezone.utc).isoformat()
        event_handler({"event": kind, "created": created, "stdout": "", "event_data": data})

    send("playbook_on_play_start", name="Configure this node")
    for role in variables["configure_node_roles"]:
        send("playbook_on_task_start", task="Mark", role=role["key"])
        line = f"{variables.get('marker_word', 'marked')} False\n"
        with open(os.environ["MARKS"], "a+", encoding="utf-8") as marks:
            marks.seek(0)
            changed = line not in marks.readlines()
            if changed:
                marks.write(line)
        send("runner_on_ok", host="localhost", task="Mark", role=role["key"], res={"changed": changed})
        outcome = {"configure_node_outcome": {"role": role["key"], "state": "configured"}}
        send("playbook_on_task_start", task="Record", role="")
        send("runner_on_ok", host="localhost", task="Record", role="", res={"ansible_facts": outcome})
    send("playbook_on_stats", ok={"localhost": 1}, processed={"localhost": 1})
    return types.SimpleNamespace(status="successful", rc=0)
