"""Own the statement gate and the size of a table that goes back to a model."""

import re
from pathlib import Path

import apsw
import msgspec

from openmem_store import schema
from openmem_store.reader import child, results, runner, standin
from openmem_store.reader.answers import RefusedError, weight
from openmem_store.reader.runner import Table
from openmem_store.reader.source import readable

SECONDS = 2.0
"""Wall time of one statement."""

MOST_CHARACTERS = 30_000
"""Of the whole table as JSON."""

_OPAQUE = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*(?:'|\Z)|"(?:[^"]|"")*(?:"|\Z)|`(?:[^`]|``)*(?:`|\Z)|\[[^\]]*(?:\]|\Z)""",
    re.DOTALL,
)
"""Comments, string literals and quoted identifiers, also where they are never closed."""

_FORBIDDEN = re.compile(
    r"\b(ATTACH|DETACH|PRAGMA|INSERT|UPDATE|DELETE|UPSERT|CREATE|DROP|ALTER|VACUUM|REINDEX|ANALYZE|BEGIN|COMMIT"
    r"|ROLLBACK|SAVEPOINT|RELEASE|TRANSACTION|REPLACE\s+INTO)\b",
    re.IGNORECASE,
)


def check(statement: str) -> None:
    """Refuse anything but one SELECT. Raises RefusedError, which says what to write instead.

    This is the friendly half of the gate: it names the mistake. The authorizer in the child is the other.
    """
    if len(statement) > runner.LIMITS[apsw.SQLITE_LIMIT_SQL_LENGTH]:
        raise RefusedError("sql is too long: compute with the tables instead of writing values into the statement")
    if "\0" in statement:
        raise RefusedError("sql must not hold a NUL character")
    visible = _OPAQUE.sub(" ", statement).strip()
    first = re.match(r"\w+", visible)
    if first is None or first[0].upper() not in ("SELECT", "WITH"):
        raise RefusedError("sql must be one statement that begins with SELECT or WITH")
    if ";" in visible.rstrip("; \t\r\n\v\f"):
        raise RefusedError("sql must be one statement: remove what follows the first ';'")
    if found := _FORBIDDEN.search(visible):
        raise RefusedError(f"sql must only read: remove {found[0].upper()} (a name like this goes in double quotes)")


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a statement returned. Without rows, the names of its columns are not known."""

    columns: list[str]
    rows: list[list[str | int | float | None]]
    truncated: bool
    """Rows or cells were left out."""
    count_by: dict[str, int] = {}
    """As in `runner.Table`."""
    search_index: str | None = None
    """What this is from, where the session's index is damaged."""


async def run(database: Path, statement: str, *, do: child.Run = child.run) -> Answer:
    """Run one SELECT against a session database, or against a copy of its messages where an index is damaged.

    `do` has a child do it. Raises RefusedError for a statement that is not one SELECT, fails, or takes over `SECONDS`.
    """
    check(statement)
    table = await _run(database, statement, do)
    search_index = None
    if table.damaged:
        async with standin.copies({"": database}) as found:
            for copy in found.values():
                table, search_index = await _run(copy, statement, do), standin.SAID
    if table.error is not None:
        raise RefusedError(f"sql failed: {table.error}")
    return fit(table, search_index=search_index)


async def _run(database: Path, statement: str, do: child.Run) -> Table:
    try:
        with readable(database) as source:
            job = msgspec.json.encode(runner.Job(source, statement))
            outcome = await do("openmem_store.reader.runner", job, seconds=SECONDS)
    except (apsw.Error, schema.UnsupportedSchema) as error:
        raise RefusedError(f"session_id: this session is {results.unreadable(error)}") from error
    if outcome.timed_out and outcome.report is None:
        raise RefusedError(
            f"sql was stopped after {SECONDS:g} s: narrow it, for example by seq, role or lines_fts MATCH, "
            "and join on message_seq = seq"
        )
    if outcome.report is None:
        raise RefusedError("sql ended its process: it needs too much memory or time; select fewer or shorter values")
    return msgspec.json.decode(outcome.report, type=Table)


def fit(table: Table, *, search_index: str | None = None) -> Answer:
    """Halve the rows until the table is within `MOST_CHARACTERS`; a single row is kept, its cells cut."""
    columns, rows = table.columns, table.rows
    truncated = table.truncated
    while len(rows) > 1 and _weight(columns, rows) > MOST_CHARACTERS:
        rows = rows[: len(rows) // 2]
        truncated = True
    most = runner.MOST_CELL
    while _weight(columns, rows) > MOST_CHARACTERS and most:
        most //= 2
        rows = [[cell[:most] if isinstance(cell, str) else cell for cell in row] for row in rows]
        truncated = True
    return Answer(columns, rows, truncated, count_by=table.count_by, search_index=search_index)


def _weight(columns: list[str], rows: list[list[str | int | float | None]]) -> int:
    return weight(msgspec.json.encode((columns, rows)).decode())
