# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide to a whole cluster: what its variables for the boot hook make, with the example cluster's file systems."""

from __future__ import annotations

import re

import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import layouts

from tests.unit.checkout import CHECKOUT

GUIDE = CHECKOUT / "docs/guides/parallelcluster.md"
EXAMPLE = CHECKOUT / "inventories/cluster/group_vars/all.yml"
DEFAULTS = CHECKOUT / "roles/fsx_lustre/defaults/main.yml"


def hook_variables():
    (text,) = re.findall(r"```yaml\n(# vars\.yml\n.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return yaml.safe_load(text)


def test_hook_finds_file_systems_of_example():
    given = hook_variables()
    mounts = [one["mount"] for one in yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["cluster_filesystems"]]
    assert [one["path"] for one in given["fsx_lustre_file_systems"]] == mounts
    # The role refuses a directory of jobs that is on no shared mount.
    assert any(given["slurm_jobs_dir"].startswith(f"{mount}/") for mount in mounts)


def test_hook_makes_directories_of_each_model():
    given, defaults = hook_variables(), yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))
    layout, models = given["fsx_lustre_layout"], given["fsx_lustre_models"]
    settings = {
        **{
            name: defaults[f"fsx_lustre_{name}"] for name in ("classes", "owner", "group", "mode", "acl", "directories")
        },
        "layout": layout,
        "models": models,
        "places": layouts.places(layout, given["fsx_lustre_file_systems"]),
    }
    assert layouts.problems(settings) == []
    paths = {entry["path"] for entry in layouts.expand(settings)}
    assert len(models) == 7 and "/fsx1/datasets" in paths
    wanted = ("/fsx2/{}/checkpoints", "/fsx2/{}/outputs", "/fsx3/{}/training_logs", "/fsx3/{}/tensorboard")
    assert {path.format(model) for model in models for path in wanted} <= paths
