# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: the data path from files to GPUs, by gdsio."""

from __future__ import annotations

from ...system.host import Host
from ...verdict import result
from .. import verify_io as io
from ..job import Job
from ..kind import Kind
from ..options import COUNT, GIB_PER_SECOND, Option, Type, choices, is_path, list_of
from ..step import each_node
from ..work import Work


def run(work: Work) -> None:
    """Find the active path of each mount on each node, and measure it by gdsio.

    gdsio prints the requested path even if it used another, so a probe first finds the active one.
    """
    values, gdsio = work.spec.values, work.spec.tools["gdsio"]
    report = {"output": work.file("node-%N.json"), "error": work.file("node-%N.err")}
    work.run(
        *each_node(work.nodes, **report),
        *work.spec.mlcluster,
        *("gds", "--json", "--active", "--bandwidth", "--bandwidth-mib", str(values["size_mib"])),
        *(("--baseline", str(float(values["least_gib"]))) if values["least_gib"] else ()),
        *(("--gdsio", gdsio) if gdsio else ()),
        *(word for mode in values["modes"] for word in ("--require", mode)),
        *values["mounts"],
    )


def judge_gds_io(job: Job, host: Host) -> list[result.Result]:
    """Return the verdicts on the active path to the GPUs on each mount of each node, with gdsio's figures."""
    return io.node_reports(job, host, "gds")


MODES = ("nvfs", "p2pdma", "compat")
KIND = Kind(
    "Which path do files take to the GPUs of each node, and how fast?",
    "the path of files to the GPUs of each node (`nvfs`, `p2pdma`, `compat`, `none`), with a file on each mount, "
    "and its speed by gdsio; a figure only counts for a proved direct path. One of `modes` must be active",
    run=run,
    judge=judge_gds_io,
    nodes="all",
    tasks="one",
    minutes=30,
    accelerator="gpu",
    options={
        "mounts": Option(Type(list_of(is_path, 1), "a list of absolute paths"), [], required=True),
        "modes": Option(choices(*MODES, wanted=f"a list of {', '.join(MODES)}, any of which will do"), []),
        "size_mib": Option(Type(COUNT.accepts, "an integer (MiB)"), 1024),
        "least_gib": Option(GIB_PER_SECOND, 0),
    },
    asked=("mounts",),
    tools=("gdsio",),
    example={"mounts": ["/fsx"]},
)
