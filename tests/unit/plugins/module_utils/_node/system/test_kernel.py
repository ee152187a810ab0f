# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.kernel import kernel_modules

from tests.unit.fakes.fake_gds_host import GdsHost, node


def test_modules_of_running_and_next_kernel():
    host = node()
    host.programs["modinfo"] = "/sbin/modinfo"
    for release in ("6.8.0-1021-aws", "6.8.0-1009-aws", "6.8.0-1100-aws"):
        host.files[f"/lib/modules/{release}/modules.dep"] = ""
    host.files["/lib/modules/6.9.0-removed/updates/left-over.ko"] = ""
    host.commands["modinfo -k 6.8.0-1021-aws -F vermagic nvidia-fs"] = "6.8.0-1021-aws SMP\n"
    host.commands["modinfo -k 6.8.0-1021-aws -F version nvidia-fs"] = "2.27.3\n"
    host.commands["modinfo -k 6.8.0-1009-aws -F vermagic nvidia-fs"] = "6.8.0-1009-aws SMP\n"
    assert kernel_modules(host) == {
        "running": "6.8.0-1021-aws",
        "next": "6.8.0-1100-aws",
        "installed": {"6.8.0-1021-aws": "2.27.3", "6.8.0-1009-aws": "unknown", "6.8.0-1100-aws": None},
    }


def test_modules_that_cannot_be_asked_for():
    host = node()
    host.files["/lib/modules/6.8.0-1021-aws/modules.dep"] = ""
    assert kernel_modules(host)["installed"] == {}
    assert kernel_modules(GdsHost()) == {"running": None, "next": None, "installed": {}}


def test_kernel_of_unfinished_installation_boots_next():
    host = node()
    host.files["/lib/modules/6.8.0-1021-aws/modules.dep"] = ""
    host.files["/lib/modules/6.8.0-1100-aws/kernel/a.ko"] = ""
    assert kernel_modules(host)["next"] == "6.8.0-1021-aws"
    host.files["/boot/vmlinuz-6.8.0-1100-aws"] = ""
    assert kernel_modules(host)["next"] == "6.8.0-1100-aws"
