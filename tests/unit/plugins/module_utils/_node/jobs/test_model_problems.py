# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import JOB_KINDS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.model import model
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.model_problems import COMMON

from tests.rig.slurm.scripts import FACTS, Role

ODD = (
    None, [], {}, 5, 0, -1, 0.5, "x", "", "a b", True, float("nan"), float("inf"), [None], [[]], ["x"], {"x": None},
    10**400,
)  # fmt: skip
FACTS_OF_ALL = {**FACTS, "container_options": 1}


@pytest.fixture(scope="module")
def settings():
    """The settings of the role as its defaults give them."""
    return Role().settings


def job(kind, **changes):
    return {"name": kind.replace("_", "-"), "kind": kind, **JOB_KINDS[kind].example, **changes}


def problems(settings, *jobs, **changes):
    """Return each problem once without facts, then the number of problems and jobs with those of a cluster."""
    given = {**settings, "jobs": list(jobs), **changes}
    found = model(given)
    result = model(given, FACTS_OF_ALL)
    assert all(isinstance(problem, str) and problem for problem in result["problems"])
    # Whatever is taken becomes a script, and whatever is refused has a sentence.
    assert bool(result["problems"]) != bool(result["jobs"]) or not jobs
    return found["problems"]


def test_sound_jobs_are_taken(settings):
    assert problems(settings, *(job(kind) for kind in JOB_KINDS)) == []


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_no_value_under_any_key_of_job_is_more_than_sentence(settings, kind):
    for key in sorted(COMMON | set(JOB_KINDS[kind].options)):
        for value in ODD:
            problems(settings, {**job(kind), key: value})
    for value in ODD:
        problems(settings, job(kind, options={"comment": value}), job("node_smoke", name="other"))
        problems(settings, value)


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_no_value_of_setting_is_more_than_sentence(settings, value):
    # Values that the role derives from the inventory are not settings.
    for key in sorted(set(settings) - {"capacity"}):
        given = {**settings, "jobs": [job(kind) for kind in JOB_KINDS], "instance_type": "p5.48xlarge", key: value}
        model(given)
        model(given, FACTS_OF_ALL)


def test_null_or_list_is_reported_by_type(settings):
    found = problems(
        settings,
        {"name": "node-smoke", "kind": ["x"]},
        job("nccom", collectives=None),
        job("training", marker=None, partition=["gpu"], account=[5], container_mounts=None),
        job("nccl", smallest="1M", largest="64K"),
        container_mounts=None,
        versions=None,
    )
    assert [problem.partition(": use")[0].partition(": choose")[0].partition(": swap")[0] for problem in found] == [
        "versions is None",
        "container_mounts must be a list",
        "job node-smoke: kind is ['x']",
        "job nccom: collectives is None",
        "job training: marker is None",
        "job training: partition is ['gpu']",
        "job training: account is [5]",
        "job training: container_mounts must be a list",
        "job nccl: smallest is 1M and largest 64K",
    ]


@pytest.mark.parametrize(("mode", "sound"), [
    ("1777", True), ("0755", True), ("755", True), ("1770", True), ("0777", False), ("777", False), ("0775", False),
    ("511", True), ("u+w", False), ("", False),
])  # fmt: skip
def test_replaceable_results_are_rejected(settings, mode, sound):
    found = problems(settings, job("node_smoke"), results_mode=mode)
    assert found == [] if sound else len(found) == 1 and found[0].startswith(f"results_mode is {mode}: ")


def test_option_never_outweighs_setting_of_job(settings):
    options = {"nodes": 100, "time": 5, "job_name": "x", "signal": "INT@5", "container_mounts": "/a:/b"}
    found = problems(settings, job("training", options={**options, "container_workdir": "/x"}))
    assert found == [
        "job training: options has nodes: set nodes of the job instead",
        "job training: options has time: set minutes of the job instead",
        "job training: options has job-name: set name of the job instead",
        "job training: options has signal: the script sets that itself, so leave it out",
        "job training: options has container-mounts: set container_mounts of the job instead",
        "job training: options has container-workdir: the script sets that itself, so leave it out",
    ]


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ("/fsx/c", "/fsx/c", "checkpoints /fsx/c and checkpoints /fsx/c"),
        ("/fsx/c/deep", "/fsx/c", "checkpoints /fsx/c/deep and checkpoints /fsx/c"),
        ("/fsx/c", "/fsx/c-2", None),
    ],
)
def test_two_trainings_never_have_one_directory(settings, first, second, sentence):
    found = problems(settings, job("training", checkpoints=first), job("training", name="other", checkpoints=second))
    whole = f"jobs training and other would write into the same directory, {sentence}: give each its own"
    assert found == ([whole] if sentence else [])


def test_training_and_shards_never_have_one_directory(settings):
    (found,) = problems(settings, job("training", checkpoints="/fsx/out/c"), job("preprocess"))
    assert found.startswith("jobs training and preprocess would write into the same directory")


@pytest.mark.parametrize(
    "mount", ["/a:/b", "/a:/b:ro", "/a:/b:ro+noexec", "/a-b/c_d.e:/b:rbind+rslave", "/:/host:ro", "/a:/b:nofail+silent"]
)
def test_mount_of_pyxis_is_accepted(settings, mount):
    assert problems(settings, container_mounts=[mount]) == []


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ("/a", "use SOURCE:TARGET"),
        ("a:/b", "use SOURCE:TARGET"),
        ("/a:b", "use SOURCE:TARGET"),
        # Pyxis takes what follows the comma for another mount.
        ("/a:/b:ro,noexec", "use SOURCE:TARGET"),
        ("/home/$USER:/b", "use SOURCE:TARGET"),
        ("/a:/b/`id`", "use SOURCE:TARGET"),
        ('/a"x:/b', "use SOURCE:TARGET"),
        ("/a\\x:/b", "use SOURCE:TARGET"),
        # Enroot mounts these for writing.
        ("/a:/b:readonly", "Enroot ignores the flag 'readonly'"),
        ("/a:/b:ro+fast", "Enroot ignores the flag 'fast'"),
        ("/a:/b:ro+", "Enroot ignores the flag ''"),
    ],
)  # fmt: skip
def test_mount_that_pyxis_reads_otherwise_is_rejected(settings, mount, words):
    (problem,) = problems(settings, container_mounts=[mount])
    assert problem.startswith(f"container_mounts has {mount!r}: {words}")


@pytest.mark.parametrize("mount", ["/:/", "/:/:ro", "/data://", "/data:/."])
def test_mount_that_hides_image_is_rejected(settings, mount):
    """With /:/ the container has the root directory of the host, and runs its programs."""
    (problem,) = problems(settings, container_mounts=[mount])
    assert problem == f"container_mounts has {mount!r}, which hides the whole image: give a directory below /"
