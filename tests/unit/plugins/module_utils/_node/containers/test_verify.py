# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on Docker and on GPUs inside containers."""

from __future__ import annotations

import dataclasses
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import look as enroot
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import verify as container_verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import EnrootConfig
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plan import refusals
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import passed

from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.fakes.fake_containers_role import facts_of, plan_of


@pytest.fixture
def host(tmp_path):
    return rooted.with_docker(rooted.with_pyxis(rooted.with_enroot(rooted.node(tmp_path))))


@pytest.mark.parametrize(
    ("program", "answer", "status"), [(True, "28.3.3", "pass"), (True, "", "undeterminable"), (False, "", "fail")]
)
def test_verdict_on_docker(host, program, answer, status):
    host.answers["/usr/bin/dockerd --version"] = answer
    if not program:
        host.remove(host.at("/usr/bin/dockerd"))
    (found,) = [result for result in facts_of(host, docker=True)["results"] if result.id == "docker.version"]
    assert found.status == status
    assert ("docker.io" in [entry.name for entry in plan_of(host, docker=True).packages]) == (not program)


def test_enroot_of_unknown_version_is_undeterminable(host):
    host.answers["/usr/bin/enroot version"] = ""
    (found,) = [result for result in facts_of(host)["results"] if result.id == "enroot.version"]
    assert (found.status, found.reason) == (
        "undeterminable",
        "/usr/bin/enroot does not report its version: Pyxis needs 3.1.0 or newer",
    )


@pytest.mark.parametrize(
    ("driver", "tool", "pinned", "status"),
    [
        (False, "", "1.17.8", "not_applicable"),
        (True, "", "", "fail"),
        (True, "cli-version: 1.17.8\n", "", "pass"),
        (True, "cli-version: 1.17.8\n", "1.17.8-1", "pass"),
        (True, "cli-version: 1.17.8\n", "1.18.0-1", "fail"),
        (True, "no answer\n", "1.18.0-1", "undeterminable"),
    ],
)
def test_gpus_inside_containers(host, driver, tool, pinned, status):
    if driver:
        host.put("/proc/driver/nvidia/version", "NVRM version: ...")
    if tool:
        host.put("/usr/bin/nvidia-container-cli")
        host.answers["/usr/bin/nvidia-container-cli --version"] = tool
    (found,) = [entry for entry in facts_of(host, toolkit_version=pinned)["results"] if entry.id == "enroot.nvidia"]
    assert found.status == status
    names = [entry.name for entry in plan_of(host, toolkit_version=pinned).packages]
    assert ("nvidia-container-toolkit" in names) == (status == "fail")


class Judged:
    """Verdicts on a good node with changed facts, plan or host."""

    def __init__(self, host, monkeypatch):
        self.host, self.config = host, EnrootConfig()
        self.facts = enroot.survey(host, self.config)
        self.refusals = refusals(self.facts, self.config)
        self.started = []
        monkeypatch.setattr(container_verify, "smoke", self._smoke)

    def _smoke(self, *arguments):
        self.started.append(arguments)
        return [passed("container.smoke", 1)]

    def all(self, **more):
        return verify(self.host, self.facts, self.refusals, self.config, **more)

    def of(self, check):
        return next((one for one in self.all() if one.id == check), None)


@pytest.fixture
def judged(host, monkeypatch):
    return Judged(host, monkeypatch)


def test_node_without_slurm_starts_no_container(judged):
    judged.facts = {**judged.facts, "slurm": None}
    (found,) = judged.all(probe=True)
    assert (found.id, found.status, judged.started) == ("enroot.slurm", "not_applicable", [])


def test_refusals_are_the_only_verdicts(judged):
    judged.refusals = ["one", "two"]
    assert [(one.id, one.status, one.message) for one in judged.all()] == [
        ("enroot.plan", "fail", "one"),
        ("enroot.plan", "fail", "two"),
    ]


def test_containers_are_started_only_on_request(judged):
    ids = {one.id for one in judged.all()}
    assert "container.smoke" not in ids and judged.started == []
    more = {one.id for one in judged.all(probe=True)}
    assert more - ids == {"container.smoke"}
    slurm = judged.facts["slurm"]["bin_dir"]
    wanted = (judged.config.smoke_image, judged.config.smoke_users, judged.config.smoke_seconds)
    assert judged.started == [(judged.host, slurm, *wanted)]


