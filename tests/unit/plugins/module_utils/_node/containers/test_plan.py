# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of the role enroot_pyxis from real looks, for each distribution."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import docker, files
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.enroot_conf import CONF_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.look import PROOF_PATH, proof_text
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plan import (
    chosen_plugin,
    make_plan,
    plugstack_wanted,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Package
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.units import WANTS

from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.fakes.fake_containers_role import carry_out, config_of, facts_of, plan_of, step, texts
from tests.unit.unknown_facts import acted_on

STACK = "/opt/slurm/etc/plugstack.conf"
PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"
OWN = "/usr/local/lib/mlcluster/pyxis/22.05.8/spank_pyxis.so"
ELSEWHERE = "/usr/lib/slurm/spank_pyxis.so"
ENROOT_4 = ["enroot_4.1.2-1_{}.deb", "enroot+caps_4.1.2-1_{}.deb"]
# os-release and architecture.
SYSTEMS: dict[str, tuple[str, str]] = {
    "debian-12": ("ID=debian\n", "x86_64"),
    "ubuntu-24.04-arm": ("ID=ubuntu\nID_LIKE=debian\n", "aarch64"),
    "amazon-2023": ('ID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\n', "x86_64"),
    "rhel-9": ('ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.4"\n', "x86_64"),
    "rocky-9-arm": ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n', "aarch64"),
}
RPM = ["enroot-4.1.2-1.el8.{}.rpm", "enroot+caps-4.1.2-1.el8.{}.rpm"]


@pytest.fixture
def host(tmp_path: Path) -> rooted.RootedHost:
    return rooted.node(tmp_path)


def good(host: rooted.RootedHost, version: str = "4.1.2") -> rooted.RootedHost:
    return rooted.with_pyxis(rooted.with_enroot(host, version))


def on(host: rooted.RootedHost, name: str) -> rooted.RootedHost:
    """The host as a machine of SYSTEMS."""
    release, host.architecture = SYSTEMS[name]
    host.put("/etc/os-release", release)
    if "fedora" in release:
        for program in ("dpkg-query", "apt-get"):
            Path(host.at(f"/usr/bin/{program}")).unlink()
        for program in ("rpm", "dnf"):
            host.put(f"/usr/bin/{program}", mode=0o755)
        host.answers["rpm -qa"] = "bash\t5.2-1\n"
    return host


def plugin_of(host: rooted.RootedHost, **options: t.Any) -> dict[str, t.Any] | None:
    config = config_of(**options)
    return chosen_plugin(facts_of(host, **options), config.enroot, config.build_version)


def stack_of(host: rooted.RootedHost, **options: t.Any) -> dict[str, t.Any] | None:
    config = config_of(**options)
    return plugstack_wanted(facts_of(host, **options), config.enroot, config.build_version)


def fetched(host: rooted.RootedHost, **options: t.Any) -> list[dict[str, t.Any]]:
    """Return the fetched files with their names at the source."""
    plan = plan_of(host, **options)
    found = [
        {"file": entry.url.rpartition("/")[2].replace("%2B", "+"), **vars(entry)}
        for entry in plan.packages
        if entry.url
    ]
    return [*found, *(step(plan, "plugin") or {"files": []})["files"]]


def prove(host: rooted.RootedHost, plugin: str = PLUGIN) -> None:
    host.put(PROOF_PATH, proof_text(facts_of(host), plugin))


def test_node_without_slurm_is_not_concerned(tmp_path: Path) -> None:
    plan = plan_of(rooted.RootedHost(tmp_path))
    assert (plan.concerned, plan.reason) == (
        False,
        "there is no Slurm on this node, so nothing would start a container",
    )
    assert plan.differences() == []


def test_unresponsive_slurm_is_refused(host: rooted.RootedHost) -> None:
    del host.answers["/opt/slurm/bin/scontrol --version"]
    assert "queried /opt/slurm/bin/scontrol for its version and got none" in plan_of(host).refusals[0]


FRESH = [
    "packages",
    "conf",
    "tmpfiles",
    "unit",
    "slurmd",
    "docker_daemon",
    "held packages",
    f"unit {files.UNIT}",
    "command",
    "plugin",
    "links",
    "plugstack",
    "slurmd, when it is idle",
]


@pytest.mark.parametrize("name", SYSTEMS)
def test_fresh_node_gets_everything_and_then_nothing(host: rooted.RootedHost, name: str) -> None:
    on(host, name)
    rooted.mount(host, "/scratch", "ext4")
    options = {"docker": True, "hooks": ["50-slurm-pmi.sh"]}
    plan = plan_of(host, **options)
    assert (plan.refusals, plan.differences()) == ((), FRESH)
    carry_out(host, plan, **options)
    again = plan_of(host, **options)
    assert (again.refusals, again.differences()) == ((), [])


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("debian-12", [name.format("amd64") for name in ENROOT_4]),
        ("ubuntu-24.04-arm", [name.format("arm64") for name in ENROOT_4]),
        ("amazon-2023", [name.format("x86_64") for name in RPM]),
        ("rhel-9", [name.format("x86_64") for name in RPM]),
        ("rocky-9-arm", [name.format("aarch64") for name in RPM]),
    ],
)
def test_files_that_fresh_node_needs(host: rooted.RootedHost, name: str, names: list[str]) -> None:
    on(host, name)
    assert [file["file"] for file in fetched(host)] == [*names, "v0.24.0.tar.gz"]
    assert [entry.name for entry in plan_of(host).packages] == ["enroot", "enroot+caps"]


