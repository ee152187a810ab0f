# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""s3_tree as Ansible runs it: parameters that are rejected before any request to S3."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import s3_tree


@pytest.fixture
def bring(run_on_controller, monkeypatch, tmp_path):
    """bring(**options) runs the module over a folder with one file; a client of S3 may not be made."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("alpha")
    monkeypatch.setattr(s3_tree.aws, "client", lambda *_arguments, **_options: pytest.fail("S3 is asked"))

    def run(check=False, **options):
        given = {"region": "us-east-1", "source": str(tmp_path / "data"), "bucket": "data", **options}
        return run_on_controller(s3_tree, check, **given)

    return run


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"part_mib": 4}, "part_mib is at least 5 (Amazon S3 takes no smaller part) and threads at least 1"),
        ({"threads": 0}, "part_mib is at least 5 (Amazon S3 takes no smaller part) and threads at least 1"),
        ({"owner": "12345"}, "owner is '12345'; an AWS account is 12 digits, in quotation marks"),
        ({"sample": ["a.txt"]}, "sample needs sample_dir, where the samples go; set it"),
    ],
)
def test_refusals(bring, options, sentence):
    assert bring(**options)["msg"] == sentence


def test_unsupported_checksum_is_rejected(bring):
    assert "value of checksum must be one of: sha256, crc64nvme, got: md5" in bring(checksum="md5")["msg"]


@pytest.mark.parametrize("check", [False, True])
def test_sample_outside_folder_is_rejected(bring, tmp_path, check):
    message = bring(check, sample=["other.tar", "a.txt"], sample_dir=str(tmp_path))["msg"]
    assert message == f"the samples other.tar are not in {tmp_path}/data; use paths below it"


@pytest.mark.parametrize("check", [False, True])
def test_links_to_folders_are_rejected(bring, tmp_path, check):
    (tmp_path / "data" / "link").symlink_to(tmp_path)
    message = bring(check)["msg"]
    assert message == f"{tmp_path}/data cannot be uploaded as it is: {tmp_path}/data/link is a link to a folder"


@pytest.mark.parametrize("check", [False, True])
def test_empty_folder_does_not_empty_prefix(bring, tmp_path, check):
    (tmp_path / "nothing").mkdir()
    message = bring(check, source=str(tmp_path / "nothing"), delete=True)["msg"]
    assert message == f"{tmp_path}/nothing holds no file, and delete would empty the prefix; check the path"
    absent = bring(check, source=str(tmp_path / "mistyped"), delete=True)["msg"]
    assert absent.endswith("mistyped does not exist; use a folder or a file")


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("prefix", ["", "/"])
def test_delete_does_not_empty_bucket(bring, check, prefix):
    message = bring(check, prefix=prefix, delete=True)["msg"]
    assert message == ("there is no prefix, and delete would take everything else in the bucket data; use a prefix")
