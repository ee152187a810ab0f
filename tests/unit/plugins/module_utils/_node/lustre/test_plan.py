# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of the role from ``role.look`` on a ``LustreHost``, for each distribution."""

from __future__ import annotations

import copy
import hashlib
import typing as t
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import files, role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import CONFIG_PATH, parse_role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.plan import make_plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import parallel
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Plan

from tests.unit.fakes.fake_lustre_host import KERNEL, ME, MY_GROUP, LustreHost
from tests.unit.unknown_facts import acted_on

RUNTIME = "5" * 64
NEXT_KERNEL = "6.8.0-1030-aws"
PARAMETER = "osc.*OST*.max_rpcs_in_flight"
TUNED = {PARAMETER: 32}
NAMES = {"dns_name": "fs-1.example.com", "mount_name": "abcdefgh"}
EFA_CLIENT = {"efa_client": "/srv/efa.zip", "efa_client_sha256": "a" * 64, "efa_interfaces": 2}
DISTRIBUTIONS = {
    "debian-12": ("debian", "", "12"),
    "ubuntu-22.04": ("ubuntu", "debian", "22.04"),
    "ubuntu-24.04": ("ubuntu", "debian", "24.04"),
    "amazon-2023": ("amzn", "fedora", "2023"),
    "rhel-9": ("rhel", "fedora", "9.4"),
    "rocky-9": ("rocky", "rhel centos fedora", "9.4"),
}
NO_LNET = "net:\n"
# As lnetctl prints it; invented figures.
EFA_NETS = """net:
    - net type: efa
      local NI(s):
        - nid: 10.0.0.5@efa
          status: up
          statistics:
              send_count: 5
              recv_count: 5
        - nid: 10.0.0.6@efa
          status: up
          statistics:
              send_count: 5
              recv_count: 5
"""


class Node(LustreHost):
    """sums: sha256 by path of files that the role has written, owned by root. jobs: whether a job step runs."""

    def __init__(self, root: Path, distribution: str = "ubuntu-24.04") -> None:
        super().__init__(root)
        self.sums: dict[str, str] = {}
        self.modes: dict[str, str] = {}
        self.parameters[PARAMETER] = {"osc.a": "8"}
        self.held: tuple[str, ...] = ()
        self.files["/proc/1/comm"] = "systemd\n"
        name, like, version = DISTRIBUTIONS[distribution]
        self.files["/etc/os-release"] = f'ID={name}\nID_LIKE="{like}"\nVERSION_ID="{version}"\nNAME="{name.title()}"\n'

    def sha256(self, path: str) -> str | None:
        return self.sums.get(path)

    def stat(self, path: str) -> dict[str, t.Any] | None:
        if path not in self.sums:
            return None
        return {"mode": self.modes.get(path, "0644"), "uid": 0, "gid": 0, "is_dir": False, "is_link": False}

    def _dpkg_query(self, argv: list[str]) -> CommandResult:
        hold = "hi" if "lustre-client-modules-x" in self.held else "ii"
        return CommandResult(0, f"lustre-client-modules-x\t2.15.6\t{hold} \nlinux-image-aws\t6.8\thi \n", "")

    def write(self, path: str, text: str) -> None:
        self.sums[path] = hashlib.sha256(text.encode()).hexdigest()

    def carry_out(self, plan: Plan) -> None:
        """Apply a plan as the tasks of the role do, as far as a look sees it."""
        for entry in plan.files:
            if entry.state == "absent":
                self.sums.pop(entry.path, None)
                self.files.pop(entry.path, None)
            else:
                self.write(entry.path, entry.text)
        self.held = (*self.held, *plan.hold)
        if plan.units:
            self.files[files.ENABLED] = ""
        for step in plan.steps:
            if step.name == "repository":
                self.write(step.arguments["path"], step.arguments["text"])
            elif step.name == "runtime":
                self.sums.update({files.RUNTIME_PATH: RUNTIME, files.COMMAND_PATH: RUNTIME})
            elif step.name == "efa_client":
                self.nets = EFA_NETS
            elif step.name == "mounts":
                for line in step.arguments["lines"]:
                    row = f"{line['source']} {line['path']} lustre {line['options']} 0 0\n"
                    old = self.files.get("/etc/fstab", "").splitlines(keepends=True)
                    kept = [entry for entry in old if entry.split()[1] != line["path"]]
                    self.files["/etc/fstab"] = "".join([*kept, row])
                    if step.arguments["state"] == "mounted" and line["path"] not in self.mounts:
                        self.mount(Path(line["path"]).name)
            elif step.name == "tuning":
                self.parameters[PARAMETER] = {"osc.a": "32"}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(parallel, "STATE_DIRECTORY", str(tmp_path / "state"))
    return Node(tmp_path)