def test_missing_checksum_is_refused(host: rooted.RootedHost) -> None:
    bare = [{**entry, "sums": {}} for entry in config_of().artifacts]
    plan = plan_of(host, artifacts=bare)
    assert (len(plan.refusals), plan.differences()) == (3, [])
    assert (
        "the checksum of enroot_4.1.2-1_amd64.deb is unknown, so it is not installed: run make lock-artifacts"
        in (plan.refusals[0])
    )
    own = {"enroot_4.1.2-1_amd64.deb": "d" * 64, "enroot+caps_4.1.2-1_amd64.deb": "e" * 64, "v0.24.0.tar.gz": "f" * 64}
    assert [file["sha256"] for file in fetched(host, artifacts=bare, checksums=own)] == list(own.values())


def test_enroot_of_unknown_version_is_unchanged(host: rooted.RootedHost) -> None:
    good(host).answers["/usr/bin/enroot version"] = ""
    plan = plan_of(host)
    assert (
        "queried /usr/bin/enroot for its version and got none, so it is neither kept nor replaced" in plan.refusals[0]
    )
    assert plan.differences() == []


def test_toolkit_of_unknown_version_is_unchanged(host: rooted.RootedHost) -> None:
    good(host).put("/proc/driver/nvidia/version")
    host.put("/usr/bin/nvidia-container-cli", mode=0o755)
    host.answers["/usr/bin/nvidia-container-cli --version"] = "no answer"
    plan = plan_of(host, toolkit_version="1.18.0-1")
    assert plan.packages == ()
    assert [note for note in plan.notes if "/usr/bin/nvidia-container-cli does not report its version" in note]
    assert not [note for note in plan_of(host).notes if "does not report its version" in note]


def test_unknown_architecture_is_refused(host: rooted.RootedHost) -> None:
    host.architecture = "riscv64"
    assert "looked for enroot for deb-riscv64 and found none to download" in plan_of(host).refusals[0]


def test_preinstalled_image_without_enroot_is_refused(host: rooted.RootedHost) -> None:
    plan = plan_of(host, source="preinstalled")
    assert (
        "the node lacks the software in enroot_4.1.2-1_amd64.deb, enroot+caps_4.1.2-1_amd64.deb" in (plan.refusals[0])
    )
    assert plan_of(good(host), source="preinstalled").refusals == ()


PREBUILT = [
    {"slurm_version": version, "architecture": "x86_64", "file": f"pyxis-{version}.so", "sha256": "a" * 64}
    for version in ("22.05", "2.05", "22.05.99", "23.11.10")
]


