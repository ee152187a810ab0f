# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of Lustre on a good node with a tuned Lustre and an NFS file system."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.verify import verify

from tests.unit.ledger.walk import Excuse, Room, bounded, fact_leaves, room_tests
from tests.unit.plugins.module_utils._node.lustre.conftest import host
from tests.unit.plugins.module_utils._node.lustre.test_verify import good

__all__ = ["good", "host"]
NAME, NONE = "name or place that no verdict compares", "without it nothing is to be compared"
ASKED, OTHER = "what was requested", "for the role, and judged by nobody"
WORDS = ("N/A", "Unknown Error", "ERR!", "not supported", "NaN")
NUMBERS = ("zero", "half", "ten times")
LEDGER = (
    *(Excuse(name, ASKED) for name in ("machine/memory_kib", "machine/cpus", "tune")),
    Excuse("kernel/next", "it is judged by lustre.next_kernel, which does not apply here"),
    Excuse("kernel/installed/*", "another version", NUMBERS),
    *(Excuse(f"tools/{name}", NAME, WORDS) for name in ("lfs", "lctl", "modinfo")),
    Excuse("tools/lnetctl", "no file system is over EFA"),
    Excuse("package_manager", NAME, WORDS),
    Excuse("packages/*", "its version; that it is held is judged"),
    *(Excuse(f"*mounts/0/{name}", NAME) for name in ("path", "dns_name", "line")),
    Excuse("*mounts/0/efa", ASKED),
    Excuse("*mounts/0/source", "another server or path of the same name", NUMBERS),
    Excuse("mounts/0/mount_name", NONE, ("nothing", "empty")),
    Excuse("nfs_mounts/0/mount_name", NAME),
    Excuse("nfs_mounts/0/options", "an NFS may be for reading only"),
    *(Excuse(f"probes/*/{name}", NAME) for name in ("found", "device")),
    Excuse("probes/*/seconds", "how long it took", ("nothing",)),
    *(Excuse(f"{name}/0/source", NAME, ("empty", *WORDS)) for name in ("tuning", "module_options")),
    *(Excuse(f"{name}/0/name", NAME) for name in ("tuning", "module_options")),
    *(Excuse(name, OTHER) for name in ("modprobe_text", "efa_wanted", "efa_service", "boot_unit_enabled")),
    *(Excuse(name, OTHER) for name in ("mount_units/*", "config_text")),
)


def test_every_leaf(good):
    _sample, every_leaf, the_ledger = room_tests(Room("Lustre", good, fact_leaves(good), bounded(verify), LEDGER))
    every_leaf()
    the_ledger()


OVER_EFA = (
    Excuse("servers/0/nid", NAME),
    Excuse("servers/0/nets/1", "another net than EFA"),
    Excuse("servers/0/sent/efa", "more or fewer messages", ("half", "ten times")),
    Excuse("servers/0/sent/tcp", "EFA got messages too"),
    Excuse("nets/efa/nids", "that they are up is judged"),
    Excuse("nets/efa/up", "more than wanted", ("ten times",)),
    Excuse("efa_wanted", ASKED),
)


def test_every_leaf_of_the_path_over_efa(good):
    servers = [{"nid": "10.0.1.7@tcp", "nets": ["efa", "tcp"], "sent": {"efa": 90, "tcp": 4}}]
    facts = {"servers": servers, "nets": {"efa": {"nids": 2, "up": 2}}, "efa_wanted": 2}

    def judge(changed):
        mount = {**good["mounts"][0], "efa": True, "servers": changed["servers"]}
        return [one for one in verify({**good, **changed, "mounts": [mount]}) if one.id == "lustre.network"]

    room = Room("Lustre over EFA", facts, fact_leaves(facts), bounded(judge), OVER_EFA)
    _sample, every_leaf, the_ledger = room_tests(room)
    every_leaf()
    the_ledger()
