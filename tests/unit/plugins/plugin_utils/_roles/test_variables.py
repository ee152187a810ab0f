# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A role's variables on one host, above the role's own defaults."""

from __future__ import annotations

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles import variables
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import Variables, read_defaults


def template(value, known):
    return Templar(loader=DataLoader(), variables=dict(known)).template(value)


def test_defaults_apply_without_variable():
    found = Variables("nvidia_gds", {"nvidia_gds_mode": "nvfs"}, template)
    assert (found["nvidia_gds_mode"], found["nvidia_gds_probe_timeout"]) == ("nvfs", 30)
    assert "nvidia_gds_library" not in found
    with pytest.raises(KeyError):
        found["nvidia_gds_library"]
    assert set(found) == {*read_defaults("nvidia_gds"), "nvidia_gds_mode"}
    assert len(found) == len(set(found))


def test_default_may_name_another_variable(tmp_path, monkeypatch):
    role = tmp_path / "one"
    (role / "defaults").mkdir(parents=True)
    text = "one_place: /opt\none_tools: '{{ one_place }}/tools'\n"
    (role / "defaults" / "main.yml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(variables, "role_directory", lambda name: tmp_path / name)
    variables.read_defaults.cache_clear()
    assert Variables("one", {}, template)["one_tools"] == "/opt/tools"
    assert Variables("one", {"one_place": "/srv"}, template)["one_tools"] == "/srv/tools"


def test_defaults_file_is_read_only_if_needed(monkeypatch):
    monkeypatch.setattr(variables, "read_defaults", lambda role: pytest.fail("it was read"))
    found = Variables("nvidia_gds", {"nvidia_gds_mode": "nvfs"}, template)
    assert "nvidia_gds_mode" in found
    assert found["nvidia_gds_mode"] == "nvfs"


def test_variables_of_hosts_are_not_rendered_together():
    hosts = {"node1": {"good": 1, "bad": "{{ nowhere.at_all }}"}}
    assert (
        Variables("slurm_jobs", {"hostvars": hosts}, lambda value, known: pytest.fail("rendered"))["hostvars"] is hosts
    )
    assert Variables("slurm_jobs", {}, template).get("hostvars") is None
