# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collections of a bundle: the node's part of this one, and the plugins of others that roles use."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import content
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle.archive import BundleError, Member

from tests.unit.fakes import fake_collections as made


def test_own_collection_is_packed_without_tests(tmp_path):
    root = made.checkout(tmp_path)
    for place in (
        "tests/unit/test_x.py",
        "roles/one/__pycache__/x.pyc",
        "plugins/.hidden",
        "molecule/default/molecule.yml",
        "roles/cluster/tasks/main.yml",
        "playbooks/site.yml",
        "playbooks/tasks/other.yml",
        "plugins/inventory/ours.py",
        "plugins/plugin_utils/_ec2/fetch.py",
    ):
        made.write(root / place, "no\n")
    made.write(root / "artifacts.lock.yml", "artifacts: []\n")
    made.write(root / "playbooks/tasks/node_role.yml", "[]\n")
    assert sorted(content.own_files(root)) == [
        "LICENSE",
        "artifacts.lock.yml",
        "galaxy.yml",
        "meta/runtime.yml",
        "playbooks/configure_node.yml",
        "playbooks/tasks/node_role.yml",
        "plugins/modules/ours.py",
        "roles/one/tasks/main.yml",
    ]


def test_symbolic_link_is_rejected(tmp_path):
    root = made.checkout(tmp_path)
    (root / "plugins" / "link.py").symlink_to("modules/ours.py")
    with pytest.raises(BundleError, match=r"plugins/link\.py is a symbolic link"):
        content.own_files(root)


def test_version_of_checkout_and_of_installed_collection(tmp_path):
    root = made.checkout(tmp_path)
    assert content.own_version(root) == "1.2.3"
    made.write(root / "MANIFEST.json", json.dumps({"collection_info": {"version": "4.5.6"}}))
    assert content.own_version(root) == "4.5.6"


@pytest.mark.parametrize("text", [None, "name: aws\n", "version: soon\n"])
def test_missing_version_is_rejected(tmp_path, text):
    if text is not None:
        made.write(tmp_path / "galaxy.yml", text)
    with pytest.raises(BundleError, match=r"is not a collection|has no version"):
        content.own_version(tmp_path)


def needed(tmp_path, text, posix=None, general=None):
    """The files that a role with this text needs of two collections, without their licences and metadata."""
    roots = {
        "ansible.posix": made.collection(tmp_path, "ansible.posix", **(posix or {})),
        "community.general": made.collection(tmp_path, "community.general", **(general or {})),
    }
    found = content.other_files({"roles/one/tasks/main.yml": Member(text.encode())}, roots)
    return {name: sorted(path for path in files if path.startswith("plugins/")) for name, files in found.items()}


def test_plugin_brings_its_imports(tmp_path):
    general = {
        "modules__lock": "\n".join(
            [
                "from ansible_collections.community.general.plugins.module_utils import deps",
                "from ..module_utils.near import x",
            ]
        ),
        "modules__other": "",
        "module_utils__deps": "import ansible_collections.community.general.plugins.module_utils.pack.inner\n",
        "module_utils__near": "",
        "module_utils__unused": "",
    }
    root = tmp_path / "ansible_collections/community/general/plugins/module_utils/pack"
    made.write(root / "__init__.py", "")
    made.write(root / "inner.py", "")
    found = needed(tmp_path, "- community.general.lock:\n", general=general)
    assert found["community.general"] == [
        "plugins/module_utils/deps.py",
        "plugins/module_utils/near.py",
        "plugins/module_utils/pack/__init__.py",
        "plugins/module_utils/pack/inner.py",
        "plugins/modules/lock.py",
    ]
    assert found["ansible.posix"] == []


def test_plugin_brings_same_named_files_and_fragments(tmp_path):
    posix = {
        "modules__sync": "DOCUMENTATION = '''\nextends_documentation_fragment: ansible.posix.common\n'''\n",
        "action__sync": "",
        "doc_fragments__common": "",
        "doc_fragments__other": "",
    }
    assert needed(tmp_path, "{{ x | ansible.posix.sync }}", posix=posix)["ansible.posix"] == [
        "plugins/action/sync.py",
        "plugins/doc_fragments/common.py",
        "plugins/modules/sync.py",
    ]


def test_licence_and_metadata_are_included(tmp_path):
    roots = {"ansible.posix": made.collection(tmp_path, "ansible.posix", modules__mount="")}
    files = content.other_files({"playbooks/a.yml": Member(b"ansible.posix.mount:")}, roots)["ansible.posix"]
    assert {"COPYING", "MANIFEST.json", "meta/runtime.yml"} < set(files)
    assert "docs/guide.md" not in files


def test_unused_collection_is_left_out(tmp_path):
    roots = {"ansible.posix": made.collection(tmp_path, "ansible.posix", modules__mount="")}
    assert content.other_files({"roles/a.yml": Member(b"x: 1")}, roots) == {"ansible.posix": {}}


def test_missing_plugin_is_rejected(tmp_path):
    with pytest.raises(BundleError, match=r"roles/one/tasks/main\.yml uses ansible\.posix\.gone, which is missing"):
        needed(tmp_path, "- ansible.posix.gone:\n")


def test_import_from_undeclared_collection_is_rejected(tmp_path):
    posix = {"modules__far": "from ansible_collections.some.where.plugins.module_utils import x\n"}
    with pytest.raises(BundleError, match=r"plugins/modules/far\.py imports .*some\.where.* that no bundle has"):
        needed(tmp_path, "- ansible.posix.far:\n", posix=posix)


def test_collection_is_found_or_reported_missing(tmp_path):
    root = made.collection(tmp_path / "b", "ansible.posix")
    assert content.find("ansible.posix", [tmp_path / "a", tmp_path / "b"]) == root
    with pytest.raises(BundleError, match=r"community\.general is not in .*/a: install it"):
        content.find("community.general", [tmp_path / "a"])


@pytest.mark.parametrize(
    ("needs", "core", "good"), [("2.18.0", "2.17.14", False), ("2.17", "2.17.14", True), ("2.9.10", "2.21.5", True)]
)
def test_collection_for_newer_core_is_rejected(tmp_path, needs, core, good):
    root = made.collection(tmp_path, "ansible.posix", runtime=f'---\nrequires_ansible: ">={needs}"\n')
    if good:
        content.check_core("ansible.posix", root, core)
    else:
        with pytest.raises(BundleError, match=r"needs ansible-core 2\.18 and this bundle has 2\.17\.14"):
            content.check_core("ansible.posix", root, core)


def test_component_of_collection(tmp_path):
    root = made.collection(tmp_path, "ansible.posix")
    entry = content.component("ansible.posix", root, {"a": Member(b"")})
    assert {key: entry[key] for key in ("name", "version", "license", "kind")} == {
        "name": "ansible.posix",
        "version": "3.2.1",
        "license": "GPL-3.0-or-later",
        "kind": "collection",
    }
