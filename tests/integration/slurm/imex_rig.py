# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster that simulates UltraServers: nodes with own addresses, IMEX channels and a stand-in for the IMEX daemon."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.slurm.health_rig import PRIVATE, render, runtime
from tests.rig.imex import install
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.spec import Spec, address_of

ETC, BIN, CHANNELS = "/etc/nvidia-imex", "/usr/local/sbin", "/dev/nvidia-caps-imex-channels"
OWN = (*PRIVATE, ETC, BIN, CHANNELS)
TYPE = "p6e-gb200.36xlarge"
MAJOR = 234
SITE = f"""# Of the package, with the log where each node has its own.
LOG_FILE_NAME={ETC}/log
SERVER_PORT=50000
IMEX_CMD_ENABLED=1
IMEX_CMD_PORT=50005
"""


class Ultra:
    """The cluster, and the IMEX daemons and files of its nodes."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder

    def path(self, node: str, path: str) -> Path:
        """Return the path outside of the node of a file in a node's own directories."""
        place = next(place for place in OWN if path.startswith(f"{place}/"))
        return self.cluster.root / "nodes" / node / str(OWN.index(place) + 1) / path[len(place) + 1 :]

    def address(self, node: str) -> str:
        """Return the address of a node."""
        return address_of(self.cluster.record.spec, self.cluster.record.ports, int(node[1:]))

    def inside(self, node: str, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a node."""
        enter = ["nsenter", f"--target={self.cluster._init(node)}", "--mount", "--uts", "--pid", "--"]
        return self.cluster.run(*enter, "env", f"SLURMD_NODENAME={node}", *argv, check=False)

    def mlcluster(self, node: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``mlcluster imex`` on a node."""
        options = ("--instance-type", TYPE, "--slurm-conf", f"{self.cluster.root}/etc/slurm.conf")
        return self.inside(node, str(self.folder / "mlcluster"), "imex", *words, *options)

    def members(self, node: str) -> list[str]:
        """Return the list of nodes in the configuration of a node's daemon."""
        return self.path(node, f"{ETC}/nodes_config.cfg").read_text(encoding="ascii").split()

    def settings(self, node: str) -> dict[str, str]:
        """Return the configuration of a node's daemon."""
        text = self.path(node, f"{ETC}/config.cfg").read_text(encoding="utf-8")
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def daemon(self, node: str) -> int | None:
        """Return the process ID of a node's daemon, as seen on the node; None if no daemon runs."""
        with suppress(FileNotFoundError):
            return int(self.path(node, f"{ETC}/daemon.pid").read_text(encoding="ascii"))
        return None

    def fault(self, node: str, **wanted: object) -> None:
        """Make the daemon of a node faulty from its next start on."""
        self.path(node, f"{ETC}/stand_in.json").write_text(json.dumps(wanted), encoding="utf-8")

    def reset(self) -> None:
        """Reset every node to its first state."""
        for number, node in enumerate(self.cluster.record.spec.names, 1):
            self.inside(node, "systemctl", "stop", "nvidia-imex.service")
            self.path(node, f"{ETC}/config.cfg").write_text(
                f"{SITE}BIND_INTERFACE_IP={self.address(f'n{number}')}\n", encoding="utf-8"
            )
            self.path(node, f"{ETC}/nodes_config.cfg").write_text("0.0.0.0\n0.0.0.0\n", encoding="ascii")
            again = (f"{ETC}/persist.json", f"{ETC}/starts.json")
            for path in (
                *again,
                f"{ETC}/stand_in.json",
                f"{ETC}/log",
                f"{CHANNELS}/channel0",
                "/run/mlcluster/imex.json",
            ):
                self.path(node, path).unlink(missing_ok=True)

    def hooks(self, mode: str = "required", seconds: int = 20) -> dict[str, str]:
        """Write Prolog and Epilog with the line that a site adds to its own; return settings of slurm.conf."""
        options = f"--instance-type {TYPE} --slurm-conf {self.cluster.root}/etc/slurm.conf"
        lines = {
            "Prolog": f"imex up --mode {mode} --seconds {seconds} --drain {options} || exit 1",
            "Epilog": f"imex down {options}",
        }
        for name, line in lines.items():
            path = self.folder / name.lower()
            path.write_text(f"#!/bin/sh\n{self.folder}/mlcluster {line}\nexit 0\n", encoding="utf-8")
            path.chmod(0o755)
        return {name: str(self.folder / name.lower()) for name in lines}

    def role_hooks(self, imex: str = "required") -> dict[str, str]:
        """Write the scripts of the role slurm_jobs with IMEX domains; return settings of slurm.conf."""
        folder = self.folder / f"role-{imex}"
        folder.mkdir()
        conf, base = f"{self.cluster.root}/etc/slurm.conf", f"{self.cluster.root}/local/jobs"
        more = ["--instance-type", TYPE, "--seconds", "20"]
        # Checks of hardware that this machine lacks are switched off.
        paths = render(folder, base, conf, imex, imex_options=more, labels=False)
        return {"Prolog": paths["prolog"], "Epilog": paths["epilog"]}


@contextmanager
def ultra_cluster(name: str, nodes: int = 4, topology: str = "", **settings: str) -> Iterator[Ultra]:
    """Yield a cluster whose nodes have an IMEX daemon, and whose Prolog makes the domains of jobs."""
    made = [Path(path) for path in OWN if not Path(path).is_dir()]
    for path in made:
        path.mkdir(mode=0o755, parents=True)
    folder = Path(tempfile.mkdtemp(prefix="mlcluster-imex-"))
    folder.chmod(0o755)
    cluster = Cluster(name)
    found = Ultra(cluster, folder)
    try:
        devices = folder / "devices"
        devices.write_text(f"Character devices:\n  1 mem\n{MAJOR} nvidia-caps-imex-channels\n\nBlock devices:\n")
        command = folder / "mlcluster"
        command.write_text(f'#!/bin/sh\nexec /usr/bin/python3 -I {runtime()} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        spec = Spec(
            nodes=nodes,
            settings={**found.hooks(), "MinJobAge": "60", "PrologFlags": "Alloc,NoHold", **settings},
            private=OWN,
            mounts=(f"{devices}:/proc/devices",),
            own_addresses=True,
            topology=topology,
        )
        cluster.up(spec, owned=True)
        for node in spec.names:
            # Copies: a link into the checkout would be dangling on a node with another root file system.
            install(found.path(node, f"{BIN}/nvidia-imex").parent)
        found.reset()
        yield found
    finally:
        with suppress(Exception):
            for node in cluster.record.spec.names:
                found.inside(node, "systemctl", "stop", "nvidia-imex.service")
        cluster.down()
        shutil.rmtree(folder)
        for path in made:
            with suppress(OSError):
                path.rmdir()
