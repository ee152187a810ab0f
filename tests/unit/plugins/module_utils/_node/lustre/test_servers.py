# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.servers import data_servers, peers, sent_to

from tests.unit.fakes.fake_lustre_host import LustreHost

PARAMETER = "osc.abcdefgh-OST*-osc-ffff9b3c.ost_conn_uuid"


@pytest.fixture
def host(tmp_path):
    made = LustreHost(tmp_path)
    made.parameters[PARAMETER] = {f"osc.abcdefgh-OST000{n}-osc-ffff9b3c": f"10.0.1.{n % 2}@tcp" for n in range(4)}
    return made


def test_servers_are_those_of_the_mount(host):
    assert data_servers(host, host.mount("fsx"), 5) == (["10.0.1.0@tcp", "10.0.1.1@tcp"], None)


@pytest.mark.parametrize("values", [{}, {"osc.a": ""}, {"osc.a": "unknown"}])
def test_file_system_without_servers_is_unknown(host, values):
    host.parameters[PARAMETER] = values
    assert data_servers(host, host.mount("fsx"), 5) == ([], f"lctl has no {PARAMETER}")


def test_other_output_of_lfs_is_unknown(host):
    path = host.mount("fsx")
    host.source[path] = "10.0.1.7@tcp:/with space"
    assert data_servers(host, path, 5)[1].startswith("lfs getname shows no file system: with space-ffff9b3c ")


def test_silent_lnetctl_is_unknown(host):
    host.broken["lnetctl"] = "no LNet"
    shown, problem = peers(host, 5)
    assert shown == [] and "no LNet" in problem


def peer(nid, **sent):
    return {"nids": [nid, f"{nid}x"], "sent": sent}


def test_messages_are_those_since_first_look():
    before, after = [peer("a", tcp=4, efa=10), peer("b", efa=5)], [peer("a", tcp=4, efa=12), peer("b", efa=500)]
    assert sent_to(["a", "c"], before, after) == [
        {"nid": "a", "nets": ["efa", "tcp"], "sent": {"tcp": 0, "efa": 2}},
        {"nid": "c", "nets": None, "sent": {}},
    ]
    assert sent_to(["ax"], [], after)[0]["sent"] == {"tcp": 4, "efa": 12}
