# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List, check and remove the checkpoints of a training, in a directory or in S3. A running training holds the lock, so
none of its checkpoints is removed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..cli import arguments
from ..errors import FAIL, PASS, DataError
from ..files import durable, s3
from . import directory as checkpoint_store
from .directory import DirectoryStore, Store
from .s3 import S3Store


def store_at(place: str) -> Store:
    """Return the store of a directory or an s3:// URL. Raises DataError."""
    return S3Store(s3.Prefix(place)) if s3.is_url(place) else DirectoryStore(Path(place))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    shown = verbs.add_parser("list", help="the published checkpoints, newest first")
    verify = verbs.add_parser("verify", help="read the newest one completely; exit status 1 if it is not good")
    prune = verbs.add_parser("prune", help="remove all but the newest good ones")
    for verb in (shown, verify, prune):
        verb.add_argument(
            "place", type=arguments.place, metavar="DIRECTORY|s3://BUCKET/PREFIX", help="where the training saves them"
        )
    verify.add_argument("--all", action="store_true", help="all of them, not only the newest")
    prune.add_argument(
        "--keep", type=arguments.at_least_one, default=3, metavar="N", help="how many stay (%(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the verb and return its exit status."""
    store = store_at(args.place)
    try:
        steps = store.steps()
        if not steps:
            raise DataError(f"{args.place} holds no checkpoint: use the directory of a training")
        if args.verb == "list":
            return _list(store, steps)
        if args.verb == "verify":
            return _verify(store, steps if args.all else steps[:1])
        return _prune(store, args.keep)
    except OSError as exc:
        raise DataError(
            f"{args.place} cannot be used ({durable.reason(exc)}): use the directory of a training"
        ) from exc


def _list(store: Store, steps: list[int]) -> int:
    for step in steps:
        try:
            manifest = store.manifest(step)
        except checkpoint_store.TornError as exc:
            print(f"step {step}: {exc}")
            continue
        size = sum(of.size for of in manifest.files.values())
        print(f"step {step}: {len(manifest.files)} files, {size} bytes, {manifest.world_size} ranks")
    return PASS


def _verify(store: Store, steps: list[int]) -> int:
    code = PASS
    for step in steps:
        problems = checkpoint_store.verify(store, step)
        print(f"step {step}: {checkpoint_store.joined(problems) or 'good'}")
        code = FAIL if problems else code
    return code


def _prune(store: Store, keep: int) -> int:
    lock = store.lock()
    lock.acquire()
    try:
        for step in checkpoint_store.retain(store, keep, checkpoint_store.Proofs(store).good):
            print(f"step {step}: removed")
    finally:
        lock.release()
    return PASS
