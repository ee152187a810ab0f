# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file beside a script: what is written is what is read, and what is not a job is refused with every reason."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import JOB_KINDS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.spec import Container, Spec, parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

SPEC = Spec(
    name="disks",
    kind="local_io",
    dir="/fsx/jobs",
    python="/usr/bin/python3",
    nodes=2,
    tasks=1,
    gpus=8,
    mpi="none",
    environment={"A": "b c=$(id)"},
    container=Container("/x.sqsh", ("/fsx:/fsx",), "/fsx"),
    scratch="/scratch/jobs",
    sbatch=("nodes", "requeue"),
    values={"directories": ["/local"], "size": "4G", "seconds": 30, "processes": 4, "median_percent": 20},
    tools={"fio": "fio"},
    asked={"directories": ["/local"], "median_percent": 20},
)


def refused(text):
    with pytest.raises(NodeError) as error:
        parse(text, "/fsx/jobs/disks.json", JOB_KINDS)
    assert str(error.value).endswith(": render it again with the role slurm_jobs")
    return str(error.value)


def changed(**fields):
    return json.dumps({**json.loads(SPEC.text()), **fields})


@pytest.mark.parametrize("spec", [SPEC, dataclasses.replace(SPEC, container=None, scratch="", environment={})])
def test_written_job_is_read(spec):
    assert parse(spec.text(), "x", JOB_KINDS) == spec
    assert json.loads(spec.text())["schema"] == "mlcluster.job/1"


def test_paths_are_beside_script():
    assert (SPEC.path, SPEC.script) == ("/fsx/jobs/disks.json", "/fsx/jobs/disks.sbatch")
    assert SPEC.mlcluster == ("/usr/bin/python3", "/fsx/jobs/mlcluster.pyz")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, SPEC.text().replace("30,", "NaN,")])
def test_invalid_json_is_rejected(text):
    assert refused(text).startswith("/fsx/jobs/disks.json is not JSON (")


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"schema": "mlcluster.job/2"}'])
def test_another_schema_is_rejected(text):
    assert " and not mlcluster.job/1: " in refused(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a/b"), ("name", None), ("kind", 1), ("dir", "relative"), ("python", ""), ("nodes", 0),
        ("nodes", True), ("tasks", "1"), ("gpus", -1), ("mpi", ""), ("environment", {"A=B": "x"}),
        ("environment", {"A": 1}), ("environment", []), ("container", {}), ("container", {"image": "/x"}),
        ("container", {"image": "", "mounts": [], "workdir": "/"}), ("scratch", None), ("sbatch", "nodes"),
        ("sbatch", [1]), ("values", []), ("tools", {"fio": None}), ("asked", None), ("environment", {"A": "\0"}),
    ],
)  # fmt: skip
def test_field_of_another_type_is_rejected_by_name(field, value):
    assert f"disks.json is not a job: {field} is {value!r}, use " in refused(changed(**{field: value}))


def test_every_reason_is_named_at_once():
    assert refused(changed(nodes=0, tasks=0, more=1)).count("is ") == 4


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "dance"}, "kind is 'dance', use one of container, "),
        ({"values": {**SPEC.values, "seconds": "30; id"}}, "seconds is '30; id', use an integer (seconds)"),
        ({"values": {**SPEC.values, "more": 1}}, "values has more, which is unknown"),
        ({"values": {"size": "4G"}}, "values has no directories; values has no seconds; "),
        ({"tools": {}}, "tools has no fio"),
        ({"asked": {}}, "asked has no directories; asked has no median_percent"),
    ],
)
def test_unknown_option_of_kind_is_rejected(fields, reason):
    assert reason in refused(changed(**fields))
