# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python data_methods.py METHOD ...``, run by bench_data with the environment of the data programs.

The plain method is what people write first and what the design's sources show: one loop over the lines of a file, each
encoded by itself, one JSON and one text file a sample in the tar; a webdataset pipeline that decodes both, and a
collator that pads one sample after the other. It has the arguments that current webdataset wants, and no other change.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

# More than so many MB are these several times: no word is new by then, and making text takes longer than reading it.
UNIQUE_MB = 100


def prepare(folder: Path, megabytes: int) -> None:
    """A corpus of so many MB, one document a line, and a tokenizer trained on the first of it."""
    from tests.data.support import sample_corpus as corpus

    text, size, seed, unique = folder / "raw" / "text.txt", 0, 0, min(megabytes, UNIQUE_MB) << 20
    text.parent.mkdir()
    with open(text, "w", encoding="utf-8") as file:
        while size < unique:
            seed += 1
            for document in corpus.documents(1000, seed, 40_000):
                line = document.replace("\n", " ") + "\n"
                size += file.write(line)
                if size >= unique:
                    break
    part = text.read_bytes()
    with open(text, "ab") as file:
        for _round in range((megabytes << 20) // unique - 1):
            file.write(part)
    corpus.tokenizer(folder / "tokenizer", corpus.documents(2000, 1, 40_000), 16_000)


def encode_plainly(source: Path, target: Path, tokenizer: Path) -> int:
    """Return the tokens that were written to one shard."""
    import webdataset
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    total = 0
    with webdataset.TarWriter(str(target)) as sink, open(source, encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            text = line.strip()
            if not text:
                continue
            ids = encoder.encode(text).ids
            total += len(ids)
            sink.write({"__key__": f"sample_{number:08d}", "token_ids.json": ids, "text.txt": text})
    return total


def read_plainly(shards: list[str], batch: int, workers: int) -> tuple[int, int]:
    """Samples and labels that came out of an epoch."""
    import torch
    import webdataset
    from torch.utils.data import DataLoader

    def collate(samples: list[dict]) -> dict:
        rows = [torch.tensor(sample["input_ids"]) for sample in samples]
        tokens = torch.full((len(rows), max(map(len, rows))), 0)
        mask = torch.zeros_like(tokens)
        for at, row in enumerate(rows):
            tokens[at, : len(row)] = row
            mask[at, : len(row)] = 1
        return {"input_ids": tokens, "attention_mask": mask, "labels": tokens.masked_fill(tokens == 0, -100)}

    dataset = (
        webdataset.WebDataset(shards, nodesplitter=webdataset.split_by_node, shardshuffle=False)
        .shuffle(1000)
        .decode()
        .rename(input_ids="token_ids.json")
        .map(lambda sample: {"input_ids": sample["input_ids"]})
    )
    seen = labels = 0
    for found in DataLoader(dataset, batch_size=batch, num_workers=workers, collate_fn=collate):
        seen += len(found["input_ids"])
        labels += int((found["labels"] != -100).sum())
    return seen, labels


def read_ours(shards: str, batch: int, workers: int) -> tuple[int, int]:
    """Samples and labels that came out of an epoch."""
    from mlcluster_data.loading.loader import LoaderConfig, make_loader

    seen = labels = 0
    for found in make_loader(LoaderConfig(shards, batch, workers=workers, buffer=1000)):
        seen += int((found["ids"] >= 0).sum())
        labels += int((found["labels"] != -100).sum())
    return seen, labels


def timed(kind: str, where: str, batch: int, workers: int) -> dict[str, float]:
    """Return one epoch: samples, labels, seconds of this process and of the clock."""
    import torch

    torch.set_num_threads(1)
    if kind == "plain":
        shards = sorted(str(path) for path in Path(where).glob("*.tar"))
        read_plainly(shards[:1], batch, 0)
    else:
        read_ours(where, batch, 0)
    cpu, clock = time.process_time(), time.monotonic()
    seen, labels = read_plainly(shards, batch, workers) if kind == "plain" else read_ours(where, batch, workers)
    return {
        "samples": seen,
        "labels": labels,
        "cpu": time.process_time() - cpu,
        "seconds": time.monotonic() - clock,
    }


def waits(where: str, batch: int, workers: int, step_ms: float, batches: int) -> dict[str, float]:
    """Return how long a trainer whose steps take ``step_ms`` waits for batches.

    Seconds for the first batch; milliseconds for the next ones, the mean and the 99th percentile.
    """
    from mlcluster_data.loading.loader import LoaderConfig, make_loader

    begin = time.monotonic()
    loader = iter(make_loader(LoaderConfig(where, batch, workers=workers, buffer=1000)))
    next(loader)
    first = time.monotonic() - begin
    spent = []
    for _step in range(batches):
        time.sleep(step_ms / 1000)
        begin = time.monotonic()
        next(loader)
        spent.append((time.monotonic() - begin) * 1000)
    return {
        "first_seconds": round(first, 2),
        "mean_ms": round(sum(spent) / batches, 2),
        "p99_ms": round(sorted(spent)[batches * 99 // 100], 2),
    }


def main(arguments: list[str]) -> None:
    """Print what the method came to, as JSON."""
    method, *rest = arguments
    if method == "prepare":
        prepare(Path(rest[0]), int(rest[1]))
    elif method == "encode":
        print(json.dumps({"tokens": encode_plainly(*map(Path, rest))}))
    elif method == "waits":
        where, *numbers = rest
        print(json.dumps(waits(where, *map(int, numbers))))
    else:
        kind, where, batch, workers = rest
        print(json.dumps(timed(kind, where, int(batch), int(workers))))


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    main(sys.argv[1:])