@pytest.mark.parametrize(("version", "words"), [("0.21.0", "Pyxis 0.21.0 for"), (None, "Pyxis of unknown version")])
def test_version_of_pyxis_is_reported(judged, version, words):
    listed = [
        {**plugin, "listed": True, "fits": True, "pyxis_version": version} for plugin in judged.facts["plugins"][:1]
    ]
    judged.facts = {**judged.facts, "plugins": listed}
    assert judged.of("pyxis.plugin").found.startswith(words)


@pytest.mark.parametrize("warning", ["", "it is small"])
def test_warning_on_local_directory_is_its_message(judged, monkeypatch, warning):
    judged.facts = {**judged.facts, "place": dataclasses.replace(judged.facts["place"], warning=warning)}
    monkeypatch.setattr(container_verify.enroot_local, "is_prepared", lambda host, place: True)
    judged.host.__dict__["free_bytes"] = lambda path: 5 << 30
    found = judged.of("enroot.local")
    assert (found.status, found.message) == ("pass", warning or None) and "5 GiB free" in found.found
    judged.host.__dict__["free_bytes"] = lambda path: None
    assert "free space unknown" in judged.of("enroot.local").found
    monkeypatch.setattr(container_verify.enroot_local, "is_prepared", lambda host, place: False)
    assert judged.of("enroot.local").status == "fail"


@pytest.mark.parametrize(
    ("most", "clone", "status", "severity"),
    [
        (None, None, "fail", "isolate"), (0, None, "fail", "monitor"), (1, None, "fail", "monitor"),
        (2, None, "pass", "none"), (100, 1, "pass", "none"), (100, 0, "fail", "monitor"),
    ],
)  # fmt: skip
def test_user_namespaces_of_kernel(judged, most, clone, status, severity):
    kernel = {
        "max_user_namespaces": most,
        "unprivileged_userns_clone": clone,
        "apparmor_restrict_unprivileged_userns": 0,
    }
    judged.facts = {**judged.facts, "kernel": kernel}
    found = judged.of("enroot.userns")
    assert (found.status, found.severity) == (status, severity)
    assert judged.of("enroot.apparmor") is None


LOADED = "/usr/bin/man (enforce)\nsnap.lxd.daemon (complain)\n{}plasmashell (unconfined)\n"


def restrict(judged):
    """Let AppArmor restrict user namespaces; the role's profile is there."""
    kernel = {"max_user_namespaces": 9, "unprivileged_userns_clone": 1, "apparmor_restrict_unprivileged_userns": 1}
    judged.facts = {**judged.facts, "kernel": kernel}
    judged.host.put(container_verify.enroot_files.APPARMOR_PATH, container_verify.enroot_files.apparmor_text())


@pytest.mark.parametrize(
    ("loaded", "status", "words"),
    [
        ("mlcluster-enroot (unconfined)\n", "pass", "the profile mlcluster-enroot (unconfined) is loaded"),
        ("enroot (unconfined)\n", "pass", "the profile enroot (unconfined) is loaded"),
        ("/usr/bin/enroot-nsenter (unconfined)\n", "pass", "/usr/bin/enroot-nsenter (unconfined) is loaded"),
        ("", "fail", "/etc/apparmor.d/mlcluster-enroot exists, and its profile is not loaded"),
        ("not-enroot (unconfined)\nenroot//child (unconfined)\n", "fail", "its profile is not loaded"),
        ("enroot (enforce)\n", "undeterminable", "enroot (enforce) is loaded, and whether it allows"),
        ("enroot (unconfined)\nmlcluster-enroot (unconfined)\n", "undeterminable", "which of them applies is unknown"),
        (None, "undeterminable", "/sys/kernel/security/apparmor/profiles cannot be read"),
    ],
)
def test_apparmor_profile_must_be_loaded(judged, loaded, status, words):
    restrict(judged)
    if loaded is not None:
        judged.host.put(container_verify.LOADED_PROFILES, LOADED.format(loaded))
    found = judged.of("enroot.apparmor")
    assert found.status == status and words in (found.found or found.message or found.reason)


