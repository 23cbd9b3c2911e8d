"""Own which rows of one session a search may return, and under which heading each is counted."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, cast

import apsw
import msgspec

from openmem_store.reader import echoes

MOST_HEADINGS = 20
"""Headings of a breakdown; the rest is counted as `other`."""


class Scope(msgspec.Struct, frozen=True):
    """The filters of one search."""

    roles: tuple[str, ...]
    in_context: bool | None
    """None means both."""
    include_echoes: bool


class Row(NamedTuple):
    """What is known of a row before its text is read."""

    seq: int
    thread: str
    role: str
    kind: str
    name: str | None
    in_context: int


class Rows(msgspec.Struct, frozen=True):
    """The rows of one session, in the order they were stored."""

    every: dict[int, Row]
    allowed: frozenset[int]
    """Rows that pass the filters and are no echo."""
    echoes: echoes.Echoes
    echo_count: int
    """Echo rows that only their being echoes keeps out."""
    replied: dict[str, int]
    """`seq` of the first assistant row of each thread."""

    def heading(self, seq: int) -> str:
        """Name the kind of row that `seq` is, so that a count shows where its lines come from.

        The first turn is apart: it holds the task, which often quotes the very lines that are counted.
        """
        row = self.every[seq]
        if row.role == "user":
            first = seq < self.replied.get(row.thread, seq + 1)
            return "user, first turn" if first else "user"
        if row.role == "tool":
            return f"tool result {row.name}" if row.name else "tool result"
        return {"tool_use": f"call {row.name}", "thinking": "thinking"}.get(row.kind, row.role)


# `in_context` is read from the record's header, so no statement here touches the pages of a long text.
_ROWS = "SELECT seq, thread, role, kind, name, in_context FROM main.messages ORDER BY seq"


def load(connection: apsw.Connection, scope: Scope) -> Rows:
    """Prepare a session's views on the connection, and return its rows under the filters."""
    found = echoes.prepare(connection, include=scope.include_echoes)
    every = {row[0]: Row(*row) for row in cast("Iterable[Row]", connection.execute(_ROWS))}
    passing = {seq for seq, row in every.items() if _passes(row, scope)}
    replied: dict[str, int] = {}
    for seq, row in every.items():
        if row.role == "assistant":
            replied.setdefault(row.thread, seq)
    return Rows(every, frozenset(passing - found.rows), found, len(passing & found.rows), replied)


def breakdown(counts: dict[str, int]) -> dict[str, int]:
    """Return counts by heading, the largest first, small ones added up."""
    ordered = Counter(counts).most_common()
    kept = dict(ordered[:MOST_HEADINGS])
    rest = sum(count for _, count in ordered[MOST_HEADINGS:])
    return {**kept, "other": rest} if rest else kept


def _passes(row: Row, scope: Scope) -> bool:
    return row.role in scope.roles and (scope.in_context is None or bool(row.in_context) == scope.in_context)
