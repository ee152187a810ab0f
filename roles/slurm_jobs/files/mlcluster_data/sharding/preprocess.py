# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make shards of inputs, divided among the tasks of a Slurm array: task I of N takes every N-th input from the
I-th on. After every shard, the manifest of its input is written, so a restarted task continues after its last complete
shard. When all inputs are done, manifest.json is written.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..cli import arguments
from ..cli.progress import Progress, amount
from ..corpus import manifest
from ..corpus.manifest import Input, Shard
from ..corpus.text import ON_BAD
from ..errors import PASS, DataError
from ..files import durable, store
from ..locks.directory import Lock, check
from . import blocks, tokenizer
from . import tar as shards

# Limits of a sample, whose length has 32 bits, and of a shard, which is completely in memory.
TOKENS_MOST = (1 << 31) - 1
# The names of all that a run makes in the folder for its shards, besides the plan.
_MADE = re.compile(r"manifest\.json|input-\d{5,}\.json|shard-\d{5,}-\d{5,}\.tar")


@dataclass(frozen=True)
class Job:
    """Inputs, outputs and options, the same for all tasks: ``plan`` is stored beside the shards and must not differ."""

    folder: Path
    inputs: list[Input]
    store: store.Store
    spool: Path
    plan: dict[str, Any]
    # Signatures of the shards that this process wrote or read.
    proved: dict[str, object] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the SHA-256 of the plan."""
        return hashlib.sha256(manifest.dump(self.plan)).hexdigest()


def tasks_of(args: argparse.Namespace, environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the index of this task and the number of tasks: from the options, else from Slurm, else a single task.

    Raises DataError.
    """
    index, count = args.task, args.tasks
    if index is None and count is None and "SLURM_ARRAY_TASK_ID" in environment:
        index, count = _slurm_task(environment)
    index, count = index or 0, count or 1
    if not 0 <= index < count:
        raise DataError(f"task {index} of {count} does not exist: tasks are counted from 0 to {count - 1}")
    return index, count


def _slurm_task(environment: Mapping[str, str]) -> tuple[int, int]:
    names = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP")
    given = [environment.get(name, default) for name, default in zip(names, ("", "", "0", "1"))]
    try:
        number, count, first, step = map(int, given)
        # Indices of a range that does not begin at 0 or has gaps are counted as Slurm counts its tasks.
        return (number - first) // step, count
    except (ValueError, ZeroDivisionError) as exc:
        stated = ", ".join(f"{name}={value[:20]}" for name, value in zip(names, given))
        raise DataError(
            f"{stated} is not a task of an array: start it with sbatch --array, or use --task and --tasks"
        ) from exc


def make_job(args: argparse.Namespace) -> tuple[Job, blocks.Settings]:
    """Return the job, after agreeing with the other tasks on its plan. Raises DataError, S3Error."""
    inputs = manifest.inputs_of(args.input)
    found, config = tokenizer.load(args.tokenizer, args.token_secret)
    ids = tokenizer.ids_of(found, config, args.eos, args.pad)
    definition, digest = tokenizer.definition_of(found)
    plan = {
        "schema": manifest.PLAN_SCHEMA,
        "tokenizer_sha256": digest,
        "eos": ids.eos,
        "pad": ids.pad,
        "vocabulary": ids.vocabulary,
        "dtype": ids.dtype,
        "form": args.form,
        "length": args.length,
        "packed": args.packed,
        "shard_tokens": args.shard_tokens,
        "on_bad": args.on_bad,
        "inputs": [{"name": one.name, "bytes": one.bytes, "sha256": one.sha256} for one in inputs],
    }
    where = store.at(args.output)
    refuse_taken(where)
    published = manifest.parse(where.create(manifest.PLAN, manifest.dump(plan)), manifest.PLAN, manifest.PLAN_SCHEMA)
    if other := sorted(key for key in {**plan, **published} if plan.get(key) != published.get(key)):
        raise DataError(
            f"{args.output} holds shards with other settings ({', '.join(other)} differ, see {manifest.PLAN}): "
            "give this run a folder of its own, or remove that one"
        )
    spool = store.spool(args.spool, where)
    if not (isinstance(where, store.Folder) and spool == where.path):
        # Several jobs may write to the disk, so each has its own folder.
        spool = spool / f"shards-{hashlib.sha256((args.output + digest).encode()).hexdigest()[:12]}"
        durable.own_directory(spool)
    return Job(args.input, inputs, where, spool, plan), blocks.Settings(definition, ids, args.whole, args.on_bad)


