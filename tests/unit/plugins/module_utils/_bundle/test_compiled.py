# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Byte code in a bundle."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import build, compiled
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle.archive import BundleError, Member, Target

from tests.unit.fakes import fake_collections as made

ROOT = Path(__file__).resolve().parents[5]
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
SOURCES = {
    "hooks/mlcluster_boot/main.py": b"WORDS = {'a', 'b', 'c'}\n\n\ndef f(x):\n    return x in {'d', 'e', 'f'}\n",
    "site/ansible/cli/playbook.py": b"X = 1\n",
    "site/ansible/cli/galaxy.py": b"X = 1\n",
    "site/ansible/modules/setup.py": b"X = 1\n",
    "site/ansible/modules/apt.py": b"X = 1\n",
    "site/old.py": b"print 'of another language'\n",
    "collections/ansible_collections/mlcluster/aws/plugins/modules/ours.py": b"X = 1\n",
}


def members():
    return {name: Member(data) for name, data in SOURCES.items()}


def test_first_modules_are_compiled_and_run_without_source(tmp_path):
    found, release = compiled.compile_files(members(), sys.executable)
    tag = sys.implementation.cache_tag
    assert release == platform.python_version()
    assert sorted(found) == [
        f"hooks/mlcluster_boot/__pycache__/main.{tag}.pyc",
        f"site/ansible/cli/__pycache__/playbook.{tag}.pyc",
        f"site/ansible/modules/__pycache__/setup.{tag}.pyc",
    ]
    # As on a node with another clock: the dates of source and byte code are not compared.
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / f"main.{tag}.pyc").write_bytes(
        found[f"hooks/mlcluster_boot/__pycache__/main.{tag}.pyc"].data
    )
    (tmp_path / "main.py").write_text("raise SystemExit('the source was read')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import main as r; print(r.f('e'), r.f.__code__)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("True ") and f'file "{tmp_path}/main.py"' in done.stdout, done.stderr


LOADS = """
import sys
sys.path[:0] = [".collections", "hooks"]
import mlcluster_boot.main
import ansible_collections.mlcluster.aws.plugins.action.node_plan
print(*(module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)), sep="\\n")
"""


def test_collection_modules_of_runner_are_compiled():
    done = subprocess.run([sys.executable, "-c", LOADS], cwd=ROOT, capture_output=True, text=True, check=True)
    below = ROOT / ".collections"
    loaded = [Path(name).relative_to(below) for name in done.stdout.splitlines() if name.startswith(str(below))]
    assert len(loaded) > 5
    missing = [path for path in loaded if not compiled.LOADED.match(f"collections/{path}")]
    assert missing == []
    # Not the whole runtime: most of it runs as modules.
    assert not compiled.LOADED.match(f"collections/{loaded[0].parents[-4]}/plugins/module_utils/_node/cli/health.py")


def test_same_files_compile_to_same_bytes():
    first, second = (compiled.compile_files(members(), sys.executable)[0] for _time in range(2))
    assert first == second


def test_python_of_other_version_is_skipped():
    assert compiled.interpreter(OWN) == sys.executable
    assert compiled.interpreter("3.0") == ""


def test_failing_python_is_named():
    with pytest.raises(BundleError, match=r"false could not compile the packages \(no error output\)"):
        compiled.compile_files(members(), "/bin/false")


def test_manifest_names_compiling_python(tmp_path, monkeypatch):
    # The packages of the test are Python 3.11's, and any Python compiles them.
    monkeypatch.setattr(compiled, "interpreter", lambda python: sys.executable if python == "3.11" else "")
    built = build.build(made.request(tmp_path / "one"), Target("debian", "3.11"))
    assert built.manifest["compiled"] == platform.python_version()
    without = build.build(made.request(tmp_path / "two", compiled=False), Target("debian", "3.11"))
    assert without.manifest["compiled"] == "" and without.unpacked < built.unpacked
