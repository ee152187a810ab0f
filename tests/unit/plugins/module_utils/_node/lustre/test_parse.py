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


def test_counters_that_are_no_numbers_are_left_out():
    text = "status: up\n" + NETS.replace("send_count: 7", "send_count: N/A").replace("recv_count: 6", "recv_count: -6")
    assert lustre_parse.parse_net_show(text)["efa"] == {"nids": 2, "up": 1, "sent": 1, "received": 0}
    assert lustre_parse.parse_net_show(text)["lo"] == {"nids": 1, "up": 1, "sent": 0, "received": 0}
    peers = PEERS.replace("send_count: 90", "send_count: N/A")
    assert lustre_parse.parse_peer_show(peers)[0]["sent"] == {"tcp": 4, "tcp1": 0, "efa": 10}
    stray = "peer:\n - primary nid: a@tcp\n  send_count: 5\n"
    assert lustre_parse.parse_peer_show(stray) == [{"nids": ["a@tcp"], "sent": {}}]


def test_parameters_are_read_by_line():
    text = "osc.a.max=8\nnothing\n =9\nllite.b.x = a=b\n"
    assert lustre_parse.parse_parameters(text) == {"osc.a.max": "8", "llite.b.x": "a=b"}


def test_every_state_of_a_file_has_its_bit():
    names = ["exists", "dirty", "released", "archived", "norelease", "noarchive", "lost"]
    for at, name in enumerate(names):
        assert lustre_parse.parse_hsm_state(f"/a: (0x{1 << at:08x}) x\n")["states"] == [name]
    assert lustre_parse.parse_hsm_state("/a: (0x0000007f), archive_id:12")["archive_id"] == 12


def test_last_mount_on_path_is_on_top():
    mounts = [{"target": path, "fstype": kind} for path, kind in (("/a", "lustre"), ("/a", "xfs"), ("/b", "lustre"))]
    assert lustre_parse.top_mount("/a", mounts) == mounts[1]
    assert lustre_parse.top_mount("/c", mounts) is None
    fstab = [{"path": "/c", "fstype": "lustre"}, {"path": "/d", "fstype": "nfs4"}]
    assert lustre_parse.lustre_paths(mounts, fstab) == ["/a", "/b", "/c"]


# Shape of lnetctl 2.15 with a server of FSx (three rails), one without EFA, and a leftover of a ping.
PEERS = """peer:
    - primary nid: 10.0.1.7@tcp
      Multi-Rail: True
      peer state: 273
      peer ni:
        - nid: 10.0.1.7@tcp
          state: NA
          statistics:
              send_count: 4
              recv_count: 4
              drop_count: 0
        - nid: 198.19.0.5@tcp1
          state: NA
          statistics:
              send_count: 0
        - nid: 10.0.1.7@efa
          state: NA
          statistics:
              send_count: 90
        - nid: 10.0.1.107@efa
          statistics:
              send_count: 10
    - primary nid: 10.0.1.8@tcp
      Multi-Rail: False
      peer ni:
        - nid: 10.0.1.8@tcp
          state: NA
    - primary nid: 10.0.1.9@efa
"""


def test_messages_to_peer_are_added_up_by_net():
    first, second, third = lustre_parse.parse_peer_show(PEERS)
    assert first["sent"] == {"tcp": 4, "tcp1": 0, "efa": 100}
    assert first["nids"] == ["10.0.1.7@tcp", "198.19.0.5@tcp1", "10.0.1.7@efa", "10.0.1.107@efa"]
    assert second == {"nids": ["10.0.1.8@tcp"], "sent": {"tcp": 0}}
    assert third == {"nids": ["10.0.1.9@efa"], "sent": {}}
    assert lustre_parse.parse_peer_show("peer: nothing\n        - nid: 10.0.1.7@efa\n") == []


@pytest.mark.parametrize(
    ("text", "instance"),
    [
        ("abcdefgh-ffff93af0c638800 /fsx\n", ("abcdefgh", "ffff93af0c638800")),
        ("a-b-ffff93af /fsx", ("a-b", "ffff93af")),
        ("abcdefgh\n", None),
        ("cannot get name for `/fsx'\n", None),
        ("", None),
    ],
)
def test_instance_of_file_system(text, instance):
    assert lustre_parse.parse_instance(text) == instance


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
