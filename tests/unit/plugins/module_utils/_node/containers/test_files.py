# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of the system that the role writes for Enroot."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import slurm as enroot_slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.files import (
    APPARMOR_PATH,
    SLURMD_PATH,
    SYSCTL_PATH,
)
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

from tests.unit.plugins.module_utils._node.containers.test_look import converge, plan_of, verdicts


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def test_slurm_of_the_distribution(tmp_path):
    host = rooted.RootedHost(tmp_path)
    host.put("/usr/bin/srun")
    host.put("/proc/self/mountinfo", rooted.MOUNTS)
    host.put(
        "/etc/slurm/slurm.conf",
        "PlugStackConfig=/etc/slurm/other.conf\nPluginDir=/a:/b\nSlurmctldParameters=x,enable_configless\n",
    )
    host.answers["/usr/bin/scontrol --version"] = "slurm 24.11.5"
    found = enroot_slurm.look(host)
    assert (found["prefix"], found["conf_dir"], found["plugstack"]) == ("/usr", "/etc/slurm", "/etc/slurm/other.conf")
    assert found["plugin_directories"][:2] == ["/a", "/b"]
    assert found["configless"]
    # Its commands are on everybody's path.
    assert SLURMD_PATH not in {file["path"] for file in plan_of(host).files}


def test_limits_of_the_kernel(host):
    host.put("/proc/sys/user/max_user_namespaces", "1000")
    host.put("/proc/sys/kernel/unprivileged_userns_clone", "0")
    host.put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")
    files = {file["path"]: file["text"] for file in plan_of(host).files}
    assert "user.max_user_namespaces = 65536\nkernel.unprivileged_userns_clone = 1\n" in files[SYSCTL_PATH]
    assert "profile mlcluster-enroot /usr/bin/enroot-nsenter" in files[APPARMOR_PATH]
    assert verdicts(host)["enroot.userns"].status == "fail"
    host.put("/etc/apparmor.d/enroot")
    assert APPARMOR_PATH not in {file["path"] for file in plan_of(host).files}


def test_a_limit_that_the_role_raised_is_not_lowered_at_the_next_run(host):
    host.put("/proc/sys/user/max_user_namespaces", "1000")
    rooted.with_pyxis(rooted.with_enroot(host))
    converge(host)
    host.put("/proc/sys/user/max_user_namespaces", "65536")
    assert plan_of(host).parts == []


def test_slurmds_path_is_set_only_where_slurm_is_elsewhere(host):
    files = {file["path"]: file["text"] for file in plan_of(host).files}
    assert "Environment=PATH=/opt/slurm/bin:" in files[SLURMD_PATH]
