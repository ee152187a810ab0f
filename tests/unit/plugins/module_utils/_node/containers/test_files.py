# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""System files that the role writes for Enroot."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import slurm as enroot_slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.files import SLURMD_PATH, removable

from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.fakes.fake_containers_role import plan_of, texts


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def test_slurm_of_distribution(tmp_path):
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
    # Its commands are on every user's path.
    assert SLURMD_PATH not in texts(plan_of(host))


def test_slurmd_path_is_set_only_for_other_prefix(host):
    assert "Environment=PATH=/opt/slurm/bin:" in texts(plan_of(host))[SLURMD_PATH]


def test_removal_takes_links_to_hooks_and_an_empty_folder(host):
    host.make_link("/usr/share/enroot/hooks.d/a.sh", "/etc/enroot/hooks.d/a.sh")
    host.make_link("/opt/site/b.sh", "/etc/enroot/hooks.d/b.sh")
    host.write_text("/etc/enroot/hooks.d/c.sh", "exit")
    host.write_text("/etc/mlcluster/enroot/.credentials", "machine x")
    hooks, built = ["a.sh", "b.sh", "c.sh", "absent.sh"], "/usr/local/lib/mlcluster/pyxis"
    assert removable(host, hooks) == ["/etc/enroot/hooks.d/a.sh", built, "/etc/mlcluster/enroot"]
    host.write_text("/etc/mlcluster/enroot/environ.d/10-site.env", "A=b")
    assert removable(host, hooks) == ["/etc/enroot/hooks.d/a.sh", built]
