# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""botocore clients for the endpoint, without retries; they share a session, so that service models are read once."""

from __future__ import annotations

import functools
from typing import Any

import botocore.config
import botocore.session


@functools.cache
def _session(key: str) -> botocore.session.Session:
    session = botocore.session.Session()
    session.set_credentials(key, "not-a-secret")
    return session


def client(url: str, service: str = "ec2", region: str = "us-east-1", key: str = "AKIARIGMAIN") -> Any:
    """Return a client of ``service`` for the endpoint ``url``, without retries."""
    once = botocore.config.Config(retries={"total_max_attempts": 1, "mode": "standard"})
    return _session(key).create_client(service, region_name=region, endpoint_url=url, config=once)
