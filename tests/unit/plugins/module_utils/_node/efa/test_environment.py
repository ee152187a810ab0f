# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of variables: which are set, how a variable is judged, and that no value escapes its file."""

from __future__ import annotations

import re
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import nccl_env as table
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.environment import (
    Options,
    Setting,
    _version_fits,
    assignments,
    lint,
    problem,
    render,
    traits,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from hypothesis import given
from hypothesis import strategies as st

CURRENT = {"plugin": "1.21.1", "nccl": "2.29.3", "libfabric": "2.6.0amzn1"}
P5 = Setting("p5.48xlarge", **CURRENT)

# Every variable that the cluster documents of users export, as they write it, with the expected verdict.
DOCUMENTED = [
    ("FI_PROVIDER=efa", "keep"),
    ("FI_EFA_USE_DEVICE_RDMA=1", "drop"),
    ("FI_EFA_FORK_SAFE=1", "drop"),
    ("FI_EFA_ENABLE_SHM_TRANSFER=1", "drop"),
    ("NCCL_SOCKET_NTHREADS=4", "drop"),
    ("NCCL_CROSS_NIC=1", "drop"),
    ("NCCL_IFNAME=eth0,eth1,eth2,eth3", "rename"),
    ("NCCL_MIN_NCHANNELS=32", "drop"),
    ("NCCL_MAX_NCHANNELS=64", "drop"),
    ("NCCL_MIN_NCHANNELS=128", "drop"),
    ("NCCL_MAX_NCHANNELS=256", "drop"),
    ("NCCL_P2P_LEVEL=NVL", "drop"),
    ("NCCL_NET_GDR_LEVEL=PHB", "drop"),
    ("NCCL_BUFFSIZE=8388608", "drop"),
    ("NCCL_BUFFSIZE=16777216", "drop"),
    ("NCCL_P2P_NET_CHUNKSIZE=524288", "drop"),
    ("NCCL_P2P_NET_CHUNKSIZE=1048576", "drop"),
    ("NCCL_TREE_THRESHOLD=2048", "drop"),
    ("NCCL_ALGO=Tree,Ring", "drop"),
    ("NCCL_COMM_TIMEOUT_SECONDS=3600", "drop"),
    ("NCCL_TUNER_PLUGIN=/opt/aws-ofi-nccl/install/lib/libnccl-ofi-tuner.so", "drop"),
    ("NCCL_DEBUG=INFO                # debug output", "keep"),
    ("NCCL_DEBUG=WARN", "keep"),
    ("NCCL_DEBUG_FILE=/fsx3/model1/logs/nccl-rank-%r.log", "harmful"),
    (
        "LD_LIBRARY_PATH=/opt/amazon/openmpi/lib:/opt/amazon/efa/lib:/opt/aws-ofi-nccl/install/lib:$LD_LIBRARY_PATH",
        "harmful",
    ),
    ("OMPI_MCA_pml=^cm,ucx", "drop"),
    ("OMPI_MCA_btl=tcp,self", "drop"),
    ("OMPI_MCA_btl_tcp_if_exclude=lo,docker0", "drop"),
    ("MASTER_ADDR=$(scontrol show hostname $SLURM_JOB_NODELIST | head -n 1)", "keep"),
    ("MASTER_PORT=29500", "keep"),
    ("WORLD_SIZE=$SLURM_NTASKS", "keep"),
    ("RANK=$SLURM_PROCID", "harmful"),
    ("LOCAL_RANK=$SLURM_LOCALID", "harmful"),
    ("CUDA_DEVICE_ORDER=PCI_BUS_ID", "keep"),
    ("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7", "drop"),
    ("PATH=$PATH:/opt/amazon/efa/bin", "keep"),
]


def verdict(assignment, setting=P5):
    [entry] = lint(assignment, setting)
    return entry


@pytest.mark.parametrize(("assignment", "expected"), DOCUMENTED)
def test_exported_variable_has_documented_verdict(assignment, expected):
    entry = verdict(f"export {assignment}")
    assert entry["verdict"] == expected
    assert entry["why"]
    assert entry["source"] in table.SOURCES.values()
    assert entry["name"] == assignment.partition("=")[0]


@pytest.mark.parametrize("instance_type", ["p4d.24xlarge", "p5e.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"])
def test_same_is_reported_on_every_large_gpu_type(instance_type):
    setting = Setting(instance_type, **CURRENT)
    assert [verdict(assignment, setting)["verdict"] for assignment, expected in DOCUMENTED] == [
        expected for assignment, expected in DOCUMENTED
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("export A=1 B='2 3'", [("A", "1"), ("B", "2 3")]),
        ("NCCL_ALGO=Tree FI_PROVIDER=efa srun ./x of=/dev/null", [("NCCL_ALGO", "Tree"), ("FI_PROVIDER", "efa")]),
        ("mpirun -x NCCL_ALGO=Tree -x FI_PROVIDER=tcp ./x", [("NCCL_ALGO", "Tree"), ("FI_PROVIDER", "tcp")]),
        ("srun --export=ALL,NCCL_IFNAME=eth0,A=1 ./x", [("NCCL_IFNAME", "eth0"), ("A", "1")]),
        ("mpirun \\\n  -x NCCL_ALGO=Tree \\\n  ./x", [("NCCL_ALGO", "Tree")]),
        ("env NCCL_DEBUG=INFO ./x", [("NCCL_DEBUG", "INFO")]),
        ("declare -x LD_PRELOAD=/a.so", [("LD_PRELOAD", "/a.so")]),
        ("A=1; export A; cd /x && NCCL_ALGO=Ring ./y", [("A", "1"), ("NCCL_ALGO", "Ring")]),
        ("setenv NCCL_ALGO Tree", [("NCCL_ALGO", "Tree")]),
        ("setenv NCCL_ALGO {Tree}", [("NCCL_ALGO", "Tree")]),
        ("ENV NCCL_ALGO Tree", [("NCCL_ALGO", "Tree")]),
        ("setenv NCCL_ALGO A=Tree", [("NCCL_ALGO", "A=Tree")]),
        ("ENV NCCL_ALGO=Tree A", [("NCCL_ALGO", "Tree")]),
        ("if [ -n x ]; then export A=1; fi", [("A", "1")]),
        ("# export NCCL_ALGO=Tree", []),
        ("make MPI=1 CUDA_HOME=/usr/local/cuda", [("CUDA_HOME", "/usr/local/cuda")]),
        ("dd if=/dev/zero of=/x", []),
        ("", []),
    ],
)
def test_every_assignment_of_line_is_found(line, found):
    assert assignments(line) == found


