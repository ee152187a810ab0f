# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text from the API is data, and the standard constructed options work with it."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader
from ansible.template import Templar

from tests.rig import templating
from tests.rig.ec2 import Fleet, Region

EAST = "us-east-1"
NASTY = {
    "Template": "{{ 1 + 1 }}",
    "Block": "{% for x in [1] %}x{% endfor %}",
    "Lookup": "{{ lookup('ansible.builtin.env', 'HOME') }}",
    "Quotes": 'it\'s "quoted"',
    "Lines": "one\ntwo\r\n\tthree",
    "Markup": "<b>&amp;</b> ]]> <networkInterfaceSet>",
    "Unicode": "Größe 規模 🚀",
    "Long": 252 * "x" + "{{y}",
    "List": "['a', 'b']",
    "Empty": "",
}


@pytest.mark.parametrize("full", [False, True])
def test_tag_is_set_verbatim(play, load, full):
    play(Region(EAST, (Fleet(tags=NASTY),)))
    (host,) = (inventory := load(regions=EAST, full_record=full)).hosts
    assert inventory.vars(host)["ec2_tags"] == NASTY


def rendered(inventory, host, text):
    return Templar(loader=DataLoader(), variables=inventory.vars(host)).template(templating.trusted(text))


def test_no_later_template_evaluates_tag(play, manage):
    play(Region(EAST, (Fleet(tags=NASTY),)))
    tags = sorted(set(NASTY) - {"List"})
    composed = {}
    for tag in tags:
        composed[f"copied_{tag}"] = f"ec2_tags['{tag}']"
        composed[f"upper_{tag}"] = f"ec2_tags['{tag}'] | upper"
        composed[f"joined_{tag}"] = f"['<', ec2_tags['{tag}']] | join"
        composed[f"picked_{tag}"] = f"{{'a': ec2_tags['{tag}']}}"
    options = {"plugin": "mlcluster.aws.ec2_nodes", "regions": EAST, "strict": True, "compose": composed}
    inventory = manage(json.dumps(options))
    (host,) = inventory.hosts
    for tag in tags:
        assert rendered(inventory, host, f"{{{{ ec2_tags['{tag}'] }}}}") == NASTY[tag]
        assert rendered(inventory, host, f"{{{{ copied_{tag} }}}}") == NASTY[tag]
        assert rendered(inventory, host, f"{{{{ upper_{tag} }}}}") == NASTY[tag].upper()
        assert rendered(inventory, host, f"{{{{ joined_{tag} }}}}") == f"<{NASTY[tag]}"
        assert rendered(inventory, host, f"{{{{ picked_{tag}.a }}}}") == NASTY[tag]


@pytest.mark.parametrize("tag", ["Template", "Lookup"])
def test_keyed_groups_and_parents_use_raw_text(play, manage, tag, warnings):
    play(Region(EAST, (Fleet(tags=NASTY),)))
    inventory = manage(f"""
plugin: mlcluster.aws.ec2_nodes
regions: {EAST}
keyed_groups:
  - {{key: "ec2_tags['{tag}']", prefix: t, parent_group: "above_{{{{ ec2_instance_type }}}}"}}
""")
    (group,) = [name for name in inventory.groups if name.startswith("t_")]
    assert "HOME" in group or "1" in group
    assert "/root" not in group


def test_ansible_51883_keyed_groups_use_composed_variables(play, load):
    play(Region(EAST, (Fleet(type="p5.48xlarge"), Fleet(type="c6i.4xlarge"))))
    inventory = load(
        regions=EAST,
        strict=True,
        compose={"family": "ec2_instance_type.split('.')[0]", "ansible_user": "'ubuntu'"},
        keyed_groups=[{"key": "family", "prefix": "family"}],
        groups={"big": "ec2_accelerators.count > 0 and family is match('p')"},
    )
    assert len(inventory.group("family_p5")) == len(inventory.group("family_c6i")) == len(inventory.group("big")) == 1
    assert {inventory.vars(host)["ansible_user"] for host in inventory.hosts} == {"ubuntu"}