@pytest.mark.parametrize(
    ("name", "offered", "file"),
    [
        ("debian-12", PREBUILT, "pyxis-22.05.so"),
        ("debian-12", PREBUILT[2:], "pyxis-22.05.99.so"),
        ("debian-12", [PREBUILT[1], PREBUILT[3]], "v0.24.0.tar.gz"),
        ("rocky-9-arm", PREBUILT, "v0.24.0.tar.gz"),
    ],
)
def test_prebuilt_plugin_matches_release_and_architecture(
    host: rooted.RootedHost, name: str, offered: list[dict[str, str]], file: str
) -> None:
    options = {"prebuilt": offered, "mirror_url": "s3://bucket/x", "caps": False}
    plan = plan_of(rooted.with_enroot(on(host, name)), **options)
    made = step(plan, "plugin")
    assert made is not None
    (one,) = made["files"]
    assert (one["file"], one["url"]) == (file, f"s3://bucket/x/{file}")
    assert made["made"] == (file if file.endswith(".so") else "pyxis-0.24.0/spank_pyxis.so")
    assert made["source"] == ("" if file.endswith(".so") else "pyxis-0.24.0")


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (
            "#define SLURM_VERSION_NUMBER 0x170b0a\n",
            "slurm_version.h is of 23.11.10: install the headers of that Slurm",
        ),
        ("", "slurm_version.h is missing: install the headers of that Slurm (libslurm-dev, slurm-devel)"),
    ],
)
def test_plugin_is_never_built_for_another_slurm(host: rooted.RootedHost, headers: str, words: str) -> None:
    host.put("/opt/slurm/include/slurm/slurm_version.h", headers)
    (refusal,) = plan_of(host).refusals
    assert words in refusal
    assert plan_of(host, prebuilt=PREBUILT, mirror_url="s3://bucket/x").refusals == ()
    assert plan_of(good(host)).refusals == ()


@pytest.mark.parametrize("name", SYSTEMS)
def test_good_enroot_needs_no_download(host: rooted.RootedHost, name: str) -> None:
    assert fetched(good(on(host, name), "3.4.1")) == []


@pytest.mark.parametrize("version", ["3.0.9", "2.2.0"])
def test_old_enroot_is_replaced(host: rooted.RootedHost, version: str) -> None:
    assert [file["name"] for file in fetched(good(host, version))] == ["enroot"]


def test_another_version_is_replaced_only_on_request(host: rooted.RootedHost) -> None:
    good(host, "3.4.1")
    assert [file["name"] for file in fetched(host, upgrade=True)] == ["enroot", "enroot+caps"]
    host.answers["/usr/bin/enroot version"] = "4.1.2"
    assert fetched(host, upgrade=True) == []


def test_missing_capabilities_use_installed_version(host: rooted.RootedHost) -> None:
    rooted.with_pyxis(host)
    host.put("/usr/bin/enroot")
    host.answers["/usr/bin/enroot version"] = "4.1.1"
    (file,) = fetched(host)
    assert (file["file"], file["sha256"]) == ("enroot+caps_4.1.1-1_amd64.deb", "b" * 64)
    assert fetched(host, caps=False) == []


@pytest.mark.parametrize(
    ("name", "own"), [("debian-12", "docker.io"), ("amazon-2023", "docker"), ("rhel-9", "docker-ce")]
)
def test_docker_and_toolkit_are_installed(host: rooted.RootedHost, name: str, own: str) -> None:
    on(host, name).put("/proc/driver/nvidia/version")
    plan = plan_of(host, docker=True, toolkit_version="1.17.8-1")
    assert plan.packages[-2:] == (Package(own), Package("nvidia-container-toolkit", "1.17.8-1"))
    assert plan.hold == (own, "nvidia-container-toolkit")
    pinned = plan_of(host, docker=True, docker_packages=["docker.io=28.3.3-0ubuntu1"], hold=False)
    assert Package("docker.io", "28.3.3-0ubuntu1") in pinned.packages
    assert pinned.hold == ()


