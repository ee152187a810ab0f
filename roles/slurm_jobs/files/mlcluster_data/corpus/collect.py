# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources are text files (.txt, .md, .jsonl, each also with .gz), folders of them, or hf:NAME[:CONFIG[:SPLIT]] for the
datasets library if it is installed. Documents are not divided. Each input is a file of JSON lines, one document a
line. Each document goes to the input that is the shortest so far, so that all get similar sizes. inputs.json is
written last.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import heapq
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..cli import arguments
from ..cli.progress import Progress, amount
from ..errors import PASS, DataError
from ..files import durable
from ..files.durable import Directory
from ..locks.directory import DirectoryLock
from . import manifest
from .text import ON_BAD, Bad, Division, read_documents, text_files

# Each input is an open file; the usual limit of a process is 1024.
INPUTS_MOST = 900
ASIDE = ".collect."
# As Directory.private() makes one. A folder of another name, such as .collect.old, belongs to another program.
_ASIDE = re.compile(re.escape(ASIDE) + r"[0-9a-f]{16}")
# In the folder for the temporary files: the SHA-256 of each input, by name, from before the first of them has its name.
NAMES = "names.json"
_INPUT = re.compile(r"input-\d{5}\.jsonl")


def datasets_documents(source: str, division: Division, field: str) -> Iterator[str]:
    """Documents of a dataset of the datasets library, streamed. Raises DataError.

    Each row is one document. With a division by headings or empty lines, the rows are the lines of one long file, as in
    wikitext.
    """
    try:
        import datasets
    except ImportError as exc:
        raise DataError(f"{source} needs the Python package datasets, which is not installed: install it") from exc
    name, config, split = [*source.split(":")[1:], "", ""][:3]
    try:
        rows = datasets.load_dataset(name, config or None, split=split or "train", streaming=True)
        texts = (row[field] for row in rows)
        if division.kind in ("heading", "blank"):
            # A blank before the end of a line is part of wikitext's headings.
            yield from division.documents("{}\n".format(text.rstrip("\r\n")) for text in texts)
        else:
            yield from (text for text in texts if text.strip())
    except KeyError as exc:
        raise DataError(f"{source} has no column {exc}: set --field to the one with the text") from exc
    except (OSError, ValueError) as exc:
        first = str(exc).strip().partition("\n")[0] or type(exc).__name__
        raise DataError(f"{source} cannot be loaded ({first}): check its name, the network and HF_TOKEN") from exc


def names_of(count: int) -> list[str]:
    """Return the names of so many inputs."""
    return [f"input-{number:05d}.jsonl" for number in range(count)]


class Splitter:
    """N unfinished input files, which ``publish`` renames to their names together. Raises OSError, DataError."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.names = names_of(count)
        self.sums = [hashlib.sha256() for _name in self.names]
        self.sizes = [0] * count
        self.documents = [0] * count
        self._shortest = [(0, at) for at in range(count)]
        self._open = contextlib.ExitStack()
        self._here = self._open.enter_context(Directory.open(folder))
        self._aside = self._open.enter_context(self._here.private(ASIDE))
        self._making = contextlib.ExitStack()
        self._files = [self._making.enter_context(self._aside.new(name)) for name in self.names]

    def add(self, text: str) -> None:
        """Add a document to the input that is the shortest so far; its id is that input and its number in it."""
        at = self._shortest[0][1]
        line = json.dumps({"id": f"{at}-{self.documents[at]}", "text": text}, ensure_ascii=False).encode() + b"\n"
        self._files[at].write(line)
        self.sums[at].update(line)
        self.sizes[at] += len(line)
        self.documents[at] += 1
        heapq.heapreplace(self._shortest, (self.sizes[at], at))

    def publish(self, about: dict[str, Any]) -> dict[str, Any]:
        """Sync the files, give them their names, write the manifest; returns it. Raises FileExistsError."""
        self._making.close()
        sums = {name: digest.hexdigest() for name, digest in zip(self.names, self.sums)}
        self._aside.write(NAMES, json.dumps(sums).encode())
        # After a power failure, an input that is in no such list would count as a file of another program.
        self._here.sync()
        for name in self.names:
            self._aside.move(name, name, self._here)
        self._here.sync()
        files = [
            manifest.Input(name, documents, size, digest.hexdigest())
            for name, documents, size, digest in zip(self.names, self.documents, self.sizes, self.sums)
        ]
        content = {"schema": manifest.INPUTS_SCHEMA, "files": manifest.rows(files), **about}
        self._here.write(manifest.INPUTS, manifest.dump(content))
        self._open.close()
        durable.remove_tree(self._aside.path)
        return content

    def abandon(self) -> None:
        """Remove all unfinished files."""
        with contextlib.suppress(OSError):
            self._making.close()
        with contextlib.suppress(OSError):
            self._open.close()
        remove_aside(self.folder)


def remove_aside(folder: Path) -> None:
    """Remove the temporary files of killed runs, and inputs without a manifest that such a run had named already.

    Links of such names are kept, folders of other users and programs, and inputs of another content.
    """
    for aside in folder.iterdir():
        if not _ASIDE.fullmatch(aside.name):
            continue
        state = aside.lstat()
        if stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid():
            if not durable.exists(folder / manifest.INPUTS):
                _remove_named(folder, aside)
            durable.remove_tree(aside)


def _remove_named(folder: Path, aside: Path) -> None:
    with Directory.open(folder) as directory, directory.below(aside.name) as place:
        # Another user could name any file here.
        if os.fstat(place.descriptor).st_uid != os.geteuid() or not place.is_plain(NAMES):
            return
        for name, digest in json.loads(place.read(NAMES)).items():
            if _INPUT.fullmatch(name) and directory.is_plain(name) and directory.digest(name).sha256 == digest:
                directory.remove(name)
        directory.sync()


def refuse_taken(folder: Path, names: Iterable[str]) -> None:
    """Raise DataError for the first name of an input that something has already."""
    for name in names:
        if durable.state(folder / name):
            raise DataError(
                f"{folder / name} is there already and no run of collect made it: choose another folder, or move it "
                "away"
            )


def sources_of(texts: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the files and the datasets that are named, the files sorted within a folder. Raises DataError."""
    return text_files(Path(text) for text in texts if not text.startswith("hf:")), [
        text for text in texts if text.startswith("hf:")
    ]


