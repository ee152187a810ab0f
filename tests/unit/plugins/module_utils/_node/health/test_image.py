# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health check inside a container image."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import image as health_image
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.image import check_image
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Report, Scope, failed, passed

from tests.unit.fakes.fake_slurm_node import BIN, IMAGE, NODE
from tests.unit.fakes.fake_training_host import hanging

INSIDE = Report(
    "n1",
    "2026-01-31T12:00:00Z",
    {},
    (
        passed("container.nccl", "2.28.9"),
        failed("container.mounts", "it is not there", severity="reset", scope=Scope(device="/local")),
    ),
)


def image(host, **options):
    return {one.id: one for one in check_image(host, Slurm(host), options.pop("image", IMAGE), **options)}


def test_verdicts_inside_have_image_in_scope(host):
    host.commands[f"{BIN}/srun --quiet"] = CommandResult(1, f"pyxis: chatter\n{json.dumps(INSIDE.to_dict())}\n", "")
    found = image(host)
    assert found["container.image"].found == "2 checks inside"
    assert (found["container.nccl"].status, found["container.nccl"].scope.device) == ("pass", IMAGE)
    assert found["container.mounts"].scope.device == f"{IMAGE} /local"
    (line,) = [line for line in host.calls if line.startswith(f"{BIN}/srun --quiet")]
    assert "--gres=gpu:8" in line and "--immediate=20" in line and "--nodelist=n1" in line
    # The facts of the host were there for it, and are gone.
    (facts,) = host.gone
    assert f",{facts}:{facts} python3 " in line and f"--host-facts {facts}" in line
    assert facts not in host.files


def test_other_user_starts_container(host):
    host.commands["runuser -u trainer -- "] = CommandResult(0, json.dumps(INSIDE.to_dict()), "")
    assert image(host, user="trainer")["container.image"].status == "pass"


@pytest.mark.parametrize(
    ("rc", "stderr", "status", "words"),
    [
        (1, "srun: error: Unable to allocate resources", "undeterminable", "jobs occupy the node"),
        (1, "pyxis: failed to import docker image", "fail", "no container starts: pyxis: failed to import"),
        (1, f"slurmstepd: error: pyxis:  [ERROR] No space\n{'srun: error: ' * 40}", "fail", "starts: [ERROR] No space"),
        (127, "slurmstepd: error: execve(): python3: No such file or directory", "undeterminable", "no report"),
        (0, "", "undeterminable", "gave no report: no error output"),
    ],
)  # fmt: skip
def test_container_without_report(host, rc, stderr, status, words):
    host.commands[f"{BIN}/srun --quiet"] = CommandResult(rc, "{torn", stderr)
    one = image(host)["container.image"]
    assert one.status == status and words in (one.message or one.reason)
    assert host.gone


@pytest.mark.parametrize(
    ("stderr", "hint"),
    [
        ("pyxis: [ERROR] Invalid image format: /fsx/a.sqsh", "check that the file is a complete squashfs image"),
        ("pyxis: [ERROR] No space left on device", "look with 'mlcluster containers-info'"),
    ],
)
def test_hint_depends_on_error_of_enroot(host, stderr, hint):
    host.commands[f"{BIN}/srun --quiet"] = CommandResult(1, "", stderr)
    assert image(host)["container.image"].hint.startswith(hint)


OTHER = NODE.replace("n1", "n2").format("IDLE", "")


def without(path):
    return lambda host: host.files.pop(path)


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (
            without(health_image.RUNTIME_PATH),
            "undeterminable", "mlcluster.pyz, which runs in the container, is missing",
        ),
        (without(f"{BIN}/scontrol"), "undeterminable", "looked for srun"),
        (without(IMAGE), "undeterminable", "the image is missing"),
        (lambda host: host.commands.update({f"{BIN}/srun --help": ""}), "undeterminable", "Pyxis is not loaded"),
        (lambda host: host.commands.update({f"{BIN}/scontrol --details": ""}), "not_applicable", "runs no jobs"),
        (
            lambda host: host.commands.update({f"{BIN}/scontrol --details": OTHER}),
            "undeterminable", "scontrol was asked for n1 and shows n2",
        ),
        (
            lambda host: host.commands.update({f"{BIN}/scontrol --details": NODE.format("IDLE", "") * 2}),
            "undeterminable", "scontrol was asked for n1 and shows n1, n1",
        ),
        (
            lambda host: host.commands.update({f"{BIN}/srun --quiet": hanging("srun", 140)}),
            "undeterminable", "no answer within 140 seconds",
        ),
    ],
)  # fmt: skip
def test_container_that_cannot_be_started(host, change, status, words, monkeypatch):
    monkeypatch.setattr(health_image.sys, "path", [])
    change(host)
    (one,) = image(host).values()
    assert (one.id, one.status, one.scope.device) == ("container.image", status, IMAGE)
    assert words in one.reason


