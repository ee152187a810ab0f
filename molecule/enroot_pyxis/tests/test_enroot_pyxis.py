# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A converged host, and the effect of each known failure on its jobs: the failure is reported, and jobs without
containers run if Slurm permits it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from testinfra.host import Host

STACK = "/opt/slurm/etc/plugstack.conf"
OWN = f"{STACK}.d/pyxis.conf"
INFO = "mlcluster containers-info"


@pytest.fixture
def slurm_version(host: Host) -> str:
    return host.check_output("scontrol --version").split()[1]


@pytest.fixture
def plugin(slurm_version: str) -> str:
    return f"/usr/local/lib/mlcluster/pyxis/{slurm_version}/spank_pyxis.so"


@pytest.fixture
def restored(host: Host, plugin: str) -> Iterator[None]:
    """Restore Slurm's files and the plugin after the test, which begins when no job and no Epilog uses them."""
    deadline = time.monotonic() + 120
    # An Epilog that meets a plugin which the test replaces fails, and drains the node.
    while (state := host.check_output("sinfo -h -o %T")) != "idle":
        assert time.monotonic() < deadline, f"the node is {state}: {host.check_output('sinfo -h -R -o %E')}"
        time.sleep(0.2)
    host.check_output(
        "rm -rf /tmp/kept && mkdir /tmp/kept && cp -a /opt/slurm/etc /tmp/kept/ && cp -a %s /tmp/kept/", plugin
    )
    yield
    host.check_output("rm -rf /opt/slurm/etc/plugstack.conf* && cp -a /tmp/kept/etc/plugstack.conf* /opt/slurm/etc/")
    host.check_output("cp -a /tmp/kept/spank_pyxis.so %s", plugin)


def job_runs(host: Host) -> bool:
    """Return whether a job of an ordinary user runs. On a node that takes no jobs srun would wait for ever."""
    rc = host.run("timeout 120 runuser -u alice -- srun --chdir=/ true").rc
    assert rc != 124, f"srun waited for 120 s; drained: {host.check_output('sinfo -h -R -o %E')}"
    return rc == 0


def failures(host: Host) -> str:
    """Return the output of the node's command, which has to fail."""
    done = host.run(INFO)
    assert done.rc == 1
    return done.stdout


def test_command_finds_nothing_wrong(host: Host) -> None:
    done = host.run(INFO)
    assert done.rc == 0, done.stdout
    report = json.loads(host.check_output(f"{INFO} --json"))
    # Docker's own daemon does not run in the container; on the first host a stand-in answers.
    silent = set() if host.system_info.release == "12" else {"docker.version"}
    others = {entry["id"]: entry["status"] for entry in report["results"] if entry["status"] != "pass"}
    assert others == dict.fromkeys({"enroot.nvidia"} | silent, "not_applicable")


def test_plan_is_empty_and_reports_differences(host: Host) -> None:
    plan = "mlcluster plan --role enroot_pyxis"
    assert host.check_output(plan) == "enroot_pyxis: nothing to do"
    hook = "/etc/enroot/hooks.d/50-slurm-pmi.sh"
    host.check_output("mv %s /run/kept-hook && chmod 0600 /etc/tmpfiles.d/mlcluster-enroot.conf", hook)
    try:
        done = host.run(plan)
        assert (done.rc, done.stdout) == (1, "enroot_pyxis: would change tmpfiles (mode or owner), links\n")
    finally:
        host.check_output("mv /run/kept-hook %s && chmod 0644 /etc/tmpfiles.d/mlcluster-enroot.conf", hook)


def test_line_is_required_and_listed_once(host: Host, plugin: str) -> None:
    assert host.file(OWN).content_string.splitlines()[1] == f"required {plugin} container_scope=global"
    assert host.file(STACK).content_string.count("include") == 1


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_ordinary_user_runs_in_container(host: Host, user: str) -> None:
    outside = host.check_output("stat -c %d:%i /")
    inside = host.check_output(
        f"runuser -u {user} -- srun --chdir=/ --container-image=/srv/images/smoke.sqsh stat -c %d:%i /"
    )
    assert inside != outside


def test_files_are_writable_by_root_only(host: Host, plugin: str) -> None:
    for path in (
        OWN,
        plugin,
        "/etc/enroot/enroot.conf.d/00-mlcluster.conf",
        "/etc/mlcluster/enroot.json",
        "/etc/tmpfiles.d/mlcluster-enroot.conf",
        "/etc/systemd/system/mlcluster-containers.service",
        "/etc/systemd/system/slurmd.service.d/50-mlcluster-enroot.conf",
        "/var/lib/mlcluster/enroot_pyxis.json",
    ):
        file = host.file(path)
        assert (file.user, file.mode & 0o022) == ("root", 0), path


