# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.build import layers, quick

CHECKOUT = Path(__file__).resolve().parents[3]
PLUGINS = "tests/unit/plugins"
NODE = f"{PLUGINS}/module_utils/_node"


@pytest.mark.parametrize(
    ("changed", "tests", "others"),
    [
        (
            "plugins/module_utils/_node/lustre/look.py",
            {f"{NODE}/lustre", f"{NODE}/cli/test_lustre.py", f"{NODE}/node/test_domains.py"},
            {f"{NODE}/verdict", f"{NODE}/nccl", f"{PLUGINS}/inventory"},
        ),
        (
            "plugins/plugin_utils/_ec2/names.py",
            {f"{PLUGINS}/plugin_utils"},
            {f"{NODE}/lustre", f"{PLUGINS}/filter"},
        ),
    ],
)
def test_module_concerns_its_room_and_tests_that_import_it(changed, tests, others):
    found = set(quick.tests_of([changed], CHECKOUT))
    assert tests <= found
    assert not others & found
    assert all((CHECKOUT / name).exists() for name in found)


def test_imports_are_followed_through_others_and_through_fakes(tmp_path):
    place = "ansible_collections.mlcluster.aws.plugins.module_utils._node"
    files = {
        "plugins/module_utils/_node/gds/parse.py": "",
        "plugins/module_utils/_node/gds/look.py": "from .parse import lines\n",
        "plugins/module_utils/_node/cli/gds.py": "from ..gds import look\n",
        "tests/unit/fakes/fake_gds.py": f"from {place}.gds import parse\n",
        "tests/unit/rooms/test_cli.py": f"from {place}.cli.gds import main\n",
        "tests/unit/rooms/test_fake.py": "from tests.unit.fakes import fake_gds\n",
        "tests/unit/rooms/test_other.py": f"from {place}.efa import look\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert quick.tests_of(["plugins/module_utils/_node/gds/parse.py"], tmp_path) == [
        "tests/unit/rooms/test_cli.py",
        "tests/unit/rooms/test_fake.py",
    ]


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("plugins/modules/efa_info.py", [f"{PLUGINS}/modules/test_efa_info.py"]),
        ("tests/build/suite.py", ["tests/unit/build/test_suite.py"]),
        ("tests/build/parts_of_today.py", ["tests/unit/build"]),
        ("tests/unit/build/test_suite.py", ["tests/unit/build/test_suite.py"]),
        ("docs/bundle.md", ["tests/unit/docs_check"]),
        ("roles/enroot_pyxis/README.md", ["tests/unit/docs_check", "tests/unit/roles/test_enroot_pyxis_image.py"]),
        ("LICENSE", []),
        ("tests/unit/build/test_gone.py", []),
    ],
)
def test_file_concerns_tests_that_mirror_it(changed, tests):
    found = quick.tests_of([changed], CHECKOUT)
    assert found == tests or (changed.startswith("roles/") and set(tests) <= set(found))


def test_tests_are_not_named_twice():
    changed = ["tests/build/parts_of_today.py", "tests/build/suite.py", "tests/unit/build/test_suite.py"]
    assert quick.tests_of(changed, CHECKOUT) == ["tests/unit/build"]


def test_every_package_of_layers_has_its_folder_of_tests():
    missing = {name for name in layers.LEVELS if not (CHECKOUT / "tests/unit" / name.replace(".", "/")).is_dir()}
    # The callback is tested with the playbooks that it reports on, and one file has no folder.
    assert missing <= {"plugins.callback", "plugins.module_utils._node.node", "plugins.__init__"}


def test_changes_are_those_since_main_committed_or_not(tmp_path):
    def git(*words):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    for name in ("kept", "changed", "gone", "old"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    git("switch", "-c", "work")
    (tmp_path / "changed").write_text("2")
    git("commit", "-am", "second")
    (tmp_path / "gone").unlink()
    (tmp_path / "old").write_text("2")
    (tmp_path / "new").write_text("1")
    assert quick.changed_files(tmp_path) == ["changed", "new", "old"]
