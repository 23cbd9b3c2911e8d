"""Own what a session's file says of its costs: its trims, its calls, and what else changed the size of its prompts."""

from collections.abc import Iterator
from datetime import datetime
from typing import cast

import apsw
from openmem_store import schema
from openmem_store.layout import Layout

from openmem_addon.commands.pricing import Counts
from openmem_addon.commands.savings import Call, Event, Shift, Trim
from openmem_addon.core import compress, texts

CHARS_PER_TOKEN = 4
"""Of a compressed result, whose tokens count for us: the most characters a token of text or code has on average."""

OWN_CHARS_PER_TOKEN = 2.5
"""Of what our tools put in, which counts against us: the fewest."""

FORM = compress.HEAD + compress.TAIL + len(texts.compressed(100_000, "0" * 16, "", ""))
"""Characters of what stands for a compressed result."""

SAME_MOMENT_S = 2.0
"""A result's text is stored beside its row, whose time has no fractions; what a trim compresses is older by then."""


def read(connection: apsw.Connection, layout: Layout) -> list[Event]:
    """Return all of it in the order of time; of the same second the changes last, where most of them count less.

    Empty for a file from before events were recorded. Raises apsw.Error.
    """
    if schema.user_version(connection) < 3:
        return []
    return list(_merged(_events(connection), _shifts(connection, layout)))


_EVENTS = """
SELECT at, kind, tokens_before, tokens_after, model, thread_root, trimmed,
  input_tokens, cache_read_tokens, cache_creation_tokens, output_tokens
FROM events WHERE kind IN ('trim', 'usage') ORDER BY id"""

_Event = tuple[str, str, int | None, int | None, str | None, str | None, int | None, *tuple[int | None, ...]]


def _events(connection: apsw.Connection) -> list[tuple[str, Trim | Call]]:
    """Return the trims and calls in order, each with its time."""
    found: list[tuple[str, Trim | Call]] = []
    for at, kind, before, after, model, thread, trimmed, *counts in cast(
        "list[_Event]", list(connection.execute(_EVENTS))
    ):
        if kind == "trim":
            found.append((at, Trim(before or 0, after or 0)))
        elif any(count is not None for count in counts):
            uncached, read, written, output = counts
            cached = read is not None or written is not None
            used = Counts(uncached or 0, read or 0, written or 0, output or 0)
            found.append((at, Call(model, thread, trimmed or 0, used, cached)))
    return found


_COMPRESSED = "SELECT created_at, thread, length(text), blob_id FROM messages WHERE blob_id IS NOT NULL ORDER BY seq"
_LOOKED_UP = """
SELECT created_at, thread, sum(length(text)) FILTER (WHERE name LIKE ?1),
  count(*) FILTER (WHERE kind = 'tool_result' AND name LIKE ?1) > 0 AND
    count(*) FILTER (WHERE kind IN ('tool_result', 'tool_use') AND name NOT LIKE ?1) = 0
FROM messages GROUP BY created_at, thread HAVING count(*) FILTER (WHERE name LIKE ?1) > 0 ORDER BY min(seq)"""


def _shifts(connection: apsw.Connection, layout: Layout) -> list[tuple[str, Shift]]:
    """Return what compression left out of the prompts and what look-ups put in, each with its time, in order.

    A result that a trim compressed is part of that trim's figures, and left out.
    """
    found: list[tuple[str, Shift]] = []
    for at, thread, size, blob in cast("list[tuple[str, str, int, str]]", list(connection.execute(_COMPRESSED))):
        if size > FORM and _compressed_at_once(layout, blob, at):
            found.append((at, Shift(thread, (size - FORM) // CHARS_PER_TOKEN)))
    own = (f"%{texts.TOOL_PREFIX}%",)
    for at, thread, size, alone in cast("list[tuple[str, str, int, int]]", list(connection.execute(_LOOKED_UP, own))):
        found.append((at, Shift(thread, -round(size / OWN_CHARS_PER_TOKEN), bool(alone))))
    return sorted(found, key=lambda each: each[0])


def _compressed_at_once(layout: Layout, blob: str, at: str) -> bool:
    try:
        return layout.blob(blob).stat().st_mtime <= datetime.fromisoformat(at).timestamp() + SAME_MOMENT_S
    except (OSError, ValueError):
        return False


def _merged(recorded: list[tuple[str, Trim | Call]], waiting: list[tuple[str, Shift]]) -> Iterator[Event]:
    for at, event in recorded:
        while waiting and waiting[0][0] < at:
            yield waiting.pop(0)[1]
        yield event
