# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation of the controller's modules matches their options."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.doc_fragments._cluster import ModuleDocFragment
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster.aws import OPTIONS
from ansible_collections.mlcluster.aws.plugins.modules import (
    fsx_lustre,
    fsx_lustre_info,
    instance_offers_info,
    network_info,
    s3_tree,
)

from .test_storage import documented

MODULES = [fsx_lustre, fsx_lustre_info, instance_offers_info, network_info, s3_tree]


def test_shared_options_are_those_of_spec():
    assert documented(yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]) == OPTIONS


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_module_takes_them_from_fragment(module):
    own = yaml.safe_load(module.DOCUMENTATION)
    assert own["extends_documentation_fragment"] == ["mlcluster.aws._cluster"]
    assert not set(OPTIONS) & set(own["options"])
