# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot hook on a fresh node, again, and as each of its callers calls it."""

from __future__ import annotations


def test_a_fresh_node_is_configured_from_s3_and_the_second_run_changes_nothing(node, wanted, proxy):
    first = node.run(*wanted)
    assert (first.rc, first.status["state"], first.roles) == (0, "configured", {"mark": "configured"}), first.out
    print(first.out, first.status)
