# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Train on shards. Each process is one rank; torchrun or the training job of slurm_jobs starts them.

It continues from the newest good checkpoint. On USR1, TERM, or the file named by MLCLUSTER_CHECKPOINT_REQUEST, all
ranks write a checkpoint and end with 75, after which the job is requeued. Exit status: 0 finished, 75 stopped on
request and saved, 1 failed, 3 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import typing as t
from pathlib import Path

import torch
import torch.distributed as dist

from ..checkpoints import save as checkpoint
from ..checkpoints.command import store_at
from ..checkpoints.save import Checkpointer
from ..cli import arguments
from ..errors import PASS, DataError
from ..files import durable
from ..files.journal import Journal
from ..loading import loader
from ..locks.directory import TRAIN_NAME, Lock, LockedError
from . import ranks, step_times, trainer
from .model import Model, ModelConfig

LOGGER = logging.getLogger("mlcluster.data")
# EX_TEMPFAIL of sysexits.h: try again later.
ASKED_TO_STOP = 75


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command; defaults come from the training job's environment."""
    add = parser.add_argument
    environment = os.environ
    add(
        "--data-dir",
        type=arguments.place,
        required=True,
        metavar="DIRECTORY|s3://BUCKET/PREFIX",
        help="shards that preprocess has finished",
    )
    add("--checkpoint-dir", type=arguments.place, default=environment.get("MLCLUSTER_CHECKPOINTS") or None, metavar="DIRECTORY|s3://BUCKET/PREFIX",
        help="where checkpoints are kept ($MLCLUSTER_CHECKPOINTS)")  # fmt: skip
    add("--local-dir", type=arguments.path, default=checkpoint.default_local(), metavar="DIRECTORY",
        help="where checkpoints are written first, on this node's own disk (%(default)s)")  # fmt: skip
    add("--log-dir", type=arguments.path, help="folder for MODEL-metrics.jsonl")
    add("--output-dir", type=arguments.path, help="folder for the weights at the end, MODEL.pt and MODEL.json")
    add("--tensorboard-dir", type=arguments.path, help="folder for TensorBoard's events")
    add("--model-name", type=arguments.name, default="model", help="name of the files (%(default)s)")
    add("--batch-size", type=arguments.at_least_one, default=32, help="samples of a rank in a step (%(default)s)")
    add("--learning-rate", type=float, default=3e-4, help="learning rate after the warm-up (%(default)s)")
    add("--warmup-steps", type=arguments.between(0, arguments.MAX_VALUE), default=100,
        help="steps in which the learning rate rises to it (%(default)s)")  # fmt: skip
    add("--epochs", type=arguments.at_least_one, default=1, help="number of epochs (%(default)s)")
    add("--checkpoint-freq", type=arguments.at_least_one, default=500, metavar="STEPS",
        help="steps between checkpoints (%(default)s)")  # fmt: skip
    add("--keep", type=arguments.at_least_one, default=3, help="checkpoints to keep (%(default)s)")
    add(
        "--log-freq",
        type=arguments.at_least_one,
        default=10,
        metavar="STEPS",
        help="steps between metrics (%(default)s)",
    )
    add("--distributed-backend", choices=sorted(ranks.BACKENDS),
        default="nccl" if torch.cuda.is_available() else "gloo",
        help="backend of torch.distributed (%(default)s here)")  # fmt: skip
    add("--workers", type=arguments.between(0, arguments.WORKERS_MOST), default=2,
        help="loader processes of each rank (%(default)s)")  # fmt: skip
    add("--shuffle-buffer", type=arguments.at_least_one, default=10_000, help="samples shuffled together (%(default)s)")
    add("--cache-dir", default="", help="folder on the local NVMe where shards are kept")
    add("--on-corrupt", choices=("raise", "skip"), default="raise", help="action for a corrupt shard (%(default)s)")
    add("--seed", type=int, default=0, help="seed of the weights and of the order of the samples (%(default)s)")
    add("--width", type=arguments.at_least_one, default=128, help="width of the model (%(default)s)")
    add("--layers", type=arguments.at_least_one, default=2, help="layers of the model (%(default)s)")
    add("--heads", type=arguments.at_least_one, default=4, help="attention heads of the model (%(default)s)")
    add("--reshard", action="store_true",
        help="continue with other ranks, workers, batches or shards, from the start of the epoch")  # fmt: skip
    add("--record-samples", action="store_true",
        help="write the names of all samples to MODEL-samples-RANK.jsonl in --log-dir")  # fmt: skip


def open_batches(args: argparse.Namespace) -> loader.Loader:
    """Return this rank's batches. Raises DataError, S3Error."""
    return loader.make_loader(
        loader.LoaderConfig(
            args.data_dir,
            batch_size=args.batch_size,
            workers=args.workers,
            seed=args.seed,
            buffer=args.shuffle_buffer,
            cache=args.cache_dir,
            on_corrupt=args.on_corrupt,
        )
    )


def model_config(args: argparse.Namespace, dataset: loader.Dataset) -> ModelConfig:
    """Return the model's sizes; tokens and positions are those of the dataset."""
    return ModelConfig(max(dataset.vocabulary, dataset.pad + 1), dataset.length, args.width, args.layers, args.heads)


