# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation of the Lustre options matches the modules' options."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.doc_fragments._lustre import ModuleDocFragment
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import ARGUMENT_SPEC
from ansible_collections.mlcluster.aws.plugins.modules import lustre_directories, lustre_info

from .test_storage import documented

OWN_OPTIONS = {lustre_directories: set(), lustre_info: {"probe", "packages", "files"}}


def test_shared_options_are_those_of_spec():
    assert documented(yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]) == ARGUMENT_SPEC


@pytest.mark.parametrize("module", OWN_OPTIONS, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_module_documents_its_own_options_and_takes_shared_ones(module):
    document = yaml.safe_load(module.DOCUMENTATION)
    assert document["extends_documentation_fragment"] == ["mlcluster.aws._lustre"]
    assert set(document.get("options", {})) == OWN_OPTIONS[module]


@pytest.mark.parametrize("module", OWN_OPTIONS, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_examples_use_options_that_exist(module):
    name = "mlcluster.aws." + module.__name__.rsplit(".", 1)[-1]
    tasks = [task for task in yaml.safe_load(module.EXAMPLES) if name in task]
    assert tasks
    assert all(set(task[name] or {}) <= {*ARGUMENT_SPEC, *OWN_OPTIONS[module]} for task in tasks)
