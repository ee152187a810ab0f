# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook runs the real bundle with the real roles in a container with systemd."""

from __future__ import annotations

import json
import subprocess

import pytest
import yaml

from plugins.module_utils._bundle import archive, build
from tests.bench import bench_boot_hook
from tests.build import containers
from tests.integration.hook.conftest import HOOK, ROOT
from tests.unit.test_guide_of_a_cluster import EXAMPLE, hook_variables

pytestmark = [pytest.mark.container, pytest.mark.slow]
NAME = "mlcluster-hook-debian12"
# The container has no disks, no accelerators and no mirror; the roles have to detect and report that.
VARIABLES = {"efa_nccl_installer_enabled": False}


@pytest.fixture
def container(tmp_path):
    """Yield ``run(*command)`` of a booted container with hook and bundle, and the hook's command."""
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


def test_node_configures_itself_with_roles_of_collection(container):
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
    # Update timers were stopped during the run and are active again.
    assert run("systemctl", "list-units", "--plain", "--no-legend", "--state=active", "*.timer").stdout == timers
    # The log has the same result.
    assert "configured: 2 roles, 0 changes" in run("cat", "/var/log/mlcluster/on_node_configured.log").stdout


def test_content_of_image_is_unchanged_at_boot(container):
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
    # Files that belong to a node and not to an image are missing.
    limits = ["test", "-e", "/etc/security/limits.d/95-mlcluster.conf"]
    assert run(*limits).returncode == 1
    assert configured(json.dumps(image), "--phase", "build") == 0
    assert configured(json.dumps(image)) > 0
    assert packages() == baked
    assert run(*limits).returncode == 0


LUSTRE = ROOT / "molecule" / "fsx_lustre" / "files"
# Differences from an image of ParallelCluster, such as the small memory of this container.
CLIENT = {
    "fsx_lustre_packages": ["lustre-client-modules-test"],
    "fsx_lustre_repository": "Types: deb\nURIs: file:/run/lustre-client\nSuites: ./\nTrusted: yes\n",
    "fsx_lustre_tuning": {"osc.*OST*.max_rpcs_in_flight": 32},
}
INTO_PYTHON = "/usr/lib/python3/dist-packages"
# Python loads the stand-in by its module site, which the hook leaves out with -S.
WITH_SITE = """#!/bin/bash
case $1 in -IS*) option=-I${1#-IS}; shift; set -- "$option" "$@";; esac
exec -a "$0" "$(readlink -f "$0").real" "$@"
"""


def mount_lustre(run, paths: list[str]) -> None:
    """Mount the stand-in for Lustre (molecule/fsx_lustre) in the container on these paths."""
    for name, folder in (("lustre_standin.py", "/run"), ("make_client.sh", "/run"), ("lustre_mounts.py", INTO_PYTHON)):
        containers.demand(containers.podman("cp", str(LUSTRE / name), f"{NAME}:{folder}/{name}"), f"Copying {name}")
    load = f"echo import lustre_mounts >{INTO_PYTHON}/lustre_mounts.pth"
    tools = "cd /usr/local/sbin && install /run/lustre_program stat && ln -s stat modinfo"
    containers.demand(run("sh", "-c", f"{load} && sh /run/make_client.sh && {tools}"), "Making the client")
    python = containers.demand(run("readlink", "-f", "/usr/bin/python3"), "Looking for Python").strip()
    move = ["sh", "-c", 'mv "$1" "$1.real" && printf %s "$2" >"$1" && chmod 0755 "$1"', "-", python, WITH_SITE]
    containers.demand(run(*move), "Making Python load the stand-in")
    process = containers.demand(containers.podman("inspect", "--format", "{{.State.Pid}}", NAME), "Looking for it")
    for number, path in enumerate(paths, 1):
        mount = f"mkdir {path} && mount -t tmpfs -o mode=0755 10.0.0.{number}@tcp:/abcdefgh {path}"
        inside = ["nsenter", f"--target={process}", "--mount", "sh", "-c", mount]
        containers.demand(subprocess.run(inside, capture_output=True, text=True, check=False), f"Mounting {path}")


def test_head_node_of_example_gets_directories_of_each_model(container, tmp_path):
    run, hook = container
    mounts = [entry["mount"] for entry in yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["cluster_filesystems"]]
    mount_lustre(run, mounts)
    # The guide's file of variables, passed by the hook's --vars as in the guide.
    given = hook_variables()
    (tmp_path / "vars.yml").write_text(yaml.safe_dump({**given, **CLIENT}), encoding="utf-8")
    containers.demand(containers.podman("cp", str(tmp_path / "vars.yml"), f"{NAME}:/root/"), "Copying the variables")
    words = [*hook, "--roles", "fsx_lustre", "--node-type", "head", "--vars", "/root/vars.yml"]
    first = run(*words)
    status = json.loads(run("cat", "/var/log/mlcluster/status.json").stdout)
    assert (first.returncode, status["state"]) == (0, "configured"), first.stdout + first.stderr
    made = set(run("find", *mounts, "-mindepth", "1", "-type", "d").stdout.split())
    below = ("/fsx2/{}/checkpoints", "/fsx2/{}/outputs", "/fsx3/{}/training_logs", "/fsx3/{}/tensorboard")
    models = {path.format(model) for model in given["fsx_lustre_models"] for path in below}
    assert len(models) == 28
    assert models | {"/fsx1/datasets", "/fsx1/weights"} <= made
    again = run(*words)
    status = json.loads(run("cat", "/var/log/mlcluster/status.json").stdout)
    assert (again.returncode, [role["changed"] for role in status["roles"]]) == (0, [0]), again.stdout + again.stderr


def test_failed_required_role_drains_node_for_runtime(container):
    run, hook = container
    # An unknown layout.
    words = ["--roles", "nvme_raid0", "--vars", json.dumps({"nvme_raid0_layout": "raid7"})]
    done = run(*hook, *words)
    status = json.loads(run("cat", "/var/log/mlcluster/status.json").stdout)
    assert (done.returncode, status["state"], status["exit_code"]) == (0, "drained", 1), done.stdout + done.stderr
    assert json.loads(run("cat", "/var/lib/mlcluster/drain.json").stdout)["by"] == "mlcluster boot hook"
