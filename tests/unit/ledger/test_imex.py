# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts and the table on which the verdicts on IMEX stand, of a node with a job."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.verify import verify

from tests.unit.fakes.fake_imex_host import WHOLE
from tests.unit.ledger.walk import Excuse, Leaf, Room, bounded, fact_leaves, room_tests
from tests.unit.plugins.module_utils._node.imex.test_verify import RECORD, facts

_FACTS = facts(RECORD)


def _words():
    """Every word of the table, in the place where it stands."""
    lines = WHOLE.splitlines()
    for number, line in enumerate(lines):
        if line.startswith((" Nodes", "Nodes:")):
            continue
        for place, word in enumerate(line.split(" ")):
            if not word or word in ("-", "Node", "Version:", "Domain", "State:") or word.startswith("#"):
                continue
            path = f"table/{number}/{place}"
            yield Leaf(path, word, lambda text, n=number, p=place: (_FACTS, _with(lines, n, p, text)))


def _with(lines, number, place, text):
    words = lines[number].split(" ")
    words[place] = (text or "").replace(" ", "_")
    return "\n".join([*lines[:number], " ".join(words), *lines[number + 1 :]])


SKIP = ("config", "nodes", "daemons", "prologs", "switch", "type")
LEAVES = [
    *_words(),
    *(
        Leaf(leaf.path, leaf.text, lambda text, leaf=leaf: (leaf.replaced(text), WHOLE))
        for leaf in fact_leaves(_FACTS, SKIP)
    ),
]


@bounded
def judge(given):
    found, text = given
    return verify(found, parse.domain(text), "")


EXCUSES = (
    Excuse("unit/enabled", "the daemon is started by the Prolog, enabled or not"),
    Excuse("unit/config", "where the files lie, no state"),
    Excuse("programs/*", "where the program lies"),
    Excuse("record/schema", "a look drops a record of another schema"),
    Excuse("record/job_id", "a name in messages"),
)
ROOM = Room("imex", (_FACTS, WHOLE), LEAVES, judge, EXCUSES)
test_sample, test_every_leaf, test_ledger = room_tests(ROOM)
