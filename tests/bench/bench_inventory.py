# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of an inventory of EC2: ec2_nodes beside amazon.aws.aws_ec2 and beside a static file.

Both plugins ask the same fake endpoint in turn, and their answers are compared before a figure counts: same hosts,
same groups, same connection variables. The figure is CPU seconds (user and system) of ansible-inventory and all it
starts, the median of three; a busy machine hardly changes it, where wall-clock time would be worth nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
COST = Path(__file__).with_name("cost.py")
ROUNDS = 3
OURS = "mlcluster.aws.ec2_nodes"
THEIRS = "amazon.aws.aws_ec2"
STATIC = "static YAML"


class Case(NamedTuple):
    """One row: ``least`` is the smallest ratio that is accepted, ``most`` the largest for the cached case."""

    title: str
    scenario: str
    verb: str = "--list"
    hosts: int = 1000
    regions: str = "us-east-1"
    rounds: int = ROUNDS
    least: float = 5.0


CASES = (
    Case("1,000 hosts --list", "thousand"),
    Case("1,000 hosts --graph", "thousand", "--graph"),
    Case("200 p5.48xlarge, 32 interfaces", "p5-200", hosts=200, least=4.0),
    Case("17 regions, 170 hosts", "regions17", "--graph", hosts=170, regions="all", least=4.0),
)
LARGE = Case("10,000 hosts --list", "ten-thousand", hosts=10000, rounds=1)
CACHED_MOST = 1.3
# The variables of a run that configures nodes and nothing else.
SEVEN = [
    "availability_zone_id",
    "cluster_name",
    "instance_type",
    "node_type",
    "private_ip_address",
    "queue_name",
    "region",
]
CHOSEN_LEAST = 1.6

# The settings of a ParallelCluster user for aws_ec2; ec2_nodes has all of it built in but the last two variables.
TAG = "{}_tags['parallelcluster:{}']"


def composed(prefix: str) -> dict[str, str]:
    """Return the variables that both compose."""
    return {"ansible_user": "'ec2-user'", "slurm_partition": TAG.format(prefix, "queue-name") + " | default('none')"}


def config(plugin: str, case: Case, url: str, cache: str = "") -> dict[str, Any]:
    """Return the inventory file of a plugin for a case."""
    common: dict[str, Any] = {"plugin": plugin, "endpoint_url": url}
    if plugin == OURS:
        more = {"cache": True, "cache_plugin": "jsonfile", "cache_connection": cache} if cache else {}
        return {**common, "regions": [case.regions], "compose": composed("ec2"), **more}
    keyed = [
        {"prefix": prefix, "key": TAG.format("aws", tag)}
        for prefix, tag in (
            ("cluster", "cluster-name"),
            ("role", "node-type"),
            ("queue", "queue-name"),
            ("compute_resource", "compute-resource-name"),
        )
    ]
    keyed += [
        {"prefix": "type", "key": "aws_instance_type"},
        {"prefix": "az", "key": "aws_placement.availability_zone_id"},
    ]
    return {
        **common,
        "regions": [] if case.regions == "all" else [case.regions],
        "filters": {"instance-state-name": "running"},
        "hostnames": ["instance-id"],
        "hostvars_prefix": "aws_",
        "keyed_groups": keyed,
        "groups": {"gpu": "aws_instance_type.startswith(('p', 'g'))"},
        "compose": {"ansible_host": "aws_private_ip_address", **composed("aws")},
    }


@contextlib.contextmanager
def endpoint(scenario: str) -> Iterator[dict[str, Any]]:
    """The fake endpoint in a process of its own, whose CPU time is not counted; its url and environment."""
    command = [sys.executable, "-m", "tests.rig.ec2", "--scenario", scenario]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


class Cost(NamedTuple):
    """CPU seconds, peak memory in MiB and the output of one run."""

    cpu: float
    mib: float
    out: bytes


def run(source: Path, verb: str, environment: Mapping[str, str]) -> Cost:
    """Run one ansible-inventory; return its cost. Raises AssertionError with its output if it fails."""
    program = Path(sys.executable).parent / "ansible-inventory"
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        values = {
            "PATH": os.defpath,
            "HOME": home,
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_INVENTORY_ENABLED": f"{OURS},{THEIRS},ansible.builtin.yaml",
            "AWS_DEFAULT_REGION": "us-east-1",
            **environment,
        }
        figures = Path(home) / "cost.json"
        argv = [sys.executable, "-S", str(COST), str(figures), str(program), "-i", str(source), verb]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=values, cwd=home, check=False)
        out.seek(0)
        err.seek(0)
        errors = err.read().decode(errors="replace")
        assert done.returncode == 0, f"ansible-inventory -i {source.name} {verb} failed: {errors[-2000:]}"
        cost = json.loads(figures.read_text(encoding="utf-8"))
        return Cost(cost["cpu_seconds"], cost["peak_mib"], out.read())


