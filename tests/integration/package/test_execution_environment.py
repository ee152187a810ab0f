# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks ansible-navigator's settings and the definition of the execution environment by the tools that read them.

The image is not built, as that needs a base image and a package index.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import jsonschema
import pytest
import yaml

CHECKOUT = Path(__file__).parents[3]
LINT_BIN = CHECKOUT / ".venv-lint/bin"
VERSION = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
SETTINGS = yaml.safe_load((CHECKOUT / "ansible-navigator.yml").read_text(encoding="utf-8"))
DEFINITION = CHECKOUT / "execution-environment.yml"
ARCHIVE = f"dist/mlcluster-aws-{VERSION}.tar.gz"


@pytest.fixture
def run(tmp_path):
    """Return ``run(program, *arguments)``: it runs a program of the lint environment, with Ansible in PATH."""
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join([str(CHECKOUT / ".venv/bin"), os.environ.get("PATH", os.defpath)]),
        "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / ".collections"),
        "ANSIBLE_NAVIGATOR_CONFIG": str(CHECKOUT / "ansible-navigator.yml"),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }

    def start(program, *arguments):
        command = [str(word) for word in (LINT_BIN / program, *arguments)]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return start


def test_navigator_takes_settings(run):
    schema = json.loads(run("ansible-navigator", "settings", "--schema", "json", "--mode", "stdout"))
    jsonschema.validate(SETTINGS, schema)
    # Proof that the schema rejects an unknown key.
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"ansible-navigator": {"modee": "stdout"}}, schema)


def test_navigator_runs_without_container_and_keeps_artifact(run, tmp_path):
    output = run("ansible-navigator", "run", CHECKOUT / "site.yml", "-i", "localhost,", "--syntax-check")
    assert "playbook: " in output
    (artifact,) = (tmp_path / ".build/navigator").glob("site-*.json")
    assert json.loads(artifact.read_text(encoding="utf-8"))["status"] == "successful"
    assert (tmp_path / ".build/navigator/ansible-navigator.log").exists()


def test_versions_agree_with_collection():
    settings = SETTINGS["ansible-navigator"]["execution-environment"]
    definition = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    assert settings["image"].endswith(f":{VERSION}") and settings["enabled"] is False
    assert definition["dependencies"]["galaxy"]["collections"] == [{"name": ARCHIVE, "type": "file"}]
    series = re.fullmatch(r"ansible-core~=(\d+\.\d+)\.0", definition["dependencies"]["ansible_core"]["package_pip"])
    lock = (CHECKOUT / "requirements/build.txt").read_text(encoding="utf-8")
    assert series and f"ansible-core=={series.group(1)}." in lock


def test_builder_makes_context_of_image(run, tmp_path):
    (tmp_path / "dist").mkdir()
    command = [CHECKOUT / ".venv/bin/ansible-galaxy", "collection", "build", "--output-path", tmp_path / "dist"]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True)
    (tmp_path / DEFINITION.name).write_bytes(DEFINITION.read_bytes())
    run("ansible-builder", "create", "--file", DEFINITION.name, "--context", "context")
    context = tmp_path / "context"
    assert (context / "_build" / ARCHIVE).read_bytes() == (tmp_path / ARCHIVE).read_bytes()
    wanted = yaml.safe_load((context / "_build/requirements.yml").read_text(encoding="utf-8"))
    assert wanted == {"collections": [{"name": ARCHIVE, "type": "file"}]}
    containerfile = (context / "Containerfile").read_text(encoding="utf-8")
    assert "ARG EE_BASE_IMAGE=" in containerfile and "ansible-core~=" in containerfile
    assert missing_files(context) == []
    # The archive has to contain the files that meta/execution-environment.yml names.
    with tarfile.open(tmp_path / ARCHIVE) as archive:
        names = set(archive.getnames())
        wanted = yaml.safe_load(archive.extractfile("meta/execution-environment.yml"))["dependencies"]
    assert wanted and set(wanted.values()) <= names
    # The builder reports success also without the archive.
    (context / "_build" / ARCHIVE).unlink()
    assert missing_files(context) == [ARCHIVE]


def missing_files(context):
    """Return the files that a context lacks: sources of COPY, and files in its lists of requirements."""
    lacks = []
    for line in (context / "Containerfile").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == ["COPY"] and not line.startswith("COPY --from"):
            sources = [word for word in words[1:-1] if not word.startswith("--")]
            lacks += [source for source in sources if not list(context.glob(source))]
    listed = yaml.safe_load((context / "_build/requirements.yml").read_text(encoding="utf-8"))["collections"]
    lacks += [
        one["name"] for one in listed if one["type"] == "file" and not (context / "_build" / one["name"]).is_file()
    ]
    for name in re.findall(
        r"(?<=_build/)[\w./-]+(?:txt|yml)\b", (context / "Containerfile").read_text(encoding="utf-8")
    ):
        if not (context / "_build" / name).exists() and "scripts" not in name:
            lacks.append(name)
    return list(dict.fromkeys(lacks))


def test_image_gets_python_packages_that_collection_lists(run):
    found = yaml.safe_load(run("ansible-builder", "introspect", CHECKOUT / ".collections"))
    wanted = (CHECKOUT / "meta/ee-requirements.txt").read_text(encoding="utf-8").splitlines()
    mark = "  # from collection mlcluster.aws"
    ours = [line.removesuffix(mark) for line in found["python"] if line.endswith(mark)]
    assert ours == [line for line in wanted if not line.startswith("#")]