@pytest.mark.parametrize(("state", "held"), [("ii", ["nvidia-container-toolkit"]), ("hi", [])])
def test_removed_hold_is_restored(host: rooted.RootedHost, state: str, held: list[str]) -> None:
    """Also for a toolkit that was installed before the role ran."""
    good(host).put("/proc/driver/nvidia/version")
    host.put("/usr/bin/nvidia-container-cli", mode=0o755)
    host.answers["/usr/bin/nvidia-container-cli --version"] = "cli-version: 1.17.8\n"
    host.answers["dpkg-query -W"] = f"nvidia-container-toolkit\t1.17.8-1\t{state} \nother\t1\tii \n"
    plan = plan_of(host)
    assert (plan.packages, list(plan.hold)) == ((), held)
    # A held package of another version blocks the pinned one.
    pinned = plan_of(host, toolkit_version="1.18.0-1")
    assert pinned.unhold == (("nvidia-container-toolkit",) if state == "hi" else ())
    assert plan_of(host, hold=False).hold == ()


def test_packages_without_package_manager_are_refused(host: rooted.RootedHost) -> None:
    good(host).put("/proc/driver/nvidia/version")
    Path(host.at("/usr/bin/dpkg-query")).unlink()
    plan = plan_of(host)
    assert plan.differences() == []
    assert (
        "nvidia-container-toolkit must be installed, and there is no apt or dnf here, or neither" in (plan.refusals[0])
    )


def test_unknown_holds_are_refused(host: rooted.RootedHost) -> None:
    good(host).put("/proc/driver/nvidia/version")
    host.put("/usr/bin/nvidia-container-cli", mode=0o755)
    Path(host.at("/usr/bin/dpkg-query")).unlink()
    (refusal,) = plan_of(host).refusals
    assert refusal.startswith("could not determine whether the packages of /usr/bin/nvidia-container-cli are held")
    assert plan_of(host, hold=False).refusals == ()


def test_plugin_of_parallelcluster_is_adopted(host: rooted.RootedHost) -> None:
    good(host, "3.4.1")
    assert plugin_of(host)["path"] == PLUGIN  # type: ignore[index]
    assert fetched(host) == []


def test_another_micro_version_is_loaded(host: rooted.RootedHost) -> None:
    rooted.with_pyxis(host, slurm=0x160503)
    assert plugin_of(host)["slurm_version"] == "22.05.3"  # type: ignore[index]


def test_slurm_of_distribution_needs_no_path(tmp_path: Path) -> None:
    host = rooted.node(tmp_path)
    assert "Environment=PATH=/opt/slurm/bin:" in texts(plan_of(host))[files.SLURMD_PATH]
    host.put("/usr/bin/srun")
    host.answers["/usr/bin/scontrol --version"] = "slurm 24.11.5"
    good(host)
    assert files.SLURMD_PATH not in texts(plan_of(host, slurm_prefix="/usr", source="preinstalled"))


def test_new_slurm_gets_new_plugin_listed_as_optional(host: rooted.RootedHost) -> None:
    good(host)
    carry_out(host, plan_of(host))
    prove(host)
    carry_out(host, plan_of(host, plugstack_mode="required"), plugstack_mode="required")
    assert host.text(STACK + ".d/pyxis.conf").splitlines()[1].startswith("required")
    host.answers["/opt/slurm/bin/scontrol --version"] = "slurm 23.11.10"
    host.put("/opt/slurm/include/slurm/slurm_version.h", "#define SLURM_VERSION_NUMBER 0x170b0a\n")
    plan = plan_of(host, plugstack_mode="required")
    made, listed = step(plan, "plugin"), step(plan, "plugstack")
    assert made
    assert listed
    assert made["path"] == "/usr/local/lib/mlcluster/pyxis/23.11.10/spank_pyxis.so"
    assert listed["keyword"] == "optional"
    # The old line must not stop every job, even if no plugin can be built.
    listed = step(plan_of(host, plugstack_mode="required", source="preinstalled"), "plugstack")
    assert listed is not None
    assert (listed["keyword"], listed["plugin"]) == ("optional", PLUGIN)
    results = {entry.id: entry for entry in facts_of(host)["results"]}
    assert "was built for Slurm 22.05.8 and this node has 23.11.10" in results["pyxis.plugin"].message


def test_required_needs_proof_of_this_plugin_and_slurm(host: rooted.RootedHost) -> None:
    good(host)

    def keyword(mode: str = "required") -> str:
        wanted = stack_of(host, plugstack_mode=mode)
        return str(wanted and wanted["keyword"])

    assert keyword() == "optional"
    prove(host)
    assert (keyword(), keyword("optional")) == ("required", "optional")
    rooted.with_pyxis(host, pyxis="0.24.0")
    assert keyword() == "optional"
    host.put(PROOF_PATH, "{}")
    assert keyword() == "optional"


