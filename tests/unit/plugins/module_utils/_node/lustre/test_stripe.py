# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stripe layouts: rejected ones, the command, and its output."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import stripe as lustre_stripe


@pytest.mark.parametrize(
    ("components", "words"),
    [
        ([{"count": 0}], "a count of 0"),
        ([{"count": "8"}], "a count of '8'"),
        ([{"count": True}], "a count of True"),
        ([{"count": 1, "size": "big"}], "size 'big'"),
        ([{"count": 1, "size": "1K"}], "multiples of 64K"),
        ([{"count": 1, "end": "1G"}], "an end in every component but the last"),
        ([{"count": 1, "end": "1G"}, {"count": 1, "end": "1M"}, {"count": 2}], "not smaller"),
        ([{"stripes": 1}], "set end, count and size"),
    ],
)
def test_bad_stripes_are_rejected(components, words):
    assert words in lustre_stripe.stripe_problem(components)


def test_growing_layout_is_set_by_one_command():
    growing = [{"end": "100M", "count": 1}, {"end": "10G", "count": 8}, {"count": 32, "size": "4M"}]
    assert lustre_stripe.stripe_problem(growing) == ""
    assert " ".join(lustre_stripe.setstripe(growing)) == ("lfs setstripe -E 100M -c 1 -E 10G -c 8 -E -1 -c 32 -S 4M .")


def test_both_forms_of_getstripe_are_parsed():
    plain = "stripe_count:  -1 stripe_size:   16777216 pattern:       raid0 stripe_offset: -1\n"
    assert lustre_stripe.parse_getstripe(plain) == [{"end": None, "count": -1, "size": 16777216}]
    files = "lmm_stripe_count:  4294967295\nlmm_stripe_size:   1048576\n"
    assert lustre_stripe.parse_getstripe(files) == [{"end": None, "count": -1, "size": 1048576}]
    assert lustre_stripe.parse_getstripe("no idea\n") == []


def test_unset_size_matches_any():
    wanted = lustre_stripe.wanted_layout([{"count": 8}])
    assert lustre_stripe.same_layout(wanted, [{"end": None, "count": 8, "size": 4 << 20}])
    assert not lustre_stripe.same_layout(wanted, [{"end": None, "count": 4, "size": 4 << 20}])
