# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses as `aws s3 sync [--dryrun] [--only-show-errors] [--exclude NAME] SOURCE s3://...`, with a folder for S3.

A file LOSSY beside it makes it lose what it is given, and say that all went well. One SLOW makes it wait
until that is gone.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

HERE = Path(sys.argv[0]).parent


def main() -> None:
    words = sys.argv[3:]
    source, target = Path(words[-2]), HERE / "s3" / words[-1].removeprefix("s3://")
    while (HERE / "SLOW").exists():
        (HERE / "BEGAN").touch()
        time.sleep(0.05)
    left_out = {words[at + 1] for at, word in enumerate(words) if word == "--exclude"}
    for file in sorted(source.rglob("*")):
        copy = target / file.relative_to(source)
        if file.is_dir() or file.name in left_out:
            continue
        if copy.exists() and copy.read_bytes() == file.read_bytes():
            continue
        if "--dryrun" in words:
            print(f"(dryrun) upload: {file} to {words[-1]}/{file.name}")
        elif not (HERE / "LOSSY").exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


if __name__ == "__main__":
    main()