def refuse_taken(where: store.Store) -> None:
    """Raise DataError for a file of another program that has the name of one that a run makes. Raises S3Error."""
    if where.read(manifest.PLAN) is not None:
        return
    taken = sorted(name for name in where.signatures() if _MADE.fullmatch(name))
    # Another task may have begun meanwhile, and its plan comes before its first file.
    if taken and where.read(manifest.PLAN) is None:
        raise DataError(
            f"{where.place(taken[0])} would be replaced, and there is no {manifest.PLAN} of the run that made it: give "
            "this run a folder of its own, or move it away"
        )


def part_name(at: int) -> str:
    """Return the file name of the manifest of one input."""
    return f"input-{at:05d}.json"


class InputWork:
    """The shards of one input: the existing ones, and the position to continue from."""

    def __init__(self, job: Job, at: int) -> None:
        """Read the manifest of this input. Raises DataError if it is of another plan."""
        self.job, self.at = job, at
        self.name = job.inputs[at].name
        self.shards: list[Shard] = []
        self.ends: list[int] = []
        self.complete = False
        self.skipped = self.replaced = 0
        self.sha256 = job.inputs[at].sha256
        self._load()

    def _load(self) -> None:
        raw = self.job.store.read(part_name(self.at))
        if raw is None:
            return
        where = self.job.store.place(part_name(self.at))
        content = manifest.parse_sealed(raw, where, manifest.PART_SCHEMA)
        if content.get("plan") != self.job.key:
            raise DataError(f"{where} is of another plan: remove the folder")
        found = manifest.entries(Shard, content, "shards", where)
        # It determines the position to resume from; with a wrong one documents would be missing or duplicated.
        ends = content.get("ends")
        numbers = [*ends, content.get("skipped"), content.get("replaced")] if isinstance(ends, list) else []
        whole_numbers = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
        if len(numbers) != len(found) + 2 or not whole_numbers or not isinstance(content.get("complete"), bool):
            raise DataError(f"{where} is damaged: remove it, and its shards are made again")
        self.shards, self.ends = found, content["ends"]
        self.complete = content["complete"]
        self.skipped, self.replaced = content["skipped"], content["replaced"]
        self.sha256 = str(content.get("input_sha256") or self.sha256)

    def keep_good(self) -> None:
        """Drop the first missing or changed shard and all later ones. Raises S3Error, OSError."""
        bad = first_bad(self.job, self.shards)
        if bad is not None:
            print(f"{self.job.store.place(bad.name)} is missing or was changed: it is made again", flush=True)
            at = self.shards.index(bad)
            self.shards, self.ends, self.complete = self.shards[:at], self.ends[:at], False

    @property
    def start(self) -> int:
        """The byte of the input from which to continue."""
        return self.ends[-1] if self.ends else 0

    @property
    def documents(self) -> int:
        """The number of documents in the shards."""
        return sum(shard.documents for shard in self.shards)

    def save(self) -> None:
        """Write the manifest of the finished shards."""
        content = {
            "schema": manifest.PART_SCHEMA,
            "plan": self.job.key,
            "input": self.name,
            "shards": manifest.rows(self.shards),
            "ends": self.ends,
            "complete": self.complete,
            "skipped": self.skipped,
            "replaced": self.replaced,
            "input_sha256": self.sha256,
        }
        self.job.store.write(part_name(self.at), manifest.sealed(content))

    def add(self, tokens: np.ndarray, counts: np.ndarray, end: int) -> Shard:
        """Write the next shard with these documents; the last one ends at byte ``end``."""
        plan = self.job.plan
        name = f"shard-{self.at:05d}-{len(self.shards):05d}.tar"
        rows = shards.rows_of(self.at, self.documents, tokens, counts, plan["length"], plan["packed"])
        path, size, digest = shards.write_shard(self.job.spool, name, rows, plan["form"])
        self.job.proved[name] = self.job.store.put(name, path, durable.FileSum(size, digest))
        shard = Shard(name, len(rows.lengths), len(tokens), len(counts), size, digest, self.at)
        self.shards.append(shard)
        self.ends.append(end)
        self.save()
        return shard

    def check(self) -> None:
        """Raise DataError for an input that has changed since it was collected or its first shards were made.

        The position to continue from would be in the middle of another document. Raises OSError.
        """
        path, wanted = self.job.folder / self.name, self.job.inputs[self.at].bytes
        found = durable.digest(path)
        if found.size != wanted:
            what = f"has {found.size} bytes and had {wanted}"
        elif self.sha256 not in ("", found.sha256):
            what = "has another SHA-256 than it had"
        else:
            self.sha256 = found.sha256
            return
        raise DataError(
            f"{path} {what} when it was collected or its first shards were made: restore it, or collect the text "
            "again and give its shards a folder of their own"
        )

    def run(self, pool: blocks.Pool, progress: Progress) -> None:
        """Make the missing shards. Raises DataError, S3Error, OSError."""
        self.check()
        self.job.store.clean(f"shard-{self.at:05d}-")
        for left in self.job.spool.glob(f".shard-{self.at:05d}-*.part"):
            if durable.is_aside(left.name):
                left.unlink()
        progress.advance(self.start)
        last = self.start
        for tokens, counts, end in self._gathered(pool):
            shard = self.add(tokens, counts, end)
            progress.advance(end - last, f"{self.name}: {shard.name}")
            last = end
        if not self.shards and self.job.plan["on_bad"] != "skip":
            raise DataError(f"{self.job.folder / self.name} holds no document: leave it out, or use --on-bad skip")
        self.complete = True
        self.save()
        progress.advance(self.job.inputs[self.at].bytes - last)

    def _gathered(self, pool: blocks.Pool) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """Yield the documents of one shard at a time; the document that fills a shard is its last."""
        maximum = self.job.plan["shard_tokens"]
        tokens: list[np.ndarray] = []
        counts: list[np.ndarray] = []
        held, end = 0, self.start
        for block in pool.encode(self.job.folder / self.name, self.start):
            self.skipped += block.skipped
            self.replaced += block.replaced
            begins = np.concatenate(([0], np.cumsum(block.counts)))
            done = 0
            while done < len(block.counts):
                until = int(np.searchsorted(begins, begins[done] + maximum - held))
                until = min(max(until, done + 1), len(block.counts))
                tokens.append(block.tokens[begins[done] : begins[until]])
                counts.append(block.counts[done:until])
                held += int(begins[until] - begins[done])
                done, end = until, int(block.ends[until - 1])
                if held >= maximum:
                    yield np.concatenate(tokens), np.concatenate(counts), end
                    tokens, counts, held = [], [], 0
        if held:
            yield np.concatenate(tokens), np.concatenate(counts), end


