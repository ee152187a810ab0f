# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide whether NVLink joins the GPUs of a machine with those of other machines. Pure."""

from __future__ import annotations

import typing as t

# NCCL (init.cc) reads a cluster UUID of zeros as no domain beyond the machine.
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_COMPLETED = "Completed"


def is_alone(smi: t.Mapping[str, t.Any]) -> bool:
    """Return whether the result of ``parse_smi`` proves that the GPUs share no NVLink domain with other machines."""
    gpus = smi["gpus"]
    return bool(gpus) and len(gpus) == smi["attached"] and all(_is_alone(gpu) for gpu in gpus)


def _is_alone(gpu: t.Mapping[str, t.Any]) -> bool:
    fabric = gpu["fabric"]
    if fabric["state"] is None:
        # A GPU without a fabric. A GPU that still registers has a state, and no cluster either.
        return all(gpu["unreadable"].get(name) == "N/A" for name in ("fabric.state", "fabric.cluster_uuid"))
    return bool(fabric["state"] == _COMPLETED and fabric["cluster_uuid"] == NO_CLUSTER)
