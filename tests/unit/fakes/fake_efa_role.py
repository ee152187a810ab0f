# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role efa_nccl on a simulated training node: its look, plan and verdicts, on files of the node."""

from __future__ import annotations

import hashlib
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import plan, role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.config import EfaConfig, parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Plan
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts

from tests.unit.fakes import fake_training_host as scene
from tests.unit.fakes.fake_training_host import TrainingHost

NCCL = {"name": "libnccl2", "version": "2.28.9-1+cuda13.0"}
# ID, VERSION_ID and NAME of os-release, as published images have them.
UBUNTU, AMAZON = ("ubuntu", "24.04", "Ubuntu"), ("amzn", "2023", "Amazon Linux")
DISTRIBUTIONS = {
    "debian-12": ("debian", "12", "Debian GNU/Linux"),
    "debian-13": ("debian", "13", "Debian GNU/Linux"),
    "ubuntu-22.04": ("ubuntu", "22.04", "Ubuntu"),
    "ubuntu-24.04": UBUNTU,
    "amazon-2023": AMAZON,
    "rhel-9": ("rhel", "9.4", "Red Hat Enterprise Linux"),
    "rocky-9": ("rocky", "9.5", "Rocky Linux"),
    "rhel-10": ("rhel", "10.0", "Red Hat Enterprise Linux"),
}
IS_DEBIAN = ("debian", "ubuntu")


def options(**settings: t.Any) -> EfaConfig:
    """The config of a role with these options, and the artifacts that the controller would give it."""
    version = settings.setdefault("installer_version", "1.43.0")
    if version == "1.43.0":
        settings.setdefault("installer_sha256", "1" * 64)
    found = {
        "artifact": _artifacts.find("aws-efa-installer", version=version),
        "tests_artifact": _artifacts.find("nccl-tests", version=settings.get("tests_version", "2.19.6")),
    }
    return parse_config({**found, **settings})


def bare(instance_type: str = "p5.48xlarge") -> TrainingHost:
    """A node as an image without any EFA software boots it."""
    host = scene.good_node(instance_type=instance_type)
    host.files = {path: text for path, text in host.files.items() if not path.startswith(("/opt/amazon", "/etc/sec"))}
    host.commands["dpkg-query -W"] = "bash\t5.2\tii \n"
    host.commands["ldconfig -p"] = scene.ldconfig()
    host.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n"
    return host


class Node:
    """A node with a role's options. ``sums`` are the checksums of the files that it has, ``states`` what of a file's
    state differs from a file of root's with mode 0644.
    """

    def __init__(
        self, host: TrainingHost | None = None, system: tuple[str, str, str] = UBUNTU, **settings: t.Any
    ) -> None:
        self.host = host or scene.good_node()
        self.config = options(**settings)
        self.sums: dict[str, str] = {}
        self.states: dict[str, dict[str, t.Any]] = {}
        name, version, title = system
        self.host.files["/etc/os-release"] = f'ID={name}\nVERSION_ID="{version}"\nNAME="{title}"\n'

    def facts(self) -> dict[str, t.Any]:
        self.host.sha256 = self.sums.get  # type: ignore[method-assign, assignment]
        found = role.look(self.host, self.config)
        plain = {"mode": "0644", "uid": 0, "gid": 0, "is_dir": False, "is_link": False}
        found["paths"].update({path: {**plain, **self.states.get(path, {})} for path in self.sums})
        return found

    def plan(self) -> Plan:
        return plan.make_plan(self.facts(), self.config)

    def differences(self) -> list[str]:
        return self.plan().differences()

    def texts(self) -> dict[str, str]:
        """The files that would be written."""
        return {entry.path: entry.text for entry in self.plan().files if entry.state == "present"}

    def problems(self) -> list[str]:
        """Return the problems of the node besides differences."""
        results = role.verify(self.facts(), self.config)
        return [result.line() for result in results if result.status not in ("pass", "not_applicable")]

    def settle(self) -> Node:
        """Apply the holds and files of the role to the node."""
        held = [(name, version, "hi ") for name, version, _status in scene.DPKG]
        self.host.commands["dpkg-query -W"] = scene.dpkg(held)
        self.sums.update({path: hashlib.sha256(text.encode()).hexdigest() for path, text in self.texts().items()})
        return self