def test_directories_for_all_users(host: Host) -> None:
    assert host.file("/run/enroot").mode == 0o1777
    assert host.file("/run/pyxis").mode == 0o755
    assert host.check_output("readlink /run/mlcluster/enroot") == "/var/lib/mlcluster-containers"
    assert host.file("/var/lib/mlcluster-containers").mode == 0o1777


def test_enroot_conf_is_valid_with_directory_for_each_user(host: Host) -> None:
    conf = "/etc/enroot/enroot.conf.d/00-mlcluster.conf"
    host.check_output("bash -n %s", conf)
    value = host.check_output('awk \'$1 == "ENROOT_DATA_PATH" { $1 = ""; print }\' %s', conf).strip()
    path = host.check_output("runuser -u alice -- bash -c 'eval echo \"$1\"' bash %s", value)
    assert path == f"/var/lib/mlcluster-containers/user-{host.user('alice').uid}/data"
    host.check_output("runuser -u alice -- mkdir -p %s", path)


def test_boot_unit_is_sound_and_restores_link(host: Host) -> None:
    unit = "mlcluster-containers.service"
    checked = host.run("systemd-analyze --man=no verify /etc/systemd/system/%s", unit)
    assert (checked.rc, checked.stderr) == (0, "")
    assert host.service(unit).is_enabled
    assert "slurmd.service" in host.check_output("systemctl show --property=Before --value %s", unit)
    host.check_output("rm /run/mlcluster/enroot && systemctl restart %s", unit)
    assert host.check_output("readlink /run/mlcluster/enroot") == "/var/lib/mlcluster-containers"
    # The output of a unit reaches the journal shortly after its end.
    journal = host.check_output("journalctl --sync && journalctl --no-pager --output=cat --unit=%s", unit)
    assert "no local NVMe volume was found" in journal


def test_slurmd_finds_scontrol(host: Host) -> None:
    assert "PATH=/opt/slurm/bin:" in host.check_output("systemctl show --property=Environment --value slurmd.service")


def test_hooks_are_enabled(host: Host) -> None:
    assert host.file("/etc/enroot/hooks.d/50-slurm-pmi.sh").linked_to == "/usr/share/enroot/hooks.d/50-slurm-pmi.sh"


def test_dockers_settings_are_merged(host: Host) -> None:
    assert json.loads(host.file("/etc/docker/daemon.json").content_string) == {
        "log-driver": "local",
        "log-opts": {"max-size": "10m"},
        "data-root": "/srv/docker",
    }


def test_docker_is_installed_and_held(host: Host) -> None:
    """On the second host by the role, from the distribution; on the first there was one already."""
    if host.system_info.release == "12":
        pytest.skip("there a stand-in was found and kept")
    assert host.check_output("dpkg-query --show --showformat '${db:Status-Want}' docker.io") == "hold"
    output = host.check_output("dockerd --validate --config-file /etc/docker/daemon.json 2>&1")
    assert "configuration OK" in output


def test_broken_daemon_json_is_rejected_and_kept(host: Host) -> None:
    host.check_output("cp -a /etc/docker/daemon.json /tmp/kept.json && echo '{' > /etc/docker/daemon.json")
    try:
        assert "/etc/docker/daemon.json is not valid JSON" in failures(host)
        assert host.file("/etc/docker/daemon.json").content_string == "{\n"
    finally:
        host.check_output("mv /tmp/kept.json /etc/docker/daemon.json")


def test_training_image_is_built_imported_and_pushed_once(host: Host) -> None:
    """On the first host, where Docker is a stand-in that can build."""
    if host.system_info.release != "12":
        pytest.skip("no Docker runs there")
    asked = [line.split()[0] for line in host.check_output("cat /run/docker-stand-in/asked").splitlines()]
    assert [asked.count(word) for word in ("build", "tag", "push")] == [1, 1, 1]
    (tag,) = host.check_output("ls /run/docker-stand-in/images").splitlines()
    identity = host.check_output("cat /run/docker-stand-in/images/%s", tag)
    made = host.file("/srv/images/training.sqsh")
    assert made.linked_to == f"/srv/images/training-{identity[:16]}.sqsh"
    assert made.content.endswith(f"dockerd://sha256:{identity}".encode())
    assert host.check_output("ls /run/docker-stand-in/registry") == (
        f"123456789012.dkr.ecr.eu-west-2.amazonaws.com_{tag}"
    )
    # Docker asked the helper, which asked the AWS CLI; nothing of it is left.
    password = json.loads(host.check_output("cat /run/docker-password"))
    assert (password["Username"], password["Secret"]) == ("AWS", "token for eu-west-2")
    assert host.check_output("ls -d /var/tmp/mlcluster-image.* /root/.docker 2>/dev/null || true") == ""


