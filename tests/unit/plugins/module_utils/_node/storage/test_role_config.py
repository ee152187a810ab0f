# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import ARGUMENT_SPEC
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.role_config import (
    ROLE_SPEC,
    RoleConfig,
    parse_config,
    problems,
)


def test_options_are_those_of_storage_and_of_role():
    own = [field.name for field in dataclasses.fields(RoleConfig)]
    assert list(ROLE_SPEC) == [*ARGUMENT_SPEC, *own[1:]]


def test_options_reach_their_place():
    config = parse_config({"chunk_kib": 256, "image_build": True, "probe": False, "runtime_sha256": "ab"})
    assert (config.storage.chunk_kib, config.image_build, config.probe, config.runtime_sha256) == (
        256,
        True,
        False,
        "ab",
    )
    assert parse_config({}) == RoleConfig()
    given = {key: entry["default"] for key, entry in ROLE_SPEC.items() if "default" in entry}
    assert [entry.path for entry in parse_config(given).storage.directories][:2] == ["scratch", "cache"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk_kib": 500}, "nvme_raid0_chunk_kib is 500: md needs a power of two"),
        ({"mount_options": ["discard"]}, "nvme_raid0_mount_options has 'discard'"),
        ({"directories": [{"path": "open", "mode": "0777"}]}, "nvme_raid0: the mode of directory open is 0777"),
    ],
)
def test_problem_names_variable_of_role(options, message):
    (found,) = problems(options)
    assert found.startswith(message)
    assert problems({"image_build": True, "probe": False}) == []
