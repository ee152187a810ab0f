# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand in for lfs, lctl and lnetctl of Lustre 2.15, and for stat and modinfo on it, in a container without Lustre.

Grammar: lfs(1), lfs-setstripe(1), lfs-hsm(1), lctl(8), lnetctl(8), modinfo(8). Its output has the form of these
manuals; names and figures are made up. Options and verbs that no test needs are rejected. A mount with a source such as
10.0.0.1@tcp:/name counts as Lustre. The values that were set are in /run/lustre and are lost at a reboot, as real ones.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import sys
from pathlib import Path

STATE = Path("/run/lustre")
PARAMETERS = {
    "ldlm.namespaces.fs-OST0000-osc-ffff.lru_max_age": "3900000",
    "ldlm.namespaces.fs-OST0000-osc-ffff.lru_size": "0",
    "osc.fs-OST0000-osc-ffff.ost_conn_uuid": "10.0.0.1@tcp",
    "osc.fs-OST0000-osc-ffff.max_rpcs_in_flight": "8",
    "osc.fs-OST0001-osc-ffff.max_rpcs_in_flight": "8",
    "mdc.fs-MDT0000-mdc-ffff.max_rpcs_in_flight": "8",
    "mdc.fs-MDT0000-mdc-ffff.max_mod_rpcs_in_flight": "7",
}
UNITS = {"M": 1 << 20, "G": 1 << 30}
BITS = {"exists": 1, "dirty": 2, "released": 4, "archived": 8}
EFA_SERVICE = Path("/etc/systemd/system/configure-efa-fsx-lustre-client.service")
EFA = """    - net type: efa
      local NI(s):
        - nid: 10.0.0.5@efa
          status: up
          statistics:
              send_count: {0}
              recv_count: {0}
"""
NETS = """net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
    - net type: tcp
      local NI(s):
        - nid: 10.0.0.5@tcp
          status: up
          statistics:
              send_count: 100
              recv_count: 98
"""
PEER_EFA = """        - nid: 10.0.0.1@efa
          state: NA
          statistics:
              send_count: {0}
              recv_count: {0}
"""
PEERS = """peer:
    - primary nid: 10.0.0.1@tcp
      Multi-Rail: {1}
      peer ni:
        - nid: 10.0.0.1@tcp
          state: NA
          statistics:
              send_count: 4
              recv_count: 4
"""


def load(name, default):
    path = STATE / name
    return json.loads(path.read_text()) if path.exists() else default


def keep(name, value):
    STATE.mkdir(exist_ok=True)
    part = STATE / f"{name}.{os.getpid()}"
    part.write_text(json.dumps(value))
    part.replace(STATE / name)


def number(text):
    return int(text[:-1]) * UNITS[text[-1]]


def size(text):
    """Return a size that is a multiple of 64 KiB, as a stripe must be."""
    if not text[:-1].isdecimal() or text[-1:] not in UNITS or not int(text[:-1]):
        raise argparse.ArgumentTypeError(f"bad stripe size {text!r}")
    return text


def end(text):
    return text if text == "-1" else size(text)


def count(text):
    if text != "-1" and not (text.isdecimal() and int(text) <= 2000):
        raise argparse.ArgumentTypeError(f"bad stripe count {text!r}")
    return text


def present(text):
    if not os.path.lexists(text):
        raise argparse.ArgumentTypeError(f"cannot open '{text}': No such file or directory")
    return text


def parser_of(program, verbs):
    """Return a parser with verbs, each with its positional arguments: name to (number, type)."""
    made = argparse.ArgumentParser(prog=program, allow_abbrev=False, add_help=False)
    under = made.add_subparsers(dest="verb", required=True)
    for verb, arguments in verbs.items():
        part = under.add_parser(verb, allow_abbrev=False, add_help=False)
        for name, (nargs, kind) in arguments.items():
            part.add_argument(name, nargs=nargs, type=kind)
    return made, under


def lctl(arguments):
    made, _under = parser_of("lctl", {verb: {"word": (None, str)} for verb in ("get_param", "set_param")})
    asked = made.parse_args(arguments)
    verb, word = asked.verb, asked.word
    values = load("parameters.json", PARAMETERS)
    pattern, equals, value = word.partition("=")
    if bool(equals) != (verb == "set_param"):
        made.error(f"{verb}: no NAME=VALUE in '{word}'" if verb == "set_param" else f"{verb}: '{word}' is not a name")
    if equals and not value.isdecimal():
        sys.exit(f"error: set_param: setting {pattern}={value}: Invalid argument")
    names = fnmatch.filter(values, pattern)
    if not names:
        sys.exit(f"error: {verb}: param_path '{pattern}': No such file or directory")
    if verb == "set_param":
        keep("parameters.json", {**values, **dict.fromkeys(names, value)})
    for name in names:
        print(f"{name}={value or values[name]}")


def here():
    seen = os.stat(".")
    return f"{seen.st_dev}:{seen.st_ino}"


class Component(argparse.Action):
    """-E begins a component, and the options behind it are that component's."""

    def __call__(self, parser, namespace, value, flag=None):
        parts = namespace.parts = getattr(namespace, "parts", None) or []
        if flag == "-E" or not parts:
            parts.append({"-S": "1M"})
        if flag in parts[-1] and flag != "-S":
            parser.error(f"{flag} is given twice")
        parts[-1][flag] = value


