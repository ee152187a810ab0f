# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load a tokenizer by path or hub id, find the ids around a document, and encode many documents fast.

Needs tokenizers and numpy. The names of special tokens in a document are encoded as ordinary text.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from ..files import durable

if TYPE_CHECKING:
    import tokenizers

TOKEN_VARIABLE = "HF_TOKEN"  # noqa: S105 - the name of a variable
# The patterns of these pre-tokenizers always cut at a single space between two other characters, because none of their
# alternatives contains one. They are those of GPT-2 (tokenizers' own ByteLevel), Llama 3 and Qwen 2.
_LLAMA3 = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
CUT_AT_SPACES = frozenset({_LLAMA3, _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")})
_SPACE = re.compile(r"(?<=\S) (?=\S)")
_ASCII_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
_OTHER_SPACES = "".join(map(chr, (0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)))
# The number of words that one process remembers, in about 100 MB.
WORDS_MOST = 300_000
WORD_CHARACTERS_MOST = 16 << 20
WORDS_AT_ONCE = 512
# How byte-level tokenizers write a space (the printable alphabet for bytes of GPT-2).
SPACE_OF_BYTES = "\u0120"
# Longer texts are encoded in slices of about this many characters.
SLICE_CHARACTERS = 1 << 20
# Above this share of unknown words the table of words costs more than it saves (texts without spaces between words).
UNKNOWN_MOST = 0.3


def _secret(name: str) -> str:
    """Return the hub token in AWS Secrets Manager, as plain text or in a JSON object of one field. Raises DataError."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as exc:
        raise DataError(f"the secret {name} needs the Python package boto3, which is not installed") from exc
    try:
        text = boto3.session.Session().client("secretsmanager").get_secret_value(SecretId=name)["SecretString"].strip()
    except (BotoCoreError, ClientError, KeyError) as exc:
        raise DataError(f"the secret {name} cannot be read ({exc}): check its name, region and permission") from exc
    if text.startswith("{"):
        values = list(json.loads(text).values())
        if len(values) != 1 or not isinstance(values[0], str):
            raise DataError(f"the secret {name} has {len(values)} fields: it must be one text, or JSON with one field")
        return str(values[0])
    return str(text)


def _from_hub(name: str, secret: str) -> tokenizers.Tokenizer:
    import tokenizers

    token = _secret(secret) if secret else os.environ.get(TOKEN_VARIABLE)
    try:
        return tokenizers.Tokenizer.from_pretrained(name, token=token)
    except Exception as exc:  # the library raises many types, also plain Exception
        reason = _hub_reason(exc, bool(token))
        raise DataError(f"the tokenizer {name} cannot be loaded from the hub: {reason}") from None


def _hub_reason(error: Exception, has_token: bool) -> str:
    """Return why the hub failed, and what to do, without the library's own text, which could contain the request."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(getattr(error, "response", None), "status_code", None)
    why = "the given token has no access" if has_token else f"no token was given ({TOKEN_VARIABLE} or --token-secret)"
    # For the library a gated model is a subclass of a missing one.
    if "GatedRepoError" in kinds or (status in (401, 403) and "RepositoryNotFoundError" not in kinds):
        return f"it is gated and {why}; accept its licence there, or copy tokenizer.json here and use its path"
    if "RepositoryNotFoundError" in kinds or "HFValidationError" in kinds:
        return f"the name is unknown there, or it is private and {why}; a folder here needs a tokenizer.json"
    if kinds & {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError", "ConnectError"}:
        return "it cannot be reached from here; copy tokenizer.json here and use its path"
    if "EntryNotFoundError" in kinds:
        return "the model has no tokenizer.json; make one there and use its path"
    return f"{type(error).__name__}; copy tokenizer.json here and use its path"


def load(name: str, secret: str = "") -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """Return the tokenizer of a file, a folder or a hub id, with the content of tokenizer_config.json beside it.

    ``secret`` names the hub token in Secrets Manager, otherwise it is in HF_TOKEN. Raises DataError.
    """
    import tokenizers

    path = Path(name)
    if not path.exists():
        if name.count("/") > 1 or name.startswith((".", "/")) or name.endswith(".json"):
            raise DataError(f"{name} is missing: use a tokenizer.json, its folder, or a hub id such as OWNER/MODEL")
        return _from_hub(name, secret), {}
    file = path / "tokenizer.json" if path.is_dir() else path
    config = file.with_name("tokenizer_config.json")
    try:
        found = tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
        return found, json.loads(config.read_text(encoding="utf-8")) if durable.exists(config) else {}
    except Exception as exc:  # tokenizers raises plain Exception
        raise DataError(f"{file} is not a tokenizer ({exc}): use the tokenizer.json of a trained tokenizer") from exc


@dataclass(frozen=True)
class Ids:
    """The special ids: ``before`` and ``after`` each document, ``eos`` (the last of ``after``), ``pad``.

    ``vocabulary`` is the number of tokens with padding, which is the size of the model's embedding.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    eos: int
    pad: int
    vocabulary: int

    @property
    def dtype(self) -> str:
        """The smallest little-endian type that holds every id, as numpy names it."""
        return "<u2" if self.vocabulary <= 1 << 16 else "<u4"


def ids_of(tokenizer: tokenizers.Tokenizer, config: dict[str, Any], eos: str = "", pad: str = "") -> Ids:
    """Return the ids that end a document and fill a row. Raises DataError if the end is unknown.

    Padding and the end of text are never the same id, because the loss of the end would be masked. If the tokenizer
    has no padding, it gets the first number after the vocabulary.
    """

    def named(key: str) -> str:
        value = config.get(key) or ""
        return str(value.get("content", "")) if isinstance(value, dict) else str(value)

    def number(token: str, what: str) -> int:
        found = tokenizer.token_to_id(token)
        if found is None:
            raise DataError(f"the tokenizer has no token {token} for {what}: use one that it has")
        return int(found)

    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if not (eos or named("eos_token")):
        raise DataError("the tokenizer does not define the token that ends a text: set it with --eos")
    end = number(eos or named("eos_token"), "the end of text")
    chosen = pad or (named("pad_token") if named("pad_token") != (eos or named("eos_token")) else "")
    fill = number(chosen, "padding") if chosen else size
    if fill == end:
        raise DataError(f"padding and the end of text are the same token {chosen}: leave out --pad to get one more")
    before, after = _special_ids(tokenizer)
    if end not in after:
        after = (*after, end)
    return Ids(before, after, end, fill, max(size, fill + 1))


def _special_ids(tokenizer: tokenizers.Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that the tokenizer's own post-processor puts before and after a text."""
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a", add_special_tokens=True).ids
    for at in range(len(full) - len(bare) + 1):
        if full[at : at + len(bare)] == bare:
            return tuple(full[:at]), tuple(full[at + len(bare) :])
    return (), ()


def cuts_at_spaces(definition: dict[str, Any]) -> bool:
    """Return whether a text may be encoded in pieces that begin at single spaces, by the content of tokenizer.json.

    This is possible if encoding never depends on other pieces: BPE without dropout, no normalizer, a pre-tokenizer that
    cuts there, and no added token with white space in or around it.
    """
    model, before = definition.get("model") or {}, definition.get("pre_tokenizer") or {}
    if definition.get("normalizer") or model.get("type") != "BPE" or model.get("dropout"):
        return False
    for token in definition.get("added_tokens") or []:
        flagged = token.get("lstrip") or token.get("rstrip") or token.get("single_word")
        if flagged or any(letter.isspace() for letter in token["content"]):
            return False
    steps = before.get("pretokenizers") or [before]
    if len(steps) == 1:
        last = steps[0]
        return last.get("type") == "ByteLevel" and not last.get("add_prefix_space") and last.get("use_regex", True)
    cut, last = steps[0], steps[-1]
    return (
        len(steps) == 2
        and (cut.get("type"), cut.get("behavior"), cut.get("invert")) == ("Split", "Isolated", False)
        and (cut.get("pattern") or {}).get("Regex") in CUT_AT_SPACES
        and (last.get("type"), last.get("add_prefix_space"), last.get("use_regex")) == ("ByteLevel", False, False)
    )


def pieces(text: str) -> list[str]:
    """Split a text at each single space between two other characters; those spaces are dropped."""
    spaces = _ASCII_SPACES if text.isascii() else _ASCII_SPACES + _OTHER_SPACES
    if "  " in text or text[:1] == " " or text[-1:] == " ":
        return _SPACE.split(text)
    for space in spaces:
        if space in text and (f"{space} " in text or f" {space}" in text):
            return _SPACE.split(text)
    return text.split(" ")


class _Words(dict[str, bytes]):
    """Words and their ids. A missing word is recorded as such, and has no ids until it is added."""

    def __init__(self) -> None:
        super().__init__()
        self.missing: list[str] = []

    def __missing__(self, word: str) -> bytes:
        self.missing.append(word)
        return b""


class Encoder:
    """An encoder of many documents; each process has its own.

    If the tokenizer allows it, each word is encoded once and then looked up, which gives the same ids many times
    faster. One document of each call is encoded in both ways and compared.
    """

    def __init__(self, definition: str, ids: Ids, whole: bool = False) -> None:
        """``definition`` is the text of a tokenizer.json; ``whole`` leaves out the table of words. Raises DataError."""
        import tokenizers

        self.tokenizer = tokenizers.Tokenizer.from_str(definition)
        self.tokenizer.encode_special_tokens = True
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.ids = ids
        self.dtype = np.dtype(ids.dtype)
        self.by_words = not whole and cuts_at_spaces(json.loads(definition))
        self._before = np.array(ids.before, self.dtype).tobytes()
        self._after = np.array(ids.after, self.dtype).tobytes()
        # Words with a leading space, and words at the start of a text.
        self._words = _Words()
        self._heads: dict[str, bytes] = {}
        self._characters = 0
        self._begins = self._begins_with_space() if self.by_words else np.zeros(0, bool)

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """Return the ids of each text with the special ids around it, as bytes of ``ids.dtype``. Raises DataError."""
        if not texts:
            return []
        try:
            found = self._word_by_word(texts) if self.by_words else self._whole(texts)
        except (TypeError, UnicodeEncodeError) as exc:
            raise DataError(f"a text cannot be encoded ({exc}): it has an invalid character") from exc
        return [b"".join((self._before, body, self._after)) for body in found]

    def _whole(self, texts: Iterable[str]) -> list[bytes]:
        encoded = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(one.ids, self.dtype).tobytes() for one in encoded]

    def _word_by_word(self, texts: Sequence[str]) -> list[bytes]:
        found = [b""] * len(texts)
        short = [at for at, text in enumerate(texts) if len(text) <= SLICE_CHARACTERS]
        cut = {at: pieces(texts[at]) for at in short}
        heads = {at: words.pop(0) for at, words in cut.items()}
        unknown = list(set(heads.values()).difference(self._heads))
        self._heads.update(zip(unknown, self._whole(unknown)))
        look, missing, late = self._words.__getitem__, self._words.missing, []
        for at, words in cut.items():
            before = len(missing)
            found[at] = b"".join(map(look, words))
            if len(missing) > before:
                late.append(at)
        self._add_words(sum(map(len, cut.values())))
        for at in late:
            found[at] = b"".join(map(look, cut[at]))
        for at, head in heads.items():
            found[at] = self._heads[head] + found[at]
        if short:
            probe = min(short[:16], key=lambda at: len(texts[at]))
            if found[probe] != self._whole([texts[probe]])[0]:
                raise DataError("this tokenizer gives other ids for a text than for its words: use --whole")
        self._limit_tables()
        for at in set(range(len(texts))).difference(short):
            found[at] = b"".join(self._slices(texts[at]))
        return found

    def _slices(self, text: str) -> Iterator[bytes]:
        """Yield a long text in slices that begin after a space, so that its words need little memory at once."""
        start = 0
        while start <= len(text):
            space = _SPACE.search(text, start + SLICE_CHARACTERS)
            end = space.start() if space else len(text)
            words = pieces(text[start:end])
            if start == 0:
                yield from self._whole(words[:1])
                words = words[1:]
            look = self._words.__getitem__
            encoded = b"".join(map(look, words))
            if self._words.missing:
                self._add_words(len(words))
                encoded = b"".join(map(look, words))
            yield encoded
            self._limit_tables()
            start = end + 1

    def _add_words(self, total: int) -> None:
        """Add the missing words to the table; each is encoded with its leading space.

        If too many of ``total`` words are new, the table is not used any more.
        """
        unknown = list(dict.fromkeys(self._words.missing))
        self._words.missing.clear()
        for begin in range(0, len(unknown), WORDS_AT_ONCE):
            some = unknown[begin : begin + WORDS_AT_ONCE]
            self._words.update(zip(some, self._encode_words(some)))
        self._characters += sum(map(len, unknown))
        if total > 1000 and len(unknown) > UNKNOWN_MOST * total:
            self.by_words = False

    def _encode_words(self, words: list[str]) -> list[bytes]:
        """Return the ids of each of these words, encoded as one text, which is much faster than one by one.

        Every word begins with a token that begins with a space, and no other token does. If a word contains spaces, the
        numbers of words and of such tokens differ.
        """
        (body,) = self._whole(["".join(f" {word}" for word in words)])
        starts = np.flatnonzero(self._begins[np.frombuffer(body, self.dtype)]) * self.dtype.itemsize
        if len(starts) != len(words) or (len(words) and starts[0]):
            return self._whole(f" {word}" for word in words)
        ends = [*starts.tolist()[1:], len(body)]
        return [body[start:end] for start, end in zip(starts.tolist(), ends)]

    def _begins_with_space(self) -> np.ndarray:
        """Return for each id whether its token begins with a space, bool [ids]."""
        tokens = self.tokenizer.get_vocab(with_added_tokens=True)
        found = np.zeros(max(tokens.values()) + 1, bool)
        found[[number for token, number in tokens.items() if token.startswith(SPACE_OF_BYTES)]] = True
        return found

    def _limit_tables(self) -> None:
        known = len(self._words) + len(self._heads)
        if not self.by_words or known > WORDS_MOST or self._characters > WORD_CHARACTERS_MOST:
            self._words.clear()
            self._heads.clear()
            self._characters = 0


def definition_of(tokenizer: tokenizers.Tokenizer) -> tuple[str, str]:
    """Return a tokenizer as text for other processes, and the SHA-256 of the text."""
    text = tokenizer.to_str()
    return text, hashlib.sha256(text.encode()).hexdigest()
