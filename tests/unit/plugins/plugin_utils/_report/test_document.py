# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.subjects import FULL_SUBJECTS
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document as model

from tests.unit.fakes import fake_cluster as scene


def build(*nodes, **more):
    return model.build(nodes, scene.TIME, **more)


def test_cluster_is_good_only_if_every_node_is():
    assert (build(scene.node("a"), scene.node("b"))["status"], build(scene.node("a"))["exit_code"]) == ("pass", 0)
    one_broken = build(scene.node("a"), scene.broken("b"))
    assert (one_broken["status"], one_broken["exit_code"]) == ("fail", 1)
    assert one_broken["counts"] == {"fail": 1, "undeterminable": 0, "pass": 1, "not_applicable": 0}


def test_no_node_at_all_proves_nothing():
    assert (build()["status"], build()["exit_code"]) == ("undeterminable", 2)


@pytest.mark.parametrize(
    ("health", "reason"),
    [
        ({"unreachable": True, "msg": "no route to host"}, "unreachable"),
        ({"failed": True, "msg": "sudo: a password is required"}, "no_verdicts"),
        ({"results": []}, "no_verdicts"),
        ({"results": "all good"}, "no_verdicts"),
        ({"results": [{"id": "gpu.count", "status": "fine"}]}, "damaged"),
        ({"results": [7]}, "damaged"),
        (None, "no_verdicts"),
        ("lost", "no_verdicts"),
    ],
)
def test_unjudged_node_stays_on_page_as_not_proved(health, reason):
    document = build(scene.node("a"), {"name": "b", "health": health})
    (bad,) = (node for node in document["nodes"] if node["name"] == "b")
    found = [entry["reason"] for entry in bad["results"] if entry["reason"] != "incomplete"]
    assert (bad["status"], found) == ("undeterminable", [reason])
    assert document["exit_code"] == 2
    assert document["problems"][0]["nodes"] == ["b"]


def test_crashed_module_is_reported_by_its_last_line():
    health = {"failed": True, "msg": "MODULE FAILURE", "module_stderr": "Traceback:\n  x\nOSError: no space\n"}
    (problem,) = build({"name": "a", "health": health})["problems"]
    assert problem["text"].startswith("the node was not judged: MODULE FAILURE. OSError: no space. Check that")


def test_one_damaged_verdict_does_not_hide_others():
    document = build(scene.node("a", scene.verdict("gpu.xid"), {"id": "?"}))
    assert [(entry["id"], entry["status"]) for entry in document["nodes"][0]["results"]][:2] == [
        ("gpu.xid", "pass"),
        ("node.answer", "undeterminable"),
    ]


def of_machine(name, machine, **fields):
    node = scene.node(name, **fields)
    return {**node, "health": {**node["health"], "instance_id": machine}}


def test_node_of_another_instance_is_not_proved():
    good = build(of_machine("a", "i-0123456789abcdef0", instance_id="i-0123456789abcdef0"))
    assert (good["status"], good["exit_code"]) == ("pass", 0)
    document = build(of_machine("a", "i-0fedcba9876543210", instance_id="i-0123456789abcdef0"))
    assert (document["status"], document["exit_code"]) == ("undeterminable", 2)
    (problem,) = document["problems"]
    assert problem["id"] == "node.answer" and "another machine answered: it is i-0fedcba9876543210" in problem["text"]
    assert "ansible_host" in problem["hint"]


def test_one_machine_proves_no_two_nodes():
    document = build(of_machine("a", "i-0123456789abcdef0"), of_machine("b", "i-0123456789abcdef0"), scene.node("c"))
    assert {node["name"]: node["status"] for node in document["nodes"]} == {
        "a": "undeterminable", "b": "undeterminable", "c": "pass"
    }  # fmt: skip
    assert "answered for b too" in document["nodes"][0]["results"][-1]["message"]
    apart = build(of_machine("a", "i-0123456789abcdef0"), of_machine("b", "i-0fedcba9876543210"), of_machine("c", None))
    assert apart["counts"]["pass"] == 3


