# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands in for nvidia-imex, nvidia-imex-ctl and the part of systemctl that starts them: one daemon per node.

Nodes are addresses of the loopback network. The name of the call selects the program.

Grammar: NVIDIA IMEX guide (configuration, quorum, command service), driver 570 and 580; the table as in the AWS PCS
User Guide, "Validate the IMEX setup"; the output of -N without a daemon, its exit status 255 and a driver of another
version as in the tests of NVIDIA's ai-cloud-validation. Differences from the real program:

- The command service listens on the node's address only, as all nodes share a network.
- The daemon binds its ports after it has left its parent.
- Error messages are invented.
- Every joined node counts as one that imported memory, and the persistence file is in the folder of config.cfg (guide,
  "Connections, Quorum, and Clean up").

Tests control it by stand_in.json in the folder of config.cfg: {"version", "driver", "slow": seconds until it listens,
"deaf": [addresses that it ignores], "seconds": after which it ends}. It also ends when that folder is gone, so that no
daemon of a test outlives it for long.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

CONFIG = "/etc/nvidia-imex/config.cfg"
UNIT = "nvidia-imex.service"
VERSION = "580.95.05"
LEGEND = """Connectivity Table Legend:
I - Invalid - Node wasn't reachable, no connection status available
N - Never Connected
R - Recovering - Connection was lost, but clean up has not yet been triggered.
D - Disconnected - Connection was lost, and clean up has been triggreed.
A - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.
!V! - Version mismatch, communication disabled.
!M! - Node map mismatch, communication disabled.
C - Connected - Ready for operation
"""
PORTS = {"SERVER_PORT": "50000", "IMEX_CMD_PORT": ""}
QUORUM = ("NONE", "RECOVERY", "FULL")
# Values in the package's config.cfg: an empty or unexpected value prevents initialization.
AUTHENTICATION = ("SSL_TLS", "GSS_AUTH_ENCRYPT", "GSS_AUTH_ONLY")
SOURCES = ("FILE", "ENV_PATH", "ENV_VAL")
# systemd.unit(5), StartLimitBurst and StartLimitIntervalSec: its defaults.
STARTS, STARTS_SECONDS = 5, 10
RETRY = 0.05
# Seconds after which a daemon ends, longer than any test runs; and between two looks for its folder.
LONGEST, LOOK = 1800, 0.5
USAGE = "Usage: nvidia-imex-ctl [-c <nvidia-imex config.cfg path>] <-N|-q> [-H]"


class RefusedError(Exception):
    """An error with which the program ends; the message is its last output."""


def settings(path):
    """Return the settings of config.cfg over the defaults. Raises RefusedError for values that the guide forbids."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as exc:
        raise RefusedError(f"cannot open {path}: {exc.strerror}") from exc
    found = {"IMEX_NODE_CONFIG_FILE": "/etc/nvidia-imex/nodes_config.cfg", "IMEX_WAIT_FOR_QUORUM": "RECOVERY", **PORTS}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[key.strip()] = value.strip()
    for key in PORTS:
        if found[key] and not (found[key].isdecimal() and int(found[key]) <= 65535):
            raise RefusedError(f"{key} {found[key]} is not between 0 and 65535")
    if found["IMEX_WAIT_FOR_QUORUM"] not in QUORUM:
        raise RefusedError(f"IMEX_WAIT_FOR_QUORUM {found['IMEX_WAIT_FOR_QUORUM']} is none of {', '.join(QUORUM)}")
    if found.get("IMEX_ENABLE_AUTH_ENCRYPTION") == "1":
        mode = found.get("IMEX_AUTH_ENCRYPTION_MODE", "")
        if mode not in AUTHENTICATION:
            raise RefusedError(f"IMEX_AUTH_ENCRYPTION_MODE '{mode}' is none of {', '.join(AUTHENTICATION)}")
        if mode == "SSL_TLS" and found.get("IMEX_AUTH_SOURCE") not in SOURCES:
            raise RefusedError(f"IMEX_AUTH_SOURCE is none of {', '.join(SOURCES)}")
    if found.get("IMEX_CMD_ENABLED") == "1" and not found["IMEX_CMD_PORT"]:
        raise RefusedError("IMEX_CMD_ENABLED needs IMEX_CMD_PORT or IMEX_CMD_UNIX_DOMAIN_PATH")
    return found


def listed(path):
    """Return the addresses in nodes_config.cfg. Raises RefusedError for an invalid file."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split()
    except OSError as exc:
        raise RefusedError(f"cannot open {path}: {exc.strerror}") from exc
    if not lines:
        raise RefusedError(f"{path} names no node")
    for line in lines:
        try:
            ipaddress.ip_address(line)
        except ValueError as exc:
            raise RefusedError(f"{path}: {line} is not an IP address") from exc
    return lines


