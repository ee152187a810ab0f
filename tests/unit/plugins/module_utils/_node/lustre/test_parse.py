# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output of Lustre's tools."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import parse as lustre_parse

# 'lnetctl net show -v', shortened; the counters are invented.
NETS = """net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
          statistics:
              send_count: 0
    - net type: tcp
      local NI(s):
        - nid: 10.0.1.5@tcp
          status: up
          interfaces:
              0: ens5
          statistics:
              send_count: 100
              recv_count: 90
    - net type: efa
      local NI(s):
        - nid: 10.0.1.5@efa
          status: up
          statistics:
              send_count: 7
              recv_count: 6
        - nid: 10.0.1.6@efa
          status: down
          statistics:
              send_count: 1
              recv_count: 0
"""


def test_interfaces_of_net_are_added_up():
    nets = lustre_parse.parse_net_show(NETS)
    assert nets["efa"] == {"nids": 2, "up": 1, "sent": 8, "received": 6}
    assert nets["tcp"] == {"nids": 1, "up": 1, "sent": 100, "received": 90}
    assert lustre_parse.sent_since({"tcp": {"sent": 90}}, nets) == {"lo": 0, "tcp": 10, "efa": 8}


def test_states_are_decoded_from_flags():
    # The documentation of FSx has this line for an exported file.
    state = lustre_parse.parse_hsm_state("a b: (0x0000000d) released exists archived, archive_id:1")
    assert state == {"path": "a b", "flags": 13, "states": ["exists", "released", "archived"], "archive_id": 1}
    assert lustre_parse.parse_hsm_state("/fsx/a: (0x00000000)") == {
        "path": "/fsx/a",
        "flags": 0,
        "states": [],
        "archive_id": None,
    }
    assert lustre_parse.parse_hsm_state("cannot get it") is None


@pytest.mark.parametrize(
    ("source", "servers"),
    [
        ("10.0.1.7@tcp:/abcdefgh", ["10.0.1.7"]),
        ("10.0.1.7:/abcdefgh", ["10.0.1.7"]),
        ("10.0.1.7@tcp,10.0.1.8@efa:10.0.1.9@tcp:/abcdefgh", ["10.0.1.7", "10.0.1.8", "10.0.1.9"]),
        ("abcdefgh", []),
        (None, []),
    ],
)
def test_servers_of_source(source, servers):
    assert lustre_parse.servers(source) == servers


def test_addresses_of_getent_are_listed_once():
    text = "10.0.1.7        STREAM fs-1.example.com\n10.0.1.7        DGRAM  \n10.0.1.10       RAW    \n"
    assert lustre_parse.parse_addresses(text) == ["10.0.1.10", "10.0.1.7"]
    assert lustre_parse.parse_addresses("::1 STREAM x\n10.0.1 STREAM\n10.0.1.7.example.com STREAM\n\n") == []
