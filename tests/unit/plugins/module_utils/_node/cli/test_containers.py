# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verbs of the boot unit and of a person at the node."""

from __future__ import annotations

import argparse
import io
import json
import sys

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli.containers import (
    containers_boot,
    containers_info,
    registry_credential,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import (
    CONFIG_PATH,
    EnrootConfig,
    config_text,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.enroot_conf import LOCAL_LINK
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

ARGUMENTS = argparse.Namespace(config=CONFIG_PATH, json=False, runtime_version="0.1.0")


@pytest.fixture
def host(tmp_path):
    host = rooted.node(tmp_path)
    host.put(CONFIG_PATH, config_text(EnrootConfig()))
    return host


def test_boot_uses_fallback_then_mounted_volume(host, caplog):
    caplog.set_level("INFO", "mlcluster")
    assert containers_boot(ARGUMENTS, host) == 0
    assert "no local NVMe volume was found" in caplog.text
    assert host.link_target(LOCAL_LINK) == "/var/lib/mlcluster-containers"
    rooted.mount(host, "/scratch", "ext4")
    assert containers_boot(ARGUMENTS, host) == 0
    assert host.link_target(LOCAL_LINK) == "/scratch/containers"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "did not find it: run the role enroot_pyxis on this node first"),
        ("{", "is not valid JSON"),
        ("[]", "does not have the schema mlcluster.enroot_config/1"),
        ('{"schema": "other"}', "does not have the schema mlcluster.enroot_config/1"),
        (config_text(EnrootConfig(local_dir="x")), "local_dir is 'x'"),
        (config_text(EnrootConfig(fallback_dir="")), "enroot_pyxis_fallback_dir is empty"),
    ],
)
def test_boot_with_invalid_configuration_fails(host, caplog, text, words):
    host.remove(CONFIG_PATH)
    if text is not None:
        host.put(CONFIG_PATH, text)
    assert containers_boot(ARGUMENTS, host) == 2
    assert words in caplog.text


def test_info_prints_lines_or_report(host, capsys):
    assert containers_info(ARGUMENTS, host) == 1
    assert "FAIL pyxis.plugin: plugstack.conf lists no Pyxis plugin" in capsys.readouterr().out
    containers_info(argparse.Namespace(**{**vars(ARGUMENTS), "json": True}), host)
    assert json.loads(capsys.readouterr().out)["schema"] == "mlcluster.report/1"


def test_info_without_configuration_is_undeterminable(host):
    host.remove(CONFIG_PATH)
    assert containers_info(ARGUMENTS, host) == 2


@pytest.fixture
def ask(host, monkeypatch, capsys):
    """ask(action, server) gives the exit code and what Docker reads."""
    ngc = {"machine": "nvcr.io", "login": "$oauthtoken", "command": ["secret", "of ngc"]}
    host.put(CONFIG_PATH, config_text(EnrootConfig(credentials=(ngc,))))
    host.answers = {"secret of ngc": "s3cret\n", "aws ecr get-login-password --region eu-west-2": "t0k3n\n"}

    def run(action, server=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{server}\n"))
        code = registry_credential(argparse.Namespace(config=CONFIG_PATH, action=action), host)
        return code, capsys.readouterr().out

    return run


ECR = "123456789012.dkr.ecr.eu-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("server", "login", "secret"), [("nvcr.io", "$oauthtoken", "s3cret"), (f"https://{ECR}/v2/", "AWS", "t0k3n")]
)
def test_docker_gets_password_from_command(ask, host, server, login, secret):
    code, output = ask("get", server)
    assert (code, json.loads(output)) == (0, {"ServerURL": server, "Username": login, "Secret": secret})
    assert secret not in host.text(CONFIG_PATH)


def test_registry_without_command_has_no_password(ask):
    assert ask("get", "docker.io") == (1, "credentials not found in native keychain\n")


def test_failed_command_is_reported_without_its_output(ask, host):
    host.answers["secret of ngc"] = CommandResult(7, "half a s3cret", "denied")
    code, output = ask("get", "nvcr.io")
    assert code == 2 and "it ended with 7 (denied)" in output and "s3cret" not in output
    host.answers["secret of ngc"] = ""
    assert "printed nothing" in ask("get", "nvcr.io")[1]


def test_no_password_is_stored(ask):
    assert ask("list") == (0, "{}\n")
    assert [ask(action)[0] for action in ("store", "erase")] == [1, 1]
