# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import parse

from tests.unit.fakes.fake_imex_host import SITE, table

FIXTURES = Path(__file__).parents[4] / "fixtures" / "imex"
UP = (FIXTURES / "up-18.txt").read_text(encoding="utf-8")


def test_documented_table_of_eighteen_nodes():
    domain = parse.domain(UP)
    assert (domain.state, len(domain.members)) == ("UP", 18)
    member = domain.members["10.1.48.37"]
    assert (member.status, member.version, set(member.to.values())) == ("READY", "570.172", {"C"})
    assert list(member.to) == list(domain.members)


def test_table_of_release_without_versions():
    (member,) = parse.domain((FIXTURES / "single-old.txt").read_text(encoding="utf-8")).members.values()
    assert (member.address, member.status, member.version) == ("10.1.48.20", "READY", None)


def test_addresses_of_table_have_one_form():
    text = table(["C C", "C C"], addresses=("FD00:0:0::1", "fd00::2"))
    assert sorted(parse.domain(text).members) == ["fd00::1", "fd00::2"]
    assert [parse.canonical(one) for one in ("FD00::0:1", "10.0.0.1", "host")] == ["fd00::1", "10.0.0.1", "host"]


def test_own_node_in_asterisks_and_letters_of_legend():
    text = table(["C !V! I", "N C !M!", "R D A"], ["READY", "INIT_GPU", "UNAVAILABLE"], ["580.95.05", "580.95.05", ""])
    domain = parse.domain(text.replace("- 10.0.0.2        -", "* 10.0.0.2 *  -"))
    assert domain.members["10.0.0.1"].to == {"10.0.0.1": "C", "10.0.0.2": "!V!", "10.0.0.3": "I"}
    assert domain.members["10.0.0.2"].status == "INIT_GPU"
    assert domain.members["10.0.0.3"].version is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "0 lines 'Domain State:' instead of 1"),
        (UP + UP, "is listed twice"),
        (UP.replace("Domain State: UP", ""), "0 lines"),
        (UP.replace("Node #17", "Nod #17"), "17 nodes, 18 columns and 18 rows"),
        (UP.replace("Nodes From", "From"), "0 columns and 0 rows"),
        (UP.replace("10.1.48.21 ", "10.1.48.20 "), "two nodes have one address"),
        (UP.replace("       5        C   C", "       5        C"), "a row of connections is not complete"),
        (
            UP.replace("       5        C", f"       5        {'N ' * 18}\n       5        C"),
            "of node #5 are listed twice",
        ),
        (UP.replace(" Nodes From", f" Nodes From\\To {' '.join(map(str, range(18)))}\n Nodes From"), "two tables"),
    ],
)
def test_incomplete_table_is_rejected(text, part):
    with pytest.raises(ValueError, match=part):
        parse.domain(text)


def test_settings_take_last_of_key_and_no_comment():
    assert parse.settings("# A=1\nB=2\nB= 3 \nC=\n") == {"B": "3", "C": ""}


def test_changed_settings_keep_every_other_line():
    text = parse.with_settings(SITE + "SERVER_PORT=1\n", {"SERVER_PORT": "21007", "NEW": "x"})
    assert text == SITE.replace("50000", "21007") + "NEW=x\n"


def test_nodes_text_is_sorted():
    assert parse.nodes_text(["10.0.0.10", "10.0.0.9"]) == parse.nodes_text(["10.0.0.9", "10.0.0.10"])
    assert parse.nodes_text(["fe80::1", "10.0.0.9"]) == "10.0.0.9\nfe80::1\n"
    assert parse.addresses("# a\n 10.0.0.9 \n\n10.0.0.10\n") == ["10.0.0.9", "10.0.0.10"]


@pytest.mark.parametrize(("text", "found"), [("10.0.0.1", True), ("fe80::1", True), ("n1", False), (None, False)])
def test_address(text, found):
    assert parse.is_address(text) is found


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ("Character devices:\n  1 mem\n234 nvidia-caps-imex-channels\n\nBlock devices:\n  7 loop\n", 234),
        ("Character devices:\n  1 mem\n\nBlock devices:\n234 nvidia-caps-imex-channels\n", None),
        ("Character devices:\n234 nvidia-caps\n", None),
        ("Character devices:\nx nvidia-caps-imex-channels\n234 nvidia-caps-imex-channels x\n", None),
        ("Character devices:\n234\n235 nvidia-caps-imex-channels\n", 235),
        (None, None),
    ],
)
def test_major_number_is_of_character_device(text, major):
    assert parse.channel_major(text) == major


def test_configuration_file_of_unit():
    line = "{ path=/usr/bin/nvidia-imex ; argv[]=/usr/bin/nvidia-imex -c /opt/x.cfg ; ignore_errors=no ; pid=0 }"
    assert parse.config_path(line) == "/opt/x.cfg"
    assert parse.config_path("{ path=/usr/bin/nvidia-imex ; argv[]=/usr/bin/nvidia-imex ; pid=0 }") is None


def test_blocks_of_topology():
    text = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nAggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4]\n"
    assert parse.blocks(text) == {"b1": "n[1-2]"}
    assert parse.blocks("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n") == {}
