# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generated text with natural word frequencies (few frequent words, many rare ones), and a tokenizer trained on it."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

END, PAD = "<|end|>", "<|pad|>"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def words(count: int, seed: int = 1) -> list[str]:
    """Return random words of 2 to 10 letters."""
    rng = random.Random(seed)
    return ["".join(rng.choices(LETTERS, k=rng.randint(2, 10))) for _word in range(count)]


def documents(count: int, seed: int = 2, vocabulary: int = 2000) -> list[str]:
    """Return documents of 1 to 60 sentences, with word frequencies as in natural text (Zipf)."""
    rng = random.Random(seed)
    known = words(vocabulary)
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(vocabulary)))
    found = []
    for _document in range(count):
        sentences = [
            " ".join(rng.choices(known, cum_weights=weights, k=rng.randint(3, 20))).capitalize() + rng.choice(".?!")
            for _sentence in range(rng.randint(1, 12))
        ]
        found.append(rng.choice((" ", "\n")).join(sentences))
    return found


def tokenizer(folder: Path, texts: list[str], size: int = 1000) -> Path:
    """Train a byte-level BPE tokenizer and write it into a folder in the format of models."""
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    found.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    found.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, "pad_token": {"content": PAD}}))
    return folder
