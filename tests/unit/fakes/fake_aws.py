# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of FSx whose answers are given; botocore holds requests and answers against the model of the service."""

from __future__ import annotations

import typing as t

import botocore.session
from botocore.stub import Stubber

REGION = "us-west-2"
MISCONFIGURED = {"Lifecycle": "MISCONFIGURED", "FailureDetails": {"Message": "the network interface is gone"}}


def client() -> tuple[t.Any, Stubber]:
    """The client, and the stubber that it asks."""
    session = botocore.session.Session()
    session.set_credentials("AKIASTUB", "not-a-secret")
    made = session.create_client("fsx", region_name=REGION)
    stubber = Stubber(made)
    stubber.activate()
    return made, stubber


def file_system(number: int = 0, lustre: t.Mapping[str, t.Any] | None = None, **changes: t.Any) -> dict[str, t.Any]:
    """Return a mountable file system in the format of DescribeFileSystems (FSx API); the figures are invented."""
    identifier = f"fs-0123456789abcdef{number}"
    about = {
        "DeploymentType": "PERSISTENT_2",
        "PerUnitStorageThroughput": 1000,
        "DataCompressionType": "LZ4",
        "EfaEnabled": True,
        "MountName": f"abcdefg{number}",
    }
    return {
        "FileSystemId": identifier,
        "FileSystemType": "LUSTRE",
        "Lifecycle": "AVAILABLE",
        "StorageCapacity": 7200,
        "DNSName": f"{identifier}.fsx.{REGION}.amazonaws.com",
        "LustreConfiguration": {**about, **(lustre or {})},
        "Tags": [{"Key": "mlcluster:filesystem", "Value": "checkpoints"}],
        **changes,
    }
