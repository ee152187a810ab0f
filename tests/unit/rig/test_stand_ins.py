# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-ins of the rigs and scenarios refuse what the programs refuse; for Slurm's tests see test_programs.py there."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import parse as imex_parse

from tests.build import house_rules
from tests.rig.ec2 import Endpoint, Fleet, Region, Scenario
from tests.rig.ec2.hosts import expand
from tests.rig.ec2.services import dynamodb_operation
from tests.rig.ec2.wire import ApiError
from tests.rig.imex import install as install_imex
from tests.rig.slurm.processes import wait_for
from tests.unit.checkout import CHECKOUT
from tests.unit.fakes import fake_grammars
from tests.unit.fakes.fake_machine import Machine
from tests.unit.fakes.fake_rooted_host import RootedHost
from tests.unit.fakes.fake_storage_host import SimulatedHost
from tests.unit.fakes.fake_training_host import TrainingHost

PCLUSTER = "tests/rig/aws/fake_pcluster.py"
LUSTRE = "molecule/fsx_lustre/files/lustre_standin.py"
MODPROBE = "molecule/nvidia_gds/files/modprobe"
DOCKER = "molecule/enroot_pyxis/node/docker.sh"
AWS = "molecule/enroot_pyxis/node/aws.sh"
ENROOT = "molecule/enroot_pyxis/stand_ins.py"
EFA = "tests/rig/mirror/efa_installer.sh"
EC2 = "tests/rig/ec2/services.py"
IMEX = "tests/rig/imex/imex_stand_in.py"
GRAMMARS = "tests/unit/fakes/fake_grammars.py"
SLURM = "tests/integration/slurm/programs/"
# Files that stand in for a program and have no grammar: the program reads no words.
WITHOUT_WORDS = {
    "molecule/enroot_pyxis/plugin/spank_pyxis.c": "a plugin that Slurm loads",
    "tests/integration/slurm/programs/spank_container.c": "a plugin that Slurm loads; its options are tried in jobs",
    "molecule/nvidia_gds/files/update-initramfs": "reports that it was called",
    "molecule/fsx_lustre/files/make_efa.py": "makes an archive",
    "molecule/fsx_lustre/files/make_client.sh": "makes packages",
    "molecule/fsx_lustre/files/make_rpms.sh": "makes packages",
    "tests/vm/guest_mount_lustre.sh": "a helper that mount(8) starts",
    "tests/rig/mirror/__init__.py": "a package of makers",
    "tests/unit/fakes/fake_gds_host.py": "a simulated host",
    "tests/unit/fakes/fake_collections.py": "makes a folder",
    "tests/integration/cluster/example.py": "stand-ins of account and names in an example",
    "tests/integration/hook/faults.py": "a proxy in front of an endpoint",
    "tests/build/words.py": "a list of words",
    "tests/integration/hook/quick_site/ansible_runner/__init__.py": "a Python package",
}
STANDS_IN = re.compile(r"(?i)\bstands? in for\b|\bin the place of\b")
CLUSTER = "create-cluster --cluster-name a --region eu-west-2 --cluster-configuration {}/good.yaml"
NAMED = "--cluster-name a --region eu-west-2"


def refuses(done, words):
    assert done.returncode not in (0, None), done.stdout
    assert words in done.stdout + done.stderr


@pytest.fixture
def pcluster(tmp_path):
    """pcluster(words) runs the stand-in of that program."""
    (tmp_path / "good.yaml").write_text("Region: eu-west-2\nImage:\n  Os: x\nHeadNode: {}\nScheduling: {}\n")
    (tmp_path / "bad.yaml").write_text("Image:\n  Os: x\n")
    environment = {**os.environ, "MLCLUSTER_RIG_PCLUSTER": str(tmp_path)}

    def call(words):
        argv = [sys.executable, CHECKOUT / PCLUSTER, *words.format(tmp_path).split()]
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)

    return call


def test_pcluster_makes_one_cluster_and_deletes_it(pcluster):
    dry = pcluster(f"{CLUSTER} --dryrun true")
    assert (dry.returncode, "DryRun flag is set" in dry.stdout) == (1, True)
    assert pcluster(f"{CLUSTER} --rollback-on-failure false").returncode == 0
    assert json.loads(pcluster(f"describe-cluster {NAMED}").stdout)["clusterStatus"] == "CREATE_IN_PROGRESS"
    assert pcluster(f"delete-cluster {NAMED}").returncode == 0


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("describe-cluster --cluster-name b --region eu-west-2", "Cluster 'b' does not exist"),
        ("delete-cluster --cluster-name a --region eu-west-1", "Cluster 'a' does not exist"),
        ("get-cluster-stack-events --cluster-name b --region eu-west-2", "does not exist"),
        (CLUSTER, "Cluster with name a already exists."),
        (f"{CLUSTER} --dryrun maybe", "invalid choice: 'maybe'"),
        (f"{CLUSTER} --dryrn true", "unrecognized arguments: --dryrn"),
        (f"describe-cluster {NAMED} --dryrun true", "unrecognized arguments: --dryrun"),
        ("describe-cluster --cluster-name a", "required: --region"),
        ("describe-cluster --cluster-name 9a --region eu-west-2", "does not match"),
        ("describe-cluster --cluster-name a --region europe", "invalid or unsupported region"),
        ("update-cluster --cluster-name a --region eu-west-2", "invalid choice: 'update-cluster'"),
        (CLUSTER.replace("good", "none"), "File not found"),
        (CLUSTER.replace(" a ", " c ").replace("good", "bad"), "Invalid cluster configuration."),
    ],
)
def test_pcluster_refuses(pcluster, words, reported):
    assert pcluster(CLUSTER).returncode == 0
    refuses(pcluster(words), reported)


