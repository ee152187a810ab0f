# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of the role efa_nccl in a pinned version."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.plugin_utils._efa import pinned


def test_packages_in_another_version_are_unlike_the_pinned_ones():
    wanted = [{"name": "a", "version": "1"}, {"name": "b", "version": "2"}, {"name": "c", "version": "3"}]
    assert pinned.unlike_pinned(wanted, {"a": "1", "b": "1", "c": None}) == wanted[1:]


def test_an_epoch_is_not_compared():
    assert pinned.unlike_pinned([{"name": "a", "version": "1:2.3-4"}], {"a": "2.3-4"}) == []


def test_how_a_package_is_asked_for():
    assert pinned.pinned_spec({"name": "a", "version": "1"}, "=") == "a=1"
