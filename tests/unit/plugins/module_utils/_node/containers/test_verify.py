# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on Docker and on GPUs inside containers."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import look as enroot
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import EnrootConfig
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.verify import verify
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

from tests.unit.plugins.module_utils._node.containers.test_docker import DOCKER


@pytest.fixture
def host(tmp_path):
    return rooted.with_docker(rooted.with_pyxis(rooted.with_enroot(rooted.node(tmp_path))))


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
