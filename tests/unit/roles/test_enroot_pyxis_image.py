# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The training image of the role enroot_pyxis: its Dockerfile as Ansible renders it, read by hadolint, never built."""

from __future__ import annotations

import re
import subprocess
import types
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.mlcluster.aws.plugins.action import training_image
from ansible_collections.mlcluster.aws.plugins.module_utils._data import nccl_env
from ansible_collections.mlcluster.aws.plugins.plugin_utils._data import artifacts

from tests.rig import templating

CHECKOUT = Path(__file__).parents[3]
ROLE = CHECKOUT / "roles" / "training_image"
HADOLINT = CHECKOUT / ".venv-lint" / "bin" / "hadolint"
EFA = next(entry["version"] for entry in artifacts.ARTIFACTS if entry["name"] == "aws-efa-installer")
ECR = "123456789012.dkr.ecr.eu-west-2.amazonaws.com"


class Image:
    """The role with settings of the image (without their prefix) and more variables; made is what its task decides."""

    def __init__(self, more: dict[str, t.Any] | None = None, **settings: t.Any) -> None:
        self.variables = {
            **templating.load(CHECKOUT / "roles" / "enroot_pyxis" / "defaults" / "main.yml"),
            **templating.load(ROLE / "vars" / "main.yml"),
            "role_path": str(ROLE),
            "ansible_search_path": [str(ROLE)],
            "inventory_hostname": "head",
            "__training_image_work": {"path": "/var/tmp/work"},
            "enroot_pyxis_image_base": "nvcr.io/nvidia/cuda:any@sha256:" + "a" * 64,
            "enroot_pyxis_checksums": {f"aws-efa-installer-{EFA}.tar.gz": "b" * 64},
            **{f"enroot_pyxis_image_{name}": value for name, value in settings.items()},
            **(more or {}),
        }
        self.variables["__training_image_made"] = self.made = self._decide()

    def _decide(self) -> dict[str, t.Any]:
        module = "mlcluster.aws.training_image"
        (task,) = [entry for entry in templating.load(ROLE / "tasks" / "build.yml") if module in entry]
        asked = types.SimpleNamespace(
            args=self.render(task[module]), check_mode=False, async_val=0, action="training_image", get_search_path=list
        )
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="none"))
        action = training_image.ActionModule(asked, connection, None, DataLoader(), None, None)
        return action.run(task_vars=self.variables)

    def render(self, value: t.Any) -> t.Any:
        return Templar(loader=DataLoader(), variables=self.variables).template(value)

    def dockerfile(self) -> str:
        return str(
            self.render(templating.trusted("{{ lookup('ansible.builtin.template', 'training.Dockerfile.j2') }}"))
        )


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return Image().dockerfile()


def test_hadolint_finds_nothing(dockerfile):
    done = subprocess.run([HADOLINT, "-"], input=dockerfile, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_download_has_checksum(dockerfile):
    assert re.findall(r"\b(?:curl|wget|git clone|https?://)", dockerfile) == []
    (base,) = re.findall(r"^FROM (.*)$", dockerfile, re.MULTILINE)
    assert base.endswith("@sha256:" + "a" * 64)
    assert "--require-hashes" in dockerfile
    # The installer's comes from make lock-artifacts, or from the site.
    if not (CHECKOUT / "artifacts.lock.yml").exists():
        with pytest.raises(AnsibleActionFail, match="make lock-artifacts"):
            Image({"enroot_pyxis_checksums": {}})


def test_installer_is_that_of_hosts(dockerfile):
    assert f"ADD aws-efa-installer-{EFA}.tar.gz /tmp/efa/" in dockerfile
    assert "--skip-kmod --skip-limit-conf --no-verify --disable-ngc" in dockerfile
    of_site = Image({"efa_nccl_installer_version": "1.47.0"})
    assert "aws-efa-installer-1.47.0.tar.gz" in of_site.dockerfile()
    assert "--disable-ngc" not in of_site.dockerfile()
    own = {"enroot_pyxis_checksums": {"aws-efa-installer-1.46.0.tar.gz": "c" * 64}}
    assert Image(own, efa_version="1.46.0").made["versions"]["efa"] == "1.46.0"


def test_nccl_version_is_in_variable_table(dockerfile):
    versions = Image().made["versions"]
    assert set(versions) == {"efa", "pytorch", "megatron", "nccl", "cuda"}
    known = tuple(map(int, nccl_env.KNOWN_NCCL_UP_TO.split(".")))
    assert tuple(map(int, versions["nccl"].split(".")))[:2] <= known
    for component, version in versions.items():
        assert f'LABEL mlcluster.aws.{component}="{version}"' in dockerfile


def test_docker_finds_credential_helper():
    image = Image(push=f"{ECR}/training")
    assert image.made["registries"] == [ECR]
    environment = image.render(image.variables["__training_image_environment"])
    assert environment["PATH"].startswith("/var/tmp/work/docker:")
