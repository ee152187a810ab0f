# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import fetch
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.session import Credentials

QUESTION = fetch.Question(regions=[], requests=[[]], tag_keys={})


class BrokenError(Exception):
    """Like botocore's error for an unreadable answer."""


class Pages:
    """describe_instances that returns its pages in order; an exception among them is raised once."""

    def __init__(self, *pages):
        self.pages = list(pages)
        self.asked = []

    def describe_instances(self, **request):
        self.asked.append(request.get("NextToken"))
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        return page


def test_only_truncated_page_is_retried():
    client = Pages({"NextToken": "b"}, BrokenError(), {"NextToken": "c"}, BrokenError(), BrokenError(), {})
    assert len(list(fetch._pages(client, [], BrokenError))) == 3
    assert client.asked == [None, "b", "b", "c", "c", "c"]


def test_always_truncated_page_is_given_up():
    client = Pages(*(BrokenError() for _try in range(9)))
    with pytest.raises(BrokenError):
        list(fetch._pages(client, [], BrokenError))
    assert len(client.asked) == fetch.TRIES


def units(*names):
    return [fetch._Unit(name, Credentials(), {}) for name in names]


def test_pending_regions_are_reported(monkeypatch):
    monkeypatch.setattr(fetch, "REPORT_SECONDS", 0.01)
    reported, go = [], threading.Event()

    def ask(unit, _question, _errors):
        assert unit.region == "fast" or go.wait(30)

    def report(text):
        reported.append(text)
        go.set()

    monkeypatch.setattr(fetch, "_ask", ask)
    fetch._ask_all(units("fast", *(f"slow-{at}" for at in range(7))), QUESTION, (), report)
    assert "slow-0, slow-1, slow-2, slow-3, slow-4 and 2 more" in reported[0] and "fast" not in reported[-1]


def test_exception_of_thread_is_raised(monkeypatch):
    def ask(_unit, _question, _errors):
        raise KeyError("a defect")

    monkeypatch.setattr(fetch, "_ask", ask)
    with pytest.raises(KeyError, match="a defect"):
        fetch._ask_all(units("one"), QUESTION, (), print)


def test_threads_do_not_outlive_program(monkeypatch):
    """Ctrl-C does not wait for a region that hangs."""
    seen = []
    monkeypatch.setattr(fetch, "_ask", lambda *_args: seen.append(threading.current_thread().daemon))
    fetch._ask_all(units("one", "two"), QUESTION, (), print)
    assert seen == [True, True]
