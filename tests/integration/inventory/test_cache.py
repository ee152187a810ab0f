# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache: the same inventory without network and credentials, and the conditions for its use."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.release import __version__

from tests.rig.ec2 import Endpoint, Fault, Fleet, Region, Scenario

ENRICH = ["health", "topology", "capacity", "ssm", "slurm_names"]
COMPOSED = {
    "compose": {"where": "ec2_availability_zone_id | upper"},
    "keyed_groups": [{"key": "ec2_instance_type", "prefix": "kind"}],
}


@pytest.fixture
def cached(inventory):
    """Return options for a cache in the test's folder, and that folder."""
    folder = inventory.folder / "cache"
    return {"cache": True, "cache_plugin": "jsonfile", "cache_connection": str(folder), "cache_timeout": 3600}, folder


def test_cached_run_needs_no_network_but_same_key(inventory, cluster, cached):
    options, _folder = cached
    more = {"enrich": ENRICH, **COMPOSED}
    with Endpoint(Scenario((Region("us-east-1", cluster),))) as endpoint:
        path = inventory.file(inventory.options(endpoint, **more, **options))
        first = inventory.read(path, **endpoint.environment())
        uncached = inventory.read(
            inventory.file(inventory.options(endpoint, **more), "b.ec2_nodes.yml"), **endpoint.environment()
        )
    assert len(first.hosts) == 7
    # The endpoint is gone, and so is the cache of instance types.
    gone = {"AWS_EC2_METADATA_DISABLED": "true", "XDG_CACHE_HOME": "/nonexistent"}
    again = inventory.read(path, **endpoint.environment(), **gone)
    assert again.out == first.out == uncached.out
    assert again.stderr == ""
    graph = inventory.read(path, "--graph", **endpoint.environment(), **gone).out
    assert all(name in graph for name in first.hosts)
    # Without the access key the account of the cached answer is unknown.
    left = {name: value for name, value in endpoint.environment().items() if "KEY" not in name}
    assert "no AWS credentials were found" in inventory.read(path, **left, **gone).stderr


def test_ansible_71169_flush_and_refresh_ask_again(play, inventory, cached):
    options, _folder = cached
    endpoint = play(Fleet(tags={"look": "first"}, tags_later={"look": "later"}))
    path = inventory.file(inventory.options(endpoint, **options))

    def look():
        return inventory.read(path, **endpoint.environment()).only()["ec2_tags"]["look"]

    assert (look(), look()) == ("first", "first")
    playbook = inventory.folder / "nothing.yml"
    playbook.write_text(json.dumps([{"hosts": "gpu", "gather_facts": False}]), encoding="utf-8")
    argv = ["ansible-playbook", "-i", str(path), "--flush-cache", str(playbook)]
    assert inventory.zygote.run(argv, inventory.folder, {**inventory.environment, **endpoint.environment()})[0] == 0
    assert (look(), look()) == ("later", "later")
    assert endpoint.count("DescribeInstances") == 2


