# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records one of each file that commit deef7eb writes; fixtures/deef7eb/README.md has the command.

It runs in a checkout of that commit only. Modules of that commit are named in strings, as later renames in the tree
would change imports.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import types
import typing as t
from pathlib import Path

COLLECTION = "ansible_collections.mlcluster.aws.plugins"
FAKES = "tests.unit.plugins.module_utils._node"
TIME = "2026-11-28T12:00:00Z"
EPOCH = 1_795_867_200


def node(name: str) -> t.Any:
    return importlib.import_module(f"{COLLECTION}.module_utils._node.{name}")


def controller(name: str) -> t.Any:
    return importlib.import_module(f"{COLLECTION}.plugin_utils.{name}")


def fake(name: str) -> t.Any:
    return importlib.import_module(f"{FAKES}.{name}")


def put(out: Path, name: str, content: str | bytes | t.Any) -> None:
    """Write a fixture: text and bytes as they are, anything else as JSON."""
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, (str, bytes)):
        content = json.dumps(content, indent=1, sort_keys=True) + "\n"
    path.write_bytes(content.encode() if isinstance(content, str) else content)


# --- local storage: the simulated machine, with all that the run has written on it -----------------------------------


def machine(host: t.Any, options: t.Mapping[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    """The machine, the options of the role, and what deef7eb itself would do next."""
    scene = fake("scene")
    plan = scene.plan_of(host, **options)
    more["planned"] = {"situation": plan.situation, "state": plan.state, "owner": plan.owner, "actions": plan.actions}
    state = {**vars(host.machine), "left_out": sorted(host.machine.left_out)}
    state["devices"] = {name: dataclasses.asdict(device) for name, device in host.machine.devices.items()}
    return {"options": dict(options), "machine": state, **more}


def furnish(host: t.Any, options: t.Mapping[str, t.Any]) -> None:
    """Add what the role writes beside the module: the boot unit's configuration and the lines of fstab."""
    config = node("storage_config").parse_config(options)
    host.machine.files[node("storage_config").CONFIG_PATH] = node("storage_config").config_text(config)
    volumes = node("storage").survey(host, config)[1].volumes
    keys = ("src", "path", "fstype", "opts", "dump", "passno")
    lines = [" ".join(volume["fstab"][key] for key in keys) for volume in volumes if volume["fstab"]]
    host.machine.files["/etc/fstab"] = "".join(f"{line}\n" for line in lines)


def storage(out: Path) -> None:
    scene, storage = fake("scene"), node("storage")
    for name, disks, options in (
        ("raid0", 4, {}),
        ("raid0_xfs", 2, {"fstype": "xfs", "mount_point": "/local", "directories": [{"path": "cache"}]}),
        ("per_disk", 3, {"layout": "per_disk"}),
        ("single", 1, {}),
        ("adopted", 2, {}),
        ("none", 2, {"layout": "none"}),
    ):
        host = scene.node(disks)
        if name == "adopted":
            scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch")
        scene.run(host, **options)
        if name == "none":
            # Without a volume only the boot unit writes a record.
            scene.run(host, at_boot=True, **options)
        furnish(host, options)
        put(out, f"storage/{name}.json", machine(host, options))
    host = scene.converged(4)
    furnish(host, {})
    host.machine.reboot()
    host.run(["mdadm", "--stop", "/dev/md127"])
    gone = host.machine.devices.pop("nvme2n1")
    try:
        scene.run(host, at_boot=True)
    except storage.RefusedError:
        put(out, "storage/lost.json", machine(host, {}, gone=dataclasses.asdict(gone)))
    for name, point, options in (
        ("create", "mdadm --create", {}),
        ("mkfs", "mkfs.ext4", {}),
        ("mount", "mount", {}),
        ("furnish", "write /etc/mdadm", {}),
        ("per_disk_mkfs", "wipefs --all /dev/nvme3n1", {"layout": "per_disk"}),
    ):
        host = scene.node(4)
        host.killed_before = point
        try:
            scene.run(host, **options)
        except KeyboardInterrupt:
            put(out, f"intent/{name}.json", machine(host, options))


# --- files of the node -----------------------------------------------------------------------------------------------


class Clock:
    """The time of every record."""

    def now(self) -> str:
        return TIME


def rooted(folder: Path) -> t.Any:
    class Rooted(Clock, fake("rooted").RootedHost):
        """Its files lie below a folder, its time is always the same."""

    return Rooted(folder)


def files_of(folder: Path, below: str = "") -> dict[str, str]:
    """The files of a rooted host by path, without the machinery of the fake."""
    found = {}
    for path in sorted((folder / below).rglob("*")):
        if path.is_file():
            found[f"/{path.relative_to(folder)}"] = path.read_bytes().decode("utf-8", "surrogateescape")
    return found


def health(out: Path, work: Path) -> None:
    marker, container = node("health_marker"), node("health_container")
    host = rooted(work / "marker")
    marker.write_marker(host, "  nvme_raid0 failed:\n2 of 8 disks are missing", "mlcluster drain-marker")
    put(out, "health/drain_by_command.json", host.text(marker.MARKER_PATH))
    host.put("/proc/sys/kernel/random/boot_id", "boot-1\n")
    host.put("/proc/self/mountinfo", fake("rooted").MOUNTS)
    host.put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n")
    node("storage_record").write_json(host, container.FACTS_PATH, container.host_facts(host))
    put(out, "health/host_facts.json", host.text(container.FACTS_PATH))
    node("health_bounded")._remember(host, node("health_bounded").STATE_DIRECTORY, "gpu.count", 4711)
    put(out, "health/session_of_gpu.count", host.text(f"{node('health_bounded').STATE_DIRECTORY}/gpu.count"))
    script = Path("hooks/on_node_configured.sh").resolve()
    for name, words in (("drain_by_hook", ()), ("failed_by_hook", ("--on-failure", "continue"))):
        root = work / name
        root.mkdir()
        command = ["bash", script, "--bundle", "/absent.tar.gz", "--sha256", "1" * 64, "--root", root, *words]
        subprocess.run(command, check=False, capture_output=True)
        if name == "drain_by_hook":
            put(out, "health/drain_by_hook.json", (root / "var/lib/mlcluster/drain.json").read_text())
        put(out, f"hook/status_{name}.json", (root / "var/log/mlcluster/status.json").read_text())


def scratch(out: Path, work: Path) -> None:
    """As root only: the directories of jobs belong to root."""
    base = work / "volume" / "jobs"
    base.parent.mkdir()
    node("scratch").make(type("Boot", (node("host").Host,), {"read_text": boot_1})(), str(base), 4711, 65534, 65534)
    put(out, "scratch/job.json", (base / "job-4711" / "job.json").read_text())
    names = [str(path.relative_to(base)) for path in sorted(base.rglob("*"))]
    put(out, "scratch/names.json", names)


def boot_1(host: t.Any, path: str) -> str | None:
    return "boot-1\n" if path.endswith("/boot_id") else node("host").Host.read_text(host, path)


def nccl(out: Path, work: Path) -> None:
    verdict, outputs = node("nccl_verdict"), fake("nccl_outputs")
    shown = outputs.output(
        outputs.Plan(hosts=("a", "b"), gpus=8, smallest=1 << 30, largest=1 << 34, factor=2, busbw=lambda size: 600.0)
    )
    asked = verdict.RequestedRun(ranks=16, nodes=2, instance_type="p5.48xlarge")
    judged = verdict.judge(node("nccl_parse").parse(shown), asked)
    entries, problem = verdict.entries(judged, asked, TIME)
    assert problem is None
    node("nccl_baseline").record(node("host").Host(), str(work / "baseline.json"), entries)
    put(out, "nccl/baseline.json", (work / "baseline.json").read_text())
    put(out, "nccl/beside_the_baseline.json", sorted(path.name for path in work.glob(".baseline*")))


def containers(out: Path, work: Path) -> None:
    enroot, test = node("enroot"), importlib.import_module(f"{FAKES}.test_enroot")
    scene = fake("rooted")
    (work / "containers").mkdir()
    host = scene.with_pyxis(scene.with_enroot(scene.node(work / "containers")))
    host.put("/usr/bin/dockerd", mode=0o755)
    host.put("/etc/docker/daemon.json", '{"log-driver": "journald"}\n')
    host.answers["/usr/bin/dockerd --version"] = "Docker version 28.5.1, build e180ab8\n"
    plan = test.converge(host, docker=True, docker_data_root="/data/docker")
    for file in plan.validated:
        host.write_text(file["path"], file["text"])
    config = node("enroot_config").EnrootConfig(docker=True, docker_data_root="/data/docker")
    host.write_text("/etc/mlcluster/enroot.json", node("enroot_config").config_text(config))
    facts = enroot.survey(host, config)
    host.write_text(enroot.PROOF_PATH, enroot.proof_text(host, facts, test.PLUGIN))
    kept = {path: text for path, text in files_of(work / "containers").items() if path.startswith(("/etc", "/var/lib"))}
    kept.update(
        {path: text for path, text in files_of(work / "containers", "opt/slurm/etc").items() if "plugstack" in path}
    )
    put(out, "containers/files.json", kept)


def lustre(out: Path) -> None:
    config = node("lustre_config")
    given = {
        "file_systems": [{"path": "/fsx", "dns_name": "fs-0.fsx.us-east-1.amazonaws.com", "mount_name": "abcdefgh"}],
        "directories": [{"path": "/fsx/shared", "mode": "1777"}],
    }
    put(out, "lustre/lustre.json", config.config_text(config.parse_config(given)))
    size = {"memory_gib": 2048, "cpus": 192}
    tuning = node("lustre_tuning")
    put(out, "lustre/modprobe.conf", tuning.modprobe_text(tuning.module_options(size, {})))


def cufile(out: Path, work: Path) -> None:
    """A file as NVIDIA ships it, with comments, after the change, beside it its copy."""
    change, merge = node("cufile_file").change, node("cufile_file").Wish
    path = work / "cufile" / "cufile.json"
    path.parent.mkdir()
    path.write_text('{\n    // NOTE: as shipped\n    "logging": {"level": "ERROR"},\n    "properties": {\n'
                    '        // allow compat mode\n        "allow_compat_mode": true\n    }\n}\n')  # fmt: skip
    settings = {"properties": {"allow_compat_mode": False, "use_pci_p2pdma": True}, "logging": {"level": "WARN"}}
    change(node("cufile_file").FileHost(), merge(path=str(path), settings=settings), False, str(work / "cufile.lock"))
    put(out, "cufile/settings.json", settings)
    put(out, "cufile/cufile.json", path.read_text())
    made = work / "cufile" / "new.json"
    new = merge(path=str(made), settings=settings, create=True)
    change(node("cufile_file").FileHost(), new, False, str(work / "cufile.lock"))
    put(out, "cufile/created.json", made.read_text())


# --- hooks and the controller ----------------------------------------------------------------------------------------


def hook(out: Path, work: Path) -> None:
    options, status, waits = (
        importlib.import_module(f"hooks.{name}") for name in ("node_options", "node_status", "node_waits")
    )
    root = work / "hook"
    (root / "var/lib/mlcluster").mkdir(parents=True)
    words = ["--root", str(root), "--started-at", str(status.uptime()), "--deadline", "900"]
    report = status.Report(options.parse_options(words))
    role = {"role": "nvme_raid0", "required": True, "state": "configured", "seconds": 4.5, "changed": 3}
    report.update(state="configured", exit_code=0, roles=[role], log="/var/log/mlcluster/on-node-configured.log")
    put(out, "hook/status.json", (root / "var/log/mlcluster/status.json").read_text().replace(str(root), ""))
    record = work / "quiet.json"

    class Systemctl:
        def which(self, program: str) -> str:
            return f"/usr/bin/{program}"

        def run(self, argv: list[str], timeout: float = 0) -> t.Any:
            if argv[1] == "start":
                raise node("host").NodeError("killed")
            return node("host").CommandResult(0, f"{waits.TIMERS[0]} loaded active waiting\n", "")

    with waits.quiet_updates(Systemctl(), record, lambda text: None):
        pass
    put(out, "hook/quiet.json", record.read_text())


def run_status(out: Path) -> dict[str, t.Any]:
    events = importlib.import_module("tests.unit.hooks.test_run_tracker")
    tracker, _lines = events.tracked(
        events.event("playbook_on_play_start", 0, name="Configure"),
        events.event("playbook_on_task_start", 1, task="Gather", role=None),
        events.event("runner_on_ok", 2, host="n1", res={"changed": False}),
        events.event("playbook_on_task_start", 3, task="Look", role="nvme_raid0"),
        events.event("runner_on_ok", 4, host="n1", res={"changed": True}),
        events.stats(8.5, ok={"n1": 2}, changed={"n1": 1}, processed={"n1": 1}),
    )
    tracker.close("successful", 0)
    snapshot = tracker.snapshot(events.START + 10)
    importlib.import_module("hooks.run_events").write_json(out / "run.json", snapshot)
    put(out, "reports/run.json", (out / "run.json").read_text())
    (out / "run.json").unlink()
    return t.cast("dict[str, t.Any]", snapshot)


def reports(out: Path) -> None:
    result, scene = node("result"), importlib.import_module("tests.unit.plugins.plugin_utils.cluster_scene")
    verdicts = (
        result.passed("gpu.count", 8, expected=8, unit="GPUs"),
        result.failed("storage.record", "2 disks are missing", severity="isolate", expected=8, found=6, hint="stop it",
                      source="test", scope=result.Scope(node="n2", device="/dev/nvme1n1")),
        result.undeterminable("gds.mode", "timeout", message="gdscheck did not end", scope=result.Scope(node="n1")),
        result.not_applicable("efa.devices", "no EFA here"),
    )  # fmt: skip
    report = result.Report("n1", TIME, {"mlcluster.aws": "0.1.0", "driver": "580.95.05"}, verdicts)
    put(out, "reports/report.json", result.dumps(report) + "\n")
    put(out, "reports/result.json", result.dumps(verdicts[1]) + "\n")
    passed = result.Report("n1", TIME, {}, (result.passed("smoke.tasks", 16),))
    ran = {"job_id": 7, "state": "COMPLETED", "exit_code": 0, "nodes": "n[1-2]", "elapsed_seconds": 3}
    broken = {**ran, "job_id": 8, "state": "FAILED", "exit_code": 1}
    collected = controller("_slurm_jobs_report").collect(
        [
            {"name": "smoke", "job": ran, "report": result.dumps(passed), "message": None},
            {"name": "nccl", "job": broken, "report": result.dumps(report), "message": None},
        ]
    )
    # As the role writes it (tasks/run.yml): to_nice_json.
    put(out, "reports/validation.json", json.dumps(collected, indent=4, sort_keys=True) + "\n")
    document = controller("_report_model").build(
        [scene.node("n1"), scene.broken("n2"), scene.silent("n3")], TIME, cluster="one", version="0.1.0",
        validation=collected, source="validation.json", run=run_status(out),
    )  # fmt: skip
    put(out, "reports/cluster.json", json.dumps(document, indent=1, allow_nan=False) + "\n")


def ec2(out: Path, work: Path) -> None:
    cache, hardware = controller("_ec2_cache"), controller("_ec2_hardware")
    answer = cache.Answer(
        records=[{"instance_id": "i-0123456789abcdef0", "instance_type": "p5.48xlarge", "tags": {"Name": "n1"}}],
        warnings=["one"], regions=["us-east-1"], account="123456789012",
    )  # fmt: skip
    environment = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "HOME": "/home/someone"}
    asked = {"regions": ["us-east-1"], "filters": {"tag:Name": "n*"}}
    packed = cache.pack(answer, cache.access_key_digest(environment, None))
    put(out, "ec2/answer.json", packed)
    key = cache.key("ec2_nodes", asked, environment)
    put(out, "ec2/asked.json", {"environment": environment, "asked": asked, "key": key})
    scene = importlib.import_module("tests.unit.plugins.plugin_utils.test__ec2_hardware")
    long = hardware.LongCache(work / "types.json", 3600, lambda: EPOCH)
    long.put({"p5.48xlarge": hardware.from_api(scene.P5)})
    put(out, "ec2/types.json", (work / "types.json").read_text())


def bundle(out: Path, work: Path) -> None:
    made = importlib.import_module("tests.unit.plugins.module_utils._bundle.made")
    build, pointer, archive = (importlib.import_module(f"{COLLECTION}.module_utils._bundle.{name}")
                               for name in ("build", "pointer", "archive"))  # fmt: skip
    request = made.request(work / "request", compiled=False)
    checkout = work / "request" / "checkout"
    shutil.copy("hooks/bundle_entry.py", checkout / "hooks" / "bundle_entry.py")
    shutil.copy("hooks/on_node_configured.sh", checkout / "hooks" / "on_node_configured.sh")
    # Prints the options that it gets and removes their file, as the real one does.
    made.write(
        checkout / "hooks" / "run_node.py",
        "import os, sys\n\n\ndef main(argv):\n    words = open(argv[1]).read().split('\\0')\n"
        "    os.unlink(argv[1])\n    print('ran', *words)\n    return 7\n",
    )
    built = build.build(request, archive.parse_target("debian-py3.11"))
    build.write(built, work / "bundle", False)
    for name in (built.file, f"{built.file}.sha256"):
        put(out, f"bundle/{name}", (work / "bundle" / name).read_bytes())
    key = work / "key.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True)
    url = f"s3://example-bucket/bundles/{built.file}"
    every = [f"{family}-py3.{minor}" for family in ("debian", "amazon", "redhat") for minor in range(9, 16)]
    released = pointer.content("1.2.3", "1.0.0", {name: {"url": url, "sha256": built.sha256} for name in every}, TIME)
    pointer.write(released, work / "pointer", key, False)
    put(out, "bundle/pointer", (work / "pointer").read_bytes())
    put(out, "bundle/public_key", pointer.public_key(key) + "\n")
    # Users copy it to S3 once, so that it meets bundles of later versions.
    put(out, "bundle/on_node_configured.sh", Path("hooks/on_node_configured.sh").read_bytes())


def jobs(out: Path, work: Path) -> None:
    """Record the commands by which scripts call the runtime; a queued job's script may meet a later runtime."""
    scene = importlib.import_module("tests.unit.roles.test_slurm_jobs_render")
    asked, commands = {}, {"boot": [["mlcluster", "containers-boot"]]}
    for name, text in sorted(scene.every_script().items()):
        line = next((line for line in text.splitlines() if line.startswith("asked=")), "asked=")
        if name in KINDS:
            asked[KINDS[name]] = words_of(line.partition("=")[2])[0]
        commands[name] = commands_of(text)
    for role, unit in (("nvme_raid0", "mlcluster-storage"), ("fsx_lustre", "mlcluster-lustre")):
        template = Path(f"roles/{role}/templates/{unit}.service.j2").read_text()
        commands["boot"] += [
            ["mlcluster", *line.split("}} ")[1].split()] for line in template.splitlines() if "ExecStart=" in line
        ]
    commands.update(slurm_scripts(work))
    put(out, "jobs/commands.json", {name: found for name, found in commands.items() if found})
    put(out, "jobs/asked.json", asked)
    job = node("slurm_job")
    options, arguments = {"job-name": "train", "nodes": "2"}, ["--a", "b c"]
    comment = job.COMMENT + job.fingerprint("#!/bin/bash\n", options, arguments)
    given = {"text": "#!/bin/bash\n", "options": options, "arguments": arguments, "comment": comment}
    put(out, "jobs/fingerprint.json", given)
    results = work / "results"
    results.mkdir()
    for rank in range(16):
        name = f"n{rank // 8 + 1}"
        platform.node = functools.partial(str, name)
        os.environ.update(SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank % 8), SLURMD_NODENAME=name)
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3,4,5,6,7"
        assert node("slurm_verdict_cli").job_task(types.SimpleNamespace(results=str(results)), node("host").Host()) == 0
    platform.node = lambda: "n1"
    keep = re.search(r"^keep_status\(\) \{\n.*?^\}\n", scene.every_script()["node_smoke"], re.MULTILINE | re.DOTALL)
    assert keep is not None
    subprocess.run(["bash", "-c", f"exit_file={work}/train-7.exit\n{keep[0]}keep_status 137"], check=True)
    put(out, "jobs/train-7.exit", (work / "train-7.exit").read_text())
    put(out, "jobs/tasks.json", {path.name: path.read_text() for path in results.iterdir()})


