# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a role on its node, and invalid files in their place."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.role_file import (
    read_role_file,
    role_file,
    written_roles,
)

SPEC = {"mode": {"type": "str"}, "token": {"type": "str", "no_log": True}}
PATH = "/etc/mlcluster/roles/nvidia_gds.json"


class Machine(Host):
    def __init__(self, **files):
        self.files = {f"/etc/mlcluster/roles/{name}": text for name, text in files.items()}

    def read_text(self, path):
        return self.files.get(path)

    def listdir(self, path):
        return sorted(name.rsplit("/", 1)[1] for name in self.files if name.startswith(path + "/"))


def test_options_come_back_without_secrets():
    entry = role_file("nvidia_gds", {"token": "geheim", "mode": "nvfs"}, SPEC)
    assert (entry.path, entry.mode, entry.state) == (PATH, "0600", "present")
    host = Machine(**{"nvidia_gds.json": entry.text, "notes.txt": ""})
    assert read_role_file(host, "nvidia_gds") == {"mode": "nvfs"}
    assert written_roles(host) == ["nvidia_gds"]


def test_equal_options_give_equal_texts():
    first = role_file("nvidia_gds", {"mode": "nvfs", "token": "a"}, SPEC)
    assert first == role_file("nvidia_gds", {"token": "b", "mode": "nvfs"}, SPEC)


@pytest.mark.parametrize(
    "text",
    ["[]", "{", "{}", json.dumps({"schema": "mlcluster.role/2", "options": {}}), '{"schema": "mlcluster.role/1"}'],
)
def test_invalid_role_file_names_role_to_run(text):
    with pytest.raises(NodeError, match="run the role nvidia_gds again to write it"):
        read_role_file(Machine(**{"nvidia_gds.json": text}), "nvidia_gds")
