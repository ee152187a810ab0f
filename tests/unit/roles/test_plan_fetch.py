# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages of roles/plan for files that could not be fetched, by Ansible's own templating."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

FETCH = Path(__file__).parents[3] / "roles" / "plan" / "tasks" / "fetch.yml"
HTTP = {"url": "https://mirror.example.com/efa/aws-efa-installer-1.51.0.tar.gz", "name": "x"}
S3 = {"url": "s3://bucket/efa/aws-efa-installer-1.51.0.tar.gz.sig", "name": "x"}


def tasks():
    return DataLoader().load_from_file(str(FETCH), trusted_as_template=True)


def message(failed):
    (task,) = tasks()[0]["rescue"]
    variables = {
        **task["vars"],
        "inventory_hostname": "node1",
        "ansible_failed_result": failed,
        "plan_folder": "/var/cache/mlcluster/efa",
    }
    return Templar(loader=DataLoader(), variables=variables).template(task["ansible.builtin.fail"]["msg"])


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        (
            {"results": [{"failed": True, "msg": "Request failed", "plan_file": HTTP}], "failed": True},
            f"{HTTP['url']} was not taken and nothing was installed: Request failed: check that the file exists",
        ),
        (
            {
                "msg": "One or more items failed",
                "results": [
                    {"failed": False, "plan_file": HTTP},
                    {
                        "failed": True,
                        "msg": "non-zero",
                        "stderr": "Unable to locate credentials\n",
                        "plan_file": S3,
                    },
                ],
            },
            f"{S3['url']} was not taken and nothing was installed: Unable to locate credentials: the node needs the",
        ),
        (
            {"results": [{"failed": True, "msg": "The checksum did not match 1; it was 2.", "plan_file": HTTP}]},
            f"{HTTP['url']} was not taken and nothing was installed: The checksum did not match 1; it was 2.: the file",
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


def rendered(value, **plan_file):
    return Templar(loader=DataLoader(), variables={"plan_file": plan_file, "omit": "omitted"}).template(value)


def test_only_file_with_prover_has_no_checksum():
    download = tasks()[0]["block"][0]["ansible.builtin.get_url"]
    proved = {"url": "https://x/a", "proved_by": "efa_step"}
    assert rendered(download["checksum"], url="https://x/a", sha256="12") == "sha256:12"
    assert rendered(download["checksum"], **proved) == "omitted"
    # Without a checksum, an older file of the same name must not stay.
    assert rendered(download["force"], **proved) is True
    with pytest.raises(AnsibleError, match="sha256"):
        rendered(download["checksum"], url="https://x/a")


def test_every_copy_without_prover_is_checked():
    files = [{"url": url} for url in ("https://x/a", "file:///srv/a", "s3://x/b", "/c", "ftp://x/e")]
    files.append({"url": "/d", "proved_by": "efa_step"})
    templar = Templar(loader=DataLoader(), variables={"plan_files": files})
    checked = [task for task in tasks()[1:] if "plan_files" in str(task["loop"])]
    assert [[file["url"] for file in templar.template(task["loop"])] for task in checked] == [
        ["s3://x/b", "/c", "ftp://x/e"]
    ]
