# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Configure an existing Prometheus: targets, scrape jobs, and both in its configuration file.

The file keeps its comments and order: our part is between two marks, so that it can be removed again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

BEGIN, END = "# BEGIN mlcluster.aws", "# END mlcluster.aws"


def targets(names: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]], port: int) -> list[dict[str, Any]]:
    """Return the list of file_sd: each host by its address, with its name as the label ``instance``.

    Both exporters of a node have the same ``instance``, and queries join them by it.
    """
    found = []
    for name in names:
        variables = hostvars.get(name, {})
        facts = variables.get("ansible_facts")
        default = facts.get("default_ipv4") if isinstance(facts, Mapping) else None
        known = [
            variables.get("ec2_private_ip_address"),
            default.get("address") if isinstance(default, Mapping) else None,
            variables.get("ansible_host"),
            name,
        ]
        address = next(str(one) for one in known if one)
        labels = {"instance": name}
        if variables.get("ec2_queue_name"):
            labels["queue"] = str(variables["ec2_queue_name"])
        host = f"[{address}]" if ":" in address else address
        found.append({"targets": [f"{host}:{port}"], "labels": labels})
    return sorted(found, key=lambda one: one["labels"]["instance"])


def scrape_jobs(directory: str, ports: Mapping[str, int], ec2: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return a scrape job for each exporter, ``mlcluster_NAME``: its targets from a file, or from EC2 by its tags.

    ec2: ``{"region": …, "filters": {"tag:NAME": [VALUE, …]}}``.
    """
    jobs = []
    for name, port in ports.items():
        job: dict[str, Any] = {"job_name": f"mlcluster_{name}"}
        if ec2:
            filters = [{"name": key, "values": list(values)} for key, values in sorted(ec2["filters"].items())]
            filters.append({"name": "instance-state-name", "values": ["running"]})
            job["ec2_sd_configs"] = [{"region": ec2["region"], "port": port, "filters": filters}]
            job["relabel_configs"] = [
                {"source_labels": ["__meta_ec2_private_dns_name"], "regex": "([^.]+).*", "target_label": "instance"}
            ]
        else:
            job["file_sd_configs"] = [{"files": [f"{directory}/{name}.json"]}]
        jobs.append(job)
    return jobs


def merged(text: str, rule_file: str, jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of prometheus.yml with our rule file and jobs, or without them if there are none.

    Raises ``ValueError`` with the obstacle.
    """
    lines = _without_blocks(text).splitlines()
    if rule_file:
        lines = _with_items(lines, "rule_files", [json.dumps(rule_file)])
    if jobs:
        # JSON is YAML on one line, without indentation.
        lines = _with_items(lines, "scrape_configs", [json.dumps(job) for job in jobs])
    return "\n".join(lines) + "\n" if lines else ""


def _without_blocks(text: str) -> str:
    kept, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if word in (BEGIN, END):
            if (word == BEGIN) == inside:
                raise ValueError(f"line {number} is {word} at an odd place: take the marks out by hand")
            inside = word == BEGIN
        elif not inside:
            kept.append(line)
    if inside:
        raise ValueError(f"{BEGIN} has no {END}: take the marks out by hand")
    return "\n".join(kept) + "\n"


def _with_items(lines: list[str], key: str, items: Sequence[str]) -> list[str]:
    places = [index for index, line in enumerate(lines) if re.match(rf"{key}\s*:", line)]
    if not places:
        return [*lines, BEGIN, f"{key}:", *(f"  - {item}" for item in items), END]
    if len(places) > 1 or not re.fullmatch(rf"{key}\s*:\s*(#.*)?", lines[places[0]]):
        raise ValueError(f"{key} is not a list with an entry a line: write it so, as promtool check config reads it")
    indent = "  "
    for line in lines[places[0] + 1 :]:
        if line.strip() and not line.lstrip().startswith("#"):
            item = re.match(r"( *)- ", line)
            indent = item.group(1) if item else indent
            break
    block = [f"{indent}{BEGIN}", *(f"{indent}- {item}" for item in items), f"{indent}{END}"]
    return [*lines[: places[0] + 1], *block, *lines[places[0] + 1 :]]
