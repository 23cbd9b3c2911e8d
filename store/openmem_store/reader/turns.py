"""Own the order of a session: which rows stand beside each other, and what each of the user's turns is for.

All of it is read from the index over thread and order, never from the rows themselves.
"""

from collections.abc import Iterable
from typing import cast

import apsw
import msgspec

from openmem_store.reader import echoes

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
# A scan: over the index each row would be looked up one by one.
_OWN_CALLS = """
SELECT seq, name FROM main.messages NOT INDEXED
WHERE thread = ?1 AND kind = 'tool_use'
  AND (name LIKE '%smart\\_compact\\_%' ESCAPE '\\' OR seq IN (SELECT value FROM json_each(?2)))"""
_ORDER = "SELECT thread, seq FROM main.messages ORDER BY thread, seq"

_END = 1 << 62


class Turns:
    """The user's turns of the threads of one session, each thread read when it is first asked about."""

    def __init__(self, connection: apsw.Connection, found: echoes.Echoes) -> None:
        self._connection = connection
        self._echoes = found.rows
        self._threads: dict[str, tuple[int, frozenset[int]]] = {}

    def heading(self, thread: str, seq: int) -> str:
        """Name the turn of one of the user's rows."""
        if thread not in self._threads:
            self._threads[thread] = self._first_reply(thread), self._asking(thread)
        replied, asking = self._threads[thread]
        if seq < replied:
            return FIRST
        return ASKING if seq in asking else OTHER

    def _first_reply(self, thread: str) -> int:
        return self._connection.execute(_FIRST_REPLY, (thread,)).get or _END

    def _asking(self, thread: str) -> frozenset[int]:
        given = (thread, msgspec.json.encode(list(self._echoes)).decode())
        calls = cast("Iterable[tuple[int, str]]", self._connection.execute(_OWN_CALLS, given))
        ends = [_END, *(seq for seq, name in calls if seq in self._echoes or echoes.own_tool(name))]
        found: set[int] = set()
        for end in ends:
            last = self._connection.execute(_LAST_OF_USER, (thread, end)).get
            if last is not None and last not in found:
                found.update(self._whole_turn(thread, last))
        return frozenset(found)

    def _whole_turn(self, thread: str, last: int) -> Iterable[int]:
        """Return the user's rows that end with `last`: a message of several parts is several rows."""
        for seq, role in cast("Iterable[tuple[int, str]]", self._connection.execute(_BEFORE, (thread, last))):
            if role != "user":
                return
            yield seq


def positions(connection: apsw.Connection) -> dict[int, int]:
    """Number the rows by thread and order, so that rows `REACH` apart or less are of one thread."""
    found: dict[int, int] = {}
    position = 0
    before = None
    for thread, seq in cast("Iterable[tuple[str, int]]", connection.execute(_ORDER)):
        position += 1 if thread == before else 1 + REACH
        found[seq] = position
        before = thread
    return found