def test_job_script_is_judged_line_by_line():
    text = "\n".join(f"export {assignment}" for assignment, expected in DOCUMENTED)
    script = f"#!/bin/bash\n#SBATCH --nodes=2\n{text}\nsrun --mpi=pmix ./train\n"
    assert [entry["verdict"] for entry in lint(script, P5)] == [expected for assignment, expected in DOCUMENTED]


@pytest.mark.parametrize(
    ("assignment", "fields", "expected", "to_value"),
    [
        ("FI_EFA_USE_DEVICE_RDMA=1", {"instance_type": "g5.48xlarge"}, "harmful", None),
        ("FI_EFA_USE_DEVICE_RDMA=1", {"plugin": "1.6.0"}, "keep", None),
        ("FI_EFA_USE_DEVICE_RDMA=1", {"libfabric": "1.17.1"}, "keep", None),
        ("FI_EFA_USE_DEVICE_RDMA=0", {}, "harmful", None),
        ("FI_PROVIDER=efa", {"plugin": "1.5.0-aws"}, "keep", None),
        ("FI_PROVIDER=tcp", {}, "harmful", None),
        ("FI_PROVIDER=efa", {"instance_type": "g5.xlarge"}, "drop", None),
        ("NCCL_PROTO=simple", {"plugin": "1.5.0"}, "keep", None),
        ("NCCL_PROTO=simple", {}, "drop", None),
        ("NCCL_PROTO=LL128", {}, "harmful", None),
        ("NCCL_PROTO=^LL128", {}, "drop", None),
        ("NCCL_ALGO=Ring", {"plugin": "1.16.2"}, "harmful", None),
        ("NCCL_ALGO=Ring", {"plugin": "1.16.3"}, "drop", None),
        ("NCCL_P2P_LEVEL=NVL", {"instance_type": "g6.48xlarge"}, "harmful", None),
        ("NCCL_P2P_LEVEL=LOC", {}, "harmful", None),
        ("NCCL_P2P_DISABLE=1", {}, "harmful", None),
        ("NCCL_P2P_DISABLE=0", {}, "keep", None),
        ("NCCL_NET_GDR_LEVEL=0", {}, "harmful", None),
        ("NCCL_IB_GDR_LEVEL=2", {}, "rename", None),
        ("NCCL_IB_HCA=mlx5", {}, "drop", None),
        ("NCCL_NET=Socket", {}, "harmful", "Libfabric"),
        ("NCCL_NET=Socket", {"instance_type": "g5.xlarge"}, "keep", None),
        ("NCCL_NET=Libfabric", {}, "keep", None),
        ("NCCL_NET=ofi", {}, "keep", None),
        ("NCCL_NET=Libfabric", {"plugin": "1.11.1-aws"}, "harmful", "AWS Libfabric"),
        ("NCCL_NET='AWS Libfabric'", {}, "keep", None),
        ("NCCL_NET_PLUGIN=none", {}, "harmful", None),
        ("NCCL_NET_PLUGIN=ofi", {}, "keep", None),
        ("NCCL_SOCKET_IFNAME=^docker,lo,veth", {}, "keep", None),
        ("NCCL_SOCKET_IFNAME=ens32", {}, "keep", None),
        ("NCCL_SOCKET_IFNAME=lo", {}, "harmful", "^docker,lo,veth"),
        ("NCCL_SOCKET_IFNAME==docker0,lo", {}, "harmful", "^docker,lo,veth"),
        ("NCCL_SOCKET_NTHREADS=4", {"instance_type": "g5.xlarge"}, "keep", None),
        ("NCCL_DEBUG_FILE=/logs/%h.%p.log", {}, "keep", None),
        ("NCCL_DEBUG_FILE=/logs/nccl-%r.log", {}, "harmful", "/logs/nccl.log.%h.%p"),
        ("NCCL_DEBUG_FILE=/logs/%h-%r", {}, "harmful", "/logs/%h.%p"),
        ("NCCL_DEBUG_FILE=/logs/one", {}, "harmful", "/logs/one.%h.%p"),
        ("NCCL_DEBUG_FILE=/dev/stderr", {}, "keep", None),
        ("NCCL_DEBUG=TRACE", {}, "drop", None),
        ("NCCL_TUNER_PLUGIN=/opt/amazon/ofi-nccl/lib/libnccl-ofi-tuner.so", {"nccl": "2.20.5"}, "keep", None),
        (
            "NCCL_TUNER_PLUGIN=/opt/aws-ofi-nccl/install/lib/libnccl-ofi-tuner.so",
            {"nccl": "2.20.5"},
            "harmful",
            "libnccl-tuner-ofi.so",
        ),
        ("NCCL_NVLS_ENABLE=0", {"nccl": "2.18.3"}, "keep", None),
        ("NCCL_NVLS_ENABLE=0", {}, "drop", None),
        ("RDMAV_FORK_SAFE=1", {}, "harmful", None),
        ("FI_EFA_USE_HUGE_PAGE=0", {}, "keep", None),
        ("FI_EFA_USE_HUGE_PAGE=1", {}, "drop", None),
        ("LD_PRELOAD=/opt/nccl/build/lib/libnccl.so", {}, "harmful", None),
        ("OMPI_MCA_pml=^ucx", {"use": "mpi"}, "keep", None),
        ("OMPI_MCA_pml=^ucx", {"use": "container"}, "drop", None),
        ("NCCL_MIN_CHANNELS=8", {}, "drop", None),
        ("NCCL_FROM_THE_FUTURE=1", {"nccl": "2.99.0"}, "keep", None),
        ("NCCL_SET_THREAD_NAME=1", {}, "keep", None),
        ("OFI_NCCL_PROTOCOL=RDMA", {}, "keep", None),
        ("OFI_NCCL_ENDPOINT_PER_COMM=1", {}, "drop", None),
        ("OFI_NCCL_NO_SUCH=1", {}, "drop", None),
    ],
)
def test_versions_and_types_decide(assignment, fields, expected, to_value):
    entry = verdict(assignment, Setting(**{"instance_type": "p5.48xlarge", **CURRENT, **fields}))
    assert (entry["verdict"], entry["to_value"]) == (expected, to_value)


