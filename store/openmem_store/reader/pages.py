"""Own the reading of a long text in pages that join to the stored text."""

from pathlib import Path

import msgspec

from openmem_store.reader import source
from openmem_store.reader.answers import MOST_WEIGHT, RefusedError, weight

_LARGEST = (1 << 63) - 1
"""SQLite's largest integer."""


class Page(msgspec.Struct, frozen=True, omit_defaults=True):
    """One page of a text. Offsets are code points."""

    offset: int
    total_characters: int
    text: str
    next_offset: int | None = None
    """Where the next page begins; None on the last one."""


def cut(text: str, offset: int, limit: int) -> Page:
    """Return at most `limit` characters from `offset`, fewer where the answer would grow too large.

    Raises RefusedError for an offset behind the end.
    """
    if offset > len(text):
        raise RefusedError(f"offset must be at most {len(text)}, the length of this text")
    part = text[offset : offset + limit]
    while (size := weight(msgspec.json.encode(part).decode())) > MOST_WEIGHT:
        part = part[: len(part) * MOST_WEIGHT // size]
    end = offset + len(part)
    return Page(offset, len(text), part, end if end < len(text) else None)


def row(database: Path, seq: int) -> str:
    """Return the whole text of one row. Raises RefusedError where there is none, and as `source.readable`."""
    text = None
    if seq <= _LARGEST:
        with source.opened(database) as connection:
            text = connection.execute("SELECT text FROM main.messages WHERE seq = ?", (seq,)).get
    if not isinstance(text, str):
        raise RefusedError(f"seq {seq} is not in this session: use a seq that smart_compact_search returned")
    return text