def first_bad(job: Job, found: list[Shard]) -> Shard | None:
    """Return the first shard that is missing or differs from its manifest; each shard is read once in a run.

    Raises S3Error, OSError.
    """
    now = job.store.signatures()

    def is_good(shard: Shard) -> bool:
        known = job.proved.get(shard.name)
        if known is None or known != now.get(shard.name):
            known = job.store.proof(shard.name, durable.FileSum(shard.bytes, shard.sha256))
            job.proved[shard.name] = known
        return known is not None

    with concurrent.futures.ThreadPoolExecutor(cores()) as pool:
        return next((shard for shard, good in zip(found, pool.map(is_good, found)) if not good), None)


def finish(job: Job) -> dict[str, Any] | None:
    """Write manifest.json if every input is done; None while some are not. Raises DataError, S3Error."""
    works = [InputWork(job, at) for at in range(len(job.inputs))]
    if not all(work.complete for work in works):
        return None
    found = [shard for work in works for shard in work.shards]
    bad = first_bad(job, found)
    if bad is not None:
        raise DataError(
            f"{job.store.place(bad.name)} is missing or was changed, so the manifest is not written: start the "
            f"task of {works[bad.input].name} again, which makes it again"
        )
    content = {
        **job.plan,
        "schema": manifest.DATASET_SCHEMA,
        "shards": manifest.rows(found),
        "skipped": sum(work.skipped for work in works),
        "replaced": sum(work.replaced for work in works),
        **{name: sum(getattr(shard, name) for shard in found) for name in ("samples", "tokens", "documents")},
    }
    job.store.write(manifest.DATASET, manifest.dump(content))
    return content


