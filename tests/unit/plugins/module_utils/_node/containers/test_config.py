# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the role: parsing, and messages that reject bad ones."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import (
    EnrootConfig,
    RoleConfig,
    parse_role,
    problems,
    role_problems,
)


def test_options_left_out_or_null_have_their_defaults() -> None:
    assert parse_role({"prebuilt": None}) == RoleConfig()
    assert role_problems({}) == []
    config = parse_role({"caps": False, "toolkit_packages": ["mine"]})
    assert (config.enroot.caps, config.toolkit_packages) == (False, ("mine",))


@pytest.mark.parametrize(("source", "built"), [("auto", "0.24.0"), ("preinstalled", "")])
def test_build_version_is_empty_for_preinstalled(source: str, built: str) -> None:
    assert parse_role({"source": source}).build_version == built


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"conf_owner": "role"},
            "enroot_pyxis_conf_owner: role would replace an enroot.conf that this role did not write, and sa",
        ),
        (
            {"duplicates": "remove"},
            "enroot_pyxis_duplicates: remove would change lines that this role did not write, and",
        ),
        ({"checksums": {"x.deb": "abc"}}, "x.deb in enroot_pyxis_checksums is not a sha256: use 64 hexadecimal"),
        ({"checksums": {"x.deb": "a" * 64 + "\n"}}, "x.deb in enroot_pyxis_checksums is not a sha256"),
        ({"checksums": "x.deb=abc"}, "checksums is 'x.deb=abc', a string; use a dictionary"),
        ({"hooks": ["evil.sh"]}, "enroot_pyxis_hooks has evil.sh, which is not an optional hook"),
        ({"hooks": "50-slurm-pmi.sh"}, "hooks is '50-slurm-pmi.sh', a string; use a list of strings"),
        ({"conf": "ENROOT_RESTRICT_DEV=no"}, "conf is 'ENROOT_RESTRICT_DEV=no', a string; use a dictionary"),
        ({"docker_daemon": "a=b"}, "docker_daemon is 'a=b', a string; use a dictionary"),
    ],
)
def test_bad_options_are_rejected(options: dict[str, t.Any], problem: str) -> None:
    (found,) = role_problems(options)
    assert found.startswith(problem)


def test_safe_mode_off_allows_replacement() -> None:
    assert role_problems({"conf_owner": "role", "duplicates": "remove", "safe_mode": False}) == []


def test_all_option_errors_are_reported_at_once() -> None:
    options = {"conf_owner": "role", "duplicates": "remove", "checksums": {"x.deb": "abc"}, "hooks": ["evil.sh"]}
    assert len(role_problems(options)) == 4


ECR = {"machine": "123456789012.dkr.ecr.eu-west-2.amazonaws.com"}
NGC = {"machine": "nvcr.io", "login": "$oauthtoken", "command": ["printf", "%s", "a b'c"]}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({**ECR, "password": "hunter2"}, "have the unknown keys password: use machine, login and command"),
        ({"machine": "nvcr.io", "login": "x"}, "need login and command"),
        ({"machine": "a b"}, "use the host name of a registry"),
        ({**NGC, "login": "a b"}, "characters that are not accepted"),
        ({**NGC, "command": ["a\nmachine evil"]}, "more than one line"),
    ],
)
def test_bad_credentials_are_rejected_without_secrets(entry, words):
    message = "; ".join(problems(EnrootConfig(credentials=(entry,))))
    assert words in message
    assert "hunter2" not in message


def test_bad_docker_settings_are_rejected():
    message = "; ".join(problems(EnrootConfig(docker_data_root="data", docker_daemon={"data-root": "/x"})))
    assert "docker_data_root is 'data'" in message
    assert "set the directory with docker_data_root instead" in message
