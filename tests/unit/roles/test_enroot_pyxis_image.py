# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The training image of the role enroot_pyxis: its Dockerfile as Ansible renders it, read by hadolint, never built."""

from __future__ import annotations

import re
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.mlcluster.aws.plugins.module_utils._data import nccl_env
from ansible_collections.mlcluster.aws.plugins.plugin_utils._data import artifacts

from tests.rig import templating

CHECKOUT = Path(__file__).parents[3]
ROLE = CHECKOUT / "roles" / "training_image"
HADOLINT = CHECKOUT / ".venv-lint" / "bin" / "hadolint"
EFA = next(entry["version"] for entry in artifacts.ARTIFACTS if entry["name"] == "aws-efa-installer")
ECR = "123456789012.dkr.ecr.eu-west-2.amazonaws.com"


def load(path: Path) -> t.Any:
    return templating.load(path)


class Image:
    """The role's variables of the image, with settings (without their prefix) and more variables."""

    def __init__(self, more: dict[str, t.Any] | None = None, **settings: t.Any) -> None:
        self.variables = {
            **load(CHECKOUT / "roles" / "enroot_pyxis" / "defaults" / "main.yml"),
            **load(ROLE / "vars" / "main.yml"),
            "role_path": str(ROLE),
            "ansible_search_path": [str(ROLE)],
            "__training_image_work": {"path": "/var/tmp/work"},
            "enroot_pyxis_image_base": "nvcr.io/nvidia/cuda:any@sha256:" + "a" * 64,
            **{f"enroot_pyxis_image_{name}": value for name, value in settings.items()},
            **(more or {}),
        }

    def value(self, name: str) -> t.Any:
        return Templar(loader=DataLoader(), variables=self.variables).template(
            self.variables[f"__training_image{name}"]
        )


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return Image().value("_dockerfile")


def test_hadolint_finds_nothing(dockerfile):
    done = subprocess.run([HADOLINT, "-"], input=dockerfile, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_everything_that_is_fetched_has_a_checksum(dockerfile):
    assert re.findall(r"\b(?:curl|wget|git clone|https?://)", dockerfile) == []
    (base,) = re.findall(r"^FROM (.*)$", dockerfile, re.MULTILINE)
    assert base.endswith("@sha256:" + "a" * 64)
    assert "--require-hashes" in dockerfile
    problems = Image().value("_problems")
    # The installer's comes from make lock-artifacts, or from the site.
    assert len(problems) == (0 if (CHECKOUT / "artifacts.lock.yml").exists() else 1)
    assert all("make lock-artifacts" in problem for problem in problems)
    own = {"enroot_pyxis_checksums": {f"aws-efa-installer-{EFA}.tar.gz": "b" * 64}}
    assert Image(own).value("_problems") == []


def test_the_installer_is_that_of_the_hosts(dockerfile):
    assert f"ADD aws-efa-installer-{EFA}.tar.gz /tmp/efa/" in dockerfile
    assert "--skip-kmod --skip-limit-conf --no-verify --disable-ngc" in dockerfile
    of_site = Image({"efa_nccl_installer_version": "1.47.0"})
    assert "aws-efa-installer-1.47.0.tar.gz" in of_site.value("_dockerfile")
    assert "--disable-ngc" not in of_site.value("_dockerfile")
    assert of_site.value("_problems") == []
    assert Image(efa_version="1.46.0").value("_made").get("versions")["efa"] == "1.46.0"


def test_nccl_is_one_that_the_table_of_variables_knows(dockerfile):
    versions = Image().value("_made")["versions"]
    assert set(versions) == {"efa", "pytorch", "megatron", "nccl", "cuda"}
    known = tuple(map(int, nccl_env.KNOWN_NCCL_UP_TO.split(".")))
    assert tuple(map(int, versions["nccl"].split(".")))[:2] <= known
    for component, version in versions.items():
        assert f'LABEL mlcluster.aws.{component}="{version}"' in dockerfile


def test_the_same_recipe_has_the_same_name_and_another_one_another():
    tag = Image().value("_tag")
    assert re.fullmatch(r"training:[0-9a-f]{16}", tag)
    assert Image().value("_tag") == tag
    others = [Image(base="x@sha256:" + "c" * 64), Image(efa_version="1.47.0")]
    assert len({tag, *(other.value("_tag") for other in others)}) == 3


def test_arguments_and_the_place_to_push_to():
    image = Image(build_arguments={"PIP_INDEX_URL": "https://mirror/simple", "A": 1}, push=f"{ECR}/training")
    assert image.value("_arguments") == ["--build-arg", "A=1", "--build-arg", "PIP_INDEX_URL=https://mirror/simple"]
    assert image.value("_remote") == f"{ECR}/training:" + image.value("_tag").partition(":")[2]
    assert image.value("_made")["registries"] == [ECR]
    assert image.value("_environment")["PATH"].startswith("/var/tmp/work/docker:")
