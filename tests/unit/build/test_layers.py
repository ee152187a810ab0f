# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.build import layers

FILE = "plugins/module_utils/_node/storage/x.py"
COLLECTION = "ansible_collections.mlcluster.aws.plugins"


@pytest.mark.parametrize(
    "text",
    [
        "from ..efa import look",
        "from .. import efa",
        "from ..efa.look import gather",
        "def f():\n    if True:\n        from ..efa import look",
        "try:\n    from ....module_utils._node.efa import look\nexcept ImportError:\n    pass",
        f"import {COLLECTION}.module_utils._node.efa.look as look",
        f"from {COLLECTION}.module_utils._node.efa import look",
        f"from {COLLECTION}.module_utils._node import efa",
    ],
)
def test_import_from_higher_layer_fails(text):
    (problem,) = layers.layers(FILE, text)
    assert problem.startswith(f"{FILE}:")
    assert problem.endswith(
        " module_utils._node.storage may not import module_utils._node.efa: layer 3 is below layer 4"
    )


def test_import_from_same_layer_fails():
    (problem,) = layers.layers(FILE, "from ..slurm import parse")
    assert problem.endswith("module_utils._node.slurm: layer 3 is the same layer")


@pytest.mark.parametrize(
    "path, text",
    [
        (FILE, "from . import plan"),
        (FILE, "from ..system.host import Host"),
        (FILE, "from ..verdict import result"),
        (FILE, "from ..._data import instance_types"),
        (FILE, "import os\nfrom pathlib import Path"),
        ("plugins/modules/x.py", "from ..module_utils._node.cli import main"),
        ("plugins/filter/x.py", "from ..plugin_utils._slurm import plan"),
        ("tests/unit/x.py", "from ..efa import look"),
        ("plugins/module_utils/_node/__init__.py", ""),
    ],
)
def test_import_from_lower_layer_passes(path, text):
    assert list(layers.layers(path, text)) == []


@pytest.mark.parametrize(
    "path, text",
    [
        ("plugins/module_utils/_node/cli/x.py", "from ....plugin_utils import _runtime"),
        ("plugins/module_utils/_node/cli/x.py", "from ....modules import efa_info"),
        ("plugins/module_utils/_data/x.py", "from .._node.verdict import result"),
        ("plugins/module_utils/_data/x.py", "from .._node import verdict"),
        ("plugins/modules/x.py", "from ..plugin_utils import _runtime"),
    ],
)
def test_import_across_packages_fails(path, text):
    assert len(list(layers.layers(path, text))) == 1


def test_unknown_room_fails():
    (problem,) = layers.layers("plugins/module_utils/_node/new/x.py", "import os")
    assert "in no layer" in problem
    (problem,) = layers.layers(FILE, "from ..new import x")
    assert "layer unknown" in problem


def test_every_layer_names_room_that_exists():
    rooms = {
        path.name for path in (layers.PAGE.parents[1] / layers.IN_ROOMS).iterdir() if (path / "__init__.py").is_file()
    }
    assert rooms
    # The room of the node's one look comes with it.
    assert {room for layer in layers.ROOMS for room in layer} - {"node"} == rooms - {"node"}


def test_picture_in_page_is_up_to_date():
    text = layers.PAGE.read_text(encoding="utf-8")
    assert layers.renewed(text) == text, "run: .venv/bin/python -m tests.build.layers"
    assert "_node.storage" in text


def test_page_without_place_for_picture_is_error():
    with pytest.raises(ValueError, match="0 pictures"):
        layers.renewed("# Architecture\n")