@pytest.fixture
def lustre(tmp_path, monkeypatch, capsys):
    """lustre(words) runs the stand-in under the name of the first word; the rest after it. Gives status and output."""
    spec = importlib.util.spec_from_file_location("lustre_standin", CHECKOUT / LUSTRE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "STATE", tmp_path / "state")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")

    def call(words):
        monkeypatch.setattr(sys, "argv", words.split())
        status, error = 0, ""
        try:
            module.main()
        except SystemExit as ended:
            status, error = (ended.code, "") if isinstance(ended.code, int) else (1, str(ended.code))
        shown = capsys.readouterr()
        return status, shown.out + shown.err + error

    return call


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("lctl get_param *c.*.max_rpcs_in_flight", "osc.fs-OST0000-osc-ffff.max_rpcs_in_flight=8"),
        ("lctl set_param osc.*.max_rpcs_in_flight=32", "osc.fs-OST0000-osc-ffff.max_rpcs_in_flight=32"),
        ("lnetctl net show -v", "net type: tcp"),
        ("lnetctl peer show -v", "primary nid: 10.0.0.1@tcp"),
        ("lctl get_param osc.fs-OST*-osc-ffff.ost_conn_uuid", "ost_conn_uuid=10.0.0.1@tcp"),
        ("lfs getname .", "fs-ffff ."),
        ("lfs setstripe -c 4 -S 4M .", ""),
        ("lfs setstripe -E 64M -c 1 -E -1 -c 8 -S 16M .", ""),
        ("lfs getstripe -d .", "stripe_count:  1"),
        ("lfs hsm_archive file", ""),
        ("lfs hsm_state file", "file: (0x00000000)"),
    ],
)
def test_lustre_takes(lustre, words, shown):
    status, output = lustre(words)
    assert (status, shown in output) == (0, True), output


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("lctl set_param osc.*.max_rpcs_in_flight=-5", "Invalid argument"),
        ("lctl set_param osc.*.max_rpcs_in_flight=abc", "Invalid argument"),
        ("lctl set_param osc.*.max_rpcs_in_flight", "no NAME=VALUE"),
        ("lctl get_param osc.*.max_rpcs_in_flight=5", "is not a name"),
        ("lctl get_param osc.none", "No such file or directory"),
        ("lctl list_param osc", "invalid choice: 'list_param'"),
        ("lnetctl net add", "unknown command: net add"),
        ("lnetctl peer add", "unknown command: peer add"),
        ("lfs getname none", "cannot open 'none'"),
        ("lfs hsm_archive none", "cannot open 'none'"),
        ("lfs hsm_state", "required: paths"),
        ("lfs hsm_release file", "Operation not permitted"),
        ("lfs hsm_cancel file", "invalid choice: 'hsm_cancel'"),
        ("lfs setstripe -c 4 none", "cannot open 'none'"),
        ("lfs setstripe -c many .", "bad stripe count 'many'"),
        ("lfs setstripe -c 4 -S 4 .", "bad stripe size '4'"),
        ("lfs setstripe -c 4 -S 0M .", "bad stripe size '0M'"),
        ("lfs setstripe -c 4 -x .", "unrecognized arguments: -x"),
        ("lfs setstripe -E 64M -c 1 -E 1G -c 8 .", "the last component has to end with -E -1"),
        ("lfs setstripe -c 1 -c 8 .", "-c is given twice"),
        ("lfs getstripe .", "required: -d"),
        ("modinfo -F version lustre", "required: -k"),
        ("modinfo -k 6.8 -F licence lustre", "invalid choice: 'licence'"),
        ("modinfo -k 6.8 -F version lustre", "Module lustre not found"),
    ],
)
def test_lustre_refuses(lustre, words, reported):
    status, shown = lustre(words)
    assert (status != 0, reported in shown) == (True, True), shown


def test_layout_and_copies_follow_request(lustre):
    lustre("lfs setstripe -E 64M -c 1 -E -1 -c 8 -S 16M .")
    shown = lustre("lfs getstripe -d .")[1]
    assert "lcme_extent.e_end:   67108864" in shown and "stripe_count:  8       stripe_size:   16777216" in shown
    lustre("lfs hsm_archive file")
    assert lustre("lfs hsm_release file")[0] == 0
    assert "released" in lustre("lfs hsm_state file")[1]


