# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the role: parsing, and messages that reject bad ones."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import config as lustre_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import layouts
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import (
    ARGUMENT_SPEC,
    BOOT_KEYS,
    ROLE_SPEC,
    RoleConfig,
    parse_role,
    role_problems,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

FSX = [{"path": "/fsx"}]
SUM = "a" * 64


def test_class_and_spec_have_same_options_and_defaults() -> None:
    others = {*ARGUMENT_SPEC, *layouts.KEYS}
    own = {key: option.get("default", False) for key, option in ROLE_SPEC.items() if key not in others}
    fields = {entry.name: getattr(RoleConfig(), entry.name) for entry in dataclasses.fields(RoleConfig)}
    fields.pop("lustre")
    assert {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()} == own
    assert set(BOOT_KEYS) <= set(ARGUMENT_SPEC)


def test_missing_or_null_options_have_defaults() -> None:
    assert parse_role({"packages": None, "file_systems": []}) == RoleConfig()
    config = parse_role({"file_systems": [{"path": "/fsx", "efa": True}], "packages": ["mine"], "head_node": True})
    assert config.lustre.file_systems[0].efa
    assert (config.packages, config.head_node, config.hold) == (("mine",), True, True)


GOOD: tuple[dict[str, t.Any], ...] = (
    {"mount_options": ["nofail", "noatime"]},
    {"file_systems": [{"path": "/fsx", "id": "fs-0123456789abcdef0"}]},
    {"efa_client_arguments": ["--optimized-for-gds"]},
    {"efa_client": "/c.zip", "efa_client_sha256": SUM},
    {"efa_client": "https://bucket.example.com/c.zip", "efa_client_sha256": SUM},
)


@pytest.mark.parametrize("options", GOOD)
def test_good_options_are_accepted(options: dict[str, t.Any]) -> None:
    assert role_problems(options) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"mount_options": ["nofail", "no atime"]}, "fsx_lustre_mount_options has no atime: use one option an entry"),
        # A line feed would end the line of fstab.
        ({"mount_options": ["nofail", "noatime\n"]}, "fsx_lustre_mount_options has noatime\n: use one option"),
        (
            {"mount_options": ["noatime"]},
            "fsx_lustre_mount_options lacks nofail: add it, since without it a node does not boot",
        ),
        (
            {"efa_client": "/srv/efa.zip"},
            "fsx_lustre_efa_client has no sha256: set fsx_lustre_efa_client_sha256 to 64",
        ),
        ({"efa_client": "/c.zip", "efa_client_sha256": f"{SUM}\n"}, "fsx_lustre_efa_client has no sha256"),
        (
            {"efa_client": "/c.zip\n", "efa_client_sha256": SUM},
            "fsx_lustre_efa_client is /c.zip\n: use an absolute path",
        ),
        (
            {"efa_client": "http://x/c.zip", "efa_client_sha256": SUM},
            "fsx_lustre_efa_client is http://x/c.zip: use an absolute",
        ),
        (
            {"efa_client_arguments": ["--ok", "; reboot"]},
            "fsx_lustre_efa_client_arguments has ; reboot: use options of setup.sh",
        ),
        ({"efa_client_arguments": ["--ok\n"]}, "fsx_lustre_efa_client_arguments has --ok\n: use"),
        ({"timeout": 0}, "fsx_lustre_timeout is 0: use 1 to 300"),
        ({"file_systems": [{"path": "/data"}]}, "fsx_lustre_file_systems has /data: /data is the local NVMe volume"),
        ({"lay_out": "two"}, "there are unknown options lay_out"),
    ],
)
def test_bad_options_are_rejected_by_name(options: dict[str, t.Any], problem: str) -> None:
    (found,) = role_problems(options)
    assert found.startswith(problem)
    with pytest.raises(NodeError):
        parse_role(options)


LAYOUT: dict[str, t.Any] = {
    "file_systems": [{"path": "/fsx"}],
    "layout": "one",
    "models": ["a", "b"],
    "classes": {"weights": {}, "logs": {"stripe": [{"count": 1}]}, "dataset": {}, "checkpoint": {}},
    "group": "ml",
}


def directories_of(**options: t.Any) -> list[t.Any]:
    return list(parse_role({**LAYOUT, **options}).lustre.directories)


def test_single_file_system_has_all_places() -> None:
    found = directories_of()
    assert [entry.path for entry in found] == [
        "/fsx/images",
        "/fsx/scripts",
        "/fsx/data",
        "/fsx/checkpoints/a",
        "/fsx/checkpoints/b",
        "/fsx/outputs/a",
        "/fsx/outputs/b",
        "/fsx/logs/a",
        "/fsx/logs/b",
        "/fsx/tensorboard/a",
        "/fsx/tensorboard/b",
    ]
    assert (found[7].group, found[7].mode, found[7].stripe) == ("ml", "2775", ({"count": 1},))


def test_places_precede_order_of_file_systems() -> None:
    systems = [{"path": "/fsx1"}, {"path": "/fsx2"}, {"path": "/fsx3"}]
    found = directories_of(layout="three", models=["a"], file_systems=systems, places={"logs": "/fsx1"})
    paths = [entry.path for entry in found]
    assert paths[:1] + paths[3:] == [
        "/fsx1/datasets",
        "/fsx2/a/checkpoints",
        "/fsx2/a/outputs",
        "/fsx1/a/training_logs",
        "/fsx1/a/tensorboard",
    ]


