# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wanted directories from a layout, a list of models and storage classes. Pure functions.

A layout is a list of {on, path, class, per_model, purpose}: on names a place (data, checkpoints, logs), for which the
settings have a mount; path is below it, with {model} if each model has its own.
"""

from __future__ import annotations

import re
import typing as t

LAYOUTS: dict[str, list[dict[str, t.Any]]] = {
    # Three file systems, so that a burst of checkpoints does not slow the readers of data.
    "three": [
        {"on": "data", "path": "datasets", "class": "dataset", "purpose": "data sets, raw and as shards"},
        {"on": "data", "path": "weights", "class": "weights", "purpose": "model weights to start from"},
        {"on": "data", "path": "images", "class": "weights", "purpose": "container images"},
        {"on": "checkpoints", "path": "{model}/checkpoints", "class": "checkpoint", "purpose": "checkpoints"},
        {"on": "checkpoints", "path": "{model}/outputs", "class": "weights", "purpose": "results of trainings"},
        {"on": "logs", "path": "{model}/training_logs", "class": "logs", "purpose": "logs of jobs"},
        {"on": "logs", "path": "{model}/tensorboard", "class": "logs", "purpose": "events for TensorBoard"},
    ],
    # One file system for all.
    "one": [
        {"on": "data", "path": "images", "class": "weights", "purpose": "container images"},
        {"on": "data", "path": "scripts", "class": "logs", "purpose": "job scripts"},
        {"on": "data", "path": "data", "class": "dataset", "purpose": "data sets, raw and as shards"},
        {"on": "checkpoints", "path": "checkpoints/{model}", "class": "checkpoint", "purpose": "checkpoints"},
        {"on": "checkpoints", "path": "outputs/{model}", "class": "weights", "purpose": "results of trainings"},
        {"on": "logs", "path": "logs/{model}", "class": "logs", "purpose": "logs of jobs"},
        {"on": "logs", "path": "tensorboard/{model}", "class": "logs", "purpose": "events for TensorBoard"},
    ],
    "none": [],
}
# Default stripe layout for each class of data.
CLASSES: dict[str, dict[str, t.Any]] = {
    "dataset": {
        "stripe": [],
        "purpose": "many files of 100 MB to 1 GB, read by every node; the default layout distributes them",
        "lifetime": "S3 has them; released when space is short, hydrated before a job",
    },
    "checkpoint": {
        "stripe": [{"count": -1, "size": "16M"}],
        "purpose": "few large files, written by all nodes at once",
        "lifetime": "archived to S3, the last ones kept here",
    },
    "weights": {
        "stripe": [{"count": -1, "size": "16M"}],
        "purpose": "few large files, read by all nodes at once",
        "lifetime": "S3 has them; released when space is short",
    },
    "optimizer": {
        "stripe": [{"count": -1, "size": "16M"}],
        "purpose": "the larger part of a checkpoint, needed only to resume a training",
        "lifetime": "the last ones kept here, not archived",
    },
    "logs": {
        "stripe": [{"count": 1}],
        "purpose": "small files that grow line by line; a file on one OST needs one lock",
        "lifetime": "archived to S3 when a run is over",
    },
    "temp": {
        "stripe": [],
        "purpose": "files that can be made again; the local NVMe volume is faster",
        "lifetime": "until the job ends, never archived",
    },
}
PLACES = ("data", "checkpoints", "logs")
KEYS = ("layout", "models", "places", "classes", "owner", "group", "mode", "acl", "directories")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def problems(settings: t.Mapping[str, t.Any]) -> list[str]:
    """Return one sentence for each error in layout, models, places, classes and directories."""
    found = []
    layout, places, classes = settings["layout"], settings["places"], settings["classes"]
    if layout not in LAYOUTS:
        found.append(f"the layout is {layout!r}: it must be one of {', '.join(LAYOUTS)}")
        return found
    missing = [name for name in dict.fromkeys(entry["on"] for entry in LAYOUTS[layout]) if not places.get(name)]
    if missing:
        found.append(f"the layout {layout} needs a mount for {', '.join(missing)}: name it in places")
    for model in settings["models"]:
        if not _MODEL.fullmatch(str(model)):
            found.append(f"models has {model!r}: use a name of letters, digits, '.', '_' and '-'")
    used = [entry["class"] for entry in LAYOUTS[layout]]
    used += [str(entry["class"]) for entry in settings["directories"] if isinstance(entry, dict) and entry.get("class")]
    for name in dict.fromkeys(used):
        if not isinstance(classes.get(name), dict):
            found.append(
                f"there is no storage class {name}: add it to classes, there are "
                f"{', '.join(map(str, classes)) or 'none'}"
            )
    for name, entry in classes.items():
        if not isinstance(entry, dict) or set(entry) - {"stripe", "purpose", "lifetime"}:
            found.append(f"the storage class {name} is {entry!r}: set stripe, purpose and lifetime")
        elif not _is_list(entry.get("stripe"), dict):
            found.append(f"the storage class {name} has the stripe {entry['stripe']!r}: use a list of dictionaries")
    for entry in settings["directories"]:
        if not isinstance(entry, dict) or not entry.get("path") or not isinstance(entry["path"], str):
            found.append(f"directories has {entry!r}: use a dictionary with a path")
        elif not _is_list(entry.get("stripe"), dict) or not _is_list(entry.get("acl"), str):
            found.append(
                f"directories has {entry!r}: set stripe to a list of dictionaries and acl to a list of strings"
            )
    return found


def places(layout: str, systems: t.Iterable[t.Any]) -> dict[str, str]:
    """Return the file system of each place, by order: one for all, or one each for data, checkpoints and logs."""
    paths = [entry["path"] for entry in systems if isinstance(entry, dict) and entry.get("path")]
    if layout == "one":
        paths = paths[:1] * len(PLACES)
    return dict(zip(PLACES, paths))


def _is_list(value: t.Any, kind: type) -> bool:
    """Return whether a value is empty or a list of that type."""
    return not value or (isinstance(value, (list, tuple)) and all(isinstance(part, kind) for part in value))


def expand(settings: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the directories for ``_node.lustre.config``: those of the layout, overridden by those of the settings.

    settings: layout, models, places ({data, checkpoints, logs}: mount), classes ({name: {stripe}}), owner, group,
    mode, acl, directories (with a class or a stripe). They must have no ``problems``.
    """
    found: dict[str, dict[str, t.Any]] = {}
    for entry in LAYOUTS[settings["layout"]]:
        top = str(settings["places"][entry["on"]]).rstrip("/")
        for model in settings["models"] if "{model}" in entry["path"] else [""]:
            path = f"{top}/{entry['path'].replace('{model}', str(model))}"
            found[path] = _directory({**entry, "path": path}, settings)
    for entry in settings["directories"]:
        found[entry["path"]] = _directory(entry, settings)
    return list(found.values())


def _directory(entry: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    stripe = settings["classes"].get(entry.get("class"), {}).get("stripe") or []
    return {
        "path": entry["path"],
        "owner": str(entry.get("owner") or settings["owner"]),
        "group": str(entry.get("group") or settings["group"]),
        "mode": str(entry.get("mode") or settings["mode"]),
        "acl": list(entry.get("acl") or settings["acl"]),
        "stripe": [dict(part) for part in entry.get("stripe") or stripe],
        "purpose": str(entry.get("purpose") or ""),
    }
