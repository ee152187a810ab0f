# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.mlcluster.aws.plugins.lookup import node_runtime
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime


@pytest.fixture
def lookup():
    return node_runtime.LookupModule()


def test_lookup_returns_built_runtime(lookup, monkeypatch):
    built = {"path": "/c/mlcluster.pyz", "sha256": "00", "version": "0.1.0"}
    monkeypatch.setattr(_runtime, "build", lambda: built)
    assert lookup.run([]) == [built]


@pytest.mark.parametrize("terms, options", [(["x"], {}), ([], {"version": "1"})])
def test_terms_and_options_are_refused(lookup, terms, options):
    with pytest.raises(AnsibleLookupError, match="was called with terms or options, and has none"):
        lookup.run(terms, **options)


def test_failed_build_is_lookups_error(lookup, monkeypatch):
    def fail():
        raise _runtime.RuntimeBuildError("no version")

    monkeypatch.setattr(_runtime, "build", fail)
    with pytest.raises(AnsibleLookupError, match="no version"):
        lookup.run([])