def test_written_apparmor_profile_has_known_name():
    found = re.search(r"^profile (\S+) ", container_verify.enroot_files.apparmor_text(), re.MULTILINE)
    assert found.group(1) in container_verify.enroot_files.APPARMOR_PROFILES


@pytest.mark.parametrize(("restricted", "profile", "status"), [(1, False, "fail"), (1, True, "pass"), (0, True, None)])
def test_apparmor_profile_counts_where_it_restricts(judged, restricted, profile, status):
    judged.host.put(container_verify.LOADED_PROFILES, LOADED.format("mlcluster-enroot (unconfined)\n"))
    kernel = {"max_user_namespaces": 9, "unprivileged_userns_clone": 1}
    judged.facts = {**judged.facts, "kernel": {**kernel, "apparmor_restrict_unprivileged_userns": restricted}}
    if profile:
        judged.host.put(container_verify.enroot_files.APPARMOR_PATH, "profile")
    else:
        for path in (container_verify.enroot_files.SHIPPED_APPARMOR, container_verify.enroot_files.APPARMOR_PATH):
            if judged.host.exists(path):
                judged.host.remove(judged.host.at(path))
    found = judged.of("enroot.apparmor")
    assert (found.status if found else None) == status


@pytest.mark.parametrize(
    ("fstype", "free", "status"),
    [
        ("tmpfs", 0, "pass"), ("ramfs", 0, "pass"), ("tmpfs", -1, "fail"), ("tmpfs", None, "undeterminable"),
        ("ext4", 0, "fail"), (None, 0, "fail"),
    ],
)  # fmt: skip
def test_runtime_directory_is_on_tmpfs_with_space(judged, monkeypatch, fstype, free, status):
    least = judged.config.runtime_min_mib << 20
    monkeypatch.setattr(container_verify.enroot_files, "run_directories", lambda config: [])
    entry = {"fstype": fstype} if fstype else None
    monkeypatch.setattr(container_verify, "find_mount", lambda path, table: entry)
    judged.host.__dict__["free_bytes"] = lambda path: None if free is None else least + free
    found = container_verify._runtime(judged.host, judged.config)
    assert (found.id, found.status) == ("enroot.runtime", status)
    assert status != "pass" or (found.expected, found.found) == (judged.config.runtime_min_mib,) * 2


@pytest.mark.parametrize(("version", "found"), [("1.17.8", "nvidia-container-cli 1.17.8"), ("", None), (None, None)])
def test_version_of_gpu_tool_is_reported(judged, version, found):
    nvidia = {"driver": True, "tool": "/usr/bin/nvidia-container-cli", "version": version}
    one = container_verify._nvidia(nvidia, EnrootConfig(toolkit_version=""))
    assert (one.status, one.found) == ("pass" if found else "undeterminable", found)


@pytest.mark.parametrize(
    ("enroot_facts", "status", "words"),
    [
        ({"good": True, "path": "/usr/bin/enroot", "version": "4.1.2"}, "pass", "4.1.2"),
        ({"good": False, "path": "/usr/bin/enroot", "version": None}, "undeterminable", "does not report its version"),
        ({"good": False, "path": "/usr/bin/enroot", "version": "3.0.0"}, "fail", "found 3.0.0, and Pyxis needs"),
        ({"good": False, "path": None, "version": None}, "fail", "found no enroot, and Pyxis needs"),
    ],
)
def test_version_of_enroot(enroot_facts, status, words):
    found = container_verify._enroot(enroot_facts)
    assert (found.id, found.status) == ("enroot.version", status)
    assert words in (found.found or found.message or found.reason)


@pytest.mark.parametrize(
    ("wanted", "there", "status"),
    [(False, False, "not_applicable"), (False, True, "not_applicable"), (True, True, "pass"), (True, False, "fail")],
)
def test_capabilities_of_enroot(wanted, there, status):
    found = container_verify._caps({"caps": there}, EnrootConfig(caps=wanted))
    assert (found.id, found.status) == ("enroot.caps", status)


