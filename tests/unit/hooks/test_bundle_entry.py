# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""bin/run-node of a bundle, in a Python of its own as the hook starts it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ENTRY = Path(__file__).resolve().parents[3] / "hooks" / "bundle_entry.py"
RUNNER = """\
import json
import os
import sys


def main(argv):
    import six_of_ours

    print(json.dumps({"argv": argv, "path": sys.path, "environ": dict(os.environ), "from": six_of_ours.__file__}))
    return 7
"""


@pytest.fixture
def bundle(tmp_path):
    """A bundle with a runner that reports how it was started."""
    root = tmp_path / "mlcluster-bundle"
    for name in ("bin", "hooks/mlcluster_boot", "site"):
        (root / name).mkdir(parents=True)
    shutil.copy(ENTRY, root / "bin" / "run-node")
    (root / "hooks" / "mlcluster_boot" / "main.py").write_text(RUNNER)
    (root / "site" / "six_of_ours.py").write_text("")
    manifest(root, f"{sys.version_info[0]}.{sys.version_info[1]}")
    return root


def manifest(root, python):
    """Write the manifest of a bundle for this Python."""
    (root / "MANIFEST.json").write_text(json.dumps({"python": python, "version": "1.0.0", "components": []}))


def start(root, *words, **environment):
    """Run the entry, isolated as the hook starts it."""
    command = [sys.executable, "-I", str(root / "bin" / "run-node"), *words]
    values = {"PATH": os.defpath, **environment}
    return subprocess.run(command, env=values, capture_output=True, text=True, check=False)


def test_runner_gets_arguments_and_sets_exit_status(bundle):
    done = start(bundle, "--options-file", "/x y")
    assert done.returncode == 7, done.stderr
    output = json.loads(done.stdout)
    assert output["argv"] == ["--options-file", "/x y"]
    assert output["environ"]["MLCLUSTER_BUNDLE"] == str(bundle)


def test_only_packages_of_bundle_are_imported(bundle):
    output = json.loads(start(bundle, PYTHONPATH="/elsewhere").stdout)
    assert output["path"][:2] == [str(bundle / "site"), str(bundle / "hooks")]
    assert not [path for path in output["path"] if path.endswith(("site-packages", "dist-packages"))]
    # Modules run on the node's own Python, which must not see them.
    assert "PYTHONPATH" not in output["environ"]


def test_older_python_is_rejected(bundle):
    manifest(bundle, "3.99")
    done = start(bundle)
    assert (done.returncode, done.stdout) == (3, "")
    assert "made for Python 3.99 and was started with 3." in done.stderr


def test_newer_python_is_accepted(bundle):
    manifest(bundle, "3.6")
    assert start(bundle).returncode == 7
