# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look at a node with Slurm, and the verdicts."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import (
    EnrootConfig,
    parse_config,
    problems,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult

from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.fakes.fake_containers_role import carry_out, facts_of, plan_of

STACK = "/opt/slurm/etc/plugstack.conf"
PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def converge(host, **options):
    carry_out(host, plan_of(host, **options), **options)


def verdicts(host, **options):
    return {entry.id: entry for entry in facts_of(host, **options)["results"]}


@pytest.mark.parametrize("version", ["3.0.9", "2.2.0"])
def test_old_enroot_is_not_good(host, version):
    rooted.with_enroot(host, version)
    assert verdicts(host)["enroot.version"].status == "fail"


def test_enroot_without_capabilities_cannot_import(host):
    host.put("/usr/bin/enroot")
    host.answers["/usr/bin/enroot version"] = "4.1.2"
    assert verdicts(host, caps=False)["enroot.caps"].status == "not_applicable"


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ("Usage: srun\n", "fail", "srun --help has no --container-image"),
        (CommandResult(0, "", "srun: error: spank: Permission denied"), "fail", "Permission denied"),
        (
            CommandResult(0, "   --container-image=X\n   --container-image=X\n", "provided by both a and b"),
            "fail",
            "two plugins",
        ),
        (CommandResult(1, "", "srun: no configuration"), "undeterminable", "gave no answer"),
    ],
)
def test_loaded_plugin_is_read_from_srun_help(host, answer, status, words):
    rooted.with_pyxis(rooted.with_enroot(host))
    converge(host)
    host.answers["/opt/slurm/bin/srun --help"] = answer
    verdict = verdicts(host)["pyxis.loaded"]
    assert verdict.status == status
    assert words in verdict.line()


def test_site_paths_on_shared_filesystem_fail(host):
    rooted.mount(host, "/fsx", "lustre")
    rooted.with_pyxis(rooted.with_enroot(host))
    site = {"conf": {"ENROOT_DATA_PATH": "/fsx/enroot/user-$(id -u)"}}
    converge(host, **site)
    assert "ENROOT_DATA_PATH is on Lustre" in verdicts(host, **site)["enroot.conf"].message


def test_runtime_space(host):
    rooted.with_pyxis(rooted.with_enroot(host))
    converge(host)
    assert verdicts(host)["enroot.runtime"].status == "pass"
    assert verdicts(host, runtime_min_mib=1 << 20)["enroot.runtime"].status == "fail"
    host.free_bytes = lambda path: None
    assert verdicts(host)["enroot.runtime"].status == "undeterminable"


def test_all_problems_of_settings_are_reported():
    config = parse_config(
        {
            "plugin_options": {"colour": 1},
            "conf": {"PATH": "/"},
            "local_dir": "x",
            "hooks": ["evil.sh"],
            "slurm_prefix": "opt",
            "smoke_image": "x.sqsh",
            "smoke_users": ["root", "a b"],
            "max_user_namespaces": 1,
        }
    )
    assert len(problems(config)) == 9
    assert problems(EnrootConfig()) == []
    assert "smoke_users is empty" in problems(EnrootConfig(smoke_image="/x.sqsh"))[0]


def test_low_limit_on_user_namespaces_fails(host):
    assert verdicts(host)["enroot.userns"].status == "pass"
    host.put("/proc/sys/kernel/unprivileged_userns_clone", "0")
    assert verdicts(host)["enroot.userns"].status == "fail"


def test_good_node_passes_what_applies_to_it(host):
    rooted.with_pyxis(rooted.with_enroot(host))
    converge(host)
    results = verdicts(host)
    assert {name for name, result in results.items() if result.status != "pass"} == {"pyxis.node", "enroot.nvidia"}
    assert results["pyxis.node"].status == results["enroot.nvidia"].status == "not_applicable"