def test_ansible_71169_meta_refresh_inventory_asks_again(play, inventory, cached):
    options, _folder = cached
    endpoint = play(Fleet(tags={"look": "first"}, tags_later={"look": "later"}))
    path = inventory.file(inventory.options(endpoint, **options))
    playbook = inventory.folder / "refresh.yml"
    show = {
        "ansible.builtin.debug": {
            "msg": "look={{ groups['gpu'] | map('extract', hostvars) | map(attribute='ec2_tags.look') | join }}"
        }
    }
    tasks = [show, {"ansible.builtin.meta": "refresh_inventory"}, show]
    playbook.write_text(json.dumps([{"hosts": "gpu", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    environment = {**inventory.environment, **endpoint.environment()}
    argv = ["ansible-playbook", "-i", str(path), str(playbook)]
    status, out, _err = inventory.zygote.run(argv, inventory.folder, environment)
    assert status == 0 and out.index("look=first") < out.index("look=later")


CHANGES = {
    "regions": {"regions": ["eu-west-1"]},
    "filters": {"filters": {"tag:Name": "other"}},
    "cluster_name": {"cluster_name": "other"},
    "states": {"states": ["stopped"]},
    "enrich": {"enrich": ["health"]},
    "assume_role_arn": {"assume_role_arn": "arn:aws:iam::444455556666:role/other"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_question_is_another_entry(play, inventory, cached, change):
    options, folder = cached
    endpoint = play(Region("us-east-1", (Fleet(),)), Region("eu-west-1"))
    inventory(endpoint, **options)
    asked = endpoint.count()
    inventory(endpoint, **options)
    assert endpoint.count() == asked and len(list(folder.iterdir())) == 1
    inventory(endpoint, **options, **CHANGES[change])
    assert endpoint.count() > asked


def test_another_account_is_another_entry(play, inventory, cached):
    options, _folder = cached
    endpoint = play(Fleet(), Fleet(account="444455556666"))
    path = inventory.file(inventory.options(endpoint, **options))
    for key in ("AKIARIGMAIN", "AKIARIGOTHER", "AKIARIGMAIN"):
        listed = inventory.read(path, **endpoint.environment(key))
        assert listed.only()["ec2_account_id"] == endpoint.state.keys[key]


def test_options_of_output_use_same_entry(play, inventory, cached, cluster):
    options, _folder = cached
    endpoint = play(*cluster)
    inventory(endpoint, **options)
    asked = endpoint.count()
    for other in ({"hostnames": ["private_ip"]}, {"exclude": "node_type == 'head'"}, {"connection": "ssm"}, COMPOSED):
        assert len(inventory(endpoint, **options, **other).hosts) >= 6
    assert endpoint.count() == asked


def test_amazon_aws_2998_entry_of_another_format_is_not_read(play, inventory, cached):
    options, folder = cached
    endpoint = play(Fleet())
    first = inventory(endpoint, **options)
    (entry,) = folder.iterdir()
    text = entry.read_text(encoding="utf-8")
    old = re.sub(r'(format\\*": )\d+', r"\g<1>0", text)
    assert old != text
    entry.write_text(old, encoding="utf-8")
    again = inventory(endpoint, **options)
    assert (again.out, again.stderr) == (first.out, "")
    assert endpoint.count("DescribeInstances") == 2


def directory(entry):
    entry.unlink()
    entry.mkdir()


def loop(entry):
    entry.unlink()
    entry.symlink_to(entry)


BROKEN = {
    "truncated": lambda entry: entry.write_bytes(entry.read_bytes()[:-100]),
    "empty": lambda entry: entry.write_bytes(b""),
    "binary": lambda entry: entry.write_bytes(b"\0\xff\xfe" * 100),
    # Newer versions of ansible-core keep a JSON string in the JSON.
    "another_schema": lambda entry: entry.write_text(json.dumps({"__payload__": '["a"]'}), encoding="utf-8"),
    "half_a_payload": lambda entry: entry.write_text(json.dumps({"__payload__": '{"format'}), encoding="utf-8"),
    "another_address": lambda entry: entry.write_text(
        re.sub(r"10\.\d+\.\d+\.\d+", "192.0.2.1", entry.read_text(encoding="utf-8")), encoding="utf-8"
    ),
    "directory": directory,
    "unreadable": loop,
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_entry_is_one_warning(play, inventory, cached, name):
    options, folder = cached
    endpoint = play(Fleet())
    first = inventory(endpoint, **options)
    (entry,) = folder.iterdir()
    BROKEN[name](entry)
    again = inventory(endpoint, **options)
    assert again.out == first.out
    # In these versions the cache plugin itself reports that it can neither read the directory nor replace it.
    core_warns = name == "directory" and __version__.startswith(("2.17.", "2.18."))
    assert again.stderr.count("WARNING") == (2 if core_warns else 1) and "cache" in again.stderr
    assert endpoint.count("DescribeInstances") == 2
    if entry.is_file():
        healed = inventory(endpoint, **options)
        assert (healed.out, healed.stderr) == (first.out, "")
        assert endpoint.count("DescribeInstances") == 2


def test_unusable_cache_directory_is_one_warning(play, inventory, cached):
    options, folder = cached
    endpoint = play(Fleet())
    first = inventory(endpoint)
    folder.write_text("not a directory", encoding="utf-8")
    again = inventory(endpoint, **options)
    assert again.out == first.out
    assert again.stderr.count("WARNING") == 1 and "the cache is not used" in again.stderr


def test_entry_in_world_writable_directory_is_not_used(play, inventory, cached):
    options, folder = cached
    endpoint = play(Fleet(tags={"look": "first"}, tags_later={"look": "later"}))
    inventory(endpoint, **options)
    folder.chmod(0o1777)
    again = inventory(endpoint, **options)
    assert again.only()["ec2_tags"]["look"] == "later"
    assert again.stderr.count("WARNING") == 1 and "any user may write to" in again.stderr


def test_many_runs_at_once_share_one_cache(play, inventory, cached, cluster):
    options, _folder = cached
    endpoint = play(*cluster)
    path = inventory.file(inventory.options(endpoint, **options))
    program = str(Path(sys.executable).parent / "ansible-inventory")
    environment = {**inventory.zygote.environment, **inventory.environment, **endpoint.environment()}
    runs = [
        subprocess.Popen(
            [program, "-i", str(path), "--list"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _number in range(4)
    ]
    outputs = [run.communicate() for run in runs]
    assert {out for out, _err in outputs} == {outputs[0][0]} and len(
        json.loads(outputs[0][0])["_meta"]["hostvars"]
    ) == 7
    assert [err for _out, err in outputs] == [b""] * 4
    assert inventory.read(path, **endpoint.environment()).stderr == ""


def test_entry_is_trimmed_and_holds_no_secret(play, inventory, cached):
    options, folder = cached
    endpoint = play(Fleet(count=20))
    inventory(endpoint, **options)
    (entry,) = folder.iterdir()
    text = entry.read_text(encoding="utf-8")
    assert "not-a-secret" not in text and "AKIARIGMAIN" not in text and "eni-" not in text
    assert len(text) < 20 * 3000


def test_temporary_failure_of_region_is_not_cached(play, inventory, cached):
    options, _folder = cached
    fault = Fault("DescribeInstances", "RequestLimitExceeded", times=1)
    endpoint = play(Region("us-east-1", (Fleet(),)), Region("eu-west-1", (Fleet(),), (fault,)))
    regions = ["us-east-1", "eu-west-1"]
    assert len(inventory(endpoint, regions=regions, **options).hosts) == 1
    assert len(inventory(endpoint, regions=regions, **options).hosts) == 2


def test_denied_region_is_reported_again_from_cache(play, inventory, cached):
    options, _folder = cached
    fault = Fault("DescribeInstances", "UnauthorizedOperation")
    endpoint = play(Region("us-east-1", (Fleet(),)), Region("eu-west-1", (Fleet(),), (fault,)))
    first = inventory(endpoint, regions=["us-east-1", "eu-west-1"], **options)
    asked = endpoint.count()
    again = inventory(endpoint, regions=["us-east-1", "eu-west-1"], **options)
    assert endpoint.count() == asked
    assert (again.out, again.stderr) == (first.out, first.stderr) and "eu-west-1" in again.stderr


def test_cached_types_are_private_and_survive_damage(play, inventory):
    endpoint = play(Fleet())
    first = inventory(endpoint)
    kept = Path(inventory.environment["XDG_CACHE_HOME"]) / "mlcluster" / "ec2_instance_types.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    for rubbish in ("", "[]", '{"format": 1, "types": {"p5.48xlarge": {"time": 9e12, "facts": {}}}}', "{"):
        kept.write_text(rubbish, encoding="utf-8")
        assert inventory(endpoint).out == first.out
