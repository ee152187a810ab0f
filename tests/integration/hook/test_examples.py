# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of the wiring: the hook takes their words, and their variables are ones that roles have."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import yaml

from hooks.mlcluster_boot import options as hook_options
from tests.integration.hook.conftest import ROOT

EXAMPLES = ROOT / "docs" / "examples" / "boot_hook"
SHA = "3f" * 32


def of_a_line(text: str) -> list[str]:
    """The words behind the name of the script in the one command of a text that runs it."""
    (words,) = re.findall(r"bash \S+\.sh +(--.*)", text.replace("\\\n", " "))
    return shlex.split(words)


def words_of(name: str) -> list[str]:
    """The words that an example gives the hook, with a bundle in the place of its own placeholders."""
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
def test_the_hook_takes_the_words_of_the_example(node, name):
    words = words_of(name)
    # Nothing is there to be fetched: the words themselves were right, or it would be exit code 3.
    ran = node.run(*words, "--on-failure", "drain")
    assert (ran.status["state"], ran.status["exit_code"]) == ("drained", 2), ran.out
    assert ran.status["message"].startswith("could not get s3://my-bucket/"), ran.out
    # The runner takes them too, and what it is told of variables is what roles know.
    options = hook_options.parse_options([*words, "--started-at", "0"])
    given = next((value for option, value in zip(words, words[1:]) if option == "--vars"), "")
    for variable in json.loads(given) if given.startswith("{") else []:
        role = next(request.name for request in options.roles if variable.startswith(f"{request.name}_"))
        specs = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text(encoding="utf-8"))
        assert variable in specs["argument_specs"]["main"]["options"]