@pytest.mark.parametrize(
    ("ran", "words"),
    [
        ("n[1-2]", "the jobs prove nothing about n3, which they did not run on"),
        ("n[1-3]", ""),
        # Slurm has other names for these nodes.
        ("ip-[1-2]", ""),
        ("n[1-", ""),
        (None, ""),
    ],
)
def test_nodes_that_slurm_did_not_choose_are_named(ran, words):
    validation = scene.validation(scene.verdict("nccl.correct"))
    validation = {**validation, "jobs": [{**job, "nodes": ran} for job in validation["jobs"]]}
    document = build(*(scene.node(f"n{number}") for number in (1, 2, 3)), validation=validation)
    assert document["jobs_source"] == words


@pytest.mark.parametrize("subjects", FULL_SUBJECTS)
def test_node_without_subject_is_not_proved(subjects):
    node = scene.node("a")
    left = [entry for entry in node["health"]["results"] if entry["id"].partition(".")[0] not in subjects]
    document = build({**node, "health": {**node["health"], "results": left}})
    assert document["nodes"][0]["status"] == "undeterminable"
    assert document["problems"][0]["text"].startswith(
        f"there is no verdict on {subjects[0]}: use the complete result of the profile"
    )


def test_one_verdict_alone_proves_no_node():
    document = build({"name": "a", "health": {"results": [scene.verdict("gpu.count")]}})
    assert (document["status"], document["counts"]["pass"]) == ("undeterminable", 0)


def test_failed_check_with_verdicts_is_not_proved():
    node = scene.node("a")
    node["health"].update(failed=True, msg="no space left")
    (problem,) = build(node)["problems"]
    assert (problem["id"], problem["status"]) == ("node.answer", "undeterminable")
    assert problem["text"].startswith("the check of the node failed: no space left")


def test_node_without_applicable_check_is_not_proved():
    nothing = {"name": "a", "health": {"results": scene.others()}}
    document = build(nothing)
    assert (document["status"], document["exit_code"]) == ("undeterminable", 2)
    assert document["problems"][0]["text"].startswith("no verdict on the node is a pass: nothing of it was proved")
    assert build(nothing, scene.node("b"))["exit_code"] == 2


@pytest.mark.parametrize(
    ("chosen", "status", "words"),
    [
        (None, "pass", ""),
        ([], "pass", ""),
        (["slurm-a", "b"], "pass", ""),
        (["b", "gone"], "pass", "the jobs prove nothing about slurm-a, which they were not sent to"),
        (["a"], "undeterminable", "the validation is of a, and none of them is a node of this report"),
        ([f"n{number}" for number in range(12)], "undeterminable", "n7 and 4 more, and none of them is a node of this"),
        ("b", "undeterminable", "the validation's list of nodes reads b: run run_validation again"),
        ([1], "undeterminable", "the validation's list of nodes reads [1]"),
    ],
)
def test_validation_counts_for_its_nodes_only(chosen, status, words):
    validation = {**scene.validation(scene.verdict("nccl.correct")), "nodes": chosen}
    nodes = [{**scene.node("a"), "slurm_name": "slurm-a"}, {**scene.node("b"), "slurm_name": None}]
    nodes.append({**scene.node("c"), "kind": "head"})
    document = build(*nodes, validation=validation, source="kept.json")
    sentence = " ".join([document["jobs_source"], *(problem["text"] for problem in document["problems"])])
    assert document["jobs"][0]["status"] == status and words in sentence
    assert words or sentence == "kept.json"


