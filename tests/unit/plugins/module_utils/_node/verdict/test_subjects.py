# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import profiles
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.subjects import FULL_SUBJECTS


def test_each_check_of_profile_full_has_its_subject():
    checks = {
        check.name.partition(".")[0] for check in profiles.checks("full", profiles.Options(), profiles.Expected())
    }
    known = [set(words) for words in FULL_SUBJECTS]
    assert all(checks & words for words in known)
    assert all(any(check in words for words in known) for check in checks)
