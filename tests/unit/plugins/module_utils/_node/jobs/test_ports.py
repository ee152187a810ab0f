# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports that are free, and the address of a node."""

from __future__ import annotations

import types

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import ports

# The kernel's own lines of /proc/net/tcp: 20007 listens, 23170 is connected, 26333 is in TIME_WAIT.
SOCKETS = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4E27 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1234 1 0 100 0 0 10 0
   1: 0100007F:5A82 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 1235 1 0 100 0 0 10 0
  12: 0100007F:66DD 0100007F:1234 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0
"""


@pytest.mark.parametrize(
    ("port", "expected"), [(20007, True), (23170, True), (26333, False), (4660, False), (2, False)]
)
def test_port_is_taken_by_what_listens_or_is_connected(port, expected):
    assert ports.taken(port, SOCKETS) is expected


def test_first_free_port_of_those_of_job():
    assert ports.choose(7, "") == 20007
    assert ports.choose(7, SOCKETS) == 26333
    assert ports.choose(7, SOCKETS, but=26333) == 29496
    assert ports.choose(123456, "") == 23456


def test_job_without_free_port_takes_one_all_same():
    every = "".join(f"   0: 0100007F:{port:04X} 00000000:0000 0A \n" for port in range(20000, 30000))
    assert 20000 <= ports.choose(7, every) < 30000


def work(answers, read=""):
    """Return a job on n1 and n2 whose commands answer so; ``asked`` are the commands."""
    asked = []

    def ask(*argv):
        asked.append(argv)
        return answers.get(argv[0], "")

    host = types.SimpleNamespace(read_text=lambda path: read)
    return types.SimpleNamespace(nodes=("n1", "n2"), job=7, ask=ask, host=host, asked=asked)


def test_sockets_of_this_node_need_no_step():
    here = work({"srun": SOCKETS}, read=SOCKETS)
    assert ports.choose_port(here, "n1") == 26333 and here.asked == []
    assert ports.choose_port(work({"srun": ""}, read=SOCKETS), "n2") == 20007
    there = work({"srun": SOCKETS})
    assert ports.choose_port(there, "n2", but=26333) == 29496
    assert there.asked == [
        ("srun", "--overlap", "--nodes=1", "--nodelist=n2", "--ntasks=1", "--mpi=none", "--time=2", "cat",
         "/proc/net/tcp", "/proc/net/tcp6"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "hosts", "address"),
    [
        ("NodeName=n1 Arch=x NodeAddr=10.0.1.5 NodeHostName=n1 Comment=x NodeAddr=1.1.1.1", "127.0.1.1 n1", "10.0.1.5"),
        ("NodeName=n1 NodeAddr=fd00::5 NodeHostName=n1", "127.0.1.1 n1", "fd00::5"),
        ("NodeName=n1 NodeAddr=n1-data NodeHostName=n1", "10.0.1.6 STREAM n1-data\n10.0.1.6 DGRAM", "10.0.1.6"),
        # A controller that does not answer.
        ("", "10.0.1.7 STREAM n1", "10.0.1.7"),
        ("", "", "n1"),
    ],
)
def test_address_of_node_is_that_of_slurm(node, hosts, address):
    asks = work({"scontrol": node, "getent": hosts})
    assert ports.address(asks, "n1") == address
    assert asks.asked[0] == ("scontrol", "--oneliner", "show", "node", "n1")
    assert asks.asked[1:] in ([], [("getent", "ahostsv4", "n1-data" if "n1-data" in node else "n1")])
