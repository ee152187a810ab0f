# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training without a GPU: it counts steps, writes checkpoints, also on request, and resumes.

training.py STEPS [EXIT_STATUS [held|deaf|FILE]]: the number of steps, and the exit status after them. The third
argument stops a new training after its first checkpoint: ``held`` until a checkpoint is requested, ``deaf`` for ever,
and FILE until this file exists.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

ASKED_TO_STOP = 75


def save(step: int) -> None:
    folder = Path(os.environ["MLCLUSTER_CHECKPOINTS"]) / f"step-{step}"
    folder.mkdir(exist_ok=True)
    (folder / "weights").write_text(str(step))
    (folder / "complete").touch()


def together() -> None:
    """Wait until every rank is at its end, as srun ends the others after a rank with a status other than 0."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    place = Path(os.environ["MLCLUSTER_CHECKPOINTS"])
    mark = f".end-{os.environ['SLURM_JOB_ID']}-{os.environ.get('SLURM_RESTART_COUNT', '0')}-"
    (place / f"{mark}{os.environ['RANK']}").touch()
    while len(list(place.glob(f"{mark}*"))) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.02)


def hold(word: str) -> None:
    """Wait until the test lets the training continue."""
    request = os.environ["MLCLUSTER_CHECKPOINT_REQUEST"]
    while word == "deaf" or (word and not Path(request if word == "held" else word).exists()):
        time.sleep(0.05)


def main() -> int:
    last = int(sys.argv[1])
    ends_with = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    holds = sys.argv[3] if len(sys.argv) > 3 else ""
    first = int(os.environ["RANK"]) == 0
    resume = os.environ["MLCLUSTER_RESUME"]
    step = int((Path(resume) / "weights").read_text()) if resume else 0
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} on {os.uname().nodename} from {step}", flush=True)
    while step < last:
        time.sleep(0.01)
        step += 1
        if Path(os.environ["MLCLUSTER_CHECKPOINT_REQUEST"]).exists():
            if first:
                save(step)
            together()
            return ASKED_TO_STOP
        if first and step % 20 == 0:
            save(step)
        if step == 20 and not resume:
            hold(holds)
    if first:
        save(step)
    if ends_with:
        together()
    return ends_with


if __name__ == "__main__":
    sys.exit(main())
