"""Own the order of a session: which rows stand beside each other, and what each of the user's turns is for.

All of it is read from the index over thread and order, never from the rows themselves.
"""

from collections.abc import Collection, Iterable
from typing import cast

import apsw
import msgspec

FIRST = "user, first turn"
"""Before the first reply of a thread: the task."""

ASKING = "user, questions"
"""A turn that led to a search of ours, and the newest turn, which may lead to one."""

OTHER = "user"

REACH = 2
"""Rows on each side that count as beside a row."""

_FIRST_REPLY = "SELECT min(seq) FROM main.messages WHERE thread = ? AND role = 'assistant'"
_LAST_OF_USER = """
SELECT seq FROM main.messages WHERE thread = ?1 AND seq < ?2 AND role = 'user' ORDER BY seq DESC LIMIT 1"""
_BEFORE = "SELECT seq, role FROM main.messages WHERE thread = ? AND seq <= ? ORDER BY seq DESC"
_CALLS = "SELECT seq FROM main.messages WHERE thread = ? AND seq IN (SELECT value FROM json_each(?))"
_THREAD = "SELECT thread FROM main.messages WHERE seq = ?"
_FIRST = "SELECT min(seq) FROM main.messages"
_LAST = "SELECT max(seq) FROM main.messages"
_ORDER = "SELECT thread, seq FROM main.messages ORDER BY thread, seq"

_END = 1 << 62


class Turns:
    """The user's turns of the threads of one session, each thread read when it is first asked about."""

    def __init__(self, connection: apsw.Connection, calls: Collection[int]) -> None:
        """`calls`: the rows that call a tool of ours."""
        self._connection = connection
        self._calls = msgspec.json.encode(list(calls)).decode()
        self._only = only_thread(connection)
        self._threads: dict[str, tuple[int, frozenset[int]]] = {}

    def heading(self, seq: int) -> str:
        """Name the turn of one of the user's rows."""
        thread = self._only or str(self._connection.execute(_THREAD, (seq,)).get)
        if thread not in self._threads:
            self._threads[thread] = self._first_reply(thread), self._asking(thread)
        replied, asking = self._threads[thread]
        if seq < replied:
            return FIRST
        return ASKING if seq in asking else OTHER

    def _first_reply(self, thread: str) -> int:
        return self._connection.execute(_FIRST_REPLY, (thread,)).get or _END

    def _asking(self, thread: str) -> frozenset[int]:
        calls = cast("Iterable[tuple[int]]", self._connection.execute(_CALLS, (thread, self._calls)))
        ends = [_END, *(seq for (seq,) in calls)]
        found: set[int] = set()
        last = _END
        for end in sorted(ends, reverse=True):
            if end > last:  # between the user's last row and this call there is no other
                continue
            last = int(self._connection.execute(_LAST_OF_USER, (thread, end)).get or 0)
            found.update(self._whole_turn(thread, last))
        return frozenset(found)

    def _whole_turn(self, thread: str, last: int) -> Iterable[int]:
        """Return the user's rows that end with `last`: a message of several parts is several rows."""
        for seq, role in cast("Iterable[tuple[int, str]]", self._connection.execute(_BEFORE, (thread, last))):
            if role != "user":
                return
            yield seq


class Positions:
    """Numbers for rows by thread and order: rows `REACH` apart or less are of one thread."""

    def __init__(self, connection: apsw.Connection, *, count: int) -> None:
        """`count`: how many rows there are."""
        first, last = (int(connection.execute(end).get or 0) for end in (_FIRST, _LAST))
        # One thread without gaps is numbered already.
        alone = only_thread(connection) is not None and last - first + 1 == count
        self._places = None if alone else _numbered(connection)
        self.last = last if self._places is None else max(self._places.values(), default=0)
        """The greatest of them. None is below 0."""

    def places(self, seqs: Collection[int]) -> Collection[int]:
        """Return the positions of these rows, in any order."""
        return seqs if self._places is None else [self._places[seq] for seq in seqs]

    def of(self, seqs: Iterable[int]) -> dict[int, int]:
        """Return `seq` by position."""
        if self._places is None:
            return {seq: seq for seq in seqs}
        return {self._places[seq]: seq for seq in seqs}


def only_thread(connection: apsw.Connection) -> str | None:
    """Return the thread of a session that has one only, else None."""
    first = connection.execute("SELECT min(thread) FROM main.messages").get
    last = connection.execute("SELECT max(thread) FROM main.messages").get
    return str(first) if first == last else None


def _numbered(connection: apsw.Connection) -> dict[int, int]:
    places: dict[int, int] = {}
    place = 0
    before = None
    for thread, seq in cast("Iterable[tuple[str, int]]", connection.execute(_ORDER)):
        place += 1 if thread == before else 1 + REACH
        places[seq] = place
        before = thread
    return places
