# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compile in advance what a node loads before its first role; on a fresh node that saves about half of a run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from .archive import BundleError, Member, Members

# The modules that the runner and ansible-playbook import. A run writes nothing into the bundle, so a module that is not
# compiled here is compiled at every start. Ansible modules are not: they reach other processes as source (except setup,
# which node_facts imports). The look runs in the process of its task.
LOADED = re.compile(
    r"^(hooks|site|collections/ansible_collections/mlcluster/aws/plugins/(__init__|action/node_(facts|plan)"
    r"|plugin_utils/(__init__|_here|_roles|_artifacts|_data|_lustre|_runtime|_run)|module_utils/(__init__|_data|_cluster"
    r"|_node/(__init__|system|storage|verdict|node|gds|efa|lustre|containers|accelerator|slurm|nccl|health|imex|jobs"
    r"|cli/(__init__|log)))))\b.*\.py\Z"
)
OTHERS = re.compile(
    r"^site/(daemon/|lockfile/|packaging/licenses/|ansible/(modules/(?!__init__|setup)|galaxy/"
    r"|module_utils/facts/(hardware|network|other|virtual)/|plugins/(cliconf|httpapi|netconf|terminal)/"
    r"|plugins/inventory/(?!__init__|host_list)|cli/(?!__init__|playbook|arguments)))"
)
# Arguments: the folder; stdin: the file names. The byte code names files by their path in the bundle.
# UNCHECKED_HASH: file dates differ between nodes, and the archive's checksum has already verified the source.
COMPILE = """
import os, py_compile, sys
os.chdir(sys.argv[1])
print("%d.%d.%d" % sys.version_info[:3])
for name in sys.stdin.read().splitlines():
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    made = py_compile.compile(name, dfile=name, quiet=2, invalidation_mode=mode)
    if made:
        print(made)
"""
SECONDS = 300


def interpreter(python: str) -> str:
    """Return the path of a Python of that version (such as 3.12) on this machine; empty if there is none."""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for candidate in (sys.executable if own == python else "", f"python{python}"):
        found = shutil.which(candidate) if candidate else None
        if found and _answers(found, python):
            return found
    return ""


def _answers(program: str, python: str) -> bool:
    command = [program, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        completed = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return completed.returncode == 0 and completed.stdout.strip() == python


def compile_files(files: t.Mapping[str, Member], program: str) -> tuple[Members, str]:
    """Return (byte code by path below the bundle's top folder, release of the compiling Python, such as 3.12.8).

    Raises BundleError if that Python fails.
    """
    names = sorted(name for name in files if LOADED.match(name) and not OTHERS.match(name))
    with tempfile.TemporaryDirectory(prefix="mlcluster-compile-") as folder:
        for name in names:
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name].data)
        try:
            completed = subprocess.run(
                [program, "-s", "-S", "-c", COMPILE, folder],
                input="\n".join(names),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # Fixed, because the order of constant sets depends on it.
                env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise BundleError(
                f"{program} could not compile the packages ({exc}): check that it runs, or do not compile"
            ) from exc
        release, *made = completed.stdout.splitlines() or [""]
        if completed.returncode or not made:
            errors = completed.stderr.strip().splitlines() or ["no error output"]
            raise BundleError(
                f"{program} could not compile the packages ({errors[-1]}): check that it runs, or do not compile"
            )
        return {name: Member(Path(folder, name).read_bytes()) for name in made}, release