def smoking(host: rooted.RootedHost, inside: str = "2:2") -> dict[str, t.Any]:
    """Return options for a smoke test, on a host that can start a container."""
    host.put("/x.sqsh")
    host.answers["runuser"] = "node=n1 root=1:1\n"
    host.answers["--container-image"] = f"node=n1 root={inside}\n"
    return {"smoke_image": "/x.sqsh", "smoke_users": ["alice"], "plugstack_mode": "required"}


def test_started_container_is_recorded_and_line_required(host: rooted.RootedHost) -> None:
    options = smoking(good(host))
    assert "pyxis.container" not in [entry.id for entry in facts_of(host, **options)["results"]]
    carry_out(host, plan_of(host, **options), **options)
    facts = facts_of(host, **options)
    assert "pyxis.container" in [entry.id for entry in facts["results"]]
    plan = make_plan(facts, config_of(**options))
    assert plan.differences() == ["proof", "plugstack", "slurmd, when it is idle"]
    # The next look has the proof, starts no container and reports none.
    assert [note.partition(":")[0] for note in plan.notes if "pyxis" in note] == [
        "PASS pyxis.container (alice)",
        "n/a  pyxis.pmix",
        "n/a  pyxis.devices",
    ]
    carry_out(host, plan, **options)
    assert host.text(STACK + ".d/pyxis.conf").splitlines()[1].startswith("required")
    assert plan_of(host, **options).differences() == []


def test_verification_starts_container_and_writes_nothing(host: rooted.RootedHost) -> None:
    options = {**smoking(good(host)), "plugstack_mode": "optional"}
    carry_out(host, plan_of(host, **options), **options)
    plan = plan_of(host, **options, probe="always")
    assert (plan.differences(), plan.notes) == ([], plan_of(host).notes)
    # The line could be required now and is not: a difference.
    options["plugstack_mode"] = "required"
    assert "plugstack" in plan_of(host, **options, probe="always").differences()


@pytest.mark.parametrize(
    ("pmix", "differences"), [("ready\n", ["proof", "plugstack", "slurmd, when it is idle"]), ("fails", [])]
)
def test_container_without_pmix_is_not_a_proof(host: rooted.RootedHost, pmix: str, differences: list[str]) -> None:
    options = smoking(good(host))
    host.answers["/opt/slurm/bin/srun --mpi=list"] = "pmix\n"
    carry_out(host, plan_of(host, **options), **options)
    host.answers["--mpi=pmix"] = "ready\n"
    if pmix == "fails":
        host.answers["--mpi=pmix --container-image"] = CommandResult(1, "", "no directory")
    assert plan_of(host, **options).differences() == differences


def test_container_on_host_is_not_a_proof(host: rooted.RootedHost) -> None:
    options = smoking(good(host), inside="1:1")
    carry_out(host, plan_of(host, **options), **options)
    plan = plan_of(host, **options)
    assert plan.differences() == []
    assert host.text(STACK + ".d/pyxis.conf").splitlines()[1].startswith("optional")


@pytest.mark.parametrize(("probe", "tried"), [("never", False), ("unproved", False), ("always", True)])
def test_proved_node_starts_container_only_when_asked(host: rooted.RootedHost, probe: str, tried: bool) -> None:
    options = smoking(good(host))
    for _round in range(2):
        carry_out(host, plan_of(host, **options), **options)
    prove(host)
    assert bool(facts_of(host, **options, probe=probe)["trial"]) == tried


def test_option_unknown_to_installed_plugin_is_refused(host: rooted.RootedHost) -> None:
    plan = plan_of(good(host), plugin_options={"use_squashfuse": True})
    assert "needs Pyxis 0.22.0 and version 0.20.0 would refuse to start" in plan.refusals[0]
    assert plan.differences() == []


