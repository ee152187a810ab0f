# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks that call AWS, without credentials: the first call ends the run with one sentence."""

from __future__ import annotations

import pytest

CLUSTER = {"cluster_name": "c", "cluster_region": "us-east-1"}
NO_ANSWER = (
    "Failed while looking up bucket 'bbb-x1' (during bucket_check); Failed to retrieve caller identity: Unable to "
    "locate credentials"
)
PROVE = {
    "prove_on_aws_region": "us-east-1",
    "prove_on_aws_type": "c5d.large",
    "prove_on_aws_image": "ami-0123456789abcdef0",
    "prove_on_aws_ssh_cidr": "203.0.113.7/32",
}


@pytest.mark.parametrize(
    ("playbook", "variables", "sentence"),
    [
        (
            "build_bundle",
            {"build_bundle_bucket": "bbb-x1"},
            f"nothing was built: bucket bbb-x1 could not be listed ({NO_ANSWER}): log in",
        ),
        (
            "build_bundle",
            {"build_bundle_bucket": "bbb-x1", "build_bundle_release": "0.1.0"},
            f"the pointer was not moved to 0.1.0 ({NO_ANSWER}): log in",
        ),
        ("create_cluster", CLUSTER, "looking at the network c in us-east-1 failed: NoCredentialsError"),
        ("create_network", CLUSTER, "looking at the network c in us-east-1 failed: NoCredentialsError"),
        (
            "destroy_network",
            {**CLUSTER, "cluster_delete_confirm": "c"},
            "looking at the network c in us-east-1 failed: NoCredentialsError",
        ),
        ("prove_on_aws", PROVE, "asking what us-east-1 offers failed: NoCredentialsError"),
        (
            "prove_on_aws",
            {"prove_on_aws_region": "us-east-1", "prove_on_aws_sweep": "list"},
            "Failed to describe instances: Unable to locate credentials; log in to AWS or set AWS_PROFILE",
        ),
        (
            "stage_data",
            {**CLUSTER, "cluster_buckets": [{"name": "bbb-x1"}]},
            "nothing was uploaded: looking at the buckets in us-east-1 failed (Failed to list buckets: Unable to",
        ),
    ],
)
def test_missing_credentials_are_one_sentence(run_playbook, playbook, variables, sentence):
    status, output = run_playbook(f"playbooks/{playbook}.yml", {}, check=False, **variables)
    assert status == 2 and sentence in output and "AWS_PROFILE" in output, output
    assert "Traceback" not in output and "traceback" not in output, output


def test_missing_key_is_reported_before_build(run_playbook, tmp_path):
    dest = tmp_path / "unbuilt"
    variables = {"build_bundle_signing_key": str(tmp_path / "key.pem"), "build_bundle_base_url": "https://example.com"}
    status, output = run_playbook(
        "playbooks/build_bundle.yml", {}, check=False, build_bundle_dest=str(dest), **variables
    )
    assert status == 2 and f"Reading the key {tmp_path}/key.pem failed: openssl reported" in output, output
    assert not dest.exists()