# One script a kind of job.
KINDS = {name: name for name in ("node_smoke", "fsx_io", "local_io", "gds_io", "gpu_efa", "container")}
KINDS.update(nccl_all="nccl", nccom_all_slurm="nccom")
SURROUNDINGS = """
mlcluster=(printf '%s\\0' mlcluster) data=(printf '%s\\0' data) nodes=(n1 n2)
words=(--input=/in --output=/out --tokenizer=/t) results=/results asked='{}' checkpoints=/checkpoints marker=complete
keep=3 backup=s3://bucket/x input=/in most=9 jobs_dir=/jobs unit=n1 collective=all_reduce tasks=8 status=0
set -- n1 n2
"""


def words_of(text: str) -> list[str]:
    """The words of a piece of a script, as the shell makes them."""
    script = f"{SURROUNDINGS}\nprintf '%s\\0' {text}\n"
    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout.split("\0")[:-1]


def commands_of(text: str) -> list[list[str]]:
    """How a script calls the runtime or the programs for data, once each, with variables filled in."""
    joined = text.replace("\\\n", " ")
    pieces = re.findall(
        r'("\$\{(?:mlcluster|data)\[@\]\}"|-m mlcluster_data) ([a-z](?:\$\(\([^)]*\)\)|[^<>|);\n])*)', joined
    )
    found = []
    for called, rest in pieces:
        words = words_of(re.sub(r" 2$", "", rest.strip()))
        line = ["mlcluster" if "mlcluster[" in called else "mlcluster_data", *words]
        if line not in found:
            found.append(line)
    return found


