#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: text_files
short_description: Write and remove several text files in one round trip
version_added: 0.1.0
description:
  - Writes each file with its content, owner and mode atomically, and creates its parent directories.
  - A role with ten small files costs one module execution instead of twenty.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Can run in check mode and report what it would change.
    support: full
  diff_mode:
    description: Shows every file before and after; for a file above 100 KB its size and sha256.
    support: full
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Description for readers; not used.
        type: str
      path:
        description: Absolute path.
        type: path
        required: true
      text:
        description: The complete content of the file.
        type: str
        default: ""
      state:
        description: Whether the file must exist.
        type: str
        choices: [present, absent]
        default: present
      mode:
        description: Its mode, octal.
        type: str
        default: "0644"
      backup:
        description: Keep a copy of an overwritten file in the same directory, under a name with the time.
        type: bool
        default: false
notes:
  - Files belong to the user that runs the module, which is root if a role becomes root.
  - A directory is never removed, and the path of a directory is rejected.
seealso:
  - module: ansible.builtin.copy
"""

EXAMPLES = r"""
- name: Write two files and remove one
  mlcluster.aws.text_files:
    files:
      - path: /etc/security/limits.d/95-mlcluster.conf
        text: |
          * soft memlock unlimited
          * hard memlock unlimited
      - path: /etc/nccl.conf
        text: "NCCL_SOCKET_IFNAME=^docker,lo,veth\n"
        backup: true
      - path: /etc/profile.d/old-nccl.sh
        state: absent
"""

RETURN = r"""
written:
  description: Paths that were written, or would be.
  returned: success
  type: list
  elements: str
  sample: [/etc/nccl.conf]
removed:
  description: Paths that were removed, or would be.
  returned: success
  type: list
  elements: str
  sample: [/etc/profile.d/old-nccl.sh]
backups:
  description: Paths of the copies of overwritten files.
  returned: success
  type: dict
  sample: {"/etc/nccl.conf": "/etc/nccl.conf.4711.2026-11-28@02:20:00~"}
"""

import hashlib
import os
import re
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

# As Ansible's own modules have it: the default of MAX_FILE_SIZE_FOR_DIFF.
MAX_SHOWN = 104448


def problems(host: Host, files: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the problems of the files, one sentence each."""
    found = []
    seen = set()
    for entry in files:
        path = entry["path"]
        # Two leading slashes stay two (POSIX, pathname resolution), and would hide that a file is listed twice.
        plain = path.startswith("/") and not path.startswith("//") and path.isprintable()
        if not plain or os.path.normpath(path) != path:
            found.append(f"path is {path!r}: use an absolute path without '..', doubled slashes and control characters")
            continue
        found.extend(mode_problems(path, entry["mode"]))
        if path in seen:
            found.append(f"{path} is there twice: list each file once")
        seen.add(path)
        state = host.stat(path)
        if state and state["is_dir"]:
            found.append(f"{path} is a directory: only files are written and removed")
        elif state and not state["is_link"] and host.read_text(path) is None:
            found.append(f"{path} is there and is not a plain file that can be read: see with 'ls -l' what it is")
    return found


def mode_problems(path: str, mode: str) -> list[str]:
    """Return the problems of a mode. 0644 without quotes is 420 in YAML, and its owner could not write such a file."""
    bits = int(mode, 8) if re.fullmatch(r"0?[0-7]{3}", mode) else None
    if bits is None or (bits >> 3 | bits) & 0o7 & ~(bits >> 6):
        return [f"the mode of {path} is {mode!r}: use an octal mode in quotes, such as '0644'"]
    if bits & 0o002:
        return [f"the mode of {path} is {mode}: all users could change the file"]
    return []


def differs(host: Host, entry: t.Mapping[str, t.Any]) -> bool:
    """Return whether the file differs from its entry."""
    state = host.stat(entry["path"])
    if entry["state"] == "absent" or state is None:
        return (state is not None) == (entry["state"] == "absent")
    wanted = f"{int(entry['mode'], 8):04o}"
    return bool(
        state["is_link"]
        or state["mode"] != wanted
        or state["uid"] != os.geteuid()
        # Compared as bytes: reading as text would lose the line endings.
        or host.sha256(entry["path"]) != hashlib.sha256(entry["text"].encode()).hexdigest()
    )


def difference(host: Host, entry: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the file before and after, as Ansible shows it."""
    path = entry["path"]
    after = "" if entry["state"] == "absent" else entry["text"]
    before = host.read_text(path) or ""
    return {"before": shown(before), "after": shown(after), "before_header": path, "after_header": path}


def shown(text: str) -> str:
    """Return the text for a diff; for a large file its size and sha256."""
    if len(text) <= MAX_SHOWN:
        return text
    return f"{len(text)} characters, sha256 {hashlib.sha256(text.encode()).hexdigest()}\n"


def main() -> None:
    spec = {
        "name": {"type": "str"},
        "path": {"type": "path", "required": True},
        "text": {"type": "str", "default": ""},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "mode": {"type": "str", "default": "0644"},
        "backup": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={"files": {"type": "list", "elements": "dict", "required": True, "options": spec}},
        supports_check_mode=True,
    )
    # Created directories must be readable by all users, also with a restrictive umask of root.
    os.umask(0o022)
    host = Host()
    files = module.params["files"]
    refused = problems(host, files)
    if refused:
        module.fail_json(msg="; ".join(refused))
    due = [entry for entry in files if differs(host, entry)]
    # Read before any change, and only if requested: there may be many files.
    diff_result = {"diff": [difference(host, entry) for entry in due]} if module._diff else {}
    backups = {}
    if not module.check_mode:
        for entry in due:
            path = entry["path"]
            try:
                if entry["backup"] and host.exists(path):
                    backups[path] = module.backup_local(path)
                if entry["state"] == "absent":
                    host.remove(path)
                else:
                    host.write_text(path, entry["text"], int(entry["mode"], 8))
            except OSError as exc:
                module.fail_json(msg=f"{path} could not be changed: {exc.strerror}; correct that and run again")
    module.exit_json(
        changed=bool(due),
        written=[entry["path"] for entry in due if entry["state"] == "present"],
        removed=[entry["path"] for entry in due if entry["state"] == "absent"],
        backups=backups,
        **diff_result,
    )


if __name__ == "__main__":
    main()
