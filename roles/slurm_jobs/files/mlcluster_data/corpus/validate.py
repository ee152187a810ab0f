# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a folder of inputs or shards with its manifest: number of files, sizes, SHA-256, UTF-8, documents or samples;
a few documents are shown. Needs the standard library only. The exit status is 0 if everything is proved, 1 if
something is wrong, 2 if that cannot be determined (no manifest).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import os
import random
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..cli import arguments, verdicts
from ..errors import DataError
from ..files import durable
from . import manifest
from .text import LINE_MOST, Bad, lines_of, text_of

SAMPLE_CHARACTERS = 200
PROBLEMS_SHOWN = 5
Result = dict[str, Any]


def check_files(folder: Path, files: Iterable[manifest.Input | manifest.Shard]) -> list[str]:
    """Return the problems of names and sizes, without reading the files."""
    problems = []
    for file in files:
        path = folder / file.name
        if not durable.is_plain(path):
            problems.append(f"{file.name} is missing")
        elif path.stat().st_size != file.bytes:
            problems.append(f"{file.name} has {path.stat().st_size} bytes, not {file.bytes}")
    return problems


def check_input(folder: Path, file: manifest.Input) -> list[str]:
    """Return the problems of one input's content: hash, encoding, documents."""
    path, digest, documents = folder / file.name, hashlib.sha256(), 0
    problems: list[str] = []
    try:
        with open(path, "rb") as stream:
            while raw := stream.readline(LINE_MOST):
                digest.update(raw)
                documents += 1
                where = f"{file.name}: line {documents}"
                try:
                    text_of(Bad().line(where, raw) or "", where)
                except DataError as exc:
                    problems.append(str(exc).partition(": repair the file")[0])
    except OSError as exc:
        return [f"{file.name} cannot be read: {exc.strerror}"]
    if documents != file.documents:
        problems.append(f"{file.name} holds {documents} documents, not {file.documents}")
    if digest.hexdigest() != file.sha256:
        problems.append(f"{file.name} has another SHA-256 than the manifest lists")
    return problems


