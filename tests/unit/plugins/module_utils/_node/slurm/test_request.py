# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import request as slurm_request
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.request import RequestError

SCRIPT = "#!/bin/bash\ntrue\n"


def node(name: str, gpus: int = 8, partitions: tuple[str, ...] = ("main",)) -> dict:
    return {"name": name, "gpus": gpus, "partitions": list(partitions), "features": ["p5", "efa"]}


def partition(name: str, count: int, **other) -> dict:
    basis = {"default": name == "main", "state": "UP", "max_nodes": None, "max_seconds": None, "accounts": None}
    return {"name": name, "node_count": count, **basis, **other}


@pytest.fixture
def facts() -> dict:
    return {
        "nodes": [node(f"n{number}") for number in range(1, 81)] + [node("d1", gpus=1, partitions=("debug",))],
        "partitions": [partition("main", 80, max_seconds=86400), partition("debug", 1, accounts=["research"])],
        "accounting": True,
        "accounts": ["research", "root"],
        "qos": ["normal"],
        "licenses": {"matlab": 2, "ansys@flex": 100},
        "settings": {"MaxArraySize": "1001"},
        "container_options": 1,
    }


@pytest.fixture
def judge(facts):
    def run(text=SCRIPT, exists=lambda path: True, **options):
        given = slurm_request.parse_options(options)
        known = {1, 2}.__contains__
        return slurm_request.problems("/jobs/a.sbatch", text, given, "/jobs", facts, exists, known)

    return run


def test_valid_submission_has_no_problem(judge):
    options = {"nodes": 80, "gres": "gpu:8", "partition": "main", "account": "research", "qos": "normal"}
    more = {
        "time": "1-0",
        "array": "0-1000%4",
        "constraint": "p5&efa",
        "dependency": "afterok:1:2_3,singleton",
        "licenses": "matlab:2,ansys@flex:5",
    }
    assert judge(**options, **more, output="/logs/%j.out", container_image="nvcr.io#nvidia/pytorch") == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nodes": 81}, "81 nodes were requested and partition main gives at most 80: request fewer"),
        ({"nodes": "2-4", "partition": "debug"}, "2 nodes were requested and partition debug gives at most 1"),
        ({"gpus_per_node": 16}, "16 GPUs a node were requested on 1 nodes, and 0 nodes of partition main have that"),
        ({"gres": "gpu:h100:2", "partition": "debug"}, "2 GPUs a node were requested on 1 nodes, and 0 nodes of"),
        ({"gpus_per_task": 2, "ntasks_per_node": 8}, "16 GPUs a node were requested"),
        ({"partition": "gpu,main"}, "partition gpu does not exist here: choose from main, debug"),
        ({"time": "2-0"}, "a time of 2-0 was requested and partition main allows 1440 minutes: request less"),
        ({"account": "none"}, "account none does not exist: choose from research, root"),
        ({"account": "root", "partition": "debug"}, "partition debug does not take account root: it takes research"),
        ({"qos": "fast"}, "quality of service fast does not exist: choose from normal"),
        ({"constraint": "p5&p6"}, "no node has the feature p6: the nodes have efa, p5"),
        ({"array": "1-1001"}, "the array goes to index 1001 and this cluster allows 1000: split it"),
        ({"array": "0-999999999"}, "the array goes to index 999999999 and this cluster allows 1000: split it"),
        ({"dependency": "afterok"}, "dependency is afterok: write it as afterok:JOB, several joined by commas"),
        ({"dependency": "afterok:1:9_2,singleton"}, "dependency names job 9 and Slurm does not know it, so this job"),
        ({"licenses": "matlab:1,idl@db:2"}, "license idl@db does not exist here: choose from ansys@fl"),
        ({"licenses": "ansys:5"}, "license ansys does not exist here: choose from ansys@flex, matlab"),
        ({"licenses": "ansys@flex:101"}, "101 of license ansys@flex were requested and there are 100: request fewer"),
        ({"gres": "gpu:1g.10gb:9"}, "9 GPUs a node were requested on 1 nodes"),
        ({"gres": "gpu:3090:9"}, "9 GPUs a node were requested on 1 nodes"),
        ({"gpus_per_node": "a100:4,1g.10gb:5"}, "9 GPUs a node were requested on 1 nodes"),
        ({"licenses": "matlab:3"}, "3 of license matlab were requested and there are 2: request fewer"),
    ],
)
def test_each_problem_is_one_sentence(judge, options, sentence):
    (found,) = judge(**options)
    assert found.startswith(sentence)


def test_closed_partition_and_missing_default(judge, facts):
    facts["partitions"][0].update(state="DRAIN")
    assert judge() == ["partition main is DRAIN and takes no jobs: choose another, or have it opened"]
    facts["partitions"][0].update(state="UP", default=False)
    assert judge() == ["no partition was named and none is the default: choose from main, debug"]


