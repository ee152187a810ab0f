# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both outputs of DCGM, in their documented shape: every word of the second of two GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.dcgm import FIELDS, check_dcgm

from tests.unit.ledger.walk import Excuse, Leaf, Room, bounded, room_tests
from tests.unit.plugins.module_utils._node.health.test_dcgm import GOOD, HOSTS

BOUNDLESS = "nobody publishes a bound, so that no verdict judges it"
NUMBERS = ("zero", "half", "ten times")
EXCUSES = (
    *(Excuse(f"{name}/value", BOUNDLESS, NUMBERS) for name in ("memory_temperature", "power")),
    Excuse("xid/value", "a GPU that never had an Xid has no value", ("N/A",)),
    Excuse("temperature/value", "a cooler one is as good", ("zero", "half")),
)


def leaf(name):
    return Leaf(f"{name}/value", GOOD[name], lambda text: {name: "?" if not text else text.replace(" ", "_")})


@pytest.fixture(params=HOSTS)
def room(request):
    host = HOSTS[request.param]
    judge = bounded(lambda changes: check_dcgm(host(**changes), most_celsius=80))
    fields = [field.name for field in FIELDS if field.name not in ("ecc_corrected", "remapped_corrected")]
    return Room(request.param, {}, [leaf(name) for name in fields], judge, EXCUSES)


def test_every_leaf(room):
    room_tests(room)[1]()