def plan_of(host: Node, **options: t.Any) -> Plan:
    config = parse_role({"runtime_sha256": RUNTIME, **options})
    return make_plan(role.look(host, config), config)


def lines(plan: Plan) -> list[dict[str, str]]:
    return [line for step in plan.steps if step.name == "mounts" for line in step.arguments["lines"]]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_fresh_node_gets_everything_and_then_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(parallel, "STATE_DIRECTORY", str(tmp_path / "state"))
    host = Node(tmp_path, name)
    path = host.mount("fsx")
    own = [{"path": f"{path}/a", "owner": ME, "group": MY_GROUP}]
    options = {
        "file_systems": [{"path": path}],
        "tuning": TUNED,
        "directories": own,
        "head_node": True,
        "hold_packages": ["lustre-*"],
        "repository": "Types: deb\n",
    }
    plan = plan_of(host, **options)
    assert plan.differences() == [
        "config",
        "boot unit",
        "held packages",
        f"unit {files.BOOT_UNIT}",
        "repository",
        "runtime",
        "directories",
        "tuning",
    ]
    assert (plan.hold, plan.packages, plan.daemon_reload) == (("lustre-client-modules-x",), (), True)
    host.carry_out(plan)
    (host.root / "fsx" / "a").mkdir()
    (host.root / "fsx" / "a").chmod(0o2775)
    again = plan_of(host, **options)
    assert (again.differences(), again.refusals) == ([], ())


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("ubuntu-22.04", [f"lustre-client-modules-{NEXT_KERNEL}"]),
        ("amazon-2023", ["lustre-client"]),
        ("rhel-9", ["kmod-lustre-client", "lustre-client"]),
        ("rocky-9", ["kmod-lustre-client", "lustre-client"]),
    ],
)
def test_client_package_matches_kernel_without_module(tmp_path: Path, name: str, packages: list[str]) -> None:
    host = Node(tmp_path, name)
    host.files[f"/lib/modules/{NEXT_KERNEL}/modules.dep"] = ""
    plan = plan_of(host, file_systems=[{"path": host.mount("fsx")}])
    assert [entry.name for entry in plan.packages] == packages
    assert plan.refresh
    # New packages are held too.
    assert set(packages) <= set(plan.hold)


def test_distribution_without_client_is_refused(tmp_path: Path) -> None:
    host = Node(tmp_path, "debian-12")
    host.broken["lfs"] = ""
    path = host.mount("fsx")
    plan = plan_of(host, file_systems=[{"path": path}])
    assert plan.differences() == []
    (refusal,) = plan.refusals
    assert refusal.startswith("the node lacks the Lustre client for its kernels, and AWS has none for Debian: install")
    assert [entry.name for entry in plan_of(host, file_systems=[{"path": path}], packages=["mine"]).packages] == [
        "mine"
    ]


def test_image_without_mounts_gets_client(host: Node) -> None:
    host.broken["lctl"] = ""
    host.files[f"/lib/modules/{NEXT_KERNEL}/modules.dep"] = ""
    plan = plan_of(host, image_build=True)
    assert [entry.name for entry in plan.packages] == [f"lustre-client-modules-{NEXT_KERNEL}"]


def test_no_package_is_changed_under_jobs(host: Node) -> None:
    host.broken["lfs"] = ""
    options = {"file_systems": [{"path": host.mount("fsx")}], "packages": ["mine"]}
    host.files["/proc/7/comm"] = "slurmstepd\n"
    (refusal,) = plan_of(host, **options).refusals
    assert refusal.startswith(
        "mine would change what running Slurm jobs use, and nothing was done (1 steps of Slurm jobs run"
    )
    assert "fsx_lustre_safe_mode: false" in refusal
    assert plan_of(host, **options, safe_mode=False).packages
    # A change without effect on jobs is made.
    host.broken.clear()
    assert plan_of(host, **options).differences()


@pytest.mark.parametrize("unknown", ["package_manager", "steps"])
def test_unknown_fact_is_refused_without_packages(host: Node, unknown: str) -> None:
    host.broken["lfs"] = ""
    config = parse_role({"file_systems": [{"path": host.mount("fsx")}], "packages": ["mine"]})
    facts = {**role.look(host, config), unknown: None}
    plan = make_plan(facts, config)
    assert plan.differences() == []
    assert len(plan.refusals) == 1