def check_shard(folder: Path, file: manifest.Shard) -> list[str]:
    """Return the problems of one shard's content: hash, and whether it is a complete tar."""
    digest = hashlib.sha256()
    try:
        with open(folder / file.name, "rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
        if digest.hexdigest() != file.sha256:
            return [f"{file.name} has another SHA-256 than the manifest lists"]
        with tarfile.open(folder / file.name, "r:") as tar:
            return [] if tar.getmembers() else [f"{file.name} is a tar without samples"]
    except (OSError, tarfile.TarError) as exc:
        return [f"{file.name} cannot be read: {exc}"]


def sample(folder: Path, files: list[manifest.Input], seed: int) -> list[dict[str, str]]:
    """Return a few documents, one of each of up to three inputs: the line after a place chosen by ``seed``."""
    rng = random.Random(seed)  # noqa: S311 - a choice, no secret
    found = []
    for file in rng.sample(files, min(3, len(files))):
        with open(folder / file.name, "rb") as stream:
            stream.seek(rng.randrange(max(1, file.bytes)))
            stream.readline()
            if not (raw := stream.readline()):
                stream.seek(0)
                raw = stream.readline()
        text = text_of(raw.decode("utf-8"), file.name)
        found.append({"input": file.name, "text": text[:SAMPLE_CHARACTERS]})
    return found


def judged(name: str, problems: list[str], found: Any, good: str) -> Result:
    """Return the verdict on a list of problems."""
    if not problems:
        return verdicts.verdict(name, "pass", good, found=found)
    more = f" and {len(problems) - PROBLEMS_SHOWN} more" if len(problems) > PROBLEMS_SHOWN else ""
    return verdicts.verdict(
        name,
        "fail",
        "; ".join(problems[:PROBLEMS_SHOWN]) + more,
        expected=0,
        found=len(problems),
        unit="problems",
        hint="make the named files again",
    )


def each(function: Callable[[Path, Any], list[str]], folder: Path, files: list[Any], jobs: int) -> list[str]:
    """Return the problems of all files, several files read at a time, in the order of the files."""
    if jobs == 1 or len(files) < 2:
        return [problem for file in files for problem in function(folder, file)]
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        return [problem for found in pool.map(function, [folder] * len(files), files) for problem in found]


def chosen(folder: Path, files: list[Any], part: bool) -> list[Any]:
    """Return the files to judge: all, or those that exist in a folder with a part. Raises DataError for none."""
    found = [file for file in files if not part or durable.exists(folder / file.name)]
    if part and files and not found:
        raise DataError(f"{folder} has none of the {len(files)} files in its manifest: name at least one of them")
    return found


def validate_inputs(folder: Path, seed: int = 0, jobs: int = 1, part: bool = False) -> list[Result]:
    """Return the verdicts ``data.files``, ``data.content`` and ``data.sample`` of a folder of inputs.

    Raises DataError.
    """
    name = str(folder / manifest.INPUTS)
    content = manifest.parse(durable.read(folder / manifest.INPUTS), name, manifest.INPUTS_SCHEMA)
    files = manifest.entries(manifest.Input, content, "files", name)
    listed = {file.name for file in files}
    strange = sorted(path.name for path in folder.glob("*.jsonl") if path.name not in listed)
    files = chosen(folder, files, part)
    problems = check_files(folder, files) + [f"{path} is not in the manifest" for path in strange]
    results = [judged("data.files", problems, len(files), f"{len(files)} inputs of the sizes in the manifest")]
    if problems:
        return results
    problems = each(check_input, folder, files, jobs)
    total = sum(file.documents for file in files)
    results.append(judged("data.content", problems, total, f"{total} documents, UTF-8 and SHA-256 right"))
    if not problems:
        texts = sample(folder, files, seed)
        quoted_texts = " | ".join(f"{text['input']}: {text['text']!r}" for text in texts)
        results.append(verdicts.verdict("data.sample", "pass", quoted_texts, found=texts))
    return results


def validate_shards(folder: Path, jobs: int = 1, part: bool = False) -> list[Result]:
    """Return the verdicts ``data.files`` and ``data.content`` on a folder of shards. Raises DataError."""
    name = str(folder / manifest.DATASET)
    content = manifest.parse(durable.read(folder / manifest.DATASET), name, manifest.DATASET_SCHEMA)
    files = manifest.entries(manifest.Shard, content, "shards", name)
    listed = {file.name for file in files}
    strange = sorted(path.name for path in folder.glob("*.tar") if path.name not in listed)
    problems = [f"{path} is not in the manifest" for path in strange]
    for total, field in (("samples", "samples"), ("tokens", "tokens"), ("documents", "documents")):
        counted = sum(getattr(file, field) for file in files)
        if content.get(total) != counted:
            problems.append(f"{manifest.DATASET} lists {content.get(total)} {total}, its shards add up to {counted}")
    files = chosen(folder, files, part)
    problems = check_files(folder, files) + problems
    results = [judged("data.files", problems, len(files), f"{len(files)} shards of the sizes in the manifest")]
    if not problems:
        problems = each(check_shard, folder, files, jobs)
        samples, tokens = (sum(getattr(file, field) for file in files) for field in ("samples", "tokens"))
        good = f"{samples} samples, {tokens} tokens, SHA-256 right"
        results.append(judged("data.content", problems, samples, good))
    return results


def validate(folder: Path, seed: int = 0, jobs: int = 1, part: bool = False) -> list[Result]:
    """Return the verdicts on a folder, whichever kind it is; undeterminable without a manifest. Raises DataError."""
    if durable.exists(folder / manifest.DATASET):
        return validate_shards(folder, jobs, part)
    if durable.exists(folder / manifest.INPUTS):
        return validate_inputs(folder, seed, jobs, part)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder: use one with inputs or shards")
    texts = sorted(path for path in folder.iterdir() if path.suffix in (".jsonl", ".txt") and path.is_file())
    problems = each(check_text, folder, texts, jobs)
    if problems:
        return [judged("data.content", problems, None, "")]
    return [
        verdicts.verdict(
            "data.files",
            "undeterminable",
            f"{folder} has {len(texts)} readable text files and no manifest to compare them with",
            found=len(texts),
            reason="no_manifest",
            hint="make the folder with collect or preprocess",
        )
    ]


def check_text(folder: Path, path: Path) -> list[str]:
    """Return the problems of a text file without a manifest: its encoding, or that it is empty."""
    try:
        with open(path, "rb") as stream:
            found = sum(1 for _line in lines_of(stream, path.name, Bad()))
        return [] if found else [f"{path.name} is empty"]
    except DataError as exc:
        return [str(exc).partition(": repair the file")[0]]
    except OSError as exc:
        return [f"{path.name} cannot be read: {exc.strerror}"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("folder", type=arguments.path, help="folder with inputs or shards")
    parser.add_argument("--json", action="store_true", help="print a mlcluster.report/1")
    parser.add_argument("--part", action="store_true", help="the folder has a part only: check the existing files")
    parser.add_argument("--seed", type=int, default=0, help="which documents are shown (0)")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=arguments.workers, default=cores, help="files read at a time (cores)")


def run(args: argparse.Namespace) -> int:
    """Judge the folder, print the verdicts."""
    results = validate(args.folder, args.seed, args.jobs, args.part)
    verdicts.show(results, args.json)
    return verdicts.exit_status(results)