def validated(days=14.0, **changes):
    """Return status and problems of a passed validation job, in a report of the cluster ``train``."""
    validation = {**scene.validation(scene.verdict("nccl.correct")), "cluster": "train"}
    for key, value in changes.items():
        (validation["jobs"][0] if key in validation["jobs"][0] else validation)[key] = value
    validation = {key: value for key, value in validation.items() if value is not None}
    document = build(scene.node("a"), validation=validation, cluster="train", validation_days=days)
    return document["jobs"][0]["status"], " ".join(problem["text"] for problem in document["problems"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster": "other"}, "the validation is of the cluster other and this is train"),
        ({"cluster": None}, "the validation is of a cluster without a name and this is train"),
        ({"time": None}, "the validation has no valid time"),
        ({"time": "yesterday"}, "the validation has no valid time (time is yesterday)"),
        ({"time": "2026-13-45T12:00:00Z"}, "the validation has no valid time (time is 2026-13-45T12"),
        ({"time": "2026-01-31T12:00:00+99:00"}, "the validation has no valid time"),
        (
            {"time": "2001-01-31T12:00:00Z", "days": float("nan")},
            "9131 days old, more than the nan days for which it counts",
        ),
        ({"time": "2001-01-31T12:00:00Z"}, "9131 days old, more than the 14 days for which it counts"),
        ({"time": "2026-01-17T11:00:00Z"}, "14.05 days old, more than the 14 days for which it counts"),
        ({"time": "2026-01-17T11:59:59Z"}, "14.01 days old, more than the 14 days for which it counts"),
        ({"time": "2026-01-17T11:59:59Z", "days": 13.9999}, "14 days old, more than the 13.9999 days"),
        ({"time": "2026-02-03T12:00:00Z"}, "dated in the future (here it is 2026-01-31T12:00:00Z): compare the clocks"),
        ({"time": "2026-01-31T12:11:00Z"}, "dated in the future"),
    ],
)
def test_validation_of_another_cluster_or_time_is_not_proved(changes, words):
    status, text = validated(**changes)
    assert status == "undeterminable" and words in text


@pytest.mark.parametrize("jobs", [[], None])
def test_validation_without_job_is_not_proved(jobs):
    document = build(scene.node("a"), validation={**scene.validation(), "jobs": jobs})
    assert (document["status"], document["jobs"][0]["name"]) == ("undeterminable", "validation")
    assert document["problems"][0]["text"] == "the file of the validation has no job"


def test_job_without_passing_verdict_is_not_proved():
    validation = scene.validation(scene.verdict("io.stripes", "not_applicable", reason="no_lustre"))
    validation["jobs"][0]["status"] = "pass"
    document = build(scene.node("a"), validation=validation)
    assert (document["status"], document["problems"][0]["text"]) == (
        "undeterminable",
        "no verdict of this job is a pass",
    )


def test_report_of_impossible_time_is_rejected():
    with pytest.raises(model.ReportError, match="time is '2026-13-45T12:00:00Z': use a time such as"):
        model.build([scene.node("a")], "2026-13-45T12:00:00Z")


@pytest.mark.parametrize(
    "time", ["2026-01-31T12:00:00Z", "2026-01-31T12:09:00Z", "2026-01-17T12:00:00Z", "2026-01-31T14:00:00+02:00"]
)
def test_recent_validation_of_this_cluster_counts(time):
    assert validated(time=time) == ("pass", "")


@pytest.mark.parametrize(
    ("state", "status"),
    [("FAILED", "fail"), ("TIMEOUT", "fail"), ("NODE_FAIL", "fail"), ("STRANGE", "fail"), (None, "undeterminable")],
)
def test_job_that_did_not_complete_is_no_pass(state, status):
    assert validated(state=state)[0] == status


def test_same_problem_of_nodes_is_reported_once_worst_first():
    watch = scene.verdict("clock.offset", "fail", severity="monitor", message="the clock is off")
    unsure = scene.verdict("gds.mode", "undeterminable", reason="timeout")
    nodes = [scene.node(f"n{number}", watch, unsure) for number in (10, 9, 1)]
    document = build(*nodes, scene.broken("n2"))
    assert [(one["id"], one["nodes"]) for one in document["problems"]] == [
        ("gpu.count", ["n2"]),
        ("clock.offset", ["n1", "n9", "n10"]),
        ("gds.mode", ["n1", "n9", "n10"]),
    ]
    assert document["problems"][0]["text"] == (
        "a GPU fell off the bus. expected 8 GPUs, found 7 GPUs. stop the instance and start it again"
    )


