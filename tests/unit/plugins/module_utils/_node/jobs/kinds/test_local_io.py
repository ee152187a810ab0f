# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the files of fio are, and the verdict on a directory that is not on the local disks."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.job import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import local_io
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.verify_io import place_problem
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from tests.unit.fakes.fake_gds_host import EBS, INSTANCE_STORE, GdsHost
from tests.unit.fakes.fake_job_work import FakeWork, spec_of

NODES = ("n1", "n2", "n3")


@pytest.fixture
def host():
    """Return a node with its root on EBS and a stripe of two local disks at /data."""
    made = GdsHost()
    made.files["/proc/self/mountinfo"] = ""
    made.disk("nvme0n1", "259:0", EBS)
    made.disk("nvme3n1", "259:9", EBS)
    for number in (1, 2):
        made.disk(f"nvme{number}n1", f"259:{number}", INSTANCE_STORE)
    made.disk("md127", "9:127", "", slaves=("nvme1n1", "nvme2n1"), md__level="raid0")
    made.mount("259:0 / / rw - ext4 /dev/nvme0n1 rw")
    made.mount("9:127 / /data rw - xfs /dev/md127 rw")
    made.mount("259:0 /srv/local /local rw - ext4 /dev/nvme0n1 rw")
    made.mount("259:9 / /ebs rw - xfs /dev/nvme3n1 rw")
    made.mount("0:40 / /shm rw - tmpfs tmpfs rw")
    made.mount("0:41 / /fsx rw - lustre 10.0.0.1@tcp:/x rw")
    made.mount("0:42 / /merged rw - overlay overlay rw")
    made.links["/scratch/x"] = "/data/x"
    return made


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/data/x", ""),
        ("/scratch/x", ""),
        ("/database/x", "is on the root disk (ext4, on nvme0n1 (Amazon Elastic Block Store))"),
        # A bind mount of a directory of the root disk.
        ("/local/x", "is on the root disk (ext4, on nvme0n1 (Amazon Elastic Block Store))"),
        ("/ebs/x", "is on disks other than the instance store: nvme3n1 (Amazon Elastic Block Store)"),
        ("/shm/x", "is on no local disk: it is on tmpfs at /shm"),
        ("/fsx/x", "is on no local disk: it is on lustre at /fsx"),
        ("/merged/x", "is on no local disk: it is on overlay at /merged"),
    ],
)
def test_directory_is_on_local_disks_by_mount_and_model(host, path, problem):
    assert place_problem(json.loads(json.dumps(local_io.look_place(host, path)))) == problem


def test_unreadable_mount_table_proves_nothing(host):
    host.files["/proc/self/mountinfo"] = "broken"
    assert place_problem(local_io.look_place(host, "/data")).startswith(
        "is on unknown disks: read /proc/self/mountinfo"
    )


def test_each_node_records_place_before_it_measures(host):
    work = FakeWork(spec_of("local_io"), ("n1",))
    work.host = host
    assert local_io.measure(work, ["1", "/data/mlcluster-fio-7"]) == 0
    (name,) = work.files
    assert name == "place-1-n1.json" and place_problem(json.loads(work.files[name])) == ""
    assert len(work.batches) == 3


def results(folder, host, places):
    """Write what fio leaves on three nodes, with the record of a path for each of ``places``; return the verdicts."""
    for node in NODES:
        run = {"error": 0, "read": {"bw_bytes": 100.0, "iops": 7.5}, "write": {"bw_bytes": 100.0}}
        for mode in ("write", "read", "randread"):
            (folder / f"fio-0-{mode}-{node}.json").write_text(json.dumps({"jobs": [run]}))
        if node in places:
            (folder / f"place-0-{node}.json").write_text(json.dumps(local_io.look_place(host, places[node])))
    job = Job({"directories": ["/data"], "median_percent": 20}, NODES, str(folder))
    return [(one.id, one.status, one.scope.node) for one in local_io.judge_local_io(job, Host())]


def test_figures_of_local_disks_pass(tmp_path, host):
    found = results(tmp_path, host, dict.fromkeys(NODES, "/data/x"))
    ids = ("io.fio.place", "io.fio.randread", "io.fio.read", "io.fio.write")
    assert found == [(name, "pass", None) for name in ids]


def test_figures_of_root_disk_are_not_judged(tmp_path, host):
    found = results(tmp_path, host, dict.fromkeys(NODES, "/database/x"))
    assert found == [("io.fio.place", "undeterminable", node) for node in NODES]


def test_node_without_its_volume_is_not_compared(tmp_path, host):
    found = results(tmp_path, host, {"n1": "/data/x", "n2": "/database/x"})
    assert found[:2] == [("io.fio.place", "undeterminable", node) for node in ("n2", "n3")]
    # One node has no median.
    assert {status for _id, status, _node in found[2:]} == {"undeterminable"} and len(found) == 5
