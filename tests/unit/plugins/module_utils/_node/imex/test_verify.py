# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import config, parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.look import look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.verify import cut_off, verify, verify_domain

from tests.unit.fakes.fake_imex_host import ADDRESSES, TYPE, WHOLE, FakeImexHost, table

ALL = sorted(ADDRESSES.values())
RECORD = {"schema": config.SCHEMA, "job_id": 7, "state": "ready", "address": "10.0.0.1", "members": ALL}


def facts(record=None, **changes):
    host = FakeImexHost()
    if record and record["state"] == "ready":
        host.unit["ActiveState"], host.device = "active", (234, 0, 0o666)
    found = look(host, config.Options(instance_type=TYPE))
    return {**found, "prologs": {}, "switch": None, "record": record, **changes}


def judged(found, text=None):
    return {one.id: one for one in verify(found, parse.domain(text) if text else None, "no answer")}


def domain(text, own="10.0.0.1", members=ALL):
    return verify_domain(parse.domain(text), members, own)


def test_idle_node_without_daemon_is_good():
    found = judged(facts())
    assert {name: one.status for name, one in found.items()} == {
        "imex.service": "pass", "imex.domain": "not_applicable", "imex.channel": "not_applicable"
    }  # fmt: skip
    assert found["imex.service"].found == "ready to start"


def test_node_with_job_is_proved():
    found = judged(facts(RECORD), WHOLE)
    assert {one.status for one in found.values()} == {"pass"}
    assert found["imex.channel"].found == "234:0 mode 0666"


@pytest.mark.parametrize(("kind", "part"), [("p5.48xlarge", "not part of an UltraServer"), (None, "has no IMEX")])
def test_other_node_is_not_judged(kind, part):
    (only,) = verify({"type": kind, "ultraserver": False})
    assert (only.id, only.status) == ("imex.service", "not_applicable") and part in only.reason


@pytest.mark.parametrize("kind", [None, "p6e-gb300r.36xlarge"])
def test_unknown_machine_is_undeterminable(kind):
    (only,) = verify({"type": kind, "ultraserver": None})
    assert (only.id, only.status) == ("imex.service", "undeterminable") and "use --instance-type" in only.message


def test_unreadable_record_proves_nothing():
    found = judged(facts(record_problem="/run/x cannot be read"))
    assert {one.status for one in found.values()} == {"undeterminable"} and len(found) == 3
    assert all(one.message.endswith("/run/x cannot be read") for one in found.values())
    assert found["imex.service"].message.startswith("the IMEX daemon may be needed by a job: ")
    assert {one.hint for one in found.values()} == {"run 'mlcluster imex forget' once no job runs here"}
    # A daemon that cannot start is at fault all the same, and a channel that is there is judged.
    found = judged(facts(record_problem="x", channel=(235, 0, 0o666), **unit(active="failed")))
    assert (found["imex.service"].status, found["imex.channel"].status) == ("fail", "fail")


def test_foreign_programs_are_reported():
    found = judged(facts(prologs={"/x/91": "nvidia-imex"}))
    assert {one.status for one in found.values()} == {"not_applicable"}
    assert "/x/91 configures IMEX for jobs" in found["imex.domain"].reason


def unit(**changes):
    return {"unit": {"problem": None, "load": "loaded", "active": "inactive", "config": None, **changes}}


@pytest.mark.parametrize(
    ("record", "changes", "status", "part"),
    [
        (None, unit(load="masked"), "fail", "the IMEX daemon is masked"),
        (None, unit(load="not-found"), "fail", "the IMEX daemon is not-found"),
        (None, unit(load=None), "undeterminable", "LoadState is missing"),
        (None, unit(load="bad-setting"), "undeterminable", "LoadState reads 'bad-setting'"),
        (None, unit(active="failed"), "fail", "failed at its start"),
        (None, unit(active="reloading"), "undeterminable", "ActiveState reads 'reloading'"),
        (None, {"programs": {"nvidia-imex": None, "nvidia-imex-ctl": "/x"}}, "fail", "is not installed"),
        (None, {"programs": {"nvidia-imex": "/x", "nvidia-imex-ctl": None}}, "fail", "has no nvidia-imex-ctl to ask"),
        (RECORD, unit(active="inactive"), "fail", "does not run, and job 7 needs it"),
        (RECORD, unit(active="activating"), "undeterminable", "ActiveState reads 'activating'"),
        (
            {**RECORD, "state": "failed", "blame": "own", "reason": "port in use"},
            {},
            "fail",
            "made no domain for job 7: port in use",
        ),
        ({**RECORD, "state": "failed", "blame": "peer", "reason": "x"}, {}, "pass", "ready to start"),
    ],
)
def test_service(record, changes, status, part):
    one = judged(facts(record, **changes))["imex.service"]
    assert one.status == status and part in (one.message or str(one.found))
    assert (one.severity == "reset") is (status == "fail")


