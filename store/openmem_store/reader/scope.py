"""Own which rows of one session a search may return, and under which heading each is counted."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
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
    role: str
    kind: str
    name: str | None


_COLUMNS = "seq, role, kind, name"
_ONE = f"SELECT {_COLUMNS} FROM main.messages WHERE seq = ?"
_ROWS = f"SELECT {_COLUMNS} FROM main.messages"
_TEXTS = f"SELECT {_COLUMNS}, text FROM main.messages"
_LISTED = " AND seq IN (SELECT value FROM json_each(?))"
_FOUND = "SELECT rowid FROM main.messages_fts WHERE messages_fts MATCH ?"
_NEWEST_FIRST = " ORDER BY seq DESC"


class Rows:
    """The rows of one session under the filters of a search, read when they are asked for.

    A session has thousands; a search for a rare word must not pay for them.
    """

    def __init__(self, connection: apsw.Connection, scope: Scope) -> None:
        self.echoes = echoes.NO_ECHOES if scope.include_echoes else echoes.content(connection)
        self._connection = connection
        self._include_echoes = scope.include_echoes
        self._passing, self._given = _filters(scope)
        self._known: dict[int, Row] = {}
        self._asked: set[int] = set()
        self._allowed: set[int] = set()
        self._excluded: set[int] = set()

    def __getitem__(self, seq: int) -> Row:
        row = self._known.get(seq)
        if row is None:
            (columns,) = self._connection.execute(_ONE, (seq,))
            row = self._known[seq] = Row(*columns)
        return row

    def __len__(self) -> int:
        return self._count

    def allowed(self, seqs: Collection[int]) -> frozenset[int]:
        """Return those of `seqs` that pass the filters and are no echo."""
        self._read(seqs)
        return frozenset(self._allowed.intersection(seqs))

    def excluded(self, seqs: Collection[int]) -> int:
        """Return how many of `seqs` only their being echoes keeps out."""
        self._read(seqs)
        return len(self._excluded.intersection(seqs))

    def is_echo(self, row: Row) -> bool:
        """Tell whether a row is one of our own answers, or the call for one, and is to be left out."""
        return not self._include_echoes and (row.seq in self.echoes.rows or echoes.own_tool(row.name))

    def texts(self, match: str = "") -> Iterator[tuple[Row, str]]:
        """Return every row that passes the filters, echoes too, and its text, the newest first.

        `match`: an FTS5 query that the rows fulfil which are of interest; none for all of them. Others may
        come too, as all do where the index is damaged.
        """
        found = self._found(match) if match else None
        more, given = ("", ()) if found is None else (_LISTED, (msgspec.json.encode(found).decode(),))
        statement = _TEXTS + self._passing + more + _NEWEST_FIRST
        rows = cast("Iterable[tuple[Any, ...]]", self._connection.execute(statement, (*self._given, *given)))
        for *columns, text in rows:
            row = self._known[columns[0]] = Row(*columns)
            yield row, text

    def _found(self, match: str) -> list[int] | None:
        try:
            return [seq for (seq,) in cast("Iterable[tuple[int]]", self._connection.execute(_FOUND, (match,)))]
        except apsw.Error:
            return None

    def heading(self, seq: int) -> str:
        """Name the kind of row that `seq` is, so that a count shows where its lines come from.

        Of the user's turns the first is apart: it holds the task, which often quotes the very lines that
        are counted. So are those that asked for something: they name it as the counted lines do.
        """
        row = self[seq]
        if row.role == "user":
            return self._turns.heading(seq)
        if row.role == "tool":
            return f"tool result {row.name}" if row.name else "tool result"
        return {"tool_use": f"call {row.name}", "thinking": "thinking"}.get(row.kind, row.role)

    @cached_property
    def positions(self) -> turns.Positions:
        return turns.Positions(self._connection)

    @cached_property
    def _turns(self) -> turns.Turns:
        return turns.Turns(self._connection, self.echoes)

    @cached_property
    def _count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM main.messages").get)

    def _read(self, seqs: Iterable[int]) -> None:
        """Learn which of `seqs` pass the filters. Most rows of a session may be asked for: no call per row."""
        missing = set(seqs) - self._asked
        if not missing:
            return
        given = (*self._given, msgspec.json.encode(list(missing)).decode())
        rows = list(
            map(Row._make, cast("Iterable[Row]", self._connection.execute(_ROWS + self._passing + _LISTED, given)))
        )
        seqs, _, _, names = zip(*rows, strict=True) if rows else ((), (), (), ())
        self._known.update(zip(seqs, rows, strict=True))
        self._asked |= missing
        passing = set(seqs)
        own = any(map(echoes.own_tool, set(names)))
        if not self._include_echoes and (own or not passing.isdisjoint(self.echoes.rows)):
            self._excluded |= {row.seq for row in rows if self.is_echo(row)}
        self._allowed |= passing - self._excluded


def _filters(scope: Scope) -> tuple[str, tuple[str | bool, ...]]:
    """Return the condition of a scope, and what it binds."""
    roles = f" WHERE role IN ({', '.join('?' * len(scope.roles))})"
    if scope.in_context is None:
        return roles, scope.roles
    # Read from the record's header, so that the pages of a long text are not touched.
    return roles + " AND in_context = ?", (*scope.roles, scope.in_context)


def breakdown(counts: dict[str, int]) -> dict[str, int]:
    """Return counts by heading, the largest first, small ones added up."""
    ordered = Counter(counts).most_common()
    kept = dict(ordered[:MOST_HEADINGS])
    rest = sum(count for _, count in ordered[MOST_HEADINGS:])
    return {**kept, "other": rest} if rest else kept
