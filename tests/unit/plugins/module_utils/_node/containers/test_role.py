# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look of the role: its verdicts and its time limit."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import role

from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.fakes.fake_containers_role import config_of, facts_of


def test_node_without_slurm_has_one_verdict(tmp_path: Path) -> None:
    host = rooted.RootedHost(tmp_path)
    (verdict,) = role.verify(facts_of(host), config_of())
    assert (verdict.id, verdict.status) == ("enroot.slurm", "not_applicable")


def test_refused_node_has_no_other_verdict(tmp_path: Path) -> None:
    host = rooted.node(tmp_path)
    assert len(role.verify(facts_of(host), config_of())) > 10
    assert role.verify(facts_of(host, fallback_dir=""), config_of(fallback_dir="")) == []


def test_read_only_look_starts_no_container(tmp_path: Path) -> None:
    host = rooted.with_pyxis(rooted.with_enroot(rooted.node(tmp_path)))
    host.put("/x.sqsh")
    options = {"smoke_image": "/x.sqsh", "smoke_users": ["alice"]}
    facts_of(host, **options, **role.READ_ONLY)
    assert [argv for argv in host.ran if argv[0] == "runuser"] == []
    facts_of(host, **options, probe="always")
    assert [argv for argv in host.ran if argv[0] == "runuser"] != []


def test_holds_are_read_for_own_packages_only(tmp_path: Path) -> None:
    host = rooted.node(tmp_path)
    host.answers["dpkg-query -W"] = "docker.io\t28\thi \nother\t1\tii \nnvidia-container-toolkit\t1\trc \n"
    assert facts_of(host)["held"] == {"docker.io": True}


def test_time_limit_covers_containers() -> None:
    users = ["alice", "bob"]
    plain, tried = config_of(), config_of(smoke_image="/x.sqsh", smoke_users=users, smoke_seconds=1000)
    assert role.seconds(tried) - role.seconds(plain) >= 2 * len(users) * 1000
