# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the runner of a bundle, in which this file is bin/run-node.

PYTHON -I bin/run-node [OPTIONS]     hooks/mlcluster_boot/main.py of the bundle, with its options
PYTHON -I bin/run-node --version     the versions in the bundle, after loading it; changes nothing
"""

from __future__ import annotations

import gc
import json
import os
import sys

BUNDLE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOREIGN = ("site-packages", "dist-packages")


def manifest() -> dict:
    """Return MANIFEST.json of the bundle."""
    with open(os.path.join(BUNDLE, "MANIFEST.json"), encoding="utf-8") as handle:
        return json.load(handle)


def isolate() -> None:
    """Remove all packages but those of the bundle from the path of this Python.

    Packages in the node's own site-packages were not tested with the bundle. PYTHONPATH cannot name those of the
    bundle, since modules run on the node's own Python and must not see them.
    """
    kept = [path for path in sys.path if os.path.basename(path.rstrip("/")) not in FOREIGN]
    sys.path[:] = [os.path.join(BUNDLE, "site"), os.path.join(BUNDLE, "hooks"), *kept]
    # With PYTHONUNBUFFERED Ansible reads each module byte by byte, with 340,000 system calls.
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONUNBUFFERED"):
        os.environ.pop(name, None)
    # A short run leaves little garbage, and Python's default number of collections costs a tenth of the run.
    gc.set_threshold(100_000)
    # artifacts/vars.json refers to it.
    os.environ["MLCLUSTER_BUNDLE"] = BUNDLE


def version() -> str:
    """Return the versions as one line; each program that it names has been loaded."""
    import ansible.cli.playbook
    import ansible.release
    import ansible_runner
    import yaml

    contents = manifest()
    versions = {entry["name"]: entry["version"] for entry in contents["components"]}
    parser = "libyaml" if yaml.__with_libyaml__ else "its own parser"
    return (
        f"mlcluster.aws {contents['version']} for {contents['os_family']} and Python {contents['python']}:  "
        f"ansible-core {ansible.release.__version__}, {ansible_runner.__name__} {versions['ansible-runner']}, "
        f"PyYAML with {parser}, on Python {sys.version_info[0]}.{sys.version_info[1]}"
    )


def main(argv: list[str]) -> int:
    """Do what ``argv`` asks for; returns the exit status (3: this Python cannot run the bundle)."""
    wanted = manifest()["python"]
    if sys.version_info[:2] < tuple(int(part) for part in wanted.split(".")):
        found = f"{sys.version_info[0]}.{sys.version_info[1]}"
        print(
            f"this bundle is made for Python {wanted} and was started with {found}: use the one for {found}",
            file=sys.stderr,
        )
        return 3
    isolate()
    if argv[:1] == ["--version"]:
        print(version())
        return 0
    from mlcluster_boot import main as runner

    return runner.main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
