# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdict on whether a run went over EFA, from the channels that every host logged and the devices' counters.

The plugin's choice of the provider efa alone proves nothing: a run on one node also logs it.
"""

from __future__ import annotations

import typing as t

from ..verdict import result
from .counters import Snapshot, largest_growth
from .log import EFA_NETWORKS, HostChannels, short_host
from .table import Run

Counters = t.Optional[t.Mapping[str, Snapshot]]

_LOG_HINT = "Run it with NCCL_DEBUG=INFO, and keep the output of all ranks"


def participation_error(run: Run, ranks: int | None, nodes: int | None) -> str | None:
    """Return why the requested ranks were not in one communicator; None if they were."""
    if not run.where or damaged(run, ranks):
        return None
    if len(run.groups) > 1:
        return f"the ranks were split into {len(run.groups)} groups that did not communicate with each other"
    if ranks is not None and len(run.where) != ranks:
        return f"{ranks} ranks were requested, and {len(run.where)} took part"
    if nodes is not None and len(run.hosts) != nodes:
        return f"{nodes} nodes were requested, and the ranks were on {len(run.hosts)}"
    logged = run.log.ranks - {len(run.where)}
    if logged:
        return f"the list has {len(run.where)} ranks, and NCCL logged communicators of {min(logged)}"
    # NCCL counts all hosts of one NVLink domain as one node.
    if nodes is not None and run.log.nodes - {nodes} and not run.log.mnnvl:
        return f"{nodes} nodes were requested, and NCCL logged communicators over {min(run.log.nodes)}"
    return None


def damaged(run: Run, ranks: int | None) -> str | None:
    """Return why the list of ranks is not reliable; None if it is."""
    if not run.where:
        return "the output does not list the ranks"
    if sorted(run.where) != list(range(len(run.where))):
        return "the list of ranks has gaps"
    if len(run.gpus) < len(run.where):
        return f"{len(run.where)} ranks share {len(run.gpus)} GPUs"
    if ranks is not None and len(run.where) < ranks and run.log.ranks == {ranks}:
        return f"the list has {len(run.where)} ranks, and NCCL logged communicators of {ranks}"
    return None


def nvlink_groups(hosts: t.Iterable[str], between: t.Mapping[str, HostChannels]) -> list[list[str]]:
    """Return groups of hosts that channels over NVLink connect, directly or through others. Pure."""
    group = {host: {host} for host in hosts}
    for host, channels in between.items():
        for peer in channels.nvlink:
            if host in group and peer in group and group[host] is not group[peer]:
                group[host] |= group[peer]
                for name in group[peer]:
                    group[name] = group[host]
    return sorted(sorted(one) for one in {id(one): one for one in group.values()}.values())


def separate_runs_error(runs: t.Sequence[Run], ranks: int | None, nodes: int | None) -> str | None:
    """Return the error for several outputs of fewer ranks instead of one of all; None if there is one."""
    if len(runs) < 2 or nodes is None or nodes < 2:
        return None
    maximum = max(number for run in runs for number in (len(run.hosts), *run.log.nodes))
    size = max(number for run in runs for number in (len(run.where), *run.log.ranks))
    if maximum >= nodes and (ranks is None or size >= ranks):
        return None
    return f"these are separate runs of at most {size} ranks, not one on {nodes} nodes"


def verdict(
    check: str, run: Run, ranks: int | None, nodes: int | None, before: Counters, after: Counters
) -> result.Result:
    """Return the verdict on the channels of a run of nccl-tests with all requested ranks and nodes."""
    between = run.log.between(run.where)
    wrong = _wrong_network(run, between)
    if wrong and (nodes or len(run.hosts)) > 1:
        return result.failed(
            check,
            wrong,
            reason="not_efa",
            expected="Libfabric with provider efa",
            found={host: sorted(channels.networks) for host, channels in sorted(between.items())} or "no channel",
            hint="Look for the OFI plugin and its libfabric, and pin it with NCCL_NET=Libfabric so that the next run "
            "stops instead",
        )
    if ranks is None or nodes is None:
        return result.undeterminable(
            check,
            "not_asked",
            message="the requested number of ranks and nodes is unknown",
            hint="Set the number of ranks and nodes of the job",
        )
    unlisted = damaged(run, ranks)
    if unlisted:
        return result.undeterminable(check, "no_ranks", message=unlisted, hint="Keep the whole output of rank 0")
    if nodes == 1:
        return _one_node(check)
    missing = _missing(run, between)
    if missing:
        reason, message = missing
        return result.undeterminable(check, reason, message=message, hint=_LOG_HINT)
    return _proved(check, run, between, before, after)


def _wrong_network(run: Run, between: t.Mapping[str, HostChannels]) -> str | None:
    providers = {name for names in run.log.providers.values() for name in names if name != "efa"}
    others = {name for channels in between.values() for name in channels.other}
    used = {name for names in run.log.networks.values() for name in names if name not in EFA_NETWORKS}
    if others:
        hosts = sum(1 for channels in between.values() if channels.other)
        return f"nodes talked to each other over {', '.join(sorted(others))}, on {hosts} hosts"
    if used:
        return f"NCCL chose the network {', '.join(sorted(used))}"
    if providers:
        return f"the plugin chose the provider {', '.join(sorted(providers))}"
    return None


def _missing(run: Run, between: t.Mapping[str, HostChannels]) -> tuple[str, str] | None:
    """Return reason and message for missing evidence; None if every host has its proof."""
    if not run.log.hosts:
        return "no_log", "NCCL's log is missing from the output, so the path of the data is unknown"
    if run.log.contradictions:
        return "contradictory", "channels were logged by other hosts than those their ranks are on"
    if run.log.unread:
        return "unread", f"{run.log.unread} lines of channels and networks name none that is known here"
    silent = _silent(run, between)
    if silent and (run.log.mnnvl or any(channels.direct for channels in between.values())):
        return "not_the_network", "nodes talked to each other over NVLink (MNNVL), which proves nothing about EFA"
    if silent:
        return "no_channels", f"no channel to another node was logged by {result.first_of(silent, 3)}"
    inside = sum(channels.inside for channels in between.values())
    if inside:
        return "contradictory", f"{inside} channels to another node were logged with a transport inside one"
    unknown = sorted(host for host in run.hosts if not run.log.providers.get(host))
    if unknown:
        return "no_provider", f"{result.first_of(unknown, 3)} did not log the provider of the plugin"
    if not any(row.size for row in run.rows):
        return "no_traffic", "the channels were set up, and the table has no row: no data is known to have used them"
    return None


def _silent(run: Run, between: t.Mapping[str, HostChannels]) -> list[str]:
    """Return the hosts that logged no channel over EFA; of several NVLink domains, one host of each suffices."""
    talks = {host for host in run.hosts if host in between and between[host].efa}
    domains = nvlink_groups(run.hosts, between)
    if len(domains) > 1:
        talks |= {host for domain in domains if talks & set(domain) for host in domain}
    return sorted(set(run.hosts) - talks)


def _one_node(check: str) -> result.Result:
    return result.not_applicable(check, "one_node", message="a run on one node does not use the fabric")


def _proved(
    check: str, run: Run, between: t.Mapping[str, HostChannels], before: Counters, after: Counters
) -> result.Result:
    groups = nvlink_groups(run.hosts, between)
    counted = _counted(check, run.hosts, _minimum_bytes(run, len(run.hosts)), before, after, groups)
    if isinstance(counted, result.Result):
        return counted
    channels = sum(host.efa for host in between.values())
    direct = sum(host.gpudirect for host in between.values())
    return result.passed(
        check,
        {
            "ranks": len(run.where),
            "hosts": sorted(run.hosts),
            "network": sorted({name for host in between.values() for name in host.networks}),
            "provider": "efa",
            "channels": {host: found.efa for host, found in sorted(between.items())},
            "gpudirect_rdma": "all" if direct >= channels else "some" if direct else "none",
            "intra_node": dict(sorted(run.log.intra.items())),
            "nvls_channels": run.log.nvls,
            "counted_bytes": counted,
        },
        message=f"{channels} channels between {len(run.hosts)} hosts over EFA, " + _rdma_text(direct, channels),
        source="channels logged by every host" + (" and counters of every host's EFA devices" if counted else ""),
    )


def _rdma_text(direct: int, channels: int) -> str:
    if not direct:
        return "without GPUDirect RDMA: the data goes through the hosts' memory"
    return "all with GPUDirect RDMA" if direct >= channels else f"{direct} with GPUDirect RDMA"


def _minimum_bytes(run: Run, nodes: int) -> int:
    # In every collective of nccl-tests, a node sends or receives at least its share of one message.
    return max((row.size for row in run.rows), default=0) // max(nodes, 1)


def _counted(
    check: str,
    hosts: t.Iterable[str],
    minimum: int,
    before: Counters,
    after: Counters,
    groups: t.Sequence[t.Sequence[str]] = (),
) -> dict[str, int] | result.Result | None:
    if before is None and after is None:
        return None
    first, last = ({short_host(name): value for name, value in (side or {}).items()} for side in (before, after))
    names = sorted(hosts)
    absent = [name for name in names if not first.get(name) or not last.get(name)]
    if absent:
        return result.undeterminable(
            check,
            "counters_missing",
            message=f"the counters of {result.first_of(absent, 3)} are missing for before or after the run",
            hint="Run mlcluster efa-counters on every node right before and right after the test",
        )
    sums = {name: largest_growth(first[name], last[name]) for name in names}
    lost = [name for name, value in sums.items() if value is None]
    if lost:
        return result.undeterminable(
            check,
            "counters_reset",
            message=f"counters of {result.first_of(lost, 3)} went back during the run",
            hint="Run it again",
        )
    counted = {name: value for name, value in sums.items() if value is not None}
    idle = [name for name, value in counted.items() if value < max(minimum, 1)]
    # Any host of an NVLink domain may carry the network traffic of the others.
    busy = {host for group in groups if set(group) - set(idle) for host in group}
    idle = [name for name in idle if name not in busy]
    if idle:
        return result.failed(
            check,
            f"the EFA devices of {result.first_of(idle, 3)} did not carry the data of the test",
            reason="counters_idle",
            expected=max(minimum, 1),
            found={name: counted[name] for name in idle},
            unit="bytes",
            hint="The data took another path, even if the log shows EFA: check NCCL_NET and the loaded plugin",
        )
    return counted


def neuron(check: str, run: Run, nodes: int | None, before: Counters, after: Counters) -> result.Result:
    """Return the verdict on a run of nccom-test from the counters, since its output names neither ranks nor hosts."""
    if nodes is None:
        return result.undeterminable(
            check, "not_asked", message="the requested number of nodes is unknown", hint="Set their number"
        )
    if nodes == 1:
        return _one_node(check)
    if before is None or after is None:
        return result.undeterminable(
            check,
            "no_evidence",
            message="nccom-test does not report the path of the data",
            hint="Run mlcluster efa-counters on every node right before and right after the test",
        )
    hosts = {short_host(name) for name in before} | {short_host(name) for name in after}
    if len(hosts) != nodes:
        return result.undeterminable(
            check,
            "counters_missing",
            message=f"{nodes} nodes were requested, and counters were given of {len(hosts)}",
            hint="Use the counters of exactly the nodes of the job",
        )
    counted = _counted(check, hosts, _minimum_bytes(run, nodes), before, after)
    if isinstance(counted, result.Result):
        return counted
    return result.passed(
        check,
        {"hosts": sorted(hosts), "counted_bytes": counted},
        source="counters of every host's EFA devices; nccom-test logs no channels",
    )