PLUGIN = {
    "path": "/lib/spank_pyxis.so", "listed": True, "fits": True, "problem": "", "pyxis_version": "0.21.0",
    "slurm_version": "22.05.8",
}  # fmt: skip


@pytest.mark.parametrize(
    ("plugins", "status", "severity", "words"),
    [
        ([PLUGIN], "pass", "none", "Pyxis 0.21.0 for Slurm 22.05.8 at /lib/spank_pyxis.so"),
        ([], "fail", "monitor", "plugstack.conf lists no Pyxis plugin"),
        ([{**PLUGIN, "listed": False}], "fail", "monitor", "plugstack.conf lists no Pyxis plugin"),
        ([PLUGIN, {**PLUGIN, "fits": False, "problem": "it is old"}], "fail", "isolate", "it is old"),
        ([{**PLUGIN, "fits": False, "listed": False}, PLUGIN], "pass", "none", "Pyxis 0.21.0"),
    ],
)
def test_each_listed_plugin_has_to_fit(plugins, status, severity, words):
    found = container_verify._plugin({"plugins": plugins, "slurm": {"version": "22.05.8"}})
    assert (found.id, found.status, found.severity) == ("pyxis.plugin", status, severity)
    assert (found.found or found.message).startswith(words)


class Entry:
    def __init__(self, options=(), plugin="/lib/spank_pyxis.so"):
        self.options, self.plugin, self.keyword, self.file = options, plugin, "required", "/etc/slurm/pyxis.conf"


class Stack:
    path = "/etc/slurm/plugstack.conf"

    def __init__(self, problems=(), pyxis=()):
        self.problems, self.pyxis = problems, pyxis


@pytest.mark.parametrize(
    ("stack", "plugin", "status", "severity", "words"),
    [
        (Stack(pyxis=[Entry()]), PLUGIN, "pass", "none", "required in /etc/slurm/pyxis.conf, listed once"),
        (Stack(), PLUGIN, "fail", "monitor", "/etc/slurm/plugstack.conf does not list Pyxis"),
        (Stack(["it is torn", "it is torn"], [Entry()]), PLUGIN, "fail", "isolate", "it is torn"),
        (Stack(pyxis=[Entry(("colour=red",))]), PLUGIN, "fail", "isolate", "bad option"),
        # The options are those of another plugin, or of one that Slurm does not load.
        (Stack(pyxis=[Entry(("colour=red",), "/other.so")]), PLUGIN, "pass", "none", "required in"),
        (Stack(pyxis=[Entry(("colour=red",))]), {**PLUGIN, "listed": False}, "pass", "none", "required in"),
    ],
)
def test_line_of_pyxis_and_its_options(monkeypatch, stack, plugin, status, severity, words):
    seen = []
    monkeypatch.setattr(
        container_verify,
        "option_problems",
        lambda given, version: seen.append(version) or (["bad option"] if given else []),
    )
    found = container_verify._plugstack({"stack": stack, "plugins": [plugin]})
    assert (found.id, found.status, found.severity) == ("pyxis.plugstack", status, severity)
    assert (found.found or found.message).startswith(words)
    assert words != "it is torn" or found.message == words
    assert set(seen) <= {"0.21.0"}


LINE = "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"


@pytest.mark.parametrize(
    ("output", "errors", "status", "severity", "words"),
    [
        (LINE, "", "pass", "none", "srun --help has --container-image once"),
        ("", "", "fail", "isolate", "srun --help has no --container-image, so Pyxis is not loaded"),
        ("", "no plugin\n here\n", "fail", "isolate", "so Pyxis is not loaded: no plugin here"),
        (LINE, "option provided by both a and b", "fail", "monitor", "srun warns that two plugins"),
        (LINE + "option provided by both a and b", "", "fail", "monitor", "srun warns that two plugins"),
        (LINE + LINE, "", "fail", "monitor", "srun --help has --container-image 2 times"),
    ],
)
def test_pyxis_is_loaded_once(judged, output, errors, status, severity, words):
    judged.host.answers["/opt/slurm/bin/srun --help"] = CommandResult(0, output, errors)
    found = judged.of("pyxis.loaded")
    assert (found.status, found.severity) == (status, severity)
    assert (found.found or found.message).endswith(words) or (found.found or found.message).startswith(words)


