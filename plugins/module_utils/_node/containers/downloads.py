# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source and checksum of each file that the role installs. Pure."""

from __future__ import annotations

import posixpath
import re
import typing as t
from urllib.parse import quote, unquote, urlsplit

from ..system.host import NodeError

_SHA256 = re.compile(r"[0-9a-f]{64}")


def artifact(table: t.Sequence[t.Mapping[str, t.Any]], name: str, platform: str, version: str) -> dict[str, t.Any]:
    """Return {"name", "url", "sha256"} of an artifact from the controller's table; sha256 is "" if unknown.

    Each row of table has name, platform ("any" fits all), url, in which {version} stands for the version, and sums: the
    sha256 by version. Raises NodeError if the table has no row for the artifact.
    """
    for row in table:
        if row["name"] == name and row["platform"] in ("any", platform):
            url = row["url"].replace("{version}", version)
            return {"name": name, "url": url, "sha256": row["sums"].get(version, "")}
    known = ", ".join(f"{row['name']} for {row['platform']}" for row in table) or "none"
    raise NodeError(f"looked for {name} for {platform} and found none to download ({known}): install it on the image")


def downloads(
    artifacts: t.Sequence[t.Mapping[str, t.Any]],
    source: str = "auto",
    mirror: str = "",
    folder: str = "",
    checksums: t.Mapping[str, str] | None = None,
    names: t.Mapping[str, str] | None = None,
) -> dict[str, t.Any]:
    """Return {"files": [{"name", "file", "url", "sha256"}], "problems": sentences, "source"} for these artifacts.

    checksums and names are keyed by the publisher's file name: a site's own checksum, and the name in its mirror. An
    unpublished artifact has "file" instead of "url". The url of a file is a web or S3 address, or a controller's path.
    """
    chosen = source if source != "auto" else "mirror" if mirror else "local" if folder else "upstream"
    files, problems = [], []
    for artifact in artifacts:
        published = artifact.get("file") or unquote(posixpath.basename(urlsplit(artifact["url"]).path))
        file = (names or {}).get(published, published)
        sha256 = str((checksums or {}).get(published, "") or artifact["sha256"])
        if not _SHA256.fullmatch(sha256):
            problems.append(
                f"the checksum of {published} is unknown, so it is not installed: run make lock-artifacts on a "
                "connected machine, or set the checksum you verified in enroot_pyxis_checksums"
            )
        if chosen == "upstream" and not artifact.get("url"):
            problems.append(
                f"{file} is not published for download: set enroot_pyxis_mirror_url or enroot_pyxis_local_files"
            )
        place = mirror.rstrip("/")
        url = artifact.get("url", "") if chosen == "upstream" else ""
        if chosen == "mirror":
            # S3's own client uses the name unchanged; in a web address a plus sign means a space.
            url = f"{place}/{file}" if place.startswith("s3://") else f"{place}/{quote(file)}"
        elif chosen == "local":
            url = posixpath.join(folder, file)
        files.append({"name": artifact["name"], "file": file, "url": url, "sha256": sha256})
    problems += _missing_place(chosen, mirror, folder, [file["file"] for file in files])
    return {"files": files, "problems": problems, "source": chosen}


def _missing_place(chosen: str, mirror: str, folder: str, files: t.Sequence[str]) -> list[str]:
    wanted = ", ".join(files)
    if not files:
        return []
    if chosen == "preinstalled":
        return [f"the node lacks the software in {wanted} and enroot_pyxis_source is preinstalled: use another image"]
    if chosen == "mirror" and not (urlsplit(mirror).scheme in ("http", "https", "s3") and urlsplit(mirror).netloc):
        return [f"enroot_pyxis_mirror_url is {mirror!r}: set the http, https or s3 address of the folder with {wanted}"]
    if chosen == "local" and not folder:
        return [
            f"enroot_pyxis_source is local and enroot_pyxis_local_files is empty: set it to the folder with {wanted}"
        ]
    return []
