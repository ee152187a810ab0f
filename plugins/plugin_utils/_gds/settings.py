# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks the settings of the role nvidia_gds on the controller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_plan import check_settings
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

_CUDA = re.compile(r"[0-9]{2}\.[0-9]{1,2}")
_SPEC = re.compile(r"[a-z0-9][A-Za-z0-9+._-]*(=[A-Za-z0-9:.+~-]+)?")
_NAME = re.compile(r"[a-z0-9][A-Za-z0-9+._-]*")
_PATH = re.compile(r"/[^\x00-\x1f\x7f\ud800-\udfff]*")


def gds_problems(settings: Mapping[str, Any]) -> list[str]:
    """Why the settings of the role nvidia_gds could not be carried out on any node; empty when they are sound.

    settings has the variables mode, compat_allowed, cuda_version, packages, mounts, cufile_settings,
    cufile_allow_unknown, probe_timeout, bandwidth_mib, dkms_log_lines, headers_package and library (both may be empty)
    without the role's name.
    """
    # Ansible takes a text for a list or a mapping and leaves it a text.
    kinds: dict[str, tuple[type, str]] = {"packages": (list, "a list"), "mounts": (list, "a list")}
    kinds.update(cufile_settings=(dict, "a mapping"), cuda_version=(str, "a release of CUDA in quotes, such as '13.0'"))
    wrong = [
        f"nvidia_gds_{name} is {settings[name]!r}: give {what}"
        for name, (kind, what) in kinds.items()
        if not isinstance(settings[name], kind)
    ]
    return wrong or _value_problems(settings)


def _value_problems(settings: Mapping[str, Any]) -> list[str]:
    problems = []
    if settings["mode"] == "compat" and not settings["compat_allowed"]:
        problems.append("nvidia_gds_mode is compat and nvidia_gds_compat_allowed forbids just that: change one of them")
    cuda = settings["cuda_version"]
    if cuda and not _CUDA.fullmatch(cuda):
        problems.append(f"nvidia_gds_cuda_version is {cuda!r}: give a release of CUDA in quotes, such as '13.0'")
    for spec in settings["packages"]:
        if not isinstance(spec, str) or not _SPEC.fullmatch(spec):
            problems.append(f"nvidia_gds_packages has {spec!r}: give names of packages, or name=version")
    for path in settings["mounts"]:
        if not isinstance(path, str) or not _PATH.fullmatch(path) or ".." in path.split("/"):
            problems.append(f"nvidia_gds_mounts has {path!r}: give absolute paths without '..'")
    headers, library = settings["headers_package"], settings["library"]
    if headers and not (isinstance(headers, str) and _NAME.fullmatch(headers)):
        problems.append(f"nvidia_gds_headers_package is {headers!r}: give the name of a package, or none")
    if library and not (isinstance(library, str) and _PATH.fullmatch(library)):
        problems.append(f"nvidia_gds_library is {library!r}: give the full path of libcufile.so.0")
    for name, low, high in (("probe_timeout", 1, 600), ("bandwidth_mib", 1, 1048576), ("dkms_log_lines", 1, 500)):
        if not low <= settings[name] <= high:
            problems.append(f"nvidia_gds_{name} is {settings[name]}: give a number from {low} to {high}")
    try:
        check_settings(settings["cufile_settings"], settings["cufile_allow_unknown"])
    except NodeError as exc:
        problems.append(f"nvidia_gds_cufile_settings: {exc}")
    return problems