def test_credentials_hold_commands_that_print_secret(host: Host) -> None:
    """Read as Enroot reads it: the part from the sixth word on goes through a shell."""
    line = host.check_output("grep nvcr.io /etc/mlcluster/enroot/.credentials")
    assert line.startswith("machine nvcr.io login $oauthtoken password $(")
    assert host.check_output("sh -c %s", f"echo {line.split(' ', 5)[5]}") == "from a command"


def test_image_is_imported_once(host: Host) -> None:
    """By the module, as a play on this host would; Enroot's stand-in writes what it is asked for."""
    image = host.check_output("ls /srv/images")
    assert "torch.sqsh" in image
    assert host.file("/srv/images/torch.sqsh").linked_to == "/srv/images/torch-5f70bf18a0860070.sqsh"
    asked = host.file("/srv/images/torch.sqsh").content
    assert b"docker://nvcr.io#nvidia/pytorch:25.10-py3@sha256:5f70bf18a0860070" in asked


def test_duplicate_is_found_with_its_places(host: Host, plugin: str, restored: None) -> None:
    host.check_output("echo optional %s >> %s", plugin, STACK)
    output = failures(host)
    assert f"listed 2 times ({OWN}:2, {STACK}:2)" in output
    assert "FAIL pyxis.loaded: srun warns that two plugins offer --container-image" in output


def test_unreadable_stray_file_is_reported(host: Host, restored: None) -> None:
    host.check_output("touch %s.d/sedXYZ && chmod 0600 %s.d/sedXYZ", STACK, STACK)
    # The star of the role's include does not find it.
    assert host.run(INFO).rc == 0
    assert job_runs(host)
    host.check_output("sed -i 's/[*].conf/*/' %s", STACK)
    output = failures(host)
    assert f"{STACK}.d/sedXYZ cannot be opened by ordinary users" in output
    assert not job_runs(host)


def test_unknown_plugin_option_stops_every_job(host: Host, restored: None) -> None:
    host.check_output("sed -i 's/$/ colour=red/' %s", OWN)
    assert "colour is not an option of Pyxis" in failures(host)
    assert not job_runs(host)


def test_plugin_for_another_slurm(host: Host, plugin: str, restored: None) -> None:
    host.check_output(
        "gcc -shared -fPIC -DPYXIS_VERSION='\"0.24.0\"' -DOTHER_SLURM=0x170200 -o %s -x c /srv/spank_pyxis.c", plugin
    )
    assert "was built for Slurm 23.02.0 and this node has" in failures(host)
    assert not job_runs(host)
    host.check_output("sed -i 's/^required/optional/' %s", OWN)
    assert job_runs(host)


def test_include_without_file_is_reported(host: Host, restored: None) -> None:
    host.check_output("rm %s", OWN)
    assert job_runs(host)
    output = failures(host)
    assert "FAIL pyxis.plugin: plugstack.conf lists no Pyxis plugin" in output
    assert "FAIL pyxis.loaded: srun --help has no --container-image" in output


def test_fifty_parallel_writers_while_jobs_run(host: Host, restored: None) -> None:
    """Each writes another line; a job that starts meanwhile never reads a partial file."""
    started = host.run("cd /srv && python3 writers.py")
    assert (started.rc, started.stderr) == (0, "")
    statuses = json.loads(started.stdout)
    assert statuses["writers"] == [0] * 50
    assert statuses["jobs"] == [0] * 3
    assert host.check_output("ls -A %s.d", STACK) == "pyxis.conf"
    assert "listed once" in host.check_output(f"{INFO} || true")


def test_failing_epilog_drains_node_and_is_reported(host: Host) -> None:
    host.check_output("touch /etc/pyxis-epilog-fails")
    try:
        assert job_runs(host)
        deadline = time.monotonic() + 600
        while "drain" not in host.check_output("sinfo -h -o %T") and time.monotonic() < deadline:
            time.sleep(0.2)
        assert "pilog error" in host.check_output("sinfo -h -R -o %E")
        assert "FAIL pyxis.node: this node takes no jobs" in failures(host)
    finally:
        host.check_output("rm /etc/pyxis-epilog-fails && scontrol update NodeName=ALL State=RESUME")
