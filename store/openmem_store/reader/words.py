"""Own what the words of a query mean to the index, and how text that the index cannot see is found.

Any text is a legal query: each word becomes a quoted FTS5 string, so no character of it is syntax.
"""

import re
from collections.abc import Iterable, Sequence
from typing import cast

import apsw
import msgspec

MOST_CHARACTERS = 10_000
"""Of one query; of a longer one the rest is not read."""

MOST_WORDS = 64
"""Distinct words of one query; a longer one is a pasted text, whose first words say enough."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
"""Scripts written without spaces: the index holds a whole run as one token, so a word in it needs a scan."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
"""SQLite's `lower()` folds these only."""


class Word(msgspec.Struct, frozen=True):
    """One word of a query."""

    text: str
    tokens: tuple[str, ...]
    """As the index folds them; empty for a word of punctuation only."""

    @property
    def phrase(self) -> str:
        """The word as an FTS5 string: its tokens, one after the other."""
        return '"' + self.text.replace('"', '""') + '"'

    @property
    def folded(self) -> str:
        """The word as a scan looks for it."""
        return self.text.translate(_ASCII_LOWER)


class Found(msgspec.Struct, frozen=True):
    """The rows that hold a word."""

    word: Word
    seqs: frozenset[int]
    scanned: bool
    """Found as a part of the text, not by tokens; its lines must be found the same way."""


class Tokenizer:
    """Cut text as the index does, or as another tokenizer of FTS5."""

    def __init__(self, connection: apsw.Connection, name: str = "unicode61", *arguments: str) -> None:
        self._cut = connection.fts5_tokenizer(name, list(arguments))

    def tokens(self, text: str) -> tuple[str, ...]:
        """Return the folded tokens of a query word."""
        found = self._cut(text.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False)
        return tuple(cast("Iterable[str]", found))


def parse(query: str, tokenizer: Tokenizer) -> tuple[Word, ...]:
    """Return the distinct words of the first `MOST_CHARACTERS` of a query, in order, at most `MOST_WORDS`."""
    words: dict[tuple[str, ...], Word] = {}
    for text in _UNSTORABLE.sub(" ", query[:MOST_CHARACTERS]).split():
        tokens = tokenizer.tokens(text)
        words.setdefault(tokens or (text,), Word(text, tokens))
        if len(words) == MOST_WORDS:
            break
    return tuple(words.values())


def find(connection: apsw.Connection, word: Word) -> Found:
    """Return the rows that hold a word: by tokens, or as a part of the text where tokens cannot tell."""
    seqs = _seqs(connection, _BY_TOKENS, word.phrase) if word.tokens else frozenset[int]()
    scanned = not seqs or _UNSPACED.search(word.text) is not None
    if scanned:
        seqs |= _seqs(connection, _BY_SCAN, word.folded)
    return Found(word, seqs, scanned)


def rows_with(connection: apsw.Connection, terms: Iterable[str]) -> frozenset[int]:
    """Return the rows that hold any of these terms of the index."""
    return _seqs(connection, _BY_TOKENS, " OR ".join(f'"{term}"' for term in terms))


def line_counts(connection: apsw.Connection, found: Sequence[Found]) -> dict[int, int]:
    """Return how many lines of each row hold every word, our own answers left out."""
    if not found:
        return {}
    seqs = sorted(found[0].seqs.intersection(*(each.seqs for each in found)))
    if not seqs:
        return {}
    phrases = [each.word.phrase for each in found if not each.scanned]
    parts = [each.word.folded for each in found if each.scanned]
    statement = _LINES_BY_TOKENS if phrases else _LINES_BY_SCAN
    statement += " AND instr(lower(l.text), ?) > 0" * len(parts) + " GROUP BY l.message_seq"
    first = " AND ".join(phrases) if phrases else msgspec.json.encode(seqs).decode()
    return dict(cast("Iterable[tuple[int, int]]", connection.execute(statement, (first, *parts))))


_BY_TOKENS = "SELECT rowid FROM main.messages_fts WHERE messages_fts MATCH ?"
_BY_SCAN = "SELECT seq FROM main.messages WHERE instr(lower(text), ?) > 0"
# CROSS JOIN fixes the order: from the index to the lines, never over all lines.
_LINES_BY_TOKENS = """
SELECT l.message_seq, count(*) FROM main.lines_fts f CROSS JOIN temp.source_lines l ON l.id = f.rowid
WHERE lines_fts MATCH ?"""
_LINES_BY_SCAN = """
SELECT l.message_seq, count(*) FROM json_each(?) s CROSS JOIN temp.source_lines l ON l.message_seq = s.value
WHERE true"""


def _seqs(connection: apsw.Connection, statement: str, value: str) -> frozenset[int]:
    return frozenset(seq for (seq,) in cast("Iterable[tuple[int]]", connection.execute(statement, (value,))))
