# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections import Counter

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import xid_catalog
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import SEVERITIES


def test_each_code_is_in_one_bucket():
    counts = Counter(code for _severity, _action, codes in xid_catalog.BUCKETS.values() for code in codes)
    assert [code for code, number in counts.items() if number > 1] == []
    assert all(1 <= code <= 172 for code in counts)


def test_every_bucket_has_action():
    for severity, action, codes in xid_catalog.BUCKETS.values():
        assert severity in SEVERITIES
        assert action
        assert codes


@pytest.mark.parametrize(
    ("code", "bucket", "severity"),
    [
        (13, "RESTART_APP", "none"),
        (31, "RESTART_APP", "none"),
        (43, "IGNORE", "none"),
        (48, "WORKFLOW_XID_48", "reset"),
        (63, "IGNORE", "none"),
        (64, "RESET_GPU", "reset"),
        (74, "WORKFLOW_NVLINK_ERR", "reset"),
        (79, "RESTART_BM", "reboot"),
        (94, "RESTART_APP", "none"),
        (95, "RESET_GPU", "reset"),
        (119, "RESET_GPU", "reset"),
        (149, "WORKFLOW_NVLINK5_ERR", "monitor"),
        (54, "CHECK_MECHANICALS", "isolate"),
        (1, "UNKNOWN", "monitor"),
        (99999, "UNKNOWN", "monitor"),
    ],
)
def test_codes_match_nvidia_catalog(code, bucket, severity):
    found = xid_catalog.classify(code)
    assert (found["bucket"], found["severity"]) == (bucket, severity)


def test_fatal_nvlink_error_needs_reset():
    assert xid_catalog.classify(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08")["severity"] == "reset"
    assert xid_catalog.classify(145, "RLW_CTRL Nonfatal XC1 i0 Link -1")["severity"] == "monitor"
    assert xid_catalog.classify(31, "Fatal")["severity"] == "none"


@pytest.mark.parametrize(
    ("action", "severity"),
    [
        ("None", "none"),
        ("Drain P2P", "reset"),
        ("Drain and Reset", "reset"),
        ("GPU Reset Required", "reset"),
        ("Node Reboot Required", "reboot"),
        ("Reboot", "reboot"),
        ("Dance", "monitor"),
    ],
)
def test_recovery_actions_are_known(action, severity):
    assert xid_catalog.recovery_severity(action) == severity
    text = f"GPU recovery action changed from 0x0 (None) to 0x2 ({action})"
    assert xid_catalog.classify(154, text)["severity"] == severity
