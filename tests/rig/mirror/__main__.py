# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python3 -m tests.rig.mirror FOLDER: make the mirror's files in a folder, and replace earlier ones."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from . import tree

if __name__ == "__main__":
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    print(json.dumps(tree.make(target)))
