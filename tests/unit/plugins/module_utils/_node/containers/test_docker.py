# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Docker for building images, GPUs inside containers, and credentials without a secret."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.docker import (
    DAEMON_PATH,
    DROPIN_PATH,
    daemon_text,
    merge,
    verdict,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, NodeError

from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.fakes.fake_containers_role import plan_of, texts


@pytest.fixture
def host(tmp_path):
    return rooted.with_docker(rooted.with_pyxis(rooted.with_enroot(rooted.node(tmp_path))))


def files_of(host, **options):
    plan = plan_of(host, docker=True, **options)
    assert plan.refusals == ()
    return texts(plan)


def test_built_images_go_to_local_volume(host):
    rooted.mount(host, "/scratch", "ext4")
    assert json.loads(files_of(host)[DAEMON_PATH]) == {"data-root": "/scratch/docker"}
    assert "ConditionPathIsMountPoint=/scratch\n" in files_of(host)[DROPIN_PATH]


def test_without_local_volume_docker_keeps_its_place(host):
    assert DAEMON_PATH not in files_of(host)


def test_existing_images_are_not_hidden(host):
    rooted.mount(host, "/scratch", "ext4")
    host.put("/var/lib/docker/image/overlay2/repositories.json")
    assert DAEMON_PATH not in files_of(host)
    host.answers["docker info"] = "/var/lib/docker\n"
    assert json.loads(files_of(host, docker_data_root="/scratch/other")[DAEMON_PATH])["data-root"] == "/scratch/other"


def test_images_of_remapped_users_are_not_hidden(host):
    rooted.mount(host, "/scratch", "ext4")
    host.answers["docker info"] = "/var/lib/docker/100000.100000\n"
    host.put("/var/lib/docker/100000.100000/image/overlay2/repositories.json")
    assert DAEMON_PATH not in files_of(host)


UNIT = "# /lib/systemd/system/docker.service\n[Service]\nEnvironmentFile=-/etc/default/docker\n"


@pytest.mark.parametrize(
    ("unit", "variables", "setter"),
    [
        ("ExecStart=/usr/bin/dockerd -H fd:// --data-root /big\n", "", "docker.service"),
        ("ExecStart=/usr/bin/dockerd --data-root=/big\n", "", "docker.service"),
        ("ExecStart=/usr/bin/dockerd -g /big $OPTIONS\n", "", "docker.service"),
        ("ExecStart=/usr/bin/dockerd \\\n  --graph \\\n  /big\n", "", "docker.service"),
        ("ExecStart=/usr/bin/dockerd $DOCKER_OPTS\n", "DOCKER_OPTS='--data-root /big'\n", "/etc/default/docker"),
        ("ExecStart=/usr/bin/dockerd $OPTIONS\n", 'OPTIONS="-g /big"\n', "/etc/default/docker"),
        ("#ExecStart=/usr/bin/dockerd -g /big\nExecStart=/usr/bin/dockerd\n", "# --data-root /big\n", None),
        ("ExecStart=/usr/bin/dockerd --containerd-graph=/x --my-data-root /y x-g\n", "", None),
        ("ExecStartPre=/usr/bin/install -d -g docker /run/x\nExecStart=/usr/bin/dockerd\n", "", None),
        ("ExecStart=/usr/bin/dockerd -g=/big\n", "", "docker.service"),
        ("ExecStart=/usr/bin/dockerd -g $PLACE\n", "", "docker.service"),
    ],
)
def test_data_root_of_the_command_line_is_kept(host, unit, variables, setter):
    """Docker does not start with a directory in both places, and its images would be hidden."""
    rooted.mount(host, "/scratch", "ext4")
    host.answers["docker info"] = CommandResult(1, "", "no daemon")
    host.answers["systemctl cat docker.service"] = UNIT + unit
    host.put("/etc/default/docker", variables)
    if setter is None:
        assert json.loads(files_of(host)[DAEMON_PATH]) == {"data-root": "/scratch/docker"}
        return
    assert DAEMON_PATH not in files_of(host)
    (refusal,) = plan_of(host, docker=True, docker_data_root="/scratch/own").refusals
    assert f"enroot_pyxis_docker_data_root is /scratch/own, and {setter} sets Docker's directory already" in refusal


def test_data_root_of_a_running_docker_is_kept(host):
    """An option can come from a wrapper that nothing reads."""
    rooted.mount(host, "/scratch", "ext4")
    host.answers["docker info"] = "/big\n"
    assert DAEMON_PATH not in files_of(host)
    (refusal,) = plan_of(host, docker=True, docker_data_root="/scratch/own").refusals
    assert "the command line of dockerd sets Docker's directory already to /big" in refusal
    host.put(DAEMON_PATH, '{"data-root": "/big"}')
    assert plan_of(host, docker=True, docker_data_root="/scratch/own").refusals == ()
    host.put(DAEMON_PATH, '{"data-root": "/big",}')
    (refusal,) = plan_of(host, docker=True, docker_data_root="/scratch/own").refusals
    assert f"{DAEMON_PATH} is not valid JSON" in refusal


@pytest.mark.parametrize(
    ("names", "mode", "taken"),
    [
        (["precious"], 0o755, True),
        (["image"], 0o755, True),
        (["image", "overlay2", "precious"], 0o710, False),
        ([], 0o755, False),
    ],
)
def test_docker_directory_of_others_on_the_volume_is_kept(host, names, mode, taken):
    rooted.mount(host, "/scratch", "ext4")
    host.answers["docker info"] = "/var/lib/docker\n"
    host.folder("/scratch/docker", mode)
    for name in names:
        host.put(f"/scratch/docker/{name}/x")
    assert (DAEMON_PATH not in files_of(host)) == taken


def test_settings_of_others_are_kept(host):
    rooted.mount(host, "/scratch", "ext4")
    host.put("/usr/bin/nvidia-container-runtime")
    host.put(DAEMON_PATH, '{"log-driver": "local", "data-root": "/old", "runtimes": {"own": {"path": "/x"}}}')
    settings = json.loads(files_of(host)[DAEMON_PATH])
    assert settings["log-driver"] == "local"
    assert settings["data-root"] == "/old"
    assert sorted(settings["runtimes"]) == ["nvidia", "own"]


def test_complete_daemon_json_is_unchanged(host):
    text = '{ "data-root":"/scratch/docker" }'
    assert daemon_text(text, "/scratch/docker", {}, False) == text
    assert daemon_text(None, "", {}, False) == "{}\n"


@pytest.mark.parametrize(("text", "words"), [("{", "is not valid JSON"), ("[]", "is not a JSON object")])
def test_broken_daemon_json_is_rejected(text, words):
    with pytest.raises(NodeError, match=words):
        daemon_text(text, "", {}, False)


def test_objects_are_merged_and_other_values_replaced():
    assert merge({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "d": {"e": 1}}) == {
        "a": {"b": 1, "c": [2]},
        "d": {"e": 1},
    }


@pytest.mark.parametrize("answer", ["", "Cannot connect to the Docker daemon\n", CommandResult(1, "", "no daemon")])
def test_docker_that_does_not_answer_is_no_pass(tmp_path, answer):
    host = rooted.node(tmp_path)
    host.answers["docker info"] = answer
    found = verdict(host, {"path": "/usr/bin/dockerd", "version": "27.3.1"})
    assert (found.id, found.status) == ("docker.version", "not_applicable")
    host.answers["docker info"] = "/scratch/docker\n"
    found = verdict(host, {"path": "/usr/bin/dockerd", "version": "27.3.1"})
    assert (found.status, found.found) == ("pass", "27.3.1, images in /scratch/docker")
