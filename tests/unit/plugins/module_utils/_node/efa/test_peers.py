# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another host's answer to a connection."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sys
import threading
import time

import pytest
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


class Waiting:
    """A thread whose peer never answers; waiting for it takes all the time that is given."""

    clock = 0.0

    @classmethod
    def monotonic(cls):
        return cls.clock

    def __init__(self, target, args, daemon):
        assert daemon

    def start(self):
        pass

    def join(self, timeout):
        Waiting.clock += timeout


@pytest.mark.parametrize("number", [1, 2, 1000])
def test_peers_share_one_deadline(monkeypatch, number):
    monkeypatch.setattr(Waiting, "clock", 0.0)
    monkeypatch.setattr(threading, "Thread", Waiting)
    monkeypatch.setattr(time, "monotonic", Waiting.monotonic)
    monkeypatch.setattr(sys, "argv", ["-c", "49152", "5", *(f"n{at}" for at in range(number))])
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    exec(efa_peers._CHILD, {})  # noqa: S102
    waited = Waiting.clock
    monkeypatch.undo()
    assert json.loads(output.getvalue()) == {}
    assert waited == 10.0 < 4 * efa_peers.PEER_SECONDS


class Answering:
    """A host whose probe prints this."""

    def __init__(self, answers):
        self.answers = answers

    def run(self, argv, timeout):
        return type("Done", (), {"stdout": json.dumps(self.answers)})


def test_name_without_answer_in_time_is_undeterminable():
    """A resolver that hangs proves nothing about a security group."""
    answers = efa_peers.ask_peers(Answering({"n2": "answered", "n3": "silent: no answer in time"}), ["n1", "n2", "n3"])
    assert answers["n1"] == "unknown: its name was not resolved in time"
    states = {one.scope.device: one.status for one in efa_peers.verify_peers(answers)}
    assert states == {"n1": "undeterminable", "n2": "pass", "n3": "fail"}


class PendingError(BaseException):
    """A connection that is still waiting at the deadline."""


class Running(Waiting):
    """A thread that runs until it connects."""

    def __init__(self, target, args, daemon):
        self.run = target, args

    def start(self):
        target, args = self.run
        with contextlib.suppress(PendingError):
            target(*args)


def probe(monkeypatch, resolving, connect):
    """Return what the probe reports on n1, whose name is resolved after some seconds, and the places it connects to."""
    places = []

    def resolve(*given):
        Waiting.clock += resolving
        return [(2, 1, 6, "", ("10.0.0.1", 49152)), (10, 1, 6, "", ("fd00::1", 49152, 0, 0))]

    def connecting(place, timeout):
        places.append(place)
        raise connect

    output = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(Waiting, "clock", 0.0)
        patch.setattr(threading, "Thread", Running)
        patch.setattr(time, "monotonic", Waiting.monotonic)
        patch.setattr(socket, "getaddrinfo", resolve)
        patch.setattr(socket, "create_connection", connecting)
        patch.setattr(sys, "argv", ["-c", "49152", "5", "n1"])
        patch.setattr(sys, "stdout", output)
        exec(efa_peers._CHILD, {})  # noqa: S102
    return json.loads(output.getvalue())["n1"], places


@pytest.mark.parametrize(
    ("resolving", "answer"),
    [(0, "silent: no answer in time"), (5, "silent: no answer in time"), (6, "unknown: its name was resolved late")],
)
def test_peer_is_silent_only_after_its_whole_time(monkeypatch, resolving, answer):
    """With a name server that does not answer, names are resolved after its time limit."""
    assert probe(monkeypatch, resolving, PendingError()) == (answer, [("10.0.0.1", 49152)])


@pytest.mark.parametrize(
    ("problem", "answer", "number"),
    [(ConnectionRefusedError(), "answered", 1), (OSError("no route"), "silent: no route", 2)],
)
def test_name_is_resolved_once_for_all_its_addresses(monkeypatch, problem, answer, number):
    places = [("10.0.0.1", 49152), ("fd00::1", 49152)][:number]
    assert probe(monkeypatch, 0, problem) == (answer, places)