def test_node_without_lustre_is_skipped(host: Node) -> None:
    plan = plan_of(host)
    assert not plan.concerned
    assert plan.reason == "no Lustre file system is configured, mounted or in fstab on this node"
    assert plan_of(host, nfs_mounts=["/home"]).concerned


def test_own_file_system_is_mounted_with_directories(host: Node, tmp_path: Path) -> None:
    path = str(tmp_path / "fsx")
    options = {
        "file_systems": [{"path": path, **NAMES}],
        "directories": [{"path": f"{path}/a", "owner": ME, "group": MY_GROUP}],
        "head_node": True,
        "tuning": TUNED,
    }
    plan = plan_of(host, **options)
    assert plan.differences()[-3:] == ["mounts", "directories", "tuning"]
    (line,) = lines(plan)
    assert line == {
        "path": path,
        "source": "fs-1.example.com@tcp:/abcdefgh",
        "options": "noatime,flock,_netdev,nofail,x-mlcluster",
    }
    host.carry_out(plan)
    assert [step.name for step in plan_of(host, **options).steps] == ["directories"]


def test_only_mount_with_efa_waits_for_set_up(host: Node) -> None:
    systems = [{"path": "/fsx1", **NAMES, "efa": True}, {"path": "/fsx2", **NAMES}]
    first, second = lines(plan_of(host, file_systems=systems))
    assert f",x-systemd.after={files.EFA_SERVICE}," in first["options"]
    assert "x-systemd" not in second["options"]


def test_line_without_order_is_rewritten(host: Node) -> None:
    path = host.mount("fsx")
    old = "noatime,flock,_netdev,nofail,x-mlcluster"
    host.files["/etc/fstab"] = f"fs-1.example.com@tcp:/abcdefgh {path} lustre {old} 0 0\n"
    assert lines(plan_of(host, file_systems=[{"path": path, **NAMES}])) == []
    assert len(lines(plan_of(host, file_systems=[{"path": path, **NAMES, "efa": True}]))) == 1


def test_own_line_is_updated_and_others_are_kept(host: Node) -> None:
    path = host.mount("fsx")
    options = {"file_systems": [{"path": path, **NAMES}]}

    def with_line(source: str, words: str) -> tuple[list[dict[str, str]], list[str]]:
        host.files["/etc/fstab"] = f"{source} {path} lustre {words} 0 0\n"
        config = parse_role(options)
        facts = role.look(host, config)
        own = [mount["path"] for mount in facts["mounts"] if mount["line"] == "own"]
        return lines(make_plan(facts, config)), own

    ours = "fs-1.example.com@tcp:/abcdefgh"
    assert with_line(ours, "noatime,flock,_netdev,nofail,x-mlcluster") == ([], [path])
    changed, own = with_line(ours, "defaults,x-mlcluster")
    assert (len(changed), own) == (1, [path])
    # Updating the own line would replace the user's line of the same path.
    both = f"{ours} {path} lustre defaults,x-mlcluster 0 0\nfs-2.example.com:/ {path} nfs4 _netdev 0 0\n#"
    assert with_line(f"{both}{ours}", "defaults") == ([], [])
    # ParallelCluster's own line for the same file system, and one for another.
    assert with_line(ours, "_netdev,noauto,x-systemd.automount") == ([], [])
    assert with_line("fs-1.example.com@tcp:/other", "_netdev,noauto,x-systemd.automount") == ([], [])


@pytest.mark.parametrize("state", ["silent", "other"])
def test_mount_of_unknown_state_is_unchanged(host: Node, state: str) -> None:
    path = host.mount("fsx", {"silent": "hangs", "other": "ext4"}[state])
    options = "noatime,flock,_netdev,nofail,x-mlcluster"
    host.files["/etc/fstab"] = f"fs-1.example.com@tcp:/abcdefgh {path} lustre {options} 0 0\n"
    plan = plan_of(host, file_systems=[{"path": path, **NAMES}], directories=[{"path": f"{path}/a"}], head_node=True)
    assert {"mounts", "directories"}.isdisjoint(step.name for step in plan.steps)


def test_only_head_node_makes_directories(host: Node) -> None:
    path = host.mount("fsx")
    options = {"file_systems": [{"path": path}], "directories": [{"path": f"{path}/a"}]}
    assert "directories" not in plan_of(host, **options).differences()
    assert "directories" in plan_of(host, **options, head_node=True).differences()


