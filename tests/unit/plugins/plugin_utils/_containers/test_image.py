# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Contents of a training image, and rejected ones."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._containers.image import recipe

SUM = "    --hash=sha256:" + "a" * 64
GOOD = {
    "base": "registry.example/cuda:13-devel@sha256:" + "b" * 64,
    "name": "training",
    "directory": "/fsx/images",
    "push": "",
    "build_arguments": {},
    "source": "auto",
    "mirror_url": "",
    "local_files": "",
    "checksums": {},
    "file_names": {},
    "credentials": [],
}
REQUIREMENTS = "".join(
    f"{pin} \\\n{SUM}\n"
    for pin in ("cuda-toolkit==13.2.2", "megatron-core==0.19.2", "nvidia-nccl-cu13==2.30.7", "torch==2.15.0")
)


def made(requirements: str = REQUIREMENTS, version: str = "1.51.0", template: str = "FROM", **settings):
    url = f"https://example.com/aws-efa-installer-{version}.tar.gz"
    efa = {"name": "aws-efa-installer", "version": version, "url": url, "sha256": "e" * 64}
    return recipe({**GOOD, **settings}, efa, requirements, template)


def test_versions_of_scan_are_reported():
    image = made()
    assert image["problems"] == []
    assert image["versions"] == {
        "efa": "1.51.0",
        "pytorch": "2.15.0",
        "megatron": "0.19.2",
        "nccl": "2.30.7",
        "cuda": "13.2.2",
    }


def test_name_of_image_depends_on_recipe():
    image = made(push="registry.example/training")
    assert image["tag"] == made()["tag"]
    assert image["remote"] == "registry.example/" + image["tag"]
    assert made()["remote"] == ""
    others = [
        made(version="1.47.0"),
        made(template="FROM other"),
        made(base=GOOD["base"].replace("b", "c")),
        made(REQUIREMENTS.replace("2.15.0", "2.15.1")),
    ]
    assert len({made()["tag"], *(other["tag"] for other in others)}) == 5


@pytest.mark.parametrize(("version", "known"), [("1.49.9", False), ("1.50.0", True), ("1.51.0", True)])
def test_installer_gets_argument_for_ngc_image(version, known):
    assert ("--disable-ngc" in made(version=version)["efa_arguments"]) == known


def test_downloads_and_build_arguments_are_listed():
    image = made(mirror_url="s3://bucket/x", build_arguments={"PIP_INDEX_URL": "https://mirror/simple", "A": 1})
    assert image["build_arguments"] == ["--build-arg", "A=1", "--build-arg", "PIP_INDEX_URL=https://mirror/simple"]
    (file,) = image["files"]
    assert (file["url"], image["archive"]) == (f"s3://bucket/x/{image['archive']}", "aws-efa-installer-1.51.0.tar.gz")
    (problem,) = made(source="preinstalled")["problems"]
    assert "enroot_pyxis_source is preinstalled" in problem


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"base": "nvcr.io/nvidia/cuda:13.1.2-devel-ubuntu24.04"}, "use an image with Ubuntu 24.04 and the CUDA"),
        ({"base": "x@sha256:" + "b" * 64 + "\nRUN evil"}, "use an image"),
        ({"name": "Training"}, "enroot_pyxis_image_name is 'Training'"),
        ({"directory": "/fsx/../etc"}, "enroot_pyxis_image_directory is '/fsx/../etc'"),
        ({"push": "training"}, "use REGISTRY/REPOSITORY without a tag"),
        ({"push": "123456789012.dkr.ecr.eu-west-2.amazonaws.com/training:1"}, "without a tag"),
        ({"build_arguments": {"A B": "x"}}, "enroot_pyxis_image_build_arguments has 'A B'"),
        ({"build_arguments": {"A": "x\ny"}}, "a value of one line"),
    ],
)
def test_unusable_settings_are_rejected(changed, words):
    (problem,) = made(**changed)["problems"]
    assert words in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (REQUIREMENTS.replace(f"torch==2.15.0 \\\n{SUM}\n", "torch==2.15.0\n"), "have no checksum for torch"),
        (REQUIREMENTS.replace(f"cuda-toolkit==13.2.2 \\\n{SUM}\n", "cuda-toolkit==13.2.2\n"), "for cuda-toolkit"),
        (REQUIREMENTS + "--extra-index-url https://evil.example\n", "name a place to fetch from"),
        (REQUIREMENTS.replace("megatron-core", "megatron"), "lack megatron-core"),
    ],
)
def test_packages_without_checksum_are_rejected(text, words):
    (problem,) = made(text)["problems"]
    assert words in problem


def test_registries_with_password_command_are_listed():
    ecr = "123456789012.dkr.ecr.eu-west-2.amazonaws.com"
    image = made(push=f"{ecr}/training", credentials=[{"machine": "nvcr.io"}])
    assert image["registries"] == [ecr, "nvcr.io"]
    assert made()["registries"] == []
