# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role: what they become, and the sentences that reject them."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import (
    ARGUMENT_SPEC,
    BOOT_KEYS,
    ROLE_SPEC,
    RoleConfig,
    parse_role,
    role_problems,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

SUM = "a" * 64


def test_class_and_spec_have_the_same_options_and_defaults() -> None:
    own = {key: option["default"] for key, option in ROLE_SPEC.items() if key not in ARGUMENT_SPEC}
    fields = {entry.name: getattr(RoleConfig(), entry.name) for entry in dataclasses.fields(RoleConfig)}
    fields.pop("lustre")
    assert {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()} == own
    assert set(BOOT_KEYS) <= set(ARGUMENT_SPEC)


def test_options_left_out_or_null_have_their_defaults() -> None:
    assert parse_role({"packages": None, "file_systems": []}) == RoleConfig()
    config = parse_role({"file_systems": [{"path": "/fsx", "efa": True}], "packages": ["mine"], "head_node": True})
    assert config.lustre.file_systems[0].efa
    assert (config.packages, config.head_node, config.hold) == (("mine",), True, True)


GOOD: tuple[dict[str, t.Any], ...] = (
    {"mount_options": ["nofail", "noatime"]},
    {"efa_client_arguments": ["--optimized-for-gds"]},
    {"efa_client": "/c.zip", "efa_client_sha256": SUM},
    {"efa_client": "https://bucket.example.com/c.zip", "efa_client_sha256": SUM},
)


@pytest.mark.parametrize("options", GOOD)
def test_good_options_pass(options: dict[str, t.Any]) -> None:
    assert role_problems(options) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"mount_options": ["nofail", "no atime"]}, "mount_options has no atime: give one option an entry"),
        # A line feed behind a word would end the line of fstab.
        ({"mount_options": ["nofail", "noatime\n"]}, "mount_options has noatime\n: give one option"),
        ({"mount_options": ["noatime"]}, "mount_options lacks nofail: without it a node whose file system gives no"),
        ({"efa_client": "/srv/efa.zip"}, "efa_client has no sha256: give it in fsx_lustre_efa_client_sha256"),
        ({"efa_client": "/c.zip", "efa_client_sha256": f"{SUM}\n"}, "efa_client has no sha256"),
        ({"efa_client": "/c.zip\n", "efa_client_sha256": SUM}, "efa_client is /c.zip\n: give an absolute path"),
        ({"efa_client": "http://x/c.zip", "efa_client_sha256": SUM}, "efa_client is http://x/c.zip: give an absolute"),
        ({"efa_client_arguments": ["--ok", "; reboot"]}, "efa_client_arguments has ; reboot: give options of setup.sh"),
        ({"efa_client_arguments": ["--ok\n"]}, "efa_client_arguments has --ok\n: give"),
        ({"timeout": 0}, "timeout is 0: give 1 to 300"),
        ({"file_systems": [{"path": "/data"}]}, "file_systems has /data: /data means the local NVMe volume"),
        ({"layout": "two"}, "there are unknown options layout"),
    ],
)
def test_bad_options_are_rejected_by_name(options: dict[str, t.Any], problem: str) -> None:
    (found,) = role_problems(options)
    assert found.startswith(problem)
    with pytest.raises(NodeError):
        parse_role(options)
