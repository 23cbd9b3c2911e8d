"""Own which rows of one session a search may return, and under which heading each is counted."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, cast

import apsw
import msgspec

from openmem_store.reader import echoes, turns
from openmem_store.reader.known import Known, Origin
from openmem_store.reader.vocabulary import Vocabulary

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


_TEXTS = "SELECT seq, role, kind, name, text FROM main.messages"
_MOVED = "SELECT seq FROM main.messages WHERE in_context = ? AND seq IN (SELECT value FROM json_each(?))"
_LISTED = " AND seq IN (SELECT value FROM json_each(?))"
_FOUND = "SELECT rowid FROM main.messages_fts WHERE messages_fts MATCH ?"
_NEWEST_FIRST = " ORDER BY seq DESC"


class Rows:
    """The rows of one session under the filters of a search, read when they are asked for."""

    def __init__(self, connection: apsw.Connection, scope: Scope, known: Known | None = None) -> None:
        """`known`: what earlier searches over this connection learnt."""
        self._connection = connection
        self._scope = scope
        self._known = known or Known(connection)
        self.echoes = echoes.NO_ECHOES if scope.include_echoes else self._known.echoes
        self._asked: set[int] = set()
        self._in_context: set[int] = set()

    def __getitem__(self, seq: int) -> Row:
        return Row(seq, *self._known[seq])

    def __len__(self) -> int:
        return self._known.count

    def allowed(self, seqs: Collection[int]) -> frozenset[int]:
        """Return those of `seqs` that pass the filters and are no echo."""
        return self.apart(seqs)[0]

    def apart(self, seqs: Collection[int]) -> tuple[frozenset[int], int]:
        """Return those of `seqs` that are allowed, and how many only their being echoes keeps out."""
        passing = self._passing(seqs)
        excluded = self._echoes(passing)
        return frozenset(passing - excluded), len(excluded)

    def is_echo(self, row: Row) -> bool:
        """Tell whether a row is one of our own answers, or the call for one, and is to be left out."""
        return not self._scope.include_echoes and (row.seq in self.echoes.rows or echoes.own_tool(row.name))

    def texts(self, match: str = "") -> Iterator[tuple[Row, str]]:
        """Return every row that passes the filters, echoes too, and its text, the newest first.

        `match`: an FTS5 query that the rows fulfil which are of interest; none for all of them. Others may
        come too, as all do where the index is damaged.
        """
        found = self._found(match) if match else None
        more, given = ("", ()) if found is None else (_LISTED, (msgspec.json.encode(found).decode(),))
        filters, values = _filters(self._scope)
        statement = _TEXTS + filters + more + _NEWEST_FIRST
        rows = cast("Iterable[tuple[Any, ...]]", self._connection.execute(statement, (*values, *given)))
        for seq, *origin, text in rows:
            self._known.note(seq, Origin(*origin))
            yield Row(seq, *origin), text

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
        role, kind, name = self._known[seq]
        if role == "user":
            return self._turns.heading(seq)
        if role == "tool":
            return f"tool result {name}" if name else "tool result"
        return {"tool_use": f"call {name}", "thinking": "thinking"}.get(kind, role)

    @property
    def vocabulary(self) -> Vocabulary:
        return self._known.vocabulary

    def positions(self, seqs: Iterable[int]) -> turns.Positions:
        """Return the positions of all rows, among them `seqs`."""
        return self._known.positions(seqs)

    @cached_property
    def _turns(self) -> turns.Turns:
        if self._scope.include_echoes:  # then a call counts by its tool's name alone
            return turns.Turns(self._connection, self._known.calls())
        return self._known.turns

    def _passing(self, seqs: Collection[int]) -> set[int]:
        """Return those of `seqs` that pass the filters, echoes too."""
        passing = self._known.of_roles(set(seqs), self._scope.roles)
        if self._scope.in_context is None:
            return passing
        self._look(passing - self._asked)
        return passing & self._in_context

    def _echoes(self, seqs: set[int]) -> set[int]:
        if self._scope.include_echoes:
            return set()
        return seqs & self.echoes.rows | self._known.of_our_tools(seqs)

    def _look(self, seqs: set[int]) -> None:
        """Learn which of `seqs` are in context, or out of it, as the filter wants. It may change with any call."""
        given = (self._scope.in_context, msgspec.json.encode(list(seqs)).decode())
        found = cast("Iterable[tuple[int]]", self._connection.execute(_MOVED, given))
        self._in_context.update(chain.from_iterable(found))
        self._asked |= seqs


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
