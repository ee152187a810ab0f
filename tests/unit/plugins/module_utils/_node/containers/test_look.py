# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at a node with Slurm, the plan of what differs, and the verdicts."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import local_directories as enroot_local
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import look as enroot
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import (
    EnrootConfig,
    parse_config,
    problems,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plugstack_write import (
    Wanted,
    apply_changes,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

STACK = "/opt/slurm/etc/plugstack.conf"
PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"
FRESH = ["enroot", "plugin", "plugstack", "conf", "tmpfiles", "unit", "slurmd"]


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def plan_of(host, config=None, build="", **wishes):
    config = config or EnrootConfig(**wishes)
    return enroot.make_plan(host, enroot.survey(host, config), config, build)


def converge(host, **wishes):
    """Do what the role does with a plan."""
    plan = plan_of(host, **wishes)
    for file in plan.files:
        host.remove(file["path"]) if file["state"] == "absent" else host.write_text(file["path"], file["text"])
    if plan.plugstack:
        wanted = {key: value for key, value in plan.plugstack.items() if key != "path"}
        apply_changes(host, plan.plugstack["path"], Wanted(**wanted))
        host.answers["/opt/slurm/bin/srun --help"] = "      --container-image=[USER@][REGISTRY#]IMAGE\n"
    enroot_local.prepare(host, EnrootConfig(**wishes).local)
    host.folder("/run/enroot", 0o1777)
    host.folder("/run/pyxis")
    host.put("/etc/systemd/system/multi-user.target.wants/mlcluster-containers.service")
    return plan


def verdicts(host, **wishes):
    config = EnrootConfig(**wishes)
    facts = enroot.survey(host, config)
    return {result.id: result for result in verify(host, facts, enroot.make_plan(host, facts, config), config)}


def test_a_node_without_slurm_is_not_concerned(tmp_path):
    host = rooted.RootedHost(tmp_path)
    assert enroot.survey(host, EnrootConfig()) == {"slurm": None}
    assert plan_of(host).parts == []
    assert [result.status for result in verdicts(host).values()] == ["not_applicable"]


def test_a_slurm_that_does_not_answer_is_refused(host):
    del host.answers["/opt/slurm/bin/scontrol --version"]
    assert "asked /opt/slurm/bin/scontrol for its version and got none" in plan_of(host).refusals[0]


def test_a_fresh_node_and_a_second_look(host):
    assert plan_of(host, build="0.24.0").parts == FRESH
    rooted.with_pyxis(rooted.with_enroot(host))
    assert converge(host).parts == ["plugstack", *FRESH[3:]]
    assert plan_of(host).parts == []
    told = verdicts(host)
    assert {name for name, result in told.items() if result.status != "pass"} == {"pyxis.node", "enroot.nvidia"}
    assert told["pyxis.node"].status == told["enroot.nvidia"].status == "not_applicable"


def test_what_parallelcluster_ships_is_adopted(host):
    rooted.with_pyxis(rooted.with_enroot(host, "3.4.1"))
    plan = plan_of(host, build="0.24.0")
    assert plan.plugin["path"] == PLUGIN
    assert "enroot" not in plan.parts
    assert "plugin" not in plan.parts


@pytest.mark.parametrize("version", ["3.0.9", "2.2.0"])
def test_an_old_enroot_is_not_good(host, version):
    rooted.with_enroot(host, version)
    assert "enroot" in plan_of(host).parts
    assert verdicts(host)["enroot.version"].status == "fail"


def test_an_enroot_without_capabilities_cannot_import(host):
    host.put("/usr/bin/enroot")
    host.answers["/usr/bin/enroot version"] = "4.1.2"
    assert "enroot" in plan_of(host).parts
    assert "enroot" not in plan_of(host, caps=False).parts
    assert verdicts(host, caps=False)["enroot.caps"].status == "not_applicable"


def test_another_micro_version_is_loaded(host):
    rooted.with_pyxis(host, slurm=0x160503)
    assert plan_of(host).plugin["slurm_version"] == "22.05.3"


def prove(host):
    facts = enroot.survey(host, EnrootConfig())
    host.put(enroot.PROOF_PATH, enroot.proof_text(host, facts, PLUGIN))


def test_required_only_after_a_proof_with_this_plugin_and_this_slurm(host):
    rooted.with_pyxis(rooted.with_enroot(host))
    assert plan_of(host, plugstack_mode="required").plugstack["word"] == "optional"
    prove(host)
    assert plan_of(host, plugstack_mode="required").plugstack["word"] == "required"
    assert plan_of(host).plugstack["word"] == "optional"
    rooted.with_pyxis(host, pyxis="0.24.0")
    assert plan_of(host, plugstack_mode="required").plugstack["word"] == "optional"
    host.put(enroot.PROOF_PATH, "{}")
    assert plan_of(host, plugstack_mode="required").plugstack["word"] == "optional"


def test_an_option_that_the_installed_plugin_does_not_know_is_refused(host):
    rooted.with_pyxis(rooted.with_enroot(host))
    plan = plan_of(host, plugin_options={"use_squashfuse": True})
    assert "needs Pyxis 0.22.0 and version 0.20.0 would refuse to start" in plan.refusals[0]
    assert plan.plugstack is None


@pytest.mark.parametrize(
    ("fstype", "wish", "writes"),
    [("nfs4", "auto", False), ("nfs4", "always", True), ("ext4", "auto", True), ("ext4", "never", False)],
)
def test_only_the_owner_of_slurms_files_writes_plugstack(host, fstype, wish, writes):
    rooted.mount(host, "/opt/slurm", fstype)
    rooted.with_pyxis(rooted.with_enroot(host))
    assert (plan_of(host, manage_plugstack=wish).plugstack is not None) == writes


ELSEWHERE = "/usr/lib/slurm/spank_pyxis.so"
OWN = "/usr/local/lib/mlcluster/pyxis/22.05.8/spank_pyxis.so"


@pytest.mark.parametrize(
    ("listed", "parts", "links"),
    [
        # What the head node lists is here.
        (PLUGIN, set(), []),
        # The head node built one of its own; this node's image ships another, which is not listed.
        (OWN, {"plugin"}, []),
        # The head node's image has one where this node's has none.
        (ELSEWHERE, {"plugin", "links"}, [{"path": ELSEWHERE, "target": OWN}]),
    ],
)
def test_a_node_that_does_not_write_the_list_needs_what_is_listed(host, listed, parts, links):
    rooted.mount(host, "/opt/slurm", "nfs4")
    rooted.with_pyxis(rooted.with_enroot(host))
    host.put(STACK, f"required {listed}\n")
    plan = plan_of(host, build="0.24.0")
    assert set(plan.parts) & {"plugin", "links", "plugstack"} == parts
    assert plan.links == links
    assert plan.plugin["path"] == (OWN if parts else PLUGIN)
    rooted.with_pyxis(host, OWN)
    assert "plugin" not in plan_of(host, build="0.24.0").parts


def test_a_configless_cluster(host):
    host.put("/opt/slurm/etc/slurm.conf", "SlurmctldParameters=enable_configless\n")
    rooted.with_pyxis(host)
    assert plan_of(host).plugstack["include"] == "file"
    assert plan_of(host, plugstack_include="glob").plugstack["include"] == "glob"


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ("Usage: srun\n", "fail", "srun --help has no --container-image"),
        (CommandResult(0, "", "srun: error: spank: Permission denied"), "fail", "Permission denied"),
        (
            CommandResult(0, "   --container-image=X\n   --container-image=X\n", "provided by both a and b"),
            "fail",
            "two plugins",
        ),
        (CommandResult(1, "", "srun: no configuration"), "undeterminable", "gave no answer"),
    ],
)
def test_srun_is_asked_whether_the_option_is_there(host, answer, status, words):
    rooted.with_pyxis(rooted.with_enroot(host))
    converge(host)
    host.answers["/opt/slurm/bin/srun --help"] = answer
    verdict = verdicts(host)["pyxis.loaded"]
    assert verdict.status == status
    assert words in verdict.line()


