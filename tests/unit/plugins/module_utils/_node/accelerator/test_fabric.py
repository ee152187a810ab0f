# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.fabric import NO_CLUSTER, is_alone
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.parse import parse_smi

from tests.unit.fakes.fake_training_host import RECORDED_XML as H100

UUID = "814d0000-0000-4000-8000-00000000b5b7"


def fabric(state, cluster):
    """Return the recorded document with another state and cluster UUID of the fabric."""
    found = H100.replace("<state>N/A</state>", f"<state>{state}</state>")
    return parse_smi(found.replace("<clusterUuid>N/A<", f"<clusterUuid>{cluster}<"))


@pytest.mark.parametrize(
    ("state", "cluster", "alone"),
    [
        ("N/A", "N/A", True),
        ("Completed", NO_CLUSTER, True),
        ("Completed", UUID, False),
        ("Completed", "N/A", False),
        ("In Progress", "N/A", False),
        ("In Progress", NO_CLUSTER, False),
        ("N/A", UUID, False),
        ("N/A", "[Unknown Error]", False),
        ("[Unknown Error]", "N/A", False),
        ("", "", False),
    ],
)
def test_gpu_without_shared_domain_is_alone(state, cluster, alone):
    assert is_alone(fabric(state, cluster)) is alone


def test_hidden_gpus_prove_nothing():
    shown = parse_smi(H100)
    assert not is_alone({**shown, "attached": 2})
    assert not is_alone({**shown, "gpus": [], "attached": 0})
