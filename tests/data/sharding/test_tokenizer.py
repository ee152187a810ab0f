# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import http.server
import json
import random
import shutil
import threading
from typing import ClassVar

import boto3
import numpy as np
import pytest
import tokenizers
from mlcluster_data import __main__ as command
from mlcluster_data.errors import DataError
from mlcluster_data.sharding import tokenizer as subject
from moto import mock_aws

from tests.data.support import sample_corpus as corpus

ODD = (
    "", " ", "a", " a", "a ", "a  b", "a \n b", "a\n\nb", "a\tb c", "it's we'll  they've", "x 1 22 333 4444",
    "a\u00a0b \u3000c", "\u3000 a", "한국어 문장 입니다", "emoji 🙂 🙂🙂 x", "e\u0301 \u0301x", "<|end|> x <|end|>",
    "- - -- !? a-b", "tab\t \tend", "\x1c \x1d", "a\u2028 b", "\r\n x\r\n",
)  # fmt: skip


def variants(folder):
    """Yield the corpus' tokenizer, and the same vocabulary with the pre-tokenizers of Llama 3 and Qwen 2."""
    definition = json.loads((folder / "tokenizer.json").read_text())
    yield json.dumps(definition)
    for pattern in sorted(subject.CUT_AT_SPACES):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        byte = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        definition["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, byte]}
        yield json.dumps(definition)


def test_encoding_by_words_equals_whole_text(tokenizer, texts):
    rng = random.Random(5)
    letters = "ab é한\u0301🙂1 23  \n\t\u00a0\u3000.,'!-_<|>"
    random_texts = ["".join(rng.choices(letters, k=rng.randint(0, 60))) for _text in range(3000)]
    for definition in variants(tokenizer):
        ids = subject.ids_of(*subject.load(str(tokenizer)))
        fast, whole = (subject.Encoder(definition, ids, whole) for whole in (False, True))
        assert fast.by_words
        assert not whole.by_words
        for some in (list(ODD), random_texts, texts):
            assert fast.encode(some) == whole.encode(some)
            fast.by_words = True


def test_encoding_by_slices_equals_whole_text(tokenizer, monkeypatch):
    monkeypatch.setattr(subject, "SLICE_CHARACTERS", 10)
    ids = subject.ids_of(*subject.load(str(tokenizer)))
    definition = (tokenizer / "tokenizer.json").read_text()
    rng = random.Random(7)
    for _turn in range(200):
        some = ["".join(rng.choices("abcde  \n", k=rng.randint(0, 200))) for _text in range(3)]
        fast, whole = (subject.Encoder(definition, ids, whole) for whole in (False, True))
        assert fast.encode(some) == whole.encode(some)


def test_joined_pieces_equal_text():
    rng = random.Random(6)
    for _turn in range(500):
        text = "".join(rng.choices("ab \n\t\u00a0\u2003é", k=rng.randint(0, 30)))
        assert " ".join(subject.pieces(text)) == text
        assert all(part for part in subject.pieces(text)[1:])


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.update(normalizer={"type": "NFC"}),
        lambda it: it["model"].update(dropout=0.1),
        lambda it: it["pre_tokenizer"].update(add_prefix_space=True),
        lambda it: it.update(pre_tokenizer={"type": "Metaspace"}),
        lambda it: it.update(pre_tokenizer=None),
        lambda it: it["added_tokens"][0].update(content="two words"),
        lambda it: it["added_tokens"][0].update(lstrip=True),
        lambda it: it["model"].update(type="Unigram"),
        lambda it: it.update(
            pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "x"}}] * 2}
        ),
    ],
)
def test_only_known_pre_tokenizers_encode_by_words(tokenizer, change):
    definition = json.loads((tokenizer / "tokenizer.json").read_text())
    assert subject.cuts_at_spaces(definition)
    change(definition)
    assert not subject.cuts_at_spaces(definition)


def test_wrong_word_table_is_detected(tokenizer):
    encoder = subject.Encoder((tokenizer / "tokenizer.json").read_text(), subject.ids_of(*subject.load(str(tokenizer))))
    encoder.encode(["some words here"])
    encoder._words["words"] = encoder._words["here"]
    with pytest.raises(DataError, match="other ids for a text than for its words"):
        encoder.encode(["some words here"])


def test_word_table_is_limited_and_dropped_if_useless(tokenizer, monkeypatch):
    monkeypatch.setattr(subject, "WORDS_MOST", 50)
    encoder = subject.Encoder((tokenizer / "tokenizer.json").read_text(), subject.ids_of(*subject.load(str(tokenizer))))
    encoder.encode([" ".join(corpus.words(60))])
    assert not encoder._words
    assert encoder.by_words
    encoder.encode([" ".join(corpus.words(1500))])
    assert not encoder.by_words


def test_end_and_padding_are_two_tokens(tokenizer):
    found, config = subject.load(str(tokenizer))
    ids = subject.ids_of(found, config)
    assert (ids.before, ids.after) == ((), (ids.eos,))
    assert ids.pad == found.token_to_id(corpus.PAD)
    assert ids.vocabulary == found.get_vocab_size()
    same = subject.ids_of(found, {"eos_token": corpus.END, "pad_token": corpus.END})
    assert (same.pad, same.vocabulary) == (found.get_vocab_size(), found.get_vocab_size() + 1)
    with pytest.raises(DataError, match="the same token"):
        subject.ids_of(found, {}, corpus.END, corpus.END)
    with pytest.raises(DataError, match="set it with --eos"):
        subject.ids_of(found, {})
    with pytest.raises(DataError, match="no token nothing for padding"):
        subject.ids_of(found, config, pad="nothing")