def test_large_machine_gets_module_options(host: Node) -> None:
    host.files["/proc/cpuinfo"] = "processor\t: 0\n" * 96
    options = {"file_systems": [{"path": host.mount("fsx")}]}
    plan = plan_of(host, **options)
    texts = {entry.path: entry.text for entry in plan.files}
    assert "options ptlrpc ptlrpcd_per_cpt_max=32\n" in texts[files.MODPROBE_PATH]
    host.carry_out(plan)
    host.sums[files.ENABLED] = ""
    gone = plan_of(host, **options, tune=False)
    absent = {entry.path for entry in gone.files if entry.state == "absent"}
    assert absent == {files.MODPROBE_PATH, files.UNIT_PATH, files.ENABLED}
    assert (gone.units, gone.daemon_reload) == ((), True)
    host.carry_out(gone)
    assert plan_of(host, **options, tune=False).differences() == []


@pytest.mark.parametrize("unreadable", ["/proc/cpuinfo", "/proc/meminfo"])
def test_machine_of_unknown_size_keeps_its_files(host: Node, unreadable: str) -> None:
    host.files["/proc/cpuinfo"] = "processor\t: 0\n" * 96
    options = {"file_systems": [{"path": host.mount("fsx")}]}
    host.carry_out(plan_of(host, **options))
    del host.files[unreadable]
    assert [entry for entry in plan_of(host, **options).files if entry.state == "absent"] == []
    assert plan_of(host, **options, tune=False).files != ()


def test_small_machine_gets_unit_only_for_efa(host: Node) -> None:
    path = host.mount("fsx")
    plain = plan_of(host, file_systems=[{"path": path}])
    assert {"boot unit", f"unit {files.BOOT_UNIT}", "tuning"}.isdisjoint(plain.differences())
    proved = plan_of(host, file_systems=[{"path": path, "efa": True}])
    assert {"boot unit", f"unit {files.BOOT_UNIT}"} <= set(proved.differences())
    assert "tuning" not in proved.differences()


def test_disabled_unit_is_enabled(host: Node) -> None:
    options = {"file_systems": [{"path": host.mount("fsx")}], "tuning": TUNED}
    host.carry_out(plan_of(host, **options))
    del host.files[files.ENABLED]
    plan = plan_of(host, **options)
    assert plan.differences() == [f"unit {files.BOOT_UNIT}"]
    assert not plan.daemon_reload


def test_file_with_another_mode_is_written_again(host: Node) -> None:
    options = {"file_systems": [{"path": host.mount("fsx")}]}
    host.carry_out(plan_of(host, **options))
    host.modes[CONFIG_PATH] = "0666"
    assert plan_of(host, **options).differences() == ["config (mode or owner)"]


def test_lost_tuning_is_set_again(host: Node) -> None:
    options = {"file_systems": [{"path": host.mount("fsx")}], "tuning": TUNED}
    host.carry_out(plan_of(host, **options))
    host.parameters[PARAMETER] = {"osc.a": "32", "osc.b": "8"}
    assert plan_of(host, **options).differences() == ["tuning"]
    # An unreadable parameter is not a reason to act; its verdict names it.
    config = parse_role({"runtime_sha256": RUNTIME, **options})
    facts = role.look(host, config)
    unread = [{**row, "found": [], "differs": False, "problem": "lctl gave no answer"} for row in facts["tuning"]]
    assert make_plan({**facts, "tuning": unread}, config).differences() == []


def test_efa_set_up_runs_for_too_few_interfaces(host: Node) -> None:
    options = {"file_systems": [{"path": host.mount("fsx"), "efa": True}], **EFA_CLIENT}
    host.nets = NO_LNET
    assert "EFA client" in plan_of(host, **options).differences()
    host.nets = EFA_NETS
    assert "EFA client" not in plan_of(host, **options).differences()
    assert "EFA client" in plan_of(host, **{**options, "efa_interfaces": 3}).differences()


@pytest.mark.parametrize(("loaded", "due"), [(False, True), (True, False)])
def test_lnet_without_answer_is_set_up_only_if_not_loaded(host: Node, loaded: bool, due: bool) -> None:
    options = {"file_systems": [{"path": host.mount("fsx"), "efa": True}], **EFA_CLIENT}
    config = parse_role({"runtime_sha256": RUNTIME, **options})
    facts = {**role.look(host, config), "net_problem": "lnetctl failed", "nets": {}, "lnet_loaded": loaded}
    assert ("EFA client" in make_plan(facts, config).differences()) == due


@pytest.mark.parametrize(
    "change",
    [{"efa_client": ""}, {"image_build": True}, {"file_systems": [{"path": "/fsx"}]}],
)
def test_efa_is_set_up_only_on_request(host: Node, change: dict[str, t.Any]) -> None:
    host.nets = NO_LNET
    options = {"file_systems": [{"path": "/fsx", "efa": True}], **EFA_CLIENT, **change}
    assert "EFA client" not in plan_of(host, **options).differences()


