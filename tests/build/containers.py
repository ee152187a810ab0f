# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Test hosts: podman containers that boot systemd, made of images that are built once.

containers.py up NAME          NAME ends in -RELEASE, such as mlcluster-default-debian12
containers.py down NAME...
containers.py clean            every container and image of this kind
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SUITES = {"debian12": "bookworm", "debian13": "trixie"}
PREFIX = "mlcluster-"
IMAGE_PREFIX = "localhost/mlcluster-"
# Package lists go stale: an older image would ask for packages that are no longer there.
IMAGE_SECONDS = 7 * 24 * 3600
BOOT_SECONDS = 600

PACKAGES = "systemd,systemd-sysv,dbus,python3,python3-apt,sudo,iproute2,iputils-ping,ca-certificates,procps,udev,kmod"
RECIPE = (
    "mmdebstrap",
    "--quiet",
    "--variant=minbase",
    f"--include={PACKAGES}",
    "--skip=cleanup/apt/lists",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
)
IMPORT = ("--change", 'CMD ["/sbin/init"]', "--change", "STOPSIGNAL SIGRTMIN+3", "--change", "ENV container=podman")


class ContainerError(Exception):
    """A test host cannot be started; the message is one sentence for the user."""


def podman(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run podman; the caller looks at the status."""
    try:
        return subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ContainerError("podman is not there: run make setup first.") from None


def require_success(result: subprocess.CompletedProcess[str], tried: str) -> str:
    """Return the output of a command. Raises ContainerError if it failed."""
    if result.returncode:
        words = (result.stderr or result.stdout).strip().splitlines() or ["no output"]
        raise ContainerError(f"{tried} failed with status {result.returncode}: {words[-1]}")
    return result.stdout.strip()


def release_of(name: str) -> str:
    """Return the release at the end of a host name. Raises ContainerError for an unknown one."""
    release = name.rsplit("-", 1)[-1]
    if release not in SUITES:
        raise ContainerError(f"{name} does not end in one of {', '.join(SUITES)}: give it such a name.")
    return release


def image_name(release: str) -> str:
    """Return the image of a release; its tag changes with the recipe."""
    recipe = "\0".join((*RECIPE, *IMPORT, SUITES[release]))
    return f"{IMAGE_PREFIX}{release}:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def image_age(image: str) -> float | None:
    """Return the seconds since the image was made; None if it is missing."""
    result = podman("image", "inspect", "--format", "{{.Created.Unix}}", image)
    return None if result.returncode else time.time() - float(result.stdout)


@contextmanager
def locked(name: str) -> Iterator[int]:
    """Hold the user's lock ``name``, waiting until it is free: images and host names are shared on a machine.

    Gives the descriptor of the lock, which goes when the last process that has it ends.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlcluster"
    base.mkdir(parents=True, exist_ok=True)
    with (base / f"{name}.lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another run that holds {name}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def ensure_image(release: str) -> str:
    """Return the name of a fresh image; build it if necessary."""
    image = image_name(release)
    with locked(f"image-{release}"):
        age = image_age(image)
        if age is not None and age < IMAGE_SECONDS:
            return image
        print(f"building {image}, about half a minute", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            archive = str(Path(folder) / "root.tar")
            build = subprocess.run([*RECIPE, SUITES[release], archive], capture_output=True, text=True, check=False)
            require_success(build, f"Building the {release} image with mmdebstrap")
            require_success(podman("import", "--quiet", *IMPORT, archive, image), f"Importing {image}")
    return image


def limits() -> list[str]:
    """Return the resource limits that this host allows a container.

    podman's defaults are above the hard limits of a host without CAP_SYS_RESOURCE, where the
    container would not start at all.
    """
    wanted = {"nofile": (resource.RLIMIT_NOFILE, 65536), "nproc": (resource.RLIMIT_NPROC, 30000)}
    arguments = []
    for name, (number, most) in wanted.items():
        hard = resource.getrlimit(number)[1]
        value = most if hard == resource.RLIM_INFINITY else min(hard, most)
        arguments += ["--ulimit", f"{name}={value}:{value}"]
    return arguments


def boot(name: str) -> None:
    """Wait until systemd in the container reports that it is running."""
    state = ""
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline:
        state = podman("exec", name, "systemctl", "is-system-running", "--wait").stdout.strip()
        if state == "running":
            return
        if state == "degraded":
            failed = podman("exec", name, "systemctl", "--failed", "--plain", "--no-legend").stdout.split()
            raise ContainerError(f"{name} booted with a failed unit: {failed[0] if failed else 'unknown'}")
        found = require_success(
            podman("inspect", "--format", "{{.State.Status}}", name), f"Looking at {name} while it boots"
        )
        if found != "running":
            words = podman("logs", "--tail", "1", name)
            raise ContainerError(f"{name} ended while booting: {(words.stdout or words.stderr).strip() or 'no output'}")
        time.sleep(0.2)
    raise ContainerError(
        f"{name} did not boot within {BOOT_SECONDS} s, its state is {state or 'unknown'}: see podman logs {name}"
    )


def up(name: str) -> None:
    """Start a fresh host called ``name``, in place of an existing one."""
    image = ensure_image(release_of(name))
    hostname = name.replace("_", "-")
    # runc, because crun refuses a host whose cgroups are mounted in the hybrid way.
    run = ["--runtime", "runc", "run", "--detach", "--replace", "--pull=never", "--name", name]
    run += ["--hostname", hostname, "--systemd=always", *limits(), image]
    require_success(podman(*run), f"Starting {name}")
    boot(name)


def down(names: list[str]) -> None:
    """Remove these hosts; a missing one is not an error."""
    require_success(podman("rm", "--force", "--ignore", "--time", "0", *names), f"Removing {', '.join(names)}")


def clean() -> None:
    """Remove every host and image that this tool made, once they are not in use."""
    with ExitStack() as held:
        held.enter_context(locked("molecule"))
        listed = json.loads(require_success(podman("ps", "--all", "--format", "json"), "Listing containers") or "[]")
        names = [name for row in listed for name in row["Names"] if name.startswith(PREFIX)]
        # A host that is not a scenario's has a lock of its own name.
        for name in [*names, *(f"image-{release}" for release in SUITES)]:
            held.enter_context(locked(name))
        if names:
            down(names)
        images = require_success(podman("images", "--format", "{{.Repository}}:{{.Tag}}"), "Listing images").split()
        ours = [image for image in images if image.startswith(tuple(f"{IMAGE_PREFIX}{release}:" for release in SUITES))]
        if ours:
            require_success(podman("rmi", *ours), "Removing images")
    print(f"removed {len(names)} containers and {len(ours)} images")


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status."""
    try:
        if len(arguments) == 2 and arguments[0] == "up":
            up(arguments[1])
        elif len(arguments) >= 2 and arguments[0] == "down":
            down(arguments[1:])
        elif arguments == ["clean"]:
            clean()
        else:
            print("Usage: containers.py up NAME | down NAME... | clean", file=sys.stderr)
            return 2
    except ContainerError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
