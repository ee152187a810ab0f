# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resources that are deleted with a cluster."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import deletion as _cluster_deletion


def deletion_plan(shared, **more):
    return _cluster_deletion.deletion_plan(
        json.dumps({"Scheduling": {"Scheduler": "slurm"}, "SharedStorage": shared, **more})
    )


def storage(kind, name, **settings):
    return {"StorageType": kind, "Name": name, "MountDir": f"/{name}", f"{kind}Settings": settings or None}


def test_created_storage_is_deleted_unless_retained():
    plan = deletion_plan(
        [
            storage("FsxLustre", "kept", DeletionPolicy="Retain", StorageCapacity=1200),
            storage("FsxLustre", "there", FileSystemId="fs-1"),
            storage("Efs", "homes"),
            storage("Ebs", "disk", DeletionPolicy="Snapshot"),
            storage("Ebs", "scratch", DeletionPolicy="Delete"),
            storage("FsxOntap", "theirs", VolumeId="fsvol-1"),
        ],
        Monitoring={"Logs": {"CloudWatch": {"DeletionPolicy": "Delete"}}},
    )
    assert plan["names"] == ["homes", "scratch"]
    assert plan["deleted"] == [
        "Efs homes under /homes with all data in it, because its DeletionPolicy is Delete",
        "Ebs scratch under /scratch with all data in it, because its DeletionPolicy is Delete",
        "logs in CloudWatch",
    ]
    assert plan["kept"] == [
        "FsxLustre kept under /kept",
        "FsxLustre there under /there",
        "a snapshot of Ebs disk under /disk",
        "FsxOntap theirs under /theirs",
    ]


@pytest.mark.parametrize(
    "entry",
    [
        storage("FsxNew", "later", FileSystemId="fs-1"),
        storage("FsxLustre", "later", DeletionPolicy="retain"),
        {"Name": "later", "MountDir": "/later"},
    ],
)
def test_storage_that_is_not_known_to_stay_needs_consent(entry):
    plan = deletion_plan([entry])
    assert (plan["names"], plan["kept"]) == (["later"], ["logs in CloudWatch"])
    assert "later under /later with all data in it" in plan["deleted"][0]


@pytest.mark.parametrize(("shared_type", "count"), [(None, 0), ("Ebs", 0), ("Efs", 1)])
def test_file_system_of_home_is_named(shared_type, count):
    deleted = deletion_plan([], HeadNode={"SharedStorageType": shared_type})["deleted"]
    assert deleted == ["the Efs in which the cluster has /home and its own files, with all data in it"][:count]


@pytest.mark.parametrize("shared", [None, [], "x", [None, 7]])
def test_cluster_without_storage_keeps_its_logs(shared):
    assert deletion_plan(shared) == {"names": [], "deleted": [], "kept": ["logs in CloudWatch"]}


@pytest.mark.parametrize("text", ["", "<Error>AccessDenied</Error>", "{", "- a", "a: [b: c: d"])
def test_unreadable_configuration_has_unknown_storage(text):
    plan = _cluster_deletion.deletion_plan(text)
    assert plan["names"] == ["unknown"]
    assert "the configuration of the cluster could not be read" in plan["deleted"][0]