@pytest.mark.parametrize("name", ["/fsx/a.sqsh", "nvcr.io#nvidia/pytorch:25.10-py3", "docker://r#n", "a,b"])
def test_valid_image_name_is_accepted(name):
    assert health_image.image_problem(name) is None


@pytest.mark.parametrize("name", ["", "-n", "a b", "a\nb", 'a"b', "a\\b", "a\u00a0b", "\u00fcber"])
def test_image_name_like_option_is_rejected(name):
    assert health_image.image_problem(name).startswith(f"image is {name!r}: use the path of a .sqsh file")


def command_of(host):
    """The words of srun, and what it has to run."""
    (line,) = [line for line in host.calls if f"{BIN}/srun --quiet" in line]
    return line


def answering(host, rc=0, stderr="", report=INSIDE, command=f"{BIN}/srun --quiet"):
    text = json.dumps(report.to_dict()) if report else ""
    host.commands[command] = CommandResult(rc, text, stderr)
    return host


def test_step_requests_one_task_on_this_node(host):
    image(answering(host))
    line = command_of(host)
    assert line.startswith(f"{BIN}/srun --quiet --nodes=1 --ntasks=1 --nodelist=n1 --time=5 --chdir=/ ")
    assert " --mpi=none " in line and " --job-name=mlcluster-health " in line
    assert f"--container-image={IMAGE} " in line and line.endswith(" --seconds 60")


def test_node_without_gpus_requests_none(host):
    host.commands[f"{BIN}/scontrol --details"] = NODE.replace("Gres=gpu:h100:8 ", "").format("IDLE", "")
    image(answering(host))
    assert "--gres" not in command_of(host)


def test_slurm_name_and_host_name_match(host):
    record = NODE.replace("NodeName=n1", "NodeName=queue-1").format("IDLE", "")
    host.commands[f"{BIN}/scontrol --details"] = record
    assert image(answering(host))["container.image"].status == "pass"
    assert "--nodelist=queue-1 " in command_of(host)


def test_running_runtime_is_mounted(host, monkeypatch):
    monkeypatch.setattr(health_image.sys, "path", ["/usr/lib", "/tmp/new.pyz"])
    image(answering(host))
    assert "--container-mounts=/tmp/new.pyz:/tmp/new.pyz," in command_of(host)
    del host.files[health_image.RUNTIME_PATH]
    assert health_image.runtime_path(host) == "/tmp/new.pyz"
    monkeypatch.setattr(health_image.sys, "path", [])
    assert health_image.runtime_path(host) is None


def test_registry_image_needs_no_file(host):
    assert image(answering(host), image="nvcr.io#nvidia/pytorch:25.10-py3")["container.image"].status == "pass"


def test_loader_of_host_stays_outside(host):
    image(answering(host))
    assert host.unset == {"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"}


def test_only_other_user_needs_runuser(host):
    image(answering(host))
    assert not any("runuser" in line for line in host.calls)


def test_verdict_has_container_seconds(host):
    moments = iter([1.0, 3.25049])
    host.monotonic = lambda: next(moments)
    assert image(answering(host))["container.image"].seconds == 2.25


@pytest.mark.parametrize(
    ("rc", "stderr", "status"),
    [
        # Not started, even if another user writes there.
        (1, "pyxis: x\nsrun: error: Unable to allocate resources", "undeterminable"),
        (1, "enroot-mount: failed", "fail"),
        (1, "[ERROR] No such file", "fail"),
        # Words of Pyxis without a failure.
        (0, "pyxis: imported docker image", "undeterminable"),
        (1, "python3: not found", "undeterminable"),
    ],
)
def test_container_start_failure(host, rc, stderr, status):
    one = image(answering(host, rc, stderr, None))["container.image"]
    assert (one.status, one.severity) == (status, "reset" if status == "fail" else "none")
    assert one.scope.device == IMAGE


def test_end_of_srun_errors_is_kept(host):
    one = image(answering(host, 1, "a" * 300 + "b" * 299, None))["container.image"]
    assert one.reason.endswith(": a" + "b" * 299)


def test_unwritable_facts_are_undeterminable(host):
    def refuse(path, text, mode=0o644):
        raise PermissionError(13, "Permission denied")

    host.write_text = refuse
    one = image(host)["container.image"]
    assert one.status == "undeterminable" and "the container could not be started" in one.reason
    assert host.gone and one.scope.device == IMAGE


def test_host_facts_exist_while_container_runs(host):
    seen, run = [], host.run

    def watched(argv, *more, **options):
        if f"{BIN}/srun" in argv and "--quiet" in argv:
            seen.append(json.loads(host.files[argv[argv.index("--host-facts") + 1]])["schema"])
        return run(argv, *more, **options)

    host.run = watched
    image(answering(host))
    assert seen == ["mlcluster.host_facts/1"]


def test_names_of_other_nodes_are_shortened(host):
    host.commands[f"{BIN}/scontrol --details"] = NODE.replace("n1", "n" * 400).format("IDLE", "")
    assert image(host)["container.image"].reason == f"scontrol was asked for n1 and shows {'n' * 300}"
