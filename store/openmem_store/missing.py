"""Own which rows of a session have no vector of a model yet, and in what order they should get one.

A row is embedded by its head alone. One whose head is blank has nothing to embed and is never missing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import cast

import apsw
import msgspec

_BLANKS = "char(9, 10, 11, 12, 13, 32)"

# EXCEPT reads two indexes; whether a row is trimmed is in the record's head, before its long text.
_MISSING = """
SELECT seq, fingerprint FROM main.messages
WHERE seq IN (SELECT seq FROM main.messages EXCEPT SELECT message_seq FROM main.vectors WHERE model = ?)
ORDER BY in_context, seq DESC"""
_HEAD = "SELECT substr(text, 1, ?) FROM main.messages WHERE seq = ?"
_PENDING = f"""
SELECT count(*) FROM main.messages
WHERE seq IN (SELECT seq FROM main.messages EXCEPT SELECT message_seq FROM main.vectors WHERE model = ?1)
  AND trim(substr(text, 1, ?2), {_BLANKS}) != ''"""
_DONE = "SELECT coalesce(sum(dim > 0), 0), coalesce(sum(dim = 0), 0) FROM main.vectors WHERE model = ?"


class Missing(msgspec.Struct, frozen=True):
    """A row to embed."""

    seq: int
    fingerprint: str
    """Names the row also where a database was replaced and its numbers begin anew."""
    head: str


class Progress(msgspec.Struct, frozen=True):
    """How far the embedding of one or several sessions is, in rows."""

    filled: int = 0
    pending: int = 0
    """Rows that are not blank and still wait."""
    skipped: int = 0
    """Given up after repeated failures."""

    def __add__(self, other: "Progress") -> "Progress":
        return Progress(self.filled + other.filled, self.pending + other.pending, self.skipped + other.skipped)


def rows(
    connection: apsw.Connection,
    model: str,
    *,
    max_chars: int,
    limit: int,
    aside: Collection[str] = (),
    failed: Mapping[str, int] | None = None,
) -> list[Missing]:
    """Return the next rows to embed: trimmed ones first, since those are what a search needs, then the newest.

    `aside`: fingerprints to leave out. `failed`: failures by fingerprint; rows that have any come last.
    """
    found: list[Missing] = []
    for seq, fingerprint in _ordered(connection, model, failed or {}):
        if fingerprint in aside:
            continue
        head = str(connection.execute(_HEAD, (max_chars, seq)).get)
        if head.strip("\t\n\v\f\r "):
            found.append(Missing(seq, fingerprint, head))
        if len(found) == limit:
            break
    return found


def _ordered(connection: apsw.Connection, model: str, failed: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    later: list[tuple[int, str]] = []
    for seq, fingerprint in cast("Iterable[tuple[int, str]]", connection.execute(_MISSING, (model,))):
        if fingerprint in failed:
            later.append((seq, fingerprint))
        else:
            yield seq, fingerprint
    yield from later


def progress(connection: apsw.Connection, model: str, *, max_chars: int) -> Progress:
    """Count the rows of a session that have a vector of `model`, wait for one, and were given up."""
    filled, skipped = cast("tuple[int, int]", connection.execute(_DONE, (model,)).fetchone())
    pending = int(connection.execute(_PENDING, (model, max_chars)).get)  # type: ignore[arg-type]
    return Progress(filled, pending, skipped)
