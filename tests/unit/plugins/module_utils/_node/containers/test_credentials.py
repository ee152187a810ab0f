# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Credentials of registries, as the command that prints them."""

from __future__ import annotations

import os
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import credentials as enroot_credentials

from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.plugins.module_utils._node.containers.test_docker import files_of

ECR = {"machine": "123456789012.dkr.ecr.eu-west-2.amazonaws.com"}


NGC = {"machine": "nvcr.io", "login": "$oauthtoken", "command": ["printf", "%s", "a b'c"]}


@pytest.fixture
def host(tmp_path):
    return rooted.with_docker(rooted.with_pyxis(rooted.with_enroot(rooted.node(tmp_path))))


def test_credentials_contain_command_not_password(host):
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
    assert files_of(host, credentials=[ECR])[enroot_credentials.PATH].startswith("machine 123456789012")
    assert enroot_credentials.text([]) is None


def test_own_configuration_of_user_is_used(tmp_path):
    def asked():
        command = ["bash", "-c", 'eval echo "$1"', "bash", enroot_credentials.CONFIG_PATH_VALUE]
        environment = {**os.environ, "HOME": str(tmp_path)}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    assert asked() == enroot_credentials.DIRECTORY
    (tmp_path / ".config" / "enroot").mkdir(parents=True)
    assert asked() == f"{tmp_path}/.config/enroot"
