"""Own the copy of a session database made from its rows alone, for one whose indexes cannot be read.

Every index of the copy is made anew. The original is only read.
"""

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

import apsw

from openmem_store import schema

LINES_FROM_MESSAGES = """INSERT INTO lines (message_seq, line_no, role, text)
  SELECT value->>0, value->>1, value->>2, value->>3 FROM json_each(?)"""

_MESSAGES_AT_ONCE = 500

_TABLES = ("lines", "vectors", "events")
"""What can be made again, or done without."""

_STEPS = 10_000
"""Instructions of SQLite between two questions whether to stop."""


def copy(
    original: Path,
    target: Path,
    *,
    immutable: bool = False,
    durable: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Copy every message of `original` to a new database of the current version at `target`.

    Lines come from the messages where theirs cannot be read; vectors and events that cannot be read
    stay behind. `immutable` as in `schema.open_reader`; `durable`: on disk when this returns; `stop`
    is asked now and then whether to give up. Raises apsw.Error where a message cannot be read and
    for giving up (InterruptError), and schema.UnsupportedSchema; a part of `target` is left then.
    """
    schema.open_reader(original, immutable=immutable).close()
    schema.create(target)
    connection = apsw.Connection(target.absolute().as_uri(), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(schema.BUSY_MS)
        connection.set_progress_handler(stop, _STEPS)
        connection.execute("PRAGMA journal_mode = OFF")  # a copy that fails is thrown away whole
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        schema.migrate(connection)
        connection.execute("ATTACH ? AS original", (schema.read_only(original, immutable=immutable),))
        readable = {table for table in _TABLES if _is_readable(connection, table)}
        connection.execute("BEGIN IMMEDIATE")
        _copy(connection, "messages")
        for table in sorted(readable):
            _copy(connection, table)
        if "lines" not in readable:
            _split(connection)
        connection.execute("COMMIT")
    finally:
        connection.close()


def _is_readable(connection: apsw.Connection, table: str) -> bool:
    """Tell whether every value of a table can be read: a copy that fails in the middle leaves an index undone."""
    columns = _columns(connection, table)
    if not columns:  # a database of version 1 has no events
        return False
    every = " + ".join(f"length(quote({name}))" for name in columns)
    try:
        connection.execute(f"SELECT total({every}) FROM original.{table} NOT INDEXED").fetchall()
    except apsw.CorruptError:
        return False
    return True


def _copy(connection: apsw.Connection, table: str) -> None:
    """Copy a table in one statement: a row-by-row copy would make a segment of the search index per row."""
    columns = ", ".join(_columns(connection, table))
    connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM original.{table} NOT INDEXED")


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA original.table_info({table})")]


def _split(connection: apsw.Connection) -> None:
    """Make the lines of all messages."""
    messages = cast(
        "Iterable[tuple[int, str, str]]", connection.execute("SELECT seq, role, text FROM main.messages ORDER BY seq")
    )
    try:
        for some in itertools.batched(messages, _MESSAGES_AT_ONCE):
            lines = [
                (seq, number, role, line) for seq, role, text in some for number, line in enumerate(text.split("\n"), 1)
            ]
            connection.execute(LINES_FROM_MESSAGES, (json.dumps(lines, ensure_ascii=False),))
    except UnicodeDecodeError as error:
        raise apsw.CorruptError("a message is not valid UTF-8") from error