def setstripe(arguments):
    made = argparse.ArgumentParser(prog="lfs setstripe", allow_abbrev=False, add_help=False)
    for flag, kind in (("-E", end), ("-c", count), ("-S", size)):
        made.add_argument(flag, action=Component, type=kind)
    made.add_argument("path", type=present)
    asked = made.parse_args(arguments)
    parts = getattr(asked, "parts", None) or [{"-S": "1M"}]
    ends = [part.get("-E") for part in parts]
    if len(parts) > 1 and (None in ends or ends[-1] != "-1"):
        made.error("the last component has to end with -E -1")
    keep("layouts.json", {**load("layouts.json", {}), here(): parts})


def getstripe():
    for part in load("layouts.json", {}).get(here(), [{"-c": "1", "-S": "1M"}]):
        if "-E" in part:
            end = "EOF" if part["-E"] == "-1" else number(part["-E"])
            print(f"    lcme_id:             N/A\n    lcme_extent.e_end:   {end}")
        print(f"      stripe_count:  {part['-c']}       stripe_size:   {number(part['-S'])}       pattern:       raid0")


def hsm(verb, paths):
    states = load("hsm.json", {})
    for path in paths:
        state = states.setdefault(path, {"flags": 0, "coming": 0})
        if verb == "hsm_state":
            # Data arrives some time after the request.
            if state["coming"]:
                state["coming"] -= 1
                state["flags"] &= ~BITS["released"] if not state["coming"] else ~0
            words = "".join(f" {name}" for name, bit in BITS.items() if state["flags"] & bit)
            print(f"{path}: ({state['flags']:#010x}){words}" + (", archive_id:1" if words else ""))
        elif verb == "hsm_restore":
            state["coming"] = 2
        elif verb == "hsm_release":
            if not state["flags"] & BITS["archived"] or state["flags"] & BITS["dirty"]:
                sys.exit(f"Cannot send HSM request (use of {path}): Operation not permitted")
            state["flags"] |= BITS["released"]
        elif verb == "hsm_archive":
            state["flags"] = state["flags"] & ~BITS["dirty"] | BITS["exists"] | BITS["archived"]
    keep("hsm.json", states)


def stat(arguments):
    if "--file-system" in arguments:
        if (STATE / "silent").exists():
            os.execv("/bin/sleep", ["sleep", "1d"])
        # Like the real one: an access mounts an automount.
        with contextlib.suppress(OSError):
            os.stat(arguments[-1])
        target = arguments[-1].removesuffix("/.")
        for row in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if row.split()[4] == target:
                source = row.split(" - ")[1].split()[1]
                if "@tcp:/" in source or source.startswith("fs-"):
                    return print("lustre" if "@tcp:/" in source else "nfs")
                break
    return os.execv("/usr/bin/stat", ["stat", *arguments])


def modinfo(arguments):
    made = argparse.ArgumentParser(prog="modinfo", allow_abbrev=False, add_help=False)
    made.add_argument("-k", dest="release", required=True)
    made.add_argument("-F", dest="field", required=True, choices=["vermagic", "version"])
    made.add_argument("module")
    asked = made.parse_args(arguments)
    release, field, module = asked.release, asked.field, asked.module
    if not Path(f"/usr/lib/modules/{release}/extra/{module}.ko").exists():
        sys.exit(f"modinfo: ERROR: Module {module} not found.")
    print({"vermagic": f"{release} SMP", "version": "2.15.6"}[field])


def lfs(arguments):
    actions = {f"hsm_{name}": {"paths": ("+", present)} for name in ("state", "restore", "release", "archive")}
    if arguments[:1] == ["setstripe"]:
        return setstripe(arguments[1:])
    made, under = parser_of("lfs", actions)
    part = under.add_parser("getname", allow_abbrev=False, add_help=False)
    part.add_argument("path", type=present)
    part = under.add_parser("getstripe", allow_abbrev=False, add_help=False)
    part.add_argument("-d", action="store_true", required=True)
    part.add_argument("path", type=present)
    asked = made.parse_args(arguments)
    if asked.verb == "getname":
        return print(f"fs-ffff {asked.path}")
    return getstripe() if asked.verb == "getstripe" else hsm(asked.verb, asked.paths)


def main():
    program, arguments = Path(sys.argv[0]).name, sys.argv[1:]
    if program == "lctl":
        lctl(arguments)
    elif program == "lnetctl":
        if arguments not in (["net", "show"], ["net", "show", "-v"], ["peer", "show", "-v"]):
            sys.exit(f"lnetctl: unknown command: {' '.join(arguments)}")
        # Every call reports a larger count.
        keep("sent.json", sent := load("sent.json", 0) + 10)
        own, more = (PEERS, PEER_EFA) if arguments[0] == "peer" else (NETS, EFA)
        efa = EFA_SERVICE.exists()
        print((own + (more if efa else "")).format(sent, efa), end="")
    elif program == "stat":
        stat(arguments)
    elif program == "modinfo":
        modinfo(arguments)
    else:
        lfs(arguments)


if __name__ == "__main__":
    main()
