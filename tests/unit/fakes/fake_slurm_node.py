# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake of a node of Slurm with a container image."""

from __future__ import annotations

from tests.unit.fakes.fake_training_host import TrainingHost

BIN = "/opt/slurm/bin"
UP = "Slurmctld(primary) at head is UP\n"
NODE = "NodeName=n1 CPUTot=8 Gres=gpu:h100:8 NodeHostName=n1 State={} Partitions=gpu {}\n"
# Error of scontrol 22.05 without a slurm.conf.
NOT_SET_UP = "scontrol: fatal: Could not establish a configuration source"
HELP = "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
IMAGE = "/fsx/images/train.sqsh"


class SlurmHost(TrainingHost):
    """A host that skips the variables of a command, and records them and the written and removed files."""

    def __init__(self):
        super().__init__()
        self.gone = []
        self.unset = set()

    def run(self, argv, timeout=120, check=True, stdin=None):
        words = list(argv[1:] if argv[0] == "env" else argv)
        while argv[0] == "env" and (words[0] == "-u" or "=" in words[0]):
            if words.pop(0) == "-u":
                self.unset.add(words.pop(0))
        return super().run(words, timeout, check, stdin)

    def write_text(self, path, text, mode=0o644):
        self.files[path] = text

    def remove(self, path):
        self.gone.append(path)
        self.files.pop(path, None)