def test_long_figures_are_not_in_text():
    document = build(
        scene.node("a"), validation=scene.validation(scene.bandwidth(0.5, status="fail", severity="reset"))
    )
    (problem,) = document["problems"]
    assert (problem["text"], problem["job"], problem["nodes"]) == ("measured", "nccl_all", [])
    assert document["status"] == "fail"


def test_nodes_are_in_order_of_their_numbers():
    names = [node["name"] for node in build(*(scene.node(f"p5-{number}") for number in (10, 2, 1)))["nodes"]]
    assert names == ["p5-1", "p5-2", "p5-10"]


def test_curve_points_are_sorted_with_their_minimum():
    entry = scene.bandwidth(1.0, expected={str(scene.SIZES[-1]): 400.0})
    (curve,) = build(scene.node("a"), validation=scene.validation(entry))["bandwidth"]
    assert [point["size"] for point in curve["points"]] == scene.SIZES
    assert [point["least"] for point in curve["points"]][-2:] == [None, 400.0]
    assert curve["label"] == "nccl_all all_reduce_perf"


def test_run_without_threshold_is_one_point():
    entry = scene.verdict(
        "nccl.bandwidth.all_gather_perf", "undeterminable", reason="no_threshold",
        found={"largest_size": 1024, "busbw": 3.5},
    )  # fmt: skip
    (curve,) = build(scene.node("a"), validation=scene.validation(entry))["bandwidth"]
    assert curve["points"] == [{"size": 1024, "busbw": 3.5, "least": None}]


def test_pairs_come_from_runs_of_two_nodes():
    entries = [scene.bandwidth(1.0, "n10+n9"), scene.bandwidth(0.5, "n1+n9", "fail"), scene.bandwidth(1.0, "n1+n2+n3")]
    pairs = build(scene.node("a"), validation=scene.validation(*entries, status="fail"))["pairs"]
    assert [(pair["a"], pair["b"], pair["status"]) for pair in pairs] == [("n1", "n9", "fail"), ("n9", "n10", "pass")]
    assert pairs[1]["busbw"] == pytest.approx(480, rel=0.01)


def test_size_with_zeros_before_is_that_size():
    entry = {**scene.bandwidth(1.0, "n1+n2"), "found": {"08": 5.0, "4": 3.0}}
    built = build(scene.node("a"), validation=scene.validation(entry))
    assert [pair["busbw"] for pair in built["pairs"]] == [5.0]
    assert [point["size"] for point in built["bandwidth"][0]["points"]] == [4, 8]


def test_figures_of_storage_by_node_and_for_all():
    entries = [
        scene.verdict("io.fio.read", found={"n1": 5.0, "n2": 6.0}, unit="B/s", message="/local read: no node is slow"),
        scene.verdict("io.ior.write", found=12000.5, unit="MiB/s"),
        scene.verdict("io.fio.write", "fail", message="fio, /local write on n3: no space", found="no space"),
    ]
    figures = build(scene.node("a"), validation=scene.validation(*entries, status="fail"))["io"]
    assert [(one["tool"], one["what"], one["node"], one["value"]) for one in figures] == [
        ("fio", "/local read", "n1", 5.0),
        ("fio", "/local read", "n2", 6.0),
        ("ior", "nccl_all", None, 12000.5),
    ]


def test_time_by_role():
    assert build(scene.node("a"), run=scene.RUN)["timings"][0] == {"role": "other", "seconds": 3.2}


@pytest.mark.parametrize(
    ("job", "status", "problem"),
    [
        (scene.validation(status="fail"), "fail", "job.end"),
        (scene.validation(status="pass"), "undeterminable", "job.end"),
        (scene.validation(scene.verdict("nccl.correct"), status="fail"), "fail", None),
        (scene.validation(scene.verdict("nccl.correct"), status="fine"), "undeterminable", None),
        (scene.validation(scene.verdict("nccl.correct", "fail", message="wrong")), "fail", "nccl.correct"),
        (scene.validation(scene.verdict("nccl.correct")), "pass", None),
    ],
)
def test_job_status_is_worst_of_file_and_verdicts(job, status, problem):
    document = build(scene.node("a"), validation=job)
    assert (document["status"], [one["status"] for one in document["jobs"]]) == (status, [status])
    assert [one["id"] for one in document["problems"]] == ([problem] if problem else [])


