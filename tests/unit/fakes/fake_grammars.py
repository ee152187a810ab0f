# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refusals in the place of nvidia-smi, fi_info, dcgmi, dpkg-query, rpm, systemctl and sinfo, for fakes of hosts.

The fakes find an answer by the beginning of a command line. Before that, ``refusal`` reads the whole line as the
program does, and ``demand_recorded`` ends a test whose line is sound and has no answer of its own: the kept output
belongs to one line of words, and would be another for others.

Grammar: nvidia-smi 580, its manual page and the help of its subcommands nvlink and topo; status 2 is "a supplied
argument or flag is invalid" there. fi_info of libfabric 2.1, util/info.c. dcgmi of DCGM 3.3, CommandLineParser.cpp and
the words of TCLAP. dpkg-query 1.21 and rpm 4.16, their manual pages. systemctl 252 show, systemctl(1). sinfo 22.05,
src/sinfo/opts.c.
"""

from __future__ import annotations

import getopt
import re
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult

Words = t.Sequence[str]
Kept = t.Union[str, CommandResult, Exception]

INVALID = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"
# Of ``nvidia-smi --help-query-gpu`` and ``--help-query-compute-apps``: those of use here, and a few more.
GPU_FIELDS = frozenset(
    "timestamp index name uuid pci.bus_id driver_version utilization.gpu utilization.memory memory.used memory.total "
    "memory.free temperature.gpu temperature.memory power.draw clocks.sm clocks.mem pstate "
    "ecc.errors.uncorrected.volatile.total ecc.errors.corrected.volatile.total".split()
)
APP_FIELDS = frozenset("timestamp gpu_name gpu_bus_id gpu_serial gpu_uuid pid process_name name used_memory".split())
FORMATS = frozenset({"csv", "noheader", "nounits"})
ENDPOINTS = frozenset("FI_EP_UNSPEC FI_EP_MSG FI_EP_DGRAM FI_EP_RDM FI_EP_SOCK_STREAM FI_EP_SOCK_DGRAM".lower().split())
FI_INFO = ["help", "src_addr=", "node=", "port=", "caps=", "mode=", "ep_type=", "domain=", "fabric=", "addr_format=",
           "provider=", "env", "getenv=", "info=", "list", "verbose", "version"]  # fmt: skip
DMON = ["host=", "gpu-id=", "group-id=", "field-group-id=", "field-id=", "delay=", "count=", "list"]
DPKG = "${Package}\\t${Version}\\t${db:Status-Abbrev}\\n"
RPM = "%{NAME}\\t%{VERSION}-%{RELEASE}\\n"
UNIT = re.compile(r"(Id|Names|LoadState|ActiveState|SubState|UnitFileState|MainPID|LimitMEMLOCK)(,|\Z)")
# Lines to which the fakes keep an answer, behind the name of the program.
RECORDED = {
    "nvidia-smi": {
        "-q -x", "nvlink --status", "nvlink -gt d", "nvlink -e", "topo -m", "--gpu-reset",
        "--query-compute-apps=pid --format=csv,noheader",
    },
    "fi_info": {"--version", "-p efa"},
    "dcgmi": {"dmon -e 150,140,155,202,230,310,311,394,393,395,396 -c 1"},
    "dpkg-query": {f"-W -f {DPKG}"},
    "rpm": {f"-qa --qf {RPM}"},
    "sinfo": {"--noheader --Node --local --format=%N %n"},
}  # fmt: skip


def split(argv: Words) -> tuple[str, list[str]]:
    """Return the name of the program and its words, without env and its variables in front."""
    words = list(argv)
    if words[0] == "env":
        words = words[next((at for at, word in enumerate(words[1:], 1) if "=" not in word), len(words)) :]
    return (words[0].rpartition("/")[2], words[1:]) if words else ("env", [])


def refusal(argv: Words) -> CommandResult | None:
    """Return what the program ends with where it refuses the line; None where it takes it, or is not known here."""
    program, words = split(argv)
    check = CHECKS.get(program)
    return check(words) if check else None


def answer(argv: Words, kept: Kept) -> Kept:
    """Return the answer that a fake keeps, or the program's refusal."""
    refused = refusal(argv)
    if refused is not None:
        return refused
    demand_recorded(argv)
    return kept


