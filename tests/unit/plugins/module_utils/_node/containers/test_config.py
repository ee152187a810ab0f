# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What may be asked of Enroot, Pyxis and Docker."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import EnrootConfig, problems

ECR = {"machine": "123456789012.dkr.ecr.eu-west-2.amazonaws.com"}
NGC = {"machine": "nvcr.io", "login": "$oauthtoken", "command": ["printf", "%s", "a b'c"]}


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
