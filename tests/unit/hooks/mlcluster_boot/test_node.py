# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import http.server
import threading

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import pci
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from hooks.mlcluster_boot import node as hook_node
from hooks.mlcluster_boot.node import Node, Role
from hooks.mlcluster_boot.options import OptionsError, RoleRequest

ROLES = list(hook_node.ROLES)


def a_node(kind="compute", *groups):
    return Node(kind, "test", "", "", "", groups)


def write(root, path, text):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


@pytest.fixture
def hardware(tmp_path):
    """A node with an EBS and two instance-store disks, an EFA, an ENA, a GPU and an NVSwitch, as sysfs shows them."""
    sysfs = tmp_path / "sys"
    for number, model in enumerate(["Amazon Elastic Block Store", *["Amazon EC2 NVMe Instance Storage"] * 2]):
        write(sysfs, f"class/nvme/nvme{number}/model", f"{model:40}\n")
    devices = [("0x1d0f", "0xefa2", "0x020000"), ("0x1d0f", "0xec20", "0x020000"), ("0x10de", "0x2330", "0x030200")]
    for number, entry in enumerate([*devices, ("0x10de", "0x22a3", "0x068000")]):
        for name, value in zip(("vendor", "device", "class"), entry):
            write(sysfs, f"bus/pci/devices/0000:00:0{number}.0/{name}", f"{value}\n")
    return tmp_path


def looked(root):
    host, sysfs = Host(), root / "sys"
    bus = pci.look(host, str(sysfs))
    return hook_node.hardware_groups(sysfs, bus), hook_node.count_gpus(host, sysfs, bus)


def test_groups_and_gpus_by_what_kernel_lists(hardware, tmp_path):
    assert looked(hardware) == (["instance_store", "efa", "gpu"], 1)
    assert looked(hardware / "nothing") == ([], None)
    write(tmp_path, "other/sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n")
    assert looked(tmp_path / "other") == ([], 0)


def test_lost_gpu_is_not_counted_and_keeps_its_group(hardware):
    config = hardware / "sys/bus/pci/devices/0000:00:02.0/config"
    config.write_bytes(b"\xde\x10\x30\x23")
    assert looked(hardware)[1] == 1
    config.write_bytes(b"\xff" * 64)
    assert looked(hardware) == (["instance_store", "efa", "gpu"], 0)


