# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at FSx for all identifiers, and a sentence for each that cannot be mounted."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import fsx_lustre_info as module

from tests.unit.fakes.fake_aws import MISCONFIGURED, REGION, file_system

ONE, TWO = "fs-0123456789abcdef0", "fs-0123456789abcdef1"


@pytest.fixture
def ask(run_on_fsx):
    """ask(identifiers) gives the module's answer."""
    return lambda *identifiers: run_on_fsx(module, ids=list(identifiers))


def test_all_are_asked_for_at_once_and_each_once(ask, fsx):
    fsx.add_response(
        "describe_file_systems",
        {"FileSystems": [file_system(1, {"EfaEnabled": False}), file_system(0, Lifecycle="UPDATING")]},
        {"FileSystemIds": [ONE, TWO]},
    )
    answer = ask(ONE, TWO, ONE)
    assert answer["changed"] is False
    assert answer["file_systems"] == {
        ONE: {"dns_name": f"{ONE}.fsx.{REGION}.amazonaws.com", "mount_name": "abcdefg0", "efa": True},
        TWO: {"dns_name": f"{TWO}.fsx.{REGION}.amazonaws.com", "mount_name": "abcdefg1", "efa": False},
    }


def test_file_systems_of_a_cluster_are_listed(run_on_fsx, fsx):
    def tagged(number, cluster, **changes):
        tags = {"mlcluster:filesystem": "data", "mlcluster:cluster": cluster}
        return file_system(number, Tags=[{"Key": key, "Value": value} for key, value in tags.items()], **changes)

    every = [tagged(1, "train"), tagged(0, "train"), tagged(2, "other"), file_system(3)]
    fsx.add_response("describe_file_systems", {"FileSystems": [*every, tagged(4, "train", Lifecycle="DELETING")]}, {})
    assert run_on_fsx(module, cluster="train")["of_cluster"] == [
        {"id": ONE, "name": "data", "gib": 7200},
        {"id": TWO, "name": "data", "gib": 7200},
    ]


def test_denied_list_of_a_cluster_is_one_sentence(run_on_fsx, fsx):
    fsx.add_client_error("describe_file_systems", "AccessDeniedException", "not authorized", http_status_code=400)
    found = run_on_fsx(module, cluster="train")
    assert found["failed"] and found["msg"].startswith("looking for the file systems of train failed: AccessDenied")


@pytest.mark.parametrize("options", [{}, {"ids": [ONE], "cluster": "train"}])
def test_ids_or_cluster_are_required(run_on_fsx, fsx, options):
    assert run_on_fsx(module, **options)["failed"]


def test_missing_file_system_is_named(ask, fsx):
    fsx.add_client_error("describe_file_systems", "FileSystemNotFound", "File system does not exist.")
    fsx.add_response("describe_file_systems", {"FileSystems": [file_system()]}, {"FileSystemIds": [ONE]})
    fsx.add_client_error("describe_file_systems", "FileSystemNotFound", expected_params={"FileSystemIds": [TWO]})
    assert ask(ONE, TWO)["msg"] == (f"FSx in {REGION} has no file system {TWO} for this account: check id and region")


def test_all_unmountable_file_systems_are_reported(ask, fsx):
    zfs = file_system(0, FileSystemType="OPENZFS")
    fsx.add_response("describe_file_systems", {"FileSystems": [zfs, file_system(1, **MISCONFIGURED)]})
    assert ask(ONE, TWO)["msg"] == (
        f"{ONE} is of type OPENZFS and not LUSTRE: choose another one; "
        f"{TWO} is MISCONFIGURED and cannot be mounted: the network interface is gone"
    )


def test_file_system_in_creation_is_refused_with_remedy(ask, fsx):
    fsx.add_response("describe_file_systems", {"FileSystems": [file_system(0, Lifecycle="CREATING")]})
    assert ask(ONE)["msg"].endswith(
        "is CREATING and cannot be mounted: check its state in FSx, and run this again later"
    )


def test_denied_request_is_reported_with_remedies(ask, fsx):
    fsx.add_client_error("describe_file_systems", "AccessDeniedException", "not authorized", http_status_code=400)
    message = ask(ONE)["msg"]
    assert message.startswith(f"asking FSx in {REGION} for {ONE} failed: AccessDeniedException: not authorized")
    assert message.endswith(module.ADVICE)


def test_missing_credentials_are_reported_with_remedies(monkeypatch, run_controller_module):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    message = run_controller_module(module, region=REGION, ids=[ONE])["msg"]
    assert (
        "NoCredentialsError: Unable to locate credentials (set AWS_PROFILE, or log in); let this controller ask"
        in message
    )