@pytest.mark.parametrize(
    ("fstype", "manage", "writes"),
    [("nfs4", "auto", False), ("nfs4", "always", True), ("ext4", "auto", True), ("ext4", "never", False)],
)
def test_only_owner_of_slurms_files_writes_plugstack(
    host: rooted.RootedHost, fstype: str, manage: str, writes: bool
) -> None:
    rooted.mount(host, "/opt/slurm", fstype)
    assert (stack_of(good(host), manage_plugstack=manage) is not None) == writes


@pytest.mark.parametrize(
    ("listed", "due", "links"),
    [
        # The plugin that the head node lists is on this node.
        (PLUGIN, False, []),
        # The head node built its own plugin; this node's image has another one, which is not listed.
        (OWN, True, []),
        # The head node's image has a plugin at a path where this node's image has none.
        (ELSEWHERE, True, [{"path": ELSEWHERE, "target": OWN}]),
    ],
)
def test_node_without_write_access_uses_listed_plugin(
    host: rooted.RootedHost, listed: str, due: bool, links: list[dict[str, str]]
) -> None:
    rooted.mount(host, "/opt/slurm", "nfs4")
    good(host).put(STACK, f"required {listed}\n")
    plan = plan_of(host)
    assert (step(plan, "plugin") is not None) == due
    assert (step(plan, "links") or {"links": []})["links"] == links
    assert step(plan, "plugstack") is None
    assert plugin_of(host)["path"] == (OWN if due else PLUGIN)  # type: ignore[index]
    rooted.with_pyxis(host, OWN)
    assert fetched(host) == []


def test_configless_cluster_includes_file_by_name(host: rooted.RootedHost) -> None:
    host.put("/opt/slurm/etc/slurm.conf", "SlurmctldParameters=enable_configless\n")
    rooted.with_pyxis(host)
    assert stack_of(host)["include"] == "file"  # type: ignore[index]
    assert stack_of(host, plugstack_include="glob")["include"] == "glob"  # type: ignore[index]


def test_low_kernel_limits_are_raised(host: rooted.RootedHost) -> None:
    good(host)
    host.put("/proc/sys/user/max_user_namespaces", "1000")
    host.put("/proc/sys/kernel/unprivileged_userns_clone", "0")
    host.put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")
    plan = plan_of(host)
    written = texts(plan)
    assert "user.max_user_namespaces = 65536\nkernel.unprivileged_userns_clone = 1\n" in written[files.SYSCTL_PATH]
    assert "profile mlcluster-enroot /usr/bin/enroot-nsenter" in written[files.APPARMOR_PATH]
    commands = [entry.arguments["argv"][0] for entry in plan.steps if entry.name == "command"]
    assert commands == ["systemd-tmpfiles", "sysctl", "apparmor_parser"]
    host.put("/etc/apparmor.d/enroot")
    assert files.APPARMOR_PATH not in texts(plan_of(host))


def test_removed_profile_is_not_loaded(host: rooted.RootedHost) -> None:
    good(host)
    host.put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")
    carry_out(host, plan_of(host))
    host.put("/etc/apparmor.d/enroot")
    plan = plan_of(host)
    assert [(entry.path, entry.state) for entry in plan.files] == [(files.APPARMOR_PATH, "absent")]
    assert [entry.name for entry in plan.steps] == []


def test_raised_limit_is_kept_at_next_run(host: rooted.RootedHost) -> None:
    host.put("/proc/sys/user/max_user_namespaces", "1000")
    good(host)
    carry_out(host, plan_of(host))
    host.put("/proc/sys/user/max_user_namespaces", "65536")
    assert plan_of(host).differences() == []


def test_main_file_can_belong_to_role(host: rooted.RootedHost) -> None:
    good(host).put(CONF_PATH, "ENROOT_DATA_PATH /fsx\n")
    assert "the first value wins" in plan_of(host).refusals[0]
    plan = plan_of(host, conf_owner="role")
    assert plan.refusals == ()
    assert {entry.path: entry.backup for entry in plan.files}[CONF_PATH]


def test_hooks_are_links_to_shipped_files(host: rooted.RootedHost) -> None:
    good(host)
    assert step(plan_of(host, hooks=["50-slurm-pmi.sh"]), "links") == {
        "links": [
            {"path": "/etc/enroot/hooks.d/50-slurm-pmi.sh", "target": "/usr/share/enroot/hooks.d/50-slurm-pmi.sh"}
        ]
    }
    host.put("/etc/enroot/hooks.d/50-slurm-pmi.sh")
    assert step(plan_of(host, hooks=["50-slurm-pmi.sh"]), "links") is None


