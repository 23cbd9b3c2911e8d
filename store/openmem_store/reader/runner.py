"""Run one untrusted SELECT against one session database, in a child that may be killed at any moment.

Each lock is needed: a read-only open still lets ATTACH, VACUUM INTO and TEMP objects through, the
authorizer does not bound time, and no limit of SQLite stops work inside one scalar function.
"""

import sys
import time
from collections.abc import Iterator

import apsw
import msgspec

from openmem_store import schema
from openmem_store.reader import echoes, origins, sandbox
from openmem_store.reader.source import Source, connect

MOST_ROWS = 200
MOST_CELL = 2000
"""Characters of one text cell."""

MOST_COLLECTED = 500_000
"""Characters of all cells that are kept: many times what an answer holds, and little memory."""

MOST_NAME = 100
MOST_SAID = 300
"""Characters of a column's name, and of an error: a statement may put anything into either."""

HEAP_BYTES = 128 << 20

QUICK_SECONDS = 0.2
"""CPU time. A count that took longer is not broken down: that takes up to three times as long again."""

BREAKDOWN_SECONDS = 1.0
"""Patience with a breakdown; the count is worth having without it."""

LIMITS = {
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LENGTH: 32 << 20,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 100,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 100,
    apsw.SQLITE_LIMIT_COLUMN: 100,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
"""LENGTH also bounds the reading of a row: a longer message fails only where its text is touched."""

_ACTIONS = {apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE}

_TABLES = frozenset(
    (
        *("messages", "lines", "events", "vectors", "sqlite_master", "sqlite_schema", "json_each", "json_tree"),
        *("source_messages", "source_lines", "echo_rows", "echo_lines", "chosen"),
        *(f"messages_fts{part}" for part in ("", "_data", "_idx", "_docsize", "_config", "_content")),
        *(f"lines_fts{part}" for part in ("", "_data", "_idx", "_docsize", "_config", "_content")),
    )
)
"""FTS5 reads its shadow tables in the statement's name."""

_REFUSED_FUNCTIONS = ("load_extension", "fts3_tokenizer", "fts5", "sqlite_", "geopoly_debug", "rtree", "carray")
"""By prefix: functions that reach outside the file's content, or only exist for debugging."""


class Job(msgspec.Struct, frozen=True):
    """One statement and the session file it reads."""

    source: Source
    sql: str


class Table(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the statement returned, or why it did not."""

    columns: list[str] = []
    rows: list[list[str | int | float | None]] = []
    truncated: bool = False
    """Rows or cells were left out."""
    error: str | None = None
    damaged: bool = False
    """The error is damage of the file, perhaps of an index alone."""
    count_by: dict[str, int] = {}
    """For a single count: the same over the rows of each origin, where that says more than the count."""


def main() -> None:
    """Read a job from stdin and report its table on stdout: at once, and again when more is known of it."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sandbox.ready()
    for table in run(job):
        sandbox.report(msgspec.json.encode(table))
    sandbox.leave()


def run(job: Job) -> Iterator[Table]:
    """Execute the job's statement under every lock, and yield at most `MOST_ROWS` rows.

    A single count comes a second time with its origins. Limits the memory of the whole process: only for a child.
    """
    try:
        connection, shadowed = connect(job.source), connect(job.source)
        echoes.prepare(connection)
    except (apsw.Error, schema.UnsupportedSchema) as error:  # the file may be another one by now
        damaged = isinstance(error, (apsw.CorruptError, apsw.SQLError))
        yield Table(error=f"the session database cannot be read ({type(error).__name__})", damaged=damaged)
        return
    lock(connection)
    begin = time.process_time()
    table = execute(connection, job)
    yield table
    total = single_count(table)
    if total and time.process_time() - begin < QUICK_SECONDS:
        yield msgspec.structs.replace(table, count_by=_origins(shadowed, job, total))


def single_count(table: Table) -> int | None:
    """Return the number that is all a table holds."""
    match table.rows:
        case [[int(count)]]:
            return count
        case _:
            return None


def _origins(connection: apsw.Connection, job: Job, total: int) -> dict[str, int]:
    """Break a count down by origin; empty where that is not possible."""

    deadline = time.monotonic() + BREAKDOWN_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 2000)

    def count() -> int | None:
        lock(connection)
        try:
            return single_count(execute(connection, job))
        finally:
            unlock(connection)

    try:
        return origins.Origins(connection).count(count, total)
    except apsw.Error:
        return {}


def execute(connection: apsw.Connection, job: Job) -> Table:
    """Run a statement on a locked connection, and say in words what fails."""
    try:
        return _rows(connection, job.sql)
    except apsw.Error as error:
        return Table(error=_cause(error, job), damaged=isinstance(error, apsw.CorruptError))
    except UnicodeDecodeError:
        return Table(error="a text value is not valid UTF-8: select hex(value) instead")
    except MemoryError:
        return Table(error="the statement needs too much memory: select fewer or shorter values")
    except ValueError:
        return Table(error="the statement holds a NUL character or another character that SQL cannot carry")


def lock(connection: apsw.Connection) -> None:
    """Take every right from a connection but reading, and bound the size of everything it handles."""
    for limit, most in LIMITS.items():
        connection.limit(limit, most)
    for setting, value in (
        (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
        (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
        (apsw.SQLITE_DBCONFIG_DQS_DML, 0),
        (apsw.SQLITE_DBCONFIG_DQS_DDL, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
    ):
        connection.config(setting, value)
    connection.execute("PRAGMA query_only = 1")
    apsw.hard_heap_limit(HEAP_BYTES)
    connection.authorizer = _authorize


def unlock(connection: apsw.Connection) -> None:
    """Let this program, between two runs of a statement, change its own temporary tables again."""
    connection.authorizer = None
    connection.execute("PRAGMA query_only = 0")


def _authorize(action: int, first: str | None, second: str | None, database: str | None, inner: str | None) -> int:
    """Allow reading this file and nothing else.

    FTS5 itself asks for `PRAGMA data_version`. A common table expression is read as a column without
    a name of a table without a database.
    """
    allowed = (
        action in _ACTIONS
        or (action == apsw.SQLITE_READ and (first in _TABLES or (database is None and second == "")))
        or (action == apsw.SQLITE_FUNCTION and second is not None and _harmless(second))
        or (action == apsw.SQLITE_PRAGMA and first == "data_version" and second is None)
    )
    return apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY


def _harmless(function: str) -> bool:
    return not function.lower().startswith(_REFUSED_FUNCTIONS)


def _rows(connection: apsw.Connection, sql: str) -> Table:
    rows: list[list[str | int | float | None]] = []
    truncated = False
    columns: list[str] = []
    collected = 0
    cursor = connection.cursor()
    cursor.exec_trace = _one_statement()
    for values in cursor.execute(sql):
        columns = columns or [_cut(column[0], MOST_NAME) for column in cursor.get_description()]
        if len(rows) == MOST_ROWS or collected > MOST_COLLECTED:
            truncated = True
            break
        row, cut = _shown(values)
        rows.append(row)
        collected += sum(len(cell) for cell in row if isinstance(cell, str))
        truncated = truncated or cut
    return Table(columns, rows, truncated)


def _one_statement():
    """Return a tracer that refuses a second statement before it runs."""
    seen: list[str] = []

    def trace(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        seen.append(sql)
        return len(seen) == 1

    return trace


def _shown(values: tuple[object, ...]) -> tuple[list[str | int | float | None], bool]:
    shown: list[str | int | float | None] = []
    cut = False
    for value in values:
        match value:
            case str() if len(value) > MOST_CELL:
                shown.append(value[:MOST_CELL])
                cut = True
            case bytes():
                shown.append(f"[blob of {len(value)} bytes: select hex(substr(value, 1, 100)) to see its start]")
            case float() if value in (float("inf"), float("-inf")):
                shown.append(str(value))
            case str() | int() | float() | None:
                shown.append(value)
            case _:
                shown.append(str(value))
    return shown, cut


_CAUSES: dict[type[apsw.Error], str] = {
    apsw.AuthError: "the statement asks for something other than reading this session's tables",
    apsw.NoMemError: "the statement needs too much memory: select fewer or shorter values",
    apsw.TooBigError: "a value or the statement is too big: use substr(text, 1, 1000), or a shorter statement",
    apsw.ExecTraceAbort: "only one statement may be run",
    apsw.CorruptError: "the session database is damaged; smart_compact_search may still read parts of it",
    apsw.FullError: "the statement needs too much room: select fewer or shorter values",
    apsw.IOError: "the session database cannot be read",
}


def _cause(error: apsw.Error, job: Job) -> str:
    """Say what is wrong in words that name no path."""
    fixed = _CAUSES.get(type(error))
    return fixed if fixed is not None else _cut(str(error).replace(job.source.path, "the database"), MOST_SAID)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