def faults(path):
    """Return a test's settings for this daemon."""
    place = Path(path).with_name("stand_in.json")
    return json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}


def own_address(have, nodes):
    """Return the address of this node: the configured one, or the first local address of the list."""
    for address in [have["BIND_INTERFACE_IP"]] if have.get("BIND_INTERFACE_IP") else nodes:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((address, 0))
            if address in nodes:
                return address
    raise RefusedError("none of this node's addresses is in the list of nodes")


def process_start():
    """Return the seconds of the boot clock at which this process was started."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


class Daemon:
    """The daemon of a node: its state, and its connection to each node."""

    def __init__(self, path):
        self.have = settings(path)
        self.nodes = listed(self.have["IMEX_NODE_CONFIG_FILE"])
        self.own = own_address(self.have, self.nodes)
        self.wanted = faults(path)
        self.version = self.wanted.get("version", VERSION)
        driver = self.wanted.get("driver", self.version)
        if driver != self.version:
            raise RefusedError(f"NvGpu Library version {self.version} is not matching with current GPU driver {driver}")
        self.map = hashlib.sha256("\n".join(self.nodes).encode()).hexdigest()
        self.status = "INITIALIZING"
        self.to = {address: "C" if address == self.own else "N" for address in self.nodes}
        self.log_path = self.have.get("LOG_FILE_NAME") or "/var/log/nvidia-imex.log"
        self.started = process_start()
        self.persist = Path(path).with_name("persist.json")

    def log(self, level, text):
        with open(self.log_path, "a", encoding="utf-8") as stream:
            stream.write(f"[{time.strftime('%b %d %Y %H:%M:%S')}] [{level}] [tid {os.getpid()}] {text}\n")

    def reached(self, what):
        """Log a state with the seconds since the program's start, for benchmarks."""
        self.log("INFO", f"{what} after {time.clock_gettime(time.CLOCK_BOOTTIME) - self.started:.3f} s")

    def hello(self):
        return {"address": self.own, "version": self.version, "map": self.map}

    def judged(self, peer):
        """Return the letter for a peer that sent its hello."""
        if peer["address"] not in self.to or peer["map"] != self.map:
            return "!M!"
        return "C" if peer["version"] == self.version else "!V!"

    def run(self):
        threading.Thread(target=self.end_with_test, daemon=True).start()
        time.sleep(self.wanted.get("slow", 0))
        try:
            peers = Server((self.own, int(self.have["SERVER_PORT"])), PeerHandler)
            command = (
                Server((self.own, int(self.have["IMEX_CMD_PORT"])), CommandHandler)
                if self.have.get("IMEX_CMD_ENABLED") == "1"
                else None
            )
        except OSError as exc:
            self.log("ERROR", f"failed to bind to port {self.have['SERVER_PORT']}: {exc.strerror}")
            return 1
        for server in filter(None, (peers, command)):
            server.daemon = self
            threading.Thread(target=server.serve_forever, daemon=True).start()
        for address in self.nodes:
            if address != self.own:
                threading.Thread(target=self.connect, args=(address,), daemon=True).start()
        signal.signal(signal.SIGTERM, lambda *_signal: self.end())
        importers = self.importers()
        if importers:
            self.status = "WAITING_FOR_RECOVERY"
            while any(self.to[address] != "C" for address in importers):
                time.sleep(RETRY)
        if self.have["IMEX_WAIT_FOR_QUORUM"] == "FULL":
            self.status = "WAITING_FOR_PEERS"
            while set(self.to.values()) != {"C"}:
                time.sleep(RETRY)
        self.status = "READY"
        self.reached("READY")
        signal.pause()
        return 0

    def importers(self):
        """Return the last instance's nodes if it had this list and did not end cleanly; otherwise remove its file."""
        try:
            last = json.loads(self.persist.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        if last["map"] != self.map or self.have["IMEX_WAIT_FOR_QUORUM"] == "NONE":
            self.persist.unlink(missing_ok=True)
            return []
        return last["nodes"]

    def end(self):
        """Shut down cleanly."""
        self.persist.unlink(missing_ok=True)
        os._exit(0)

    def end_with_test(self):
        """End this process once the test that started it must be over."""
        ends = time.monotonic() + self.wanted.get("seconds", LONGEST)
        while self.persist.parent.is_dir() and time.monotonic() < ends:
            time.sleep(LOOK)
        os._exit(1)

    def joined(self):
        """Write the joined nodes to the persistence file, for a later instance."""
        nodes = [address for address, letter in self.to.items() if letter == "C" and address != self.own]
        self.persist.write_text(json.dumps({"map": self.map, "nodes": nodes}), encoding="utf-8")
        if len(nodes) == len(self.nodes) - 1:
            self.reached("connected to all")

    def connect(self, address):
        """Keep a connection to a peer open, unless versions or lists differ."""
        while True:
            with contextlib.suppress(OSError, ValueError):
                if address in self.wanted.get("deaf", ()):
                    raise OSError
                with socket.create_connection((address, int(self.have["SERVER_PORT"])), timeout=5) as link:
                    link.sendall(json.dumps(self.hello()).encode() + b"\n")
                    stream = link.makefile("rb")
                    self.to[address] = self.judged(json.loads(stream.readline()))
                    if self.to[address] != "C":
                        self.log("ERROR", f"{address}: {self.to[address]}, communication is disabled")
                        return
                    self.joined()
                    link.settimeout(None)
                    stream.read()
            if self.to[address] == "C":
                self.to[address] = "R"
            time.sleep(RETRY)


class Server(socketserver.ThreadingTCPServer):
    """A server whose port can be reused right after its end."""

    allow_reuse_address = True
    daemon_threads = True
    daemon = None


class PeerHandler(socketserver.StreamRequestHandler):
    """Sends a peer this node's identity, and keeps the connection."""

    def handle(self):
        daemon = self.server.daemon
        peer = json.loads(self.rfile.readline())
        if peer["address"] in daemon.wanted.get("deaf", ()):
            return
        self.wfile.write(json.dumps(daemon.hello()).encode() + b"\n")
        # The side that first detects a mismatch ends the connection, and both record it.
        if peer["address"] in daemon.to and daemon.judged(peer) != "C":
            daemon.to[peer["address"]] = daemon.judged(peer)
            return
        self.rfile.read()


class CommandHandler(socketserver.StreamRequestHandler):
    """Answers nvidia-imex-ctl."""

    def handle(self):
        daemon = self.server.daemon
        answer = {"status": daemon.status, "version": daemon.version, "to": daemon.to}
        self.wfile.write(json.dumps(answer).encode() + b"\n")


def imex(arguments):
    """Run ``nvidia-imex -c FILE``, which becomes a daemon unless DAEMONIZE=0."""
    if arguments and arguments[0] in ("-v", "--version"):
        print(f"IMEX version is: {VERSION}")
        return 0
    if arguments[:1] not in ([], ["-c"]) or len(arguments) not in (0, 2):
        raise RefusedError(f"invalid option {' '.join(arguments)}; usage: nvidia-imex [-v] [-c FILE]")
    path = arguments[1] if arguments else CONFIG
    try:
        daemon = Daemon(path)
    except RefusedError as refused:
        with (
            contextlib.suppress(RefusedError),
            open(settings(path).get("LOG_FILE_NAME") or "/var/log/nvidia-imex.log", "a", encoding="utf-8") as stream,
        ):
            stream.write(f"[{time.strftime('%b %d %Y %H:%M:%S')}] [ERROR] [tid {os.getpid()}] {refused}\n")
        raise
    pid_file = Path(path).with_name("daemon.pid")
    if daemon.have.get("DAEMONIZE", "1") == "1":
        child = os.fork()
        if child:
            pid_file.write_text(str(child), encoding="ascii")
            return 0
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
    else:
        pid_file.write_text(str(os.getpid()), encoding="ascii")
    return daemon.run()


def asked(address, port):
    """Return the response of the daemon at an address, or None."""
    try:
        with socket.create_connection((address, int(port)), timeout=2) as link:
            return json.loads(link.makefile("rb").readline())
    except (OSError, ValueError):
        return None


def ctl(arguments):
    """Run ``nvidia-imex-ctl [-c FILE] -N|-q [-H]``."""
    words, path, what = list(arguments), CONFIG, ""
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            path = words.pop(0)
        elif word in ("-N", "-q") and not what:
            what = word
        elif word != "-H" or "-q" in arguments:
            print(USAGE)
            return 255
    if not what:
        print(USAGE)
        return 255
    try:
        have = settings(path)
        nodes = listed(have["IMEX_NODE_CONFIG_FILE"])
        own = own_address(have, nodes)
    except RefusedError as refused:
        print(f"ERROR: {refused}", file=sys.stderr)
        return 255
    answers = {address: asked(address, have["IMEX_CMD_PORT"] or 0) for address in nodes}
    if what == "-q":
        print(answers[own]["status"] if answers[own] else "UNAVAILABLE")
        return 0
    print(table(nodes, own, answers))
    return 0


def table(nodes, own, answers):
    """Return the table of -N."""
    numbers = range(len(nodes))
    lines = [LEGEND, time.strftime("%m/%d/%Y %H:%M:%S.000"), "Nodes:"]
    for number, address in enumerate(nodes):
        status, version = (
            ("UNAVAILABLE", "") if not answers[address] else [answers[address][key] for key in ("status", "version")]
        )
        name = f"* {address} *  -" if address == own else f"- {address:<15} -"
        lines.append(f"Node #{number:<3} {name} {status:<20} - Version: {version}")
    lines += ["", " Nodes From\\To  " + "".join(f"{number:<4}" for number in numbers).rstrip()]
    letters = {}
    for number, address in enumerate(nodes):
        to = (answers[address] or {}).get("to", {})
        letters[address] = [to.get(peer, "I") for peer in nodes]
        lines.append(f"{number:>8}        " + "".join(f"{letter:<4}" for letter in letters[address]).rstrip())
    ready = [address for address in nodes if answers[address] and answers[address]["status"] == "READY"]
    whole = len(ready) == len(nodes) and {letter for row in letters.values() for letter in row} == {"C"}
    lines.append(f"Domain State: {'UP' if whole else 'DEGRADED' if ready else 'DOWN'}")
    return "\n".join(lines)


def systemctl(arguments):
    """Run ``systemctl show --property=LIST UNIT``, or start, stop, restart, reset-failed with UNIT."""
    verb, *words = arguments or [""]
    properties = words.pop(0) if verb == "show" and words and words[0].startswith("--property=") else ""
    if verb not in ("show", "start", "stop", "restart", "reset-failed") or (verb == "show") != bool(properties):
        raise RefusedError(f"Unknown command verb or option in: {' '.join(arguments)}")
    if len(words) != 1:
        raise RefusedError("Too few or too many arguments.")
    if words != [UNIT]:
        if verb == "show":
            print(f"Id={words[0]}\nLoadState=not-found\nActiveState=inactive")
            return 0
        raise RefusedError(f"Unit {words[0]} not found.")
    place = Path(CONFIG).with_name("daemon.pid")
    masked = faults(CONFIG).get("masked")
    if verb == "show":
        values = {
            "Id": UNIT,
            "LoadState": "masked" if masked else "loaded",
            "ActiveState": state(place),
            "SubState": "running",
            "UnitFileState": "enabled",
            "ExecStart": f"{{ path=/usr/bin/nvidia-imex ; argv[]=/usr/bin/nvidia-imex -c {CONFIG} ; pid=0 }}",
        }
        for key in properties[len("--property=") :].split(","):
            if key not in values:
                raise RefusedError(f"the stand-in has no property {key}")
            print(f"{key}={values[key]}")
        return 0
    if masked:
        raise RefusedError(f"Failed to {verb} {UNIT}: Unit {UNIT} is masked.")
    starts = Path(CONFIG).with_name("starts.json")
    if verb == "reset-failed":
        starts.unlink(missing_ok=True)
    if verb in ("stop", "restart"):
        stop(place)
    if verb in ("start", "restart") and state(place) != "active":
        limit_starts(starts)
        place.unlink(missing_ok=True)
        program = Path(sys.argv[0]).with_name("nvidia-imex")
        done = subprocess.run([program, "-c", CONFIG], check=False, capture_output=True)
        if done.returncode:
            place.write_text("0", encoding="ascii")
            raise RefusedError(f"Job for {UNIT} failed because the control process exited with error code.")
    return 0


def limit_starts(place):
    """Reject a start after too many starts within seconds, as systemd does until ``reset-failed``."""
    now = time.monotonic()
    recent = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else []
    recent = [one for one in recent if 0 <= now - one < STARTS_SECONDS]
    if len(recent) >= STARTS:
        raise RefusedError(f"Job for {UNIT} failed. Start request repeated too quickly.")
    place.write_text(json.dumps([*recent, now]), encoding="utf-8")


def state(place):
    """Return active, failed (the daemon ended by itself) or inactive."""
    if not place.is_file():
        return "inactive"
    text = place.read_text(encoding="ascii").strip()
    return "active" if text.isdecimal() and int(text) and alive(int(text)) else "failed" if text else "active"


def alive(pid):
    """Return whether a process exists and is not a zombie."""
    with contextlib.suppress(OSError):
        return re.search(r"\) (\w)", Path(f"/proc/{pid}/stat").read_text(encoding="ascii")).group(1) != "Z"
    return False


def stop(place):
    """End the daemon and wait for its end."""
    if state(place) == "active":
        pid = int(place.read_text(encoding="ascii"))
        os.kill(pid, signal.SIGTERM)
        while alive(pid):
            time.sleep(0.01)
    place.unlink(missing_ok=True)


PROGRAMS = {"nvidia-imex": imex, "nvidia-imex-ctl": ctl, "systemctl": systemctl}


def main():
    """Act as the program of this name; return 1 with a line on standard error for an error."""
    try:
        return PROGRAMS[Path(sys.argv[0]).name](sys.argv[1:])
    except RefusedError as refused:
        print(refused, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