def test_file_of_another_mode_is_written_again(host: rooted.RootedHost) -> None:
    carry_out(good(host), plan_of(host))
    for path in (files.TMPFILES_PATH, files.SLURMD_PATH, files.UNIT_PATH):
        host.put(path, host.text(path), mode=0o666)
    plan = plan_of(host)
    assert sorted(plan.differences()) == [f"{name} (mode or owner)" for name in ("slurmd", "tmpfiles", "unit")]
    assert (plan.steps, plan.units) == ((), ())


def test_reboot_recreates_only_run_directories(host: rooted.RootedHost) -> None:
    carry_out(good(host), plan_of(host))
    Path(host.at("/run/enroot")).rmdir()
    assert [entry.arguments["argv"] for entry in plan_of(host).steps] == [
        ["systemd-tmpfiles", "--create", files.TMPFILES_PATH]
    ]


def test_disabled_boot_unit_is_enabled(host: rooted.RootedHost) -> None:
    carry_out(good(host), plan_of(host))
    host.remove(f"{WANTS}/{files.UNIT}")
    plan = plan_of(host)
    assert plan.differences() == [f"unit {files.UNIT}"]
    assert (plan.units[0].enabled, plan.units[0].state) == (True, "restarted")


@pytest.mark.parametrize(
    ("restart", "unit", "steps", "notes"),
    [("idle", True, 1, 0), ("none", True, 0, 1), ("idle", False, 0, 0), ("none", False, 0, 0)],
)
def test_slurmd_is_restarted_only_if_present_and_allowed(
    host: rooted.RootedHost, restart: str, unit: bool, steps: int, notes: int
) -> None:
    if not unit:
        host.remove("/usr/lib/systemd/system/slurmd.service")
    plan = plan_of(good(host), slurmd_restart=restart)
    assert len([entry for entry in plan.steps if entry.name == "slurmd"]) == steps
    assert len([text for text in plan.notes if "enroot_pyxis_slurmd_restart is none" in text]) == notes


def test_node_without_disks_and_fallback_is_refused(host: rooted.RootedHost) -> None:
    (refusal,) = plan_of(good(host), fallback_dir="").refusals
    assert "no local NVMe volume was found and enroot_pyxis_fallback_dir is empty" in refusal
    assert "slower and smaller" in plan_of(host).notes[0]


def with_docker(host: rooted.RootedHost, running: str | None = "") -> rooted.RootedHost:
    host.put("/usr/bin/dockerd")
    host.answers["/usr/bin/dockerd --version"] = "Docker version 28.3.3, build x"
    if running is not None:
        host.answers["docker ps"] = running
    return good(host)


@pytest.mark.parametrize(
    ("running", "restarts", "words"),
    [("", True, ""), ("abc\n", False, "1 containers run in it"), (None, False, "it does not report how many")],
)
def test_docker_is_restarted_only_without_containers(
    host: rooted.RootedHost, running: str | None, restarts: bool, words: str
) -> None:
    rooted.mount(host, "/scratch", "ext4")
    plan = plan_of(with_docker(host, running), docker=True)
    commands = [entry.arguments["argv"] for entry in plan.steps if entry.name == "command"]
    assert (["systemctl", "try-restart", "docker.service"] in commands) == restarts
    notes = [text for text in plan.notes if "Docker is not restarted" in text]
    assert len(notes) == (0 if restarts else 1)
    assert all(words in text for text in notes)


def test_unwanted_docker_is_unchanged(host: rooted.RootedHost) -> None:
    rooted.mount(host, "/scratch", "ext4")
    plan = plan_of(with_docker(host))
    assert docker.DAEMON_PATH not in texts(plan)


