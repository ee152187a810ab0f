# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the role efa_nccl writes: their places and texts. Pure."""

from __future__ import annotations

import json
import re
import typing as t

from ..system.distribution import DEBIAN
from .config import EfaConfig

HEADER = "Written by mlcluster.aws (role efa_nccl); changes here are lost with the next run."
LINKER = "/etc/ld.so.conf.d/mlcluster-efa-nccl.conf"
LIMITS = "/etc/security/limits.d/95-mlcluster.conf"
KERNEL = "/etc/sysctl.d/95-mlcluster-efa.conf"
UPGRADES = "/etc/apt/apt.conf.d/52mlcluster-held"
NEEDRESTART = "/etc/needrestart/conf.d/mlcluster.conf"
NCCL_CONF = "/etc/nccl.conf"
PROFILE = "/etc/profile.d/mlcluster-nccl.sh"
# Exists while the installer runs: if it is found later, that run was interrupted.
INTENT = "/var/lib/mlcluster/efa_installer.json"

LIMITS_TEXT = f"""# {HEADER}
# EFA registers the memory it sends from; a limit on locked memory ends in "Cannot allocate memory".
* soft memlock unlimited
* hard memlock unlimited
root soft memlock unlimited
root hard memlock unlimited
"""
UNIT_LIMITS_TEXT = f"""# {HEADER}
# limits.d does not reach services, and what this one starts inherits its limits.
[Service]
LimitMEMLOCK=infinity
"""


def modulefile(config: EfaConfig, family: str) -> str:
    """Return the path of the modulefile: in the distribution's folder, or in the site's."""
    default = "/usr/share/modules/modulefiles" if family == DEBIAN else "/usr/share/Modules/modulefiles"
    return f"{config.modulefile_dir or default}/mlcluster-nccl"


def unit_paths(config: EfaConfig) -> list[str]:
    """Return the drop-ins of the services, each once."""
    return [f"/etc/systemd/system/{unit}.d/mlcluster-limits.conf" for unit in dict.fromkeys(config.limit_units)]


def tests_marker(config: EfaConfig) -> str:
    """Return the path of the file that records the inputs of the nccl-tests build."""
    return f"{config.tests_dir}/.mlcluster.json"


def own_paths(config: EfaConfig, family: str) -> list[str]:
    """Return every file that the role may write."""
    fixed = [LINKER, LIMITS, KERNEL, UPGRADES, NEEDRESTART, NCCL_CONF, PROFILE, modulefile(config, family)]
    return [*fixed, *unit_paths(config)]


def linker_text(place: str) -> str:
    """Return the linker's drop-in, which adds the directory of the plugin to its path."""
    return f"# {HEADER}\n{place}\n"


def kernel_text(settings: t.Mapping[str, int]) -> str:
    """Return the sysctl.d file with these settings."""
    return f"# {HEADER}\n" + "".join(f"{name} = {value}\n" for name, value in settings.items())


def upgrades_text(patterns: t.Iterable[str]) -> str:
    """Return the list of packages that unattended-upgrades must skip; patterns with * become regular expressions."""
    expressions = [re.escape(pattern).replace("\\*", ".*") for pattern in sorted(set(patterns))]
    return "\n".join(
        [
            f"// {HEADER}",
            "// Regular expressions. unattended-upgrades has its own list beside the holds of dpkg.",
            "Unattended-Upgrade::Package-Blacklist {",
            *(f'    "^{expression}$";' for expression in expressions),
            "};",
            "",
        ]
    )


def needrestart_text(names: t.Iterable[str]) -> str:
    """Return the services that needrestart must skip; Perl would take @ for an array."""
    lines = ["$nrconf{override_rc}->{qr(^%s\\b)} = 0;" % re.escape(name).replace("@", "[@]") for name in sorted(names)]
    return "\n".join([f"# {HEADER}", "# A restart of a service that a job uses ends the job.", *lines, ""])


def tests_text(config: EfaConfig) -> str:
    """Return the inputs of the build of nccl-tests; they are built again if these change."""
    inputs = {
        "version": config.tests_version,
        "cuda_home": config.cuda_home,
        "mpi_home": config.mpi_home,
        "arguments": list(config.tests_arguments),
    }
    return json.dumps(inputs, indent=2, sort_keys=True) + "\n"


def intent_text(version: str, step: str) -> str:
    """Return the record of the installer's step."""
    return json.dumps({"step": step, "version": version}) + "\n"
