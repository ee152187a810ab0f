# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of Lustre's client for a node's memory and CPUs."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import tuning as lustre_tuning

from tests.unit.fakes.fake_lustre_host import LustreHost


@pytest.mark.parametrize(
    ("memory_gib", "cpus", "names"),
    [
        (2000, 192, 5),
        (2000, 32, 2),
        (32, 96, 3),
        (32, 8, 0),
        (64, 64, 0),
    ],
)
def test_tuning_depends_on_memory_and_cpus(memory_gib, cpus, names):
    assert len(lustre_tuning.parameters({"memory_kib": memory_gib << 20, "cpus": cpus}, {})) == names


def test_values_match_guide_and_name_it():
    # The guide's values for a machine with 192 vCPUs; the lock cache has 100 entries a vCPU.
    size = {"memory_kib": 1 << 31, "cpus": 192}
    assert {(value.name, value.value) for value in lustre_tuning.parameters(size, {})} == {
        ("ldlm.namespaces.*.lru_max_age", "600000"),
        ("ldlm.namespaces.*.lru_size", "19200"),
        ("osc.*OST*.max_rpcs_in_flight", "32"),
        ("mdc.*.max_rpcs_in_flight", "64"),
        ("mdc.*.max_mod_rpcs_in_flight", "50"),
    }
    assert {(value.name, value.value) for value in lustre_tuning.module_options(size, {})} == {
        ("ptlrpc.ptlrpcd_per_cpt_max", "32"),
        ("ksocklnd.credits", "2560"),
    }
    every = lustre_tuning.parameters(size, {}) + lustre_tuning.module_options(size, {})
    assert {value.source for value in every} == {lustre_tuning.GUIDE}


def test_values_can_be_changed_added_and_removed():
    size = {"memory_kib": 1 << 20, "cpus": 96}
    changed = lustre_tuning.parameters(
        size, {"osc.*OST*.max_rpcs_in_flight": 64, "mdc.*.max_rpcs_in_flight": None, "llite.*.max_cached_mb": 1}
    )
    assert [(value.name, value.value, value.source) for value in changed] == [
        ("osc.*OST*.max_rpcs_in_flight", "64", "fsx_lustre_tuning"),
        ("mdc.*.max_mod_rpcs_in_flight", "50", lustre_tuning.GUIDE),
        ("llite.*.max_cached_mb", "1", "fsx_lustre_tuning"),
    ]


def test_module_options_become_modprobe_file():
    options = lustre_tuning.module_options({"memory_kib": 1, "cpus": 96}, {})
    assert lustre_tuning.modprobe_text(options).splitlines()[1:] == [
        "options ptlrpc ptlrpcd_per_cpt_max=32",
        "options ksocklnd credits=2560",
    ]
    assert lustre_tuning.modprobe_text(lustre_tuning.module_options({"memory_kib": 1, "cpus": 8}, {})) == ""


def test_apply_reports_values_not_set(tmp_path):
    host = LustreHost(tmp_path)
    host.broken["lctl"] = "denied"
    rows = [{"name": "osc.a", "wanted": "1", "differs": True}]
    (sentence,) = lustre_tuning.apply(host, rows, 5)
    assert sentence.startswith("osc.a was not set to 1: lctl set_param osc.a=1 ended with status 1: denied")