def write(folder: Path, name: str, content: Mapping[str, Any]) -> Path:
    """Write an inventory file; return its path."""
    path = folder / name
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False), encoding="utf-8")
    return path


def plain(value: Any) -> Any:
    """Return a value of --list without its marks of untrusted text."""
    if isinstance(value, dict):
        if value.keys() == {"__ansible_unsafe"}:
            return value["__ansible_unsafe"]
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


class Answer(NamedTuple):
    """The answer of a plugin: hosts of each group, variables of each host."""

    groups: dict[str, set[str]]
    variables: dict[str, dict[str, Any]]


def listed(out: bytes) -> Answer:
    """Return the output of --list."""
    data = json.loads(out)
    variables = plain(data.pop("_meta")["hostvars"])
    return Answer({name: set(entry.get("hosts", ())) for name, entry in data.items()}, variables)


SHARED = ("cluster", "queue", "compute_resource", "type", "az")
ROLES = {"head": "role_HeadNode", "compute": "role_Compute", "login": "role_LoginNode"}


def compare(ours: Answer, theirs: Answer, hosts: int) -> None:
    """Raises AssertionError where the plugins differ in hosts, shared groups or the variables of the configuration."""
    assert len(theirs.variables) == hosts, f"{THEIRS} found {len(theirs.variables)} of {hosts} hosts"
    assert ours.variables.keys() == theirs.variables.keys(), "the plugins found different hosts"
    names = {name for name in theirs.groups if name.startswith(tuple(f"{prefix}_" for prefix in SHARED))}
    same = {name: name for name in names} | {mine: other for mine, other in ROLES.items() if other in theirs.groups}
    for mine, other in same.items():
        assert ours.groups.get(mine) == theirs.groups[other], f"group {mine} differs"
    for host, values in theirs.variables.items():
        for name in ("ansible_host", *composed("")):
            assert ours.variables[host].get(name) == values.get(name), f"{name} of {host} differs"


def _figures(label: str, costs: list[Cost]) -> dict[str, Any]:
    return {
        "inventory": label,
        "cpu_seconds": round(statistics.median(cost.cpu for cost in costs), 2),
        "runs": [round(cost.cpu, 2) for cost in costs],
        "peak_mib": round(max(cost.mib for cost in costs)),
    }


def against_aws_ec2(case: Case) -> dict[str, Any]:
    """Measure both plugins in turn on one endpoint. Raises AssertionError when they differ."""
    with endpoint(case.scenario) as server, tempfile.TemporaryDirectory() as folder:
        files = {
            OURS: write(Path(folder), "bench.ec2_nodes.yml", config(OURS, case, server["url"])),
            THEIRS: write(Path(folder), "bench.aws_ec2.yml", config(THEIRS, case, server["url"])),
        }
        costs: dict[str, list[Cost]] = {label: [] for label in files}
        for _round in range(case.rounds):
            for label, path in files.items():
                costs[label].append(run(path, case.verb, server["environment"]))
        if case.verb == "--list":
            compare(listed(costs[OURS][0].out), listed(costs[THEIRS][0].out), case.hosts)
        else:
            for label, found in costs.items():
                seen = {line.rsplit(b"--", 1)[-1] for line in found[0].out.splitlines() if b"|--i-" in line}
                assert len(seen) == case.hosts, f"{label} found {len(seen)} of {case.hosts} hosts"
    rows = [_figures(label, found) for label, found in costs.items()]
    ratio = round(rows[1]["cpu_seconds"] / rows[0]["cpu_seconds"], 2)
    return {
        "case": case.title,
        "rows": rows,
        "ratio": ratio,
        "wanted": f">= {case.least:g}",
        "met": ratio >= case.least,
    }


def static(answer: Answer) -> dict[str, Any]:
    """Return a YAML inventory with the same groups and variables."""
    children = {
        name: {"hosts": dict.fromkeys(sorted(hosts))}
        for name, hosts in answer.groups.items()
        if hosts and name not in ("all", "ungrouped")
    }
    return {"all": {"hosts": answer.variables, "children": children}}


