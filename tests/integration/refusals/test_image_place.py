# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The training image is built only if its directory is on a mount, which other nodes may share."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.plugin_utils._data import artifacts

SUM = "a" * 64
EFA = next(entry["version"] for entry in artifacts.ARTIFACTS if entry["name"] == "aws-efa-installer")
IMAGE = {
    "enroot_pyxis_image_base": f"nvcr.io/nvidia/cuda:any@sha256:{SUM}",
    "enroot_pyxis_mirror_url": "http://127.0.0.1:9",
    "enroot_pyxis_checksums": {f"aws-efa-installer-{EFA}.tar.gz": SUM},
    # A directory that exists on no machine: it would be made on the root disk.
    "enroot_pyxis_image_directory": "/mlcluster-nobody-mounts-this/images",
}
PLAY = """---
- name: Build the image
  hosts: head
  gather_facts: false
  tasks:
    - name: Know the host
      ansible.builtin.setup: {gather_subset: [min, pkg_mgr]}

    - name: Build the image
      ansible.builtin.include_role: {name: mlcluster.aws.enroot_pyxis, tasks_from: image}
"""


def test_image_directory_without_mount_is_refused_first(run_playbook, tmp_path):
    play = tmp_path / "image.yml"
    play.write_text(PLAY, encoding="utf-8")
    status, output = run_playbook(play, {"head": {"h1": {}}}, **IMAGE)
    assert status == 2
    assert (
        "h1: /mlcluster-nobody-mounts-this/images is on no mount: its files would land on this machine's root disk"
    ) in output
    assert "name a directory below a shared one in enroot_pyxis_image_directory, or, for a cluster of one" in output
    assert "Ask Docker" not in output

    _status, output = run_playbook(play, {"head": {"h1": {}}}, **IMAGE, enroot_pyxis_image_require_mount=False)
    assert "is on no mount" not in output
    assert "Look for an image of the same recipe" in output
