# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another host's answer to a connection."""

from __future__ import annotations

import socket

from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import peers as efa_peers

from tests.unit.plugins.module_utils._node.efa.test_plugin import HOST


def test_refused_connection_is_answer(monkeypatch):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        monkeypatch.setattr(efa_peers, "PROBE_PORT", listening.getsockname()[1])
        refused = efa_peers.ask_peers(HOST, ["127.0.0.1"])
        listening.listen()
        accepted = efa_peers.ask_peers(HOST, ["127.0.0.1"])
    assert refused == accepted == {"127.0.0.1": "answered"}
    (nameless,) = efa_peers.ask_peers(HOST, ["no name\u00e9 at all"]).values()
    assert nameless.startswith("name: ")
    assert efa_peers.ask_peers(HOST, []) == {}
