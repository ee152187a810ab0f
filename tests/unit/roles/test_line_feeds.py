# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A name with a line feed behind it is not a name: it would end a line of a file or of a command's output that it is
written into. Ansible's own templating judges, from the files of roles and playbooks."""

from __future__ import annotations

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from tests.rig import templating
from tests.unit.checkout import CHECKOUT

ROLES, PLAYBOOKS = CHECKOUT / "roles", CHECKOUT / "playbooks"


def load(path):
    return templating.load(path)


def conditions(tasks, name):
    """Return the conditions of a task by its name, as one list."""
    that = next(task for task in tasks if task["name"] == name)["ansible.builtin.assert"]["that"]
    return that if isinstance(that, list) else [that]


def hold(that, variables):
    templar = Templar(loader=DataLoader(), variables=variables)
    return all(templar.evaluate_conditional(templating.trusted(condition)) for condition in that)


NAME_AND_REGION = (ROLES / "cluster/tasks/common.yml", "Common | Reject a missing name or region")
NETWORK = (ROLES / "cluster/tasks/common.yml", "Common | Reject wildcards in the network name")
NODE = (PLAYBOOKS / "tasks/upgrade_node.yml", "Reject a name that is not that of one node")
RELEASE = (PLAYBOOKS / "upgrade_nodes.yml", "Reject a release that is not a name")
HERE = {"cluster_name": "train", "cluster_region": "us-east-1"}


@pytest.mark.parametrize(
    ("task", "good", "bad"),
    [
        (NAME_AND_REGION, HERE, {**HERE, "cluster_name": "train\n"}),
        (NAME_AND_REGION, HERE, {**HERE, "cluster_region": "us-east-1\n"}),
        (NETWORK, {"__cluster_network": "my net"}, {"__cluster_network": "net\n"}),
        (NETWORK, {"__cluster_network": "my net"}, {"__cluster_network": "my\nnet"}),
        (NODE, {"upgrade_nodes_name": "gpu-st-1"}, {"upgrade_nodes_name": "gpu-st-1\n"}),
        (RELEASE, {"upgrade_nodes_release": "0.1.0"}, {"upgrade_nodes_release": "0.1.0\n"}),
    ],
)
def test_trailing_line_feed_is_rejected(task, good, bad):
    path, name = task
    tasks = load(path)
    that = conditions(tasks[0]["tasks"] if "hosts" in tasks[0] else tasks, name)
    assert hold(that, good)
    assert not hold(that, bad)
