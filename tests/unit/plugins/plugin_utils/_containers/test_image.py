# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a training image is made of, and what may not go into one."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._containers.image import enroot_pyxis_image

IMAGE = enroot_pyxis_image
SUM = "    --hash=sha256:" + "a" * 64
GOOD = {
    "base": "registry.example/cuda:13-devel@sha256:" + "b" * 64,
    "name": "training",
    "directory": "/fsx/images",
    "push": "",
    "build_arguments": {},
}
REQUIREMENTS = "".join(
    f"{pin} \\\n{SUM}\n"
    for pin in ("cuda-toolkit==13.2.2", "megatron-core==0.19.2", "nvidia-nccl-cu13==2.30.7", "torch==2.15.0")
)


def test_the_versions_that_the_scan_compares_are_told():
    image = IMAGE(GOOD, REQUIREMENTS, "1.51.0")
    assert image["problems"] == []
    assert image["versions"] == {
        "efa": "1.51.0",
        "pytorch": "2.15.0",
        "megatron": "0.19.2",
        "nccl": "2.30.7",
        "cuda": "13.2.2",
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"base": "nvcr.io/nvidia/cuda:13.1.2-devel-ubuntu24.04"}, "give an image with Ubuntu 24.04 and the CUDA"),
        ({"base": "x@sha256:" + "b" * 64 + "\nRUN evil"}, "give an image"),
        ({"name": "Training"}, "enroot_pyxis_image_name is 'Training'"),
        ({"directory": "/fsx/../etc"}, "enroot_pyxis_image_directory is '/fsx/../etc'"),
        ({"push": "training"}, "give REGISTRY/REPOSITORY without a tag"),
        ({"push": "123456789012.dkr.ecr.eu-west-2.amazonaws.com/training:1"}, "without a tag"),
        ({"build_arguments": {"A B": "x"}}, "enroot_pyxis_image_build_arguments has 'A B'"),
        ({"build_arguments": {"A": "x\ny"}}, "a value of one line"),
    ],
)
def test_settings_that_no_build_could_use(changed, words):
    (problem,) = IMAGE({**GOOD, **changed}, REQUIREMENTS, "1.51.0")["problems"]
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
def test_packages_that_nobody_vouches_for(text, words):
    (problem,) = IMAGE(GOOD, text, "1.51.0")["problems"]
    assert words in problem


def test_registries_that_docker_asks_for_passwords():
    ecr = "123456789012.dkr.ecr.eu-west-2.amazonaws.com"
    settings = {**GOOD, "push": f"{ecr}/training"}
    assert IMAGE(settings, REQUIREMENTS, "1.51.0", [{"machine": "nvcr.io"}])["registries"] == [ecr, "nvcr.io"]
    assert IMAGE(GOOD, REQUIREMENTS, "1.51.0")["registries"] == []