def test_neuron_has_no_nccl_but_keeps_its_own():
    setting = Setting("trn2.48xlarge")
    judged = {
        entry["name"]: entry["verdict"] for entry in lint("\n".join(line for line, _verdict in DOCUMENTED), setting)
    }
    assert {judged[name] for name in judged if name.startswith("NCCL_")} == {"drop"}
    assert judged["FI_PROVIDER"] == judged["FI_EFA_USE_DEVICE_RDMA"] == "keep"
    assert judged["FI_EFA_FORK_SAFE"] == "drop"


def test_misnamed_variable_gets_right_name_and_value():
    entry = verdict("NCCL_IFNAME=eth0")
    assert (entry["to"], entry["to_value"]) == ("NCCL_SOCKET_IFNAME", "^docker,lo,veth")


def test_plugin_built_from_checkout_counts_as_current_one():
    assert render(Setting("p5.48xlarge", plugin="git-6e504db"))["variables"] == render(P5)["variables"]
    assert verdict("FI_PROVIDER=efa", Setting("p5.48xlarge", plugin="git-6e504db"))["verdict"] == "keep"


def test_missing_version_counts_as_current_one():
    assert verdict("NCCL_PROTO=simple", Setting("p5.48xlarge"))["verdict"] == "drop"
    assert verdict("NCCL_PROTO=simple", Setting())["verdict"] == "drop"


