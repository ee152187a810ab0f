# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container that fits its host: the host's facts, the answers of what is loaded and imported, and the files read."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import container as health_container

from tests.unit.ledger.walk import Excuse, Room, bounded, fact_leaves, room_tests
from tests.unit.plugins.module_utils._node.health.test_container import BOOT, FACTS, TORCH, container, facts, python

__all__ = ["python"]
NAMES, CUDA = '["ofi", "libnccl-net-ofi.so"]', '["libcuda.so.1"]'
READ = (BOOT, "/usr/local/cuda/version.json", "/proc/self/mountinfo", "/proc/driver/nvidia/version")
NAME, KERNEL = "name or place that no verdict compares", "the kernel is the same inside and outside, and read inside"
OLDER, NEWER = "an older one, or none, on the host is as good", "a newer one is as good"
WORDS = ("N/A", "Unknown Error", "ERR!", "not supported", "NaN")
NUMBERS = ("zero", "half", "ten times")
LEDGER = (
    *(Excuse(f"host/{name}.version", OLDER, ("nothing", "zero", "half")) for name in ("nccl", "plugin", "libfabric")),
    *(Excuse(f"host/{name}", OLDER, ("nothing", "empty", "zero", "half")) for name in
      ("cuda.toolkit", "pytorch.version", "megatron.version")),
    *(Excuse(f"host/pytorch.{name}", "of the host's PyTorch only its version counts") for name in ("cuda", "nccl")),
    *(Excuse(f"host/{name}", KERNEL) for name in ("driver", "libcuda")),
    Excuse("host/root", "another device of the host", NUMBERS),
    Excuse("host/volumes/0/path", NAME),
    *(Excuse(f"torch/{name}.version", NEWER, ("ten times",)) for name in ("pytorch", "megatron")),
    *(Excuse(f"torch/pytorch.{name}", "the toolkit's and NCCL's own files are read") for name in ("cuda", "nccl")),
    *(Excuse(f"net/{name}", NAME, ("empty", *WORDS)) for name in ("name", "files/0")),
    Excuse("net/files/1", "another release of libfabric", NUMBERS),
    Excuse("net/symbols/0", "any generation of the interface", NUMBERS),
    *(Excuse(f"cuda/{name}", NAME) for name in ("name", "path", "files/0")),
    Excuse("cuda/version", "told; container.driver_for_cuda compares driver and toolkit", ("half", "ten times")),
    Excuse("files//proc/self/mountinfo", "another number of a mount", NUMBERS),
    Excuse("files//proc/driver/nvidia/version", "another text before the version", NUMBERS),
)  # fmt: skip


def good():
    host = container()
    read = {path: text for path, text in host.files.items() if path in READ}
    # Their time is left out: the boot ID, which is checked, covers their age.
    outside = {name: value for name, value in json.loads(facts()).items() if name != "time"}
    return {"host": outside, "torch": TORCH, "net": host.loads[NAMES], "cuda": host.loads[CUDA], "files": read}


def judge(changed):
    host = container(**changed["torch"])
    host.loads.update({NAMES: changed["net"], CUDA: changed["cuda"]})
    for path, text in changed["files"].items():
        host.files.pop(path) if text is None else host.files.update({path: text})
    host.files[FACTS] = json.dumps(changed["host"])
    return health_container.verify_container(host, FACTS, {})


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize("number", range(3))
def test_room(number):
    room_tests(Room("container", good(), fact_leaves(good()), bounded(judge), LEDGER))[number]()
