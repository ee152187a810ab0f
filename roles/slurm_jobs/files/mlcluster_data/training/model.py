# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small decoder-only transformer for the training job."""

from __future__ import annotations

import dataclasses
import os

import torch
from torch import nn
from torch.nn import functional

from ..cli.progress import amount
from ..errors import DataError

# The label of tokens without loss, such as padding (torch's default ignore_index).
IGNORED = -100
# Deeper than any real model; each layer costs objects, however narrow it is.
LAYERS_MOST = 10_000


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Sizes: vocabulary, maximum positions, width, layers, heads. Raises DataError for sizes that do not fit."""

    vocabulary: int
    length: int
    width: int = 64
    layers: int = 2
    heads: int = 2

    def __post_init__(self) -> None:
        small = [field.name for field in dataclasses.fields(self) if getattr(self, field.name) < 1]
        if small:
            raise DataError(f"the model's {', '.join(small)} must be 1 or more")
        if self.width % self.heads:
            raise DataError(f"a width of {self.width} cannot be divided among {self.heads} heads: choose a multiple")
        if self.layers > LAYERS_MOST:
            raise DataError(f"the model's layers are {self.layers}: choose at most {LAYERS_MOST}")
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if 4 * self.weights > memory:
            raise DataError(
                f"the model has {amount(self.weights)} weights, which are {amount(4 * self.weights)}B, and this node "
                f"has {amount(memory)}B of memory: choose a smaller width or fewer layers"
            )

    @property
    def weights(self) -> int:
        """The number of weights, without the few of norms and biases."""
        return (self.vocabulary + self.length) * self.width + self.layers * 12 * self.width**2


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each with a normalised input and a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.before_attention = nn.LayerNorm(config.width)
        self.attention_in = nn.Linear(config.width, 3 * config.width)
        self.attention_out = nn.Linear(config.width, config.width)
        self.before_feed = nn.LayerNorm(config.width)
        self.feed = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width)
        )

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the same shape as ``hidden``, float [batch, positions, width]."""
        batch, positions, width = hidden.shape
        mixed = self.attention_in(self.before_attention(hidden))
        query, key, value = mixed.view(batch, positions, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.attention_out(seen.transpose(1, 2).reshape(batch, positions, width))
        return hidden + self.feed(self.before_feed(hidden))


class Model(nn.Module):
    """A model from token ids to logits; input and output embedding share their weights."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.length, config.width)
        self.blocks = nn.ModuleList(Block(config) for _number in range(config.layers))
        self.final = nn.LayerNorm(config.width)
        for parameter in (self.tokens.weight, self.positions.weight):
            nn.init.normal_(parameter, std=0.02)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of ``input_ids`` (int64 [batch, positions]), float [batch, positions, vocabulary].

        Padding on the right does not influence earlier positions, since attention is causal.
        """
        where = torch.arange(input_ids.shape[1], device=input_ids.device)
        hidden = self.tokens(input_ids) + self.positions(where)
        for block in self.blocks:
            hidden = block(hidden)
        return functional.linear(self.final(hidden), self.tokens.weight)


def loss_sum(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the sum of the cross-entropy in nats (a scalar) over all positions that have a next token to learn.

    ``logits``: float [batch, positions, vocabulary]. ``labels``: int64 [batch, positions], the token at each position,
    or -100; position n is compared with label n + 1.
    """
    flat = logits[:, :-1].reshape(-1, logits.shape[-1])
    return functional.cross_entropy(flat.float(), labels[:, 1:].reshape(-1), ignore_index=IGNORED, reduction="sum")


def learnt(labels: torch.Tensor) -> int:
    """Return the number of positions that loss_sum() adds up."""
    return int((labels[:, 1:] != IGNORED).sum())
