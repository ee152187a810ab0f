# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real bundle and the real roles, by the hook, in a container with systemd."""

from __future__ import annotations

import json
import subprocess

import pytest

from plugins.module_utils._bundle import archive, build
from tests.bench import bench_boot_hook
from tests.build import containers
from tests.integration.hook.conftest import HOOK

pytestmark = [pytest.mark.container, pytest.mark.slow]
NAME = "mlcluster-hook-debian12"
# There are neither disks nor accelerators here, and no mirror: the roles have to find that out and say so.
VARIABLES = {"efa_nccl_installer_enabled": False}


@pytest.fixture
def container(tmp_path):
    """A booted container with hook and bundle in /root; its words are run(...)."""
    built = build.build(bench_boot_hook.request(), archive.parse_target("debian-py3.11"))
    (tmp_path / "bundle.tar.gz").write_bytes(built.data)
    with containers.locked(NAME):
        containers.up(NAME)

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return containers.podman("exec", NAME, *words)

        containers.demand(
            containers.podman("cp", str(tmp_path / "bundle.tar.gz"), f"{NAME}:/root/"), "Copying the bundle"
        )
        containers.demand(containers.podman("cp", str(HOOK), f"{NAME}:/root/hook.sh"), "Copying the hook")
        hook = ["env", "AWS_EC2_METADATA_DISABLED=true", "bash", "/root/hook.sh", "--bundle", "/root/bundle.tar.gz"]
        yield run, [*hook, "--sha256", built.sha256]
        containers.down([NAME])


def test_a_node_configures_itself_with_the_roles_of_the_collection(container):
    run, hook = container
    containers.demand(run("apt-get", "-q", "update"), "Refreshing the package lists")
    timers = run("systemctl", "list-units", "--plain", "--no-legend", "--state=active", "*.timer").stdout
    words = ["--roles", "nvme_raid0,efa_nccl", "--node-type", "standalone", "--vars", json.dumps(VARIABLES)]
    first = run(*hook, *words)
    status = json.loads(run("cat", "/var/log/mlcluster/status.json").stdout)
    assert (first.returncode, status["state"]) == (0, "configured"), first.stdout + first.stderr
    assert [role["state"] for role in status["roles"]] == ["configured", "configured"]
    second = run(*hook, *words)
    status = json.loads(run("cat", "/var/log/mlcluster/status.json").stdout)
    assert (second.returncode, status["state"]) == (0, "configured"), second.stdout + second.stderr
    assert [role["changed"] for role in status["roles"]] == [0, 0]
    # What starts updates was quiet during the run and is back.
    assert run("systemctl", "list-units", "--plain", "--no-legend", "--state=active", "*.timer").stdout == timers
    # A person reads the same in the log.
    assert "configured: 2 roles, 0 changes" in run("cat", "/var/log/mlcluster/on_node_configured.log").stdout


def test_what_an_image_holds_is_found_done_at_the_boot(container):
    run, hook = container
    containers.demand(run("apt-get", "-q", "update"), "Refreshing the package lists")
    words = ["--roles", "nvme_raid0,efa_nccl", "--node-type", "standalone", "--vars"]
    image = {**VARIABLES, "nvme_raid0_image_build": True, "efa_nccl_image_build": True}

    def packages() -> set[str]:
        return set(run("dpkg-query", "--show", "--showformat", "${Package}\n").stdout.split())

    def configured(*more: str) -> int:
        done = run(*hook, *words, *more)
        status = json.loads(run("cat", "/var/log/mlcluster/status.json").stdout)
        assert (done.returncode, status["state"]) == (0, "configured"), done.stdout + done.stderr
        return sum(role["changed"] for role in status["roles"])

    bare = packages()
    assert configured(json.dumps(image), "--phase", "build") > 0
    baked = packages()
    assert "mdadm" in baked - bare
    # What belongs to a node and not to an image is not there yet.
    limits = ["test", "-e", "/etc/security/limits.d/95-mlcluster.conf"]
    assert run(*limits).returncode == 1
    assert configured(json.dumps(image), "--phase", "build") == 0
    assert configured(json.dumps(image)) > 0
    assert packages() == baked
    assert run(*limits).returncode == 0


def test_a_required_role_that_fails_drains_and_the_runtime_sees_it(container):
    run, hook = container
    # A layout that there is not.
    words = ["--roles", "nvme_raid0", "--vars", json.dumps({"nvme_raid0_layout": "raid7"})]
    done = run(*hook, *words)
    status = json.loads(run("cat", "/var/log/mlcluster/status.json").stdout)
    assert (done.returncode, status["state"], status["exit_code"]) == (0, "drained", 1), done.stdout + done.stderr
    assert json.loads(run("cat", "/var/lib/mlcluster/drain.json").stdout)["by"] == "mlcluster boot hook"
