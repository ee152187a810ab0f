# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file system is found, made or refused; tests/integration/cluster has the same on an account."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import fsx as engine
from ansible_collections.mlcluster.aws.plugins.modules import fsx_lustre as module

from tests.unit.fakes.fake_aws import MISCONFIGURED, file_system

ONE = "fs-0123456789abcdef0"
OPTIONS = {"name": "checkpoints", "gib": 7200, "throughput": 1000, "efa": True}
PLACE = {"subnet": "subnet-0123456789abcdef1", "groups": ["sg-0123456789abcdef0"]}
LINK = {"path": "/datasets", "s3": "s3://data/datasets"}
TIE = {
    "AssociationId": "dra-0123456789abcdef0",
    "FileSystemPath": "/datasets",
    "DataRepositoryPath": "s3://data/datasets",
    "Lifecycle": "AVAILABLE",
}


@pytest.fixture
def ensure(run_on_fsx):
    """ensure(check=False, **options) gives the module's answer."""
    return lambda check=False, **options: run_on_fsx(module, check, **options)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(engine.time, "sleep", lambda seconds: None)


def seen(fsx, *found, **request):
    fsx.add_response("describe_file_systems", {"FileSystems": list(found)}, request)


def test_check_mode_predicts_missing_file_system(ensure, fsx):
    seen(fsx)
    answer = ensure(check=True, **OPTIONS, **PLACE, associations=[LINK])
    assert (answer["changed"], answer["file_system"], answer["id"]) == (True, None, "")
    assert answer["actions"] == [
        "make checkpoints with 7200 GiB and 1000 MB/s for each TiB",
        "associate /datasets with s3://data/datasets",
    ]


def test_file_system_is_made_awaited_and_linked(ensure, fsx):
    seen(fsx)
    wanted = {"associations": [{**LINK, "export": False}], "tags": {}, "kms_key": "", **OPTIONS, **PLACE}
    fsx.add_response("create_file_system", {"FileSystem": file_system(Lifecycle="CREATING")}, None)
    seen(fsx, file_system(Lifecycle="CREATING"), FileSystemIds=[ONE])
    seen(fsx, file_system(), FileSystemIds=[ONE])
    fsx.add_response("create_data_repository_association", {"Association": TIE}, None)
    by_system = {"Filters": [{"Name": "file-system-id", "Values": [ONE]}]}
    fsx.add_response("describe_data_repository_associations", {"Associations": [TIE]}, by_system)
    seen(fsx, file_system(), FileSystemIds=[ONE])
    answer = ensure(**wanted)
    assert (answer["changed"], answer["id"], answer["file_system"]["Lifecycle"]) == (True, ONE, "AVAILABLE")
    fsx.assert_no_pending_responses()


def test_existing_linked_file_system_is_unchanged(ensure, fsx):
    seen(fsx, file_system())
    fsx.add_response("describe_data_repository_associations", {"Associations": [TIE]}, None)
    for _look in range(2):
        seen(fsx, file_system(), FileSystemIds=[ONE])
    answer = ensure(**OPTIONS, associations=[LINK])
    assert (answer["changed"], answer["actions"], answer["id"]) == (False, [], ONE)


def test_different_file_system_is_refused_with_differences(ensure, fsx):
    seen(fsx, file_system(lustre={"EfaEnabled": False}, StorageCapacity=1200))
    message = ensure(**OPTIONS)["msg"]
    assert f"{ONE} has gib 1200 and not 7200" in message
    assert f"{ONE} has efa False and not True" in message


def test_misconfigured_file_system_is_reported_with_reason(ensure, fsx):
    seen(fsx, file_system(**MISCONFIGURED))
    assert ensure(**OPTIONS)["msg"] == (
        f"{ONE} is MISCONFIGURED: the network interface is gone; repair or delete it by hand"
    )


def test_missing_options_of_new_file_system_are_named(ensure, fsx):
    seen(fsx)
    assert ensure(name="logs")["msg"] == (
        "there is no file system logs, and to make one gib, throughput, subnet, groups are needed"
    )


def test_rejected_request_is_one_sentence_of_module(ensure, fsx):
    seen(fsx)
    fsx.add_client_error("create_file_system", "ServiceLimitExceeded", "You have reached the limit.")
    assert ensure(**OPTIONS, **PLACE)["msg"] == (
        "making the file system checkpoints failed: ServiceLimitExceeded: You have reached the limit"
    )
