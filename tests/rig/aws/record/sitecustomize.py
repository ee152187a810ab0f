# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python imports this at its start if the folder is in PYTHONPATH; it makes botocore record its requests."""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import signal
import sys


def recorded(call, path):
    """Return BaseClient's method with a line in the file ``path`` for each call.

    A process that requests the operation in the file ``path``.kill is killed instead. With the prefix ``controller ``,
    so is every program between it and the tests; with ``controller after ``, after the operation. For a change of EC2
    or FSx, the file ``path``.changes gets a line of JSON with the parameters and the current tags.
    """

    def make(self, operation_name, api_params):
        operation, wanted = f"{self.meta.service_model.service_name}:{operation_name}", ""
        if os.path.exists(f"{path}.kill"):
            with open(f"{path}.kill", encoding="utf-8") as stream:
                wanted = stream.read()
            if wanted == f"controller {operation}":
                kill_controller()
            if wanted in (operation, f"controller {operation}"):
                os.kill(os.getpid(), signal.SIGKILL)
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(f"{operation}\n")
        service, changes = self.meta.service_model.service_name, not operation_name.startswith("Describe")
        if service in ("ec2", "fsx") and changes:
            tags = call(self, "DescribeTags", {})["Tags"] if service == "ec2" else []
            entry = {"operation": operation, "parameters": api_params, "tags": tags}
            with open(f"{path}.changes", "a", encoding="utf-8") as stream:
                stream.write(json.dumps(entry, default=str) + "\n")
        answer = call(self, operation_name, api_params)
        if wanted == f"controller after {operation}":
            kill_controller()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return make


def kill_controller():
    """Kill every process between the tests and this one, the outermost first, like a power failure."""
    above, pid = [], os.getppid()
    while pid > 1 and pid != int(os.environ["MLCLUSTER_RIG_TESTS"]):
        above.append(pid)
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            pid = int(stream.read().rpartition(")")[2].split()[1])
    if pid > 1:
        for one in reversed(above):
            os.kill(one, signal.SIGKILL)


class Watch(importlib.abc.MetaPathFinder):
    """Patches botocore.client at its import, so that other processes do not import it."""

    def find_spec(self, name, path=None, target=None):
        if name != "botocore.client":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def execute(module):
            load(module)
            client = module.BaseClient
            client._make_api_call = recorded(client._make_api_call, os.environ["MLCLUSTER_RIG_RECORD"])

        spec.loader.exec_module = execute
        return spec


if "MLCLUSTER_RIG_RECORD" in os.environ:
    sys.meta_path.insert(0, Watch())