def against_static() -> dict[str, Any]:
    """The warm cache of ec2_nodes beside a file with the same content. Raises AssertionError when they differ."""
    case = CASES[0]
    with tempfile.TemporaryDirectory() as folder:
        cache = str(Path(folder) / "cache")
        with endpoint(case.scenario) as server:
            path = write(Path(folder), "bench.ec2_nodes.yml", config(OURS, case, server["url"], cache))
            # One home, for the cache of one user is not used by another.
            environment = {**server["environment"], "HOME": folder}
            first = listed(run(path, "--list", environment).out)
        # The endpoint is gone: only the cache can answer.
        files = {"ec2_nodes, cached": path, STATIC: write(Path(folder), "static.yml", static(first))}
        costs: dict[str, list[Cost]] = {label: [] for label in files}
        for _round in range(ROUNDS):
            for label, source in files.items():
                costs[label].append(run(source, "--list", environment))
        for label, found in costs.items():
            assert listed(found[0].out).variables == first.variables, f"{label} has other variables"
    rows = [_figures(label, found) for label, found in costs.items()]
    ratio = round(rows[0]["cpu_seconds"] / rows[1]["cpu_seconds"], 2)
    return {
        "case": "1,000 hosts cached --list",
        "rows": rows,
        "ratio": ratio,
        "wanted": f"<= {CACHED_MOST:g}",
        "met": ratio <= CACHED_MOST,
    }


def chosen_variables() -> dict[str, Any]:
    """10,000 hosts with all variables and with seven, in turn. Raises AssertionError when hosts differ."""
    with endpoint(LARGE.scenario) as server, tempfile.TemporaryDirectory() as folder:
        content = {"plugin": OURS, "endpoint_url": server["url"], "regions": [LARGE.regions]}
        files = {
            "seven variables": write(Path(folder), "seven.ec2_nodes.yml", {**content, "variables": SEVEN}),
            "all variables": write(Path(folder), "all.ec2_nodes.yml", content),
        }
        costs = {label: [run(path, "--list", server["environment"])] for label, path in files.items()}
    found = [listed(cost[0].out).variables.keys() for cost in costs.values()]
    assert found[0] == found[1] and len(found[0]) == LARGE.hosts, "the runs found different hosts"
    rows = [_figures(label, cost) for label, cost in costs.items()]
    ratio = round(rows[1]["cpu_seconds"] / rows[0]["cpu_seconds"], 2)
    return {
        "case": "10,000 hosts, variables",
        "rows": rows,
        "ratio": ratio,
        "wanted": f">= {CHOSEN_LEAST:g}",
        "met": ratio >= CHOSEN_LEAST,
    }


def measure(large: bool = False) -> dict[str, Any]:
    """Measure all cases; 10,000 hosts (several minutes) only if ``large``. Raises AssertionError if answers differ."""
    results = []
    for case in (*CASES, *((LARGE,) if large else ())):
        results.append(against_aws_ec2(case))
        figures = (f"{row['inventory']} {row['cpu_seconds']} s {row['peak_mib']} MiB" for row in results[-1]["rows"])
        print(f"  {case.title}: {', '.join(figures)}", file=sys.stderr, flush=True)
    results.append(against_static())
    if large:
        results.append(chosen_variables())
    return {"bench": "inventory", "unit": "CPU seconds, median", "cases": results}


def table(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as lines of text."""
    lines = [
        "inventory of EC2, CPU seconds of ansible-inventory (median)",
        f"  {'case':<32}{'inventory':<26}{'CPU s':>8}{'MiB':>7}{'ratio':>8}  wanted",
    ]
    for case in figures["cases"]:
        for number, row in enumerate(case["rows"]):
            judged = f"{case['ratio']:>8.2f}  {case['wanted']}{'' if case['met'] else ' MISSED'}" if number else ""
            title = "" if number else case["case"]
            lines.append(f"  {title:<32}{row['inventory']:<26}{row['cpu_seconds']:>8.2f}{row['peak_mib']:>7}{judged}")
    return lines


def main(arguments: list[str]) -> int:
    """Measure and print; 1 when a ratio is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_inventory", description=__doc__)
    parser.add_argument("--large", action="store_true", help="10,000 hosts as well, once")
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    chosen = parser.parse_args(arguments)
    figures = measure(chosen.large)
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print("\n".join(table(figures)))
    return 0 if all(case["met"] for case in figures["cases"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