def test_own_directories_override_layout() -> None:
    found = directories_of(directories=[{"path": "/fsx/data", "mode": "0750", "class": "logs"}])
    (data,) = [entry for entry in found if entry.path == "/fsx/data"]
    assert (data.mode, data.stripe) == ("0750", ({"count": 1},))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layout": "two"}, "the layout is 'two': it must be one of three, one, none"),
        ({"layout": "three"}, "the layout three needs a mount for checkpoints, logs"),
        ({"models": ["a/b"]}, "fsx_lustre_models has 'a/b'"),
        ({"classes": {}}, "there is no storage class weights"),
        ({"classes": {**LAYOUT["classes"], "x": {"stripes": []}}}, "the storage class x is"),
        ({"directories": [{"path": "/fsx/a", "class": "fast"}]}, "there is no storage class fast"),
        ({"directories": [{}]}, "fsx_lustre_directories has {}: use a dictionary with a path"),
        ({"classes": {**LAYOUT["classes"], "logs": {"stripe": 5}}}, "class logs has the stripe 5: use a list"),
        ({"classes": {**LAYOUT["classes"], "logs": {"stripe": ["x"]}}}, "class logs has the stripe ['x']"),
        ({"classes": {1: {}}}, "there is no storage class weights: add it to classes, there are 1"),
        ({"directories": [{"path": ["/fsx/a"]}]}, "use a dictionary with a path"),
        ({"directories": [{"path": "/fsx/a", "stripe": {"count": 1}}]}, "set stripe to a list of dictionaries"),
        ({"directories": [{"path": "/fsx/a", "acl": 5}]}, "acl to a list of strings"),
        ({"directories": [{"path": "/fsx/a", "class": ["logs"]}]}, "there is no storage class ['logs']"),
        ({"places": "a=b"}, "fsx_lustre_places is 'a=b', a string; use a dictionary"),
        ({"classes": "a=b"}, "fsx_lustre_classes is 'a=b', a string; use a dictionary"),
        ({"directories": [{"path": "/srv/a"}]}, "fsx_lustre_directories has /srv/a, which is below none of"),
    ],
)
def test_bad_layouts_are_rejected(change: dict[str, t.Any], words: str) -> None:
    assert any(words in problem for problem in role_problems({**LAYOUT, **change}))


@pytest.mark.parametrize("key", sorted(set(ROLE_SPEC) - {"layout"}))
def test_null_variable_equals_missing_variable(key: str) -> None:
    """Ansible accepts null as a list and as a mapping."""
    left_out = {name: value for name, value in LAYOUT.items() if name != key}
    assert role_problems({**LAYOUT, key: None}) == role_problems(left_out)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"file_systems": [{"path": "fsx"}]}, "file_systems has 'fsx': use an absolute path"),
        ({"file_systems": [{"path": "/data/fsx"}]}, "/data is the local NVMe volume"),
        ({"file_systems": [{"path": "/home"}]}, "the operating system lives there"),
        ({"file_systems": [*FSX, *FSX]}, "file_systems has /fsx twice"),
        ({"file_systems": [{"path": "/fsx", "dns_name": "fs-1.example.com"}]}, "has a dns_name and no mount_name"),
        (
            {"file_systems": [{"path": "/fsx", "dns_name": "a b", "mount_name": "abcdefgh"}]},
            "set them as FSx shows them",
        ),
        ({"file_systems": [{"path": "/fsx", "size": 1}]}, "file_systems has /fsx with size: known are path"),
        ({"file_systems": ["/fsx"]}, "file_systems has '/fsx': use a dictionary with a path"),
        ({"nfs_mounts": ["home"]}, "nfs_mounts has 'home': use the absolute path"),
        ({"directories": [{"path": "/fsx/a"}]}, "below none of file_systems (none)"),
        ({"file_systems": FSX, "directories": [{"path": "/fsx"}]}, "/fsx, which is below none of file_systems (/fsx)"),
        ({"file_systems": FSX, "directories": [{"path": "/fsx/a", "mode": "rwx"}]}, "use an octal mode in quotes"),
        ({"file_systems": FSX, "directories": [{"path": "/fsx/a", "group": "a b"}]}, "the group of /fsx/a is 'a b'"),
        ({"file_systems": FSX, "directories": [{"path": "/fsx/a"}] * 2}, "directories has /fsx/a twice"),
        ({"tuning": {"rm": 1}}, "tuning has 'rm': use a name such as osc."),
        ({"tuning": {"osc.*.a": "1;2"}}, "tuning has osc.*.a with '1;2': use one plain value"),
        ({"tuning": [1]}, "use a dictionary such as"),
        ({"module_options": {"credits": 1}}, "module_options has 'credits'"),
        ({"timeout": 0}, "timeout is 0: use 1 to 300"),
        ({"speed": 1}, "there are unknown options speed"),
    ],
)
def test_bad_options_raise_one_sentence(options, words):
    with pytest.raises(NodeError) as refused:
        lustre_config.parse_config(options)
    assert words in str(refused.value)


def test_all_problems_are_reported_at_once():
    found = lustre_config.problems({"file_systems": [{"path": "/etc"}], "timeout": 999, "nfs_mounts": ["x"]})
    assert len(found) == 3


def test_boot_unit_reads_config_of_role():
    config = lustre_config.parse_config({"file_systems": FSX, "tuning": {"osc.*.a": 1}, "timeout": 5})
    text = lustre_config.config_text(config)
    assert '"schema": "mlcluster.lustre_config/1"' in text
    assert "directories" not in text
