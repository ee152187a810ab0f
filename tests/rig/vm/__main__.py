# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rig's command line: ``python3 -m tests.rig.vm VERB``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from typing import Optional

from . import base, cache, plan, prepare, qemu
from .command import RigError, progress
from .guest import DISK_MB, Guest


def _build(_args: argparse.Namespace) -> None:
    folder, accelerator = base.ensure()
    print(json.dumps({"base": str(folder), "accelerator": accelerator}))


def _up(args: argparse.Namespace) -> None:
    Guest(args.name).up(args.disks, args.ebs, args.disk_mb, args.instance_type)


def _ssh(args: argparse.Namespace) -> None:
    guest = Guest(args.name)
    guest.need_running()
    # A single argument is a shell line, as with ssh.
    words = args.command[0] if len(args.command) == 1 else shlex.join(args.command)
    argv = guest.ssh_argv() + ([words] if words else [])
    os.execvp(argv[0], argv)


def _reboot(args: argparse.Namespace) -> None:
    progress(f"rebooted: ssh after {Guest(args.name).reboot():.0f} s")


def _stop_start(args: argparse.Namespace) -> None:
    progress(f"stopped and started: ssh after {Guest(args.name).stop_start():.0f} s")


def _lose_disk(args: argparse.Namespace) -> None:
    progress(f"lost {Guest(args.name).lose_disk(args.slot).serial}")


def _reshuffle(args: argparse.Namespace) -> None:
    guest = Guest(args.name)
    guest.reshuffle(args.seed)
    print(plan.dump(guest.plan), end="")


def _snapshot(args: argparse.Namespace) -> None:
    progress(f"snapshot {args.snapshot} taken in {Guest(args.name).snapshot(args.snapshot):.1f} s")


def _restore(args: argparse.Namespace) -> None:
    progress(f"restored {args.snapshot}: ssh after {Guest(args.name).restore(args.snapshot):.1f} s")


def _down(args: argparse.Namespace) -> None:
    Guest(args.name).down()


def _console(args: argparse.Namespace) -> None:
    guest = Guest(args.name)
    if args.follow:
        os.execvp("tail", ["tail", "-n", str(args.lines), "-F", str(guest.folder / "console.log")])
    print(guest.console_tail(args.lines))


def _status(args: argparse.Namespace) -> None:
    print(json.dumps(Guest(args.name).status(), indent=2))


def _inventory(args: argparse.Namespace) -> None:
    text = Guest(args.name).inventory(args.group or ("instance_store",))
    if args.output:
        with open(args.output, "w", encoding="utf-8") as stream:
            stream.write(text)
    else:
        print(text, end="")


def _prepare(args: argparse.Namespace) -> None:
    guest = Guest(args.name)
    guest.need_running()
    print(prepare.prepare(guest, args.case), end="")


def _clean(_args: argparse.Namespace) -> None:
    with contextlib.ExitStack() as held:
        # Locks of guests come first: every user of several locks takes them in this order.
        for name in sorted(cache.lock_names(), key=lambda name: (not name.startswith("guest-"), name)):
            held.enter_context(cache.locked(name, name))
        guests = cache.root() / "guests"
        for folder in sorted(guests.iterdir()) if guests.exists() else []:
            Guest(folder.name).down()
        for kind in ("guests", "bases", "images", "debs", "ssh"):
            cache.discard(cache.root() / kind)
        (cache.root() / "kvm.json").unlink(missing_ok=True)


# These verbs do not take the guest's lock: they only read, or start another program in their place. `clean` takes all
# locks itself.
UNLOCKED: tuple[Callable[[argparse.Namespace], None], ...] = (_build, _ssh, _console, _status, _inventory, _clean)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    top = argparse.ArgumentParser(prog="python3 -m tests.rig.vm", description="A local guest with EC2's NVMe disks.")
    top.add_argument("--name", default="demo", help="name of the guest; several can run at once (default: demo)")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, does: Callable[[argparse.Namespace], None], text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.add_argument("--name", default=argparse.SUPPRESS, help="which guest")
        sub.set_defaults(does=does)
        return sub

    verb("build", _build, "make the image and the base snapshot, if they are missing")
    up = verb("up", _up, "start a fresh guest, replacing the one of that name")
    up.add_argument("--disks", type=int, default=4, choices=plan.DISK_COUNTS, help="instance-store disks (default 4)")
    up.add_argument("--ebs", type=int, default=1, choices=plan.EBS_COUNTS, help="EBS volumes (default 1)")
    up.add_argument("--disk-mb", type=int, default=DISK_MB, help=f"size of a disk in MiB (default {DISK_MB})")
    up.add_argument(
        "--instance-type",
        default=qemu.INSTANCE_TYPE,
        help="instance type that the firmware reports; others than the default boot without the snapshot",
    )
    ssh = verb("ssh", _ssh, "log in by ssh, or run a command")
    ssh.add_argument("command", nargs=argparse.REMAINDER)
    verb("reboot", _reboot, "reboot: all data is kept")
    verb("stop-start", _stop_start, "stop and start: instance-store disks come back blank with new serials")
    verb("lose-disk", _lose_disk, "remove an instance-store disk, also at later boots").add_argument("slot", type=int)
    shuffle = verb("reshuffle", _reshuffle, "change the order in which the disks get their names")
    shuffle.add_argument("--seed", type=int, default=1)
    verb("snapshot", _snapshot, "save memory and disks under a name").add_argument("snapshot")
    verb("restore", _restore, "restore a snapshot; `base` is the guest without disks").add_argument("snapshot")
    verb("prepare", _prepare, "set up the disks as on a real node").add_argument(
        "case", choices=list(prepare.CASES), metavar="CASE", help=", ".join(prepare.CASES)
    )
    verb("down", _down, "end the guest and remove its files")
    console = verb("console", _console, "show the log of the guest's serial console")
    console.add_argument("--follow", action="store_true")
    console.add_argument("--lines", type=int, default=50)
    verb("status", _status, "print state, disks and connection as JSON")
    inventory = verb("inventory", _inventory, "print an Ansible inventory with this guest")
    inventory.add_argument("--group", action="append", help="groups to put it into (default: instance_store)")
    inventory.add_argument("--output", help="write to this file instead")
    verb("clean", _clean, "end all guests and remove image, snapshots, packages and key")
    return top


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one verb; return the exit status (1 when it failed, with one message on standard error)."""
    args = parser().parse_args(argv)
    started = time.monotonic()
    try:
        if args.does in UNLOCKED:
            args.does(args)
        else:
            with cache.locked(f"guest-{args.name}", f"the guest {args.name}"):
                args.does(args)
    except RigError as exc:
        print(f"rig: {args.verb}: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if args.does not in UNLOCKED:
        progress(f"{args.verb} done in {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
