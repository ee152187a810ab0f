# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples that configure the hook: the hook accepts their options, and their variables exist in roles."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex

import pytest
import yaml

from hooks.mlcluster_boot import options as hook_options
from tests.integration.hook.conftest import ROOT

GUIDE = ROOT / "docs" / "boot_hook.md"
EXAMPLES = ROOT / "docs" / "examples" / "boot_hook"
SHA = "3f" * 32


def of_a_line(text: str) -> list[str]:
    """Return the arguments of the script in the only command of a text that runs it."""
    (words,) = re.findall(r"bash \S+\.sh +(--.*)", text.replace("\\\n", " "))
    return shlex.split(words)


def words_of(name: str) -> list[str]:
    """Return the options that an example passes to the hook, with its placeholders replaced."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    if name == "parallelcluster.yaml":
        words = yaml.safe_load(text)["HeadNode"]["CustomActions"]["OnNodeConfigured"]["Args"]
    elif name == "pcs.json":
        words = json.loads(text)["stages"]["nodeBootstrapped"][0]["arguments"]
    elif name == "component.yaml":
        (phase,) = yaml.safe_load(text)["phases"]
        words = of_a_line(phase["steps"][1]["inputs"]["commands"][0])
    elif name == "packer.pkr.hcl":
        (line,) = re.findall(r'^ +"(sudo bash .*)",$', text, re.MULTILINE)
        words = of_a_line(json.loads(f'"{line}"').replace("${var.bundle}", "s3://my-bucket/b.tar.gz"))
    else:
        words = of_a_line(text)
    return [word.replace("SHA256", SHA).replace("${var.sha256}", SHA) for word in words]


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_hook_accepts_options_of_example(node, name):
    words = words_of(name)
    # The download fails, as there is no bundle; wrong options would give exit code 3.
    ran = node.run(*words, "--on-failure", "drain")
    assert (ran.status["state"], ran.status["exit_code"]) == ("drained", 2), ran.out
    assert ran.status["message"].startswith("could not get s3://my-bucket/"), ran.out
    # The runner accepts them, too, and the variables exist in roles.
    options = hook_options.parse_options([*words, "--started-at", "0"])
    given = next((value for option, value in zip(words, words[1:]) if option == "--vars"), "")
    for variable in json.loads(given) if given.startswith("{") else []:
        role = next(request.name for request in options.roles if variable.startswith(f"{request.name}_"))
        specs = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text(encoding="utf-8"))
        assert variable in specs["argument_specs"]["main"]["options"]


def readable(access: list[dict[str, str]], key: str) -> bool:
    """Return whether a node with these entries of S3Access may read a key of the bucket."""
    return any(fnmatch.fnmatchcase(key, entry["KeyName"]) for entry in access)


def wirings() -> dict[str, tuple[dict, list[dict[str, str]]]]:
    """Return {name: (action, S3Access)} of the guide's first example and the one for ParallelCluster."""
    fences = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (action,) = (found for fence in fences if (found := yaml.safe_load(fence).get("OnNodeConfigured")))
    (iam,) = (found for fence in fences if (found := yaml.safe_load(fence).get("Iam")))
    head = yaml.safe_load((EXAMPLES / "parallelcluster.yaml").read_text(encoding="utf-8"))["HeadNode"]
    example = (head["CustomActions"]["OnNodeConfigured"], head["Iam"]["S3Access"])
    return {"guide": (action, iam["S3Access"]), "example": example}


@pytest.mark.parametrize("name", ["guide", "example"])
def test_node_of_wiring_reads_what_it_needs_and_no_logs(name):
    action, access = wirings()[name]
    named = [action["Script"], *(word for word in action["Args"] if word.startswith("s3://"))]
    keys = [word.removeprefix("s3://my-bucket/") for word in named if not word.endswith("/logs")]
    assert keys[:2] == ["mlcluster/on_node_configured.sh", "mlcluster/pointer"]
    # The path of a pointer's bundle is in playbooks/tasks/bundle_target.yml.
    layout = yaml.safe_load((ROOT / "playbooks/tasks/bundle_target.yml").read_text(encoding="utf-8"))
    assert "bundles/{{ build_bundle_result.sha256 }}/{{ build_bundle_result.file }}" in str(layout)
    assert all(readable(access, key) for key in [*keys, f"mlcluster/bundles/{SHA}/mlcluster-bundle-1.tar.gz"])
    readers = [entry for entry in access if not entry.get("EnableWriteAccess")]
    assert not readable(readers, "mlcluster/logs/n2/status.json") and not readable(readers, "mlcluster/releases/1")