def test_problem_is_one_sentence_on_what_does_harm():
    assert problem({"FI_PROVIDER": "efa", "NCCL_CROSS_NIC": 1}, P5) == ""
    message = problem({"NCCL_IFNAME": "eth0", "NCCL_NET": "Socket"}, P5)
    assert "NCCL_IFNAME must be NCCL_SOCKET_IFNAME" in message
    assert "NCCL_NET=Socket is harmful" in message
    assert "(use Libfabric)" in message


@pytest.mark.parametrize(
    "instance_type", ["p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b300.48xlarge", "g6.48xlarge"]
)
def test_current_versions_need_nothing_but_interface(instance_type):
    made = render(Setting(instance_type, **CURRENT))
    assert made["variables"] == {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"}
    assert made["nccl_conf"].splitlines()[1:] == ["NCCL_SOCKET_IFNAME=^docker,lo,veth"]
    assert made["profile"].splitlines()[1:] == []
    assert made["notes"] == []


def test_old_versions_need_documented_variables():
    preset = {"FI_PROVIDER": "efa", "NCCL_PROTO": "simple", "FI_EFA_USE_DEVICE_RDMA": "1"}
    old = render(Setting("p4d.24xlarge", plugin="1.5.0", nccl="2.17.1", libfabric="1.17.0"))["variables"]
    assert old == {"NCCL_SOCKET_IFNAME": "^docker,lo,veth", **preset}
    middle = render(Setting("p4d.24xlarge", plugin="1.6.0", nccl="2.17.1", libfabric="1.18.0"))["variables"]
    assert middle == {"NCCL_SOCKET_IFNAME": "^docker,lo,veth", "FI_EFA_USE_DEVICE_RDMA": "1"}
    without_rdma = render(Setting("g5.48xlarge", plugin="1.5.0"))["variables"]
    assert "FI_EFA_USE_DEVICE_RDMA" not in without_rdma
    assert without_rdma["NCCL_PROTO"] == "simple"


@pytest.mark.parametrize("instance_type", ["trn1.32xlarge", "trn2.48xlarge", "inf2.48xlarge", "trn1.2xlarge"])
@pytest.mark.parametrize("use", ["host", "mpi", "container"])
def test_neuron_gets_no_nccl_variable(instance_type, use):
    options = Options(debug="INFO", pin_network=True, net_plugin="ofi")
    made = render(Setting(instance_type, use=use), options)["variables"]
    with_efa = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}
    assert made == (with_efa if traits(instance_type)["efa"] else {})


