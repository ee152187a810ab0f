# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages of the role efa_nccl for a failed download, by Ansible's own templating."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

STEP = Path(__file__).parents[3] / "roles" / "efa_nccl" / "tasks" / "step.yml"
HTTP = {"origin": "https://mirror.example.com/efa/aws-efa-installer-1.51.0.tar.gz", "path": "/x"}
S3 = {"origin": "s3://bucket/efa/aws-efa-installer-1.51.0.tar.gz.sig", "path": "/x"}


def message(failed):
    tasks = DataLoader().load_from_file(str(STEP), trusted_as_template=True)
    (task,) = tasks[0]["rescue"]
    variables = {
        **task["vars"],
        "inventory_hostname": "node1",
        "ansible_failed_result": failed,
        "__efa_nccl_step": {"arguments": {"work": "/var/cache/mlcluster/efa"}},
    }
    return Templar(loader=DataLoader(), variables=variables).template(task["ansible.builtin.fail"]["msg"])


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        (
            {"results": [{"failed": True, "msg": "Request failed", "__efa_nccl_piece": HTTP}], "failed": True},
            f"{HTTP['origin']} was not taken and nothing was installed: Request failed: check that the file exists",
        ),
        (
            {
                "msg": "One or more items failed",
                "results": [
                    {"failed": False, "__efa_nccl_piece": HTTP},
                    {
                        "failed": True,
                        "msg": "non-zero",
                        "stderr": "Unable to locate credentials\n",
                        "__efa_nccl_piece": S3,
                    },
                ],
            },
            f"{S3['origin']} was not taken and nothing was installed: Unable to locate credentials: the node needs the",
        ),
        (
            {"failed": True, "msg": "No space left on device"},
            "/var/cache/mlcluster/efa was not taken and nothing was installed: No space left on device: check that",
        ),
    ],
)
def test_failed_download_reports_origin_reason_and_hint(failed, words):
    assert message(failed).startswith(f"node1: {words}")


def test_reason_is_truncated():
    assert len(message({"failed": True, "msg": "x" * 10_000})) < 900
