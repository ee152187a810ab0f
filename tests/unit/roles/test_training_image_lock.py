# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The training image and the data programs fit each other: what they import is in its lock, as it was tested."""

from __future__ import annotations

import ast
import re
import sys

from tests.unit.checkout import CHECKOUT

PROGRAMS = CHECKOUT / "roles/slurm_jobs/files/mlcluster_data"
IMAGE = CHECKOUT / "roles/training_image/files/training-requirements.txt"
TESTED = CHECKOUT / "requirements/data.txt"
LOCKS = (CHECKOUT / "requirements/lock.sh").read_text(encoding="utf-8")
# torch writes TensorBoard's files by that package; an import of it stands in torch alone.
BESIDES = {"tensorboard"}
# The CPU build that the tests take and the CUDA build of the image have locks of their own.
OTHER_BUILDS = {"torch", "numpy"}


def locked(path):
    """Versions by package; numpy has one for each Python."""
    return dict(re.findall(r"(?m)^([a-z0-9._-]+)==(\S+)", path.read_text(encoding="utf-8")))


def imported():
    names = set()
    for source in PROGRAMS.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"mlcluster_data", "__future__"}


def test_image_has_what_data_programs_import():
    found = imported()
    assert {"torch", "webdataset", "boto3", "tokenizers", "datasets"} <= found
    assert (found | BESIDES) - set(locked(IMAGE)) == set()


def test_image_has_tested_versions():
    image, tested = locked(IMAGE), locked(TESTED)
    both = ((imported() | BESIDES) - OTHER_BUILDS) & set(tested)
    assert len(both) >= 6
    assert {name: image[name] for name in both} == {name: tested[name] for name in both}


def test_documented_command_installs_lock_for_its_python():
    text = (CHECKOUT / "docs/data.md").read_text(encoding="utf-8")
    ((python, where, program, lock),) = re.findall(
        r"\$ python(\S+) -m venv (\S+)\n\$ (\S+)/bin/pip install --require-hashes -r (\S+)\n", text
    )
    assert where == program and f"slurm_jobs_data_python: {where}/bin/python" in text
    assert CHECKOUT / lock == IMAGE
    (compile_image,) = re.findall(r"pip compile(?:(?!pip compile).)*training-image\.in", LOCKS, re.DOTALL)
    assert f"--python-version {python} " in compile_image
    assert f'find_python("{python}")' in (CHECKOUT / "noxfile.py").read_text(encoding="utf-8")
