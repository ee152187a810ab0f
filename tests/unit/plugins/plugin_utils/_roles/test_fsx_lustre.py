# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller data for the options of the role fsx_lustre."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleUndefinedVariable
from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre import names
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles import fsx_lustre

ONE, TWO = "fs-0123456789abcdef0", "fs-0123456789abcdef1"
BY_ID = [{"path": "/fsx", "id": ONE}]
NAMED = {"dns_name": "fs-1.example.com", "mount_name": "abcdefgh", "efa": False}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return the recorded requests: identifiers, those of others, region and profile."""
    found: list[tuple[Any, ...]] = []

    def ask_once(wanted: Any, others: Any, account: Any, folder: str) -> Any:
        found.append((list(wanted), sorted(others()), account["region"], account["profile"]))
        return dict.fromkeys(wanted, NAMED), []

    monkeypatch.setattr(names, "ask_once", ask_once)
    for name in fsx_lustre.FROM_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.mark.parametrize(
    ("variables", "head"),
    [
        ({}, False),
        ({"group_names": ["head", "compute"]}, True),
        ({"group_names": ["compute"]}, False),
        ({"configure_node_kind": "head"}, True),
        ({"configure_node_kind": "compute"}, False),
        ({"fsx_lustre_head_node": False, "group_names": ["head"]}, False),
        ({"fsx_lustre_head_node": "yes"}, True),
    ],
)
def test_head_node_is_set_by_option_group_or_hook(variables: dict[str, Any], head: bool) -> None:
    assert fsx_lustre.controller_options(variables)["head_node"] == head


def test_look_needs_no_cache_of_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsx_lustre._runtime, "build", lambda: pytest.fail("a build was put into the cache"))
    assert len(fsx_lustre.controller_options({})["runtime_sha256"]) == 64


def test_without_id_fsx_is_not_asked(asked: list[Any]) -> None:
    options = fsx_lustre.controller_options({"fsx_lustre_file_systems": [{"path": "/fsx"}]})
    assert options["file_systems"] == [{"path": "/fsx"}]
    assert len(options["runtime_sha256"]) == 64
    assert fsx_lustre.controller_options({"fsx_lustre_file_systems": None})["file_systems"] == []
    assert asked == []


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"fsx_lustre_region": "a", "ec2_region": "b", "cluster_region": "c"}, "a"),
        ({"fsx_lustre_region": "", "ec2_region": "b", "cluster_region": "c"}, "b"),
        ({"cluster_region": "c"}, "c"),
        ({}, "d"),
    ],
)
def test_region_comes_from_nearest_source(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch, variables: dict[str, Any], region: str
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "d")
    options = fsx_lustre.controller_options({"fsx_lustre_file_systems": BY_ID, **variables})
    assert options["file_systems"] == [{"path": "/fsx", "dns_name": "fs-1.example.com", "mount_name": "abcdefgh"}]
    assert asked == [([ONE], [], region, None)]


class Unreadable(dict):  # type: ignore[type-arg]
    def get(self, *_arguments: Any) -> Any:
        raise AnsibleUndefinedVariable("fsx_of_this_site is undefined")


def test_ids_of_other_hosts_are_included(asked: list[Any]) -> None:
    others = {
        "n1": {"fsx_lustre_file_systems": BY_ID},
        "n2": {"fsx_lustre_file_systems": [{"path": "/fsx", "id": TWO}]},
        "n3": {},
        "n4": Unreadable(),
    }
    variables = {"fsx_lustre_file_systems": BY_ID, "fsx_lustre_region": "us-west-2", "fsx_lustre_profile": "ml"}
    fsx_lustre.controller_options({**variables, "hostvars": others, "ansible_play_hosts_all": [*others, "n5"]})
    assert asked == [([ONE], [ONE, TWO], "us-west-2", "ml")]


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({}, names.NO_REGION),
        ({"fsx_lustre_region": "us-west-2", "configure_node_kind": "compute"}, "a node that configures itself at boot"),
        ({"fsx_lustre_file_systems": [{"path": "/fsx", "id": "x"}]}, "use an id such as fs-0123456789abcdef0"),
    ],
)
def test_fsx_is_not_asked_without_region_or_permission(
    asked: list[Any], variables: dict[str, Any], problem: str
) -> None:
    (found,) = fsx_lustre.controller_problems({"fsx_lustre_file_systems": BY_ID, **variables})
    assert problem in found
    assert asked == []


def test_head_node_asks_for_itself_at_boot(asked: list[Any]) -> None:
    variables = {"fsx_lustre_file_systems": BY_ID, "fsx_lustre_region": "us-west-2", "configure_node_kind": "head"}
    fsx_lustre.controller_options(variables)
    assert len(asked) == 1


def test_conflict_with_answer_is_problem(asked: list[Any]) -> None:
    variables = {"fsx_lustre_file_systems": [{**BY_ID[0], "efa": True}], "fsx_lustre_region": "us-west-2"}
    (problem,) = fsx_lustre.controller_problems(variables)
    assert "with efa, and" in problem
    assert "was made without it" in problem


def test_set_up_with_other_sha256_is_rejected(tmp_path: Path) -> None:
    archive = tmp_path / "efa.zip"
    archive.write_bytes(b"a set-up")
    digest = hashlib.sha256(b"a set-up").hexdigest()
    good = {"fsx_lustre_efa_client": str(archive), "fsx_lustre_efa_client_sha256": digest}
    assert fsx_lustre.controller_problems(good) == []
    for change, words in (
        ({"fsx_lustre_efa_client_sha256": "0" * 64}, f"has the sha256 {digest} and not that of fsx_lustre_efa_client_"),
        ({"fsx_lustre_efa_client": str(tmp_path / "gone.zip")}, "cannot be read (No such file or directory)"),
    ):
        (problem,) = fsx_lustre.controller_problems({**good, **change})
        assert words in problem
    # A download is checked when it is fetched.
    assert fsx_lustre.controller_problems({**good, "fsx_lustre_efa_client": "https://example.com/efa.zip"}) == []
