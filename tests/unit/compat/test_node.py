# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a node that an earlier commit wrote: markers, facts, baselines, and the files that the roles keep."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import config as containers_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import local_directories
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import role as containers_role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.look import proved
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plan import (
    make_plan,
    plugstack_wanted,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plugstack_write import (
    PluginRequest,
    apply_changes,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import cufile_apply
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import container as host_facts
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import marker as drain_marker
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import config as lustre_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import tuning as lustre_tuning
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import baseline as nccl_baseline
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, judge
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import parallel
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from tests.unit.compat import written
from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.fakes.fake_nccl_output import Plan, output


class FirstBoot(Host):
    """This machine, in the boot of the recording."""

    def read_text(self, path):
        return "boot-1\n" if path.endswith("/boot_id") else super().read_text(path)


@pytest.mark.parametrize(
    ("name", "reason", "by"),
    [
        ("by_command", "nvme_raid0 failed: 2 of 8 disks are missing", "mlcluster drain-marker"),
        ("by_hook", "could not get /absent.tar.gz: cp: cannot stat", "mlcluster boot hook"),
    ],
)
def test_drain_marker_keeps_jobs_away(name, reason, by):
    path = str(written.path(f"health/drain_{name}.json"))
    marker = drain_marker.read_marker(Host(), path)
    assert marker.reason.startswith(reason)
    assert (marker.by, marker.at) == (by, written.document(f"health/drain_{name}.json")["at"])
    (verdict,) = drain_marker.check_marker(Host(), path)
    assert (verdict.id, verdict.status, verdict.severity) == ("node.drain_marker", "fail", "isolate")


def test_host_facts_are_read_in_their_boot_only():
    path = str(written.path("health/host_facts.json"))
    facts = host_facts.read_facts(FirstBoot(), path)
    assert (facts["driver"], facts["root"], facts["gpus"], facts["volumes"]) == ("580.95.05", "259:1 /", 0, [])
    assert host_facts.read_facts(Host(), path) is None


class Stuck(Host):
    """A process of the recorded session hangs in the kernel."""

    def read_text(self, path):
        return "9 (nvidia-smi) D 1 9 4711 0 -1\n" if path == "/proc/9/stat" else super().read_text(path)

    def listdir(self, path):
        return ["9"]


def test_check_that_hangs_is_not_started_again(tmp_path):
    (tmp_path / "gpu.count").write_text(written.text("health/session_of_gpu.count"))
    assert "nvidia-smi (pid 9)" in parallel.still_stuck(Stuck(), str(tmp_path), "gpu.count")


@pytest.mark.skipif(os.geteuid() != 0, reason="directories of jobs are trusted only where they are root's")
def test_directory_of_job_is_kept_for_it_and_swept_after_boot():
    with tempfile.TemporaryDirectory(prefix="mlcluster-scratch-") as name:
        base = Path(name) / "volume" / "jobs"
        Path(name).chmod(0o755)
        (base / "job-4711" / "tmp").mkdir(parents=True, mode=0o711)
        (base / "job-4711" / "job.json").write_text(written.text("scratch/job.json"))
        assert written.document("scratch/names.json")[1:] == ["job-4711", "job-4711/job.json", "job-4711/tmp"]
        (base / "job-4711" / "tmp" / "kept").touch()
        (found,) = scratch.survey(str(base))
        assert (found.job_id, found.uid, found.boot_id) == (4711, 65534, "boot-1")
        scratch.make(FirstBoot(), str(base), 4711, 65534, 65534)
        assert (base / "job-4711" / "tmp" / "kept").exists()
        known = scratch.survey(str(base))
        assert scratch.sweep(Host(), str(base), known, None, known[0].made + 1).taken == [4711]


def test_baseline_of_site_is_compared_with(tmp_path):
    path = tmp_path / "baseline.json"
    path.write_text(written.text("nccl/baseline.json"))
    entries = nccl_baseline.load(Host(), str(path))
    assert {entry["size"]: entry["busbw"] for entry in entries} == {1 << power: 600.0 for power in range(30, 35)}
    shown = output(
        Plan(hosts=("a", "b"), gpus=8, smallest=1 << 30, largest=1 << 34, factor=2, busbw=lambda size: 480.0)
    )
    asked = RequestedRun(ranks=16, nodes=2, instance_type="p5.48xlarge", baseline=entries)
    (verdict,) = (one for one in judge(parse(shown), asked).results if one.id.startswith("nccl.bandwidth"))
    assert (verdict.status, verdict.source) == ("fail", "the site's baseline: 600 GB/s, less 10 percent")
    assert nccl_baseline.record(Host(), str(path), entries) is False
    slower = [{**entries[0], "busbw": 500.0}]
    assert nccl_baseline.record(Host(), str(path), slower) is True
    # The two versions take turns by one lock.
    assert sorted(entry.name for entry in tmp_path.glob(".*")) == written.document("nccl/beside_the_baseline.json")


PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"


@pytest.fixture
def node(tmp_path):
    """A node with Enroot, Pyxis and Docker, and the files that the role wrote there."""
    host = rooted.with_pyxis(rooted.with_enroot(rooted.node(tmp_path)))
    host.put("/usr/bin/dockerd", mode=0o755)
    host.answers["/usr/bin/dockerd --version"] = "Docker version 28.5.1, build e180ab8\n"
    host.answers["/opt/slurm/bin/srun --help"] = "      --container-image=[USER@][REGISTRY#]IMAGE\n"
    for path, text in written.document("containers/files.json").items():
        host.put(path, text)
    return host


def test_node_with_containers_needs_no_change(node):
    text = node.text("/etc/mlcluster/enroot.json")
    given = {key: value for key, value in json.loads(text).items() if key != "schema"}
    config = containers_config.parse_config(given)
    assert config == containers_config.EnrootConfig(docker=True, docker_data_root="/data/docker")
    assert (containers_config.problems(config), containers_config.config_text(config)) == ([], text)
    local_directories.prepare(node, config.local)
    node.folder("/run/enroot", 0o1777)
    node.folder("/run/pyxis")
    node.put("/usr/local/bin/mlcluster")
    wanted = containers_config.RoleConfig(enroot=config, hold=False)
    facts = containers_role.look(node, wanted)
    plan = make_plan(facts, wanted)
    assert (plan.refusals, plan.differences()) == ((), [])
    listed = plugstack_wanted(facts, config, wanted.build_version)
    own = {key: value for key, value in listed.items() if key not in ("path", "slurm_version")}
    assert apply_changes(node, listed["path"], PluginRequest(**own), dry=True)["after"] == {}
    assert proved(facts, PLUGIN)


def test_file_systems_are_read_and_their_file_stays():
    text = written.text("lustre/lustre.json")
    given = json.loads(text)
    assert lustre_config.problems({key: value for key, value in given.items() if key != "schema"}) == []
    config = lustre_config.parse_config({key: value for key, value in given.items() if key != "schema"})
    assert [(entry.path, entry.mount_name) for entry in config.file_systems] == [("/fsx", "abcdefgh")]
    assert lustre_config.config_text(config) == text
    options = lustre_tuning.module_options({"memory_gib": 2048, "cpus": 192}, {})
    assert lustre_tuning.modprobe_text(options) == written.text("lustre/modprobe.conf")


@pytest.mark.parametrize("name", ["cufile", "created"])
def test_cufile_json_holds_what_was_set(name, tmp_path):
    file = tmp_path / "cufile.json"
    file.write_text(written.text(f"cufile/{name}.json"))
    settings = written.document("cufile/settings.json")
    request = cufile_apply.Request(path=str(file), settings=settings)
    outcome = cufile_apply.change(cufile_apply.FileHost(), request, False, str(tmp_path / "lock"))
    assert (list(outcome.changes), outcome.backup_file, outcome.before) == ([], None, outcome.after)
    assert {key: outcome.config[key] for key in settings} == settings
    assert file.read_text() == written.text(f"cufile/{name}.json")
