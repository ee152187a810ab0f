# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role fsx_lustre finds mount names of file systems by their identifiers, on an account of moto."""

from __future__ import annotations

import json

import pytest

from tests.integration.cluster.conftest import REGION, ROOT

WAITS = "x-systemd.after=configure-efa-fsx-lustre-client.service,"
POLICY = ROOT / "docs" / "iam" / "mount_fsx.json"

PLAYBOOK = """
- hosts: nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: mlcluster.aws.fsx_lustre
        tasks_from: validate
    - mlcluster.aws.node_plan:
        role: fsx_lustre
      vars:
        fsx_lustre_image_build: true
        fsx_lustre_packages: [lustre-client]
        fsx_lustre_hold: false
      register: answer
      check_mode: true
    - ansible.builtin.debug:
        msg: "{{ inventory_hostname }} mounts {{ answer.plan.steps | selectattr('name', 'eq', 'mounts')
          | map(attribute='arguments.lines') | flatten | to_json }}"
"""


@pytest.fixture
def made(aws_account):
    """Return ``made(kind, efa)``, which creates a file system and returns its identifier."""

    def make(kind="LUSTRE", efa=False):
        about = {
            "LUSTRE": {"LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "EfaEnabled": efa}},
            "OPENZFS": {"OpenZFSConfiguration": {"DeploymentType": "SINGLE_AZ_1", "ThroughputCapacity": 64}},
        }[kind]
        answer = aws_account.client("fsx", REGION).create_file_system(
            FileSystemType=kind, StorageCapacity=1200, SubnetIds=["subnet-0123456789abcdef1"], **about
        )
        return answer["FileSystem"]["FileSystemId"]

    return make


@pytest.fixture
def validate(play, tmp_path):
    """Return ``validate({host: file systems})``, which runs the role's checks on hosts that are all this machine."""

    def run(**systems):
        # Safe mode refuses changes while Slurm jobs run, and other tests may run jobs on this machine.
        common = {"ansible_connection": "local", "fsx_lustre_safe_mode": False}
        hosts = {name: {**common, "fsx_lustre_file_systems": entries} for name, entries in systems.items()}
        inventory = tmp_path / "nodes.json"
        inventory.write_text(json.dumps({"nodes": {"hosts": hosts}}), encoding="utf-8")
        playbook = tmp_path / "validate.yml"
        playbook.write_text(PLAYBOOK, encoding="utf-8")
        return play(str(playbook), "-i", str(inventory))

    return run


def test_one_request_serves_all_nodes_of_run(validate, made, aws_account):
    first, second, third = made(efa=True), made(), made()
    both = [{"path": "/fsx1", "id": first, "efa": True}, {"path": "/fsx2", "id": second}]
    nodes = {"node1": both, "node2": both, "node3": both[:1], "node4": [{"path": "/fsx", "id": third}]}
    done = validate(**nodes)
    assert done.status == 0, done.output
    for node, entries in nodes.items():
        wanted = [
            {
                "path": entry["path"],
                "source": f"{entry['id']}.fsx.{REGION}.amazonaws.com@tcp:/{entry['id'][-8:]}",
                "options": "noatime,flock,_netdev,nofail," + (WAITS if entry.get("efa") else "") + "x-mlcluster",
            }
            for entry in entries
        ]
        output = done.output.replace("\\", "").split(f"{node} mounts ")[1]
        found, _end = json.JSONDecoder().raw_decode(output)
        assert found == wanted
    asked = aws_account.record.read_text(encoding="utf-8").split()
    assert asked == ["fsx:DescribeFileSystems"]
    (statement,) = json.loads(POLICY.read_text(encoding="utf-8"))["Statement"]
    assert set(asked) == set(statement["Action"])


def test_unmountable_file_system_stops_all_hosts(validate, made):
    zfs, gone = made("OPENZFS"), "fs-0123456789abcdef0"
    done = validate(node1=[{"path": "/fsx1", "id": zfs}, {"path": "/fsx2", "id": gone}], node2=[])
    assert done.status == 2
    assert f"{zfs} is of type OPENZFS and not LUSTRE: choose another one" in done.output
    assert f"FSx in {REGION} has no file system {gone} for this account" in done.output