def test_changes_since_last_report_are_listed():
    before = build(scene.node("a"), scene.node("b", versions={"driver": "570.1"}), scene.node("gone"))
    now = build(scene.broken("a"), scene.node("b", versions={"driver": "580.1"}), scene.node("new"), previous=before)
    assert now["changes"] == {
        "since": scene.TIME,
        "joined": ["new"],
        "left": ["gone"],
        "verdicts": [{"node": "a", "id": "gpu.count", "before": "pass", "after": "fail"}],
        "versions": [{"node": "b", "name": "driver", "before": "570.1", "after": "580.1"}],
    }
    assert build(scene.node("a"))["changes"] is None


@pytest.mark.parametrize(
    ("nodes", "more", "sentence"),
    [
        ([{"health": {}}], {}, "an entry of nodes has the name None: use a string"),
        ([{"name": "a", "kind": "gpu"}], {}, "node a is of kind 'gpu': use one of head, login, compute, node"),
        ([scene.node("a"), scene.node("a")], {}, "nodes has a twice: list each node once"),
        ([], {"validation": {"schema": "x"}}, "validation is not mlcluster.validation/1 but 'x': use the file"),
        ([], {"run": []}, "timings is not mlcluster.run/1 but 'list': use the file"),
        ([], {"previous": {"schema": "mlcluster.cluster/0"}}, "previous is not mlcluster.cluster/1 but"),
    ],
)
def test_unusable_input_is_rejected(nodes, more, sentence):
    with pytest.raises(model.ReportError) as caught:
        build(*nodes, **more)
    assert sentence in str(caught.value)


def test_document_is_json():
    document = build(*scene.cluster(4), validation=scene.validation(scene.bandwidth(1.0)), run=scene.RUN)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_same_sentence_of_several_checks_is_one_problem():
    message = "nvidia-smi gave no answer within 20 seconds"
    verdicts = [
        scene.verdict("gpu.ecc", "undeterminable", reason="timeout", message=message),
        scene.verdict("gpu.count", "undeterminable", reason="timeout", message=message, severity="reset"),
    ]
    (problem,) = build(scene.node("a", *verdicts), scene.node("b", *verdicts))["problems"]
    assert (problem["ids"], problem["id"], problem["severity"]) == (["gpu.ecc", "gpu.count"], "gpu.ecc", "reset")
    assert problem["nodes"] == ["a", "b"]


def test_silent_nodes_are_one_problem_before_other_unproved():
    silent = [
        scene.node(name, health={"unreachable": True, "msg": f"connect to host {address} port 22: No route to {name}"})
        for name, address in (("p5-1", "10.0.0.1"), ("p5-2", "10.0.0.2"), ("p5-3", "fd00:ec2::254"))
    ]
    unsure = [
        scene.node(f"n{at}", scene.verdict("gpu.ecc", "undeterminable", reason="x", message="no", severity="reset"))
        for at in range(9)
    ]
    first, second = build(*unsure, *silent)["problems"]
    assert first["nodes"] == ["p5-1", "p5-2", "p5-3"] and len(second["nodes"]) == 9
    assert first["text"].startswith(
        "the node did not answer: connect to host its address port 22: No route to the node. Check that it runs"
    )


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("Missing sudo password", "run sudo without a password"),
        ("sudo: a password is required", "--ask-become-pass"),
        ("Failed to connect to the host via ssh: Permission denied (publickey)", "ansible_ssh_private_key_file"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED!", "ssh-keygen -R"),
        ("Failed to connect to the host via ssh: no route to host", "Check that it runs"),
    ],
)
def test_hint_for_silent_node_follows_from_reason(message, hint):
    (problem,) = build(scene.node("a", health={"unreachable": True, "msg": message}))["problems"]
    assert hint in problem["text"]
