#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: s3_tree
short_description: Upload a folder to Amazon S3 and verify every object by its checksum
version_added: 0.1.0
description:
  - Uploads the files that S3 does not have with exactly this content, several in parallel.
  - Large files are uploaded in parts; an interrupted upload is resumed, since S3 keeps the parts.
  - Each object is verified by the checksum that S3 computed.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._cluster
attributes:
  check_mode:
    description: Uploads and deletes nothing, and reports what it would.
    support: full
options:
  source:
    description: A folder, whose files are uploaded under their relative paths, or one file.
    type: path
    required: true
  bucket:
    description: The bucket, which must exist.
    type: str
    required: true
  owner:
    description: Account that must own the bucket, 12 digits; empty accepts any owner.
    type: str
    default: ""
  prefix:
    description: Prefix of every key.
    type: str
    default: ""
  checksum:
    description:
      - V(sha256) is a checksum of the checksums of the parts, V(crc64nvme) one of the whole file, with any parts.
      - Without the Python package awscrt V(crc64nvme) is slow.
    type: str
    choices: [sha256, crc64nvme]
    default: sha256
  delete:
    description:
      - Delete objects under the prefix that are not in the folder.
      - Rejected for a folder without files, for one file, and without a prefix.
    type: bool
    default: false
  sample:
    description: Keys without the prefix that are downloaded and verified, archives completely.
    type: list
    elements: str
    default: []
  sample_dir:
    description: Directory of the samples, which must not be O(source); required with O(sample).
    type: path
  part_mib:
    description: Size of a part in MiB; files with more than 10000 parts use larger ones.
    type: int
    default: 32
  threads:
    description: Parallel files; each uses the memory of one part.
    type: int
    default: 8
  storage_class:
    description: Storage class of the uploaded objects.
    type: str
    default: STANDARD
seealso:
  - module: amazon.aws.s3_object
"""

EXAMPLES = r"""
- name: Upload the shards to S3
  mlcluster.aws.s3_tree:
    region: ap-southeast-3
    source: /local/training-data
    bucket: training-data-jakarta
    prefix: datasets
"""

RETURN = r"""
uploaded:
  description: Keys that were uploaded, or would be.
  returned: always
  type: list
  elements: str
  sample: [datasets/shard-000000.tar]
unchanged:
  description: Number of objects that S3 already had, verified by their checksums.
  returned: always
  type: int
  sample: 12
deleted:
  description: Keys that were deleted, or would be.
  returned: success
  type: list
  elements: str
  sample: []
extra:
  description: Number of objects under the prefix that are not in the folder and were kept.
  returned: success
  type: int
  sample: 0
resumed_parts:
  description: Parts that an earlier run had uploaded.
  returned: always
  type: int
  sample: 0
sent_bytes:
  description: Bytes that were sent.
  returned: always
  type: int
  sample: 1048576
samples:
  description: Paths of the samples.
  returned: success
  type: list
  elements: str
  sample: [/tmp/sample/shard-000000.tar]
"""

import os
import re
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, s3_tree


def run(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the results. Raises AwsError before the first upload, or after the remaining uploads are done."""
    params = module.params
    files, strange = s3_tree.local_files(params["source"], params["prefix"])
    if strange:
        raise aws.AwsError(f"{params['source']} cannot be uploaded as it is: {'; '.join(strange)}")
    if params["delete"] and not files:
        raise aws.AwsError(f"{params['source']} holds no file, and delete would empty the prefix; check the path")
    if params["delete"] and not os.path.isdir(params["source"]):
        raise aws.AwsError(
            f"{params['source']} is one file, and delete would remove everything else under the prefix; omit delete"
        )
    start = f"{params['prefix'].strip('/')}/" if params["prefix"].strip("/") else ""
    if params["delete"] and not start:
        raise aws.AwsError(
            f"there is no prefix, and delete would take everything else in the bucket {params['bucket']}; use a prefix"
        )
    by_key = {file.key: file for file in files}
    unknown = [name for name in params["sample"] if start + name not in by_key]
    if unknown:
        raise aws.AwsError(f"the samples {', '.join(unknown)} are not in {params['source']}; use paths below it")
    s3 = aws.client(params, "s3", connections=params["threads"])
    if params["owner"]:
        s3_tree.demand_owner(s3, params["owner"])
    with aws.doing(f"listing s3://{params['bucket']}/{start}"):
        remote = s3_tree.remote_sizes(s3, params["bucket"], params["prefix"])
    tree = s3_tree.Tree(
        s3, params["bucket"], params["checksum"], params["part_mib"], params["storage_class"], module.check_mode
    )
    tree.upload_all(files, remote, params["threads"])
    result: dict[str, t.Any] = {
        "changed": bool(tree.uploaded),
        "uploaded": tree.uploaded,
        "unchanged": len(tree.unchanged),
        "resumed_parts": tree.resumed_parts,
        "sent_bytes": tree.sent_bytes,
    }
    if tree.problems:
        module.fail_json(
            msg=f"{len(tree.problems)} of {len(files)} files were not uploaded: {'; '.join(tree.problems)}", **result
        )
    extra = sorted(set(remote) - set(by_key))
    gone = extra if params["delete"] else []
    if gone and not module.check_mode:
        tree.delete(gone)
    samples = []
    if not module.check_mode:
        samples = [tree.sample(by_key[start + name], name, params["sample_dir"]) for name in params["sample"]]
    result["changed"] = bool(tree.uploaded or gone)
    return {**result, "deleted": gone, "extra": len(extra) - len(gone), "samples": samples}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **aws.OPTIONS,
            "source": {"type": "path", "required": True},
            "bucket": {"type": "str", "required": True},
            "owner": {"type": "str", "default": ""},
            "prefix": {"type": "str", "default": ""},
            "checksum": {"type": "str", "choices": ["sha256", "crc64nvme"], "default": "sha256"},
            "delete": {"type": "bool", "default": False},
            "sample": {"type": "list", "elements": "str", "default": []},
            "sample_dir": {"type": "path"},
            "part_mib": {"type": "int", "default": 32},
            "threads": {"type": "int", "default": 8},
            "storage_class": {"type": "str", "default": "STANDARD"},
        },
        supports_check_mode=True,
    )
    if module.params["sample"] and not module.params["sample_dir"] and not module.check_mode:
        module.fail_json(msg="sample needs sample_dir, where the samples go; set it")
    if module.params["part_mib"] < 5 or module.params["threads"] < 1:
        module.fail_json(msg="part_mib is at least 5 (Amazon S3 takes no smaller part) and threads at least 1")
    if module.params["owner"] and not re.fullmatch("[0-9]{12}", module.params["owner"]):
        module.fail_json(msg=f"owner is '{module.params['owner']}'; an AWS account is 12 digits, in quotation marks")
    try:
        module.exit_json(**run(module))
    except (aws.AwsError, OSError) as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
