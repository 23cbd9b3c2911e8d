"""Own the question what a count counts: the same statement again, over the rows of one origin at a time.

A count over all text that was ever sent also counts the task that quotes the counted lines, the questions
that name them, and what was said about them. A model that sees only the sum takes it for the answer.
"""

from collections.abc import Callable

import apsw
import msgspec

from openmem_store.reader import echoes
from openmem_store.reader.scope import Rows, Scope, breakdown

OWN = "your own searches"

_EVERYTHING = Scope(("user", "assistant", "tool"), None, include_echoes=False)

_SHADOWS = """
PRAGMA temp_store = MEMORY;
CREATE TEMP TABLE chosen (seq INTEGER PRIMARY KEY);
CREATE TEMP VIEW messages AS SELECT * FROM main.messages WHERE seq IN (SELECT seq FROM temp.chosen);
CREATE TEMP VIEW lines AS SELECT * FROM main.lines WHERE message_seq IN (SELECT seq FROM temp.chosen);
"""
"""A name without a schema means the temporary object first."""

_ALL = "SELECT seq FROM main.messages"
_CHOOSE = "INSERT INTO temp.chosen SELECT value FROM json_each(?)"


class Origins:
    """A session's rows by origin, behind the names that a statement reads."""

    def __init__(self, connection: apsw.Connection) -> None:
        """`connection`: a read-only one of its own, whose `messages` and `lines` are shadowed from now on."""
        self._connection = connection
        self._groups = _groups(connection)
        connection.execute(_SHADOWS)
        echoes.prepare(connection, source="temp")

    def count(self, count: Callable[[], int | None], total: int) -> dict[str, int]:
        """Return what `count` returns over the rows of each origin, the largest first, `total` being over all.

        Empty where that says nothing: all of it is of one origin, or the statement reads past the shadows.
        `count` returns None where it fails.
        """
        found: dict[str, int] = {}
        for heading, seqs in self._groups.items():
            self._connection.execute("DELETE FROM temp.chosen")
            self._connection.execute(_CHOOSE, (msgspec.json.encode(seqs).decode(),))
            counted = count()
            if counted is None:
                return {}
            found[heading] = counted
        if all(counted in (0, total) for counted in found.values()):
            return {}
        return breakdown({heading: counted for heading, counted in found.items() if counted})


def _groups(connection: apsw.Connection) -> dict[str, list[int]]:
    rows = Rows(connection, _EVERYTHING)
    seqs = [int(seq) for (seq,) in connection.execute(_ALL)]
    allowed = rows.allowed(seqs)
    groups: dict[str, list[int]] = {}
    for seq in seqs:
        groups.setdefault(rows.heading(seq) if seq in allowed else OWN, []).append(seq)
    return groups
