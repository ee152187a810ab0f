# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check that a node, a job or a report can fail has its line in the catalogue of failures, and no other has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data.accelerator_versions import COMPONENTS
from ansible_collections.mlcluster.aws.plugins.module_utils._data.checklists import CHECKLISTS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import container as health_container
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import dcgm as health_dcgm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import verify_io as slurm_verdict_io
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run.names import ROLES

CHECKOUT = Path(__file__).resolve().parents[2]
CATALOGUE = CHECKOUT / "docs" / "guides" / "failure-catalogue.md"
PLACES = ("plugins/module_utils/_node", "plugins/plugin_utils", "plugins/action", "plugins/modules")
TESTS = ("tests/unit", "tests/integration", "tests/vm")
# The first words of ids; a text that begins with none of them is none.
FAMILIES = (
    "checklist container dcgm docker efa enroot expect gds gpu imex inventory io job lustre mounts nccl nccom neuron "
    "nfs node pcluster preflight pyxis run s3 scratch slurm smoke storage versions"
).split()
ID = re.compile(rf"(?:{'|'.join(FAMILIES)})\.[a-z0-9_]+(?:\.[a-z0-9_]+)*")
# Names of facts, files, packages, modules, services and groups of checks that look the same.
NO_IDS = {
    "container.scan",
    "docker.io",
    "docker.service",
    "job.json",
    "nccl.conf",
    "nccl.version",
    "pyxis.conf",
    "slurm.notice",
}
# The end of an entry that stands for all of a family: what others name, and what a site lists.
REST = ".…"
# Ids that the code composes from parts.
COMPOSED = {
    *(f"versions.{component}" for component in COMPONENTS),
    *(check["id"] for checks in CHECKLISTS.values() for check in checks),
    *(f"container.{name}" for name in health_container.COMPONENTS),
    *(f"dcgm.{field.name}" for field in health_dcgm.FIELDS),
    *(f"expect.{what}" for what in ("gpus", "disks")),
    *(f"{prefix}.{what}" for prefix in ("smoke", "container") for what in ("tasks", "placement", "hosts", "gpus")),
    *(
        f"{tool}.{what}"
        for tool in ("nccl", "nccom")
        for what in ("correct", "fabric", "bandwidth", "complete", "nodes")
    ),
    *(f"io.fio.{mode}" for mode in slurm_verdict_io.MEASURES),
    *(f"io.ior.{operation}" for operation in ("write", "read")),
    *(f"{check}.report" for check in ("node", "gds", "container")),
    *(f"efa.{library}" for library in ("nccl", "nvshmem")),
    *(f"inventory.{what}" for what in ("disks", "gpus", "efa", "slurm")),
    *(f"run.{role}" for role in ROLES),
}
# A composed name that is not an id: the fact of a checklist's size.
NO_PATTERNS = {"size.{}"}
VERDICTS = {"passed", "failed", "undeterminable", "not_applicable"}


def trees():
    sources = {place: sorted((CHECKOUT / place).rglob("*.py")) for place in PLACES}
    assert all(sources.values()), f"no Python files below {[place for place in PLACES if not sources[place]]}"
    return [ast.parse(path.read_text(encoding="utf-8")) for paths in sources.values() for path in paths]


@pytest.fixture(scope="module")
def nodes():
    return [node for tree in trees() for node in ast.walk(tree)]


def literal_ids(nodes):
    """Every id that stands in the code as it is."""
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if ID.fullmatch(text)} - NO_IDS


def composed_parts(nodes):
    """The patterns of ids that the code puts together where it gives a verdict, or for ``check`` before it does."""
    found = set()
    for node in nodes:
        values = []
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            values = node.args[:1] if name in VERDICTS else []
        elif isinstance(node, ast.Assign):
            values = [node.value, *getattr(node.value, "elts", [])]
            named = [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
            values = values if "check" in named else []
        for value in values:
            if isinstance(value, ast.JoinedStr):
                parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in value.values)
                found.add("".join(parts))
    return found


def verdict_calls(nodes):
    """The literal first argument of every call that makes a verdict."""
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in VERDICTS:
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def test_each_verdict_is_of_known_family(nodes):
    ids = set(verdict_calls(nodes))
    assert len(ids) > 50, "the calls that make verdicts are not found"
    strange = sorted(name for name in ids if not ID.fullmatch(name))
    assert strange == [], "add the first word of each to FAMILIES in this file: the other tests then ask for the rest"


def catalogued():
    """The ids in the first column of the tables whose first heading is ``verdict``."""
    found, inside = set(), False
    for line in CATALOGUE.read_text(encoding="utf-8").splitlines():
        first = line.split("|")[1].strip() if line.startswith("|") else None
        if first is None:
            inside = False
        elif first == "verdict":
            inside = True
        elif inside:
            found.update(re.findall(r"`([^`]+)`", first))
    return found


def test_every_id_is_in_catalogue(nodes):
    listed = catalogued()
    missing = [name for name in literal_ids(nodes) | COMPOSED if not {name, name.split(".")[0] + REST} & listed]
    assert sorted(missing) == [], "add a line for each to docs/guides/failure-catalogue.md"


def test_catalogue_has_no_other(nodes):
    strange = {name for name in catalogued() if not name.endswith(REST)} - literal_ids(nodes) - COMPOSED
    assert sorted(strange) == [], (
        "no check has these ids: add their first word to FAMILIES, or take their lines out of the catalogue"
    )


def test_composed_ids_are_in_catalogue(nodes):
    listed = catalogued()
    for pattern in composed_parts(nodes) - NO_PATTERNS:
        known = re.compile(re.escape(pattern).replace(r"\{\}", r"[a-z0-9_.…]+"))
        assert any(known.fullmatch(name) for name in listed), f"no line of the catalogue is for {pattern}"


# Verdicts whose test names no id of theirs yet. A verdict that is not in this list needs a test; the list only shrinks.
UNTESTED = {
    *(f"container.{name}" for name in ("cuda", "hosts", "report")),
    *(f"dcgm.{name}" for name in ("ecc_corrected", "pcie_replays")),
    *(f"dcgm.{name}" for name in ("remapped_corrected", "remapped_uncorrected")),
    *("node.versions", "scratch.quota", "versions.installer"),
}


def ids_in_tests(ids):
    """Those of ``ids`` that stand in some test."""
    paths = [path for place in TESTS for path in (CHECKOUT / place).rglob("*.py") if path != Path(__file__)]
    assert len(paths) > 200, f"only {len(paths)} tests below {TESTS}"
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    # Not a longer name that begins so.
    return {name for name in ids if re.search(rf"{re.escape(name)}(?![a-z0-9_])", text)}


def test_each_verdict_is_named_in_test(nodes):
    ids = literal_ids(nodes) | COMPOSED
    untested = ids - ids_in_tests(ids)
    assert sorted(untested - UNTESTED) == [], "write a test that names each"
    assert sorted(UNTESTED - untested) == [], "they have a test or are gone: take them out of UNTESTED"


def test_composed_ids_are_found_where_they_are_made(nodes):
    assert {"versions.{}", "io.fio.{}", "{}.tasks"} <= composed_parts(nodes)
    assert {"storage.members", "gpu.xid", "lustre.network", "node.answer"} <= literal_ids(nodes)
