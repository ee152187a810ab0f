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
# Options of dockerd's command line that set its directory; with one of them and data-root in daemon.json it does not
# start. Other programs of a unit have -g for a group, which is no path.
_ROOT_OPTION = re.compile(
    r"(?<![\w.-])(?:(?:--data-root|--graph)(?=[ =\t\"']|\\?$)|-g(?=[ =\t\"']*[/$]|[ \t]*\\?$))", re.MULTILINE
)
_REMAPPED = re.compile(r"/?[0-9]+\.[0-9]+\Z")
_ENVIRONMENT_FILE = re.compile(r"^EnvironmentFile=-?(/\S+)$", re.MULTILINE)
# Directories that dockerd makes in its own at its first start.
_OWN_NAMES = frozenset({"containers", "image", "overlay2", "buildkit", "volumes"})
# Docker 23 has dockerd --validate (release notes of Docker Engine 23.0).
OLDEST_VALIDATING = 23

_HEADER = "# Written by the role mlcluster.aws.enroot_pyxis; changes are lost.\n"


def look(host: EnrootHost, place: Place | None) -> dict[str, t.Any]:
    """Return {"path", "version", "daemon", "used", "containers", "root", "root_option", "place_taken"}.

    daemon is the text of daemon.json; used: whether the default directory already has images; containers: the number of
    running containers, None if Docker does not report it; root: the directory of a running Docker, None for the default
    or none; root_option: the file that sets it on the command line, or None; place_taken: whether Docker's directory on
    the local volume has content of others.
    """
    path = host.which("dockerd")
    version = None
    containers = root = None
    if path:
        found = re.search(r"\d+\.\d+(?:\.\d+)?", _output(host, [path, "--version"]) or "")
        version = found.group(0) if found else None
        listed = _output(host, ["docker", "ps", "--quiet"])
        containers = None if listed is None else len(listed.split())
        root = _REMAPPED.sub("", _running_root(host) or "") or None
    # With userns-remap the images are in a directory that is named for the mapped user and group.
    roots = [DEFAULT_ROOT, *(f"{DEFAULT_ROOT}/{name}" for name in host.listdir(DEFAULT_ROOT) if _REMAPPED.search(name))]
    used = any(host.listdir(f"{path}/{name}") for path in roots for name in ("image", "overlay2", "containerd"))
    return {
        "path": path,
        "version": version,
        "daemon": host.read_text(DAEMON_PATH),
        "used": used,
        "containers": containers,
        "root": None if root == host.realpath(DEFAULT_ROOT) else root,
        "root_option": _root_option(host),
        "place_taken": place is not None and _is_taken(host, _on_volume(place)),
    }


def _running_root(host: EnrootHost) -> str | None:
    root_directory = (_output(host, ["docker", "info", "--format", "{{.DockerRootDir}}"]) or "").strip()
    return root_directory if root_directory.startswith("/") else None


def _root_option(host: EnrootHost) -> str | None:
    """Return the unit, or the file of variables that it reads, which sets dockerd's directory on the command line."""
    unit = _output(host, ["systemctl", "cat", "docker.service"]) or ""
    texts = {"docker.service": _without_comments(unit)}
    texts.update((path, _without_comments(host.read_text(path) or "")) for path in _ENVIRONMENT_FILE.findall(unit))
    return next((name for name, text in texts.items() if _ROOT_OPTION.search(text)), None)


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))


def _is_taken(host: EnrootHost, path: str) -> bool:
    """Return whether a path has content that Docker did not make: Docker takes the directory with owner and mode."""
    info = host.stat(path)
    if info is None:
        return False
    names = host.listdir(path)
    return not info["is_dir"] or info["uid"] != 0 or bool(names and len(_OWN_NAMES & set(names)) < 2)


def _on_volume(place: Place) -> str:
    return posixpath.join(posixpath.dirname(place.path), "docker")


def data_root(docker: t.Mapping[str, t.Any], place: Place, wanted: str) -> str:
    """Return the directory for built images: the one that is set, or one on the local volume for "auto".

    "" keeps Docker's directory: on a node without a local volume, if another directory would hide existing images, or
    if that on the volume has content of others. Raises NodeError for a directory that Docker would not start with.
    """
    chosen = _on_volume(place) if wanted == "auto" else wanted
    setter = docker["root_option"]
    if setter is None and docker["root"] not in (None, chosen) and not _sets_root(docker["daemon"]):
        setter = "the command line of dockerd"
    if wanted != "auto":
        if wanted and setter:
            raise NodeError(
                f"enroot_pyxis_docker_data_root is {wanted}, and {setter} sets Docker's directory already"
                f"{' to ' + docker['root'] if docker['root'] else ''}: set it in one place, since Docker does not "
                "start with both"
            )
        return wanted
    kept = place.kind == "fallback" or docker["used"] or docker["place_taken"] or setter
    return "" if kept else chosen


def _sets_root(text: str | None) -> bool:
    """Return whether daemon.json sets Docker's directory; damaged, it may, and ``daemon_text`` refuses it."""
    try:
        settings = json.loads(text or "{}")
    except ValueError:
        return True
    return not isinstance(settings, dict) or "data-root" in settings


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
    running_root = _running_root(host)
    if running_root is None:
        reason = f"Docker {docker['version']} is installed and does not answer; only building images needs it"
        return not_applicable("docker.version", reason, hint="look with 'systemctl status docker'")
    return passed("docker.version", f"{docker['version']}, images in {running_root}")


def _output(host: EnrootHost, argv: t.Sequence[str]) -> str | None:
    try:
        return host.run(argv, timeout=30).stdout
    except CommandError:
        return None