@pytest.mark.parametrize(
    ("record", "part"),
    [
        (None, "no job has a domain"),
        ({**RECORD, "state": "starting"}, "the domain of job 7 is being made"),
        ({**RECORD, "state": "failed", "blame": "own"}, "no job has a domain"),
    ],
)
def test_domain_without_job_is_not_judged(record, part):
    one = judged(facts(record))["imex.domain"]
    assert one.status == "not_applicable" and part in one.reason


def test_daemon_that_does_not_answer_proves_nothing():
    one = judged(facts(RECORD))["imex.domain"]
    assert (one.status, one.reason) == ("undeterminable", "no answer")


def test_domain_of_all_nodes():
    one = domain(WHOLE)
    assert (one.status, one.found) == ("pass", {"nodes": 3, "version": "580.95.05"})


def test_domain_of_one_node():
    assert domain(table(["C"]), members=["10.0.0.1"]).status == "pass"


@pytest.mark.parametrize("letter", sorted(parse.STATES))
def test_letters_of_legend_except_one_are_failures(letter):
    one = domain(table([f"C {letter} C", "C C C", "C C C"]))
    assert (one.status, one.severity) == ("fail", "monitor") and f"is not joined ({letter})" in one.message


@pytest.mark.parametrize(
    ("text", "status", "severity", "part"),
    [
        (table(["C ? C", "C C C", "C C C"]), "undeterminable", "none", "10.0.0.2 connection from this node reads '?'"),
        (table(["C C C", "C C C", "? C C"]), "undeterminable", "none", "10.0.0.3 connection back reads '?'"),
        (table(["C N N", "C C C", "C C C"]), "fail", "reset", "10.0.0.2 is not joined (N); 10.0.0.3"),
        (table(["C C C", "I C C", "C C C"]), "fail", "monitor", "10.0.0.2 does not see this node (I)"),
        (table(["C C C", "C C N", "C C C"]), "fail", "monitor", "10.0.0.2 to 10.0.0.3 is not joined (N)"),
        (table(["C C C", "C C ?", "C C C"]), "undeterminable", "none", "10.0.0.2 to 10.0.0.3 connection reads '?'"),
        (table(["C C C"] * 3, ["READY", "INIT_GPU", "READY"]), "fail", "monitor", "10.0.0.2 is INIT_GPU"),
        (table(["C C C"] * 3, ["INIT_GPU", "READY", "READY"]), "fail", "reset", "this node is INIT_GPU"),
        (table(["C C C"] * 3, ["READY", "READY", "SOMETHING"]), "undeterminable", "none", "state reads 'SOMETHING'"),
        (table(["C C C"] * 3, versions=["1", "1", "2"]), "fail", "reset", "10.0.0.3 has version 2 and this node 1"),
        (table(["C C C"] * 3, versions=["N/A"] * 3), "undeterminable", "none", "10.0.0.1 Version reads 'N/A'"),
        (table(["C C C"] * 3, versions=["1", "1", ""]), "undeterminable", "none", "10.0.0.3 Version is missing"),
        (WHOLE.replace("Domain State: UP", "Domain State: DEGRADED"), "fail", "monitor", "the domain is DEGRADED"),
        (
            WHOLE.replace("Domain State: UP", "Domain State: FINE"),
            "undeterminable",
            "none",
            "Domain State reads 'FINE'",
        ),
    ],
)
def test_unproved_domain(text, status, severity, part):
    one = domain(text)
    assert (one.status, one.severity) == (status, severity) and part in one.message


def test_other_list_of_nodes_is_no_domain_of_job():
    one = domain(WHOLE, members=["10.0.0.1", "10.0.0.2"])
    assert (one.status, one.severity) == ("fail", "reset") and "has another list of nodes" in one.message
    assert domain(WHOLE, own="10.0.0.9").status == "undeterminable"
    assert domain(WHOLE, members=None).status == "undeterminable"


@pytest.mark.parametrize(
    ("letters", "own_fault"), [("C", False), ("C N", True), ("C C N", False), ("C N N", True), ("C C N N", True)]
)
def test_node_that_most_do_not_reach_is_cut_off(letters, own_fault):
    to = {f"10.0.0.{number}": letter for number, letter in enumerate(letters.split(), 1)}
    assert cut_off(parse.Member("10.0.0.1", "READY", "1", to)) is own_fault


@pytest.mark.parametrize(
    ("record", "changes", "status", "part"),
    [
        (RECORD, {"channel": None}, "fail", "is missing, and a job needs it"),
        (RECORD, {"channel": (235, 0, 0o666)}, "fail", "is 235:0 mode 0666, and has to be 234:0 mode 0666"),
        (RECORD, {"channel": (234, 0, 0o600)}, "fail", "is 234:0 mode 0600"),
        (None, {"channel": (235, 0, 0o666)}, "fail", "is 235:0"),
        (None, {"major": None}, "fail", "the driver has no channels"),
        (RECORD, {"major": "234", "channel": ("234", 0, 0o666)}, "undeterminable", "major reads '234'"),
        (RECORD, {"switch": "switch/nvidia_imex"}, "not_applicable", "Slurm makes the channels"),
    ],
)
def test_channel(record, changes, status, part):
    one = judged(facts(record, **changes))["imex.channel"]
    assert one.status == status and part in (one.message or one.reason)