def test_types_without_accelerator_get_nothing():
    assert render(Setting("c6id.32xlarge"), Options(debug="INFO", huge_pages=False))["variables"] == {}


def test_test_run_is_pinned_to_plugin_by_its_name():
    options = Options(debug="INFO", pin_network=True, net_plugin="ofi", huge_pages=False)
    made = render(Setting("p5.48xlarge", use="mpi", **CURRENT), options)["variables"]
    assert made["NCCL_NET"] == "Libfabric"
    assert made["NCCL_DEBUG"] == "INFO"
    assert made["NCCL_NET_PLUGIN"] == "ofi"
    assert made["FI_EFA_USE_HUGE_PAGE"] == "0"
    assert made["OMPI_MCA_pml"] == "^ucx"
    assert render(Setting("p5.48xlarge", plugin="1.9.1-aws"), options)["variables"]["NCCL_NET"] == "AWS Libfabric"
    assert "NCCL_NET" not in render(Setting("g5.xlarge"), options)["variables"]


def test_containers_bring_their_own_open_mpi():
    assert not any(name.startswith("OMPI") for name in render(Setting("p5.48xlarge", use="container"))["variables"])


def test_rendered_variables_pass_linter():
    for instance_type in ("p3dn.24xlarge", "p4d.24xlarge", "p5.4xlarge", "p5.48xlarge", "g5.48xlarge", "trn1.32xlarge"):
        for plugin in ("1.5.0", "1.6.0", "1.7.3", "1.11.0", "1.16.2", "1.21.1", None):
            for use in ("host", "mpi", "container"):
                setting = Setting(instance_type, plugin=plugin, use=use)
                made = render(setting, Options(debug="WARN", huge_pages=False, pin_network=True, net_plugin="ofi"))
                assert {entry["verdict"] for entry in lint(made["variables"], setting)} <= {"keep"}, (setting, made)


def test_family_needs_are_reported():
    notes = render(Setting("p5.48xlarge", plugin="1.7.1", nccl="2.18.3"))["notes"]
    assert len(notes) == 2
    assert notes[0].startswith("NCCL 2.18.3 is older than 2.18.5")


def test_user_variables_are_judged_first():
    with pytest.raises(NodeError, match="NCCL_IFNAME must be"):
        render(P5, Options(extra={"NCCL_IFNAME": "eth0"}))
    with pytest.raises(NodeError, match="LD_PRELOAD=x is harmful"):
        render(P5, Options(extra={"LD_PRELOAD": "x"}))
    made = render(P5, Options(extra={"NCCL_CROSS_NIC": 1, "NCCL_CUMEM_ENABLE": "1", "FI_LOG_LEVEL": "warn"}))
    assert made["variables"]["NCCL_CUMEM_ENABLE"] == "1"
    assert made["notes"] == [
        "NCCL_CROSS_NIC is better left out: the default (2) chooses by topology; AWS sets it nowhere"
    ]
    assert 'export FI_LOG_LEVEL="${FI_LOG_LEVEL-warn}"' in made["profile"]
    assert render(P5, Options(extra={"NCCL_NET": "Socket"}, accept_harmful=True))["variables"]["NCCL_NET"] == "Socket"


@pytest.mark.parametrize(
    ("setting", "options", "sentence"),
    [
        ({"instance_type": "p9.huge2"}, {}, None),
        ({"instance_type": "t9.micro"}, {}, "not in the table of types"),
        ({"instance_type": "p5.48xlarge", "plugin": "newest"}, {}, "use a version such as"),
        ({"instance_type": "p5.48xlarge", "use": "docker"}, {}, "use one of host, mpi, container"),
        ({"instance_type": "p5.48xlarge"}, {"debug": "LOUD"}, "use one of VERSION"),
        (
            {"instance_type": "p5.48xlarge"},
            {"extra": {"lower": "1", "A B": "2"}},
            "'lower' is not a name.*'A B' is not a name",
        ),
        ({"instance_type": "p5.48xlarge"}, {"net_plugin": "ofi\nLD_PRELOAD=/x"}, "on one line"),
    ],
)
def test_bad_options_are_one_sentence(setting, options, sentence):
    if sentence is None:
        assert render(Setting(**setting))["variables"]
        return
    with pytest.raises(NodeError, match=sentence):
        render(Setting(**setting), Options(**options))


