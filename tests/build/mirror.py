# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rule that every source file has a unit test at the mirrored path, and the files that have none yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

UNIT = Path(__file__).resolve().parents[1] / "unit"
SOURCES = ("plugins/module_utils/_node/", "plugins/plugin_utils/", "plugins/modules/")

# Files below plugins/ without a test of their own, and a test below tests/unit that runs them. Only shrinks.
ELSEWHERE = {
    "module_utils/_node/health/s3.py": "plugins/module_utils/_node/health/test_expectations.py",
    "module_utils/_node/jobs/job.py": "plugins/module_utils/_node/jobs/test_collectives.py",
    "module_utils/_node/jobs/kind.py": "plugins/module_utils/_node/jobs/test_tasks.py",
    "module_utils/_node/jobs/options.py": "plugins/module_utils/_node/jobs/test_tasks.py",
    "module_utils/_node/jobs/sweep.py": "plugins/module_utils/_node/jobs/test_collectives.py",
    "module_utils/_node/storage/volume.py": "plugins/module_utils/_node/storage/test_apply.py",
    "plugin_utils/_ec2/enrich.py": "plugins/plugin_utils/_ec2/test_cache.py",
    "plugin_utils/_ec2/options.py": "plugins/plugin_utils/_ec2/test_record.py",
    "plugin_utils/_ec2/session.py": "plugins/inventory/test_ec2_nodes_stubs.py",
    "plugin_utils/_report/assets.py": "plugins/plugin_utils/_report/test_html.py",
    "plugin_utils/_slurm/jobs.py": "plugins/plugin_utils/_slurm/test_job_problems.py",
}


# Folders whose files are entries of a registry, and the test that asks the same of each: a new entry needs no other.
REGISTRIES = {"plugins/module_utils/_node/jobs/kinds": "test_kinds.py"}


def tests_of(path: str) -> list[str]:
    """Return the names, below tests/unit, that the test of a source file may have."""
    folder, _slash, name = path.rpartition("/")
    if folder in REGISTRIES:
        return [f"{folder}/{REGISTRIES[folder]}"]
    return [f"{folder}/test_{name}", f"{folder}/test_{name.lstrip('_')}"]


def mirror(path: str, text: str) -> Iterator[str]:
    """Source files of nodes, modules and plugin_utils without a unit test at the mirrored path."""
    if not path.startswith(SOURCES) or not path.endswith(".py") or path.endswith("__init__.py") or not text.strip():
        return
    name = path[len("plugins/") :]
    own = any((UNIT / test).is_file() for test in tests_of(path))
    if own and name in ELSEWHERE:
        yield f"{path}:1: has a test of its own now: take it out of ELSEWHERE in tests/build/mirror.py"
    elif not own and name not in ELSEWHERE:
        yield f"{path}:1: has no test: write tests/unit/{tests_of(path)[-1]}"
    elif not own and not (UNIT / ELSEWHERE[name]).is_file():
        yield f"{path}:1: its test tests/unit/{ELSEWHERE[name]} is gone: write tests/unit/{tests_of(path)[-1]}"
