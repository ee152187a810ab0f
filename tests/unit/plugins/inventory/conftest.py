# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the inventory plugin in the test's process, against the fake endpoint or a stand-in of the test."""

from __future__ import annotations

import gc

import botocore.loaders
import botocore.session
import pytest
import yaml
from ansible.inventory.data import InventoryData
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars

from tests.rig import ec2
from tests.unit.plugins.inventory import finder

finder.install()
PLUGIN = "mlcluster.aws.ec2_nodes"


@pytest.fixture(scope="session", autouse=True)
def service_models():
    """Load the ten megabytes of EC2's model once, not for every test."""
    loader = botocore.loaders.create_loader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", lambda _path: loader)
        yield


@pytest.fixture(scope="session", autouse=True)
def heap():
    """Leave the objects of all tests out of the collections of garbage of the plugin: these take most of a test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def warnings(monkeypatch):
    """Collect the warnings of the test."""
    messages = []
    monkeypatch.setattr(Display, "warning", lambda _self, msg, *_args, **_kwargs: messages.append(msg))
    return messages


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("ANSIBLE_INVENTORY_ENABLED", PLUGIN)
    monkeypatch.setattr(load_extra_vars, "extra_vars", {}, raising=False)
    monkeypatch.setattr(gc, "unfreeze", lambda: None)
    return monkeypatch


@pytest.fixture
def play(environment):
    """Start the fake endpoint with the given regions and return it."""
    running = []

    def start(*regions, **scenario):
        endpoint = ec2.Endpoint(ec2.Scenario(regions=regions, **scenario))
        running.append(endpoint.__enter__())
        for name, value in endpoint.environment().items():
            if name not in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
                environment.setenv(name, value)
        return endpoint

    yield start
    for endpoint in running:
        endpoint.__exit__(None, None, None)


class Loaded:
    """The hosts, variables and groups of an inventory."""

    def __init__(self, data):
        self.data = data

    @property
    def hosts(self):
        return sorted(self.data.hosts)

    def vars(self, host):
        """Return the variables of a host, which override those of its groups."""
        merged = {}
        for group in self.data.hosts[host].get_groups():
            merged.update(group.vars)
        return {**merged, **self.data.hosts[host].vars}

    def group(self, name):
        return sorted(host.name for host in self.data.groups[name].get_hosts())

    @property
    def groups(self):
        return {name: self.group(name) for name in self.data.groups if name not in ("all", "ungrouped")}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Parse one configuration with the plugin itself, so that its errors reach the test."""

    def parse(config="", read_cache=True, name="t.ec2_nodes.yml", extra_vars=None, **options):
        path = tmp_path / name
        path.write_text(config or yaml.safe_dump({"plugin": PLUGIN, **options}), encoding="utf-8")
        monkeypatch.setattr(load_extra_vars, "extra_vars", extra_vars or {}, raising=False)
        plugin = inventory_loader.get(PLUGIN)
        data = InventoryData()
        assert plugin.verify_file(str(path))
        plugin.parse(data, DataLoader(), str(path), cache=read_cache)
        if plugin.get_option("cache"):
            plugin.update_cache_if_changed()
        data.reconcile_inventory()
        return Loaded(data)

    return parse


@pytest.fixture
def manage(tmp_path):
    """Parse as every Ansible command does."""

    def parse(text, cache=True):
        path = tmp_path / "m.ec2_nodes.yml"
        path.write_text(text, encoding="utf-8")
        return Loaded(InventoryManager(loader=DataLoader(), sources=[str(path)], cache=cache)._inventory)

    return parse
