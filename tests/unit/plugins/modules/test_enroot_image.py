# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import enroot_image

from tests.unit.plugins.module_utils._node.containers.test_image import ImageHost


def test_image_is_imported_once_and_removed(run_module, tmp_path):
    options = {"source": "docker://alpine:3", "directory": str(tmp_path), "name": "alpine"}
    assert run_module(enroot_image, ImageHost(), check=True, **options)["actions"] == ["import", "link"]
    done = run_module(enroot_image, ImageHost(), **options)
    assert (done["changed"], done["link"]) == (True, f"{tmp_path}/alpine.sqsh")
    assert not run_module(enroot_image, ImageHost(), **options)["changed"]
    assert run_module(enroot_image, ImageHost(), state="absent", **options)["changed"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "rw"}, "use octal digits"),
        ({"mode": "0666"}, "other users could change"),
        ({"source": "x"}, "use an absolute path"),
        ({"directory": "/nowhere"}, "create it first"),
    ],
)
def test_bad_options_fail_with_one_sentence(run_module, tmp_path, options, words):
    given = {"source": "docker://alpine", "directory": str(tmp_path), **options}
    result = run_module(enroot_image, ImageHost(), **given)
    assert result["failed"]
    assert words in result["msg"]