def demand_recorded(argv: Words) -> None:
    """End the test of a line that the program takes, and to which no answer was kept."""
    program, words = split(argv)
    line = " ".join(words)
    known = RECORDED.get(program)
    if program == "sinfo" and words[3:4] and words[3].startswith("--nodes="):
        assert words[:3] + words[4:] == ["--noheader", "--Node", "--local", "--format=%T %E"], (
            f"no answer was kept: {line}"
        )
    else:
        assert known is None or line in known, (
            f"{program} takes {line!r}, and no answer was kept to it: {sorted(known)}"
        )


def _nvidia_smi(words: list[str]) -> CommandResult | None:
    invalid = CommandResult(2, INVALID, "")
    if not words:
        return None
    if words[0] == "nvlink":
        alone = {"-s", "--status", "-e", "--errorcounters", "-c", "--capabilities"}
        counts = words[1:] in (["-gt", "d"], ["-gt", "r"], ["--getthroughput", "d"], ["--getthroughput", "r"])
        return None if counts or (len(words) == 2 and words[1] in alone) else invalid
    if words[0] == "topo":
        return None if words[1:] in (["-m"], ["--matrix"]) else invalid
    if sorted(words) in (["-q", "-x"], ["--query", "--xml-format"], ["-q"], ["-L"], ["--gpu-reset"], ["-r"]):
        return None
    return _query(words) or None


def _query(words: list[str]) -> CommandResult | None:
    invalid = CommandResult(2, INVALID, "")
    given = dict(word.partition("=")[::2] for word in words)
    fields = {"--query-gpu": GPU_FIELDS, "--query-compute-apps": APP_FIELDS}
    queries = [name for name in given if name in fields]
    known = {*fields, "--format", "--loop", "--loop-ms", "--id", "--filename"}
    if len(queries) != 1 or len(given) != len(words) or set(given) - known:
        return invalid
    for field in given[queries[0]].split(","):
        if field not in fields[queries[0]]:
            return CommandResult(2, f'Field "{field}" is not a valid field to query.\n', "")
    shown = given.get("--format", "").split(",")
    if "csv" not in shown or set(shown) - FORMATS:
        return CommandResult(2, '"--format=" switch is missing "csv" or has an option that is none.\n', "")
    return None if given.get("--loop", "1").isdecimal() and given.get("--loop", "1") != "0" else invalid


def _fi_info(words: list[str]) -> CommandResult | None:
    try:
        found, rest = getopt.gnu_getopt(words, "s:n:P:c:m:t:a:p:d:f:eg:i:lhv", FI_INFO)
    except getopt.GetoptError as exc:
        return CommandResult(1, "Usage: fi_info\n", f"fi_info: {exc}\n")
    options = dict(found)
    if {"-h", "--help"} & set(options):
        return CommandResult(1, "Usage: fi_info\n", "")
    endpoint = options.get("-t", options.get("--ep_type", "FI_EP_RDM"))
    if endpoint.lower() not in ENDPOINTS:
        return CommandResult(22, "", f"error: Unrecognized endpoint type: {endpoint}\n")
    # Words that are no options are passed over by getopt_long, and this collection has no reason to give any.
    assert not rest, f"fi_info would pass over {rest}"
    # A missing provider: FI_ENODATA, fi_getinfo's status without a match.
    provider = options.get("-p", options.get("--provider", "efa"))
    return None if provider == "efa" else CommandResult(61, "", "fi_getinfo: -61\n")


