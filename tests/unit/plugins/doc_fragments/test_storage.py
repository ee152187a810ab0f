# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation of the storage options matches the modules' options."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.doc_fragments._storage import ModuleDocFragment
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import ARGUMENT_SPEC
from ansible_collections.mlcluster.aws.plugins.modules import instance_store, instance_store_info

FIELDS = ("type", "elements", "choices", "default", "required")
OWN_OPTIONS = {instance_store: set(), instance_store_info: {"probe"}}


def documented(options):
    """Return the options of a documentation as an argument spec."""
    spec = {}
    for name, option in options.items():
        spec[name] = {field: option[field] for field in FIELDS if field in option}
        if "suboptions" in option:
            spec[name]["options"] = documented(option["suboptions"])
    return spec


def test_types_choices_and_defaults_are_those_of_spec():
    options = documented(yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"])
    assert options == ARGUMENT_SPEC, "document each option of ARGUMENT_SPEC in plugins/doc_fragments/_storage.py"


def descriptions(options):
    for name, option in options.items():
        text = option["description"]
        yield name, [text] if isinstance(text, str) else text
        yield from descriptions(option.get("suboptions", {}))


def test_every_option_is_described_in_sentences():
    for name, texts in descriptions(yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]):
        assert all((text.endswith(".") and text[0].isupper()) or text.startswith("V(") for text in texts), name


@pytest.mark.parametrize("module", OWN_OPTIONS, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_module_documents_its_own_options_and_takes_shared_ones(module):
    document = yaml.safe_load(module.DOCUMENTATION)
    assert document["extends_documentation_fragment"] == ["mlcluster.aws._storage"]
    assert set(document.get("options", {})) == OWN_OPTIONS[module]
    assert document["attributes"]["check_mode"]["support"] == "full"


@pytest.mark.parametrize("module", OWN_OPTIONS, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_examples_use_options_that_exist(module):
    for task in yaml.safe_load(module.EXAMPLES):
        (name,) = set(task) & {"mlcluster.aws.instance_store", "mlcluster.aws.instance_store_info"} or {None}
        if name:
            assert set(task[name] or {}) <= {*ARGUMENT_SPEC, "probe"}
