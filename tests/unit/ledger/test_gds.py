# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with a path through nvidia-fs: its files, and what libcufile answers to each question."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.decide import survey
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.gdsio import compare, parse_gdsio
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.verify import verify

from tests.unit.fakes.fake_gds_host import Asker, load_nvidia_fs, node, outcome
from tests.unit.ledger.walk import Excuse, Leaf, Room, bounded, fact_leaves, room_tests


def good():
    host = node()
    load_nvidia_fs(host)
    return {"files": host.files, "open": outcome(step="open"), "strict": outcome()}


def judge(facts, required=("nvfs",)):
    host = node()
    host.files = {path: text for path, text in facts["files"].items() if text is not None}
    found = survey(host, ["/data"], True, asker=Asker(facts["open"], strict=facts["strict"]))
    return verify(found, required)


OTHER = "needed by the other path only, or a layout of other disks; the file that libcufile opened proves this one"
WORDS = ("N/A", "Unknown Error", "ERR!", "not supported", "NaN")
REPORTED = "reported only; no verdict depends on it"
ROOM = Room(
    "GDS",
    good(),
    fact_leaves(good()),
    bounded(judge),
    (
        Excuse("files//proc/driver/nvidia/version", "another version of the driver", ("zero", "half", "ten times")),
        *(Excuse(f"files//proc/driver/nvidia/{name}", OTHER) for name in ("params", "gpus/*")),
        *(Excuse(f"files//proc/{name}", OTHER) for name in ("sys/*", "kallsyms")),
        *(Excuse(f"files//sys/{name}", OTHER) for name in ("module/*", "class/block/*")),
        Excuse("files//proc/self/mountinfo", "another number of a mount", ("zero", "half", "ten times")),
        Excuse("files//run/udev/*", "any property of a disk", ("nothing", *WORDS)),
        Excuse("files/*/libcufile.so.0", "it is opened, and not read", WORDS),
        *(Excuse(f"files//proc/driver/nvidia-fs/{name}", "another version", ("zero", "half", "ten times"))
          for name in ("version", "modules")),
        *(Excuse(f"*/{name}", REPORTED) for name in ("step", "reason", "io")),
        *(Excuse(f"{name}/version", REPORTED) for name in ("open", "strict")),
        *(Excuse(f"{name}/seconds", "how long it took", ("nothing", "zero", "half", "ten times"))
          for name in ("open", "strict")),
        Excuse("open/table/compatible", "the driver opens in that mode too; the answer 'strict' has the path"),
    ),
)  # fmt: skip
test_sample, test_every_leaf, test_ledger = room_tests(ROOM)

LINE = (
    "IoType: READ XferType: {} Threads: 8 DataSetSize: 1048576/1048576(KiB) IOSize: 1024(KiB) Throughput: 6.500000 "
    "GiB/sec, Avg_Latency: 1200.500000 usecs ops: 1024 total_time 0.153846 secs"
)
MOUNT = {"path": "/data", "mode": "nvfs", "proof": "active", "reason": ""}
NAMES = ("", "IoType", "", "XferType", "", "Threads", "", "DataSetSize", "", "IOSize", "", "Throughput", "", "",
         "Avg_Latency", "", "", "ops", "", "total_time", "")  # fmt: skip


def measured(line):
    runs = {"GPUD": parse_gdsio(line), "CPU_GPU": parse_gdsio(LINE.format("CPU_GPU"))}
    return [compare(MOUNT, runs, 6.0)]


def word(index):
    words = LINE.format("GPUD").split(" ")

    def replaced(text):
        return " ".join([*words[:index], *([] if text is None else [text]), *words[index + 1 :]])

    return Leaf(f"{NAMES[index]}/value", words[index], replaced)


GDSIO = Room(
    "gdsio",
    LINE.format("GPUD"),
    [word(index) for index, name in enumerate(NAMES) if name],
    bounded(measured),
    (Excuse("Avg_Latency/value", "any but none; the throughput is judged", ("half", "ten times")),),
)
test_gdsio_sample, test_gdsio_every_leaf, test_the_ledger_of_gdsio = room_tests(GDSIO)