def documents_of(
    files: Iterable[Path], sets: Iterable[str], division: Division, bad: Bad, field: str, progress: Progress
) -> Iterator[str]:
    """Yield every document of every source, in the given order; empty files are reported. Raises DataError."""
    for file in files:
        found, skipped = False, bad.skipped
        for text in read_documents(file, division, bad, field):
            found = True
            yield text
        if not found and bad.skipped == skipped:
            bad.document(f"{file} holds no document")
        progress.advance(file.stat().st_size)
    for name in sets:
        yield from datasets_documents(name, division, field)


def split(documents: Iterable[str], folder: Path, count: int, about: dict[str, Any]) -> dict[str, Any]:
    """Divide documents into ``count`` inputs of ``folder`` and return the manifest; the folder never has a part.

    Raises DataError if there are fewer documents than inputs, if the folder already has inputs, if another process
    writes there, or if the disk is full.
    """
    lock = DirectoryLock(folder)
    try:
        durable.make_directory(folder)
        lock.acquire()
    except OSError as exc:
        raise DataError(f"{folder} cannot be used ({durable.reason(exc)}): use a folder that can be written") from exc
    try:
        if durable.exists(folder / manifest.INPUTS):
            raise DataError(f"{folder} holds inputs already ({manifest.INPUTS}): remove them, or choose another folder")
        remove_aside(folder)
        refuse_taken(folder, names_of(count))
        splitter = Splitter(folder, count)
        try:
            for text in documents:
                splitter.add(text)
            if min(splitter.documents) == 0:
                raise DataError(
                    f"{sum(splitter.documents)} documents cannot fill {count} inputs: request fewer with --inputs, or "
                    "divide the text more finely with --document"
                )
            return splitter.publish(about)
        except BaseException:
            splitter.abandon()
            raise
    except OSError as exc:
        raise DataError(f"{folder} could not be written ({durable.reason(exc)}): make room or choose another") from exc
    finally:
        lock.release()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("source", nargs="+", type=arguments.place, help="file, folder, or hf:NAME[:CONFIG[:SPLIT]]")
    parser.add_argument("--output", type=arguments.path, required=True, help="folder for the inputs")
    parser.add_argument(
        "--inputs", type=arguments.between(1, INPUTS_MOST), default=10, help="how many inputs to make (10)"
    )
    parser.add_argument(
        "--document", choices=("file", "line", "blank", "heading"), default="file", help="what ends a document (file)"
    )
    parser.add_argument("--boundary", default="", help="pattern of the lines that begin a document, for heading")
    parser.add_argument("--field", default="text", help="field or column with the text (text)")
    parser.add_argument("--on-bad", choices=ON_BAD, default="fail", help="policy for text that is not UTF-8 (fail)")


def run(args: argparse.Namespace) -> int:
    """Collect, and print the result."""
    division, bad = Division(args.document, args.boundary), Bad(args.on_bad)
    files, sets = sources_of(args.source)
    # Unlike Path.resolve(), it does not raise for a link that leads to itself.
    output = os.path.realpath(args.output)
    if inside := [file for file in files if os.path.dirname(os.path.realpath(file)) == output]:
        raise DataError(
            f"{inside[0]} is in the folder for the inputs, where a file of its name would be replaced: choose "
            "another --output"
        )
    about = {"sources": args.source, "document": args.document, "boundary": args.boundary}
    with Progress("collect", sum(file.stat().st_size for file in files)) as progress:
        documents = documents_of(files, sets, division, bad, args.field, progress)
        content = split(documents, args.output, args.inputs, about)
    total = sum(row["documents"] for row in content["files"])
    size = sum(row["bytes"] for row in content["files"])
    print(f"{args.output}: {len(content['files'])} inputs, {total} documents, {amount(size)}B", end="")
    print(f", {bad.skipped} left out, {bad.replaced} mended" if bad.skipped or bad.replaced else "")
    return PASS
