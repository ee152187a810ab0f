#!/usr/bin/env bash
# User data of an EC2 instance whose role may read the bucket. cloud-init keeps the output in
# /var/log/cloud-init-output.log.
set -euo pipefail
aws s3 cp s3://my-bucket/mlcluster/on_node_configured.sh /root/on_node_configured.sh
exec bash /root/on_node_configured.sh \
    --pointer s3://my-bucket/mlcluster/pointer --public-key 'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE...' \
    --vars s3://my-bucket/mlcluster/vars.yml --on-failure continue