def test_docker_validates_settings_before_write(host: rooted.RootedHost) -> None:
    rooted.mount(host, "/scratch", "ext4")
    plan = plan_of(with_docker(host), docker=True)
    carry_out(host, plan, docker=True)
    host.put(docker.DAEMON_PATH, host.text(docker.DAEMON_PATH), mode=0o600)
    later = plan_of(host, docker=True)
    assert (later.differences(), later.steps) == (["docker_daemon (mode or owner)"], ())
    judged = step(plan, "validated")
    assert judged is not None
    assert (judged["path"], judged["mode"]) == (docker.DAEMON_PATH, "0644")
    assert judged["validate"] == "/usr/bin/dockerd --validate --config-file %s"
    assert "docker_daemon" in plan.differences()
    assert docker.DAEMON_PATH not in [entry.path for entry in plan.files]


@pytest.mark.parametrize(("text", "words"), [("{", "is not valid JSON"), ("[]", "is not a JSON object")])
def test_broken_daemon_json_is_refused(host: rooted.RootedHost, text: str, words: str) -> None:
    with_docker(host).put(docker.DAEMON_PATH, text)
    (refusal,) = plan_of(host, docker=True).refusals
    assert words in refusal


def test_no_password_is_read_or_shown(host: rooted.RootedHost) -> None:
    """The command of a registry prints a password: files contain the command, and never its output."""
    good(host).answers["give-password"] = "hunter2\n"
    entry = {"machine": "nvcr.io", "login": "me", "command": ["give-password"]}
    plan = plan_of(host, credentials=[entry])
    assert "hunter2" not in json.dumps(plan.to_dict())
    assert [argv for argv in host.ran if argv[0] == "give-password"] == []


def test_plan_is_serializable_as_json(host: rooted.RootedHost) -> None:
    rooted.mount(host, "/scratch", "ext4")
    json.dumps(plan_of(with_docker(host), docker=True, hooks=["50-sharp.sh"]).to_dict())


OPTIONS: tuple[dict[str, t.Any], ...] = (
    {},
    {"docker": True, "toolkit_version": "1.17.8-1"},
    {"conf_owner": "role", "safe_mode": False, "hooks": ["50-slurm-pmi.sh", "50-sharp.sh"]},
    {"credentials": [{"machine": "123456789012.dkr.ecr.eu-west-2.amazonaws.com"}], "caps": False},
    {"plugstack_include": "file", "plugin_options": {"container_scope": "global"}, "slurmd_restart": "none"},
    {"manage_plugstack": "never", "prebuilt": PREBUILT, "mirror_url": "https://mirror/x"},
)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("disk", [None, "ext4", "nfs4"])
@pytest.mark.parametrize("before", [rooted.node, lambda root: good(rooted.node(root), "3.0.1")])
@pytest.mark.parametrize("driver", [False, True])
def test_plan_of_applied_plan_is_empty(
    tmp_path: Path, options: dict[str, t.Any], disk: str | None, before: t.Any, driver: bool
) -> None:
    host = before(tmp_path)
    host.put("/proc/sys/user/max_user_namespaces", "1000")
    if driver:
        host.put("/proc/driver/nvidia/version")
    if disk:
        rooted.mount(host, "/scratch", disk)
    plan = plan_of(host, **options)
    assert plan.refusals == ()
    assert plan.differences() != []
    carry_out(host, plan, **options)
    assert plan_of(host, **options).differences() == []


# Facts that may be empty: there is no such program, plugin, file or unit.
ABSENT = {("slurm",), ("plugins",), ("nvidia", "tool"), ("docker", "path"), ("docker",)}
# Facts that always have a value.
KNOWN = {
    *(("slurm", name) for name in ("bin_dir", "slurmd_unit")),
    *(("enroot", name) for name in ("good", "caps")),
    *((name,) for name in ("stack", "place", "unit_enabled", "prepared")),
}


def test_unknown_facts_are_not_a_reason_to_act(host: rooted.RootedHost) -> None:
    good(host).put("/proc/driver/nvidia/version")
    rooted.mount(host, "/scratch", "ext4")
    options = {"docker": True, "toolkit_version": "1.17.8-1", "hooks": ["50-slurm-pmi.sh"], "upgrade": True}
    for _round in range(2):
        carry_out(host, plan_of(host, **options), **options)
    facts, config = facts_of(host, **options), config_of(**options)
    paths = {(name,) for name in ("sums", "states", "hooks", "run_directories")}
    assert acted_on(make_plan, facts, config, paths, ABSENT | KNOWN, 40) == []