def test_srun_without_answer_is_undeterminable(judged):
    judged.host.answers["/opt/slurm/bin/srun --help"] = CommandError(["srun"], None, "", "", "no answer")
    found = judged.of("pyxis.loaded")
    assert found.status == "undeterminable" and "no answer" in found.reason


@pytest.mark.parametrize("enabled", [True, False])
def test_boot_unit_has_to_be_enabled(judged, monkeypatch, enabled):
    monkeypatch.setattr(container_verify.enroot_files, "unit_enabled", lambda host: enabled)
    assert judged.of("enroot.boot_unit").status == ("pass" if enabled else "fail")


def test_missing_runtime_directory_is_named(judged, monkeypatch):
    monkeypatch.setattr(container_verify.enroot_files, "run_directories", lambda config: ["/run", "/run/none", "/no"])
    found = container_verify._runtime(judged.host, judged.config)
    assert (found.status, found.message) == ("fail", "/run/none, /no is missing: every boot creates it")


def test_type_of_runtime_directory_is_named(judged, monkeypatch):
    monkeypatch.setattr(container_verify.enroot_files, "run_directories", lambda config: [])
    for entry, word in (({"fstype": "ext4"}, "ext4"), (None, "unknown")):
        monkeypatch.setattr(container_verify, "find_mount", lambda path, table, entry=entry: entry)
        found = container_verify._runtime(judged.host, judged.config)
        assert (found.severity, f" is on {word}: " in found.message) == ("none", True)


class Wanted:
    """Settings of Enroot as they are, and as they should be."""

    def __init__(self, monkeypatch, now, wanted, mounts=()):
        settings = {key: Value(value) for key, value in now.items()}
        monkeypatch.setattr(container_verify.enroot_conf, "effective", lambda host: settings)
        self.credentials = []
        monkeypatch.setattr(
            container_verify.enroot_conf,
            "wanted_settings",
            lambda conf, credentials: self.credentials.append(credentials) or dict(wanted),
        )
        monkeypatch.setattr(container_verify, "read_mounts", lambda host: [{"target": "/", "fstype": "ext4"}, *mounts])
        monkeypatch.setattr(
            container_verify,
            "find_mount",
            lambda path, table: max((m for m in table if path.startswith(m["target"])), key=lambda m: len(m["target"])),
        )
        self.found = container_verify._conf(None, EnrootConfig())


class Value:
    def __init__(self, value):
        self.value = value


FSX = {"target": "/fsx", "fstype": "lustre"}
DATA = {"ENROOT_DATA_PATH": "/data/enroot", "ENROOT_TEMP_PATH": "/tmp"}


@pytest.mark.parametrize(
    ("now", "status", "words"),
    [
        (DATA, "pass", "2 settings as wanted"),
        ({**DATA, "ENROOT_DATA_PATH": "/fsx"}, "fail", "ENROOT_DATA_PATH is /fsx"),
        ({"ENROOT_DATA_PATH": "/data/enroot"}, "fail", "ENROOT_TEMP_PATH is not set"),
    ],
)
def test_settings_of_enroot_are_those_that_are_wanted(monkeypatch, now, status, words):
    found = Wanted(monkeypatch, now, DATA)
    assert (found.found.id, found.found.status) == ("enroot.conf", status)
    assert words in (found.found.found or found.found.message)
    assert found.credentials == [False]


@pytest.mark.parametrize("key", ["ENROOT_DATA_PATH", "ENROOT_CACHE_PATH", "ENROOT_TEMP_PATH", "ENROOT_RUNTIME_PATH"])
def test_directory_of_enroot_on_shared_file_system_fails(monkeypatch, key):
    found = Wanted(monkeypatch, {key: "/fsx/enroot"}, {}, [FSX]).found
    assert found.status == "fail" and found.message.startswith(f"{key} is on ")
    assert Wanted(monkeypatch, {key: "/data/enroot", "ENROOT_LIBRARY_PATH": "/fsx"}, {}, [FSX]).found.status == "pass"
