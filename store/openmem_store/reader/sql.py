"""Own the statement gate and the size of a table that goes back to a model."""

import re
from pathlib import Path

import apsw
import msgspec

from openmem_store import schema
from openmem_store.reader import child, runner, standin
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


async def run(database: Path, statement: str) -> Table:
    """Run one SELECT against a session database, or against a copy of its messages where an index is damaged.

    Raises RefusedError for a statement that is not one SELECT, fails, or takes over `SECONDS`.
    """
    check(statement)
    table = await _run(database, statement)
    if table.damaged:
        async with standin.copies({"": database}) as found:
            for copy in found.values():
                table = msgspec.structs.replace(await _run(copy, statement), search_index=standin.SAID)
    if table.error is not None:
        raise RefusedError(f"sql failed: {table.error}")
    return fit(table)


async def _run(database: Path, statement: str) -> Table:
    try:
        with readable(database) as source:
            job = msgspec.json.encode(runner.Job(source, statement))
            outcome = await child.run("openmem_store.reader.runner", job, seconds=SECONDS)
    except (apsw.Error, schema.UnsupportedSchema) as error:
        raise RefusedError(f"the session database cannot be read ({type(error).__name__})") from error
    if outcome.timed_out and outcome.report is None:
        raise RefusedError(
            f"sql was stopped after {SECONDS:g} s: narrow it, for example by seq, role or lines_fts MATCH, "
            "and join on message_seq = seq"
        )
    if outcome.report is None:
        raise RefusedError("sql ended its process: it needs too much memory or time; select fewer or shorter values")
    return msgspec.json.decode(outcome.report, type=Table)


def fit(table: Table) -> Table:
    """Halve the rows until the table is within `MOST_CHARACTERS`."""
    rows = table.rows
    truncated = table.truncated
    while rows and weight(msgspec.json.encode(rows).decode()) > MOST_CHARACTERS:
        rows = rows[: len(rows) // 2]
        truncated = True
    return Table(table.columns, rows, truncated, count_by=table.count_by, search_index=table.search_index)