def test_too_few_nodes_with_enough_gpus(judge, facts):
    for entry in facts["nodes"][:10]:
        entry["gpus"] = 4
    (found,) = judge(nodes=71, gres="gpu:8")
    assert found == (
        "8 GPUs a node were requested on 71 nodes, and 70 nodes of partition main have that many "
        "(there are nodes with 4, 8): request what a node has"
    )


@pytest.mark.parametrize(
    ("size", "array", "sentence"),
    [
        (None, "0-4000001", "the array goes to index 4000001 and this cluster allows 4000000: split it"),
        (None, "0-4000000:4000002%8000000", None),
        ("1001", "0-1000:2000", None),
        ("0", "0", "an array was requested and this cluster has none (MaxArraySize=0): submit single jobs"),
    ],
)
def test_array_index_limit(judge, facts, size, array, sentence):
    facts["settings"] = {"MaxArraySize": size}
    assert judge(array=array) == ([sentence] if sentence else [])


def test_missing_files_are_reported(judge, facts):
    facts["container_options"] = 0
    found = judge(
        exists=lambda path: path == "/jobs/logs",
        output="logs/%j",
        error="gone/%j",
        chdir="/w",
        container_image="/i.sqsh",
    )
    assert found == [
        "the working directory /w does not exist: create it first",
        "the directory /w/logs for output does not exist, and the job would end without a message: create it",
        "the directory /w/gone for error does not exist, and the job would end without a message: create it",
        "a container image was requested and Slurm offers no --container-image here: enable Pyxis first",
        "the container image /i.sqsh does not exist: import it first",
    ]
    assert judge(exists=lambda path: False, output="logs-%x/%j") == []


def test_missing_or_invalid_script_is_reported(judge):
    assert judge(text=None) == ["the script /jobs/a.sbatch does not exist or cannot be read: render or copy it first"]
    assert judge(text="echo\n")[0].startswith("the script /jobs/a.sbatch does not start with #!")


def test_options_override_script_directives(judge):
    text = "#!/bin/bash\n#SBATCH -N 100 --gres=gpu:9 # comment\n# other\n#SBATCH -pnone\ntrue\n#SBATCH -A none\n"
    assert [problem.split()[0] for problem in judge(text)] == ["partition"]
    assert [problem.split()[0] for problem in judge(text, partition="main")] == ["100", "9"]
    assert judge(text, partition="main", nodes=2, gres="gpu:8") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--nodes=2 --exclusive", {"nodes": "2", "exclusive": None}),
        ("--nodes 2 -J 'a b'", {"nodes": "2", "job-name": "a b"}),
        ("-N2 -p=main", {"nodes": "2", "partition": "main"}),
        ("-o 'unclosed", {}),
    ],
)
def test_directives(line, expected):
    assert slurm_request.directives(f"#!/bin/sh\n#SBATCH {line}\n") == expected


def test_options_become_separate_arguments(judge):
    options = slurm_request.parse_options(
        {
            "job_name": "a; rm -rf /",
            "exclusive": True,
            "requeue": False,
            "comment": None,
            "dependency": ["afterok:1", "x"],
        }
    )
    assert slurm_request.argv("/s", options, []) == [
        "--job-name=a; rm -rf /",
        "--exclusive",
        "--dependency=afterok:1,x",
        "/s",
    ]
    assert slurm_request.argv("/s", {}, ["--help"]) == ["--", "/s", "--help"]


def test_invalid_options_are_rejected_together():
    given = {"--nodes": 1, "wrap": "true", "test_only": True, "gres": {"gpu": 1}, "comment": "a\nb"}
    with pytest.raises(RequestError) as caught:
        slurm_request.parse_options(given)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "options has '--nodes'",
        "options has wrap",
        "options has test_only",
        "options has a dictionary for gres",
        "options has a line end in comment",
    ]


def test_exclusive_partition_rejects_sharing(judge, facts):
    assert judge(oversubscribe=True) == []
    facts["partitions"][0]["exclusive"] = True
    assert judge() == []
    (problem,) = judge(oversubscribe=True)
    assert problem.startswith("nodes are to be shared and partition main gives each job whole nodes (OverSubscribe=")
    # Where one of several would do, Slurm takes that one.
    assert judge(oversubscribe=True, partition="main,debug", account="research") == []


@pytest.mark.parametrize(
    "option", ["nodes", "time", "gres", "gpus_per_node", "ntasks_per_node", "array", "dependency", "licenses"]
)
def test_huge_number_is_reported(judge, option):
    before = {"gres": "gpu:", "dependency": "afterok:", "licenses": "matlab:"}.get(option, "")
    name = option.replace("_", "-")
    # More digits than Python itself turns into a number.
    for text in (f"{before}{'9' * 5000}", f"{before}{'9' * 20}"):
        sentence = [f"{name} has a number with more digits than Slurm can count: correct it"]
        assert judge(**{option: text}) == sentence
        assert judge(text=f"#!/bin/bash\n#SBATCH --{name}={text}\ntrue\n") == sentence
