# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python imports this by itself when its folder is on the path: botocore then records its requests."""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import signal
import sys


def recorded(call, path):
    """BaseClient's method, with one line for each call in the file ``path``.

    A process that comes to ask for the operation in the file ``path``.kill dies instead, and with ``controller ``
    before it every program between it and the tests, too. A change of EC2 or FSx is a line of JSON in the
    file ``path``.changes, too: with its parameters and what is tagged how by then.
    """

    def make(self, operation_name, api_params):
        operation = f"{self.meta.service_model.service_name}:{operation_name}"
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
        return call(self, operation_name, api_params)

    return make


def kill_controller():
    """End every process between the tests and this one, the first one first, as a machine does that loses its power."""
    above, pid = [], os.getppid()
    while pid > 1 and pid != int(os.environ["MLCLUSTER_RIG_TESTS"]):
        above.append(pid)
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            pid = int(stream.read().rpartition(")")[2].split()[1])
    if pid > 1:
        for one in reversed(above):
            os.kill(one, signal.SIGKILL)


class Watch(importlib.abc.MetaPathFinder):
    """Waits for botocore.client, so that processes without it pay nothing."""

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
