# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""instance_price_info as Ansible runs it: its requests, and that an unknown price is not a failure."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.modules import instance_price_info


def test_price_list_region_is_queried(run_on_controller, monkeypatch):
    asked = []
    monkeypatch.setattr(
        instance_price_info.aws, "client", lambda params, service: asked.append((params["region"], service))
    )
    monkeypatch.setattr(instance_price_info.price, "look", lambda client, *of: {"dollars": 0.1, "reason": str(of)})
    found = run_on_controller(instance_price_info, region="ap-southeast-3", type="c5d.large")
    assert asked == [("us-east-1", "pricing")]
    assert (found["dollars"], found["reason"]) == (0.1, "('c5d.large', 'ap-southeast-3')")


def test_denied_request_is_reason(run_on_controller, monkeypatch):
    def refuse(params, service):
        raise instance_price_info.aws.AwsError("asking the price list failed: AccessDenied")

    monkeypatch.setattr(instance_price_info.aws, "client", refuse)
    found = run_on_controller(instance_price_info, region="us-east-1", type="c5d.large")
    assert (found["changed"], found["dollars"]) == (False, None)
    assert found["reason"] == "asking the price list failed: AccessDenied"