def test_bus_is_read_once(hardware, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    listed, read = Host.listdir, []
    monkeypatch.setattr(Host, "listdir", lambda host, path: read.append(path) or listed(host, path))
    node = hook_node.look(hardware, "compute")
    assert (node.gpus, node.groups) == (1, ("instance_store", "efa", "gpu", "compute"))
    assert read == [f"{hardware}/sys/bus/pci/devices"]


@pytest.mark.parametrize(
    ("instance_type", "gpus", "sentence"),
    [
        ("p5.48xlarge", 8, ""),
        ("p5.48xlarge", 9, ""),
        ("p5.48xlarge", 7, "the PCI bus has 7 of the 8 GPUs of p5.48xlarge: look for Xid 79"),
        ("g5.xlarge", 0, "the PCI bus has 0 of the 1 GPUs of g5.xlarge: "),
        ("g5.xlarge", None, "the PCI bus cannot be read, so the 1 GPUs of g5.xlarge were not counted"),
        ("trn2.48xlarge", 0, ""),
        ("m7i.large", None, ""),
        ("", 0, ""),
    ],
)
def test_fewer_gpus_than_type_are_noticed(instance_type, gpus, sentence):
    node = Node("compute", "test", "", instance_type, "", (), gpus)
    found = hook_node.lost_gpus(node)
    assert found.startswith(sentence) and bool(found) is bool(sentence)


@pytest.mark.parametrize(
    ("instance_type", "groups"),
    [
        ("p5.48xlarge", ["instance_store", "gpu"]),
        ("trn2.48xlarge", ["instance_store"]),
        ("p4de.24xlarge", ["instance_store", "gpu"]),
        ("g5.xlarge", ["instance_store", "gpu"]),
        ("m5.large", []),
        ("zz9.metal", []),
        ("", []),
    ],
)
def test_groups_by_what_instance_type_has(instance_type, groups):
    assert hook_node.expected_groups(instance_type) == groups


def test_lost_hardware_of_type_keeps_its_roles(tmp_path, monkeypatch):
    monkeypatch.setattr(
        hook_node, "metadata", lambda names: {**dict.fromkeys(names, ""), "instance-type": "p5.48xlarge"}
    )
    found = hook_node.look(tmp_path, "compute")
    assert found.groups == ("instance_store", "gpu", "compute")


@pytest.mark.parametrize(
    ("answer", "vendor", "product", "name", "groups"),
    [
        ("", "Amazon EC2", "g5.xlarge", "g5.xlarge", ("instance_store", "gpu", "compute")),
        ("trn1.32xlarge", "Amazon EC2", "g5.xlarge", "trn1.32xlarge", ("instance_store", "compute")),
        ("", "QEMU", "g5.xlarge", "", ("compute",)),
        ("", "Amazon EC2", "HVM domU", "", ("compute",)),
    ],
)
def test_firmware_has_type_if_metadata_does_not(tmp_path, monkeypatch, answer, vendor, product, name, groups):
    monkeypatch.setattr(hook_node, "metadata", lambda names: {**dict.fromkeys(names, ""), "instance-type": answer})
    write(tmp_path, "sys/class/dmi/id/sys_vendor", f"{vendor}\n")
    write(tmp_path, "sys/class/dmi/id/product_name", f"{product}\n")
    found = hook_node.look(tmp_path, "compute")
    assert (found.instance_type, found.groups) == (name, groups)


def test_cfnconfig_is_read_with_any_quotes(tmp_path):
    write(
        tmp_path, "cfnconfig", "cfn_node_type=HeadNode\nexport cfn_region='eu-west-1'\n# x\nbad line\ncfn_x=\"a b\nq=\n"
    )
    found = hook_node.read_cfnconfig(tmp_path / "cfnconfig")
    assert (found["cfn_node_type"], found["cfn_region"], found["q"]) == ("HeadNode", "eu-west-1", "")
    assert hook_node.read_cfnconfig(tmp_path / "missing") == {}


@pytest.mark.parametrize(
    "text, slurm, given, kind, source",
    [
        ("cfn_node_type=HeadNode", True, None, "head", "cfnconfig"),
        ("cfn_node_type=LoginNode", True, None, "login", "cfnconfig"),
        ("cfn_node_type=ComputeFleet", False, None, "compute", "cfnconfig"),
        ("cfn_node_type=Novelty", True, None, "compute", "/opt/slurm"),
        (None, True, None, "compute", "/opt/slurm"),
        (None, False, None, "standalone", "neither cfnconfig nor /opt/slurm"),
        ("cfn_node_type=ComputeFleet", True, "head", "head", "--node-type"),
    ],
)
def test_kind_of_node(tmp_path, monkeypatch, text, slurm, given, kind, source):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    if text:
        write(tmp_path, "etc/parallelcluster/cfnconfig", f"{text}\ncfn_scheduler_queue_name=gpu\n")
    if slurm:
        (tmp_path / "opt/slurm").mkdir(parents=True)
    node = hook_node.look(tmp_path, given)
    assert (node.kind, node.source, node.queue) == (kind, source, "gpu" if text else "")
    assert node.groups == (() if kind == "standalone" else (kind,))


def test_metadata_takes_token_first_and_no_proxy(monkeypatch):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            asked.append((self.command, self.path, self.headers.get("X-aws-ec2-metadata-token")))
            body = b"token" if self.command == "PUT" else b"i-0123"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET = answer  # noqa: N815

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    monkeypatch.setattr(hook_node, "METADATA_SECONDS", 600)
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:1")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
    assert hook_node.metadata(["instance-id"]) == {"instance-id": "i-0123"}
    assert asked == [("PUT", "/latest/api/token", None), ("GET", "/latest/meta-data/instance-id", "token")]
    server.shutdown()
    server.server_close()
    assert hook_node.metadata(["instance-id"]) == {"instance-id": ""}


@pytest.mark.parametrize(
    "node, variables, names",
    [
        (
            a_node("compute", "compute", "instance_store", "efa", "gpu"),
            {},
            "nvme_raid0 efa_nccl nvidia_gds enroot_pyxis",
        ),
        (a_node("head", "head"), {}, "enroot_pyxis slurm_jobs"),
        (a_node("login", "login"), {"fsx_lustre_mounts": []}, "fsx_lustre enroot_pyxis"),
        (a_node("standalone", "instance_store"), {}, "nvme_raid0"),
        (a_node("standalone"), {}, ""),
    ],
)
def test_roles_by_groups_of_node(node, variables, names):
    roles = hook_node.choose_roles(node, (), None, ROLES, variables)
    assert [role.name for role in roles] == names.split()
    assert [role.name for role in roles if not role.required] == [n for n in names.split() if n == "nvidia_gds"]


def test_level_of_one_role_goes_before_that_of_all():
    requests = [RoleRequest("nvme_raid0", None), RoleRequest("nvidia_gds", True), RoleRequest("site.own.motd", None)]
    assert hook_node.choose_roles(a_node(), requests, False, ROLES, {}) == [
        Role("nvme_raid0", False),
        Role("nvidia_gds", True),
        Role("site.own.motd", False),
    ]
    assert [role.full_name for role in hook_node.choose_roles(a_node(), requests, None, ROLES, {})] == [
        "mlcluster.aws.nvme_raid0",
        "mlcluster.aws.nvidia_gds",
        "site.own.motd",
    ]


def test_only_head_node_writes_what_is_shared():
    with pytest.raises(OptionsError, match=r"slurm_jobs writes files that all nodes share.*this is a compute node"):
        hook_node.choose_roles(a_node("compute"), [RoleRequest("slurm_jobs", None)], None, ROLES, {})
    assert hook_node.choose_roles(a_node("head"), [RoleRequest("slurm_jobs", None)], None, ROLES, {})


def test_role_missing_from_bundle():
    with pytest.raises(OptionsError, match="the bundle has no role nfs; it has a, b"):
        hook_node.choose_roles(a_node(), [RoleRequest("nfs", None)], None, ["b", "a"], {})
