# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of jobs. This folder is the registry: a file NAME.py that defines ``KIND`` is the kind NAME."""

from __future__ import annotations

import importlib
import pkgutil

from ..kind import Kind

KINDS: dict[str, Kind] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").KIND for module in pkgutil.iter_modules(__path__)
}
if not KINDS:
    raise ImportError(f"no kind of job lies in {', '.join(__path__)}: install the collection or the runtime again")
