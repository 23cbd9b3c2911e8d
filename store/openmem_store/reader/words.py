"""Own what the words of a query mean to the index, and how text that the index cannot see is found.

Any text is a legal query: each word becomes a quoted FTS5 string, so no character of it is syntax.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import cast

import apsw
import msgspec

from openmem_store.reader import threads

MOST_CHARACTERS = 10_000
"""Of one query; of a longer one the rest is not read."""

MOST_WORDS = 64
"""Distinct words of one query; a longer one is a pasted text, whose first words say enough."""

UNSPACED = re.compile(
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
    glued: tuple[str, ...] = ()
    """Terms of the index that are the word written together with a script without spaces."""

    @property
    def phrase(self) -> str:
        """The word for FTS5: its tokens, one after the other, or a term that it is glued into."""
        own = '"' + self.text.replace('"', '""') + '"'
        return "(" + " OR ".join((own, *(f'"{term}"' for term in self.glued))) + ")" if self.glued else own

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
    """Return the rows that hold a word."""
    return find_all(connection, [word])[0]


def find_all(connection: apsw.Connection, words: Sequence[Word]) -> list[Found]:
    """Return the rows that hold each word: by tokens, or as a part of the text where tokens cannot tell.

    The texts are read once, however many words need it: a pasted text may hold dozens that are not stored.
    """
    by_tokens = [_seqs(connection, _BY_TOKENS, word.phrase) if word.tokens else frozenset[int]() for word in words]
    parts = {
        word: word.folded.encode()
        for word, seqs in zip(words, by_tokens, strict=True)
        if not seqs or UNSPACED.search(word.text)
    }
    holding = _scan(connection, parts) if parts else {}
    return [
        Found(word, seqs | holding.get(word, frozenset[int]()), word in parts)
        for word, seqs in zip(words, by_tokens, strict=True)
    ]


def _scan(connection: apsw.Connection, parts: Mapping[Word, bytes]) -> dict[Word, frozenset[int]]:
    found: dict[Word, list[int]] = {word: [] for word in parts}
    for seq, text in cast("Iterable[tuple[int, bytes]]", connection.execute(_TEXTS)):
        threads.check()
        folded = text.lower()  # of bytes: the letters that SQLite's `lower()` folds
        for word, part in parts.items():
            if part in folded:
                found[word].append(seq)
    return {word: frozenset(seqs) for word, seqs in found.items()}


def rows_with(connection: apsw.Connection, terms: Iterable[str]) -> frozenset[int]:
    """Return the rows that hold any of these terms of the index."""
    return _seqs(connection, _BY_TOKENS, " OR ".join(f'"{term}"' for term in terms))


def line_counts(
    connection: apsw.Connection,
    found: Sequence[Found],
    among: Collection[int],
    without: Mapping[int, Collection[int]],
) -> dict[int, int]:
    """Return how many lines of each row in `among` hold every word.

    `without`: line numbers to leave out, by row.
    """
    if not found:
        return {}
    seqs = sorted(found[0].seqs.intersection(among, *(each.seqs for each in found)))
    if not seqs:
        return {}
    counts = _Lines(connection, found).counts(seqs)
    for seq in without.keys() & counts.keys():
        counts[seq] -= _Lines(connection, found).among(seq, without[seq])
    return {seq: count for seq, count in counts.items() if count}


class _Lines:
    """The lines that hold every word of a query."""

    def __init__(self, connection: apsw.Connection, found: Sequence[Found]) -> None:
        self._connection = connection
        self._match = " AND ".join(each.word.phrase for each in found if not each.scanned)
        scanned = [each.word for each in found if each.scanned]
        self._parts = "".join(_AS_TOKENS_TOO if word.tokens else _AS_PART for word in scanned)
        self._given = [
            text for word in scanned for text in ((word.folded, word.phrase) if word.tokens else (word.folded,))
        ]

    def counts(self, seqs: Sequence[int]) -> dict[int, int]:
        """Return the counts of these rows, ascending."""
        if self._parts:
            return self._query(_COUNT, seqs, " GROUP BY l.message_seq")
        ids = list(_first_column(self._connection.execute(_LINE_IDS, (self._match,))))
        if len(ids) <= len(seqs):
            return self._of_lines(ids, seqs)
        spans = _spans(self._connection, seqs)
        if spans is None:
            return self._query(_COUNT, seqs, " GROUP BY l.message_seq")
        return {seq: bisect_right(ids, last) - bisect_left(ids, first) for seq, first, last in spans}

    def _of_lines(self, ids: Sequence[int], seqs: Collection[int]) -> dict[int, int]:
        """Return the counts of these rows from the lines found: few are looked up one by one."""
        rows = Counter(_first_column(self._connection.execute(_ROWS_OF, (_list(ids),))))
        return {seq: rows[seq] for seq in seqs if seq in rows}

    def among(self, seq: int, numbers: Collection[int]) -> int:
        """Return how many of these lines of one row match."""
        return self._query(_COUNT, [seq], _IN_LINES, _list(numbers)).get(seq, 0)

    def _query(self, start: str, seqs: Sequence[int], end: str, *more: str) -> dict[int, int]:
        source, match = (_FROM_INDEX, (self._match,)) if self._match else (_FROM_ROWS, ())
        statement = f"{start}{source}{self._parts}{end}"
        found = self._connection.execute(statement, (_list(seqs), *match, *self._given, *more))
        return {seq: count for seq, count in cast("Iterable[tuple[int | None, int]]", found) if seq is not None}


def _list(numbers: Collection[int]) -> str:
    return msgspec.json.encode(list(numbers)).decode()


def _spans(connection: apsw.Connection, seqs: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """Return each row's first and last line id, or None where a row's lines are not in one run.

    A writer gives a row's lines consecutive ids. With many lines found in few rows this counts them
    without looking up the row of each.
    """
    found = cast("Iterable[tuple[int, int, int, int]]", connection.execute(_SPANS, (_list(seqs),)))
    spans: list[tuple[int, int, int]] = []
    for seq, first, last, number in found:
        if last - first != number - 1:
            return None
        spans.append((seq, first, last))
    return spans


_BY_TOKENS = "SELECT rowid FROM main.messages_fts WHERE messages_fts MATCH ?"
_TEXTS = "SELECT seq, CAST(text AS BLOB) FROM main.messages"
_LINE_IDS = "SELECT rowid FROM main.lines_fts WHERE lines_fts MATCH ? ORDER BY rowid"
_ROWS_OF = "SELECT l.message_seq FROM json_each(?) f CROSS JOIN main.lines l ON l.id = f.value"
_COUNT = "SELECT l.message_seq, count(*)"
_IN_LINES = " AND l.line_no IN (SELECT value FROM json_each(?))"
_AS_PART = " AND instr(lower(l.text), ?) > 0"
# The index folds letters that `lower()` leaves alone, and does not see what stands between two tokens.
_AS_TOKENS_TOO = """
AND (instr(lower(l.text), ?) > 0 OR l.id IN (SELECT rowid FROM main.lines_fts WHERE lines_fts MATCH ?))"""
# CROSS JOIN fixes the order: from the index to the lines, never over all lines.
_FROM_INDEX = """ FROM main.lines_fts f CROSS JOIN main.lines l ON l.id = f.rowid
WHERE l.message_seq IN (SELECT value FROM json_each(?)) AND lines_fts MATCH ?"""
_FROM_ROWS = " FROM json_each(?) s CROSS JOIN main.lines l ON l.message_seq = s.value WHERE true"
_SPANS = """
SELECT f.message_seq, f.id, l.id, l.line_no FROM json_each(?) s
CROSS JOIN main.lines f ON f.message_seq = s.value AND f.line_no = 1
CROSS JOIN main.lines l ON l.message_seq = s.value
  AND l.line_no = (SELECT max(line_no) FROM main.lines WHERE message_seq = s.value)"""


def _seqs(connection: apsw.Connection, statement: str, value: str) -> frozenset[int]:
    return frozenset(_first_column(connection.execute(statement, (value,))))


def _first_column(rows: object) -> Iterator[int]:
    """Return the one column of a result, without a step of Python for each row."""
    return chain.from_iterable(cast("Iterable[tuple[int]]", rows))
