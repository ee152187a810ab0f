# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation of the container modules matches their options."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.doc_fragments._enroot import ModuleDocFragment
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import ARGUMENT_SPEC
from ansible_collections.mlcluster.aws.plugins.modules import enroot_image, enroot_pyxis_info, pyxis_plugstack

from .test_storage import documented

SPECS = {
    enroot_pyxis_info: enroot_pyxis_info.OWN_SPEC,
    enroot_image: enroot_image.SPEC,
    pyxis_plugstack: pyxis_plugstack.SPEC,
}


def test_shared_options_are_those_of_spec():
    assert documented(yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]) == ARGUMENT_SPEC


@pytest.mark.parametrize("module", SPECS, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_module_documents_what_it_takes(module):
    assert documented(yaml.safe_load(module.DOCUMENTATION)["options"]) == SPECS[module]


@pytest.mark.parametrize("module", SPECS, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_examples_use_options_that_exist(module):
    name = "mlcluster.aws." + module.__name__.rsplit(".", 1)[-1]
    known = {*SPECS[module], *(ARGUMENT_SPEC if module is enroot_pyxis_info else ())}
    tasks = yaml.safe_load(module.EXAMPLES)
    assert all(set(task[name] or {}) <= known for task in tasks)
