"""Own which rows of one session a search may return, and under which heading each is counted."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, cast

import apsw
import msgspec

from openmem_store.reader import echoes, turns

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


# `in_context` is read from the record's header, so no statement here touches the pages of a long text.
_COLUMNS = "seq, thread, role, kind, name, in_context"
_ROWS = f"SELECT {_COLUMNS} FROM main.messages WHERE seq IN (SELECT value FROM json_each(?))"
_TEXTS = f"""
SELECT {_COLUMNS}, text FROM main.messages
WHERE role IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR in_context = ?2)"""
_AMONG = " AND seq IN (SELECT rowid FROM main.messages_fts WHERE messages_fts MATCH ?3)"
_NEWEST_FIRST = " ORDER BY seq DESC"


class Rows:
    """The rows of one session under the filters of a search, read when they are asked for.

    A session has thousands; a search for a rare word must not pay for them.
    """

    def __init__(self, connection: apsw.Connection, scope: Scope) -> None:
        self.echoes = echoes.NO_ECHOES if scope.include_echoes else echoes.content(connection)
        self._connection = connection
        self._scope = scope
        self._known: dict[int, Row] = {}

    def __getitem__(self, seq: int) -> Row:
        if seq not in self._known:
            self._read((seq,))
        return self._known[seq]

    def __len__(self) -> int:
        return self._count

    def allowed(self, seqs: Iterable[int]) -> frozenset[int]:
        """Return those of `seqs` that pass the filters and are no echo."""
        return frozenset(seq for seq in self._passing(seqs) if not self.is_echo(self._known[seq]))

    def excluded(self, seqs: Iterable[int]) -> int:
        """Return how many of `seqs` only their being echoes keeps out."""
        return sum(1 for seq in self._passing(seqs) if self.is_echo(self._known[seq]))

    def is_echo(self, row: Row) -> bool:
        """Tell whether a row is one of our own answers, or the call for one, and is to be left out."""
        return not self._scope.include_echoes and (row.seq in self.echoes.rows or echoes.own_tool(row.name))

    def texts(self, match: str | None = None) -> Iterator[tuple[Row, str]]:
        """Return every row that passes the filters, echoes too, and its text, the newest first.

        `match`: only rows that the index finds for this FTS5 query.
        """
        given = (msgspec.json.encode(self._scope.roles).decode(), self._scope.in_context)
        statement, bindings = (_TEXTS, given) if match is None else (_TEXTS + _AMONG, (*given, match))
        found = cast("Iterable[tuple[Any, ...]]", self._connection.execute(statement + _NEWEST_FIRST, bindings))
        for *columns, text in found:
            row = self._known[columns[0]] = Row(*columns)
            yield row, text

    def heading(self, seq: int) -> str:
        """Name the kind of row that `seq` is, so that a count shows where its lines come from.

        Of the user's turns the first is apart: it holds the task, which often quotes the very lines that
        are counted. So are those that asked for something: they name it as the counted lines do.
        """
        row = self[seq]
        if row.role == "user":
            return self._turns.heading(row.thread, seq)
        if row.role == "tool":
            return f"tool result {row.name}" if row.name else "tool result"
        return {"tool_use": f"call {row.name}", "thinking": "thinking"}.get(row.kind, row.role)

    @cached_property
    def positions(self) -> dict[int, int]:
        """Number the rows by thread and order, with gaps between threads that no row reaches across."""
        return turns.positions(self._connection)

    @cached_property
    def _turns(self) -> turns.Turns:
        return turns.Turns(self._connection, self.echoes)

    @cached_property
    def _count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM main.messages").get)

    def _passing(self, seqs: Iterable[int]) -> list[int]:
        wanted = list(seqs)
        self._read(wanted)
        return [seq for seq in wanted if seq in self._known and _passes(self._known[seq], self._scope)]

    def _read(self, seqs: Iterable[int]) -> None:
        missing = [seq for seq in seqs if seq not in self._known]
        if missing:
            found = self._connection.execute(_ROWS, (msgspec.json.encode(missing).decode(),))
            self._known.update((columns[0], Row(*columns)) for columns in cast("Iterable[Row]", found))


def breakdown(counts: dict[str, int]) -> dict[str, int]:
    """Return counts by heading, the largest first, small ones added up."""
    ordered = Counter(counts).most_common()
    kept = dict(ordered[:MOST_HEADINGS])
    rest = sum(count for _, count in ordered[MOST_HEADINGS:])
    return {**kept, "other": rest} if rest else kept


def _passes(row: Row, scope: Scope) -> bool:
    return row.role in scope.roles and (scope.in_context is None or bool(row.in_context) == scope.in_context)