@pytest.fixture
def shell(tmp_path):
    """shell(path, words) runs a stand-in with all that it keeps below the test's folder."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "file").write_text("x")
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").write_text("FROM x\n")
    names = {"MODULES": "modules", "PROC": "proc", "MIRROR": "mirror", "DOCKER_STAND_IN": "docker"}
    environment = {**os.environ, **{name: str(tmp_path / place) for name, place in names.items()}}

    def call(path, words):
        argv = ["sh", CHECKOUT / path if isinstance(path, str) else path, *words.format(tmp_path).split()]
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)

    return call


BUILD = "build --tag a/b:1 --build-arg X=1 {}/context"


def test_modprobe_loads_and_removes_built_module(shell, tmp_path):
    refuses(shell(MODPROBE, "nvidia-fs"), "Module nvidia-fs not found")
    (tmp_path / "modules" / "nvidia-fs.ko.zst").touch()
    assert shell(MODPROBE, "nvidia-fs").returncode == 0
    assert (tmp_path / "proc/driver/nvidia-fs/version").read_text() == "version: 2.26\n"
    for words in ("--dry-run nvidia-fs", "-a nvidia-fs other", "nvidia-fs use_x=1"):
        refuses(shell(MODPROBE, words), "only 'modprobe [-r] nvidia-fs' is known")
    assert shell(MODPROBE, "-r nvidia-fs").returncode == 0
    assert not (tmp_path / "proc/driver/nvidia-fs").exists()


def test_docker_builds_tags_and_shows(shell):
    assert shell(DOCKER, BUILD).returncode == 0
    assert shell(DOCKER, "image inspect --format {{{{.Id}}}} a/b:1").stdout.startswith("sha256:")
    assert shell(DOCKER, "image inspect --format {{{{.Size}}}} a/b:1").stdout == "4096\n"
    assert shell(DOCKER, "tag a/b:1 r/b:1").returncode == 0
    assert shell(DOCKER, "info --format {{{{.DockerRootDir}}}}").stdout == "/srv/docker\n"
    assert (shell(DOCKER, "ps --quiet").returncode, shell(DOCKER, "--version").returncode) == (0, 0)


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (BUILD.replace("--tag", "--tga"), "unknown flag: --tga"),
        (BUILD.replace("--tag", "--platform sparc --tag"), "unknown operating system or architecture"),
        (BUILD.replace("X=1", "X"), "has no value"),
        (BUILD.replace("--tag a/b:1", ""), "requires 1 argument"),
        (BUILD.replace("{}/context", ""), "requires 1 argument"),
        ("ps --all", "unknown flag or command: --all"),
        ("info --format {{{{.Driver}}}}", "unknown flag or command"),
        ("image ls --format {{{{.Id}}}} a/b:1", "unknown flag or command: ls"),
        ("image inspect --format {{{{.Id}}}} none", "No such image: none"),
        ("image inspect --format {{{{.Name}}}} a/b:1", "is not known"),
        ("tag none r/b:1", "No such image: none"),
        ("push none", "No such image: none"),
        ("manifest create a", "unknown flag or command: create"),
        ("tag a/b:1", "3 words were expected and 2 were given"),
        ("rmi a/b:1", "'rmi' is not a docker command."),
    ],
)
def test_docker_refuses(shell, words, reported):
    assert shell(DOCKER, BUILD).returncode == 0
    refuses(shell(DOCKER, words), reported)


def test_aws_copies_from_mirror(shell, tmp_path):
    assert shell(AWS, "s3 cp --only-show-errors s3://mirror/file {}/copy").returncode == 0
    assert (tmp_path / "copy").read_text() == "x"
    assert shell(AWS, "ecr get-login-password --region eu-west-2").stdout == "token for eu-west-2\n"


@pytest.mark.parametrize(
    "words",
    [
        "s3 cp s3://mirror/file {}/copy",
        "s3 rm --only-show-errors s3://mirror/file {}/copy",
        "s3 cp --only-show-errors s3://other/file {}/copy",
        "s3 cp --only-show-errors s3://mirror/file s3://mirror/copy",
        "s3 cp --only-show-errors s3://mirror/file {}/copy --recursive",
        "ecr get-login-password --region europe",
        "ecr get-login --region eu-west-2",
    ],
)
def test_aws_refuses(shell, words):
    refuses(shell(AWS, words), "aws: stand-in: ")


@pytest.fixture
def enroot(tmp_path):
    """The stand-in of enroot, as a file."""
    spec = importlib.util.spec_from_file_location("enroot_stand_ins", CHECKOUT / ENROOT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program = tmp_path / "enroot"
    program.write_bytes(module.enroot("4.1.2")[0].files["/usr/bin/enroot"][0])
    return program


def test_enroot_imports(shell, enroot, tmp_path):
    assert shell(enroot, "version").stdout == "4.1.2\n"
    assert re.fullmatch(r"sha256:[0-9a-f]{64}\n", shell(enroot, "digest docker://r.example#a/b:1").stdout)
    assert shell(enroot, "import --output {}/x.sqsh docker://r.example#a/b@sha256:0f").returncode == 0
    assert (tmp_path / "x.sqsh").read_bytes().startswith(b"hsqs")
    refuses(shell(enroot, "import --output {}/x.sqsh docker://a"), "File already exists")


@pytest.mark.parametrize(
    "words",
    [
        "import --output {}/y http://[:::",
        "import --output {}/y docker://a?b",
        "import --output {}/y docker://",
        "import --ouptut {}/y docker://a",
        "import docker://a",
        "import --output {}/y docker://missing",
        "digest http://a",
        "version --all",
        "start x",
    ],
)
def test_enroot_refuses(shell, enroot, tmp_path, words):
    refuses(shell(enroot, words), "[ERROR] ")
    assert not (tmp_path / "y").exists()


@pytest.fixture
def installer(tmp_path):
    """installer(words) runs the installer on no packages; what it would write to the system it cannot."""
    shutil.copy(CHECKOUT / EFA, tmp_path / "efa_installer.sh")
    (tmp_path / "env.sh").write_text("EFA_INSTALLER_VERSION=1.43.0\n")
    text = (tmp_path / "efa_installer.sh").read_text().replace("/opt/amazon", str(tmp_path / "amazon"))
    (tmp_path / "efa_installer.sh").write_text(text)
    (tmp_path / "DEBS").mkdir()

    def call(words):
        argv = ["bash", "-O", "nullglob", tmp_path / "efa_installer.sh", *words.split()]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    return call


@pytest.mark.parametrize("words", ["-y", "--yes --minimal --skip-kmod", "-y -n -g --mpi=openmpi5", "-ykl"])
def test_efa_installer_takes(installer, words):
    done = installer(words)
    assert (done.returncode, "EFA installation complete." in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("-y --mpi=nonsense", "Invalid MPI option: nonsense"),
        ("-y --mpi", "usage: "),
        ("-y --minimla", "usage: "),
        ("-y -z", "usage: "),
        ("-y more", "unknown argument: more"),
        ("--minimal", "no user can be asked"),
        ("-y --check-signatures", "EFA_INSTALLER_KEY names no key"),
    ],
)
def test_efa_installer_refuses(installer, words, reported):
    refuses(installer(words), reported)


def test_metadata_needs_token_of_put():
    with Endpoint(Scenario(regions=(Region("eu-west-2", (Fleet(),)),), home_region="eu-west-2")) as endpoint:

        def ask(path, method="GET", **headers):
            connection = http.client.HTTPConnection(urllib.parse.urlsplit(endpoint.url).netloc, timeout=10)
            try:
                connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

        region = "/latest/meta-data/placement/region"
        assert ask(region)[0] == 401
        assert ask(region, X_aws_ec2_metadata_token="guessed")[0] == 401
        assert ask("/latest/api/token", "PUT")[0] == 400
        for ttl in ("0", "21601", "-1", "long"):
            assert ask("/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds=ttl)[0] == 400
        assert ask("/latest/api", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60")[0] == 404
        status, token = ask("/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="21600")
        assert (status, ask(region, X_aws_ec2_metadata_token=token)) == (200, (200, "eu-west-2"))
        assert ask("/latest/meta-data/none", X_aws_ec2_metadata_token=token)[0] == 404


@pytest.fixture
def table():
    """table(action, **asked) asks the table of a cluster with two nodes; gives the instance ids of the answer."""
    region = Region("eu-west-2", (Fleet(count=2, cluster="c", role="Compute"),))
    hosts = expand(region)

    def ask(action, **asked):
        answer = dynamodb_operation(
            Scenario(regions=(region,)), hosts, action, {"TableName": "parallelcluster-slurm-c", **asked}
        )
        return [item["InstanceId"]["S"] for item in json.loads(answer.body)["Items"]]

    return hosts, ask


def asked(index, value, **more):
    names = {"IndexName": index} if index else {}
    key = index or "Id"
    return {
        "KeyConditionExpression": f"{key} = :v",
        "ExpressionAttributeValues": {":v": {"S": value}},
        **names,
        **more,
    }


def test_table_is_scanned_and_queried_by_key_and_index(table):
    hosts, ask = table
    assert ask("Scan") == [host.id for host in hosts] and len(hosts) == 2
    assert ask("Query", **asked("InstanceId", hosts[1].id)) == [hosts[1].id]
    assert ask("Query", **asked("", hosts[0].node_name)) == [hosts[0].id]
    assert ask("Query", **asked("", hosts[0].id)) == []


@pytest.mark.parametrize(
    ("action", "changes", "reported"),
    [
        ("Query", {"IndexName": "Any"}, "does not have the specified index: Any"),
        ("Query", {"KeyConditionExpression": "Id = :v"}, "missed key schema element: InstanceId"),
        ("Query", {"KeyConditionExpression": "InstanceId > :v"}, "Invalid KeyConditionExpression"),
        ("Query", {"KeyConditionExpression": ""}, "Invalid KeyConditionExpression"),
        ("Query", {"ExpressionAttributeValues": {":w": {"S": "x"}}}, "values that are not those"),
        ("Query", {"Filter": "x"}, "Query does not know Filter"),
        ("Scan", {}, "Scan does not know ExpressionAttributeValues, IndexName, KeyConditionExpression"),
        ("GetItem", {}, "Unknown operation GetItem"),
        ("Query", {"TableName": "other"}, "Requested resource not found"),
    ],
)
def test_table_refuses(table, action, changes, reported):
    hosts, ask = table
    with pytest.raises(ApiError) as refused:
        ask(action, **{**asked("InstanceId", hosts[0].id), **changes})
    assert reported in refused.value.message


@pytest.fixture
def imex(tmp_path):
    """imex(number, words) runs the stand-in on one of three nodes of the loopback network, named by its number."""
    port = free_port()
    programs = tmp_path / "bin"
    programs.mkdir()
    install_imex(programs)
    addresses = [f"127.77.{os.getpid() % 250}.{number}" for number in (1, 2, 3)]
    for number, address in enumerate(addresses, 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "nodes.cfg").write_text("".join(f"{one}\n" for one in addresses))
        (folder / "config.cfg").write_text(
            f"BIND_INTERFACE_IP={address}\nSERVER_PORT={port}\nIMEX_CMD_ENABLED=1\nIMEX_CMD_PORT={port + 1}\n"
            f"IMEX_NODE_CONFIG_FILE={folder}/nodes.cfg\nLOG_FILE_NAME={folder}/log\n"
        )

    def call(number, words):
        program, *rest = words.format(f"-c {tmp_path}/{number}/config.cfg").split()
        done = subprocess.run([programs / program, *rest], capture_output=True, text=True, check=False)
        with contextlib.suppress(OSError):
            started.add(int((tmp_path / str(number) / "daemon.pid").read_text()))
        return done.returncode, done.stdout + done.stderr

    started = set()
    call.folder, call.addresses = tmp_path, addresses
    yield call
    for pid in started:
        if runs(pid, tmp_path):
            os.kill(pid, signal.SIGKILL)
    wait_for("the end of every daemon", lambda: not any(runs(pid, tmp_path) for pid in started))


def runs(pid, folder):
    """Return whether a process of this folder has the number, which another process may have meanwhile."""
    with contextlib.suppress(OSError):
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1] // 2 * 2 - 10000


def seen(imex, number, until):
    """Return the table of a node, once it has this in it."""
    wait_for(until, lambda: until in imex(number, "nvidia-imex-ctl {} -N")[1])
    return imex_parse.domain(imex(number, "nvidia-imex-ctl {} -N")[1])


def test_imex_joins_all_nodes_and_shows_killed_one(imex):
    assert imex_parse.domain(imex(1, "nvidia-imex-ctl {} -N")[1]).state == "DOWN"
    assert imex(1, "nvidia-imex-ctl {} -q") == (0, "UNAVAILABLE\n")
    for number in (1, 2, 3):
        assert imex(number, "nvidia-imex {}") == (0, "")
    domain = seen(imex, 2, "Domain State: UP")
    assert {letter for member in domain.members.values() for letter in member.to.values()} == {"C"}
    assert imex(3, "nvidia-imex-ctl {} -q") == (0, "READY\n")
    os.kill(int((imex.folder / "3/daemon.pid").read_text()), signal.SIGKILL)
    domain = seen(imex, 1, "DEGRADED")
    assert domain.members[imex.addresses[2]].status == "UNAVAILABLE"
    assert domain.members[imex.addresses[0]].to[imex.addresses[2]] in ("R", "C")


def test_imex_never_joins_another_list_or_version(imex):
    (imex.folder / "2/nodes.cfg").write_text("\n".join(imex.addresses[:2]))
    (imex.folder / "3/stand_in.json").write_text('{"version": "570.1"}')
    for number in (1, 2, 3):
        imex(number, "nvidia-imex {}")
    domain = seen(imex, 1, "!V!")
    domain = seen(imex, 1, "!M!")
    assert [domain.members[imex.addresses[0]].to[one] for one in imex.addresses] == ["C", "!M!", "!V!"]


def test_killed_imex_waits_for_nodes_of_its_last_instance(imex):
    for number in (1, 2, 3):
        imex(number, "nvidia-imex {}")
    seen(imex, 1, "Domain State: UP")
    for number in (1, 2, 3):
        os.kill(int((imex.folder / str(number) / "daemon.pid").read_text()), signal.SIGKILL)
    imex(1, "nvidia-imex {}")
    seen(imex, 1, "WAITING_FOR_RECOVERY")
    for number in (2, 3):
        imex(number, "nvidia-imex {}")
    seen(imex, 1, "Domain State: UP")


@pytest.mark.parametrize("way", ["folder gone", "time is up"])
def test_imex_ends_with_its_test(imex, way):
    folder = imex.folder / "1"
    if way == "time is up":
        (folder / "stand_in.json").write_text('{"seconds": 0}')
    assert imex(1, "nvidia-imex {}") == (0, "")
    pid = int((folder / "daemon.pid").read_text())
    if way == "folder gone":
        assert runs(pid, imex.folder)
        shutil.rmtree(folder)
    wait_for("its end", lambda: not runs(pid, imex.folder))


@pytest.mark.parametrize("way", ["ended", "other list", "no quorum"])
def test_imex_does_not_wait_after_clean_end(imex, way):
    for number in (1, 2, 3):
        imex(number, "nvidia-imex {}")
    seen(imex, 1, "Domain State: UP")
    for number in (1, 2, 3):
        pid = int((imex.folder / str(number) / "daemon.pid").read_text())
        os.kill(pid, signal.SIGTERM if way == "ended" else signal.SIGKILL)
        wait_for("its end", lambda pid=pid: not runs(pid, imex.folder))
    config = imex.folder / "1/config.cfg"
    if way == "other list":
        (imex.folder / "1/nodes.cfg").write_text("\n".join(imex.addresses[:2]))
    if way == "no quorum":
        config.write_text(config.read_text() + "IMEX_WAIT_FOR_QUORUM=NONE\n")
    imex(1, "nvidia-imex {}")
    wait_for("it to be ready", lambda: imex(1, "nvidia-imex-ctl {} -q")[1] == "READY\n")


def test_imex_waits_for_all_where_quorum_is_full(imex):
    config = imex.folder / "1/config.cfg"
    config.write_text(config.read_text() + "IMEX_WAIT_FOR_QUORUM=FULL\n")
    imex(1, "nvidia-imex {}")
    seen(imex, 1, "WAITING_FOR_PEERS")
    for number in (2, 3):
        imex(number, "nvidia-imex {}")
    seen(imex, 1, "Domain State: UP")


def test_imex_with_used_port_ends_with_error_in_log(imex):
    port = int((imex.folder / "1/config.cfg").read_text().split("SERVER_PORT=")[1].split()[0])
    with socket.socket() as taken:
        taken.bind((imex.addresses[0], port))
        taken.listen()
        imex(1, "nvidia-imex {}")
        wait_for("the log", (imex.folder / "1/log").exists)
        assert "[ERROR]" in (imex.folder / "1/log").read_text()
        assert imex(1, "nvidia-imex-ctl {} -q") == (0, "UNAVAILABLE\n")


@pytest.mark.parametrize(
    ("files", "words", "reported"),
    [
        ({}, "nvidia-imex --nogpu", "invalid option --nogpu"),
        ({}, "nvidia-imex -c", "invalid option -c"),
        ({}, "nvidia-imex -c /none.cfg", "cannot open /none.cfg"),
        ({"config.cfg": "SERVER_PORT=70000\n"}, "nvidia-imex {}", "SERVER_PORT 70000 is not between 0 and 65535"),
        ({"config.cfg": "IMEX_WAIT_FOR_QUORUM=SOME\n"}, "nvidia-imex {}", "is none of NONE, RECOVERY, FULL"),
        ({"config.cfg": "IMEX_CMD_ENABLED=1\n"}, "nvidia-imex {}", "IMEX_CMD_ENABLED needs IMEX_CMD_PORT"),
        (
            {"config.cfg": "IMEX_ENABLE_AUTH_ENCRYPTION=1\n"},
            "nvidia-imex {}",
            "IMEX_AUTH_ENCRYPTION_MODE '' is none of",
        ),
        (
            {"config.cfg": "IMEX_ENABLE_AUTH_ENCRYPTION=1\nIMEX_AUTH_ENCRYPTION_MODE=SSL_TLS\n"},
            "nvidia-imex {}",
            "IMEX_AUTH_SOURCE is none of",
        ),
        ({"nodes.cfg": ""}, "nvidia-imex {}", "names no node"),
        ({"nodes.cfg": "n1\n"}, "nvidia-imex {}", "n1 is not an IP address"),
        ({"nodes.cfg": "10.99.99.99\n"}, "nvidia-imex {}", "none of this node's addresses is in the list"),
        ({"stand_in.json": '{"driver": "1"}'}, "nvidia-imex {}", "is not matching with current GPU driver 1"),
        ({}, "nvidia-imex-ctl {}", "Usage: nvidia-imex-ctl"),
        ({}, "nvidia-imex-ctl {} -N -q", "Usage: nvidia-imex-ctl"),
        ({}, "nvidia-imex-ctl {} --status", "Usage: nvidia-imex-ctl"),
        ({"nodes.cfg": ""}, "nvidia-imex-ctl {} -N", "ERROR: "),
        ({}, "systemctl show nvidia-imex.service", "Unknown command verb or option"),
        ({}, "systemctl show --property=Nonsense nvidia-imex.service", "no property Nonsense"),
        ({}, "systemctl kill nvidia-imex.service", "Unknown command verb"),
        ({}, "systemctl restart", "Too few or too many arguments."),
        ({}, "systemctl restart other.service", "Unit other.service not found."),
    ],
)
def test_imex_refuses(imex, files, words, reported):
    for name, text in files.items():
        (imex.folder / "1" / name).write_text(text)
    code, shown = imex(1, words)
    assert code != 0 and reported in shown, shown


FIELDS = "150,140,155,202,230,310,311,394,393,395,396"
FORMAT = "${Package}\\t${Version}\\t${db:Status-Abbrev}\\n"


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-smi -q -x",
        "nvidia-smi nvlink --status",
        "nvidia-smi nvlink -gt d",
        "nvidia-smi topo -m",
        "nvidia-smi --query-compute-apps=pid --format=csv,noheader",
        "env LC_ALL=C /opt/amazon/efa/bin/fi_info -p efa",
        "fi_info --version",
        f"dcgmi dmon -e {FIELDS} -c 1",
        f"dpkg-query -W -f {FORMAT}",
        "systemctl show -p Id,LoadState,ActiveState -- a.service",
        "sinfo --noheader --Node --local --nodes=n1 --format=%T@%E",
        "uname --whatever",
    ],
)
def test_fakes_of_hosts_accept_calls_of_programs(line):
    argv = [word.replace("@", " ") for word in line.split()]
    assert fake_grammars.refusal(argv) is None
    fake_grammars.demand_recorded(argv)


@pytest.mark.parametrize(
    ("line", "rc", "reported"),
    [
        ("nvidia-smi -q --xml", 2, "Invalid combination of input arguments"),
        ("nvidia-smi nvlink --stauts", 2, "Invalid combination"),
        ("nvidia-smi nvlink -gt x", 2, "Invalid combination"),
        ("nvidia-smi topo -x", 2, "Invalid combination"),
        (
            "nvidia-smi --query-gpu=index,temperature --format=csv",
            2,
            'Field "temperature" is not a valid field to query',
        ),
        ("nvidia-smi --query-gpu=index --format=noheader", 2, 'switch is missing "csv"'),
        ("nvidia-smi --query-gpu=index --format=csv --loop=0", 2, "Invalid combination"),
        ("fi_info --verison", 1, "Usage: fi_info"),
        ("fi_info -p", 1, "Usage: fi_info"),
        ("fi_info -p efa -t FI_EP_RDN", 22, "Unrecognized endpoint type: FI_EP_RDN"),
        ("fi_info -p tcp", 61, "fi_getinfo: -61"),
        ("dcgmi dmon -E 150 -c 1", 255, "Couldn't find match for argument"),
        ("dcgmi dmon -e temperature -c 1", 255, "Couldn't read argument value"),
        ("dcgmi dmon -c 1", 255, "One and only one"),
        ("dcgmi dom -e 150 -c 1", 255, "Couldn't find match for argument"),
        ("dpkg-query -f x", 2, "need an action option"),
        ("dpkg-query -W -f", 2, "takes a value"),
        ("dpkg-query -W --showfromat x", 2, "unknown option --showfromat"),
        ("rpm -qa --fq x", 1, "unknown option"),
        ("rpm -qa --qf", 1, "missing argument"),
        ("systemctl show --propety=Id", 1, "unrecognized option"),
        ("sinfo --fromat=%N", 1, "unrecognized option"),
        ("sinfo n1", 1, "Invalid parameter"),
        ("sinfo --format=%!", 1, "Invalid node format"),
    ],
)
def test_fakes_of_hosts_refuse(line, rc, reported):
    for host in (TrainingHost(), RootedHost("/none")):
        answers = host.commands if isinstance(host, TrainingHost) else host.answers
        answers[line.split()[0]] = "what was kept"
        done = host.run(line.split(), check=False)
        assert done.rc == rc and reported in done.stdout + done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-smi nvlink -s",
        "fi_info -p efa -t FI_EP_RDM",
        "dcgmi dmon -e 150 -c 1",
        f"dcgmi dmon -e {FIELDS}",
        "dpkg-query -W -f ${Package}\\n",
        "rpm -qa --qf %{NAME}\\n",
        "systemctl show -p Id,ActivState -- a.service",
        "sinfo --noheader --Node --format=%N",
    ],
)
def test_valid_line_without_answer_ends_test(line):
    host = TrainingHost()
    host.commands[line.split()[0]] = "the answer to another line"
    with pytest.raises(AssertionError):
        host.run(line.split())


def test_simulated_disks_refuse():
    """Reject a misspelt option, an unsupported level or format, and too few devices."""
    host = SimulatedHost(Machine())
    for line in ("wipefs --al /dev/x", "mdadm --craete /dev/md/a", "mkfs.ext4 -X /dev/x", "lsblk --jsn"):
        assert "unrecognized option" in host.run(line.split(), check=False).stderr
    create = (
        "mdadm --create /dev/md/a --run --level={} --metadata={} --homehost=any --name=a --uuid=0:0:0:0 --chunk=512"
    )
    with pytest.raises(AssertionError, match="level 0"):
        host.run(f"{create.format(5, 1.2)} --raid-devices=1 /dev/x".split())
    assert "unrecognised metadata" in host.run(f"{create.format(0, 9)} --raid-devices=1".split(), check=False).stderr
    assert "0 devices where 2" in host.run(f"{create.format(0, 1.2)} --raid-devices=2".split(), check=False).stderr


UUIDS = "00000001:00000002:00000003:00000004"
CREATE = (
    "mdadm --create /dev/md/a --level=0 --metadata=1.2 --homehost=any --name=a --uuid={} --chunk={} --raid-devices=1 "
    "/dev/nvme1n1"
)
MKFS = "mkfs.{} -L label {} /dev/nvme1n1"
IDENTITY = "0f5b4c5e-0000-5000-8000-000000000001"
# A line, what it refuses there, and what is done before.
DISK_REFUSALS = [
    (f"mdadm --assemble /dev/md/a --uuid={UUIDS} /dev/nvme1n1", "/dev/nvme1n1 has no superblock", []),
    (CREATE.format("0:0:0:0", 512), "Bad uuid: 0:0:0:0", []),
    (CREATE.format(UUIDS, 2), "invalid chunk/rounding value: 2", []),
    (MKFS.format("ext4", f"-F -U {IDENTITY} -E nodiscrad"), "Bad option(s) specified: nodiscrad", []),
    (MKFS.format("ext4", "-F -U identity"), "could not parse UUID: identity", []),
    (MKFS.format("xfs", f"-m uuid={IDENTITY}"), "contains a ext4 file system",
     [MKFS.format("ext4", f"-F -U {IDENTITY}")]),
    (MKFS.format("xfs", f"-f -m uuid={IDENTITY}").replace("label", "label-of-13-x"), "Invalid value", []),
    ("mount -t ext4 /dev/nvme1n1 /absent", "mount point does not exist", [MKFS.format("ext4", f"-F -U {IDENTITY}")]),
    ("swapoff /dev/nvme1n1", "swapoff failed: Invalid argument", []),
    ("systemctl disable --now absent.service", "Unit file absent.service does not exist", []),
    ("systemctl mask there.service", "File /etc/systemd/system/there.service already exists", []),
    ("pvremove --yes /dev/nvme1n1", "is used by a VG", []),
]  # fmt: skip


@pytest.mark.parametrize(("line", "refusal", "before"), DISK_REFUSALS, ids=[line for line, *_rest in DISK_REFUSALS])
def test_simulated_disks_refuse_what_does_not_fit(line, refusal, before):
    machine = Machine()
    machine.stores(1)
    machine.unit("there.service")
    if line.startswith("pvremove"):
        machine.volume("vg", "lv", ["nvme1n1"])
    host = SimulatedHost(machine)
    for done in before:
        assert host.run(done.split()).rc == 0
    assert refusal in host.run(line.split(), check=False).stderr


def test_simulated_wipefs_erases_with_all_alone():
    machine = Machine()
    machine.stores(1)
    host = SimulatedHost(machine)
    host.run(MKFS.format("ext4", f"-F -U {IDENTITY}").split())
    assert "ext4" in host.run(["wipefs", "/dev/nvme1n1"]).stdout
    assert "ext4" in host.run(["wipefs", "--no-act", "--json", "/dev/nvme1n1"]).stdout
    assert [signature["type"] for signature in machine.devices["nvme1n1"].signatures] == ["ext4"]
    assert host.run(["wipefs", "--all", "/dev/nvme1n1"]).rc == 0
    assert machine.devices["nvme1n1"].signatures == []


def test_simulated_assembly_takes_given_free_members_only():
    """A device that is left out of the list, or in use, is not a member of what is assembled."""
    machine = Machine()
    machine.stores(2)
    host = SimulatedHost(machine)
    create = f"mdadm --create /dev/md/a --level=0 --metadata=1.2 --homehost=any --name=a --uuid={UUIDS} --chunk=512"
    host.run(f"{create} --raid-devices=2 /dev/nvme1n1 /dev/nvme2n1".split())
    array = next(name for name in machine.devices if name.startswith("md"))
    assemble = f"mdadm --assemble /dev/md/a --uuid={UUIDS}"
    both = f"{assemble} /dev/nvme1n1 /dev/nvme2n1".split()
    assert "from 0 drives" in host.run(both, check=False).stderr, "the array holds them"
    host.run(["mdadm", "--stop", f"/dev/{array}"])
    assert "from 1 drives" in host.run(both[:-1], check=False).stderr
    assert host.run(both).rc == 0


def test_every_stand_in_is_tested_with_wrong_call():
    """A file that stands in for a program is named here, or by test_programs.py of the Slurm tests."""
    tested = {PCLUSTER, LUSTRE, MODPROBE, DOCKER, AWS, ENROOT, EFA, EC2, IMEX, GRAMMARS}
    programs = (CHECKOUT / "tests/integration/slurm/test_programs.py").read_text(encoding="utf-8")
    found = set()
    for name in house_rules.tracked_files(CHECKOUT):
        if not name.startswith(("tests/", "molecule/")) or Path(name).name.startswith(("test_", "README", "conftest")):
            continue
        if Path(name).suffix in (".py", ".sh", ".c", "") and STANDS_IN.search(
            (CHECKOUT / name).read_text(encoding="utf-8", errors="replace")[:2500]
        ):
            found.add(name)
    assert tested <= found, "each names in its header what it stands in for"
    by_slurm = {name for name in found if name.startswith(SLURM) and f'("{Path(name).stem}", ' in programs}
    assert found - tested - by_slurm - set(WITHOUT_WORDS) == set(), "feed each a wrong call in this file"
    for name in tested:
        assert "Grammar: " in (CHECKOUT / name).read_text(encoding="utf-8"), f"{name}: name version and source"