def _dcgmi(words: list[str]) -> CommandResult | None:
    def wrong(argument: str, why: str) -> CommandResult:
        return CommandResult(255, "", f"PARSE ERROR: Argument: {argument}\n             {why}\n")

    if words[:1] != ["dmon"]:
        return wrong("", "Couldn't find match for argument")
    try:
        found, rest = getopt.getopt(words[1:], "i:g:f:e:d:c:l", DMON)
    except getopt.GetoptError as exc:
        return wrong(f"-{exc.opt}", "Couldn't find match for argument")
    if rest:
        return wrong(rest[0], "Couldn't find match for argument")
    options = {name.lstrip("-")[0] if name != "--host" else "host": value for name, value in found}
    what = {"f", "e", "l"} & set(options)
    if len(what) != 1:
        return wrong("-e", "One and only one of field-group-id, field-id and list is needed")
    if "e" in options and not re.fullmatch(r"\d+(,\d+)*", options["e"]):
        return wrong("-e", "Couldn't read argument value from string")
    if not options.get("c", "1").isdecimal():
        return wrong("-c", "Positive value expected, negative value found")
    # Without a count it runs for ever.
    assert "l" in options or int(options.get("c", "0")) > 0, "dcgmi dmon would never end"
    return None


def _dpkg_query(words: list[str]) -> CommandResult | None:
    actions = [word for word in words if word in ("-W", "--show", "-S", "-L", "-s", "-l", "--list", "--version")]
    if len(actions) != 1:
        return CommandResult(2, "", "dpkg-query: error: need an action option\n")
    left = [word for word in words if word not in actions]
    if left[:1] in (["-f"], ["--showformat"]):
        if len(left) < 2:
            return CommandResult(2, "", "dpkg-query: error: -f option takes a value\n")
        left = left[2:]
    unknown = next((word for word in left if word.startswith("-") and not word.startswith("-f=")), None)
    return CommandResult(2, "", f"dpkg-query: error: unknown option {unknown}\n") if unknown else None


def _rpm(words: list[str]) -> CommandResult | None:
    allowed = {
        "-q",
        "-qa",
        "-a",
        "-e",
        "--query",
        "--all",
        "--version",
        "--qf",
        "--queryformat",
        "-qf",
        "-V",
        "--import",
    }
    unknown = next((word for word in words if word.startswith("-") and word.partition("=")[0] not in allowed), None)
    if unknown:
        return CommandResult(1, "", f"rpm: {unknown}: unknown option\n")
    if words and words[-1] in ("--qf", "--queryformat"):
        return CommandResult(1, "", f"rpm: {words[-1]}: missing argument\n")
    return None


def _systemctl(words: list[str]) -> CommandResult | None:
    if words[:1] != ["show"]:
        return None
    try:
        found, _units = getopt.gnu_getopt(words[1:], "p:a", ["property=", "all", "value", "no-pager"])
    except getopt.GetoptError as exc:
        return CommandResult(1, "", f"systemctl: unrecognized option '--{exc.opt}'\n")
    asked = next((value for name, value in found if name in ("-p", "--property")), "Id")
    # An unknown property is left out of the answer; the kept answers have these only.
    wrong = UNIT.sub("", asked)
    assert not wrong, f"systemctl show would leave out {wrong!r}"
    return None


def _sinfo(words: list[str]) -> CommandResult | None:
    long = ["noheader", "Node", "format=", "nodes=", "partition=", "states=", "version", "all", "exact", "local"]
    try:
        found, rest = getopt.gnu_getopt(words, "hNo:n:p:t:Vae", long)
    except getopt.GetoptError as exc:
        return CommandResult(
            1, "", f"sinfo: unrecognized option '--{exc.opt}'\nTry \"sinfo --help\" for more information\n"
        )
    if rest:
        return CommandResult(1, "", f"sinfo: error: Invalid parameter passed to sinfo: {rest[0]}\n")
    shown = next((value for name, value in found if name in ("-o", "--format")), "%N")
    wrong = re.search(r"%[.0-9]*[^.0-9%a-zA-Z]", shown)
    return CommandResult(1, "", f"Invalid node format specification: {wrong.group()}\n") if wrong else None


CHECKS: dict[str, t.Callable[[list[str]], CommandResult | None]] = {
    "nvidia-smi": _nvidia_smi,
    "fi_info": _fi_info,
    "dcgmi": _dcgmi,
    "dpkg-query": _dpkg_query,
    "rpm": _rpm,
    "systemctl": _systemctl,
    "sinfo": _sinfo,
}
