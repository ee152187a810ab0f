# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Docker for building images: data on local disks, and a daemon.json that keeps the settings of others."""

from __future__ import annotations

import json
import posixpath
import re
import typing as t

from ..system.host import CommandError, NodeError
from ..system.versions import version_key
from ..verdict.result import Result, failed, not_applicable, passed, undeterminable
from .host import EnrootHost
from .local_directories import Place

DAEMON_PATH = "/etc/docker/daemon.json"
DROPIN_PATH = "/etc/systemd/system/docker.service.d/50-mlcluster.conf"
DEFAULT_ROOT = "/var/lib/docker"
# Docker 23 has dockerd --validate (release notes of Docker Engine 23.0).
OLDEST_VALIDATING = 23

_HEADER = "# Written by the role mlcluster.aws.enroot_pyxis; changes are lost.\n"


def look(host: EnrootHost) -> dict[str, t.Any]:
    """Return {"path", "version", "daemon", "used", "containers"}.

    daemon is the text of daemon.json; used: whether the default directory already has images; containers: the number of
    running containers, None if Docker does not report it.
    """
    path = host.which("dockerd")
    version = None
    containers = None
    if path:
        found = re.search(r"\d+\.\d+(?:\.\d+)?", _output(host, [path, "--version"]) or "")
        version = found.group(0) if found else None
        listed = _output(host, ["docker", "ps", "--quiet"])
        containers = None if listed is None else len(listed.split())
    used = any(host.listdir(f"{DEFAULT_ROOT}/{name}") for name in ("image", "overlay2", "containerd"))
    return {
        "path": path,
        "version": version,
        "daemon": host.read_text(DAEMON_PATH),
        "used": used,
        "containers": containers,
    }


def data_root(docker: t.Mapping[str, t.Any], place: Place, wanted: str) -> str:
    """Return the directory for built images: the one that is set, or one on the local volume for "auto".

    "" keeps Docker's default: on a node without a local volume, or if another directory would hide existing images.
    """
    if wanted != "auto":
        return wanted
    if place.kind == "fallback" or docker["used"]:
        return ""
    return posixpath.join(posixpath.dirname(place.path), "docker")


def daemon_text(now: str | None, root: str, own: t.Mapping[str, t.Any], nvidia: bool) -> str:
    """Return daemon.json with the wanted settings merged in. Raises NodeError if the current text is not a JSON object.

    An existing data-root is kept unless own sets another: it holds the built images.
    """
    try:
        settings = json.loads(now) if now and now.strip() else {}
    except ValueError as exc:
        raise NodeError(
            f"{DAEMON_PATH} is not valid JSON ({exc}), so Docker would not start and nothing was merged: fix it"
        ) from None
    if not isinstance(settings, dict):
        raise NodeError(f"{DAEMON_PATH} is not a JSON object, so nothing was merged into it: fix it")
    own_settings: dict[str, t.Any] = {}
    if root and "data-root" not in settings:
        own_settings["data-root"] = root
    if nvidia:
        own_settings["runtimes"] = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
    merged = merge(merge(settings, own_settings), own)
    if merged == settings and now:
        return now
    return json.dumps(merged, indent=4, sort_keys=True) + "\n"


def merge(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return old updated with new: objects are merged, other values are replaced."""
    merged = dict(old)
    for key, value in new.items():
        both = isinstance(value, t.Mapping) and isinstance(merged.get(key), t.Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def files(docker: t.Mapping[str, t.Any], text: str, place: Place) -> list[dict[str, t.Any]]:
    """Return Docker's files as ``files.wanted_files`` does, with the command that validates each."""
    root = json.loads(text).get("data-root", "")
    volume = posixpath.dirname(place.path) if place.kind != "fallback" else ""
    inside = bool(volume) and root.startswith(volume + "/") and place.kind in ("volume", "known")
    dropin = (
        f"{_HEADER}[Unit]\nAfter=mlcluster-storage.service\nConditionPathIsMountPoint={volume}\n" if inside else None
    )
    daemon = {"path": DAEMON_PATH, "text": text, "part": "docker_daemon"}
    if version_key(docker["version"])[:1] >= (OLDEST_VALIDATING,):
        daemon["validate"] = f"{docker['path']} --validate --config-file %s"
    # No file is created for an empty object.
    kept = [daemon] if text.strip() != "{}" or docker["daemon"] is not None else []
    return [*kept, {"path": DROPIN_PATH, "text": dropin if inside else None, "part": "docker_daemon"}]


def verdict(host: EnrootHost, docker: t.Mapping[str, t.Any]) -> Result:
    """Return the verdict on whether images can be built here."""
    if not docker["path"]:
        return failed("docker.version", "dockerd is not installed, so no image can be built here", severity="none")
    if docker["version"] is None:
        return undeterminable("docker.version", f"{docker['path']} does not report its version")
    shown = (_output(host, ["docker", "info", "--format", "{{.DockerRootDir}}"]) or "").strip()
    if not shown.startswith("/"):
        reason = f"Docker {docker['version']} is installed and does not answer now, which only building images needs"
        return not_applicable("docker.version", reason, hint="look with 'systemctl status docker'")
    return passed("docker.version", f"{docker['version']}, images in {shown}")


def _output(host: EnrootHost, argv: t.Sequence[str]) -> str | None:
    try:
        return host.run(argv, timeout=30).stdout
    except CommandError:
        return None
