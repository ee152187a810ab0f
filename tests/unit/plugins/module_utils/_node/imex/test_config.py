# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.config import (
    FIRST_PORT,
    PORTS,
    Options,
    option_errors,
    port_of,
)


def test_defaults_are_sound():
    assert option_errors(Options()) == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (Options(mode="always"), "mode is 'always': use one of required, best_effort, none"),
        (Options(seconds=0), "seconds is 0: use 1 to 600"),
        (Options(service="a;b"), "service is 'a;b': use the name of a unit of systemd"),
    ],
)
def test_wrong_option_is_named(options, part):
    assert option_errors(options) == [part]


def test_jobs_in_row_and_restarts_have_other_ports():
    ports = [port_of(4711, 0), port_of(4712, 0), port_of(4711, 1), port_of(4711, 2)]
    assert len(set(ports)) == len(ports)
    assert port_of(4711, 0) == port_of(4711, 0)


def test_ports_stay_below_those_of_kernel():
    assert all(FIRST_PORT <= port_of(job, 3) < 32768 for job in (1, PORTS - 1, PORTS, 0xFFFFFFFE))