def test_efa_is_not_set_up_under_jobs(host: Node) -> None:
    host.nets = NO_LNET
    host.files["/proc/7/comm"] = "slurmstepd\n"
    options = {"file_systems": [{"path": host.mount("fsx"), "efa": True}], **EFA_CLIENT}
    (refusal,) = plan_of(host, **options).refusals
    assert refusal.startswith("the set-up of EFA would change what running Slurm jobs use")


def test_image_gets_fstab_line_without_mount(host: Node) -> None:
    plan = plan_of(host, image_build=True, file_systems=[{"path": "/fsx", **NAMES}])
    assert plan.differences() == [
        "config",
        "boot unit",
        "held packages",
        f"unit {files.BOOT_UNIT}",
        "runtime",
        "mounts",
    ]
    (step,) = [step for step in plan.steps if step.name == "mounts"]
    assert step.arguments["state"] == "present"
    host.carry_out(plan)
    assert plan_of(host, image_build=True, file_systems=[{"path": "/fsx", **NAMES}]).differences() == []


def test_only_running_kernel_lacks_module(host: Node) -> None:
    host.files["/proc/sys/kernel/osrelease"] = "6.8.0-1001-aws\n"
    plan = plan_of(host, file_systems=[{"path": host.mount("fsx")}])
    assert [entry.name for entry in plan.packages] == ["lustre-client-modules-6.8.0-1001-aws"]
    assert KERNEL not in plan.packages[0].name


def test_without_modinfo_no_kernel_counts_as_bare(host: Node) -> None:
    host.broken["modinfo"] = ""
    assert plan_of(host, file_systems=[{"path": host.mount("fsx")}]).packages == ()


def test_hold_false_holds_nothing(host: Node) -> None:
    assert plan_of(host, file_systems=[{"path": host.mount("fsx")}], hold=False).hold == ()


def test_repository_needs_known_distribution(host: Node) -> None:
    path = host.mount("fsx")
    plan = plan_of(host, file_systems=[{"path": path}], repository="Types: deb\n")
    (step,) = [step for step in plan.steps if step.name == "repository"]
    assert step.arguments["path"] == "/etc/apt/sources.list.d/fsx-lustre-client.sources"
    host.files["/etc/os-release"] = "ID=gentoo\n"
    (refusal,) = plan_of(host, file_systems=[{"path": path}], repository="Types: deb\n").refusals
    assert refusal.startswith("fsx_lustre_repository is set, and /etc/os-release names no distribution")


OPTIONS: tuple[dict[str, t.Any], ...] = (
    {},
    {"tune": False},
    {"tuning": TUNED, "hold": False},
    {"head_node": True, "efa": True},
    {"repository": "Types: deb\n", "image_build": True},
)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ["ubuntu-24.04", "rocky-9"])
@pytest.mark.parametrize("mounted", ["lustre", "absent", "hangs"])
@pytest.mark.parametrize("cpus", [2, 96])
def test_plan_of_applied_plan_is_empty(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, t.Any],
    name: str,
    mounted: str,
    cpus: int,
) -> None:
    monkeypatch.setattr(parallel, "STATE_DIRECTORY", str(tmp_path / "state"))
    host = Node(tmp_path, name)
    host.files["/proc/cpuinfo"] = "processor\t: 0\n" * cpus
    path = str(tmp_path / "fsx") if mounted == "absent" else host.mount("fsx", mounted)
    wanted = copy.deepcopy(options)
    system = {"path": path, **NAMES, "efa": wanted.pop("efa", False)}
    plan = plan_of(host, file_systems=[system], **wanted)
    assert plan.refusals == ()
    host.carry_out(plan)
    assert plan_of(host, file_systems=[system], **wanted).differences() == []


# Facts for which nothing is an answer: no module of that kernel, no such file.
BELOW = {("kernel", "installed"), ("files",), ("paths",)}
# Facts that always have a value.
KNOWN = {("mount_units",), ("boot_unit_enabled",), ("config_text",), ("tuning_wanted",)}


def test_unknown_facts_are_no_reason_to_act(host: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "STATE_DIRECTORY", str(tmp_path / "state"))
    options = {"file_systems": [{"path": host.mount("fsx"), **NAMES, "efa": True}], "tuning": TUNED}
    host.carry_out(plan_of(host, **options))
    config = parse_role(options)
    assert acted_on(make_plan, role.look(host, config), config, BELOW, KNOWN, 40) == []