def test_the_main_file_as_the_roles_own(host):
    host.put("/etc/enroot/enroot.conf", "ENROOT_DATA_PATH /fsx\n")
    assert "the first value wins" in plan_of(host).refusals[0]
    plan = plan_of(host, conf_owner="role")
    assert plan.refusals == []
    assert {file["path"]: file["backup"] for file in plan.files}["/etc/enroot/enroot.conf"]


def test_paths_of_a_site_on_a_shared_filesystem_fail(host):
    rooted.mount(host, "/fsx", "lustre")
    rooted.with_pyxis(rooted.with_enroot(host))
    wishes = {"conf": {"ENROOT_DATA_PATH": "/fsx/enroot/user-$(id -u)"}}
    converge(host, **wishes)
    assert "ENROOT_DATA_PATH is on Lustre" in verdicts(host, **wishes)["enroot.conf"].message


def test_hooks_are_links_to_what_enroot_ships(host):
    plan = plan_of(host, hooks=("50-slurm-pmi.sh",))
    assert plan.links == [
        {"path": "/etc/enroot/hooks.d/50-slurm-pmi.sh", "target": "/usr/share/enroot/hooks.d/50-slurm-pmi.sh"}
    ]
    host.put("/etc/enroot/hooks.d/50-slurm-pmi.sh")
    assert plan_of(host, hooks=("50-slurm-pmi.sh",)).links == []


def test_runtime_space(host):
    rooted.with_pyxis(rooted.with_enroot(host))
    converge(host)
    assert verdicts(host)["enroot.runtime"].status == "pass"
    assert verdicts(host, runtime_min_mib=1 << 20)["enroot.runtime"].status == "fail"
    host.free_bytes = lambda path: None
    assert verdicts(host)["enroot.runtime"].status == "undeterminable"


def test_all_problems_of_the_settings_at_once():
    config = parse_config(
        {
            "plugin_options": {"colour": 1},
            "conf": {"PATH": "/"},
            "local_dir": "x",
            "hooks": ["evil.sh"],
            "slurm_prefix": "opt",
            "smoke_image": "x.sqsh",
            "smoke_users": ["root", "a b"],
            "max_user_namespaces": 1,
        }
    )
    assert len(problems(config)) == 9
    assert problems(EnrootConfig()) == []
    assert "smoke_users is empty" in problems(EnrootConfig(smoke_image="/x.sqsh"))[0]


def test_the_plan_can_be_written_as_json(host):
    json.dumps(plan_of(host, build="0.24.0").as_dict())
