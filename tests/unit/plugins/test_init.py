# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loader of the collection's modules in a process of Ansible."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws import plugins
from ansible_collections.mlcluster.aws.hooks.mlcluster_boot import events
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _here

# Ansible's steps before it loads a plugin, for a collection of one module in the given folder.
PROGRAM = """
import sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible_collections.mlcluster.aws.plugins.module_utils import _one
print(_one.VALUE, _one.__cached__)
"""


class _AnsibleCollectionFinder:
    """Stands for the class of that name."""


@pytest.mark.parametrize("module", [events, result, _here], ids=lambda module: module.__name__.rpartition(".")[2])
def test_modules_are_loaded_as_python_does(module):
    assert isinstance(module.__loader__, SourceFileLoader)


@pytest.mark.parametrize(
    "name",
    [
        "ansible_collections.mlcluster.aws.plugins.action.node_plan",
        "ansible_collections.mlcluster.aws.plugins.module_utils",
        "ansible_collections.mlcluster.aws.plugins.module_utils.nowhere",
        "ansible_collections.other.aws.plugins.module_utils._node",
    ],
)
def test_other_modules_are_left_to_ansible(name):
    folder = str(Path(plugins.__file__).parent / "module_utils")
    assert plugins.CompiledFinder.find_spec(name, [folder]) is None


def test_folder_without_code_is_left_to_ansible(tmp_path):
    (tmp_path / "_room").mkdir()
    name = plugins.PACKAGES[0] + "_room"
    assert plugins.CompiledFinder.find_spec(name, [str(tmp_path)]) is None
    (tmp_path / "_room" / "__init__.py").touch()
    assert plugins.CompiledFinder.find_spec(name, [str(tmp_path)]).origin == str(tmp_path / "_room" / "__init__.py")


def test_finder_stands_once_before_that_of_ansible():
    theirs, others = _AnsibleCollectionFinder(), [object(), object()]
    finders = [others[0], theirs, others[1]]
    plugins.install(finders)
    plugins.install(finders)
    assert [*finders[:1], *finders[2:]] == [others[0], theirs, others[1]]
    assert isinstance(finders[1], plugins.CompiledFinder)


def test_process_without_ansible_keeps_its_finders():
    finders = [object()]
    plugins.install(finders)
    assert len(finders) == 1


def test_ansible_keeps_what_python_has_compiled(tmp_path):
    folder = tmp_path / "ansible_collections" / "mlcluster" / "aws" / "plugins"
    (folder / "module_utils").mkdir(parents=True)
    (folder / "__init__.py").write_bytes(Path(plugins.__file__).read_bytes())
    (folder / "module_utils" / "_one.py").write_text("VALUE = 1\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(tmp_path)],
        env={"HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    value, cached = done.stdout.split()
    assert value == "1" and Path(cached).is_relative_to(folder) and Path(cached).is_file()
