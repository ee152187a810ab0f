# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each file that a role installs comes from, and whether it may be installed at all."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

_SHA256 = re.compile(r"[0-9a-f]{64}")


def enroot_pyxis_downloads(
    artifacts: Sequence[Mapping[str, Any]],
    source: str = "auto",
    mirror: str = "",
    folder: str = "",
    checksums: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """{"files": [{"name", "file", "url", "src", "s3", "sha256"}], "problems": sentences} for these artifacts.

    checksums and names go by the publisher's file name: a site's own checksum, and the name in its mirror. An artifact
    that nobody publishes has "file" in place of "url". Of url (http), src (controller) and s3 one is set.
    """
    chosen = source if source != "auto" else "mirror" if mirror else "local" if folder else "upstream"
    files, problems = [], []
    for artifact in artifacts:
        published = artifact.get("file") or unquote(posixpath.basename(urlsplit(artifact["url"]).path))
        file = (names or {}).get(published, published)
        sha256 = str((checksums or {}).get(published, "") or artifact["sha256"])
        if not _SHA256.fullmatch(sha256):
            problems.append(
                f"no checksum of {published} is known, so it is not installed: run make lock-artifacts on a connected "
                "machine, or give the one you checked in enroot_pyxis_checksums"
            )
        if chosen == "upstream" and not artifact.get("url"):
            problems.append(
                f"nobody publishes {file}: give enroot_pyxis_mirror_url or enroot_pyxis_local_files where it lies"
            )
        place = mirror.rstrip("/")
        # S3's own client takes the name as it is; in an address a plus sign would be read as a space.
        s3 = f"{place}/{file}" if chosen == "mirror" and place.startswith("s3://") else ""
        url = f"{place}/{quote(file)}" if chosen == "mirror" and not s3 else ""
        files.append(
            {
                "name": artifact["name"],
                "file": file,
                "url": url or (artifact.get("url", "") if chosen == "upstream" else ""),
                "src": posixpath.join(folder, file) if chosen == "local" else "",
                "s3": s3,
                "sha256": sha256,
            }
        )
    problems += _missing_place(chosen, mirror, folder, [file["file"] for file in files])
    return {"files": files, "problems": problems, "source": chosen}


def _missing_place(chosen: str, mirror: str, folder: str, files: Sequence[str]) -> list[str]:
    wanted = ", ".join(files)
    if not files:
        return []
    if chosen == "preinstalled":
        return [f"the node lacks what {wanted} would bring and enroot_pyxis_source is preinstalled: use another image"]
    if chosen == "mirror" and not (urlsplit(mirror).scheme in ("http", "https", "s3") and urlsplit(mirror).netloc):
        return [
            f"enroot_pyxis_mirror_url is {mirror!r}: give the http, https or s3 address of the folder with {wanted}"
        ]
    if chosen == "local" and not folder:
        return [f"enroot_pyxis_source is local and enroot_pyxis_local_files is empty: give the folder with {wanted}"]
    return []
