# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of file systems: asked of FSx once for all hosts of a run, and errors are a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws
from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre import names

ONE, TWO, GONE = "fs-0123456789abcdef0", "fs-0123456789abcdef1", "fs-0123456789abcdef2"
KNOWN = {
    one: {"dns_name": f"{one}.fsx.example.com", "mount_name": f"abcdefg{number}", "efa": False}
    for number, one in enumerate((ONE, TWO))
}
BY_ID = {"path": "/fsx", "id": ONE}
ACCOUNT = {"region": "us-west-2", "profile": None}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the identifiers of each request; an identifier outside KNOWN is missing."""
    requests: list[list[str]] = []

    def mount_names(client: Any, identifiers: list[str], region: str) -> tuple[dict[str, Any], list[str]]:
        requests.append(list(identifiers))
        gone = [one for one in identifiers if one not in KNOWN]
        return {one: KNOWN[one] for one in identifiers if one in KNOWN}, [f"no file system {one}" for one in gone]

    monkeypatch.setattr(names.fsx, "mount_names", mount_names)
    monkeypatch.setattr(names.aws, "client", lambda account, service: None)
    return requests


def no_others() -> Iterator[str]:
    return iter(())


def test_id_becomes_names_from_fsx() -> None:
    systems = [{**BY_ID, "efa": False}, {"path": "/fsx2"}, "not a dictionary"]
    found, problems = names.with_names(systems, KNOWN)
    assert problems == []
    assert found == [
        {"path": "/fsx", "efa": False, "dns_name": f"{ONE}.fsx.example.com", "mount_name": "abcdefg0"},
        {"path": "/fsx2"},
        "not a dictionary",
    ]


def test_id_with_both_names_is_not_asked_for() -> None:
    system = {**BY_ID, "dns_name": "fs-1.example.com", "mount_name": "abcdefgh"}
    assert names.unnamed([system, BY_ID, {"path": "/x", "id": TWO}, {"path": "/y", "id": TWO}]) == [ONE, TWO]
    assert names.entry_problems([system]) == []
    found, _problems = names.with_names([system], {})
    assert found == [{"path": "/fsx", "dns_name": "fs-1.example.com", "mount_name": "abcdefgh"}]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({**BY_ID, "id": "fsx-1"}, "has /fsx with the id 'fsx-1': use an id such as fs-0123456789abcdef0"),
        ({**BY_ID, "id": f"{ONE}\n"}, "use an id such as fs-0123456789abcdef0"),
        ({**BY_ID, "id": 5}, "has /fsx with the id 5: use an id such as"),
        ({**BY_ID, "mount_name": "abcdefgh"}, "with an id and a name: set the id alone, or both names"),
        ({**BY_ID, "dns_name": "fs-1.example.com"}, "with an id and a name: set the id alone, or both names"),
    ],
)
def test_invalid_id_is_rejected(entry: dict[str, Any], words: str) -> None:
    (problem,) = names.entry_problems([entry, {"path": "/other"}])
    assert problem.startswith("fsx_lustre_file_systems has /fsx with ")
    assert words in problem


def test_efa_on_file_system_without_it_is_rejected() -> None:
    _found, (problem,) = names.with_names([{**BY_ID, "efa": True}], KNOWN)
    assert f"with efa, and {ONE} was made without it, which cannot be changed: take efa out" in problem


def test_one_request_serves_all_hosts_of_run(asked: list[list[str]], tmp_path: Path) -> None:
    def others() -> Iterator[str]:
        return iter([ONE, TWO, "what is not an id"])

    for wanted in ([ONE], [TWO], [ONE, TWO], [ONE]):
        found, problems = names.ask_once(wanted, others, ACCOUNT, str(tmp_path))
        assert (found, problems) == ({one: KNOWN[one] for one in wanted}, [])
    assert asked == [[ONE, TWO]]


def test_another_region_or_run_is_asked_again(asked: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    names.ask_once([ONE], no_others, ACCOUNT, str(tmp_path))
    names.ask_once([ONE], no_others, {**ACCOUNT, "region": "eu-west-2"}, str(tmp_path))
    names.ask_once([ONE], no_others, {**ACCOUNT, "profile": "other"}, str(tmp_path))
    names.ask_once([ONE], no_others, ACCOUNT, str(tmp_path / "later"))
    assert asked == [[ONE]] * 4


def test_only_unknown_ids_are_asked_for_later(asked: list[list[str]], tmp_path: Path) -> None:
    names.ask_once([ONE], no_others, ACCOUNT, str(tmp_path))
    names.ask_once([ONE, TWO], no_others, ACCOUNT, str(tmp_path))
    assert asked == [[ONE], [TWO]]


def test_host_gets_problems_of_own_file_systems_only(asked: list[list[str]], tmp_path: Path) -> None:
    def others() -> Iterator[str]:
        return iter([ONE, GONE])

    assert names.ask_once([ONE], others, ACCOUNT, str(tmp_path)) == ({ONE: KNOWN[ONE]}, [])
    assert names.ask_once([GONE], others, ACCOUNT, str(tmp_path)) == ({}, [f"no file system {GONE}"])
    assert asked == [[ONE, GONE]]


def test_refusal_by_aws_is_kept_and_names_solutions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[str] = []

    def client(account: Any, service: str) -> Callable[[], None]:
        tried.append(service)
        raise aws.AwsError("boto3 is needed where the playbook runs")

    monkeypatch.setattr(names.aws, "client", client)
    for _host in range(3):
        found, (problem,) = names.ask_once([ONE, TWO], no_others, ACCOUNT, str(tmp_path))
        assert found == {}
        assert problem.startswith("boto3 is needed where the playbook runs; let this controller ask")
    assert tried == ["fsx"]