def slurm_scripts(work: Path) -> dict[str, list[list[str]]]:
    """Return the calls of Slurm's Prolog, Epilog and HealthCheckProgram, run with a stand-in for the runtime."""
    scene = importlib.import_module("tests.unit.roles.test_slurm_jobs_health_render")
    folder, found = work / "slurm", {}
    folder.mkdir()
    paths = {name: str(folder / name) for name in scene.NAMES}
    done = scene.play(folder, paths)
    assert done.returncode == 0, done.stdout
    stand_in = folder / "mlcluster"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" mlcluster "$@" END | tee -a {folder}/calls\n')
    stand_in.chmod(0o755)
    for name in ("prolog", "epilog", "health_check"):
        (folder / "calls").write_text("")
        text = Path(paths[name]).read_text().replace("/usr/local/bin/mlcluster", str(stand_in))
        subprocess.run(
            ["sh", "-c", text.replace("/run/mlcluster", f"{folder}/run")], check=True, stdout=subprocess.PIPE
        )
        found[name] = [call.split("\n")[:-1] for call in (folder / "calls").read_text().split("END\n")[:-1]]
    return found


def constants(out: Path) -> None:
    """Where files lie, and how locks and schemas are called: what two versions on one node have to agree on."""
    folder = Path("plugins/module_utils/_node")
    found = {}
    for path in sorted(folder.glob("*.py")):
        module = node(path.stem) if path.stem not in ("__init__", "gds_child") else None
        for name, value in vars(module).items() if module else ():
            ours = name.isupper() and isinstance(value, str) and not name.startswith("_")
            if ours and name.endswith(("PATH", "SCHEMA", "LOCK", "MARKER", "DIRECTORY", "FOLDER", "BACKED_UP")):
                found.setdefault(value, []).append(f"{path.stem}.{name}")
    put(out, "paths.json", {value: sorted(names) for value, names in sorted(found.items())})


def main(out: Path) -> None:
    from tests.unit.plugins.inventory import finder

    finder.install()
    # Nothing of the machine that records stands in a fixture.
    platform.node = socket.gethostname = lambda: "n1"
    with tempfile.TemporaryDirectory(prefix="mlcluster-record-") as name:
        work = Path(name)
        work.chmod(0o755)
        storage(out)
        health(out, work)
        scratch(out, work)
        nccl(out, work)
        containers(out, work)
        lustre(out)
        cufile(out, work)
        hook(out, work)
        reports(out)
        ec2(out, work)
        bundle(out, work)
        jobs(out, work)
        constants(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