def test_composed_variables_override_connection(play, load):
    play(Region(EAST, (Fleet(tags={"Port": "2201"}),)))
    (host,) = (
        inventory := load(
            regions=EAST, compose={"ansible_host": "'127.0.0.1'", "ansible_port": "ec2_tags['Port'] | int"}
        )
    ).hosts
    variables = inventory.vars(host)
    assert (variables["ansible_host"], str(variables["ansible_port"])) == ("127.0.0.1", "2201")


EXPRESSIONS = {
    "path": "ec2_instance_type",
    "deep": "ec2_accelerators.name",
    "integer": "ec2_accelerators.efa_attached",
    "mapping": "ec2_accelerators",
    "tag": "ec2_tags['Name']",
    "absent": "ec2_tags['Nothing']",
    "default": "ec2_tags['Nothing'] | default('none')",
    "method": "ec2_tags.get('Name', 'x').upper()",
    "items": "ec2_tags.items() | length",
    "call": "range(3) | list",
    "mixed": "ec2_queue_name ~ '-' ~ (ec2_accelerators.count * 2)",
    "test": "ec2_instance_type is match('p5')",
    "undefined": "nothing_at_all",
    "extra": "someone",
    "name": "inventory_hostname",
    "number": "ec2_accelerators.efa_attached // 2",
    "literal": "'it is {{ nothing }}'",
    "null": "ec2_public_ip_address",
    "index": "ec2_accelerators['kind'][0]",
    "conditional": "'a' if ec2_tags.Name == 'a' else ec2_private_ip_address",
}


def test_shortcut_has_same_result_as_ansible_core(play, load, monkeypatch):
    fleets = (
        Fleet(name="a", queue="q", cluster="c"),
        Fleet(name="b", queue="r", cluster="c", efa=4, interfaces=5),
        Fleet(count=2, type="c6i.4xlarge", public=True),
    )
    play(Region(EAST, fleets))
    options = {
        "regions": EAST,
        "use_extra_vars": True,
        "extra_vars": {"someone": "me"},
        "compose": {f"made_{name}": text for name, text in EXPRESSIONS.items()},
        "groups": {f"chosen_{name}": f"({text}) is truthy" for name, text in EXPRESSIONS.items()},
        "keyed_groups": [{"key": f"({text}) | string", "prefix": f"k_{name}"} for name, text in EXPRESSIONS.items()],
    }
    fast = load(**options)
    monkeypatch.setattr(type(inventory_loader.get("mlcluster.aws.ec2_nodes")), "_result_key", lambda *_: None)
    slow = load(**options)
    assert fast.groups == slow.groups
    assert {name.partition("_")[2] for host in slow.hosts for name in slow.vars(host) if name.startswith("made_")} == (
        EXPRESSIONS.keys() - {"absent", "name", "undefined"}
    )
    for host in slow.hosts:
        assert json.dumps(fast.vars(host), sort_keys=True) == json.dumps(slow.vars(host), sort_keys=True)


def test_failed_strict_expression_names_host(play, load):
    endpoint = play(Region(EAST, (Fleet(count=2),)))
    for _again in range(2):
        with pytest.raises(AnsibleError, match=f"Could not set x for host {min(h.id for h in endpoint.hosts())}"):
            load(regions=EAST, strict=True, compose={"x": "ec2_tags.absent"})


def test_equal_hosts_share_one_evaluation(play, load, monkeypatch):
    play(Region(EAST, (Fleet(count=30), Fleet(type="c6i.4xlarge", count=30))))
    calls = []
    plugin = type(inventory_loader.get("mlcluster.aws.ec2_nodes"))
    above = plugin.__mro__[1]._compose if "_compose" in vars(plugin.__mro__[1]) else None
    base = next(kind for kind in plugin.__mro__[1:] if "_compose" in vars(kind))
    real = above or base._compose

    def counted(self, template, *args, **kwargs):
        calls.append(template)
        return real(self, template, *args, **kwargs)

    monkeypatch.setattr(base, "_compose", counted)
    inventory = load(regions=EAST, compose={"x": "ec2_instance_type | upper", "y": "ec2_instance_type"})
    assert {inventory.vars(host)["x"] for host in inventory.hosts} == {"P5.48XLARGE", "C6I.4XLARGE"}
    assert len(calls) == 2