def open_board(folder: Path, step: int) -> trainer.Board:
    """Return TensorBoard's writer; events after ``step``, of a killed run, are hidden. Raises DataError."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as exc:
        raise DataError(
            "--tensorboard-dir needs the Python package tensorboard: install it, or leave that out"
        ) from exc
    return t.cast("trainer.Board", SummaryWriter(str(folder), purge_step=step + 1))


def _journals(args: argparse.Namespace, rank: int) -> tuple[Journal | None, Journal | None]:
    if args.record_samples and not args.log_dir:
        raise DataError("--record-samples needs --log-dir: set it to the directory for the names")
    if not args.log_dir:
        return None, None
    metrics = Journal(args.log_dir / f"{args.model_name}-metrics.jsonl") if rank == 0 else None
    record = Journal(args.log_dir / f"{args.model_name}-samples-{rank:05d}.jsonl") if args.record_samples else None
    return metrics, record


def _make_folders(args: argparse.Namespace) -> None:
    """Create the output folders before hours of work. Raises DataError."""
    for name in ("log_dir", "output_dir", "tensorboard_dir"):
        folder = getattr(args, name)
        try:
            if folder:
                durable.make_directory(folder)
        except OSError as exc:
            option = f"--{name.replace('_', '-')}"
            raise DataError(f"{folder} cannot be made ({exc.strerror}): choose another {option}") from exc


@contextlib.contextmanager
def _only_of_its_name(args: argparse.Namespace) -> t.Iterator[None]:
    """Lock the output folders for this model: a resumed training truncates files, also those of another training.

    Raises DataError.
    """
    given = (args.log_dir, args.output_dir, args.tensorboard_dir)
    with contextlib.ExitStack() as held:
        for folder in sorted({folder.resolve() for folder in given if folder}):
            lock = Lock(folder, name=f"{TRAIN_NAME}.{args.model_name}")
            try:
                lock.acquire()
            except LockedError as exc:
                raise DataError(f"{exc}, or another --model-name") from exc
            except OSError as exc:
                raise DataError(f"{folder} cannot be written ({durable.reason(exc)}): choose another folder") from exc
            held.callback(lock.release)
        yield


def train(args: argparse.Namespace, device: torch.device, stop: ranks.StopRequest) -> int:
    """Train on this rank; return the exit status. Raises DataError."""
    if dist.get_rank():
        # Only the first rank reads the shared file in each step, and the others learn the result from it.
        stop.file = None
    with contextlib.ExitStack() as held:
        batches, network, journals = ranks.together(lambda: _begin(args, device, held))
        return _train(args, batches, network, journals, stop)


def _begin(
    args: argparse.Namespace, device: torch.device, held: contextlib.ExitStack
) -> tuple[loader.Loader, Model, tuple[Journal | None, Journal | None]]:
    """Return the objects that each rank creates by itself."""
    _make_folders(args)
    if dist.get_rank() == 0:
        held.enter_context(_only_of_its_name(args))
    batches = open_batches(args)
    torch.manual_seed(args.seed)
    network = Model(model_config(args, batches.dataset)).to(device)
    return batches, network, _journals(args, dist.get_rank())


def _train(
    args: argparse.Namespace, batches: loader.Loader, network: Model,
    journals: tuple[Journal | None, Journal | None], stop: ranks.StopRequest,
) -> int:  # fmt: skip
    rank = dist.get_rank()
    metrics, record = journals
    plan = trainer.Plan(
        args.epochs, args.learning_rate, args.warmup_steps, args.checkpoint_freq, args.log_freq, args.reshard
    )
    checkpointer = Checkpointer(store_at(args.checkpoint_dir), args.local_dir, keep=args.keep)
    try:
        work = trainer.Trainer(plan, network, batches, checkpointer, stop, metrics=metrics, record=record,
                               step_file=step_times.file_of(os.environ))  # fmt: skip
        step = work.resume()
        if rank == 0:
            LOGGER.info("%s: %s at step %d, %d ranks", args.model_name, "continues" if step else "begins", step,
                        dist.get_world_size())  # fmt: skip
            if args.tensorboard_dir:
                work.board = open_board(args.tensorboard_dir, step)
        finished = work.run()
    finally:
        checkpointer.close()
    if not finished:
        LOGGER.info("rank %d: saved and ends at step %d, as requested", rank, work.position.step)
        return ASKED_TO_STOP
    if rank == 0:
        LOGGER.info("%s", end_of_run(args.model_name, step, work.position.step, args.epochs))
    if rank == 0 and args.output_dir:
        trainer.write_result(args.output_dir / f"{args.model_name}.pt", network)
    return PASS


def end_of_run(name: str, first: int, last: int, epochs: int) -> str:
    """Return the last line of a finished run from step ``first`` to ``last``."""
    outcome = "finished" if last > first else "had finished before, and nothing was trained,"
    return f"{name}: {outcome} at step {last}, the end of --epochs {epochs}"


def run(args: argparse.Namespace) -> int:
    """Run the verb and return its exit status."""
    if not args.checkpoint_dir:
        raise DataError(
            "no --checkpoint-dir is given and MLCLUSTER_CHECKPOINTS is not set: set one to the directory of checkpoints"
        )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    request = os.environ.get("MLCLUSTER_CHECKPOINT_REQUEST")
    # Before anything that takes time, so that an early request takes effect at the first step.
    stop = ranks.StopRequest(Path(request) if request else None)
    try:
        with ranks.joined(args.distributed_backend) as device:
            return train(args, device, stop)
    except RuntimeError as exc:
        # torch raises this anywhere, because it comes from the signal of an ended process.
        if not str(exc).startswith("DataLoader worker"):
            raise
        raise DataError(
            f"a process of the loader was ended ({exc}), most likely for lack of memory: request more with --mem, or "
            "fewer workers with --workers"
        ) from exc
