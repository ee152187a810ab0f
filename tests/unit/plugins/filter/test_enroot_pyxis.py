# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings that the node would refuse, refused on the controller in the same words."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.filter.enroot_pyxis import FilterModule

PROBLEM = FilterModule().filters()["enroot_pyxis_problem"]


def test_the_filter_says_what_the_node_would_say():
    assert PROBLEM({}) == ""
    assert PROBLEM({"hooks": ["evil.sh"], "local_dir": "x"}).count("; ") == 1


def test_a_text_for_a_list_or_a_mapping_is_told_by_its_name():
    assert PROBLEM({"conf": "ENROOT_RESTRICT_DEV=no", "hooks": "50-slurm-pmi.sh", "docker_daemon": "a=b"}) == (
        "conf is 'ENROOT_RESTRICT_DEV=no', a text; give a mapping; docker_daemon is 'a=b', a text; give a mapping; "
        "hooks is '50-slurm-pmi.sh', a text; give a list of texts"
    )