@contextlib.contextmanager
def only_one(job: Job, at: int) -> Iterator[None]:
    """Lock this input, and the folder of the shards, against all other tasks. Raises DataError, OSError.

    In S3 there is no lock: two tasks of the same input write the same bytes, and no object is ever incomplete. Two
    tasks of one node would write the same temporary files, so these files have a lock.
    """
    base = job.store.path if isinstance(job.store, store.Folder) else job.spool
    with durable.Directory.open(base) as top, top.below(".locks", f"input-{at:05d}", make=True) as folder:
        lock = Lock(folder.path)
    if before := lock.acquire():
        print(f"input {at}: the lock of {before}, which has ended, was removed")
    try:
        # This task's lock exists already, so a process that locks the whole folder sees it.
        check(base)
        yield
    finally:
        lock.release()


def work_through(job: Job, settings: blocks.Settings, own_inputs: list[int], processes: int) -> None:
    """Make the shards of these inputs. Raises DataError, S3Error."""
    total = sum(job.inputs[at].bytes for at in own_inputs)
    try:
        with Progress("preprocess", total) as progress, blocks.Pool(settings, processes) as pool:
            for at in own_inputs:
                with only_one(job, at):
                    work = InputWork(job, at)
                    work.keep_good()
                    if work.complete:
                        print(f"{work.name}: its {len(work.shards)} shards exist already")
                        progress.advance(job.inputs[at].bytes)
                        continue
                    work.run(pool, progress)
    except OSError as exc:
        raise DataError(
            f"a shard could not be made ({durable.reason(exc)}) in {job.spool} or {job.store.place('')}: make room or "
            "fix that, and start the same task again, which continues after its last whole shard"
        ) from exc


def cores() -> int:
    """Return the cores that this task may use."""
    allowed = len(os.sched_getaffinity(0))
    return min(allowed, int(os.environ.get("SLURM_CPUS_PER_TASK", allowed)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("--input", type=arguments.path, required=True, help="folder with the inputs")
    add("--output", type=arguments.place, required=True, help="folder or s3://BUCKET/PREFIX for the shards")
    add("--tokenizer", type=arguments.place, required=True, help="tokenizer.json, its folder, or a hub id")
    add("--token-secret", default="", help="the hub token's name in AWS Secrets Manager (else HF_TOKEN)")
    add("--eos", default="", help="token that ends a document (else that of tokenizer_config.json)")
    add("--pad", default="", help="token that fills rows (else the tokenizer's own, else one more number)")
    add("--length", type=arguments.between(1, TOKENS_MOST), default=2048, help="most tokens in a sample (2048)")
    add("--packed", action="store_true", help="fill rows with several documents")
    add("--form", choices=shards.FORMS, default="npy", help="format of samples (npy, compact)")
    add(
        "--shard-tokens",
        type=arguments.between(1, TOKENS_MOST),
        default=16 << 20,
        help="tokens in a shard, which are held in memory (16 Mi)",
    )
    add("--spool", default=os.environ.get("MLCLUSTER_SPOOL", ""), help="fast local folder to write shards to first")
    add("--task", type=arguments.between(0, arguments.MAX_VALUE), help="index of this task (else SLURM_ARRAY_TASK_ID)")
    add("--tasks", type=arguments.at_least_one, help="number of tasks (else SLURM_ARRAY_TASK_COUNT)")
    add("--processes", type=arguments.workers, default=cores(), help="processes to encode with (the task's cores)")
    add("--on-bad", choices=ON_BAD, default="fail", help="policy for text that is not UTF-8 or JSON (fail)")
    add("--whole", action="store_true", help="encode each text as a whole, without the table of words")


def run(args: argparse.Namespace) -> int:
    """Run one task; return its exit status."""
    index, count = tasks_of(args, os.environ)
    job, settings = make_job(args)
    own_inputs = list(range(index, len(job.inputs), count))
    print(
        f"task {index} of {count}: {len(own_inputs)} of {len(job.inputs)} inputs, {args.processes} processes",
        flush=True,
    )
    work_through(job, settings, own_inputs, args.processes)
    content = finish(job)
    if content is None:
        print("other tasks are still running: the last one writes the manifest")
    else:
        some = ", ".join(f"{amount(content[name])} {name}" for name in ("documents", "samples", "tokens"))
        print(f"{args.output}: {len(content['shards'])} shards, {some}, the manifest is written")
    return PASS
