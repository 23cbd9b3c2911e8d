"""Own what is known of one session's rows before their texts are read: where each comes from, and their order.

Rows are only ever appended, and of a stored one nothing here changes: who said it, which tool, its thread.
So what was read holds while the file is the same and has all its rows; what was added is read when it is
asked for. What does change, `in_context`, is not kept.
"""

from collections.abc import Iterable, Set
from functools import cached_property
from typing import NamedTuple, cast

import apsw
import msgspec

from openmem_store.reader.echoes import Echoes, after, content, own_tool
from openmem_store.reader.turns import Positions, Turns
from openmem_store.reader.vocabulary import Vocabulary


class Origin(NamedTuple):
    """Where a row comes from."""

    role: str
    kind: str
    name: str | None
    """Of the tool."""


_ORIGINS = "SELECT seq, role, kind, name FROM main.messages WHERE seq IN (SELECT value FROM json_each(?))"
# Each is answered at an end of a tree; both in one statement would be a scan.
_COUNT = "SELECT count(*) FROM main.messages"
_LAST = "SELECT max(seq) FROM main.messages"
_ADDED = "SELECT count(*) FROM main.messages WHERE seq > ?"
# A scan: no index has a tool's name.
_CALLS = """
SELECT seq, name FROM main.messages NOT INDEXED
WHERE seq > ? AND kind = 'tool_use' AND name LIKE '%smart\\_compact\\_%' ESCAPE '\\'"""


class Known:
    """The rows of one session, as far as they were asked about.

    A session has thousands; a search for a rare word must not pay for them.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.state: int | None = None
        """SQLite's number for what the file holds; another one after each commit. None: not looked at."""
        self._size: tuple[int, int] | None = None
        """How many rows there are, and the last of them; None before it was asked for."""
        self._begin()

    @property
    def count(self) -> int:
        """How many rows there are."""
        if self._size is None:
            self.refresh()
        return self._size[0] if self._size else 0

    def refresh(self) -> None:
        """Take notice of what was stored since. Where rows are gone, all is read anew.

        For one that outlives a search: before the first, and before each that follows.
        """
        state = int(self.connection.execute("PRAGMA data_version").get)
        if state == self.state:  # nothing was
            return
        size = self._counted()
        if self._size not in (None, size):  # else a flag, a vector, an event
            if self._size and size[1] <= self._size[1]:  # rows are gone
                self._begin()
            self._grown()
        self._size, self.state = size, state

    def __getitem__(self, seq: int) -> Origin:
        """Return where a row comes from. Raises KeyError where there is no such row."""
        if seq not in self._origins:
            self._learn({seq})
        return self._origins[seq]

    def note(self, seq: int, origin: Origin) -> None:
        """Take in where a row comes from that was read in passing."""
        if origin not in self._by_origin:
            self._by_origin[origin] = origin, set()
        shared, seqs = self._by_origin[origin]
        self._origins[seq] = shared
        seqs.add(seq)

    def has(self, seqs: Set[int]) -> bool:
        """Return whether all of `seqs` are rows: an index may name one that is not there."""
        self._learn(seqs)
        return seqs <= self._origins.keys()

    def of_roles(self, seqs: Set[int], roles: Iterable[str]) -> set[int]:
        """Return those of `seqs` that come from one of `roles`."""
        self._learn(seqs)
        wanted = set(roles)
        return set[int]().union(*(rows & seqs for origin, rows in self._by_origin.values() if origin.role in wanted))

    def of_our_tools(self, seqs: Set[int]) -> set[int]:
        """Return those of `seqs` that are calls of our tools, or what these returned, by the tool's name."""
        self._learn(seqs)
        return set[int]().union(*(rows & seqs for origin, rows in self._by_origin.values() if own_tool(origin.name)))

    @property
    def echoes(self) -> Echoes:
        """What tells by its text that it is an answer of ours."""
        if self._echoes is None:
            self._echoes = content(self.connection)
        return self._echoes

    @cached_property
    def turns(self) -> Turns:
        self._learn(self.echoes.rows)
        said = {seq for seq in self.echoes.rows if self[seq].kind == "tool_use"}
        return Turns(self.connection, said | self.calls())

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.connection)

    def positions(self, seqs: Iterable[int]) -> Positions:
        """Return the positions of all rows. `seqs`: rows found by now, one of which may have been stored just now."""
        if self._size is None or max(seqs, default=0) > self._size[1]:
            self.refresh()
        return self._positions

    @cached_property
    def _positions(self) -> Positions:
        return Positions(self.connection, count=self.count)

    def calls(self) -> Set[int]:
        """Return the rows that call our tools by name."""
        found = cast("Iterable[tuple[int, str]]", self.connection.execute(_CALLS, (self._looked_at,)))
        self._calls.update(seq for seq, name in found if own_tool(name))
        self._looked_at = self._size[1] if self._size else 0
        return self._calls

    def _grown(self) -> None:
        """Drop what a new row may change."""
        for each in ("turns", "vocabulary", "_positions"):
            self.__dict__.pop(each, None)
        if self._echoes is not None and self._size is not None:
            self._echoes = after(self.connection, self._size[1], self._echoes)

    def _counted(self) -> tuple[int, int]:
        """Return how many rows there are, and the last of them.

        Those after the last known one are counted alone: to count all reads a page for every sixty.
        """
        last = int(self.connection.execute(_LAST).get or 0)
        if self._size is None or last <= self._size[1]:
            return int(self.connection.execute(_COUNT).get), last
        return self._size[0] + int(self.connection.execute(_ADDED, self._size[1:]).get), last

    def _begin(self) -> None:
        self._origins: dict[int, Origin] = {}
        self._by_origin: dict[Origin, tuple[Origin, set[int]]] = {}
        self._echoes: Echoes | None = None
        self._calls: set[int] = set()
        self._looked_at = 0

    def _learn(self, seqs: Set[int]) -> None:
        missing = seqs - self._origins.keys()
        if not missing:
            return
        if self._size is None:  # else rows that go away before it is known would not be missed
            self.refresh()
        given = (msgspec.json.encode(list(missing)).decode(),)
        found = cast("Iterable[tuple[int, str, str, str | None]]", self.connection.execute(_ORIGINS, given))
        for seq, role, kind, name in found:
            self.note(seq, Origin(role, kind, name))
