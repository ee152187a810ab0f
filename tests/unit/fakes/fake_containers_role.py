# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role enroot_pyxis on a fake rooted host: look, plan, and the effects of its tasks."""

from __future__ import annotations

import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import files, role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import (
    RoleConfig,
    parse_role,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.local_directories import prepare
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plan import make_plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plugstack_write import (
    PluginRequest,
    apply_changes,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.units import WANTS

from tests.unit.fakes.fake_rooted_host import RootedHost, with_enroot, with_pyxis

BASE = "https://example.com"
PLATFORMS = {
    "deb-amd64": "{name}_{{version}}-1_amd64.deb",
    "deb-arm64": "{name}_{{version}}-1_arm64.deb",
    "rpm-x86_64": "{name}-{{version}}-1.el8.x86_64.rpm",
    "rpm-aarch64": "{name}-{{version}}-1.el8.aarch64.rpm",
}
SUMS = {"4.1.2": "a" * 64, "4.1.1": "b" * 64, "0.24.0": "c" * 64}
# Artifacts, as the controller passes them.
ARTIFACTS = [
    {
        "name": name,
        "platform": platform,
        "url": f"{BASE}/{file.format(name=published)}",
        "sums": SUMS,
    }
    for platform, file in PLATFORMS.items()
    for name, published in (("enroot", "enroot"), ("enroot-caps", "enroot%2Bcaps"))
] + [{"name": "pyxis", "platform": "any", "url": f"{BASE}/v{{version}}.tar.gz", "sums": SUMS}]


def config_of(**options: t.Any) -> RoleConfig:
    """The options, with sound artifacts."""
    return parse_role({"artifacts": ARTIFACTS, **options})


def facts_of(host: RootedHost, **options: t.Any) -> dict[str, t.Any]:
    return role.look(host, config_of(**options))


def plan_of(host: RootedHost, **options: t.Any) -> Plan:
    return make_plan(facts_of(host, **options), config_of(**options))


def step(plan: Plan, name: str) -> dict[str, t.Any] | None:
    """The arguments of the plan's step of that name, None without one."""
    found = [entry.arguments for entry in plan.steps if entry.name == name]
    return dict(found[0]) if found else None


def texts(plan: Plan) -> dict[str, str]:
    """The text of each file that is to be written, validated ones too."""
    found = {entry.path: entry.text for entry in plan.files if entry.state == "present"}
    validated = [entry.arguments for entry in plan.steps if entry.name == "validated"]
    return {**found, **{entry["path"]: entry["text"] for entry in validated}}


def carry_out(host: RootedHost, plan: Plan, **options: t.Any) -> None:
    """Simulate the role's tasks, as far as a look detects it."""
    config = config_of(**options)
    for package in plan.packages:
        if package.url:
            with_enroot(host, config.enroot_version)
        elif package.name.startswith("docker"):
            host.put("/usr/bin/dockerd", mode=0o755)
            host.answers.setdefault("/usr/bin/dockerd --version", "Docker version 22.0.1, build x\n")
        else:
            host.put("/usr/bin/nvidia-container-cli", mode=0o755)
            version = config.enroot.toolkit_version.partition("-")[0] or "1.17.8"
            host.answers["/usr/bin/nvidia-container-cli --version"] = f"cli-version: {version}\n"
    for path, text in texts(plan).items():
        host.put(path, text)
    for file in plan.files:
        if file.state == "absent":
            host.remove(file.path)
    made = step(plan, "plugin")
    if made:
        with_pyxis(host, made["path"], pyxis=made["version"])
    if step(plan, "runtime") is not None:
        host.put(files.COMMAND_PATH)
    for link in (step(plan, "links") or {"links": []})["links"]:
        host.put(link["path"])
    listed = step(plan, "plugstack")
    if listed:
        own = {key: listed[key] for key in ("plugin", "keyword", "options", "include", "duplicates")}
        apply_changes(host, listed["path"], PluginRequest(**own))
        host.answers["/opt/slurm/bin/srun --help"] = "      --container-image=[USER@][REGISTRY#]IMAGE\n"
    for path in files.run_directories(config.enroot):
        host.folder(path, 0o1777)
    if plan.units:
        prepare(host, config.enroot.local)
        host.put(f"{WANTS}/{files.UNIT}")
