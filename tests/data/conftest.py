# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: a small corpus for all tests, with documents, tokenizer, inputs, and their shards; what is synced."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.corpus.collect import split

from tests.data.support import sample_corpus as corpus
from tests.data.support.programs import Preprocess


@pytest.fixture(scope="session")
def texts():
    return corpus.documents(120)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory, texts):
    """Return a folder with tokenizer.json."""
    return corpus.tokenizer(tmp_path_factory.mktemp("tokenizer"), texts)


@pytest.fixture(scope="session")
def inputs(tmp_path_factory, texts):
    """Return a folder with three inputs."""
    folder = tmp_path_factory.mktemp("inputs")
    split(texts, folder, 3, {})
    return folder


@pytest.fixture(scope="session")
def preprocess(tokenizer):
    """Return ``preprocess(inputs, output, "--option", …)``, which runs the command and returns its exit status."""

    def run(source: Path, output, *options: str) -> int:
        common = ("--input", str(source), "--output", str(output), "--tokenizer", str(tokenizer))
        small = () if "--length" in options else ("--length", "32")
        return command.main(["preprocess", *common, *small, "--processes", "1", "--shard-tokens", "800", *options])

    return run


@pytest.fixture(scope="session")
def shards(tmp_path_factory, inputs, preprocess):
    """Return a finished data set: its folder and the content of its manifest."""
    folder = tmp_path_factory.mktemp("shards")
    assert preprocess(inputs, folder) == 0
    return SimpleNamespace(path=folder, **json.loads((folder / "manifest.json").read_text()))


@pytest.fixture
def few(tmp_path_factory, texts, tokenizer):
    """Return two small inputs, the tokenizer, and the shards of these inputs."""
    folder = tmp_path_factory.mktemp("few")
    split(texts[:30], folder / "inputs", 2, {})
    about = (folder / "inputs", tokenizer, {})
    assert Preprocess(about)._run(folder) == 0
    return (*about[:2], Preprocess._contents(folder / "out"))


@pytest.fixture
def synced(monkeypatch):
    """Return the synced files and directories in their order, each with what it held then: a size, or the names."""
    found = []
    sync = os.fsync

    def watched(descriptor):
        state = os.fstat(descriptor)
        held = sorted(os.listdir(descriptor)) if stat.S_ISDIR(state.st_mode) else state.st_size
        found.append((os.readlink(f"/proc/self/fd/{descriptor}"), held))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    return found
