# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Docker for building images, GPUs inside containers, and credentials without a secret."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import credentials as enroot_credentials
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import look as enroot
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import EnrootConfig, problems
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.docker import (
    DAEMON_PATH,
    DROPIN_PATH,
    daemon_text,
    merge,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

DOCKER = EnrootConfig(docker=True)
ECR = {"machine": "123456789012.dkr.ecr.eu-west-2.amazonaws.com"}
NGC = {"machine": "nvcr.io", "login": "$oauthtoken", "command": ["printf", "%s", "a b'c"]}


@pytest.fixture
def host(tmp_path):
    host = rooted.with_pyxis(rooted.with_enroot(rooted.node(tmp_path)))
    host.put("/usr/bin/dockerd")
    host.answers["/usr/bin/dockerd --version"] = "Docker version 28.3.3, build x"
    host.answers["docker ps"] = "abc\n"
    host.answers["docker info"] = "/scratch/docker\n"
    return host


def files_of(host, config=DOCKER):
    plan = enroot.make_plan(host, enroot.survey(host, config), config)
    assert plan.refusals == []
    return {file["path"]: file for file in [*plan.files, *plan.validated]}


def test_docker_is_left_alone_where_it_is_not_wanted(host):
    assert enroot.survey(host, EnrootConfig())["docker"] is None
    assert DAEMON_PATH not in files_of(host, EnrootConfig())


def test_images_that_are_built_go_to_the_local_volume(host):
    rooted.mount(host, "/scratch", "ext4")
    file = files_of(host)[DAEMON_PATH]
    assert json.loads(file["text"]) == {"data-root": "/scratch/docker"}
    assert file["validate"] == "/usr/bin/dockerd --validate --config-file %s"
    assert "ConditionPathIsMountPoint=/scratch\n" in files_of(host)[DROPIN_PATH]["text"]


def test_without_a_local_volume_docker_keeps_its_place(host):
    assert DAEMON_PATH not in files_of(host)


def test_images_that_exist_are_not_hidden(host):
    rooted.mount(host, "/scratch", "ext4")
    host.put("/var/lib/docker/image/overlay2/repositories.json")
    assert DAEMON_PATH not in files_of(host)
    config = EnrootConfig(docker=True, docker_data_root="/scratch/other")
    assert json.loads(files_of(host, config)[DAEMON_PATH]["text"])["data-root"] == "/scratch/other"


def test_what_others_wrote_is_kept(host):
    rooted.mount(host, "/scratch", "ext4")
    host.put("/usr/bin/nvidia-container-runtime")
    host.put(DAEMON_PATH, '{"log-driver": "local", "data-root": "/old", "runtimes": {"own": {"path": "/x"}}}')
    settings = json.loads(files_of(host)[DAEMON_PATH]["text"])
    assert settings["log-driver"] == "local"
    assert settings["data-root"] == "/old"
    assert sorted(settings["runtimes"]) == ["nvidia", "own"]


def test_a_file_that_says_all_that_is_wanted_stays_as_it_is_written(host):
    text = '{ "data-root":"/scratch/docker" }'
    assert daemon_text(text, "/scratch/docker", {}, False) == text
    assert daemon_text(None, "", {}, False) == "{}\n"


@pytest.mark.parametrize(("text", "words"), [("{", "is not valid JSON"), ("[]", "holds no JSON object")])
def test_a_broken_file_is_refused_and_not_appended_to(host, text, words):
    host.put(DAEMON_PATH, text)
    (refusal,) = enroot.make_plan(host, enroot.survey(host, DOCKER), DOCKER).refusals
    assert words in refusal
    with pytest.raises(NodeError, match=words):
        daemon_text(text, "", {}, False)


def test_objects_are_merged_and_all_else_replaced():
    assert merge({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "d": {"e": 1}}) == {
        "a": {"b": 1, "c": [2]},
        "d": {"e": 1},
    }


@pytest.mark.parametrize(
    ("program", "answer", "status"), [(True, "28.3.3", "pass"), (True, "", "undeterminable"), (False, "", "fail")]
)
def test_the_verdict_on_docker(host, program, answer, status):
    host.answers["/usr/bin/dockerd --version"] = answer
    if not program:
        host.remove(host.at("/usr/bin/dockerd"))
    facts = enroot.survey(host, DOCKER)
    plan = enroot.make_plan(host, facts, DOCKER)
    (found,) = [result for result in verify(host, facts, plan, DOCKER) if result.id == "docker.version"]
    assert found.status == status
    assert ("docker" in plan.parts) == (not program)


@pytest.mark.parametrize(
    ("driver", "tool", "pinned", "status"),
    [
        (False, "", "1.17.8", "not_applicable"),
        (True, "", "", "fail"),
        (True, "cli-version: 1.17.8\n", "", "pass"),
        (True, "cli-version: 1.17.8\n", "1.17.8-1", "pass"),
        (True, "cli-version: 1.17.8\n", "1.18.0-1", "fail"),
    ],
)
def test_gpus_inside_containers(host, driver, tool, pinned, status):
    if driver:
        host.put("/proc/driver/nvidia/version", "NVRM version: ...")
    if tool:
        host.put("/usr/bin/nvidia-container-cli")
        host.answers["/usr/bin/nvidia-container-cli --version"] = tool
    config = EnrootConfig(toolkit_version=pinned)
    facts = enroot.survey(host, config)
    plan = enroot.make_plan(host, facts, config)
    (found,) = [result for result in verify(host, facts, plan, config) if result.id == "enroot.nvidia"]
    assert found.status == status
    assert ("toolkit" in plan.parts) == (status == "fail")


def test_credentials_name_the_command_that_gives_them(host):
    text = enroot_credentials.text([ECR, NGC])
    assert text.splitlines() == [
        f"machine {ECR['machine']} login AWS password $(aws ecr get-login-password --region eu-west-2)",
        "machine nvcr.io login $oauthtoken password $(printf %s 'a b'\"'\"'c')",
    ]
    # As Enroot evaluates it: the part from the sixth word on, by a shell.
    secret = text.splitlines()[1].split(" ", 5)[5]
    assert (
        subprocess.run(["sh", "-c", f"echo {secret}"], capture_output=True, text=True, check=True).stdout == "a b'c\n"
    )
    config = EnrootConfig(credentials=(ECR,))
    files = files_of(host, config)
    assert files[enroot_credentials.PATH]["text"].startswith("machine 123456789012")
    assert enroot_credentials.text([]) is None


def test_a_user_with_a_configuration_of_his_own_keeps_it(tmp_path):
    def asked():
        command = ["bash", "-c", 'eval echo "$1"', "bash", enroot_credentials.CONFIG_PATH_VALUE]
        environment = {**os.environ, "HOME": str(tmp_path)}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    assert asked() == enroot_credentials.DIRECTORY
    (tmp_path / ".config" / "enroot").mkdir(parents=True)
    assert asked() == f"{tmp_path}/.config/enroot"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({**ECR, "password": "hunter2"}, "have password: they have machine, login and command"),
        ({"machine": "nvcr.io", "login": "x"}, "need login and command"),
        ({"machine": "a b"}, "give the host name of a registry"),
        ({**NGC, "login": "a b"}, "signs that netrc does not take"),
        ({**NGC, "command": ["a\nmachine evil"]}, "more than one line"),
    ],
)
def test_credentials_that_would_hold_a_secret_or_be_read_in_another_way(entry, words):
    told = "; ".join(problems(EnrootConfig(credentials=(entry,))))
    assert words in told
    assert "hunter2" not in told


def test_settings_of_docker_that_cannot_be():
    told = "; ".join(problems(EnrootConfig(docker_data_root="data", docker_daemon={"data-root": "/x"})))
    assert "docker_data_root is 'data'" in told
    assert "set docker_data_root for that" in told