def test_new_type_of_known_family_is_accepted():
    known = traits("p6e-gb200.36xlarge")
    assert (known["kind"], known["nvlink"], known["rdma"], known["efa"]) == ("nvidia", True, True, True)
    assert traits("trn9.48xlarge")["kind"] == "neuron"


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=40), max_size=4))
def test_nothing_of_value_escapes_its_line(extra):
    try:
        made = render(P5, Options(extra=extra, accept_harmful=True))
    except NodeError:
        return
    for key in ("nccl_conf", "environ", "profile", "modulefile"):
        lines = made[key].splitlines()
        assert not any(re.search(r"[`;|&<>*?!~()\[\]\\]|\$(?!\{)", line) for line in lines if not line.startswith("#"))
    wanted = len(made["variables"])
    assert len(made["environ"].splitlines()) == wanted + 1
    assert len(made["nccl_conf"].splitlines()) + len(made["profile"].splitlines()) == wanted + 2


@given(st.text(max_size=300))
def test_any_text_can_be_judged(text):
    for entry in lint(text, P5):
        assert entry["verdict"] in ("keep", "drop", "rename", "harmful")


def test_shell_reads_profile_as_intended():
    made = render(Setting("p5.48xlarge", plugin="1.5.0", use="mpi"), Options(extra={"FI_LOG_LEVEL": "warn, two"}))
    script = made["profile"] + 'printf "%s|%s|%s" "$FI_PROVIDER" "$OMPI_MCA_btl_tcp_if_exclude" "$FI_LOG_LEVEL"'
    done = subprocess.run(["sh", "-c", script], env={"FI_PROVIDER": "mine"}, capture_output=True, text=True, check=True)
    assert done.stdout == "mine|lo,docker0,veth_def_agent|warn, two"


def test_rules_are_well_formed():
    names = "RANK FI_PROVIDER NCCL_NET LD_PRELOAD".split()
    for rule in table.RULES:
        assert rule["verdict"] in ("keep", "drop", "rename", "harmful")
        assert rule["source"] in table.SOURCES
        assert ("to" in rule) == (rule["verdict"] == "rename")
        assert not rule["why"].endswith(".")
        re.compile(rule["names"])
    assert all(any(re.fullmatch(rule["names"], name) for rule in table.RULES) for name in names)


def test_line_with_open_quote_is_judged():
    assert verdict("export NCCL_ALGO='Ring")["verdict"] == "drop"


@pytest.mark.parametrize(
    ("version", "condition", "fits"),
    [
        ("1.16.2", "==1.16.2", True),
        ("1.16", "==1.16.0", True),
        ("1.16.0", "==1.16", True),
        ("1.16.1", "==1.16", False),
        ("1.16", "<1.16.0", False),
        ("1.16", "<1.16.1", True),
        ("1.16.0", "<1.16", False),
        ("git-6e504db", "<1.16", False),
        (None, "<1.16", False),
    ],
)
def test_version_with_fewer_parts_ends_in_zeros(version, condition, fits):
    assert bool(_version_fits(version, condition)) is fits


def test_traits_of_types_outside_of_families():
    unknown = {"kind": "nvidia", "efa": True, "rdma": None, "nvlink": None, "plugin_sets": {}}
    assert traits(None) == unknown
    found = traits("c6id.32xlarge")
    assert (found["kind"], found["rdma"], found["nvlink"], found["plugin_sets"]) == ("none", None, False, {})


@pytest.mark.parametrize(
    ("assignment", "judged"),
    [
        ("FI_PROVIDER=tcp", True),
        ("NCCL_NO_SUCH=1", True),
        ("NCCL_SET_THREAD_NAME=1", False),
        ("NO_NCCL=1", False),
    ],
)
def test_variable_outside_of_table_is_not_judged(assignment, judged):
    assert verdict(assignment)["judged"] is judged


def test_settings_of_plugin_are_those_of_type():
    assert render(P5)["plugin_sets"] == traits("p5.48xlarge")["plugin_sets"] != {}
    assert render(Setting("trn2.48xlarge"))["plugin_sets"] == {}
