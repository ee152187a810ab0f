# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.config import (
    CHANNEL_MODE,
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
        (Options(seconds=0.5), "seconds is 0.5: use 1 to 600"),
        (Options(seconds=600.5), "seconds is 600.5: use 1 to 600"),
        (Options(service=""), "service is '': use the name of a unit of systemd"),
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


@pytest.mark.parametrize("seconds", [1, 60, 600])
def test_time_of_wait_is_within_limits(seconds):
    assert option_errors(Options(seconds=seconds)) == []
    assert Options().seconds == 60


def test_channel_is_for_all_users():
    assert CHANNEL_MODE == 0o666


@pytest.mark.parametrize(
    ("job", "restarts", "port"),
    [(0, 0, 21000), (8191, 0, 29191), (8192, 0, 21000), (0, 1, 22009), (7, 2, 23025), (8000, 1, 21817)],
)
def test_port_of_job_and_restart(job, restarts, port):
    assert port_of(job, restarts) == port
