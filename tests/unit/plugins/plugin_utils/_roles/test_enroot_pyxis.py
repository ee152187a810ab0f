# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller data for the options of the role enroot_pyxis."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import role_problems
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.downloads import artifact
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles import enroot_pyxis


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [(["compute"], True), (["login"], False), (["login", "head"], True), (["ungrouped"], True), ([], True)],
)
def test_login_node_needs_no_docker(groups: list[str], wanted: bool) -> None:
    assert enroot_pyxis.wants_docker({"group_names": groups}) == wanted
    assert not enroot_pyxis.wants_docker({"group_names": groups, "enroot_pyxis_docker_enabled": "no"})


def test_look_needs_no_cache_of_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enroot_pyxis._runtime, "build", lambda: pytest.fail("a build was put into the cache"))
    assert len(enroot_pyxis.controller_options({})["runtime_sha256"]) == 64


def test_every_platform_has_its_artifacts() -> None:
    options = enroot_pyxis.controller_options({})
    assert role_problems(options) == []
    assert enroot_pyxis.controller_problems({}) == []
    table = options["artifacts"]
    for platform in ("deb-amd64", "deb-arm64", "rpm-x86_64", "rpm-aarch64"):
        for name in ("enroot", "enroot-caps"):
            assert artifact(table, name, platform, "4.1.2")["url"].startswith("https://github.com/NVIDIA/enroot/")
    assert artifact(table, "pyxis", "any", "0.24.0")["url"].endswith("/v0.24.0.tar.gz")
    assert {row["name"] for row in table} == set(enroot_pyxis.NAMES)


def test_lock_checksum_is_for_its_version_and_platform() -> None:
    lock = {"name": "enroot", "platform": "deb-amd64", "version": "4.2.0", "sha256": "a" * 64}
    table = enroot_pyxis.artifact_table([lock])
    assert artifact(table, "enroot", "deb-amd64", "4.2.0")["sha256"] == "a" * 64
    assert artifact(table, "enroot", "deb-arm64", "4.2.0")["sha256"] == ""
    assert artifact(table, "enroot-caps", "deb-amd64", "4.2.0")["sha256"] == ""


def test_unreadable_lock_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Any) -> list[dict[str, Any]]:
        raise _artifacts.ArtifactError("artifacts.lock.yml is not a lock of artifacts")

    monkeypatch.setattr(_artifacts, "read_lock", refuse)
    assert enroot_pyxis.controller_problems({}) == ["artifacts.lock.yml is not a lock of artifacts"]
    assert enroot_pyxis.controller_options({})["artifacts"] != []