def test_tokens_around_text_are_kept(tokenizer):
    found, config = subject.load(str(tokenizer))
    begin = found.token_to_id(corpus.PAD)
    template = f"{corpus.PAD} $A"
    found.post_processor = tokenizers.processors.TemplateProcessing(
        single=template, special_tokens=[(corpus.PAD, begin)]
    )
    ids = subject.ids_of(found, config)
    assert (ids.before, ids.after) == ((begin,), (ids.eos,))
    encoder = subject.Encoder(subject.definition_of(found)[0], ids)
    first, *_rest, last = np.frombuffer(encoder.encode(["x y"])[0], ids.dtype)
    assert (first, last) == (begin, ids.eos)


def test_ids_have_smallest_integer_type():
    assert subject.Ids((), (), 0, 1, 65536).dtype == "<u2"
    assert subject.Ids((), (), 0, 1, 65537).dtype == "<u4"


def test_special_token_names_in_text_are_plain_text(tokenizer):
    ids = subject.ids_of(*subject.load(str(tokenizer)))
    encoder = subject.Encoder((tokenizer / "tokenizer.json").read_text(), ids)
    (encoded,) = encoder.encode([f"a {corpus.END} b"])
    assert np.frombuffer(encoded, ids.dtype).tolist().count(ids.eos) == 1


@pytest.mark.parametrize("name", ["/none/at/all", "./none", "none.json"])
def test_path_that_is_missing_is_one_sentence(name):
    with pytest.raises(DataError, match="is missing: use a"):
        subject.load(name)


def test_invalid_tokenizer_file_is_one_sentence(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="is not a tokenizer"):
        subject.load(str(tmp_path))


class Hub(http.server.BaseHTTPRequestHandler):
    """A stand-in for the hub: owner/good has a tokenizer; the errors of other names are those of the real hub."""

    content = b""
    answers: ClassVar = {"gated": (403, "GatedRepo"), "missing": (401, "RepoNotFound"), "bare": (404, "EntryNotFound")}
    seen: ClassVar[list[str]] = []

    def do_HEAD(self):
        self.seen.append(self.headers.get("Authorization", ""))
        status, error = self.answers.get(self.path.split("/")[2], (200, ""))
        self.send_response(status)
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(0 if error else len(self.content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(self.content)

    do_GET = do_HEAD  # noqa: N815 - the name that the server calls

    def log_message(self, *_arguments):
        """Print nothing."""


@pytest.fixture
def hub(monkeypatch, tokenizer, tmp_path):
    """Yield a local hub that replaces the real one."""
    from huggingface_hub import constants
    from huggingface_hub import file_download as download

    Hub.content = (tokenizer / "tokenizer.json").read_bytes()
    Hub.seen.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(
        download, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}", raising=False
    )
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield Hub
    server.shutdown()
    thread.join()
    server.server_close()


def test_tokenizer_comes_from_hub_by_its_id(hub, tokenizer, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    found, config = subject.load("owner/good")
    assert found.get_vocab_size() == subject.load(str(tokenizer))[0].get_vocab_size()
    assert config == {}
    assert "Bearer hf_secret" in hub.seen


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("owner/gated", "it is gated and no token was given (HF_TOKEN or --token-secret); accept its licence there"),
        ("owner/missing", "the name is unknown there, or it is private"),
        ("owner/bare", "the model has no tokenizer.json"),
    ],
)
def test_rejection_by_hub_is_one_sentence(hub, inputs, tmp_path, capsys, name, words):
    options = ["--input", str(inputs), "--output", str(tmp_path / "out"), "--tokenizer", name]
    assert command.main(["preprocess", *options]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith(f"ERROR: the tokenizer {name} cannot be loaded from the hub: ")
    assert words in errors[0]


def test_rejected_token_is_never_shown(hub, inputs, tmp_path, capsys, monkeypatch, caplog):
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    options = ["--input", str(inputs), "--output", str(tmp_path / "out"), "--tokenizer", "owner/gated"]
    assert command.main(["preprocess", *options]) == 1
    printed = capsys.readouterr()
    assert "the given token has no access" in printed.err
    assert "Bearer hf_verysecret" in hub.seen
    assert "hf_verysecret" not in printed.out + printed.err + caplog.text
    assert not any("hf_verysecret" in path.read_text() for path in tmp_path.rglob("*.json"))


def test_unreachable_hub_is_one_sentence(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "is_offline_mode", lambda: True, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match="it cannot be reached from here; copy"):
        subject.load("owner/far")


@pytest.mark.parametrize("value", ["hf_secret", '{"token": "hf_secret"}'])
def test_token_comes_from_secrets_manager(hub, monkeypatch, value):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("secretsmanager").create_secret(Name="hub", SecretString=value)
        assert subject._secret("hub") == "hf_secret"


@pytest.mark.parametrize(("name", "words"), [("none", "cannot be read"), ("two", "has 2 fields")])
def test_unusable_secret_is_one_sentence(monkeypatch, name, words):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("secretsmanager").create_secret(Name="two", SecretString='{"a": "hf_x", "b": "hf_y"}')
        with pytest.raises(DataError, match=words) as caught:
            subject._secret(name)
    assert "hf_" not in str(caught.value)


def test_folder_copied_elsewhere_gives_same_definition(tokenizer, tmp_path):
    shutil.copytree(tokenizer, tmp_path / "copy")
    first, second = (subject.definition_of(subject.load(str(path))[0])[1] for path in (tokenizer, tmp_path / "copy"))
    assert first == second
