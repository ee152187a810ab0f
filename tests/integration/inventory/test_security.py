# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strings from the API are data: no option evaluates them as templates."""

from __future__ import annotations

import json

import pytest

from tests.rig.ec2 import Fleet

HOSTILE = {
    "template": "{{ lookup('pipe', 'touch HACKED') }}",
    "statement": "{% for x in range(9) %}x{% endfor %}",
    "comment": "{# gone #}kept",
    "nested": "{{ '{{' }} 1 {{ '}}' }}",
    "quotes": 'it\'s "quoted" `so` $(touch HACKED)',
    "lines": "one\ntwo\r\nthree\ttab",
    "unicode": "ünïcødé 節點 🚀 \u202eabc",
    "long": "x" * 256,
    "yaml": "!unsafe 'x': [1, 2] # no",
    "jinja2": "#jinja2: variable_start_string:'[['",
    "empty": "",
}


@pytest.fixture
def hostile(play):
    """Return an endpoint with one host whose tags, including their keys, are hostile."""
    return play(Fleet(tags={**HOSTILE, "{{ 1 + 1 }}": "key", "with space": "x"}))


def hacked(inventory):
    return (inventory.folder / "HACKED").exists()


def test_hostile_tags_come_out_verbatim(hostile, inventory):
    listed = inventory(hostile)
    tags = listed.only()["ec2_tags"]
    assert {name: tags[name] for name in HOSTILE} == HOSTILE
    assert tags["{{ 1 + 1 }}"] == "key"
    assert listed.stderr == "" and not hacked(inventory)


def test_hostile_tags_through_constructed_options(hostile, inventory):
    compose = {f"c_{name}": f"ec2_tags['{name}']" for name in HOSTILE}
    compose.update({f"d_{name}": f"ec2_tags['{name}'] | default('none')" for name in HOSTILE})
    compose["joined"] = "'<' ~ ec2_tags.template ~ '>'"
    keyed = [{"prefix": "k", "key": f"ec2_tags['{name}']"} for name in HOSTILE]
    listed = inventory(
        hostile, compose=compose, keyed_groups=keyed, groups={"has": "ec2_tags.template is search('HACKED')"}
    )
    host = listed.only()
    for name, text in HOSTILE.items():
        assert host[f"c_{name}"] == host[f"d_{name}"] == text, name
    assert host["joined"] == f"<{HOSTILE['template']}>"
    assert listed.groups["has"] == set(listed.hosts)
    assert not hacked(inventory)
    assert all(name.replace("_", "").isalnum() for name in listed.groups)


def test_hostile_text_in_all_cluster_names(play, inventory):
    text = HOSTILE["template"]
    endpoint = play(
        Fleet(
            cluster=text, queue=text, compute_resource=text, placement_group=text, name=text, reservation="cr-{{ 1 }}"
        )
    )
    listed = inventory(endpoint, hostnames=["tag:Name"], enrich=["capacity", "topology"], connection="ssh_bastion")
    host = listed.only()
    for name in ("cluster_name", "queue_name", "compute_resource_name", "placement_group"):
        assert host[f"ec2_{name}"] == text
    assert host["ec2_capacity_reservation_id"] == "cr-{{ 1 }}"
    assert not hacked(inventory)


@pytest.mark.parametrize("cache", [False, True])
def test_play_sees_hostile_tags_as_text(hostile, inventory, cache):
    kept = {"cache": True, "cache_plugin": "jsonfile", "cache_connection": str(inventory.folder / "cache")}
    path = inventory.file(
        inventory.options(hostile, compose={"copied": "ec2_tags.template"}, **(kept if cache else {}))
    )
    playbook = inventory.folder / "show.yml"
    copy = {
        "ansible.builtin.copy": {
            "content": "{{ [ec2_tags, copied] | to_json }}",
            "dest": str(inventory.folder / "seen"),
            "mode": "0600",
        }
    }
    tasks = [{**copy, "delegate_to": "localhost", "connection": "local"}]
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    environment = {**inventory.environment, **hostile.environment(), "ANSIBLE_PYTHON_INTERPRETER": "auto_silent"}
    for _round in range(2 if cache else 1):
        argv = ["ansible-playbook", "-i", str(path), "-c", "local", str(playbook)]
        status, out, err = inventory.zygote.run(argv, inventory.folder, environment)
        assert status == 0, out + err
        tags, copied = json.loads((inventory.folder / "seen").read_text(encoding="utf-8"))
        assert {name: tags[name] for name in HOSTILE} == HOSTILE
        assert copied == HOSTILE["template"]
        assert not hacked(inventory)


def test_extra_vars_do_not_make_api_text_templates(play, inventory):
    endpoint = play(Fleet(name="{{ 1 }}", cluster="train", queue="{{ 2 }}", compute_resource="x"))
    listed = inventory(
        endpoint, "-e", "want=train", cluster_name="{{ want }}", include="tags.Name == '{{ '{{' }} 1 {{ '}}' }}'"
    )
    assert listed.only()["ec2_queue_name"] == "{{ 2 }}"
