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
# Prints after the other functions that Python calls as the process ends.
AT_EXIT = """
import atexit, gc
atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 0))
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
    assert [plugins.install(finders), plugins.install(finders)] == [True, False]
    assert [*finders[:1], *finders[2:]] == [others[0], theirs, others[1]]
    assert isinstance(finders[1], plugins.CompiledFinder)


def test_process_without_ansible_keeps_its_finders():
    finders = [object()]
    assert not plugins.install(finders)
    assert len(finders) == 1


@pytest.fixture
def program(tmp_path):
    """Return a function that runs a program with a copy of the collection, and returns its output."""
    folder = tmp_path / "ansible_collections" / "mlcluster" / "aws" / "plugins"
    (folder / "module_utils").mkdir(parents=True)
    (folder / "__init__.py").write_bytes(Path(plugins.__file__).read_bytes())
    (folder / "module_utils" / "_one.py").write_text("VALUE = 1\n", encoding="utf-8")

    def run(text):
        command = [sys.executable, "-I", "-c", text, str(tmp_path)]
        environment = {"HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    return run


def test_ansible_keeps_what_python_has_compiled(tmp_path, program):
    value, cached = program(PROGRAM)
    assert value == "1" and Path(cached).is_relative_to(tmp_path) and Path(cached).is_file()


@pytest.mark.parametrize(
    ("threshold", "kept"), [(700, plugins.OBJECTS), (2 * plugins.OBJECTS, 2 * plugins.OBJECTS), (0, 0)]
)
def test_garbage_is_searched_rarely_and_not_at_the_end(program, threshold, kept):
    output = program(f"{AT_EXIT}\ngc.set_threshold({threshold})\n{PROGRAM}")
    assert output[2:] == [str(kept), "True"]
